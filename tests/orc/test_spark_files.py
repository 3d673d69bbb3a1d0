"""Files that Spark wrote, in every codec, are read as Spark reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from hindex.orc import OrcReader
from tests.orc.oracle import Oracle, check_selections
from tests.support.cases import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 6000

#: Many repeats, few repeats and none; nulls in runs and scattered; both calendars; zeros that writers trim.
COLUMNS = """
    id,
    id % 3 = 0 AS flag,
    CAST(id % 7 AS TINYINT) AS tiny,
    CAST(id DIV 10 AS SMALLINT) AS small,
    IF(id % 5 = 0, NULL, CAST(hash(id) AS INT)) AS number,
    xxhash64(id) AS big,
    CAST(id / 7 AS FLOAT) AS single,
    IF(id % 1000 < 900, id / 7, NULL) AS double,
    CAST(hash(id) / 100 AS DECIMAL(12, 2)) AS money,
    CAST(CAST(xxhash64(id) AS DECIMAL(38, 0)) * 1000003 AS DECIMAL(34, 3)) AS huge,
    concat('mode ', id % 6) AS mode,
    IF(id BETWEEN 1800 AND 4200, NULL, repeat(hex(hash(id)), CAST(id % 4 AS INT))) AS text,
    CAST(hex(hash(id)) AS BINARY) AS blob,
    date_add(DATE '0001-01-01', CAST(pmod(hash(id), 900000) AS INT)) AS day,
    timestamp_micros(pmod(xxhash64(id), 8000000000000000) - 4000000000000000) AS moment,
    TIMESTAMP '1500-06-01 12:00:00' + make_dt_interval(CAST(id % 50000 AS INT)) AS old,
    IF(id % 11 = 0, NULL, array(id, NULL, id + 1)) AS list,
    named_struct('a', id, 'b', IF(id % 2 = 0, 'x', NULL)) AS pair,
    map(concat('k', id % 3), id) AS map,
    IF(id % 13 = 0, NULL, named_struct('n', id, 'in', IF(id % 5 = 0 OR id BETWEEN 1800 AND 2600, NULL,
        named_struct('s', repeat(hex(id), CAST(id % 9 AS INT)), 'd', IF(id % 3 = 0, NULL, id / 7))))) AS deep,
    IF(id % 17 = 0, NULL, transform(sequence(0, CAST(pmod(hash(id), 5) AS INT)),
        i -> IF(i = 2, NULL, named_struct('i', i + id, 's', map(concat('k', i), array(id, NULL, i)))))) AS lists
"""


@pytest.fixture(scope="session")
def as_spark_reads(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Oracle]]:
    """For each codec the file, and Spark's rows of it."""
    columns = {}
    for codec in ("none", "zlib", "snappy", "lzo", "lz4", "zstd"):
        path = tmp_path_factory.mktemp("spark") / codec
        frame = spark.range(0, ROWS, 1, 1).selectExpr(*_items(COLUMNS))
        frame.write.option("compression", codec).option("orc.row.index.stride", "1000").orc(str(path))
        (file,) = path.glob("*.orc")
        columns[codec] = file, Oracle(spark.read.orc(str(path)).toArrow())
    return columns


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lzo", "lz4", "zstd"])
@pytest.mark.usefixtures("windows")
def test_rows_of_a_file_that_spark_wrote(
    as_spark_reads: dict[str, tuple[Path, Oracle]], codec: str, rng: np.random.Generator
) -> None:
    file, oracle = as_spark_reads[codec]
    assert OrcReader(file).tail.compression == codec
    check_selections(file, oracle, rng, codec, cases(5, 16))


def test_short_decimals_of_the_next_version(
    spark: SparkSession, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The pre-release of ORC 2.0 has them as integers of version 2, whatever encoding Java tells."""
    items = (
        "id",
        "CAST(hash(id) / 100 AS DECIMAL(12, 2)) AS a",
        "IF(id % 3 = 0, NULL, CAST(id % 9 AS DECIMAL(1, 0))) AS b",
    )
    frame = spark.range(0, 9000, 1, 1).selectExpr(*items)
    frame.write.options(**{"orc.write.format": "UNSTABLE-PRE-2.0", "orc.row.index.stride": "1000"}).orc(
        str(tmp_path / "t")
    )
    (file,) = (tmp_path / "t").glob("*.orc")
    expected = spark.read.orc(str(tmp_path / "t")).toArrow()
    assert OrcReader(file).tail.version == (1, 9999)
    for rows in (np.arange(9000), np.unique(rng.integers(0, 9000, 50))):
        table = OrcReader(file).read(rows=rows)
        for column in ("a", "b"):
            assert table.column(column).equals(expected.column(column).take(pa.array(rows))), column


@pytest.mark.usefixtures("windows")
def test_timestamps_of_far_years(spark: SparkSession, tmp_path: Path) -> None:
    """64-bit microseconds reach some 290,000 years to both sides; those before 1582 are of the older calendar."""
    far = [1 << 62, (1 << 62) + 1, 9_200_000_000_000_000_001]
    moments = [*(-micros for micros in reversed(far)), None, 0, *far]
    frame = spark.createDataFrame([(moment,) for moment in moments], "micros bigint").coalesce(1)
    frame.selectExpr("timestamp_micros(micros) AS moment").write.orc(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.orc")
    read = spark.read.orc(str(path)).selectExpr("unix_micros(moment) AS micros")
    assert [row["micros"] for row in read.collect()] == moments
    for rows in (None, [0, 3, 6]):
        result = OrcReader(path).read(["moment"], rows)["moment"].cast(pa.int64()).to_pylist()
        assert result == (moments if rows is None else [moments[row] for row in rows])


def _items(columns: str) -> list[str]:
    return [item.strip() for item in re.split(r",\n(?=    \S)", columns)]

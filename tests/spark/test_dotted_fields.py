"""Fields of structs whose names hold dots and other signs, against Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.spark.types import quoted
from tests.support.cases import sampled
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 60


@sampled(6)
@pytest.mark.parametrize(
    "path",
    [
        ("st", "a.b"),
        ("st", "a.b.c"),
        ("st", ".a"),
        ("st", "a."),
        ("st", "a..b"),
        ("st", "."),
        ("st", "a.b", "c.d"),
        ("st", "a b.c d"),
        ("st", "ä.ö"),
        ("st.x", "a.b"),
        ("st", "A.b"),
    ],
    ids="/".join,
)
def test_rows_are_sparks(spark: SparkSession, tmp_path: Path, path: tuple[str, ...]) -> None:
    values: list[Any] = [None if at % 7 == 0 else at % 5 for at in range(ROWS)]
    column, *fields = path
    for field in reversed(fields):
        values = [{field: value, "other": 1} for value in values]
    write_columns(tmp_path / "1.orc", {"id": pa.array(range(ROWS)), column: pa.array(values)})
    hx = hindex.connect(spark=spark)
    hx.table(tmp_path).create_index("i", path, "bitmap")
    name = ".".join(map(quoted, path))
    for query in (
        f"SELECT id, {name} AS n FROM {{}} WHERE {name} = 3",
        f"SELECT id FROM {{}} WHERE {name} IS NULL OR {name} IN (1, 2)",
        f"SELECT {name} AS n, count(*) AS rows FROM {{}} GROUP BY {name}",
        f"SELECT {quoted(column)} FROM {{}} WHERE {name.lower()} > 3",
        f"SELECT max({name}) AS n FROM {{}} WHERE NOT {name} = 4",
    ):
        expected = [
            row.asDict(recursive=True) for row in spark.sql(query.format(f"orc.`{tmp_path}`")).collect()
        ]
        result: Any = hx.sql(query.format(f"'{tmp_path}'"))
        assert sorted(map(str, result.to_arrow().to_pylist())) == sorted(map(str, expected))
        assert expected
    assert hx.table(tmp_path).scan(f"{name} = 3").explain().exact

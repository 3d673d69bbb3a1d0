"""Tables as warehouses declare them, beside Spark: rows, types and schema, and what indexes rule out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.errors import PredicateError, UnsupportedError
from hindex.plan.reasons import Reason
from tests.support.queries import compare
from tests.support.small import reasons, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Layout:
    """A table and what is asked of it.

    :param columns: of ``CREATE TABLE``, with ``PARTITIONED BY`` behind them.
    :param changes: statements that come before the indexes are built, with ``{t}`` for the table's name.
    :param indexed: columns that get an index.
    :param queries: conditions, each with the number of rows that it keeps; those that an index answers exactly first.
    :param later: statements between the build and the queries.
    """

    columns: str
    changes: Sequence[str]
    indexed: Sequence[str]
    queries: Sequence[tuple[str, int]]
    exact: int = 0
    later: Sequence[str] = ()
    files: dict[str, dict[str, pa.Array]] = field(default_factory=dict)


LAYOUTS = {
    "string partitions": Layout(
        "(a INT, dt STRING) USING orc PARTITIONED BY (dt)",
        [
            (
                "INSERT INTO {t} VALUES (0, '20240101'), (1, '01'), (2, '1.10'), (3, '2024-01-01'), (4, ''), "
                "(5, ' x'), (6, 'a%b'), (7, 'a=b'), (8, 'a/b'), (9, 'é😀'), (10, 'x '), (11, NULL), (12, '1')"
            ),
        ],
        ["a"],
        [
            ("a = 3", 1),
            ("a >= 9 AND dt IS NOT NULL", 3),
            ("dt = '01'", 1),
            ("dt = '1.10' OR a = 0", 2),
            ("dt IS NULL", 2),
            ("dt > '2'", 7),
            ("dt LIKE 'a%' AND a > 6", 2),
            ("dt = ' x'", 1),
            ("length(dt) = 2", 4),
            ("dt IN ('20240101', 'a/b')", 2),
        ],
        exact=2,
    ),
    "typed partitions": Layout(
        "(a INT, i INT, d DATE, c DECIMAL(10, 3), s SMALLINT, b BOOLEAN, f FLOAT, k CHAR(4), v VARCHAR(9)) USING orc "
        "PARTITIONED BY (i, d, c, s, b, f, k, v)",
        [
            "INSERT INTO {t} VALUES (1, 7, DATE '2024-01-01', 1.5, 3, true, 1.5, 'ab', 'q ')",
            (
                "ALTER TABLE {t} ADD PARTITION (i = '01', d = '2024-02-01', c = '1.10', s = '4', b = 'TRUE', f = '2', "
                "k = 'q', v = 'w')"
            ),
            (
                "INSERT INTO {t} VALUES (2, 1, DATE '2024-02-01', 1.1, 4, true, 2, 'q', 'w'), "
                "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
            ),
        ],
        ["a"],
        [
            ("a = 2", 1),
            ("c = 1.1", 1),
            ("d >= '2024-01-15'", 1),
            ("k = 'q'", 1),
            ("k = 'ab  '", 1),
            ("length(k) = 4 AND v = 'q '", 1),
            ("b AND f > 1.5", 1),
            ("i IS NULL OR s = 3", 2),
        ],
        exact=1,
    ),
    "char and varchar": Layout(
        "(id INT, c CHAR(5), v VARCHAR(4), w CHAR(3)) USING orc",
        [
            (
                "INSERT INTO {t} VALUES (1, 'ab', 'v ', 'ab'), (2, 'abcde', 'vvvv', 'abc'), (3, NULL, NULL, NULL), "
                "(4, '', '', ''), (5, 'a\tb', 'v', 'b')"
            ),
        ],
        ["id", "c", "v"],
        [
            ("c = 'ab'", 1),
            ("c = 'ab   '", 1),
            ("'ab' = c", 1),
            ("c IN ('ab', '')", 2),
            ("c > 'ab'", 1),
            ("c <> 'ab'", 3),
            ("v = 'v'", 1),
            ("v = 'v '", 1),
            ("length(c) = 5", 4),
            ("c LIKE 'ab%'", 2),
            ("c LIKE 'ab'", 0),
            ("c = w", 2),
        ],
        exact=8,
    ),
    "comments": Layout(
        "(id INT NOT NULL COMMENT 'the key', s STRING COMMENT 'it''s') USING orc",
        ["INSERT INTO {t} VALUES (1, 'a'), (2, NULL)"],
        ["id"],
        [("id = 2", 1), ("s = 'a'", 1)],
        exact=1,
    ),
    "strings that are declared as char": Layout(
        "(id BIGINT, c CHAR(4), n CHAR(2), w CHAR(6)) USING orc",
        [],
        ["c", "id"],
        [
            ("c = 'y'", 1),
            ("c IN ('x', 'z')", 2),
            ("id = 2 AND c = 'y'", 1),
            ("c < 'y'", 3),
            # values that are longer than their type are compared in full
            ("c = 'abcdefg'", 1),
            ("c = 'abcd   '", 1),
            ("c = 'abcd'", 0),
            ("c IN ('abcdefg', 'x')", 2),
            ("c IN ('abcd   ', 'abcdefg   ')", 2),
            ("c <> 'abcdefg'", 4),
            ("c >= 'abcde'", 4),
            ("c < 'abcdefz'", 2),
            ("c > 'abcd '", 4),
            ("c <= 'abcd       '", 1),
            # beside a longer literal, or column, they are cut to its length
            ("c = 'abcde'", 1),
            ("c > 'abcde'", 3),
            ("c IN ('abcde', 'x')", 2),
            ("c = w", 2),
            ("n IS NULL", 5),
        ],
        exact=17,
        files={
            "1.orc": {
                "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
                "c": pa.array(["x", "y", "z", "abcdefg", "abcd   "]),
                "w": pa.array(["x", "", "z ", "abcde", None]),
            }
        },
    ),
    "timestamp_ntz": Layout(
        "(id INT, n TIMESTAMP_NTZ, st STRUCT<x: INT, t: TIMESTAMP_NTZ>, l ARRAY<TIMESTAMP_NTZ>) USING orc",
        [
            (
                "INSERT INTO {t} VALUES "
                "(1, TIMESTAMP_NTZ '2024-01-01 00:00:00', struct(1, TIMESTAMP_NTZ '2024-01-01 00:00:00'), NULL), "
                "(2, TIMESTAMP_NTZ '1960-03-31 02:30:00.123456', NULL, array(TIMESTAMP_NTZ '2024-01-01 00:00:00')), "
                "(3, NULL, struct(2, NULL), array()), "
                "(4, TIMESTAMP_NTZ '2024-01-02 00:00:00', struct(3, TIMESTAMP_NTZ '2024-01-03 00:00:00'), array(NULL))"
            )
        ],
        ["n", "id"],
        [
            ("n = '2024-01-01'", 1),
            ("n > '2024-01-01'", 1),
            ("n = TIMESTAMP '2024-01-01 00:00:00'", 1),
            ("n = DATE '2024-01-02'", 1),
            ("n IS NULL", 1),
            ("n BETWEEN '2024-01-01' AND '2024-01-02'", 2),
            ("hour(n) = 2", 1),
            ("st.t >= '2024-01-02'", 1),
            ("CAST(n AS DATE) = DATE '2024-01-01'", 1),
            ("year(n) = 2024 AND id > 1", 1),
        ],
        exact=6,
    ),
    "columns added later": Layout(
        "(id INT) USING orc",
        [
            "INSERT INTO {t} VALUES (1), (2), (3)",
            (
                "ALTER TABLE {t} ADD COLUMNS (e INT DEFAULT 42, f CHAR(4) DEFAULT 'xy', g DECIMAL(10, 2) DEFAULT 1.5, "
                "h STRING, b BOOLEAN DEFAULT true, d DATE DEFAULT DATE '2024-01-01', s STRING DEFAULT 'it''s', "
                "x DOUBLE DEFAULT 1.5, y BIGINT DEFAULT 5, n TIMESTAMP_NTZ)"
            ),
            # the default of later inserts, not of older files
            "ALTER TABLE {t} ALTER COLUMN e SET DEFAULT 43",
            "INSERT INTO {t} (id) VALUES (4)",
        ],
        ["id", "e", "s", "h"],
        [
            ("id = 2", 1),
            ("e = 42", 3),
            ("e <> 42", 2),
            ("e = 43", 1),
            ("s = 'it\\'s'", 4),
            ("h IS NULL", 4),
            ("f = 'xy'", 4),
            ("g > 2", 1),
            ("b AND x = 1.5 AND y + e = 47", 3),
            ("d = '2024-01-01' AND id > 1", 3),
            ("n IS NULL", 5),
        ],
        exact=6,
        later=[
            "INSERT INTO {t} VALUES (5, 41, 'q', 2.5, 'h', false, DATE '2024-02-01', 't', 2.5, 6, NULL)",
        ],
    ),
    "columns added before any insert": Layout(
        "(id INT) USING orc",
        [
            "INSERT INTO {t} VALUES (1), (2)",
            "ALTER TABLE {t} ADD COLUMNS (`New One` STRING, k INT)",
        ],
        ["id", "New One"],
        [("id = 2", 1), ("`New One` IS NULL", 2), ("k = 1", 0), ("`new one` = 'x'", 0), ("k IS NULL", 2)],
        exact=2,
    ),
    "widened": Layout(
        "(id BIGINT, x DOUBLE, d DECIMAL(38, 6), z STRING, s SMALLINT) USING orc",
        [],
        ["id", "x", "d"],
        [("id = 2", 1), ("x = 2.5", 1), ("d = 2.00", 1), ("z IS NULL", 3), ("s = 1 OR id = 3", 2)],
        exact=3,
        files={
            "1.orc": {
                # letters in another case, too
                "ID": pa.array([1, 2, 3], pa.int32()),
                "x": pa.array([1, 2.5, 3], pa.float32()),
                "D": pa.array([1, 2, 3]).cast(pa.decimal128(22, 2)),
                "s": pa.array([1, 2, None], pa.int8()),
            }
        },
    ),
    "files of Hive without names": Layout(
        "(id INT, name STRING, extra INT) USING orc",
        [],
        ["id", "name"],
        [
            ("id = 2", 1),
            ("name = 'a'", 1),
            ("name IS NULL", 1),
            ("extra IS NULL", 3),
            ("id > 1 AND name > 'a'", 1),
        ],
        exact=3,
        files={
            "1.orc": {"_col0": pa.array([1, 2, 3], pa.int32()), "_col1": pa.array(["a", "b", None])},
        },
    ),
    "empty": Layout(
        "(a INT, c CHAR(3), p STRING) USING orc PARTITIONED BY (p)",
        [],
        ["a", "c"],
        [("a = 1", 0), ("c = 'x'", 0), ("p = '01'", 0), ("length(c) = 3", 0), ("a IS NULL", 0)],
    ),
    "filled after its indexes": Layout(
        "(a INT, c CHAR(3), p STRING) USING orc PARTITIONED BY (p)",
        [],
        ["a", "c"],
        [("a = 1", 1), ("c = 'y'", 1), ("p = '01'", 2), ("length(c) = 3", 2), ("a IS NULL", 0)],
        exact=2,
        later=["INSERT INTO {t} VALUES (1, 'x', '01'), (2, 'y', '01')"],
    ),
    "truncated": Layout(
        "(a INT, c CHAR(3)) USING orc",
        ["INSERT INTO {t} VALUES (1, 'x')"],
        ["a"],
        [("a = 1", 0), ("c = 'x'", 0)],
        later=["TRUNCATE TABLE {t}"],
    ),
}


@pytest.fixture
def declared(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Layout]:
    """The table ``wt`` of a layout, with its indexes, up to date."""
    layout = LAYOUTS[request.param]
    for name, columns in layout.files.items():
        write_columns(tmp_path / "wt" / name, columns)
    place = f" LOCATION '{tmp_path}/wt'" if layout.files else ""
    spark.sql(f"CREATE TABLE wt {layout.columns}{place}")
    try:
        for change in layout.changes:
            spark.sql(change.format(t="wt"))
        table = hindex.connect(spark=spark).table("wt")
        table.create_indexes([hindex.IndexSpec(f"i_{column}", (column,)) for column in layout.indexed])
        for change in layout.later:
            spark.sql(change.format(t="wt"))
        if layout.later and not any("TRUNCATE" in change for change in layout.later):
            table.refresh_indexes()
        yield layout
    finally:
        spark.sql("DROP TABLE wt")


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("declared", LAYOUTS, indirect=True)
@pytest.mark.usefixtures("always")
def test_layouts(spark: SparkSession, declared: Layout) -> None:
    hx = hindex.connect(spark=spark)
    table = hx.table("wt")
    assert rows(table.scan().to_spark(spark).toArrow()) == rows(spark.table("wt").toArrow())
    compare(hx, "SELECT * FROM wt")
    for number, (where, count) in enumerate(declared.queries):
        wanted = spark.table("wt").where(where)
        assert wanted.count() == count, where
        scan = table.scan(where)
        assert scan.count() == count, where
        frame = scan.to_spark(spark)
        assert rows(frame.toArrow()) == rows(wanted.toArrow()), where
        assert frame.schema == wanted.schema, where
        assert rows(scan.to_arrow()) == rows(wanted.toArrow()), where
        if number < declared.exact:
            explanation = scan.explain()
            assert explanation.exact, where
            assert not set(reasons(scan)) - {Reason.NOT_SELECTIVE}, where
        # the table's frame has Spark's field metadata: what is compared with CHAR is padded
        compare(hx, f"SELECT * FROM wt WHERE {where}")
        compare(hx, f"SELECT count(*) AS n FROM wt JOIN (SELECT 1 AS one) WHERE {where}")
        arrow = wanted.toArrow()
        result = hx.sql(f"SELECT * FROM wt WHERE {where}")
        assert isinstance(result, hindex.QueryResult)
        assert [(f.name, f.type) for f in result.schema] == [(f.name, f.type) for f in arrow.schema], where
        assert rows(result.to_arrow()) == rows(arrow), where
    with hindex.accelerate(spark):
        for where, count in declared.queries[:2]:
            frame = spark.sql(f"SELECT * FROM wt WHERE {where} AND ?", [True])
            assert frame.schema == spark.table("wt").schema
            assert frame.count() == count


def test_a_path_and_a_name_share_an_index(spark: SparkSession, tmp_path: Path) -> None:
    """Where the two have one type of a column; an index of another type is named, and not used."""
    spark.sql(f"CREATE TABLE shared (id INT, n TIMESTAMP_NTZ, c CHAR(3)) USING orc LOCATION '{tmp_path}/s'")
    try:
        spark.sql("INSERT INTO shared VALUES (1, TIMESTAMP_NTZ '2024-01-01 00:00:00', 'x'), (2, NULL, 'y')")
        hx = hindex.connect(spark=spark)
        by_path, by_name = hx.table(str(tmp_path / "s")), hx.table("shared")
        by_path.create_indexes([hindex.IndexSpec("n", "n"), hindex.IndexSpec("c", "c")])
        by_name.create_index("id", "id")
        where = "n = '2024-01-01'"
        for table in (by_path, by_name):
            scan = table.scan(where, ["id", "n"])
            assert scan.to_arrow().num_rows == spark.table("shared").where(where).count() == 1
            assert (scan.explain().exact, reasons(scan)) == (True, {})
            assert table.scan("id = 2").explain().exact
        assert str(by_path.schema.resolve("n").type) == "timestamp_ntz"
        scan = by_name.scan("c = 'x'")
        assert scan.to_arrow().column("id").to_pylist() == [1]
        assert set(reasons(scan)) == {Reason.TYPE_MISMATCH}
    finally:
        spark.sql("DROP TABLE shared")


def test_a_file_of_another_type_is_left_unindexed(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads it; the other files are indexed."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2], pa.int32()), "s": pa.array(["7", "8"])})
    write_columns(tmp_path / "2.orc", {"id": pa.array([3], pa.int32()), "s": pa.array([9], pa.int64())})
    spark.sql(f"CREATE TABLE mixed (id INT, s STRING) USING orc LOCATION '{tmp_path}'")
    try:
        hx = hindex.connect(spark=spark)
        table = hx.table("mixed")
        index = table.create_index("s", "s")
        assert (index.status, index.num_files, index.files_without_column) == ("fresh", 1, ("2.orc",))
        with pytest.raises(
            hindex.HindexError, match=r"column 's' is bigint in data file '2.orc' and string in"
        ):
            table.scan("s = '7'").to_arrow()
        assert table.scan("id = 3", ["id"]).to_arrow().num_rows == 1
        compare(hx, "SELECT * FROM mixed WHERE s = '9'")
    finally:
        spark.sql("DROP TABLE mixed")


TYPES = {
    "INT": ["0", "7", "-1"],
    "BIGINT": ["0", "7", "3000000000"],
    "STRING": ["''", "'x'", "'x '", "'01'"],
    "CHAR(3)": ["''", "'x'", "'xyz'", "'01'"],
    "VARCHAR(5)": ["''", "'x'", "'x '", "'01'"],
    "DATE": ["DATE '2024-01-01'", "DATE '1960-02-29'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '1960-02-29 12:30:00.5'"],
    "TIMESTAMP": ["TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '1960-02-29 12:30:00.5'"],
    "DECIMAL(9, 2)": ["0.00", "7.25", "-1.10"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0D", "7.25D", "CAST('NaN' AS DOUBLE)"],
}
PARTITION_TYPES = ["INT", "STRING", "CHAR(3)", "DATE", "DECIMAL(9, 2)", "BOOLEAN"]


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_random_tables(spark: SparkSession, rng: np.random.Generator) -> None:
    for case in range(int(os.environ.get("HINDEX_CASES", "4"))):
        spark.sql("DROP TABLE IF EXISTS wild")
        try:
            _check_random_table(spark, rng)
        except Exception:
            print(f"case {case}")
            raise
        finally:
            spark.sql("DROP TABLE IF EXISTS wild")


def _check_random_table(spark: SparkSession, rng: np.random.Generator) -> None:
    def pick(items: Sequence[str]) -> str:
        return items[int(rng.integers(len(items)))]

    def value(data_type: str) -> str:
        return "NULL" if rng.random() < 0.2 else pick(TYPES[data_type])

    columns = {f"c{n}": pick(list(TYPES)) for n in range(int(rng.integers(1, 5)))}
    partitions = {f"p{n}": pick(PARTITION_TYPES) for n in range(int(rng.integers(0, 3)))}

    def insert() -> str:
        wanted = [*columns.values(), *partitions.values()]
        values = ", ".join(f"({', '.join(map(value, wanted))})" for _ in range(6))
        return f"INSERT INTO wild VALUES {values}"

    definition = ", ".join(f"{name} {data_type}" for name, data_type in (columns | partitions).items())
    partitioned = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    spark.sql(f"CREATE TABLE wild ({definition}) USING orc{partitioned}")
    hx = hindex.connect(spark=spark)
    table = hx.table("wild")
    if rng.random() < 0.5:
        spark.sql(insert())
    for _ in range(int(rng.integers(0, 3))):
        data_type = pick(list(TYPES))
        default = f" DEFAULT {pick(TYPES[data_type])}" if rng.random() < 0.5 else ""
        name = f"c{len(columns)}"
        spark.sql(f"ALTER TABLE wild ADD COLUMNS ({name} {data_type}{default})")
        columns[name] = data_type
        if rng.random() < 0.6:
            spark.sql(insert())
    readable = [column.name for column in table.schema.data_columns if column.problem is None]
    table.create_indexes(
        [hindex.IndexSpec(name, name, using=pick(["bitmap", "btree", "minmax"])) for name in readable]
    )
    if rng.random() < 0.5:
        spark.sql(insert())
    if rng.random() < 0.5:
        table.refresh_indexes()
    names = columns | partitions
    compare(hx, "SELECT * FROM wild")
    for _ in range(5):
        parts = []
        for _ in range(int(rng.integers(1, 3))):
            name = pick(list(names))
            constant = pick(TYPES[names[name]])
            parts.append(
                pick(
                    [
                        f"{name} = {constant}",
                        f"{name} <= {constant}",
                        f"{name} <> {constant}",
                        f"{name} IS NULL",
                        f"{name} IN ({constant}, {pick(TYPES[names[name]])})",
                    ]
                )
            )
        where = pick([" AND ", " OR "]).join(parts)
        print(definition, partitioned, where)
        compare(hx, f"SELECT * FROM wild WHERE {where}")
        compare(hx, f"SELECT count(*) AS n FROM wild WHERE {where}")
        wanted = rows(spark.table("wild").where(where).toArrow())
        try:
            frame = table.scan(where).to_spark(spark)
        except (UnsupportedError, PredicateError):
            continue  # left to Spark, as the comparison above was
        assert rows(frame.toArrow()) == wanted

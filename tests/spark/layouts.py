"""Tables as warehouses declare them, and comparisons of all ways to read them with Spark."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import hindex
from hindex.errors import PredicateError, UnsupportedError
from hindex.spark.session import java_session
from tests.support import local_build
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Layout:
    """A table and the queries on it.

    Args:
        columns: of ``CREATE TABLE``, with ``PARTITIONED BY`` behind them.
        changes: statements that come before the indexes are built, with ``{t}`` for the table's name.
        indexed: columns that get an index.
        queries: conditions, each with the number of rows that it keeps; those that an index answers exactly first.
        later: statements between the build and the queries.
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
        [("id = 2", 1), ("s = 'a'", 1), ("s IS NULL", 1), ("id <> 2 AND s > ''", 1), ("id IS NULL", 0)],
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
            # Spark compares values that are longer than their type in full
            ("c = 'abcdefg'", 1),
            ("c = 'abcd   '", 1),
            ("c = 'abcd'", 0),
            ("c IN ('abcdefg', 'x')", 2),
            ("c IN ('abcd   ', 'abcdefg   ')", 2),
            ("c IN ('abcd', 'abcdefg   ')", 2),
            ("c <> 'abcdefg'", 4),
            ("c >= 'abcde'", 4),
            ("c < 'abcdefz'", 2),
            ("c > 'abcd '", 4),
            ("c <= 'abcd       '", 1),
            # Spark cuts them to the length of a longer literal or column
            ("c = 'abcde'", 1),
            ("c > 'abcde'", 3),
            ("c IN ('abcde', 'x')", 2),
            ("c = w", 2),
            ("n IS NULL", 5),
        ],
        exact=18,
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
            ("n = TIMESTAMP_NTZ '2024-01-01 00:00:00'", 1),
            ("n > TIMESTAMP_NTZ '1960-03-31 02:30:00.123456'", 2),
            ("n IN (TIMESTAMP_NTZ '2024-01-01', '2024-01-02', NULL)", 2),
            ("n BETWEEN TIMESTAMP_NTZ '1960-03-31T02:30:00.1' AND CAST('2024-01-01' AS TIMESTAMP_NTZ)", 2),
            ("NOT n <=> TIMESTAMP_NTZ '2024-01-01'", 3),
            ("TIMESTAMP_NTZ '2024-01-01' > n", 1),
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
            ("st.t = TIMESTAMP_NTZ '2024-01-03 00:00:00'", 1),
        ],
        exact=12,
    ),
    "timestamps": Layout(
        "(id INT, t TIMESTAMP, d DATE, st STRUCT<t: TIMESTAMP>, n TIMESTAMP_NTZ, p TIMESTAMP) USING orc "
        "PARTITIONED BY (p)",
        [
            # two instants that clocks in Berlin show as 02:30, the hour that they skip, and hours that clocks
            # in New York skip or repeat
            (
                "INSERT INTO {t} SELECT id, t, CAST(t AS DATE), named_struct('t', t), CAST(t AS TIMESTAMP_NTZ), p "
                "FROM VALUES "
                "(1, TIMESTAMP '2024-10-27 00:30:00Z', TIMESTAMP '2024-07-01 12:00:00Z'), "
                "(2, TIMESTAMP '2024-10-27 01:30:00Z', TIMESTAMP '2024-07-01 12:00:00Z'), "
                "(3, TIMESTAMP '2024-03-31 00:30:00Z', TIMESTAMP '2024-10-27 00:30:00Z'), "
                "(4, TIMESTAMP '2024-03-31 01:30:00Z', TIMESTAMP '2024-10-27 00:30:00Z'), "
                "(5, TIMESTAMP '2024-11-03 05:30:00Z', TIMESTAMP '2024-10-27 00:30:00Z'), "
                "(6, TIMESTAMP '2024-03-10 07:30:00Z', TIMESTAMP '1890-01-01 00:00:00Z'), "
                "(7, TIMESTAMP '1890-01-01 00:00:00Z', NULL), "
                "(8, TIMESTAMP '2050-07-01 12:00:00.123456Z', NULL), "
                "(9, NULL, NULL) AS v (id, t, p)"
            ),
        ],
        ["t", "id", "n"],
        [
            ("t = TIMESTAMP '2024-10-27 00:30:00Z'", 1),
            ("t <= '2024-03-31 01:30:00Z'", 4),
            ("t BETWEEN '2024-10-27 01:00:00' AND '2024-10-27 03:00:00'", 1),
            ("n = '2024-10-27 01:30:00'", 1),
            ("id > 4 AND t IS NOT NULL", 4),
            ("t = '2024-10-27 02:30:00'", 0),
            ("st.t < '2024-03-31'", 2),
            ("n = t", 8),
            ("t < d", 0),
            ("hour(t) = 0 AND id < 9", 3),
            ("p = TIMESTAMP '2024-10-27 00:30:00Z'", 3),
            ("p < '2024-10-27 02:30:00' AND t > '2024-10-27 00:30:00Z'", 2),
        ],
        exact=5,
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
        exact=1,
    ),
    "widened": Layout(
        "(id BIGINT, x DOUBLE, d DECIMAL(38, 6), z STRING, s SMALLINT) USING orc",
        [],
        ["id", "x", "d"],
        [("id = 2", 1), ("x = 2.5", 1), ("d = 2.00", 1), ("z IS NULL", 3), ("s = 1 OR id = 3", 2)],
        exact=3,
        files={
            "1.orc": {
                # names in another letter case
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
    "files of Hive without names, and a table that uses one of them": Layout(
        "(_col0 INT, price INT, _col7 INT) USING orc",
        [],
        ["_col0", "price"],
        [
            ("price = 300", 1),
            ("_col0 = 2", 1),
            ("_col7 IS NULL", 3),
            ("price > 100 AND _col0 > 1", 2),
            ("_col0 = 4", 0),
        ],
        exact=2,
        files={
            "1.orc": {
                "_col0": pa.array([1, 2, 3], pa.int32()),
                "_col1": pa.array([100, 200, 300], pa.int32()),
            }
        },
    ),
    "names that begin as placeholders do": Layout(
        "(_column_b INT, _column_a INT, _column_c INT) USING orc",
        [],
        ["_column_a", "_column_b"],
        [
            ("_column_a = 7", 1),
            ("_column_b = 2", 1),
            # Spark has no column at a position that the file lacks, even of the same name
            ("_column_c IS NULL", 2),
            ("_column_c = 9", 0),
            ("_column_a > 7 AND _column_b > 1", 1),
        ],
        exact=2,
        files={
            "1.orc": {"_column_a": pa.array([7, 8], pa.int32()), "_column_b": pa.array([1, 2], pa.int32())}
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
        [("a = 1", 0), ("c = 'x'", 0), ("a IS NULL", 0), ("a <> 1 OR c > 'a'", 0), ("length(c) = 3", 0)],
        later=["TRUNCATE TABLE {t}"],
    ),
}

#: Layouts with dates or timestamps, or strings in their format.
LAYOUTS_OF_TIMES = (
    "string partitions",
    "typed partitions",
    "timestamp_ntz",
    "timestamps",
    "columns added later",
)
#: Layouts with types that Spark Connect converts.
LAYOUTS_OVER_CONNECT = ("typed partitions", "char and varchar", "timestamps")


def make_layout(
    spark: SparkSession, name: str, layout: Layout, directory: Path, *, has_job: bool = True
) -> None:
    """Make the table of a layout, with its indexes, up to date.

    Args:
        directory: for data files that Spark does not write.
        has_job: build indexes in a job of Spark, not in this process.
    """
    for file, columns in layout.files.items():
        write_columns(directory / name / file, columns)
    location = f" LOCATION '{directory / name}'" if layout.files else ""
    spark.sql(f"CREATE TABLE {name} {layout.columns}{location}")
    for change in layout.changes:
        spark.sql(change.format(t=name))
    table = hindex.connect(spark=spark).table(name)
    with contextlib.nullcontext() if has_job else local_build.without_jobs():
        table.create_indexes([hindex.IndexSpec(f"i_{column}", (column,)) for column in layout.indexed])
        for change in layout.later:
            spark.sql(change.format(t=name))
        if layout.later and not any("TRUNCATE" in change for change in layout.later):
            table.refresh_indexes()


def drop_layout(spark: SparkSession, name: str) -> None:
    """Drop the table of a layout, and the view that a comparison makes of it."""
    spark.sql(f"DROP VIEW IF EXISTS {name}_view")
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def make_layouts(spark: SparkSession, directory: Path, names: Iterable[str] = LAYOUTS) -> None:
    """Make the tables of layouts."""
    for name in names:
        make_layout(spark, table_name(name), LAYOUTS[name], directory)


def drop_layouts(spark: SparkSession, names: Iterable[str] = LAYOUTS) -> None:
    """Drop the tables of layouts."""
    for name in names:
        drop_layout(spark, table_name(name))


def compare_layouts(spark: SparkSession, names: Iterable[str] = LAYOUTS) -> dict[str, Any]:
    """Compare the tables of layouts in brief; see `compare_layout`."""
    return {name: compare_layout(spark, table_name(name), LAYOUTS[name], is_brief=True) for name in names}


def table_name(layout: str) -> str:
    """Return the name of a layout's table."""
    return f"layout_{list(LAYOUTS).index(layout)}"


def rows(table: pa.Table) -> list[str]:
    """Return the rows of a table as sorted strings, with instants in the time zone of the column's type."""
    return sorted(map(repr, table.to_pylist()))


def rows_of_each(frames: Mapping[int, DataFrame]) -> dict[int, list[str]]:
    """Collect frames with the same columns in one job, and return their `rows`."""
    from pyspark.sql.functions import lit

    marked = [frame.withColumn("frame", lit(number)) for number, frame in frames.items()]
    collected = reduce(lambda one, other: one.union(other), marked).toArrow()
    numbers = collected.column("frame")
    return {
        number: rows(collected.filter(pc.equal(numbers, number)).drop_columns("frame")) for number in frames
    }


def brief_queries(layout: Layout) -> Sequence[tuple[str, int]]:
    """Return five queries of a layout, or all if it has timestamps."""
    return layout.queries if "TIMESTAMP" in layout.columns else layout.queries[:5]


def compare_layout(
    spark: SparkSession, name: str, layout: Layout, *, is_brief: bool = False
) -> dict[str, Any]:
    """Compare all rows, their number, and both under each condition with Spark's, each way that hindex reads them.

    Args:
        is_brief: try five conditions of layouts without timestamps; count rows and query a view for only one, and
            make frames of three scans.

    Returns:
        ``different``: a line for each difference; ``counts``: Spark's number of rows under each condition;
        ``accelerated``: for each condition, whether all queries of the accelerated session read the table through its
        indexes; ``refused``: conditions that a scan refuses.
    """
    hx = hindex.connect(spark=spark)
    table, stored = hx.table(name), spark.table(name)
    # hindex expands a view only in a session with the settings of its creation
    spark.sql(f"CREATE OR REPLACE VIEW {name}_view AS SELECT * FROM {name}")
    queries = brief_queries(layout) if is_brief else layout.queries
    conditions = ["true", *(where for where, _ in queries)]
    counted = range(2 if is_brief else len(conditions))
    of_view = {1} if is_brief else {at for at in range(len(conditions)) if at % 2}
    flags = [f"({condition}) AS `keeps {at}`" for at, condition in enumerate(conditions)]
    truth = stored.selectExpr("*", *flags).toArrow()
    kept = [truth.filter(truth.column(f"keeps {at}")).select(stored.columns) for at in range(len(conditions))]
    report: dict[str, Any] = {"different": [], "accelerated": [], "refused": []}

    def compare(way: str, actual: object, expected: object) -> None:
        if actual != expected:
            report["different"].append(f"{name}, {condition}, {way}: {actual!r} instead of {expected!r}")

    frames: dict[int, DataFrame] = {}
    counts: dict[int, DataFrame] = {}
    for at, (condition, wanted) in enumerate(zip(conditions, kept, strict=True)):
        try:
            scan = table.scan(condition if at else None)
            if at < 3 or not is_brief:
                frames[at] = frame = scan.to_spark(spark)
                compare("to_spark's schema", frame.schema.jsonValue(), stored.schema.jsonValue())
            compare("a scan", rows(scan.to_arrow()), rows(wanted))
        except (UnsupportedError, PredicateError):
            report["refused"].append(condition)
        where = f" WHERE {condition}" if at else ""
        result: Any = hx.sql(f"SELECT * FROM {name}{'_view' * (at in of_view)}{where}")
        arrow = result.to_arrow()
        compare(
            "hx.sql's types", *([(field.name, field.type) for field in one.schema] for one in (arrow, wanted))
        )
        compare("hx.sql's schema", result.schema, arrow.schema)
        compare("hx.sql", rows(arrow), rows(wanted))
        if at in counted:
            numbers: Any = hx.sql(f"SELECT count(*) AS n FROM {name}{where}")
            compare("hx.sql's count", numbers.to_arrow().column("n").to_pylist(), [wanted.num_rows])
    for at, collected in rows_of_each(frames).items():
        condition = conditions[at]
        compare("to_spark", collected, rows(kept[at]))
    with accelerated_queries(spark) as lines:
        frames.clear()
        for at, condition in enumerate(conditions):
            where = f" WHERE {condition}" if at else ""
            # here the view answers queries that read the table above; over Spark Connect, Spark reads views
            source = f"{name}{'_view' * (at - 1 in of_view and java_session(spark) is not None)}"
            frames[at] = frame = spark.sql(f"SELECT * FROM {source}{where}")
            schema = spark.table(source).schema
            compare("accelerate's schema", frame.schema.jsonValue(), schema.jsonValue())
            if at in counted:
                counts[at] = spark.sql(f"SELECT count(*) AS n FROM {name}{where}")
            report["accelerated"].append(all(line.startswith("accelerated: ") for line in lines))
            lines.clear()
        for at, collected in rows_of_each(frames).items():
            condition = conditions[at]
            compare("accelerate", collected, rows(kept[at]))
        for at, collected in rows_of_each(counts).items():
            condition = conditions[at]
            compare("accelerate's count", collected, [repr({"n": kept[at].num_rows})])
    return report | {"accelerated": report["accelerated"][1:], "counts": [item.num_rows for item in kept[1:]]}


@contextmanager
def accelerated_queries(spark: SparkSession) -> Iterator[list[str]]:
    """Accelerate a session in the block, and yield the list that collects the log lines of its queries."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("hindex.queries")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with hindex.accelerate(spark):
            lines.clear()
            yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)

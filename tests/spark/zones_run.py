"""Compare timestamps with Spark's own reader; as a program, with Java in a time zone, print JSON."""

from __future__ import annotations

import datetime
import itertools
import json
import sys
import zoneinfo
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyorc

import hindex
import hindex.spark.scan as spark_scan
from hindex.errors import HindexError
from hindex.explanations.explanation import Explanation
from hindex.queries import selectivity
from tests.integration.remote_run import connect_session
from tests.spark.layouts import LAYOUTS_OF_TIMES, LAYOUTS_OVER_CONNECT, compare_layouts, make_layouts
from tests.support.cases import IS_NIGHTLY
from tests.support.elsewhere import QUICK_JAVA, QUICK_WORKERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSIONS = ("UTC", "Europe/Berlin", "America/New_York") if IS_NIGHTLY else ("UTC", "America/New_York")
#: Sessions in whose time zones whole days are compared.
DAY_SESSIONS = SESSIONS[1:]
#: Clocks of 2020 around the transitions of these zones, and far from them.
CLOCKS = [
    *("1700-01-01 00:00:00", "1890-01-01 00:00:00", "1969-12-31 23:59:59", "1970-01-01 00:00:00"),
    *("2020-03-08 01:59:59.999999", "2020-03-08 02:30:00", "2020-03-08 03:00:00"),
    *("2020-03-29 01:59:59.999999", "2020-03-29 02:30:00", "2020-03-29 03:00:00"),
    *("2020-10-25 01:59:59.999999", "2020-10-25 02:30:00", "2020-10-25 03:00:00"),
    *("2020-11-01 00:59:59.999999", "2020-11-01 01:30:00", "2020-11-01 02:00:00"),
    *("2050-07-01 12:00:00", "9000-01-01 00:00:00"),
]
#: Statements, and the time zones in which hindex answers them by itself: "all"; "java" if Java's zone is UTC
#: (the statement compares rows with each other); "session" if the session's is (it converts other values to
#: timestamps).
STATEMENTS = {
    "SELECT id FROM {} WHERE ts < TIMESTAMP '1970-01-01 01:10:00'": "all",
    "SELECT id FROM {} WHERE ts BETWEEN '1970-01-01 00:10:00' AND '1970-01-01 00:20:00' OR id = 9": "all",
    "SELECT count(*) FROM {} WHERE NOT ts >= TIMESTAMP '1970-01-01 01:10:00'": "all",
    "SELECT EXISTS(SELECT id FROM {} WHERE ts < TIMESTAMP '1970-01-01 00:30:00')": "all",
    "SELECT id FROM {} WHERE ts < TIMESTAMP '2020-10-25 02:30:00'": "all",
    "SELECT id FROM {} WHERE ts <= 'epoch' OR ts = TIMESTAMP 'epoch' OR id = 2": "all",
    "SELECT id FROM {} WHERE hour(ts) = 1 AND id < 9000": "all",
    "SELECT id FROM {} WHERE hour(n) = 1 AND minute(n) IN (3, 4)": "all",
    "SELECT id FROM {} ORDER BY ts DESC LIMIT 3": "java",
    "SELECT max(ts) FROM {}": "java",
    "SELECT count(DISTINCT ts) FROM {} WHERE id < 9": "java",
    "SELECT ts, count(*) FROM {} WHERE id < 9 GROUP BY ts": "java",
    "SELECT ts FROM {} GROUP BY ts HAVING count(*) > 1": "java",
    "SELECT count(ts) FROM {} WHERE id < 7": "all",
    "SELECT sum FROM {} WHERE id = 3": "all",
    "SELECT id FROM {} WHERE sum < 7": "all",
    "SELECT id FROM {texts} WHERE d = TIMESTAMP '2018-11-04 01:00:00'": "session",
    "SELECT id FROM {texts} WHERE d IN (TIMESTAMP '2018-11-04 01:00:00') OR id = 0": "session",
    "SELECT id FROM {texts} WHERE NOT d > TIMESTAMP '2018-11-04 00:30:00'": "session",
    "SELECT id FROM {texts} WHERE hour(d) = 1": "session",
    "SELECT id FROM {texts} WHERE s = TIMESTAMP '2020-03-29 03:30:00'": "session",
    "SELECT id FROM {texts} WHERE s = TIMESTAMP '2018-11-04 01:30:00' AND id >= 0": "session",
    "SELECT id FROM {texts} WHERE CAST(s AS TIMESTAMP) = CAST('2020-03-29 03:30:00' AS TIMESTAMP)": "session",
    "SELECT id FROM {texts} WHERE id >= 0 AND CASE WHEN minute(s) = 30 THEN hour(s) = 3 ELSE false END": "session",
    "SELECT id FROM {texts} WHERE id = hour(TIMESTAMP '2018-11-04 00:30:00')": "all",
    "SELECT count(*) FROM {texts} WHERE TIMESTAMP '2020-03-29 02:30:00' = TIMESTAMP '2020-03-29 03:30:00'": "session",
    "SELECT s FROM {texts} GROUP BY s HAVING hour(s) = 2": "session",
    "SELECT EXISTS(SELECT id FROM {texts} WHERE s = TIMESTAMP '2020-03-29 03:30:00' AND id = 4)": "session",
    "SELECT id FROM {texts} WHERE d > DATE '2018-11-03' AND year(s) = 2020": "all",
    "SELECT s FROM {texts} GROUP BY s HAVING s > '2020'": "all",
    "SELECT id FROM {texts} ORDER BY st.t DESC LIMIT 2": "java",
    "SELECT st.t, count(*) FROM {texts} GROUP BY st.t": "java",
    "SELECT id FROM {texts} WHERE st.t < TIMESTAMP '1970-01-01 01:02:00'": "all",
    "SELECT id FROM {texts} WHERE st.t IS NOT NULL AND st.k = 1": "all",
    "SELECT id FROM {texts} WHERE o.k = 1": "all",
    "SELECT o FROM {texts}": "all",
    "SELECT id FROM {instants} WHERE t < TIMESTAMP '2050-01-01 00:00:00'": "all",
    "SELECT id FROM {instants} WHERE t IS NULL": "all",
    "SELECT id FROM {instants} WHERE hour(t) = 1 OR CAST(t AS STRING) LIKE '2050-07-01 %'": "all",
    "SELECT id FROM {instants} WHERE CAST(t AS DATE) = DATE '2020-11-01'": "all",
    "SELECT id FROM {instants} WHERE NOT year(t) = 2020 AND minute(t) < 30": "all",
    "SELECT n, id FROM {} WHERE id = 3": "all",
    "SELECT id FROM {} WHERE n < TIMESTAMP '1970-01-01 01:10:00'": "session",
    "SELECT id FROM {} WHERE n < '1970-01-01 01:10:00' AND n > DATE '1969-12-31'": "all",
    "SELECT max(n), count(DISTINCT n) FROM {}": "all",
    "SELECT n, count(*) FROM {} WHERE id < 9 GROUP BY n": "all",
    "SELECT id FROM {} WHERE n = ts": "session",
}


def statements_in(java: str, session: str) -> dict[str, str]:
    """Return the statements to compare in these time zones: by day, all where both are others than UTC.

    Elsewhere, those whose answer depends on a zone that is UTC there, or on the session's, and every third of the rest.
    """
    if IS_NIGHTLY or "UTC" not in (java, session):
        return STATEMENTS
    sorts = {"session"} | ({"java"} if java == "UTC" else set())
    rest = [text for text, sort in STATEMENTS.items() if sort not in sorts][::3]
    return {text: sort for text, sort in STATEMENTS.items() if sort in sorts or text in rest}


def write_clocks(path: Path) -> None:
    """Write two files of wall clocks at all depths, with UTC as the time zone of the writer."""
    clocks = [datetime.datetime.fromisoformat(text) for text in CLOCKS]
    path.mkdir()
    values = [*clocks, None]
    columns = {
        "id": pa.array(range(len(values))),
        "t": pa.array(values, pa.timestamp("us")),
        "l": pa.array([[value, None] if value else None for value in values], pa.list_(pa.timestamp("us"))),
        "m": pa.array([{"k": value} for value in values], pa.map_(pa.string(), pa.timestamp("us"))),
        "s": pa.array([{"a": 1, "t": value} for value in values[:-1]] + [None]),
    }
    for number in range(2):
        pyarrow.orc.write_table(pa.table(columns), path / f"{number}.orc")


def write_instants(path: Path) -> None:
    """Write a file with a column of instants."""
    path.mkdir()
    schema = "struct<id:bigint,t:timestamp with local time zone>"
    with (path / "x.orc").open("wb") as file, pyorc.Writer(file, schema) as writer:
        values = [datetime.datetime.fromisoformat(f"{text}+00:00") for text in CLOCKS]
        writer.writerows(list(enumerate(values)))


def rows(frame: Any) -> list[str]:
    """Return the rows of a frame as sorted strings; timestamps are instants at any depth."""
    return sorted(map(str, frame.toArrow().to_pylist()))


def compare_frames(spark: SparkSession, root: Path) -> dict[str, Any]:
    """Compare scans as frames with Spark's reader, once for few rows and once for many.

    Returns:
        For each table and size: the number of rows, and whether the rows, also in order, are Spark's.
    """
    report: dict[str, Any] = {}
    for name in ("clocks", "instants", "parts", "own"):
        scan = hindex.connect(spark=spark).table(str(root / name)).scan()
        # a scan returns the stored numbers of Spark's own types, which ORC does not have
        columns = [column for column in scan.schema.names if column != "n"]
        scan = scan.narrowed(None, columns, None)
        wanted = rows(spark.read.orc(str(root / name)).select(columns))
        for max_values in (spark_scan.MAX_LOCAL_VALUES, 0):
            spark_scan.MAX_LOCAL_VALUES, default = max_values, spark_scan.MAX_LOCAL_VALUES
            try:
                is_same = rows(scan.to_spark()) == wanted
                is_order_same = max_values == 0 or rows(scan.order_by("id").to_spark()) == wanted
            finally:
                spark_scan.MAX_LOCAL_VALUES = default
            size = "few" if max_values else "many"
            report[f"{name} {size}"] = [len(wanted), is_same, is_order_same]
    return report


def compare_statements(spark: SparkSession, place: Path, statements: Iterable[str]) -> list[list[Any]]:
    """Compare the rows of statements with Spark's; timestamps are compared as instants.

    Returns:
        For each statement: whether hindex answers it without Spark, the same by EXPLAIN, the number of rows,
        and whether they are Spark's.
    """
    hx = hindex.connect(spark=spark)
    paths = {name: str(place / name) for name in ("own", "texts", "instants")}
    spark_tables = {name: f"orc.`{path}`" for name, path in paths.items()}
    hindex_tables = {name: f"'{path}'" for name, path in paths.items()}
    outcomes = []
    for text in statements:
        wanted = spark.sql(text.format(spark_tables["own"], **spark_tables)).toArrow().to_pylist()
        result: Any = hx.sql(text.format(hindex_tables["own"], **hindex_tables))
        is_by_hindex = isinstance(result.explain(), Explanation)
        actual = [list(row.values()) for row in result.to_arrow().to_pylist()]
        explained: Any = hx.sql("EXPLAIN " + text.format(hindex_tables["own"], **hindex_tables))
        is_explained = type(explained).__name__ == "Explanation"
        outcomes.append(
            [
                is_by_hindex,
                is_explained,
                len(wanted),
                sorted(map(str, actual)) == sorted(str(list(row.values())) for row in wanted),
            ]
        )
    return outcomes


def compare_joins(spark: SparkSession, place: Path) -> list[list[Any]]:
    """Compare joins, which Spark runs, with and without hindex.

    Returns:
        For each join: whether it reads the table through its indexes, its result, and that of Spark alone.
    """
    hx = hindex.connect(spark=spark)
    outcomes = []
    for name, condition in {
        "plain": "t.ts < TIMESTAMP '1970-01-01 01:10:00'",
        "dates": "t.s = TIMESTAMP '2020-03-29 03:30:00' AND t.id >= 0",
    }.items():
        text = f"SELECT count(*), sum(t.id) FROM {{}} t JOIN range(9000) r ON t.id = r.id WHERE {condition}"
        explained: Any = hx.sql("EXPLAIN " + text.format(f"'{place / name}'"))
        result: Any = hx.sql(text.format(f"'{place / name}'"))
        alone = spark.sql(text.format(f"orc.`{place / name}`"))
        counts = [list(frame.collect()[0]) for frame in (result.to_spark(), alone)]
        outcomes.append([explained.tables[0].is_accelerated, *counts])
    return outcomes


def compare_column_conditions(spark: SparkSession, place: Path) -> list[list[Any]]:
    """Compare the numbers of rows that conditions of PySpark keep.

    Returns:
        For each condition: the number of rows of a scan (or the error), and of Spark's own reader.
    """
    from pyspark.sql import functions

    counts: list[list[Any]] = []
    for name, condition in {
        "own": functions.col("ts") < datetime.datetime(1970, 1, 1, 1, 10),
        "texts": functions.col("d") <= datetime.datetime(2018, 11, 3, 23, 30),
        "parts": functions.col("p") < datetime.datetime(2020, 7, 1, 9, 30),
    }.items():
        try:
            kept: int | str = hindex.connect(spark=spark).table(str(place / name)).scan(condition).count()
        except HindexError as error:
            kept = str(error)
        counts.append([kept, spark.read.orc(str(place / name)).where(condition).count()])
    return counts


#: Time zones of the writers of `write_days`.
WRITERS = ("UTC", "Europe/Berlin", "Pacific/Apia")
#: Days of UTC with transitions in Berlin or New York, before 1900, after 2038, and far from any.
DAYS = [
    *[("2024-03-30", 3), ("2024-10-26", 3), ("2024-03-09", 3), ("2024-11-02", 3), ("2024-07-01", 1)],
    *[("1893-03-31", 2), ("1883-11-18", 1), ("1890-05-01", 1), ("2050-03-26", 2), ("2050-10-29", 3)],
]


def write_tables_of_days(hx: hindex.Connection, place: Path) -> None:
    """Write the table of days once for each index type, on both of its columns, and once without indexes."""
    for using in ("bitmap", "btree", "bloom", "minmax", "none"):
        write_days(place / using)
        if using != "none":
            table = hx.table(str(place / using))
            table.create_indexes([hindex.IndexSpec("t", "t", using), hindex.IndexSpec("s", "s.t", using)])


def write_days(path: Path, **more: Any) -> None:
    """Write every quarter of an hour of some days, a file for each time zone of a writer, at several depths."""
    path.mkdir(parents=True)
    starts = [(datetime.datetime.fromisoformat(f"{day}+00:00"), days) for day, days in DAYS]
    times = [start + datetime.timedelta(minutes=15 * at) for start, days in starts for at in range(96 * days)]
    schema = "struct<id:bigint,t:timestamp,s:struct<t:timestamp>,l:array<timestamp>>"
    for number, zone in enumerate(WRITERS):
        with (path / f"{number}.orc").open("wb") as file:
            options: Any = {"timezone": zoneinfo.ZoneInfo(zone), "row_index_stride": 1000, **more}
            with pyorc.Writer(file, schema, **options) as writer:
                rows: list[tuple[Any, ...]] = [(time, (time,), [time, None]) for time in times]
                rows += [(None, (None,), None)] * 5
                writer.writerows([(number * 10_000 + at, *row) for at, row in enumerate(rows)])


def day_conditions(column: str) -> list[str]:
    """Return conditions near transitions, by the clocks of sessions, and at steady times."""
    near = ["2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03", "2050-10-30", "1893-04-01"]
    bounds = [f"{day} {hour:02}:{minute:02}:00" for day in near for hour in range(4) for minute in (0, 30)]
    conditions = [f"{column} = TIMESTAMP '{bound}'" for bound in bounds]
    conditions += [f"{column} {op} '{bound}'" for bound in bounds[::5] for op in ("<", "<=", ">", "<>")]
    conditions += [
        f"NOT ({column} BETWEEN '{low}' AND '{high}')" for low, high in itertools.pairwise(bounds[::7])
    ]
    conditions += [
        f"{column} BETWEEN '{low}' AND '{high}'" for low, high in zip(bounds, bounds[3:], strict=False)
    ]
    conditions += [
        f"{column} IN ('{bounds[0]}', '{bounds[9]}', TIMESTAMP '2024-07-01 12:00:00', NULL)",
        f"{column} NOT IN ('{bounds[10]}', '{bounds[12]}')",
        f"{column} IS NULL",
        f"{column} IS NOT NULL AND NOT {column} < DATE '2024-03-31'",
        f"{column} <=> TIMESTAMP '2024-10-27 02:30:00'",
        f"NOT {column} <=> NULL AND {column} < '2024-10-27 02:30:00+01:00'",
        f"{column} = '2024-10-27 00:30:00Z' OR {column} = '2024-10-27 01:30:00Z'",
        f"{column} < '1850-01-01' OR {column} > '2060-01-01'",
        f"{column} > '1890-05-01 11:00:00' AND {column} <= '1890-05-01 13:00:00'",
    ]
    days = [*near, "1883-11-18", "2024-07-01", "2050-03-27"]
    conditions += [f"CAST({column} AS DATE) = DATE '{day}'" for day in days]
    conditions += [
        f"date_trunc('{unit}', {column}) {op} TIMESTAMP '{day} 00:00:00'"
        for unit, op, day in zip(itertools.cycle(("DAY", "WEEK", "MONTH")), ("=", "<", ">=", "="), days)
    ]
    conditions += [
        f"to_date({column}) IN (DATE '2024-10-27', DATE '2024-03-10', NULL)",
        f"NOT CAST({column} AS DATE) BETWEEN DATE '1893-04-01' AND DATE '2024-10-26'",
        f"year({column}) = 2024 AND date_trunc('dd', {column}) <> TIMESTAMP '2024-11-02 22:00:00Z'",
        f"year({column}) < 1893 OR {column} IS NULL",
        f"coalesce(CAST({column} AS DATE), DATE '2024-07-01') = DATE '2024-07-01'",
        f"hour({column}) = 2",
        f"NOT hour({column}) < 22 AND minute({column}) = 30",
        f"second({column}) <> 0 OR hour({column}) IS NULL",
        f"CAST({column} AS STRING) LIKE '2024-10-27 02:%'",
        f"dayofweek({column}) = 1 AND hour({column}) IN (1, 3, 23)",
        f"CASE WHEN month({column}) = 11 THEN hour({column}) ELSE day({column}) END = 1",
    ]
    return conditions


#: Conditions whose bounds are far from any transition.
STEADY = (
    "{0} = TIMESTAMP '2024-07-01 12:00:00'",
    "{0} >= '2024-07-01 10:00:00' AND {0} < '2024-07-01 11:00:00'",
    "{0} IN ('2050-07-01', '2024-07-01 09:15:00')",
)
#: A condition whose bound is near one.
UNSTEADY = "{0} = TIMESTAMP '2024-10-27 02:30:00'"


def compare_days(spark: SparkSession, place: Path, *, is_brief: bool = False) -> dict[str, Any]:
    """Compare conditions on whole days with Spark's own rows and values.

    Args:
        is_brief: try few conditions: for clocks that never change, or if another session tries more.

    Returns:
        ``different``: conditions whose rows are not Spark's; ``count``: the number of conditions; ``kept``:
        for steady and unsteady bounds, whether the index is exact, its rows, and the rows of the result;
        ``rows``: the number of rows of a table; ``values``: see `compare_day_values`.
    """
    hx = hindex.connect(spark=spark)
    report: dict[str, Any] = {"different": [], "count": 0, "kept": []}
    for table, column in itertools.product(sorted(place.iterdir()), ("t", "s.t")):
        if column == "s.t" and table.name != "bitmap":
            continue
        bounded = [text.format(column) for text in (*STEADY, UNSTEADY)]
        # most conditions with the exact index, and some with each of the others
        has_most = (table.name, column) == ("bitmap", "t") and not is_brief
        if IS_NIGHTLY:
            step = 1 if has_most else 7
        else:
            # odd: bounds come in pairs
            step = 3 if has_most else 11
        conditions = day_conditions(column)[::step] + bounded
        frame = spark.read.orc(str(table))
        answers = frame.selectExpr("id", *(f"({text}) AS c{at}" for at, text in enumerate(conditions)))
        truth = answers.toArrow()
        ids = truth.column("id").to_pylist()
        for text, answer in zip(conditions, truth.columns[1:], strict=True):
            wanted = sorted(i for i, keep in zip(ids, answer.to_pylist(), strict=True) if keep)
            scan = hx.table(str(table)).scan(text, ["id"])
            if sorted(scan.to_arrow().column(0).to_pylist()) != wanted or scan.count() != len(wanted):
                report["different"].append([table.name, text])
            report["count"] += 1
            if text in bounded:
                explained = scan.explain()
                assert explained.rows is not None
                report["kept"].append([table.name, text, explained.exact, explained.rows.kept, len(wanted)])
    report["rows"] = truth.num_rows
    report["values"] = compare_day_values(spark, place / "bitmap", is_brief=is_brief)
    return report


def compare_indexes_on_parts(spark: SparkSession, place: Path) -> list[list[Any]]:
    """Build indexes on parts of timestamps in this session, and compare conditions on these with Spark's rows.

    The indexes of other sessions stay.

    Returns:
        For each condition the rows that indexes keep, those of the result, and whether they are Spark's; last, for
        groups, the number of rows, and whether an index answered.
    """
    name = str(spark.conf.get("spark.sql.session.timeZone")).replace("/", "_")
    if not place.exists():
        write_days(place)
    table = hindex.connect(spark=spark).table(str(place))
    expressions = {
        "hour(t)": "bitmap",
        "CAST(t AS STRING)": "btree",
        "dayofweek(s.t)": "minmax",
        "minute(t)": "bloom",
    }
    table.create_indexes(
        [hindex.IndexSpec(f"{name}_{using}", text, using) for text, using in expressions.items()]
    )
    outcomes: list[list[Any]] = []
    for text in PARTS_OF_TIMES:
        wanted = rows(spark.read.orc(str(place)).where(text).select("id"))
        scan = table.scan(text, ["id"])
        is_same = sorted(map(str, scan.to_arrow().to_pylist())) == wanted
        kept = scan.explain().rows
        assert kept is not None
        outcomes.append([text, kept.kept, len(wanted), is_same])
    checked = table.check_indexes(verify=True)
    assert all(result.verified_stripes and not result.problems for result in checked), checked
    groups = "SELECT hour(t) h, count(*) FROM orc.`{}` GROUP BY 1"
    wanted = rows(spark.sql(groups.format(place)))
    with hindex.accelerate(spark):
        frame = spark.sql(groups.format(place))
        outcomes.append(
            ["groups", len(wanted), hindex.explain(frame).tables[0].is_accelerated, rows(frame) == wanted]
        )
    return outcomes


#: Conditions on parts of timestamps. An index answers the first three exactly.
PARTS_OF_TIMES = (
    "hour(t) = 2",
    "NOT hour(t) < 22",
    "hour(t) IS NULL",
    "CAST(t AS STRING) = '2024-10-27 02:30:00' OR hour(t) = 1",
    "minute(t) = 30 AND hour(t) IN (1, 2)",
    "dayofweek(s.t) = 1 AND hour(t) = 3",
)


def compare_day_values(spark: SparkSession, table: Path, *, is_brief: bool) -> list[list[Any]]:
    """Compare the types and values of rows with Spark's, each way that hindex returns them.

    Returns:
        For each condition and way: both names, the number of rows, and whether types and values are Spark's.
    """
    hx = hindex.connect(spark=spark)
    outcomes: list[list[Any]] = []
    for where in ("t = '2024-10-27 02:30:00'", "t < '2024-03-31 02:30:00'", "id >= 0"):
        frame = spark.read.orc(str(table)).where(where)
        collected = frame.toArrow()
        wanted = sorted(map(str, collected.to_pylist()))
        result: Any = hx.sql(f"SELECT * FROM '{table}' WHERE {where}")
        for name, scan in {"sql": result, "scan": hx.table(str(table)).scan(where)}.items():
            arrow = scan.to_arrow()
            is_same = arrow.schema.field("t").type == collected.schema.field("t").type
            outcomes.append(
                [where, name, len(wanted), is_same and sorted(map(str, arrow.to_pylist())) == wanted]
            )
        # ordered rows, whose order differs from that of the index, and proofs of all answers of indexes
        ordered = hx.table(str(table)).scan(where, ["t"], 9, mode="prove").order_by("t")
        first = frame.select("t").orderBy("t").limit(9)
        is_same = ordered.to_arrow().to_pylist() == first.toArrow().to_pylist()
        assert ordered.proof is not None
        outcomes.append([where, "order", len(wanted), is_same and not ordered.proof.disagreements])
        for max_values in (spark_scan.MAX_LOCAL_VALUES, 0):
            spark_scan.MAX_LOCAL_VALUES, default = max_values, spark_scan.MAX_LOCAL_VALUES
            try:
                # a connection without a session takes the time zones of this one
                result_frame = hindex.connect().table(str(table)).scan(where).to_spark(spark)
                outcomes.append(
                    [
                        where,
                        "to_spark",
                        len(wanted),
                        rows(result_frame) == wanted and result_frame.schema == frame.schema,
                    ]
                )
            finally:
                spark_scan.MAX_LOCAL_VALUES = default
    if is_brief:
        return outcomes
    # the data source takes the current time zones of the session; each of its reads starts Python processes
    hindex.enable(spark)
    for where in ("t = '2024-10-27 02:30:00'", "t < '2024-03-31 02:30:00'"):
        frame = spark.read.orc(str(table)).where(where)
        source = spark.read.format("hindex").option("where", where).load(str(table))
        wanted = rows(frame)
        outcomes.append(
            [where, "source", len(wanted), rows(source) == wanted and source.schema == frame.schema]
        )
    return outcomes


def write_tables(spark: SparkSession, place: Path) -> None:
    """Write the tables of all comparisons, and build their indexes."""
    write_clocks(place / "clocks")
    write_instants(place / "instants")
    for text in ("2020-01-01 10:00:00", "2020-07-01 11:00:00"):
        directory = place / "parts" / f"p={text}"
        directory.mkdir(parents=True)
        columns = {"id": pa.array([1, 2]), "t": pa.array([0, 10**15], pa.timestamp("us"))}
        pyarrow.orc.write_table(pa.table(columns), directory / "x.orc")
    selected = "id, timestamp_seconds(id) ts, timestamp_seconds(id)::timestamp_ntz n, id + 1 sum"
    frame = spark.sql(f"SELECT {selected} FROM range(5000)")
    frame.write.orc(str(place / "own"))
    # without the column of Spark's own type, for which hindex leaves the table to Spark
    frame.drop("n").write.orc(str(place / "plain"))
    # midnights and half hours that clocks of Sao Paulo or Berlin skipped
    frame = spark.sql(
        "SELECT id, date_add(DATE '2018-11-03', CAST(id % 3 AS INT)) d, concat(CASE WHEN id < 3 THEN '2018-11-04 0' "
        "ELSE '2020-03-29 0' END, CAST(id % 4 AS STRING), ':30:00') s, named_struct('t', timestamp_seconds(id * 60), "
        "'k', id) st, named_struct('n', timestamp_seconds(id)::timestamp_ntz, 'k', id) o FROM range(0, 8, 1, 1)"
    )
    frame.write.orc(str(place / "texts"))
    frame.drop("o").write.orc(str(place / "dates"))
    hx = hindex.connect(spark=spark)
    for name, column in {"own": "ts", "plain": "ts", "dates": "id"}.items():
        hx.table(str(place / name)).create_index("i", column)


@contextmanager
def session_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """Set the time zone of a session in the block."""
    previous_zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", previous_zone)


def compare_in_zone(spark: SparkSession, place: Path, java: str, zone: str) -> dict[str, Any]:
    """Run all comparisons with the session in a time zone."""
    with session_zone(spark, zone):
        return {
            "frames": compare_frames(spark, place),
            "statements": compare_statements(spark, place, statements_in(java, zone)),
            "joins": compare_joins(spark, place),
            "columns": compare_column_conditions(spark, place),
            "days": compare_days(spark, place / "days") if zone in DAY_SESSIONS else None,
            "layouts": compare_layouts(spark, LAYOUTS_OF_TIMES) if zone == "Europe/Berlin" else None,
            "parts": compare_indexes_on_parts(spark, place / "parts of times"),
        }


def run_statement(hx: hindex.Connection, text: str) -> list[Any] | str:
    """Return the kind of a result and its values, or the message of the error."""
    try:
        result: Any = hx.sql(text)
    except HindexError as error:
        return str(error)
    if isinstance(result, Explanation):
        return [type(result).__name__, []]
    is_by_hindex = isinstance(result.explain(), Explanation)
    values = (
        result.to_arrow().column(0).to_pylist()
        if is_by_hindex
        else [row[0] for row in result.to_spark().collect()]
    )
    return ["Scan" if is_by_hindex else "DataFrame", sorted(values)]


def main(java: str, root: str, remote: str = "") -> None:
    """Compare everything in a classic session, or days and layouts over Connect in the zone ``remote``."""
    place = Path(root)
    selectivity.MAX_SHARE, selectivity.MIN_VALUES = 1.0, 0
    if remote:
        spark = connect_session(java, str(place / "warehouse"))
        make_layouts(spark, place / "layouts", LAYOUTS_OVER_CONNECT)
        spark.conf.set("spark.sql.session.timeZone", remote)
        report = {
            "days": compare_days(spark, place / "days", is_brief=True),
            "layouts": compare_layouts(spark, LAYOUTS_OVER_CONNECT),
        }
        spark.stop()
        print("FOUND", json.dumps(report))
        return
    conf = {
        **QUICK_WORKERS,
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Duser.timezone={java}",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        # with it, Spark's own reader loses rows of the hour that a clock shows twice
        "spark.sql.orc.filterPushdown": "false",
    }
    write_clocks(place / "early")
    # the connection has not started its session yet
    hx = hindex.connect(master="local[2]", conf=conf)
    text = f"SELECT id FROM '{place / 'early'}' WHERE t < TIMESTAMP '1970-01-01 00:30:00'"
    lifecycle: dict[str, Any] = {
        "before": run_statement(hx, f"SELECT id FROM '{place / 'early'}' WHERE id = 3")
    }
    lifecycle["is_started"] = "spark=None" not in repr(hx)
    lifecycle["first"] = run_statement(hx, text)
    spark = hx.spark()
    lifecycle["again"] = run_statement(hx, text)
    lifecycle["wanted"] = sorted(
        row[0] for row in spark.read.orc(str(place / "early")).where(text.split("WHERE")[1]).collect()
    )
    lifecycle["analyze"] = run_statement(hx, f"EXPLAIN ANALYZE {text}")
    write_tables(spark, place)
    if IS_NIGHTLY:
        make_layouts(spark, place / "layouts", LAYOUTS_OF_TIMES)
    reports = {zone: compare_in_zone(spark, place, java, zone) for zone in SESSIONS}
    spark.stop()
    lifecycle["stopped"] = run_statement(hx, text)
    print("FOUND", json.dumps({**reports, "lifecycle": lifecycle}))


if __name__ == "__main__":
    main(*sys.argv[1:])

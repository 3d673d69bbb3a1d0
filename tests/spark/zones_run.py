"""Timestamps beside Spark's own reader; run as a program, in a Java of some time zone, it prints JSON."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyorc

import hindex
import hindex.spark.scan as spark_scan
from hindex.errors import HindexError
from hindex.plan.explain import Explanation
from hindex.queries import query_plan
from tests.support.elsewhere import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSIONS = ("UTC", "Europe/Berlin")
#: Clocks of 2020 around the transitions of these zones, and far from them.
CLOCKS = [
    *("1700-01-01 00:00:00", "1890-01-01 00:00:00", "1969-12-31 23:59:59", "1970-01-01 00:00:00"),
    *("2020-03-08 01:59:59.999999", "2020-03-08 02:30:00", "2020-03-08 03:00:00"),
    *("2020-03-29 01:59:59.999999", "2020-03-29 02:30:00", "2020-03-29 03:00:00"),
    *("2020-10-25 01:59:59.999999", "2020-10-25 02:30:00", "2020-10-25 03:00:00"),
    *("2020-11-01 00:59:59.999999", "2020-11-01 01:30:00", "2020-11-01 02:00:00"),
    *("2050-07-01 12:00:00", "9000-01-01 00:00:00"),
]
#: Statements, and where hindex answers them by itself: wherever the zones of Java and the session are one, only where
#: they are UTC, everywhere, or nowhere.
STATEMENTS = {
    "SELECT id FROM {} WHERE ts < TIMESTAMP '1970-01-01 01:10:00'": "one",
    "SELECT id FROM {} WHERE ts BETWEEN '1970-01-01 00:10:00' AND '1970-01-01 00:20:00' OR id = 9": "one",
    "SELECT count(*) FROM {} WHERE NOT ts >= TIMESTAMP '1970-01-01 01:10:00'": "one",
    "SELECT EXISTS(SELECT id FROM {} WHERE ts < TIMESTAMP '1970-01-01 00:30:00')": "one",
    "SELECT id FROM {} WHERE ts < TIMESTAMP '2020-10-25 02:30:00'": "utc",
    "SELECT id FROM {} WHERE hour(ts) = 1 AND id < 9000": "utc",
    "SELECT id FROM {} ORDER BY ts DESC LIMIT 3": "utc",
    "SELECT max(ts) FROM {}": "utc",
    "SELECT count(DISTINCT ts) FROM {} WHERE id < 9": "utc",
    "SELECT ts, count(*) FROM {} WHERE id < 9 GROUP BY ts": "utc",
    "SELECT ts FROM {} GROUP BY ts HAVING count(*) > 1": "utc",
    "SELECT count(ts) FROM {} WHERE id < 7": "all",
    "SELECT sum FROM {} WHERE id = 3": "all",
    "SELECT id FROM {} WHERE sum < 7": "all",
    "SELECT id FROM {texts} WHERE d = TIMESTAMP '2018-11-04 01:00:00'": "utc",
    "SELECT id FROM {texts} WHERE d IN (TIMESTAMP '2018-11-04 01:00:00') OR id = 0": "utc",
    "SELECT id FROM {texts} WHERE NOT d > TIMESTAMP '2018-11-04 00:30:00'": "utc",
    "SELECT id FROM {texts} WHERE hour(d) = 1": "utc",
    "SELECT id FROM {texts} WHERE s = TIMESTAMP '2020-03-29 03:30:00'": "utc",
    "SELECT id FROM {texts} WHERE s = TIMESTAMP '2018-11-04 01:30:00' AND id >= 0": "utc",
    "SELECT id FROM {texts} WHERE CAST(s AS TIMESTAMP) = CAST('2020-03-29 03:30:00' AS TIMESTAMP)": "utc",
    "SELECT id FROM {texts} WHERE id >= 0 AND CASE WHEN minute(s) = 30 THEN hour(s) = 3 ELSE false END": "utc",
    "SELECT id FROM {texts} WHERE id = hour(TIMESTAMP '2018-11-04 00:30:00')": "utc",
    "SELECT count(*) FROM {texts} WHERE TIMESTAMP '2020-03-29 02:30:00' = TIMESTAMP '2020-03-29 03:30:00'": "utc",
    "SELECT s FROM {texts} GROUP BY s HAVING hour(s) = 2": "utc",
    "SELECT EXISTS(SELECT id FROM {texts} WHERE s = TIMESTAMP '2020-03-29 03:30:00' AND id = 4)": "utc",
    "SELECT id FROM {texts} WHERE d > DATE '2018-11-03' AND year(s) = 2020": "all",
    "SELECT s FROM {texts} GROUP BY s HAVING s > '2020'": "all",
    "SELECT id FROM {texts} ORDER BY st.t DESC LIMIT 2": "utc",
    "SELECT st.t, count(*) FROM {texts} GROUP BY st.t": "utc",
    "SELECT id FROM {texts} WHERE st.t < TIMESTAMP '1970-01-01 01:02:00'": "one",
    "SELECT id FROM {texts} WHERE st.t IS NOT NULL AND st.k = 1": "one",
    "SELECT id FROM {texts} WHERE o.k = 1": "none",
    "SELECT o FROM {texts}": "none",
    "SELECT id FROM {instants} WHERE t < TIMESTAMP '2050-01-01 00:00:00'": "utc",
    "SELECT id FROM {instants} WHERE t IS NULL": "one",
    "SELECT n, id FROM {} WHERE id = 3": "none",
    "SELECT id FROM {} WHERE n < TIMESTAMP '1970-01-01 01:10:00'": "none",
}


def write_clocks(path: Path) -> None:
    """Two files of wall clocks, at all depths, by a writer in UTC, and one column of instants."""
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
    path.mkdir()
    schema = "struct<id:bigint,t:timestamp with local time zone>"
    with (path / "x.orc").open("wb") as file, pyorc.Writer(file, schema) as writer:
        # before 1900 Spark's reader adds what its Java has of two calendars in a zone
        values = [datetime.datetime.fromisoformat(f"{text}+00:00") for text in CLOCKS[2:]]
        writer.writerows(list(enumerate(values)))


def rows(frame: Any) -> list[str]:
    """What there is, timestamps as numbers at any depth, as the session shows them otherwise."""
    return sorted(map(str, frame.toArrow().to_pylist()))


def frames(spark: SparkSession, root: Path) -> dict[str, Any]:
    """Scans as frames, few rows and many, beside Spark's reader: how many rows, and whether they are the same."""
    found: dict[str, Any] = {}
    for name in ("clocks", "instants", "parts", "own"):
        scan = hindex.connect(spark=spark).table(str(root / name)).scan()
        # of Spark's own types that ORC has not, a scan has the numbers
        columns = [column for column in scan.schema.names if column != "n"]
        scan = scan.narrowed(None, columns, None)
        wanted = rows(spark.read.orc(str(root / name)).select(columns))
        for most in (spark_scan.MAX_LOCAL_VALUES, 0):
            spark_scan.MAX_LOCAL_VALUES, kept = most, spark_scan.MAX_LOCAL_VALUES
            try:
                same = rows(scan.to_spark()) == wanted
                ordered = most == 0 or rows(scan.order_by("id").to_spark()) == wanted
            finally:
                spark_scan.MAX_LOCAL_VALUES = kept
            found[f"{name} {'few' if most else 'many'}"] = [len(wanted), same, ordered]
    return found


def statements(spark: SparkSession, place: Path) -> list[list[Any]]:
    """Of each statement, whether hindex answered it, how many rows there are, and whether they are Spark's."""
    hx = hindex.connect(spark=spark)
    paths = {name: str(place / name) for name in ("own", "texts", "instants")}
    to_spark = {name: f"orc.`{path}`" for name, path in paths.items()}
    ours = {name: f"'{path}'" for name, path in paths.items()}
    found = []
    for text in STATEMENTS:
        wanted = [tuple(row) for row in spark.sql(text.format(to_spark["own"], **to_spark)).collect()]
        result: Any = hx.sql(text.format(ours["own"], **ours))
        is_ours = isinstance(result.explain(), Explanation)
        given = (
            [tuple(row.values()) for row in result.to_arrow().to_pylist()]
            if is_ours
            else [tuple(row) for row in result.to_spark().collect()]
        )
        explained: Any = hx.sql("EXPLAIN " + text.format(ours["own"], **ours))
        is_explained = type(explained).__name__ == "Explanation"
        found.append(
            [is_ours, is_explained, len(wanted), sorted(map(str, given)) == sorted(map(str, wanted))]
        )
    return found


def pushed_down(spark: SparkSession, place: Path) -> list[list[Any]]:
    """Whether queries for Spark read a table through its indexes, and what they and Spark alone have."""
    hx = hindex.connect(spark=spark)
    found = []
    for name, condition in {
        "plain": "t.ts < TIMESTAMP '1970-01-01 01:10:00'",
        "dates": "t.s = TIMESTAMP '2020-03-29 03:30:00' AND t.id >= 0",
    }.items():
        text = f"SELECT count(*), sum(t.id) FROM {{}} t JOIN range(9000) r ON t.id = r.id WHERE {condition}"
        explained: Any = hx.sql("EXPLAIN " + text.format(f"'{place / name}'"))
        result: Any = hx.sql(text.format(f"'{place / name}'"))
        alone = spark.sql(text.format(f"orc.`{place / name}`"))
        counts = [list(frame.collect()[0]) for frame in (result.to_spark(), alone)]
        found.append([explained.tables[0].is_accelerated, *counts])
    return found


def by_columns(spark: SparkSession, place: Path) -> list[list[Any]]:
    """How many rows conditions of PySpark keep, of a scan (or why it is none) and of Spark's own reader."""
    from pyspark.sql import functions

    found: list[list[Any]] = []
    for name, condition in {
        "own": functions.col("ts") < datetime.datetime(1970, 1, 1, 1, 10),
        "texts": functions.col("d") <= datetime.datetime(2018, 11, 3, 23, 30),
        "parts": functions.col("p") < datetime.datetime(2020, 7, 1, 9, 30),
    }.items():
        try:
            kept: int | str = hindex.connect(spark=spark).table(str(place / name)).scan(condition).count()
        except HindexError as error:
            kept = str(error)
        found.append([kept, spark.read.orc(str(place / name)).where(condition).count()])
    return found


def write_tables(spark: SparkSession, place: Path) -> None:
    """The tables of all that is asked here."""
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
    # Spark reads columns of its own types alone
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


def all_of(spark: SparkSession, place: Path, zone: str) -> dict[str, Any]:
    """What there is to be found where the session has a zone."""
    kept = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        return {
            "frames": frames(spark, place),
            "statements": statements(spark, place),
            "pushed": pushed_down(spark, place),
            "columns": by_columns(spark, place),
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)


def told(hx: hindex.Connection, text: str) -> list[Any] | str:
    """The kind of a result and its values, or what is wrong."""
    try:
        result: Any = hx.sql(text)
    except HindexError as error:
        return str(error)
    is_ours = isinstance(result.explain(), Explanation)
    values = (
        result.to_arrow().column(0).to_pylist()
        if is_ours
        else [row[0] for row in result.to_spark().collect()]
    )
    return ["Scan" if is_ours else "DataFrame", sorted(values)]


def main(java: str, root: str) -> None:
    conf = {
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Duser.timezone={java}",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "1",
    }
    place = Path(root)
    write_clocks(place / "early")
    # the session is asked for and not there yet
    hx = hindex.connect(master="local[2]", conf=conf)
    text = f"SELECT id FROM '{place / 'early'}' WHERE t < TIMESTAMP '1970-01-01 00:30:00'"
    asked: dict[str, Any] = {"before": told(hx, f"SELECT id FROM '{place / 'early'}' WHERE id = 3")}
    asked["is_started"] = "spark=None" not in repr(hx)
    asked["first"] = told(hx, text)
    spark = hx.spark()
    asked["again"] = told(hx, text)
    asked["wanted"] = sorted(
        row[0] for row in spark.read.orc(str(place / "early")).where(text.split("WHERE")[1]).collect()
    )
    asked["analyze"] = told(hx, f"EXPLAIN ANALYZE {text}")
    write_tables(spark, place)
    query_plan.MAX_SHARE, query_plan.MIN_VALUES = 1.0, 0
    found = {zone: all_of(spark, place, zone) for zone in SESSIONS}
    spark.stop()
    asked["stopped"] = told(hx, text)
    print("FOUND", json.dumps({**found, "asked": asked}))


if __name__ == "__main__":
    main(*sys.argv[1:])

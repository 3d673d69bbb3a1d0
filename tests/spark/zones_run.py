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
from hindex.scan.scan import Scan
from hindex.spark import query_plan

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


def statements(spark: SparkSession, path: str) -> list[list[Any]]:
    """Of each statement, whether hindex answered it, how many rows there are, and whether they are Spark's."""
    hx = hindex.connect(spark=spark)
    found = []
    for text in STATEMENTS:
        wanted = [tuple(row) for row in spark.sql(text.format(f"orc.`{path}`")).collect()]
        result: Any = hx.sql(text.format(f"'{path}'"))
        is_ours = isinstance(result, Scan | pa.Table)
        if isinstance(result, Scan):
            result = result.to_arrow()
        given = (
            [tuple(row.values()) for row in result.to_pylist()]
            if is_ours
            else [tuple(row) for row in result.collect()]
        )
        explained: Any = hx.sql("EXPLAIN " + text.format(f"'{path}'"))
        is_explained = type(explained).__name__ == "Explanation"
        found.append(
            [is_ours, is_explained, len(wanted), sorted(map(str, given)) == sorted(map(str, wanted))]
        )
    return found


def pushed_down(spark: SparkSession, path: str) -> list[Any]:
    """Whether a query for Spark reads a table through its indexes, how many rows there are, and Spark alone has."""
    hx = hindex.connect(spark=spark)
    text = "SELECT sum(t.id) FROM {} t JOIN range(9000) r ON t.id = r.id WHERE t.ts < TIMESTAMP '1970-01-01 01:10:00'"
    explained: Any = hx.sql("EXPLAIN " + text.format(f"'{path}'"))
    result: Any = hx.sql(text.format(f"'{path}'"))
    return [
        explained.tables[0].is_accelerated,
        *(found.collect()[0][0] for found in (result, spark.sql(text.format(f"orc.`{path}`")))),
    ]


def by_columns(spark: SparkSession, path: str) -> list[int]:
    """How many rows a condition of PySpark keeps, of a scan and of Spark's own reader."""
    from pyspark.sql import functions

    condition = functions.col("ts") < datetime.datetime(1970, 1, 1, 1, 10)
    scan = hindex.connect(spark=spark).table(path).scan(condition)
    return [scan.count(), spark.read.orc(path).where(condition).count()]


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
    hx = hindex.connect(spark=spark)
    for name in ("own", "plain"):
        hx.table(str(place / name)).create_index("i", "ts")


def all_of(spark: SparkSession, place: Path, zone: str) -> dict[str, Any]:
    """What there is to be found where the session has a zone."""
    own = str(place / "own")
    kept = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        return {
            "frames": frames(spark, place),
            "statements": statements(spark, own),
            "pushed": pushed_down(spark, str(place / "plain")),
            "columns": by_columns(spark, own),
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)


def main(java: str, root: str) -> None:
    from hindex.spark.session import local_session

    conf = {
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Duser.timezone={java}",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = local_session("local[2]", conf)
    write_tables(spark, Path(root))
    query_plan.MAX_SHARE, query_plan.MIN_VALUES = 1.0, 0
    found = {zone: all_of(spark, Path(root), zone) for zone in SESSIONS}
    spark.stop()
    print("FOUND", json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

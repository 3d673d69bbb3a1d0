"""Replace files of indexed tables of a Hive metastore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hindex
from tests.support.cases import IS_NIGHTLY

#: Clauses of CREATE TABLE by the kind of table.
KINDS = {"source": "USING orc", "hive": "STORED AS ORC"}
#: Statements on ``{t}``; those with partitions need a partitioned table. The last are methods of a frame.
WRITES = {
    "insert": "INSERT INTO {t} SELECT * FROM new",
    "overwrite": "INSERT OVERWRITE {t} SELECT * FROM new",
    "overwrite dynamic": "INSERT OVERWRITE {t} SELECT * FROM new",
    "overwrite partition": "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, a FROM new",
    "truncate": "TRUNCATE TABLE {t}",
    "truncate partition": "TRUNCATE TABLE {t} PARTITION (p = 1)",
    "drop partition": "ALTER TABLE {t} DROP PARTITION (p = 1)",
    "insertInto": "",
    "saveAsTable": "",
    "save": "",
}
WHERES = ("a = 7", "a = 1 OR p = 2", "id > 0")


def cases() -> list[tuple[str, str, str, str]]:
    """Return the cases: the kind of table, its layout, the owner of its files, and the write."""
    every = [
        (kind, layout, owner, write)
        for kind in KINDS
        for layout in ("flat", "partitioned")
        for owner in ("managed", "external")
        for write in WRITES
        if layout == "partitioned" or "partition" not in write
        if not (layout == "flat" and write == "overwrite dynamic")
        # partitioned tables cover all writes but those that replace the directory of the table
        if layout == "partitioned" or write in ("overwrite", "truncate", "saveAsTable", "save")
        # Spark writes Hive's ORC tables with the same code, except for their partitions
        if kind == "source" or write in ("overwrite", "overwrite dynamic", "truncate", "drop partition")
        if owner == "managed" or (kind, layout, write) == ("source", "partitioned", "overwrite")
    ]
    if IS_NIGHTLY:
        return every
    # by day, each write once
    firsts = {case[-1]: case for case in reversed(every)}
    return [*firsts.values(), *[case for case in every if case[0] == "hive"][:2]]


def run_case(spark: Any, place: Path, kind: str, layout: str, owner: str, write: str) -> dict[str, Any]:
    """Write to an indexed table, and describe its store, rows and indexes before and after a refresh."""
    name = f"{kind}_{layout}_{owner}_{write}".replace(" ", "_").lower()
    columns, by = "id BIGINT, a INT, p INT", ""
    if layout == "partitioned":
        columns, by = (
            (columns, "PARTITIONED BY (p)")
            if kind == "source"
            else ("id BIGINT, a INT", "PARTITIONED BY (p INT)")
        )
    at = f"LOCATION '{place}/external/{name}'" if owner == "external" else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) {KINDS[kind]} {by} {at}")
    spark.sql(f"INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2), (3, 1, 2)")
    directory = place / ("external" if owner == "external" else "warehouse") / name
    hx = hindex.connect(spark=spark)
    table = hx.table(name)
    table.create_index("by_a", "a")
    dynamic = "dynamic" if write == "overwrite dynamic" else "static"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", dynamic)
    frame = spark.table("new")
    if write == "insertInto":
        frame.write.insertInto(name, overwrite=True)
    elif write == "saveAsTable":
        frame.write.mode("overwrite").format("orc").saveAsTable(name)
    elif write == "save":
        frame = frame.coalesce(1).write.mode("overwrite")
        (frame.partitionBy("p") if layout == "partitioned" else frame).orc(str(directory))
        spark.catalog.refreshTable(name)
        if layout == "partitioned":
            spark.sql(f"MSCK REPAIR TABLE {name} SYNC PARTITIONS")
    else:
        spark.sql(WRITES[write].format(t=name))
    report: dict[str, Any] = {"store": (directory / "_hindex").exists()}
    report |= {"rows": compare_rows(spark, hx, name)}
    table = hx.table(name)
    report["states"] = [index.state.name for index in table.indexes()]
    try:
        report["refreshed"] = table.refresh_indexes().changed
    except hindex.HindexError as error:
        report["refreshed"] = type(error).__name__
    report["after"] = [index.state.name for index in table.indexes()]
    report["rows after"] = compare_rows(spark, hx, name)
    return report


def compare_rows(spark: Any, hx: Any, name: str) -> bool | list[Any]:
    """Return True if the rows of all predicates are Spark's, or a predicate and both lists of rows."""
    columns = ["id", "a", "p"]
    answers = spark.table(name).selectExpr(
        *columns, *(f"({where}) AS w{at}" for at, where in enumerate(WHERES))
    )
    truth = [tuple(row) for row in answers.collect()]
    table = hx.table(name)
    for at, where in enumerate(WHERES):
        rows = sorted(tuple(row.values()) for row in table.scan(where, columns).to_arrow().to_pylist())
        expected = sorted(row[: len(columns)] for row in truth if row[len(columns) + at])
        if rows != expected:
            return [where, rows, expected]
    return True


def run_cases(spark: Any, place: Path) -> dict[str, Any]:
    """Run all cases, with the session's warehouse in ``place``, and return their reports by name."""
    spark.sql("CREATE TEMP VIEW new AS SELECT 7L AS id, 7 AS a, 1 AS p UNION ALL SELECT 8L, 1, 1")
    reports = {" ".join(case): run_case(spark, place, *case) for case in cases()}
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    return reports

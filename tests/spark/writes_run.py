"""Writes that replace files of indexed tables of a Hive metastore; run as a program, it prints findings as JSON.

The metastore is embedded Derby: one for each process, in a directory that is given, as is all that is written.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["PYSPARK_PYTHON"] = sys.executable
time.tzset()

import hindex  # noqa: E402
from tests.support.elsewhere import QUICK_JAVA, QUICK_WORKERS  # noqa: E402

#: What tables are made with.
KINDS = {"source": "USING orc", "hive": "STORED AS ORC"}
#: Statements on ``{t}``; those of partitions for partitioned tables only. The last ones are methods of a frame.
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


def names() -> list[tuple[str, str, str, str]]:
    """Each kind of table with each write: its kind, how it is partitioned, whose its files are, and the write."""
    return [
        (kind, layout, owner, write)
        for kind in KINDS
        for layout in ("flat", "partitioned")
        for owner in ("managed", "external")
        for write in WRITES
        if layout == "partitioned" or "partition" not in write
        if not (layout == "flat" and write == "overwrite dynamic")
        # a write of partitions has all that one without them has, but for the directories that it leaves
        if layout == "partitioned" or write in ("overwrite", "truncate", "saveAsTable", "save")
        # Spark writes Hive's tables of ORC files with the same code, but for their partitions
        if kind == "source" or write in ("overwrite", "overwrite dynamic", "truncate", "drop partition")
        if owner == "managed" or (kind, layout, write) == ("source", "partitioned", "overwrite")
    ]


def outcome(spark: Any, place: Path, kind: str, layout: str, owner: str, write: str) -> dict[str, Any]:
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
    found: dict[str, Any] = {"store": (directory / "_hindex").exists()}
    found |= {"rows": compared(spark, hx, name)}
    table = hx.table(name)
    found["states"] = [index.state.name for index in table.indexes()]
    try:
        found["refreshed"] = table.refresh_indexes().changed
    except hindex.HindexError as error:
        found["refreshed"] = type(error).__name__
    found["after"] = [index.state.name for index in table.indexes()]
    found["rows after"] = compared(spark, hx, name)
    return found


def compared(spark: Any, hx: Any, name: str) -> bool | list[Any]:
    """True where the rows of all predicates are Spark's, otherwise both."""
    columns = ["id", "a", "p"]
    answers = spark.table(name).selectExpr(
        *columns, *(f"({where}) AS w{at}" for at, where in enumerate(WHERES))
    )
    truth = [tuple(row) for row in answers.collect()]
    for at, where in enumerate(WHERES):
        rows = sorted(
            tuple(row.values()) for row in hx.table(name).scan(where, columns).to_arrow().to_pylist()
        )
        expected = sorted(row[: len(columns)] for row in truth if row[len(columns) + at])
        if rows != expected:
            return [where, rows, expected]
    return True


def main(root: str) -> None:
    from pyspark.sql import SparkSession

    place = Path(root)
    options = f"{QUICK_JAVA} -Dderby.system.home={place} -Duser.timezone=UTC"
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map={**QUICK_WORKERS})
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={place}/metastore_db;create=true",
        )
        .enableHiveSupport()
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql("CREATE TEMP VIEW new AS SELECT 7L AS id, 7 AS a, 1 AS p UNION ALL SELECT 8L, 1, 1")
    found = {" ".join(name): outcome(spark, place, *name) for name in names()}
    spark.stop()
    print("FOUND", json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Write to and scan tables of a Hive metastore; as a program, print a report as JSON.

The program has a Derby metastore in memory; all files are in the directory of the argument.
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
from tests.integration import writes_run  # noqa: E402
from tests.support.elsewhere import QUICK_JAVA, QUICK_WORKERS  # noqa: E402
from tests.support.small import reasons  # noqa: E402

#: The partition values in SQL, the location, and the ids of the rows.
PARTITIONS = [
    ("p = 1, q = 'plain'", None, [1, 2, 3]),
    ("p = 2, q = 'x y/z%='", None, [4, 5, 6]),
    ("p = 3, q = 'ä#:b''s'", "old data/100%/p3", [7, 8, 9]),
    ("p = 4, q = 'plain'", "old data/p4", [10, 11, 12]),
    ("p = 5, q = 'none'", "nothing", []),
]
WHERES = [
    "a = 1",
    "a = 1 AND p >= 3",
    "q = 'plain' AND a >= 0",
    "p = 3",
    "a = 2 AND p = 4",
    "a = 0 OR p = 5",
    "p IS NULL",
]


#: The partitions of the second table: the value, the location, and the ids of the rows.
OTHERS = [
    (1, "u/p=2", [1, 2, 3]),
    (2, "u/p=1", [4, 5, 6]),
    (3, "u/p=1/below", [7, 8]),
    (4, "u", [9]),
    (5, "a b", [10, 11]),
    (6, "a%20b", [12]),
]


def scan_shared_locations(spark: Any, place: Path) -> dict[str, Any]:
    """Scan a table with partitions in directories of other partitions, and at locations with equal URIs."""
    spark.sql(
        "CREATE EXTERNAL TABLE u (id BIGINT, a INT) PARTITIONED BY (p INT) STORED AS ORC "
        f"LOCATION '{place}/u'"
    )
    for partition, directory, ids in OTHERS:
        spark.sql(f"ALTER TABLE u ADD PARTITION (p = {partition}) LOCATION '{place}/{directory}'")
        values = ", ".join(f"({number}, {number % 3})" for number in ids)
        spark.sql(
            f"INSERT INTO u PARTITION (p = {partition}) SELECT /*+ COALESCE(1) */ * FROM VALUES {values}"
        )
    table = hindex.connect(spark=spark).table("u")
    table.create_index("i", "a")
    scan = table.scan("a <= 1", ["id", "p"])
    report: dict[str, Any] = {
        "rows": sorted([row["id"], row["p"]] for row in scan.to_arrow().to_pylist()),
        "spark": sorted([row["id"], row["p"]] for row in spark.table("u").where("a <= 1").collect()),
        "exact": scan.explain().exact,
    }
    spark.sql("SET spark.sql.hive.convertMetastoreOrc = false")
    try:
        scan.count()
    except hindex.HindexError as error:
        report["error"] = str(error)
    return report


def scan_partitions_elsewhere(spark: Any, place: Path) -> dict[str, Any]:
    """Scan a table whose partitions are outside its directory: some are indexed, one is moved, one is dropped."""
    spark.sql("CREATE TABLE t (id BIGINT, a INT) PARTITIONED BY (p INT, q STRING) STORED AS ORC")
    for spec, directory, ids in PARTITIONS:
        at = "" if directory is None else f" LOCATION '{place / directory}'"
        spark.sql(f"ALTER TABLE t ADD PARTITION ({spec}){at}")
        if ids:
            values = ", ".join(f"({number}, {number % 3})" for number in ids)
            spark.sql(f"INSERT INTO t PARTITION ({spec}) SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")
    hx = hindex.connect(spark=spark)
    table = hx.table("t")
    index = table.create_index("i", "a", where="p IN (1, 3)")
    report: dict[str, Any] = {"index": [index.status, index.num_files], "scans": {}}
    for where in WHERES:
        scan = table.scan(where, ["id"])
        report["scans"][where] = {
            "rows": sorted(scan.to_arrow().column("id").to_pylist()),
            "spark": sorted(row["id"] for row in spark.table("t").where(where).select("id").collect()),
            "reasons": {reason.name: sorted(subjects) for reason, subjects in reasons(scan).items()},
            "kept": None if (rows := scan.explain().rows) is None else rows.kept,
        }
    text = "SELECT count(*) AS n FROM t JOIN range(20) r ON t.id = r.id WHERE t.a = 1"
    joined: Any = hx.sql(text)
    report["join"] = [joined.max("n"), spark.sql(text).collect()[0]["n"]]
    # move a partition and drop another: files at the new location are new, and all others stay indexed
    (place / "old data/p4").rename(place / "p4")
    spark.sql(f"ALTER TABLE t PARTITION (p = 4, q = 'plain') SET LOCATION '{place / 'p4'}'")
    spark.sql("ALTER TABLE t DROP PARTITION (p = 3)")
    scan = table.scan("a = 1", ["id"])
    report["moved"] = sorted(scan.to_arrow().column("id").to_pylist())
    report["moved_spark"] = sorted(row["id"] for row in spark.sql("SELECT id FROM t WHERE a = 1").collect())
    report["moved_reasons"] = sorted(reason.name for reason in reasons(scan))
    result = table.refresh_indexes(["i"])
    report["refreshed"] = [result.files_read, result.files_forgotten]
    return report


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
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true")
        .enableHiveSupport()
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    report = {"writes": writes_run.run_cases(spark, place)}
    report |= scan_partitions_elsewhere(spark, place)
    report["shared locations"] = scan_shared_locations(spark, place)
    spark.stop()
    print("FOUND", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])

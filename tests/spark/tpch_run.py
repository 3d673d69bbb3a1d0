"""Run TPC-H with tasks in other processes: ``python -m tests.spark.tpch_run cluster DIRECTORY``.

``connect`` starts a Spark Connect server in place of the cluster.
The program writes the tables to the directory, at scale 0.01. Executors read every table with a condition
through its indexes; on a cluster the first of these reads kills its executor. The program prints a report as
JSON: the tables of each query that were read through indexes, and the queries whose rows differ from Spark's.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hindex
import hindex.spark.scan
from hindex.queries import selectivity
from hindex.queries.query_execution import explain_query, run_query
from hindex.sql.queries import parse_query
from tests.integration import remote_run
from tests.support.archive import write_archive
from tests.support.tpch import INDEXES, QUERIES, rounded, write_indexed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def create_tables(spark: SparkSession, root: Path) -> None:
    """Create the tables in the session's catalog."""
    for name in INDEXES:
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{root / name}'").collect()


def main(kind: str, directory: str) -> None:
    root = Path(directory)
    if not (root / "region").exists():
        write_indexed(root)
    if kind == "cluster":
        spark = remote_run.cluster_session(str(write_archive(root / "hindex.zip")))
    else:
        spark = remote_run.connect_session()
    # there are few rows: compiling and planning queries again would take most of the time
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    create_tables(spark, root)
    selectivity.MAX_SHARE, selectivity.MIN_VALUES = 1.0, 0
    scan: Any = hindex.spark.scan
    scan.MAX_LOCAL_VALUES = 0
    flag = root / "killed"
    flag.unlink(missing_ok=True)
    if kind == "cluster":
        from pyspark import cloudpickle

        # executors have the package, but not its tests
        cloudpickle.register_pickle_by_value(remote_run)  # type: ignore[no-untyped-call]
        scan.read_group = partial(remote_run.run_and_kill, scan.read_group, str(flag))
    hx = hindex.connect(spark=spark)
    accelerated: dict[int, list[str]] = {}
    different = []
    for number, text in enumerate(QUERIES, 1):
        query = parse_query(text)
        assert query is not None
        accelerated[number] = [item.table for item in explain_query(hx, query).tables if item.is_accelerated]
        result, wanted = run_query(hx, query), spark.sql(text)
        answers = [[rounded(tuple(row)) for row in frame.collect()] for frame in (result, wanted)]
        is_same = result.schema == wanted.schema and answers[0] == answers[1]
        different += [] if is_same else [number]
        verdict = "the same" if is_same else "DIFFERENT"
        print(f"query {number}: {len(answers[0])} rows, {verdict}", file=sys.stderr, flush=True)
    spark.stop()
    print("FOUND", json.dumps({"accelerated": accelerated, "different": different, "killed": flag.exists()}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Run ``spark.sql`` with and without ``hindex.accelerate`` in one session: ``python -m tests.bench accelerate``.

Queries of a job: some of which few rows match, some that cannot profit, and, with ``--tpch``, those of TPC-H. Their
answers must be the same. The ratio is the time without by the time with, planning included.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from hindex.spark.session import local_session
from tests.bench import tpch
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import ratios, seconds
from tests.support.tpch import QUERIES, rounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Queries that read about 0.02 % of the rows of a table, or fewer.
SELECTIVE: dict[str, tuple[str, Any]] = {
    "key": ("SELECT * FROM lineitem WHERE l_orderkey = :key", {"key": 12_345}),
    "part": (
        "SELECT l_orderkey, l_quantity FROM lineitem WHERE l_partkey IN (?, ?, ?)",
        [155, 1_550, 15_500],
    ),
    "day": (
        (
            "SELECT o_orderpriority, count(*) AS n, sum(o_totalprice) AS total FROM orders "
            "WHERE o_orderdate = DATE '1995-03-15' AND o_orderstatus = 'P' GROUP BY o_orderpriority"
        ),
        None,
    ),
    "join": (
        (
            "SELECT o_orderdate, o_totalprice, l_quantity FROM lineitem JOIN orders ON o_orderkey = l_orderkey "
            "WHERE l_partkey = 2000"
        ),
        None,
    ),
    "cte": (
        (
            "WITH few AS (SELECT * FROM lineitem WHERE l_suppkey = 10 AND l_shipdate = DATE '1996-01-02') "
            "SELECT l_shipmode, count(*) AS n FROM few GROUP BY l_shipmode"
        ),
        None,
    ),
    "window": (
        (
            "SELECT l_orderkey, rank() OVER (PARTITION BY l_shipmode ORDER BY l_extendedprice) AS place "
            "FROM lineitem WHERE l_partkey = 77"
        ),
        None,
    ),
}
#: Queries that indexes cannot help.
OTHERS: dict[str, tuple[str, Any]] = {
    "tiny": ("SELECT 1 AS one", None),
    "small": ("SELECT * FROM nation JOIN region ON n_regionkey = r_regionkey", None),
    "no index": ("SELECT count(*) AS n FROM partsupp WHERE ps_availqty = 7", None),
    "no condition": ("SELECT l_shipmode, sum(l_quantity) AS q FROM lineitem GROUP BY l_shipmode", None),
    "many rows": ("SELECT sum(l_extendedprice) AS p FROM lineitem WHERE l_quantity > 20", None),
    "view": ("SELECT count(*) AS n FROM temporary WHERE n_regionkey = 1", None),
}


def run(options: argparse.Namespace) -> SectionResult:
    spark = local_session("local[*]", {"spark.sql.session.timeZone": "UTC"})
    hx = hindex.connect(spark=spark)
    tpch.make(hx, spark, options.scale, options.data / f"tpch-{options.scale:g}")
    # near-unique and in order, or many times and anywhere
    types = {"l_orderkey": "btree", "l_partkey": "bitmap", "l_suppkey": "bitmap"}
    keys = [hindex.IndexSpec(f"key_{name}", name, using) for name, using in types.items()]
    lineitem = options.data / f"tpch-{options.scale:g}" / "lineitem"
    hx.table(str(lineitem)).create_indexes(keys, if_not_exists=True)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW temporary AS SELECT * FROM nation")
    queries = {**SELECTIVE, **OTHERS}
    if options.tpch:
        queries = {f"query {number}": (text, None) for number, text in enumerate(QUERIES, 1)}
    progress = progress_for(sys.stderr)
    progress.start(len(queries), "accelerate")
    measured, different = {}, []
    for name, (text, args) in queries.items():
        measured[name], differs = _measure(spark, text, args, options)
        different += [name] if differs else []
        progress.advance()
    progress.finish()
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


class _Lines(logging.Handler):
    """A log handler that collects the lines of the query log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _measure(
    spark: SparkSession, text: str, args: Any, options: argparse.Namespace
) -> tuple[dict[str, Any], bool]:
    """Time one query; return its timings, and True if its answers differ."""
    rule = hindex.connect(spark=spark).plan_rule()

    def collect() -> pa.Table:
        return spark.sql(text, args).toArrow()

    def accelerated() -> pa.Table:
        with rule.forced(True):
            return spark.sql(text, args).toArrow()

    log, handler = logging.getLogger("hindex.queries"), _Lines()
    log.addHandler(handler)
    times: dict[str, list[float]] = {"spark": [], "hindex": []}
    log.setLevel(logging.INFO)
    alone, through = collect(), accelerated()
    log.setLevel(logging.WARNING)
    for number in range(options.warmups + options.rounds):
        for name in list(times)[:: 1 if number % 2 else -1]:
            run_seconds = seconds(accelerated if name == "hindex" else collect)
            if number >= options.warmups:
                times[name].append(round(run_seconds * 1000, 1))
    log.removeHandler(handler)
    line = (handler.lines or ["not accelerated"])[-1]
    differs = alone.schema != through.schema or _rows(alone) != _rows(through)
    return {**{name: {"ms": values} for name, values in times.items()}, "line": line}, differs


def _rows(table: pa.Table) -> list[str]:
    return sorted(repr(rounded(tuple(row.values()))) for row in table.to_pylist())


def _table(measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for name, item in measured.items():
        spark, own = item["spark"]["ms"], item["hindex"]["ms"]
        outcome = item["line"].partition(" | ")[0]
        more = statistics.median(own) - statistics.median(spark)
        rows.append(
            [
                name,
                "yes" if outcome.startswith("accelerated") else "no",
                *(f"{statistics.median(item):,.0f}" for item in (spark, own)),
                f"{more:+,.0f}",
                ratio_text(ratios(spark, own)),
            ]
        )
    headings = ["query", "accelerated", "Spark ms", "accelerated ms", "more ms", "ratio"]
    return {"headings": headings, "rows": rows, "right": 2}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tpch", action="store_true", help="the 22 queries of TPC-H instead")


SECTION = Section(
    "accelerate", "spark.sql with and without hindex.accelerate", run, _add_options, scale=1, rounds=5
)

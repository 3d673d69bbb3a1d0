"""Run the queries of TPC-H with and without indexes, in turn in one session: ``python -m tests.bench tpch``.

The answers must be the same. For each query: the tables that were read through indexes, the time of both, and Spark's
divided by hindex's, round by round. Where no table was read through indexes, Spark's plan must be the same, too: hindex
then loses what its planning takes longer than Spark's analysis of the query, and the rest of the ratio is noise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import hindex
from hindex.cli.demo import make_tpch_table
from hindex.cli.progress import progress_for
from hindex.spark.session import local_session
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import ratios
from tests.support.tpch import INDEXES, QUERIES, rounded
from tests.support.tpch_frames import FRAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Ratios nearer to 1 than this get more rounds, because they are within the noise of the machine.
_NEAR = 1.15


def run(options: argparse.Namespace) -> SectionResult:
    spark = local_session("local[*]", {"spark.sql.session.timeZone": "UTC"})
    hx = hindex.connect(spark=spark)
    make(hx, spark, options.scale, options.data / f"tpch-{options.scale:g}")
    numbers = options.queries or range(1, len(QUERIES) + 1)
    progress = progress_for(sys.stderr)
    progress.start(len(numbers), "TPC-H")
    measured: dict[int, dict[str, Any]] = {}
    different = []
    for number in numbers:
        timings, differs = _measure(hx, spark, number, options)
        measured[number] = timings
        different += [f"query {number}"] if differs else []
        progress.advance()
    progress.finish()
    return SectionResult(
        {
            "measured": {str(number): timings for number, timings in measured.items()},
            "tables": [_table(measured)],
        },
        different,
    )


def _measure(
    hx: hindex.Connection, spark: SparkSession, number: int, options: argparse.Namespace
) -> tuple[dict[str, Any], bool]:
    """Time one query; return its timings, and True if its answers differ."""

    def query() -> DataFrame:
        return FRAMES[number - 1](spark) if options.frames else spark.sql(QUERIES[number - 1])

    def alone() -> DataFrame:
        frame = query()
        frame._jdf.queryExecution().executedPlan()
        return frame

    rule = hx.plan_rule()

    def through() -> DataFrame:
        frame = query()
        with rule.forced(True):
            # with all of the planning
            frame._jdf.queryExecution().executedPlan()
        return frame

    frames = alone(), through()
    differs = _rows(frames[0].toArrow()) != _rows(frames[1].toArrow())
    explained = hx.explain(query())
    accelerated = [item.table for item in explained.tables if item.is_accelerated]
    if not accelerated:
        # optimized plans have no names of common table expressions, which are new in each query
        plans = [frame._jdf.queryExecution().optimizedPlan() for frame in frames]
        differs |= not plans[0].sameResult(plans[1])
    runs = {"spark": alone, "hindex": through}
    timings: dict[str, dict[str, list[float]]] = {name: {"ms": [], "planning_ms": []} for name in runs}
    for turn in range(options.warmups + 2 * options.rounds):
        if turn == options.warmups + options.rounds and not _is_near(timings):
            break
        # the other one begins each round
        for name in list(runs)[:: 1 if turn % 2 else -1]:
            start = perf_counter()
            frame = runs[name]()
            planned = perf_counter()
            frame.toArrow()
            if turn >= options.warmups:
                timings[name]["planning_ms"].append(round((planned - start) * 1000, 1))
                timings[name]["ms"].append(round((perf_counter() - start) * 1000, 1))
    tables = {item.table: None if item.reason is None else item.reason.name for item in explained.tables}
    return {**timings, "accelerated": accelerated, "reasons": tables}, differs


def _is_near(timings: dict[str, dict[str, list[float]]]) -> bool:
    """Return True if a query's ratio is so near to 1 that more rounds must decide on its side."""
    values = ratios(timings["spark"]["ms"], timings["hindex"]["ms"])
    return 1 / _NEAR < statistics.median(values) < _NEAR


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [rounded(tuple(row.values())) for row in table.to_pylist()]


def make(hx: hindex.Connection, spark: SparkSession, scale: float, directory: Path) -> None:
    """Make the tables, register their names, and build their indexes; keep the existing ones."""
    for name, columns in INDEXES.items():
        path = directory / name
        if not (path / "_SUCCESS").exists():
            make_tpch_table(spark, name, scale, path)
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{path}'")
        specs = [hindex.IndexSpec(column, column) for column in columns]
        if specs:
            hx.table(str(path)).create_indexes(specs, if_not_exists=True)


def _table(measured: dict[int, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for number, timings in measured.items():
        spark, own = timings["spark"], timings["hindex"]
        planning = statistics.median(own["planning_ms"]) - statistics.median(spark["planning_ms"])
        rows.append(
            [
                str(number),
                ", ".join(timings["accelerated"]) or "-",
                *(f"{statistics.median(item['ms']):,.0f}" for item in (spark, own)),
                ratio_text(ratios(spark["ms"], own["ms"])),
                f"{planning:.0f}",
                f"{planning / statistics.median(spark['ms']):.1%}",
            ]
        )
    headings = [
        "query",
        "through indexes",
        "Spark ms",
        "hindex ms",
        "ratio",
        "planning ms",
        "of Spark's time",
    ]
    return {"headings": headings, "rows": rows, "right": 2}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, nargs="+", metavar="N", help="some of them, by their numbers")
    parser.add_argument("--frames", action="store_true", help="as DataFrame code in place of texts")


SECTION = Section(
    "tpch", "the queries of TPC-H through hx.sql beside Spark alone", run, _add_options, scale=1, rounds=5
)

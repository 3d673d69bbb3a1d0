"""Run the needles through ``Scan.to_spark`` beside Spark's own reader, in turn in one session, at several scales.

And how long the first row takes where a warm Python worker of an executor reads it, not the driver.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa

import hindex
from hindex.cli.progress import progress_for
from hindex.spark import scan as spark_scan
from tests.bench.compare import digest
from tests.bench.data import Dataset, spark_session
from tests.bench.making import ensure_table
from tests.bench.predicates import sql
from tests.bench.queries import Query, needles
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios
from tests.bench.workers import warm_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The query whose first row is timed.
_FIRST = "point-partkey"


def run(options: argparse.Namespace) -> SectionResult:
    scales = [options.scale] if options.quick else options.scales
    spark = spark_session({"spark.sql.session.timeZone": "UTC"})
    warm_workers(spark)
    progress = progress_for(sys.stderr)
    measured: dict[str, dict[str, Any]] = {}
    different: list[str] = []
    for scale in scales:
        dataset = Dataset("lineitem", scale)
        path = str(ensure_table(dataset, options.data))
        table = hindex.connect(str(options.data / dataset.name / "to-spark"), spark).table(path)
        names = {query.name: query for query in needles(scale)}
        table.create_indexes(
            [hindex.IndexSpec(column, column) for column in dataset.indexed], if_not_exists=True
        )
        progress.start(len(names) + 1, f"to_spark on {dataset.name}")
        timings = measured[dataset.name] = {}
        for name, query in names.items():
            by_hindex, by_spark = _frames(spark, table, path, query)
            rows = [make().toArrow() for make in (by_hindex, by_spark)]
            if digest(rows[0]) != digest(rows[1]):
                different.append(f"{name} of {dataset.name}")
            timings[name] = {
                "rows": rows[0].num_rows,
                **_time_in_turn(options, _all(by_hindex), _all(by_spark)),
            }
            progress.advance()
        by_hindex, by_spark = _frames(spark, table, path, names[_FIRST])
        with mock.patch.object(spark_scan, "MAX_LOCAL_VALUES", 0):
            timings["first row"] = {"rows": 1, **_time_in_turn(options, _first(by_hindex), _first(by_spark))}
        progress.advance()
        progress.finish()
    return SectionResult({"measured": measured, "tables": [_table(measured)]}, different)


def _frames(
    spark: SparkSession, table: hindex.Table, path: str, query: Query
) -> tuple[Callable[[], DataFrame], Callable[[], DataFrame]]:
    """Return functions that make a query's DataFrame by hindex, planning included, and by Spark."""
    where = "true" if query.where is None else sql(query.where)
    columns = list(query.columns or ())
    return (
        lambda: table.scan(where, columns).to_spark(spark),
        lambda: spark.read.orc(path).where(where).select(*columns),
    )


def _all(make: Callable[[], DataFrame]) -> Callable[[], pa.Table]:
    return lambda: make().toArrow()


def _first(make: Callable[[], DataFrame]) -> Callable[[], object]:
    return lambda: next(iter(make().toLocalIterator()))


def _time_in_turn(
    options: argparse.Namespace, by_hindex: Callable[[], object], by_spark: Callable[[], object]
) -> dict[str, list[float]]:
    in_turn(options.warmups, by_hindex, by_spark)
    own_ms, spark_ms = in_turn(options.rounds, by_hindex, by_spark)
    return {"hindex": own_ms, "spark": spark_ms}


def _table(measured: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for dataset, queries in measured.items():
        for name, item in queries.items():
            medians = [f"{statistics.median(item[engine]):,.0f}" for engine in ("spark", "hindex")]
            ratio = ratio_text(ratios(item["spark"], item["hindex"]))
            rows.append([dataset, name, f"{item['rows']:,}", *medians, ratio])
    headings = ["table", "query", "rows", "Spark ms", "hindex ms", "ratio"]
    return {"headings": headings, "rows": rows, "right": 2}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scales", nargs="+", type=float, default=[1.0, 2.0, 10.0], help="default: 1 2 10")


SECTION = Section(
    "to-spark", "the six queries through to_spark beside Spark's own reader", run, _add_options, rounds=5
)

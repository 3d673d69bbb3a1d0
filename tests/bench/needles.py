"""Needles in TPC-H lineitem: hindex beside Spark's own ORC reader, in turn, in one run.

``python -m tests.bench.needles`` from the root of the checkout. Times are printed and never judged; the exit
code is 1 where the rows differ. ``docs/benchmarks.md`` says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import hindex
from hindex.cli.demo import COLUMNS, same_rows
from hindex.spark.session import local_session
from tests.bench.data import data_files, lineitem
from tests.bench.options import bench_parser
from tests.bench.report import finish, in_turn, machine, ratios, seconds, spread
from tests.bench.workers import warm_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Predicates, and how much faster than Spark each has to be at scale 2.
PREDICATES = {
    "l_orderkey = 4000001": 20,
    "l_partkey = 777": 10,
    "l_suppkey IN (17, 1900, 12345)": 5,
    "l_quantity = 1 AND l_discount = 0.10 AND l_tax = 0.08": 1,
    "l_shipdate = DATE '1995-03-15'": 1,
    "l_shipmode = 'MAIL' AND l_returnflag = 'R'": 1,
}
#: Built in one job, whose time is printed beside Spark's scan of the same columns.
FIRST_INDEXES = ["l_shipmode", "l_shipdate", "l_partkey"]
#: Built in one more job.
OTHER_INDEXES = ["l_orderkey", "l_suppkey", "l_quantity", "l_discount", "l_tax", "l_returnflag"]
BUILD_SCANS = 3


@dataclass(frozen=True, slots=True)
class Build:
    """The time of one build job, beside Spark's scans of the same columns (median of :data:`BUILD_SCANS`)."""

    columns: list[str]
    seconds: float
    scan_seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """One predicate: times in milliseconds, a pair for each round; ``target`` is the ratio to reach."""

    predicate: str
    rows: int
    same: bool
    target: float
    hindex_ms: list[float]
    spark_ms: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times faster hindex was, pair by pair."""
        return ratios(self.spark_ms, self.hindex_ms)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    spark = local_session(
        options.master,
        {"spark.sql.orc.filterPushdown": "true", "spark.sql.orc.impl": "native"},
        "hindex-bench",
    )
    path = options.table or lineitem(spark, options.scale, options.dir)
    # an own table keeps its indexes beside it, as every table does unless told otherwise
    store = options.store or (None if options.table else options.dir / "store")
    table = hindex.connect(str(store) if store else None, spark).table(str(path))
    files = data_files(path)
    size = sum(file.stat().st_size for file in files)
    print(f"{path}: {len(files)} files, {size / 1e6:,.0f} MB", flush=True)
    if options.rebuild or options.table is None:
        for index in table.indexes():
            index.drop()
    builds = [
        built
        for columns in (FIRST_INDEXES, OTHER_INDEXES)
        if (built := _build(spark, table, path, columns)) is not None
    ]
    print(f"{sum(index.size_bytes for index in table.indexes()) / 1e6:,.0f} MB of indexes\n", flush=True)

    results = []
    print(f"{_CELLS.format(*_HEADINGS)}\n{'-' * 118}", flush=True)
    for result in _contests(spark, table, path, options):
        results.append(result)
        print(_CELLS.format(*_row(result)), flush=True)
    report = {
        "table": {"bytes": size, "files": len(files), "scale": None if options.table else options.scale},
        "machine": machine("pyspark"),
        "columns": COLUMNS,
        "builds": [asdict(build) for build in builds],
        "results": [asdict(result) | {"ratios": result.ratios} for result in results],
    }
    return finish(report, options.json, [result.predicate for result in results if not result.same], "Spark")


def _parser() -> argparse.ArgumentParser:
    parser = bench_parser(
        "needles",
        "Needles in TPC-H lineitem: hindex beside Spark.",
        measured="measured pairs a predicate",
        warmups=2,
    )
    parser.add_argument(
        "--store", type=Path, help="directory of the indexes; those of --table are used again"
    )
    parser.add_argument("--rebuild", action="store_true", help="build also those indexes of --table anew")
    parser.add_argument("--master", default="local[*]", help="Spark master (default local[*])")
    return parser


def _build(spark: SparkSession, table: hindex.Table, path: Path, columns: list[str]) -> Build | None:
    """Build the indexes of columns in one job, where there are none yet."""
    indexed = {index.column for index in table.indexes()}
    missing = [column for column in columns if column not in indexed]
    if not missing:
        return None
    warm_workers(spark)
    frame = spark.read.orc(str(path)).select(*missing)

    def scan() -> None:
        frame.write.format("noop").mode("overwrite").save()

    scan()
    scans = [seconds(scan) for _ in range(BUILD_SCANS)]
    specs = [hindex.IndexSpec(column.removeprefix("l_"), column) for column in missing]
    taken = seconds(lambda: table.create_indexes(specs))
    size = sum(index.size_bytes for index in table.indexes() if index.column in missing)
    build = Build(missing, taken, statistics.median(scans), size)
    print(
        f"built {', '.join(missing)} in one job: {taken:.2f} s, {size / 1e6:,.0f} MB; Spark's scan of the "
        f"same columns: {build.scan_seconds:.2f} s; ratio {taken / build.scan_seconds:.2f}",
        flush=True,
    )
    return build


@dataclass(frozen=True, slots=True)
class Contest:
    """One predicate, answered by hindex and by Spark."""

    spark: SparkSession
    table: hindex.Table
    path: Path
    predicate: str

    def ours(self) -> pa.Table:
        return self.table.scan(self.predicate, COLUMNS).to_arrow()

    def theirs(self) -> pa.Table:
        return self.spark.read.orc(str(self.path)).where(self.predicate).select(*COLUMNS).toArrow()

    def warm_up(self, rounds: int) -> bool:
        """Run both so often, at least once; whether their rows are the same."""
        same = same_rows(self.ours(), self.theirs())
        for _ in range(rounds - 1):
            self.ours()
            self.theirs()
        return same


def _contests(
    spark: SparkSession, table: hindex.Table, path: Path, options: argparse.Namespace
) -> Iterator[Result]:
    contests = [Contest(spark, table, path, predicate) for predicate in PREDICATES]
    # all before the first is measured: Java compiles what runs often, whichever query runs it
    same = [contest.warm_up(options.warmups) for contest in contests]
    for contest, target, equal in zip(contests, PREDICATES.values(), same, strict=True):
        rows = contest.ours().num_rows
        ours, theirs = in_turn(options.rounds, contest.ours, contest.theirs)
        yield Result(contest.predicate, rows, equal, target, ours, theirs)


_HEADINGS = ("predicate", "rows", "same", "hindex ms", "Spark ms", "ratio", "min - max", "target")
_CELLS = "{:<55}{:>9}{:>6}{:>11}{:>10}{:>8}{:>14}{:>8}"


def _row(result: Result) -> tuple[str, ...]:
    return (
        result.predicate,
        f"{result.rows:,}",
        "yes" if result.same else "NO",
        f"{statistics.median(result.hindex_ms):,.1f}",
        f"{statistics.median(result.spark_ms):,.0f}",
        f"{statistics.median(result.ratios):.1f}",
        spread(result.ratios, 1),
        f"{result.target:g}",
    )


if __name__ == "__main__":
    sys.exit(main())

"""Needles in TPC-H lineitem: hindex beside Spark's own ORC reader, in turn, in one run.

``python -m tests.bench.needles`` from the root of the checkout. Times are printed and never judged; the exit
code is 1 where the rows differ. ``docs/benchmarks.md`` says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import hindex
from hindex.cli.demo import same_rows
from hindex.spark.session import local_session
from tests.bench.data import DEFAULT_DIRECTORY, data_files, lineitem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ["l_orderkey", "l_extendedprice", "l_shipdate", "l_shipmode", "l_comment"]
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
        return [theirs / ours for ours, theirs in zip(self.hindex_ms, self.spark_ms, strict=True)]


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
    if options.json is not None:
        report = {
            "table": {"bytes": size, "files": len(files), "scale": None if options.table else options.scale},
            "machine": _machine(),
            "columns": COLUMNS,
            "builds": [asdict(build) for build in builds],
            "results": [asdict(result) | {"ratios": result.ratios} for result in results],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    different = [result.predicate for result in results if not result.same]
    if different:
        print(f"rows differ from Spark's: {'; '.join(different)}", file=sys.stderr)
    return 1 if different else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.needles", description="Needles in TPC-H lineitem: hindex beside Spark."
    )
    parser.add_argument("--scale", type=float, default=2, help="TPC-H scale factor (default 2)")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="where the data is made and kept")
    parser.add_argument("--table", type=Path, help="a directory with lineitem as ORC, instead of making one")
    parser.add_argument(
        "--store", type=Path, help="directory of the indexes; those of --table are used again"
    )
    parser.add_argument("--rebuild", action="store_true", help="build also those indexes of --table anew")
    parser.add_argument("--rounds", type=int, default=7, help="measured pairs a predicate (default 7)")
    parser.add_argument("--warmups", type=int, default=2, help="pairs before them (default 2)")
    parser.add_argument("--master", default="local[*]", help="Spark master (default local[*])")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser


def _build(spark: SparkSession, table: hindex.Table, path: Path, columns: list[str]) -> Build | None:
    """Build the indexes of columns in one job, where there are none yet."""
    indexed = {index.column for index in table.indexes()}
    missing = [column for column in columns if column not in indexed]
    if not missing:
        return None
    _warm_workers(spark)
    frame = spark.read.orc(str(path)).select(*missing)

    def scan() -> None:
        frame.write.format("noop").mode("overwrite").save()

    scan()
    scans = [_seconds(scan) for _ in range(BUILD_SCANS)]
    started = time.perf_counter()
    specs = [hindex.IndexSpec(column.removeprefix("l_"), column) for column in missing]
    indexes = table.create_indexes(specs)
    seconds = time.perf_counter() - started
    build = Build(missing, seconds, statistics.median(scans), sum(index.size_bytes for index in indexes))
    print(
        f"built {', '.join(missing)} in one job: {seconds:.2f} s, {build.bytes / 1e6:,.0f} MB; Spark's scan of the "
        f"same columns: {build.scan_seconds:.2f} s; ratio {seconds / build.scan_seconds:.2f}",
        flush=True,
    )
    return build


def _warm_workers(spark: SparkSession) -> None:
    """Start Spark's Python workers and have each load what a build needs."""

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import hindex.build.task
        import hindex.index.bitmap  # noqa: F401

        # long enough for every worker to get a task
        time.sleep(0.2)
        yield from batches

    tasks = 2 * spark.sparkContext.defaultParallelism
    spark.range(0, tasks, 1, tasks).mapInArrow(load, "id long").toArrow()


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

    def measure(self, rounds: int) -> list[tuple[float, float]]:
        """Times in milliseconds of hindex and Spark, in turn."""
        return [(_seconds(self.ours) * 1000, _seconds(self.theirs) * 1000) for _ in range(rounds)]


def _contests(
    spark: SparkSession, table: hindex.Table, path: Path, options: argparse.Namespace
) -> Iterator[Result]:
    contests = [Contest(spark, table, path, predicate) for predicate in PREDICATES]
    # all before the first is measured: Java compiles what runs often, whichever query runs it
    same = [contest.warm_up(options.warmups) for contest in contests]
    for contest, target, equal in zip(contests, PREDICATES.values(), same, strict=True):
        rows = contest.ours().num_rows
        pairs = contest.measure(options.rounds)
        ours, theirs = ([round(pair[i], 3) for pair in pairs] for i in (0, 1))
        yield Result(contest.predicate, rows, equal, target, ours, theirs)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


_HEADINGS = ("predicate", "rows", "same", "hindex ms", "Spark ms", "ratio", "min - max", "target")
_CELLS = "{:<55}{:>9}{:>6}{:>11}{:>10}{:>8}{:>14}{:>8}"


def _row(result: Result) -> tuple[str, ...]:
    ratios = result.ratios
    return (
        result.predicate,
        f"{result.rows:,}",
        "yes" if result.same else "NO",
        f"{statistics.median(result.hindex_ms):,.1f}",
        f"{statistics.median(result.spark_ms):,.0f}",
        f"{statistics.median(ratios):.1f}",
        f"{min(ratios):.1f} - {max(ratios):.1f}",
        f"{result.target:g}",
    )


def _machine() -> dict[str, object]:
    return {
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("hindex", "numpy", "pyarrow", "pyspark")},
    }


if __name__ == "__main__":
    sys.exit(main())

"""Indexes of TPC-H lineitem beside Lance's scalar indexes: building, bytes, and looking up one key, in one run.

``python -m tests.bench.lance_indexes`` from the root of the checkout, with ``pip install -e '.[bench]'``. Times are
printed beside the goals and never judged; the exit code is 1 where the numbers of rows differ.
``docs/benchmarks.md`` says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.orc

import hindex
from hindex.domain import Domain
from hindex.index.open_files import open_btree_file, open_index_file
from hindex.keys import array_keys
from hindex.spark.session import local_session
from hindex.table.snapshot import Snapshot
from tests.bench.data import data_files, lineitem
from tests.bench.options import bench_parser
from tests.bench.report import finish, in_turn, machine, ratios, spread
from tests.bench.workers import warm_workers

#: The columns, and the type of Lance's index on each.
COLUMNS = {
    "l_shipmode": "BITMAP",
    "l_shipdate": "BITMAP",
    "l_quantity": "BITMAP",
    "l_suppkey": "BTREE",
    "l_partkey": "BTREE",
    "l_orderkey": "BTREE",
}
#: Ours, of which each column gets both.
TYPES = ("BITMAP", "BTREE")
#: At most so many times Lance's time to build, so many times its bytes, and so many milliseconds a lookup.
BUILD_GOAL, BYTES_GOAL, LOOKUP_GOAL = 1.0, 0.6, 1.0
#: Keys of a column that are looked up, at most: those of some rows here and there.
KEYS = 10
LOOKUPS = 15
_ROWS_OF_STRIPE = 4


@dataclass(slots=True)
class Lookup:
    """One key: the rows that hindex and Lance count, and medians in milliseconds.

    :ivar index_ms: what the index files answer, all of the table's, asked one after the other.
    :ivar count_ms: ``scan(...).count()``, which reads data where the index is a BTREE.
    :ivar lance_ms: ``count_rows(...)``, which reads none.
    """

    predicate: str
    rows: int
    lance_rows: int
    index_rows: int | None
    index_ms: float
    count_ms: float
    lance_ms: float

    @property
    def same(self) -> bool:
        return self.rows == self.lance_rows and self.index_rows in (None, self.rows)


@dataclass(slots=True)
class Result:
    """One column and one of our types, beside Lance's index on it: milliseconds, one of each a round, and bytes."""

    column: str
    type: str
    lance_type: str
    build_ms: list[float]
    lance_build_ms: list[float]
    bytes: int = 0
    lance_bytes: int = 0
    lookups: list[Lookup] = field(default_factory=list)

    @property
    def build_ratios(self) -> list[float]:
        """Ours by Lance's, round by round."""
        return ratios(self.build_ms, self.lance_build_ms)

    @property
    def bytes_ratio(self) -> float:
        return self.bytes / self.lance_bytes


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Spark's Java process is started by a fork, and runs another program at once
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    spark = local_session(options.master, None, "hindex-bench")
    path = options.table or lineitem(spark, options.scale, options.dir)
    files = data_files(path)
    if not files:
        print(f"no ORC files in {path}", file=sys.stderr)
        return 2
    options.dir.mkdir(parents=True, exist_ok=True)
    # beside the data, so that both write to the same disk
    with tempfile.TemporaryDirectory(prefix="lance-", dir=options.dir) as directory:
        # a store for each type: what is asked is the only index there
        tables = {
            using: hindex.connect(str(Path(directory, using)), spark).table(str(path)) for using in TYPES
        }
        dataset, keys = _converted(files, Path(directory, "lineitem.lance"), options)
        rows = dataset.count_rows()
        print(f"{path}: {len(files)} files, {rows:,} rows\n")
        warm_workers(spark)
        print(f"{_BUILD_CELLS.format(*_BUILD_HEADINGS)}\n{'-' * 129}", flush=True)
        results = []
        for column in options.columns:
            results += _measure(tables, dataset, column, keys[column], options)
            for result in results[-len(TYPES) :]:
                print(_BUILD_CELLS.format(*_build_row(result)), flush=True)
        print(f"\n{_LOOKUP_CELLS.format(*_LOOKUP_HEADINGS)}\n{'-' * 120}")
        for result in results:
            print(_LOOKUP_CELLS.format(*_lookup_row(result)))
    report = {
        "table": {"rows": rows, "files": len(files), "scale": None if options.table else options.scale},
        "machine": machine("pyspark", "pylance"),
        "results": [asdict(result) | {"build_ratios": result.build_ratios} for result in results],
    }
    different = [
        f"{found.predicate} ({result.type})"
        for result in results
        for found in result.lookups
        if not found.same
    ]
    return finish(report, options.json, different, "Lance")


def _parser() -> argparse.ArgumentParser:
    parser = bench_parser(
        "lance_indexes",
        "Indexes of TPC-H lineitem: hindex beside Lance.",
        measured="measured builds of each index",
        rounds=3,
    )
    parser.add_argument(
        "--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS), help="of lineitem (default all six)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the keys that are looked up (default 1)")
    parser.add_argument("--master", default="local[*]", help="Spark master (default local[*])")
    return parser


def _converted(
    files: Sequence[Path], where: Path, options: argparse.Namespace
) -> tuple[lance.LanceDataset, dict[str, pa.Array]]:
    """The columns in Lance's own format, and some keys of each."""
    rng = np.random.default_rng(options.seed)
    sampled: list[pa.RecordBatch] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            reader = pyarrow.orc.ORCFile(file)
            for stripe in range(reader.nstripes):
                batch = reader.read_stripe(stripe, columns=options.columns)
                sampled.append(batch.take(pa.array(rng.integers(0, len(batch), _ROWS_OF_STRIPE))))
                yield batch

    schema = pyarrow.orc.ORCFile(files[0]).read_stripe(0, columns=options.columns).schema
    dataset = lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), where)
    sample = pa.Table.from_batches(sampled)
    keys = {}
    for column in options.columns:
        distinct = sample.column(column).unique()
        keys[column] = distinct.take(pa.array(rng.permutation(len(distinct))[:KEYS]))
    return dataset, keys


def _measure(
    tables: dict[str, hindex.Table],
    dataset: lance.LanceDataset,
    column: str,
    keys: pa.Array,
    options: argparse.Namespace,
) -> list[Result]:
    """Build all indexes on a column in turn, so many times, and ask the last ones."""

    def ours(using: str) -> Callable[[], object]:
        return lambda: tables[using].create_index(column, column=column, using=using)

    def theirs() -> None:
        dataset.create_scalar_index(column, COLUMNS[column])

    builds = [*map(ours, TYPES), theirs]
    taken: list[tuple[float, ...]] = []
    for _ in range(options.warmups + options.rounds):
        for table in tables.values():
            for index in table.indexes():
                index.drop()
        taken += zip(*in_turn(1, *builds), strict=True)
    *mine, others = (list(times) for times in zip(*taken[options.warmups :], strict=True))
    held = next(found for found in dataset.describe_indices() if found.field_names == [column])
    results = []
    for using, times in zip(TYPES, mine, strict=True):
        size = tables[using].index(column).size_bytes
        result = Result(column, using, COLUMNS[column], times, others, size, held.total_size_bytes)
        result.lookups += [_look_up(tables[using], dataset, column, using, key) for key in keys]
        results.append(result)
    return results


def _look_up(
    table: hindex.Table, dataset: lance.LanceDataset, column: str, using: str, key: pa.Scalar
) -> Lookup:
    predicate = f"{column} = {_literal(key.as_py())}"
    plan = dataset.scanner(filter=predicate, columns=[], with_row_id=True).explain_plan()
    if "ScalarIndexQuery" not in plan:
        raise RuntimeError(f"Lance does not answer {predicate} from its index: {plan}")
    by_index = (_by_bitmaps if using == "BITMAP" else _by_row_groups)(table, column, key)
    index_rows = by_index()

    def count() -> int:
        return table.scan(predicate).count()

    def lance_count() -> int:
        found: int = dataset.count_rows(filter=predicate)
        return found

    rows, lance_rows = count(), lance_count()
    index_times, lance_times = in_turn(LOOKUPS, by_index, lance_count)
    (count_times,) = in_turn(3, count)
    times = (statistics.median(times) for times in (index_times, count_times, lance_times))
    return Lookup(predicate, rows, lance_rows, index_rows, *times)


def _by_bitmaps(table: hindex.Table, column: str, key: pa.Scalar) -> Callable[[], int]:
    """Ask the index file of each data file, stripe by stripe; how many rows they hold."""
    snapshot = table.snapshot()
    domain = _domain(snapshot, column, key)
    files = [
        (snapshot.store.absolute(held.path), held.length, held.footer_checksum, len(entry.stripe_rows))
        for entry in snapshot.manifest.files
        for held in entry.index_files
    ]

    def run() -> int:
        rows = 0
        for path, length, checksum, stripes in files:
            reader = open_index_file(path, length, checksum).reader
            rows += sum(len(reader.lookup(stripe, domain).lower) for stripe in range(stripes))
        return rows

    return run


def _by_row_groups(table: hindex.Table, column: str, key: pa.Scalar) -> Callable[[], None]:
    """Ask the index files, of which one has the key, for row groups, and which data files these are in."""
    snapshot = table.snapshot()
    domain = _domain(snapshot, column, key)
    shared = {held.id: held for entry in snapshot.manifest.files for held in entry.shared}
    files = [
        (held.extent, (snapshot.store.absolute(held.path), held.length, held.footer_checksum))
        for group in shared.values()
        for held in group.files
    ]

    def run() -> None:
        for extent, place in files:
            if extent.can_match(domain):
                reader = open_btree_file(*place)
                found = reader.locate(domain)
                assert found is not None
                list(reader.files(found))

    return run


def _domain(snapshot: Snapshot, column: str, key: pa.Scalar) -> Domain:
    of = snapshot.schema.resolve(column).type
    keys = array_keys(of, pa.array([key], key.type).cast(of.to_arrow()))
    return Domain.points([int(keys[0]) if isinstance(keys, np.ndarray) else keys[0].as_py()])


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, decimal.Decimal):
        # 12.00 would be a double to Lance, which it does not compare with a decimal
        return f"{value.normalize():f}"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


_BUILD_HEADINGS = (
    *("column", "ours", "Lance's", "build s", "least", "Lance s", "least", "ratio", "min - max"),
    *(f"at most {BUILD_GOAL:g}", "MB", "Lance MB", "ratio", f"at most {BYTES_GOAL:g}"),
)
_BUILD_CELLS = "{:<11} {:<7}{:<8}{:>8}{:>7}{:>9}{:>7}{:>7}{:>15}{:>11}{:>7}{:>10}{:>7}{:>13}"


def _build_row(result: Result) -> tuple[str, ...]:
    ratio = statistics.median(result.build_ratios)
    return (
        result.column,
        result.type,
        result.lance_type,
        *(
            f"{of(times) / 1000:.2f}"
            for times in (result.build_ms, result.lance_build_ms)
            for of in (statistics.median, min)
        ),
        f"{ratio:.2f}",
        spread(result.build_ratios, 2),
        _verdict(ratio <= BUILD_GOAL),
        f"{result.bytes / 1e6:.1f}",
        f"{result.lance_bytes / 1e6:.1f}",
        f"{result.bytes_ratio:.2f}",
        _verdict(result.bytes_ratio <= BYTES_GOAL),
    )


_LOOKUP_HEADINGS = (
    *(
        "column",
        "ours",
        "Lance's",
        "keys",
        "rows",
        "same",
        "lookup ms",
        "slowest",
        f"under {LOOKUP_GOAL:g} ms",
    ),
    *("count() ms", "Lance count_rows ms"),
)
_LOOKUP_CELLS = "{:<11} {:<7}{:<8}{:>5}{:>12}{:>6}{:>11}{:>9}{:>12}{:>12}{:>21}"


def _lookup_row(result: Result) -> tuple[str, ...]:
    found = result.lookups
    slowest = max(lookup.index_ms for lookup in found)
    return (
        result.column,
        result.type,
        result.lance_type,
        str(len(found)),
        f"{sum(lookup.rows for lookup in found):,}",
        "yes" if all(lookup.same for lookup in found) else "NO",
        f"{statistics.median(lookup.index_ms for lookup in found):.3f}",
        f"{slowest:.3f}",
        _verdict(slowest < LOOKUP_GOAL),
        f"{statistics.median(lookup.count_ms for lookup in found):.2f}",
        f"{statistics.median(lookup.lance_ms for lookup in found):.2f}",
    )


def _verdict(reached: bool) -> str:
    return "yes" if reached else "missed"


if __name__ == "__main__":
    sys.exit(main())

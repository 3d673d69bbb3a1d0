"""Build indexes of every type on TPC-H lineitem beside Lance's scalar indexes, and look up one key in them.

Everything is built in this process and those below it (Spark's Java and its Python workers), one after the other in
every round. The numbers of rows that hindex and Lance find must be the same.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import itertools
import os
import shutil
import statistics
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

import hindex
from hindex.cli.progress import progress_for
from hindex.domain import Domain
from hindex.index.reader_cache import open_btree_file, open_index_file
from hindex.keys import array_keys
from hindex.progress import Progress
from hindex.store.snapshot import Snapshot
from tests.bench.data import Dataset, data_files, spark_session
from tests.bench.engines.base import orc_batches
from tests.bench.making import ensure_table
from tests.bench.processes import watch_usage
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, seconds, spread
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
#: The index types of hindex; each column gets all of them.
TYPES = ("BITMAP", "BTREE", "BLOOM", "MINMAX")
#: The types that locate the rows or row groups of a key: lookups use them.
LOOKUP_TYPES = ("BITMAP", "BTREE")
LANCE = "Lance"
#: Limits: the build time and the bytes relative to Lance's, and the milliseconds of a lookup.
BUILD_GOAL, BYTES_GOAL, LOOKUP_GOAL = 1.0, 0.6, 1.0
#: The most keys of a column to look up, sampled from all stripes.
KEYS = 10
LOOKUPS = 15
_ROWS_OF_STRIPE = 4
#: Files of the table that is refreshed, of which one changes in each round.
REFRESHED_FILES = 100


@dataclass(slots=True)
class Lookup:
    """One key: the rows that hindex and Lance count, and medians in milliseconds.

    Attributes:
        index_ms: the lookup in all index files of the table, one after the other.
        count_ms: ``scan(...).count()``, which reads data where the index is a BTREE.
        lance_ms: ``count_rows(...)``, which reads none.
    """

    predicate: str
    rows: int
    lance_rows: int
    index_rows: int | None
    index_ms: float
    count_ms: float
    lance_ms: float

    @property
    def is_same(self) -> bool:
        return self.rows == self.lance_rows and self.index_rows in (None, self.rows)


@dataclass(slots=True)
class Built:
    """One index, built in every round: seconds, processor seconds, and bytes of memory above what there was."""

    column: str
    type: str
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class Refresh:
    """A table of many files whose indexes are built, and refreshed after one file has changed."""

    files: int
    rows: int
    build_seconds: float
    refresh_seconds: list[float]
    nothing_seconds: list[float]


def run(options: argparse.Namespace) -> SectionResult:
    # Spark's Java process is started by a fork, and runs another program at once
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    if options.quick:
        options.columns = options.columns[:2]
    dataset = Dataset("lineitem", options.scale)
    path = ensure_table(dataset, options.data)
    spark = spark_session()
    directory = options.data / dataset.name / "build"
    shutil.rmtree(directory, ignore_errors=True)
    progress = progress_for(sys.stderr)
    try:
        # a store for each type, so that only the index of that type is there
        tables = {using: hindex.connect(str(directory / using), spark).table(str(path)) for using in TYPES}
        keys = _keys(data_files(path), options)
        lance_dataset = _write_lance(path, directory / "lineitem.lance", options.columns)
        warm_workers(spark)
        built: list[Built] = []
        lookups: dict[str, list[Lookup]] = {}
        work = len(options.columns) * (options.warmups + options.rounds)
        progress.start(work, f"Building indexes of {dataset.name}")
        for column in options.columns:
            built += _builds(tables, lance_dataset, column, options, progress)
            if lance_dataset is not None:
                for using in LOOKUP_TYPES:
                    lookups[f"{column} {using}"] = [
                        _look_up(tables[using], lance_dataset, column, using, key) for key in keys[column]
                    ]
        progress.finish()
        refresh = _refresh(path, directory / "files", str(directory / "refreshed"), options)
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    different = [
        f"{lookup.predicate} ({name}): hindex {lookup.rows}, Lance {lookup.lance_rows}, the index {lookup.index_rows}"
        for name, items in lookups.items()
        for lookup in items
        if not lookup.is_same
    ]
    data = {
        "built": [asdict(item) for item in built],
        "lookups": {name: [asdict(item) for item in items] for name, items in lookups.items()},
        "refresh": asdict(refresh),
        "tables": [
            _build_table(built),
            *([_lookup_table(lookups)] if lookups else []),
            _refresh_table(refresh),
        ],
        "notes": [] if lance_dataset is not None else ["Lance did not run: pylance is not installed."],
    }
    return SectionResult(data, different)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS), help="of lineitem (default all six)"
    )


SECTION = Section(
    "build", "building, refreshing and asking indexes, beside Lance", run, _add_options, rounds=3
)


def _keys(files: Sequence[Path], options: argparse.Namespace) -> dict[str, pa.Array]:
    """Sample keys of each column from rows of every stripe."""
    rng = np.random.default_rng(options.seed)
    sampled: list[pa.RecordBatch] = []
    for file in files:
        reader = pyarrow.orc.ORCFile(file)
        for stripe in range(reader.nstripes):
            batch = reader.read_stripe(stripe, columns=options.columns)
            sampled.append(batch.take(pa.array(rng.integers(0, len(batch), _ROWS_OF_STRIPE))))
    sample = pa.Table.from_batches(sampled)
    keys = {}
    for column in options.columns:
        distinct = sample.column(column).unique()
        keys[column] = distinct.take(pa.array(rng.permutation(len(distinct))[:KEYS]))
    return keys


def _write_lance(orc: Path, directory: Path, columns: Sequence[str]) -> Any:
    """Write the columns in Lance's format; return None if Lance is not installed."""
    try:
        import lance
    except ImportError:
        return None
    directory.parent.mkdir(parents=True, exist_ok=True)
    return lance.write_dataset(orc_batches(orc, list(columns)), str(directory))


def _builds(
    tables: dict[str, hindex.Table],
    dataset: Any,
    column: str,
    options: argparse.Namespace,
    progress: Progress,
) -> list[Built]:
    """Build all indexes on a column in turn, in every round; the last ones stay."""

    def create(using: str) -> Callable[[], object]:
        return lambda: tables[using].create_index(column, column=column, using=using)

    builds: dict[str, Callable[[], object]] = {using: create(using) for using in TYPES}
    if dataset is not None:
        builds[LANCE] = lambda: dataset.create_scalar_index(column, COLUMNS[column])
    built = {name: Built(column, name if name != LANCE else f"Lance {COLUMNS[column]}") for name in builds}
    for number in range(options.warmups + options.rounds):
        for table in tables.values():
            for index in table.indexes():
                index.drop()
        for name, build in builds.items():
            with watch_usage(os.getpid()) as usage:
                build_seconds = seconds(build)
            if number >= options.warmups:
                built[name].seconds.append(round(build_seconds, 3))
                built[name].cpu_seconds.append(round(usage.cpu_seconds, 2))
                built[name].memory_bytes.append(usage.peak_bytes - usage.first_bytes)
        progress.advance()
    for using in TYPES:
        built[using].bytes = tables[using].index(column).size_bytes
    if dataset is not None:
        description = next(item for item in dataset.describe_indices() if item.field_names == [column])
        built[LANCE].bytes = description.total_size_bytes
    return list(built.values())


def _refresh(orc: Path, directory: Path, store: str, options: argparse.Namespace) -> Refresh:
    """Build indexes of many small files, and refresh them after each change of one file."""
    directory.mkdir(parents=True)
    columns = ["l_orderkey", "l_partkey", "l_shipmode"]
    rows = next(iter(orc_batches(orc, columns)))
    cuts = [len(rows) * at // REFRESHED_FILES for at in range(REFRESHED_FILES + 1)]
    parts = [pa.Table.from_batches([rows.slice(a, b - a)]) for a, b in itertools.pairwise(cuts)]
    files = [directory / f"part-{number:03}.orc" for number in range(REFRESHED_FILES)]
    for file, part in zip(files, parts, strict=True):
        pyarrow.orc.write_table(part, str(file), compression="zstd")
    table = hindex.connect(store, spark_session()).table(str(directory))
    specs = [hindex.IndexSpec(column, column) for column in columns]
    build_seconds = seconds(lambda: table.create_indexes(specs))
    refreshed, nothing = [], []
    for number in range(options.warmups + options.rounds):
        part = parts[number % REFRESHED_FILES]
        reverse = pa.array(range(len(part) - 1, -1, -1))
        pyarrow.orc.write_table(part.take(reverse), str(files[number % REFRESHED_FILES]), compression="zstd")
        changed_seconds, idle_seconds = seconds(table.refresh_indexes), seconds(table.refresh_indexes)
        if number >= options.warmups:
            refreshed.append(round(changed_seconds, 3))
            nothing.append(round(idle_seconds, 3))
    return Refresh(REFRESHED_FILES, len(rows), round(build_seconds, 3), refreshed, nothing)


def _look_up(table: hindex.Table, dataset: Any, column: str, using: str, key: pa.Scalar) -> Lookup:
    predicate = f"{column} = {_literal(key.as_py())}"
    plan = dataset.scanner(filter=predicate, columns=[], with_row_id=True).explain_plan()
    if "ScalarIndexQuery" not in plan:
        raise RuntimeError(f"Lance does not answer {predicate} from its index: {plan}")
    look_up = (_bitmap_lookup if using == "BITMAP" else _row_group_lookup)(table, column, key)
    index_rows = look_up()

    def count() -> int:
        return table.scan(predicate).count()

    def lance_count() -> int:
        rows: int = dataset.count_rows(filter=predicate)
        return rows

    rows, lance_rows = count(), lance_count()
    index_times, lance_times = in_turn(LOOKUPS, look_up, lance_count)
    (count_times,) = in_turn(3, count)
    times = (statistics.median(times) for times in (index_times, count_times, lance_times))
    return Lookup(predicate, rows, lance_rows, index_rows, *times)


def _bitmap_lookup(table: hindex.Table, column: str, key: pa.Scalar) -> Callable[[], int]:
    """Return a function that counts a key's rows in the index file of each data file, stripe by stripe."""
    snapshot = table.snapshot()
    domain = _domain(snapshot, column, key)
    files = [
        (snapshot.store.absolute(file.path), file.length, file.footer_checksum, len(entry.stripe_rows))
        for entry in snapshot.manifest.files
        for file in entry.index_files
    ]

    def run() -> int:
        rows = 0
        for path, length, checksum, stripes in files:
            reader = open_index_file(path, length, checksum).reader
            rows += sum(len(reader.lookup(stripe, domain).lower) for stripe in range(stripes))
        return rows

    return run


def _row_group_lookup(table: hindex.Table, column: str, key: pa.Scalar) -> Callable[[], None]:
    """Return a function that locates a key's row groups and their data files in the shared index files."""
    snapshot = table.snapshot()
    domain = _domain(snapshot, column, key)
    shared = {group.id: group for entry in snapshot.manifest.files for group in entry.shared}
    files = [
        (file.stats, (snapshot.store.absolute(file.path), file.length, file.footer_checksum))
        for group in shared.values()
        for file in group.files
    ]

    def run() -> None:
        for stats, location in files:
            if stats.can_match(domain):
                reader = open_btree_file(*location)
                row_groups = reader.locate(domain)
                assert row_groups is not None
                list(reader.files(row_groups))

    return run


def _domain(snapshot: Snapshot, column: str, key: pa.Scalar) -> Domain:
    data_type = snapshot.schema.resolve(column).type
    keys = array_keys(data_type, pa.array([key], key.type).cast(data_type.to_arrow()))
    return Domain.points([int(keys[0]) if isinstance(keys, np.ndarray) else keys[0].as_py()])


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, decimal.Decimal):
        # 12.00 would be a double to Lance, which it does not compare with a decimal
        return f"{value.normalize():f}"
    return f"DATE '{value}'" if isinstance(value, datetime.date) else str(value)


def _build_table(built: Sequence[Built]) -> dict[str, Any]:
    lance = {item.column: item for item in built if item.type.startswith(LANCE)}
    rows = []
    for item in built:
        other = lance.get(item.column)
        cells = [
            f"{item.column} {item.type}",
            f"{statistics.median(item.seconds):.2f} ({spread(item.seconds, 2)})",
            f"{statistics.median(item.cpu_seconds):.2f}",
            f"{statistics.median(item.memory_bytes) / 1e6:,.0f}",
            f"{item.bytes / 1e6:.2f}",
        ]
        if other is None or other is item:
            cells += ["-", "-"]
        else:
            by_round = [own / other for own, other in zip(item.seconds, other.seconds, strict=True)]
            has_goal = item.type in LOOKUP_TYPES
            cells += [
                _format_ratio(statistics.median(by_round), BUILD_GOAL, has_goal=has_goal),
                _format_ratio(item.bytes / other.bytes, BYTES_GOAL, has_goal=has_goal),
            ]
        rows.append(cells)
    headings = [
        *("index", "seconds", "processor seconds", "MB of memory", "MB on disk"),
        *(f"time by Lance's (at most {BUILD_GOAL:g})", f"bytes by Lance's (at most {BYTES_GOAL:g})"),
    ]
    return {"headings": headings, "rows": rows}


def _format_ratio(ratio: float, max_ratio: float, *, has_goal: bool) -> str:
    return f"{ratio:.2f}{', missed' if has_goal and ratio > max_ratio else ''}"


def _lookup_table(lookups: dict[str, list[Lookup]]) -> dict[str, Any]:
    rows = []
    for name, items in lookups.items():
        slowest = max(lookup.index_ms for lookup in items)
        rows.append(
            [
                name,
                str(len(items)),
                f"{sum(lookup.rows for lookup in items):,}",
                f"{statistics.median(lookup.index_ms for lookup in items):.3f}",
                f"{slowest:.3f}{', missed' if slowest >= LOOKUP_GOAL else ''}",
                f"{statistics.median(lookup.count_ms for lookup in items):.2f}",
                f"{statistics.median(lookup.lance_ms for lookup in items):.2f}",
            ]
        )
    headings = [
        *("index", "keys", "rows", "lookup ms", f"slowest (under {LOOKUP_GOAL:g})"),
        *("`count()` ms", "Lance `count_rows` ms"),
    ]
    return {"title": "Looking up one key:", "headings": headings, "rows": rows}


def _refresh_table(refresh: Refresh) -> dict[str, Any]:
    row = [
        f"{refresh.files} files, {refresh.rows:,} rows",
        f"{refresh.build_seconds:.2f}",
        f"{statistics.median(refresh.refresh_seconds):.2f} ({spread(refresh.refresh_seconds, 2)})",
        f"{statistics.median(refresh.nothing_seconds):.3f}",
    ]
    headings = [
        "table",
        "build of three indexes, s",
        "refresh of one changed file, s",
        "when nothing changed, s",
    ]
    return {"title": "Refresh of 1 % of the files:", "headings": headings, "rows": [row]}

"""Building indexes of TPC-H lineitem, of every type, beside Lance's scalar indexes; and looking up one key in them.

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
from tests.bench.making import made
from tests.bench.processes import watched
from tests.bench.section import Found, Section
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
#: Ours, of which each column gets all.
TYPES = ("BITMAP", "BTREE", "BLOOM", "MINMAX")
#: Of those, the ones that tell which rows a key has, or which row groups: they are also asked.
ASKED = ("BITMAP", "BTREE")
LANCE = "Lance"
#: At most so many times Lance's time to build, so many times its bytes, and so many milliseconds a lookup.
BUILD_GOAL, BYTES_GOAL, LOOKUP_GOAL = 1.0, 0.6, 1.0
#: Keys of a column that are looked up, at most: those of some rows here and there.
KEYS = 10
LOOKUPS = 15
_ROWS_OF_STRIPE = 4
#: Files of the table that is refreshed, of which one changes in each round.
REFRESHED_FILES = 100


@dataclass(slots=True)
class Lookup:
    """One key: the rows that hindex and Lance count, and medians in milliseconds.

    Attributes:
        index_ms: what the index files answer, all of the table's, asked one after the other.
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
    def same(self) -> bool:
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


def run(options: argparse.Namespace) -> Found:
    # Spark's Java process is started by a fork, and runs another program at once
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    if options.quick:
        options.columns = options.columns[:2]
    dataset = Dataset("lineitem", options.scale)
    path = made(dataset, options.data)
    spark = spark_session()
    directory = options.data / dataset.name / "build"
    shutil.rmtree(directory, ignore_errors=True)
    progress = progress_for(sys.stderr)
    try:
        # a store for each type: what is asked is the only index there
        tables = {using: hindex.connect(str(directory / using), spark).table(str(path)) for using in TYPES}
        keys = _keys(data_files(path), options)
        lance_dataset = _lance(path, directory / "lineitem.lance", options.columns)
        warm_workers(spark)
        built: list[Built] = []
        lookups: dict[str, list[Lookup]] = {}
        work = len(options.columns) * (options.warmups + options.rounds)
        progress.start(work, f"Building indexes of {dataset.name}")
        for column in options.columns:
            built += _builds(tables, lance_dataset, column, options, progress)
            if lance_dataset is not None:
                for using in ASKED:
                    lookups[f"{column} {using}"] = [
                        _look_up(tables[using], lance_dataset, column, using, key) for key in keys[column]
                    ]
        progress.finish()
        refresh = _refresh(path, directory / "files", str(directory / "refreshed"), options)
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    different = [
        f"{found.predicate} ({name}): hindex {found.rows}, Lance {found.lance_rows}, the index {found.index_rows}"
        for name, asked in lookups.items()
        for found in asked
        if not found.same
    ]
    data = {
        "built": [asdict(item) for item in built],
        "lookups": {name: [asdict(item) for item in asked] for name, asked in lookups.items()},
        "refresh": asdict(refresh),
        "tables": [
            _build_table(built),
            *([_lookup_table(lookups)] if lookups else []),
            _refresh_table(refresh),
        ],
        "notes": [] if lance_dataset is not None else ["Lance did not run: pylance is not installed."],
    }
    return Found(data, different)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS), help="of lineitem (default all six)"
    )


SECTION = Section(
    "build", "building, refreshing and asking indexes, beside Lance", run, _add_options, rounds=3
)


def _keys(files: Sequence[Path], options: argparse.Namespace) -> dict[str, pa.Array]:
    """Keys of each column: those of some rows of every stripe."""
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


def _lance(orc: Path, where: Path, columns: Sequence[str]) -> Any:
    """The columns in Lance's own format; None where it is not installed."""
    try:
        import lance
    except ImportError:
        return None
    where.parent.mkdir(parents=True, exist_ok=True)
    return lance.write_dataset(orc_batches(orc, list(columns)), str(where))


def _builds(
    tables: dict[str, hindex.Table],
    dataset: Any,
    column: str,
    options: argparse.Namespace,
    progress: Progress,
) -> list[Built]:
    """Build all indexes on a column in turn, so many times; the last ones stay."""

    def ours(using: str) -> Callable[[], object]:
        return lambda: tables[using].create_index(column, column=column, using=using)

    builds: dict[str, Callable[[], object]] = {using: ours(using) for using in TYPES}
    if dataset is not None:
        builds[LANCE] = lambda: dataset.create_scalar_index(column, COLUMNS[column])
    found = {name: Built(column, name if name != LANCE else f"Lance {COLUMNS[column]}") for name in builds}
    for number in range(options.warmups + options.rounds):
        for table in tables.values():
            for index in table.indexes():
                index.drop()
        for name, build in builds.items():
            with watched(os.getpid()) as usage:
                taken = seconds(build)
            if number >= options.warmups:
                found[name].seconds.append(round(taken, 3))
                found[name].cpu_seconds.append(round(usage.cpu_seconds, 2))
                found[name].memory_bytes.append(usage.peak_bytes - usage.first_bytes)
        progress.advance()
    for using in TYPES:
        found[using].bytes = tables[using].index(column).size_bytes
    if dataset is not None:
        held = next(item for item in dataset.describe_indices() if item.field_names == [column])
        found[LANCE].bytes = held.total_size_bytes
    return list(found.values())


def _refresh(orc: Path, where: Path, store: str, options: argparse.Namespace) -> Refresh:
    """Indexes of many small files, refreshed after each change of one of them."""
    where.mkdir(parents=True)
    columns = ["l_orderkey", "l_partkey", "l_shipmode"]
    rows = next(iter(orc_batches(orc, columns)))
    cuts = [len(rows) * at // REFRESHED_FILES for at in range(REFRESHED_FILES + 1)]
    parts = [pa.Table.from_batches([rows.slice(a, b - a)]) for a, b in itertools.pairwise(cuts)]
    files = [where / f"part-{number:03}.orc" for number in range(REFRESHED_FILES)]
    for file, part in zip(files, parts, strict=True):
        pyarrow.orc.write_table(part, str(file), compression="zstd")
    table = hindex.connect(store, spark_session()).table(str(where))
    specs = [hindex.IndexSpec(column, column) for column in columns]
    build_seconds = seconds(lambda: table.create_indexes(specs))
    refreshed, nothing = [], []
    for number in range(options.warmups + options.rounds):
        part = parts[number % REFRESHED_FILES]
        reverse = pa.array(range(len(part) - 1, -1, -1))
        pyarrow.orc.write_table(part.take(reverse), str(files[number % REFRESHED_FILES]), compression="zstd")
        taken = seconds(table.refresh_indexes), seconds(table.refresh_indexes)
        if number >= options.warmups:
            refreshed.append(round(taken[0], 3))
            nothing.append(round(taken[1], 3))
    return Refresh(REFRESHED_FILES, len(rows), round(build_seconds, 3), refreshed, nothing)


def _look_up(table: hindex.Table, dataset: Any, column: str, using: str, key: pa.Scalar) -> Lookup:
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
        (held.stats, (snapshot.store.absolute(held.path), held.length, held.footer_checksum))
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
            by_round = [mine / theirs for mine, theirs in zip(item.seconds, other.seconds, strict=True)]
            judged = item.type in ASKED
            cells += [
                _judged(statistics.median(by_round), BUILD_GOAL, judged=judged),
                _judged(item.bytes / other.bytes, BYTES_GOAL, judged=judged),
            ]
        rows.append(cells)
    headings = [
        *("index", "seconds", "processor seconds", "MB of memory", "MB on disk"),
        *(f"time by Lance's (at most {BUILD_GOAL:g})", f"bytes by Lance's (at most {BYTES_GOAL:g})"),
    ]
    return {"headings": headings, "rows": rows}


def _judged(ratio: float, most: float, *, judged: bool) -> str:
    return f"{ratio:.2f}{', missed' if judged and ratio > most else ''}"


def _lookup_table(lookups: dict[str, list[Lookup]]) -> dict[str, Any]:
    rows = []
    for name, found in lookups.items():
        slowest = max(lookup.index_ms for lookup in found)
        rows.append(
            [
                name,
                str(len(found)),
                f"{sum(lookup.rows for lookup in found):,}",
                f"{statistics.median(lookup.index_ms for lookup in found):.3f}",
                f"{slowest:.3f}{', missed' if slowest >= LOOKUP_GOAL else ''}",
                f"{statistics.median(lookup.count_ms for lookup in found):.2f}",
                f"{statistics.median(lookup.lance_ms for lookup in found):.2f}",
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

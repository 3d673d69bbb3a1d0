"""``hindex bench``: a predicate on a user's own table, answered by hindex and by others that read the same files.

All answer in turn, round by round, and their rows are compared. Nothing is written.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc

from hindex.cli.comparing import same_rows
from hindex.errors import HindexError
from hindex.orc import Kind, OrcReader, OrcType
from hindex.orc.io.source import resolve_filesystem
from hindex.orc.metadata.types import INTEGER_KINDS
from hindex.plan.filter_evaluation import mask
from hindex.scan.file_columns import output_schema
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.scan_task import OutputColumn, ScanTask
from hindex.sql.predicate import Predicate
from hindex.store.manifest import Manifest
from hindex.table.file_schema import bind_paths

if TYPE_CHECKING:
    from hindex.api.connection import Connection
    from hindex.api.table import Table
    from hindex.store.snapshot import Snapshot

OURS = "hindex"

_SCHEMA = pa.schema(
    [
        ("reader", pa.string()),
        ("rows", pa.int64()),
        ("ms", pa.float64()),
        ("ms_least", pa.float64()),
        ("ms_most", pa.float64()),
        ("ratio", pa.float64()),
        ("ratio_least", pa.float64()),
        ("ratio_most", pa.float64()),
        ("note", pa.string()),
    ]
)


#: Milliseconds: what is read whole in less leaves an index nothing to gain.
_SMALL_MS = 100.0


#: Kinds whose values pyarrow gives as Spark does, whatever the file.
_PYARROW_KINDS = INTEGER_KINDS | {
    Kind.BOOLEAN,
    Kind.FLOAT,
    Kind.DOUBLE,
    Kind.STRING,
    Kind.VARCHAR,
    Kind.BINARY,
}
#: Decimals of more digits overflow in files whose values have scales of their own.
_SHORT_PRECISION = 18


class CannotReadError(Exception):
    """A reader that cannot take part; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """The benchmark query: the predicate as text and parsed, and the columns (all if None)."""

    table: Table
    text: str | None
    where: Predicate | None
    columns: Sequence[str] | None


def run_bench(
    connection: Connection,
    name: str,
    where: str | None,
    columns: Sequence[str] | None,
    *,
    rounds: int,
    with_spark: bool,
) -> pa.Table:
    """Time all readers in turn, after a round in which their rows are compared.

    :returns: a row for each reader: milliseconds (median, least, most), and how many times hindex's they are, round by
        round. One that could not take part has nulls, and a note that says why.
    :raises HindexError: if a reader's rows differ from hindex's.
    """
    from hindex.api.predicate_input import parse_condition

    if with_spark:
        connection.spark()  # which also knows tables by name
    question = Question(connection.table(name), where, parse_condition(where), columns)
    readers: dict[str, Callable[[], pa.Table]] = {
        OURS: question.table.scan(question.where, columns).to_arrow,
        "pyarrow": lambda: pyarrow_rows(question),
    }
    if with_spark:
        readers["Spark"] = _spark_reader(connection, name, question)
    question.table.scan(question.where, columns).plan()  # a mistake is told before anything is shown
    progress = connection.progress
    left_out: dict[str, str] = {}
    progress.start(len(readers), f"Comparing the rows of {name}")
    try:
        rows = _compared(readers, left_out, progress.advance)
    finally:
        progress.finish()
    taken: dict[str, list[float]] = {reader: [] for reader in readers if reader not in left_out}
    progress.start(len(taken) * rounds, f"Reading {name}")
    try:
        for number in range(rounds):
            # another reader begins each round
            order = list(taken)[number % len(taken) :] + list(taken)[: number % len(taken)]
            for reader in order:
                started = time.perf_counter()
                readers[reader]()
                taken[reader].append((time.perf_counter() - started) * 1000)
                progress.advance()
    finally:
        progress.finish()
    described = [_described(reader, rows, taken, left_out.get(reader)) for reader in readers]
    return pa.Table.from_pylist(described, _SCHEMA)


def remark(found: pa.Table) -> str | None:
    """Return a remark for when hindex is not the fastest, else None."""
    faster = [row for row in found.to_pylist() if row["ratio"] is not None and row["ratio"] < 1]
    if not faster:
        return None
    best = min(faster, key=lambda row: float(row["ratio"]))
    if best["ms"] < _SMALL_MS:
        return f"{best['reader']} reads the whole table in {best['ms']:.1f} ms: with so little to read, no index gains"
    return f"{best['reader']} was faster: `hindex explain` shows which indexes were used, and why others were not"


def _compared(
    readers: dict[str, Callable[[], pa.Table]], left_out: dict[str, str], advance: Callable[[], None]
) -> int:
    """The number of rows, which all readers give alike; those that cannot read are noted."""
    ours = readers[OURS]()
    advance()
    for name, read in readers.items():
        if name == OURS:
            continue
        try:
            theirs = read()
        except CannotReadError as error:
            left_out[name] = str(error)
            advance()
            continue
        if not same_rows(ours, theirs):
            raise HindexError(
                f"hindex finds {ours.num_rows:,} rows and {name} {theirs.num_rows:,}, and they are not the same: "
                "please report it, with what `hindex check --verify` says of the table"
            )
        advance()
    rows: int = ours.num_rows
    return rows


def _described(
    reader: str, rows: int, taken: dict[str, list[float]], note: str | None
) -> dict[str, str | float | None]:
    if note is not None:
        return {"reader": reader, "note": f"left out: {note}"}
    times = taken[reader]
    ratios = [theirs / ours for theirs, ours in zip(times, taken[OURS], strict=True)]
    return {
        "reader": reader,
        "rows": rows,
        "ms": round(statistics.median(times), 3),
        "ms_least": round(min(times), 3),
        "ms_most": round(max(times), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_least": round(min(ratios), 3),
        "ratio_most": round(max(ratios), 3),
    }


def _spark_reader(connection: Connection, name: str, question: Question) -> Callable[[], pa.Table]:
    spark = connection.spark()

    def read() -> pa.Table:
        is_path = "/" in name or Path(name).exists()
        frame = spark.read.orc(question.table.uri) if is_path else spark.table(name)
        if question.text is not None:
            frame = frame.where(question.text)
        return (frame if question.columns is None else frame.select(*question.columns)).toArrow()

    return read


def pyarrow_rows(question: Question) -> pa.Table:
    """The rows as pyarrow gives them: its ``read_stripe`` for every stripe, on all processors.

    Partitions are pruned as everybody does it. The predicate's columns are decoded first, and the others where a row of
    the stripe matches.

    :raises CannotReadError: where pyarrow may not decode a column: it stops the process on some valid files.
    """
    plan = plan_scan(_unindexed(question.table.snapshot()), question.where, question.columns)
    if plan.snapshot.listing.transactional:
        raise CannotReadError("the table is transactional")
    schema = output_schema(plan.tasks[0].columns if plan.tasks else plan.columns)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        batches = list(pool.map(lambda place: _stripe(*place), _stripes(plan)))
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], schema)


def _unindexed(snapshot: Snapshot) -> Snapshot:
    """A table as it is to who knows nothing of its indexes."""
    return replace(snapshot, manifest=Manifest.empty(snapshot.listing.uri))


def _stripes(plan: ScanPlan) -> Iterator[tuple[ScanTask, OrcReader, int]]:
    for task in plan.tasks:
        reader = OrcReader(task.uri)
        for stripe in range(len(reader.stripes)):
            yield task, reader, stripe


def _stripe(task: ScanTask, reader: OrcReader, stripe: int) -> pa.RecordBatch:
    num_rows = reader.stripes[stripe].num_rows
    known = {
        column.name: column for column in (*task.filter_columns, *task.columns) if not column.is_partition
    }
    bound = bind_paths(task.binding, reader.tail.schema, known)
    paths = {name: item.path for name, item in bound.items()}
    _check(reader, list(paths.values()))
    filesystem, place = resolve_filesystem(task.uri)
    file = pyarrow.orc.ORCFile(filesystem.open_input_file(place))

    def decoded(columns: Sequence[OutputColumn]) -> dict[str, pa.Array]:
        in_file = {column.name: paths[column.name] for column in columns if column.name in paths}
        batch = file.read_stripe(stripe, columns=list(in_file.values()))
        arrays = {name: batch.column(path) for name, path in in_file.items()}
        return {column.name: fitted(column, arrays) for column in columns if not column.is_partition}

    def fitted(column: OutputColumn, arrays: Mapping[str, pa.Array]) -> pa.Array:
        of = column.type.to_arrow()
        array = arrays.get(column.name)
        if array is None:
            return pa.nulls(num_rows, of)
        return array if array.type == of else array.cast(of)

    found = decoded(task.filter_columns)
    matches = mask(task.filter, found, num_rows)
    count = int(np.count_nonzero(matches))
    schema = output_schema(task.columns)
    if not count:
        return pa.RecordBatch.from_pylist([], schema)
    found |= decoded([column for column in task.columns if column.name not in found])
    kept = None if count == num_rows else pa.array(matches)
    arrays = [
        pa.repeat(column.partition_value, count)
        if column.is_partition
        else (found[column.name] if kept is None else found[column.name].filter(kept))
        for column in task.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check(reader: OrcReader, names: Sequence[str]) -> None:
    for name in names:
        data_type = reader.column_type(name)
        if not _can_read(reader, data_type) or "." in name:
            raise CannotReadError(
                f"pyarrow is not given column {name!r} ({data_type}) of {reader.path!r}: what it makes of such values "
                "differs, or stops the process"
            )


def _can_read(reader: OrcReader, data_type: OrcType) -> bool:
    match data_type.kind:
        case Kind.DECIMAL:
            return 0 < data_type.precision <= _SHORT_PRECISION
        case Kind.DATE:
            return reader.tail.is_proleptic
        case _:
            return data_type.kind in _PYARROW_KINDS

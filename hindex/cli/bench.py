"""``hindex bench``: time a predicate on a user's table, with hindex and with other readers of the same files.

Readers take turns, and their rows are compared. Nothing is written.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc

from hindex.cli.comparison import in_turn, ratios, same_rows
from hindex.errors import HindexError
from hindex.orc import Kind, OrcReader, OrcType
from hindex.orc.calendars import GREGORIAN_START
from hindex.orc.io.file_system import arrow_file_system
from hindex.orc.metadata.types import INTEGER_KINDS, SHORT_PRECISION
from hindex.plan.filter_evaluation import mask
from hindex.scan.file_columns import output_schema
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.scan_task import OutputColumn, ScanTask
from hindex.sql.predicate import Predicate
from hindex.store.manifest import Manifest
from hindex.table.file_schema import bind_paths
from hindex.value_class import value_class

if TYPE_CHECKING:
    from hindex.api.connection import Connection
    from hindex.api.table import Table
    from hindex.plan.time_zones import TimeZones
    from hindex.store.snapshot import Snapshot

HINDEX = "hindex"

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


#: Milliseconds; an index gains nothing if a full read takes less.
_SMALL_MS = 100.0


#: Kinds that pyarrow reads as Spark does in every file.
_PYARROW_KINDS = INTEGER_KINDS | {
    Kind.BOOLEAN,
    Kind.FLOAT,
    Kind.DOUBLE,
    Kind.STRING,
    Kind.VARCHAR,
    Kind.BINARY,
}
_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
#: Milliseconds since 1970 beyond which nanoseconds overflow; older versions of pyarrow return other values then.
_MAX_NANOSECONDS_MS = (1 << 63) // 10**6
#: Writers' time zones in which pyarrow shows the stored wall clock of every timestamp.
_UTC = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT"})


class CannotReadError(Exception):
    """A reader cannot read a table; the message is the reason."""


@value_class
class BenchQuery:
    """The query: its predicate as a string and parsed, and its columns (all if None).

    With ``zones``, hindex reads timestamps as instants.
    """

    table: Table
    text: str | None
    where: Predicate | None
    columns: Sequence[str] | None
    zones: TimeZones | None = None


def run_bench(
    connection: Connection,
    name: str,
    where: str | None,
    columns: Sequence[str] | None,
    *,
    rounds: int,
    with_spark: bool,
) -> pa.Table:
    """Compare the rows of all readers, then time them in turn.

    Returns:
        a row for each reader: milliseconds, and their ratios to hindex's of the same round, as median, minimum and
        maximum. A reader that cannot read the table has nulls, and a note with the reason.

    Raises:
        HindexError: if a reader's rows differ from hindex's.
    """
    from hindex.api.predicate_input import parse_condition

    if with_spark:
        connection.spark()  # the session resolves names of tables
    query = BenchQuery(connection.table(name), where, parse_condition(where), columns, connection.zones())
    readers: dict[str, Callable[[], pa.Table]] = {
        HINDEX: query.table.scan(query.where, columns).to_arrow,  # raises mistakes in the query
        "pyarrow": lambda: pyarrow_rows(query),
    }
    if with_spark:
        readers["Spark"] = _spark_reader(connection, name, query)
    progress = connection.progress
    excluded: dict[str, str] = {}
    progress.start(len(readers), f"Comparing the rows of {name}", "reader")
    try:
        rows = _compare_rows(readers, excluded, progress.advance)
    finally:
        progress.finish()
    names = [reader for reader in readers if reader not in excluded]
    progress.start(len(names) * rounds, f"Reading {name}", "run")
    try:
        times = dict(
            zip(
                names,
                in_turn(rounds, *(readers[reader] for reader in names), advance=progress.advance),
                strict=True,
            )
        )
    finally:
        progress.finish()
    described = [_reader_row(reader, rows, times, excluded.get(reader)) for reader in readers]
    return pa.Table.from_pylist(described, _SCHEMA)


def bench_note(results: pa.Table) -> str | None:
    """Return a bench_note for when hindex is not the fastest, else None."""
    faster = [row for row in results.to_pylist() if row["ratio"] is not None and row["ratio"] < 1]
    if not faster:
        return None
    fastest = min(faster, key=lambda row: float(row["ratio"]))
    if fastest["ms"] < _SMALL_MS:
        return f"{fastest['reader']} reads the whole table in {fastest['ms']:.1f} ms: no index pays on so little data"
    return f"{fastest['reader']} was faster: `hindex explain` shows which indexes were used, and why others were not"


def _compare_rows(
    readers: dict[str, Callable[[], pa.Table]], excluded: dict[str, str], advance: Callable[[], None]
) -> int:
    """Compare the rows of all readers and return their number; note readers that cannot read."""
    ours = readers[HINDEX]()
    advance()
    for name, read in readers.items():
        if name == HINDEX:
            continue
        try:
            theirs = read()
        except CannotReadError as error:
            excluded[name] = str(error)
            advance()
            continue
        if not same_rows(ours, theirs):
            raise HindexError(
                f"hindex finds {ours.num_rows:,} rows and {name} {theirs.num_rows:,}, and they are not the same: "
                "please report it, with the output of `hindex check --verify`"
            )
        advance()
    rows: int = ours.num_rows
    return rows


def _reader_row(
    reader: str, rows: int, times_by_reader: dict[str, list[float]], note: str | None
) -> dict[str, str | float | None]:
    if note is not None:
        return {"reader": reader, "note": f"excluded: {note}"}
    times = times_by_reader[reader]
    factors = ratios(times, times_by_reader[HINDEX])
    return {
        "reader": reader,
        "rows": rows,
        "ms": round(statistics.median(times), 3),
        "ms_least": round(min(times), 3),
        "ms_most": round(max(times), 3),
        "ratio": round(statistics.median(factors), 3),
        "ratio_least": round(min(factors), 3),
        "ratio_most": round(max(factors), 3),
    }


def _spark_reader(connection: Connection, name: str, query: BenchQuery) -> Callable[[], pa.Table]:
    spark = connection.spark()

    def read() -> pa.Table:
        is_path = "/" in name or Path(name).exists()
        frame = spark.read.orc(query.table.uri) if is_path else spark.table(name)
        if query.text is not None:
            frame = frame.where(query.text)
        return (frame if query.columns is None else frame.select(*query.columns)).toArrow()

    return read


def pyarrow_rows(query: BenchQuery) -> pa.Table:
    """Read the rows with pyarrow: ``read_stripe`` for every stripe, on all processors.

    Partitions are pruned. The predicate's columns are decoded first, and the others if a row of the stripe matches.

    Raises:
        CannotReadError: for a column that pyarrow decodes otherwise, or aborts the process on.
    """
    plan = plan_scan(_unindexed(query.table.snapshot()), query.where, query.columns)
    if plan.snapshot.listing.transactional:
        raise CannotReadError("the table is transactional")
    schema = output_schema(plan.tasks[0].columns if plan.tasks else plan.columns)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        batches = list(pool.map(lambda place: _stripe(query.zones, *place), _stripes(plan)))
    return pa.Table.from_batches([batch for batch in batches if batch.num_rows], schema)


def _unindexed(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without indexes."""
    return replace(snapshot, manifest=Manifest.empty(snapshot.listing.uri))


def _stripes(plan: ScanPlan) -> Iterator[tuple[ScanTask, OrcReader, int]]:
    for task in plan.tasks:
        reader = OrcReader(task.uri)
        for stripe in range(len(reader.stripes)):
            yield task, reader, stripe


def _stripe(zones: TimeZones | None, task: ScanTask, reader: OrcReader, stripe: int) -> pa.RecordBatch:
    num_rows = reader.stripes[stripe].num_rows
    columns = {
        column.name: column for column in (*task.filter_columns, *task.columns) if not column.is_partition
    }
    bound = bind_paths(task.binding, reader.tail.schema, columns)
    paths = {name: item.path for name, item in bound.items()}
    _check(reader, list(paths.values()), stripe, zones)
    filesystem, path = arrow_file_system(task.uri)
    file = pyarrow.orc.ORCFile(filesystem.open_input_file(path))

    def decoded(columns: Sequence[OutputColumn]) -> dict[str, pa.Array]:
        in_file = {column.name: paths[column.name] for column in columns if column.name in paths}
        try:
            batch = file.read_stripe(stripe, columns=list(in_file.values()))
            arrays = {name: batch.column(path) for name, path in in_file.items()}
            return {column.name: fitted(column, arrays) for column in columns if not column.is_partition}
        except pa.ArrowInvalid as error:  # such as a timestamp beyond the range of nanoseconds
            raise CannotReadError(f"pyarrow cannot read {reader.path!r}: {error}") from error

    def fitted(column: OutputColumn, arrays: Mapping[str, pa.Array]) -> pa.Array:
        data_type = column.type.to_arrow()
        array = arrays.get(column.name)
        if array is None:
            return pa.nulls(num_rows, data_type)
        return array if array.type == data_type else array.cast(data_type)

    values = decoded(task.filter_columns)
    matches = mask(task.filter, values, num_rows)
    count = int(np.count_nonzero(matches))
    schema = output_schema(task.columns)
    if not count:
        return pa.RecordBatch.from_pylist([], schema)
    values |= decoded([column for column in task.columns if column.name not in values])
    kept = None if count == num_rows else pa.array(matches)
    arrays = [
        pa.repeat(column.partition_value, count)
        if column.is_partition
        else (values[column.name] if kept is None else values[column.name].filter(kept))
        for column in task.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check(reader: OrcReader, names: Sequence[str], stripe: int, zones: TimeZones | None) -> None:
    for name in names:
        data_type = reader.column_type(name)
        if data_type.kind in _TIMES and "." not in name:
            reason = _time_difference(reader, data_type, stripe, zones)
            if reason:
                raise CannotReadError(
                    f"pyarrow reads other values of column {name!r} ({data_type}): {reason}"
                )
            continue
        if not _can_read(reader, data_type) or "." in name:
            raise CannotReadError(
                f"pyarrow cannot read column {name!r} ({data_type}) of {reader.path!r}: it returns other values, or "
                "aborts the process"
            )


def _time_difference(
    reader: OrcReader, data_type: OrcType, stripe: int, zones: TimeZones | None
) -> str | None:
    """Return the reason why pyarrow's values of a column of timestamps differ from hindex's; None if they do not."""
    statistics = reader.tail.footer.statistics
    if data_type.column < len(statistics):
        times = statistics[data_type.column].timestamp_statistics
        if max(abs(times.minimum_utc), abs(times.maximum_utc)) > _MAX_NANOSECONDS_MS:
            return "some are out of the range of nanoseconds"
    if data_type.kind is Kind.TIMESTAMP_INSTANT:
        return None
    if zones is not None and not zones.are_index_keys(data_type):
        return f"hindex reads instants of the time zone {zones.reader}"
    zone = reader.stripe(stripe).writer_timezone
    return None if zone in _UTC else f"its writer's time zone is {zone or 'unknown'}, not UTC"


def _is_gregorian(reader: OrcReader, data_type: OrcType) -> bool:
    """Return True if a column of dates has none before the Gregorian calendar, as far as its file says."""
    statistics = reader.tail.footer.statistics
    if data_type.column >= len(statistics):
        return False
    dates = statistics[data_type.column].date_statistics
    return dates.HasField("minimum") and dates.minimum >= GREGORIAN_START


def _can_read(reader: OrcReader, data_type: OrcType) -> bool:
    match data_type.kind:
        case Kind.DECIMAL:
            # decimals of more digits overflow in files with a scale per value
            return 0 < data_type.precision <= SHORT_PRECISION
        case Kind.DATE:
            return reader.tail.is_proleptic or _is_gregorian(reader, data_type)
        case _:
            return data_type.kind in _PYARROW_KINDS

"""The first rows of an order (top N): walk an index from its least or greatest key until there are enough rows.

Stripes are visited in the order of the best value that they may have by manifests, index files and statistics. The
stripes that cannot have one of the first rows are not opened. Rows with equal values are sorted by file and row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.domain import Key
from hindex.errors import ColumnError, IndexFileError
from hindex.index.column_stats import ColumnStats, are_of_kind
from hindex.index.index_type import Bounds, KeyedReader
from hindex.keys import (
    KeyKind,
    array_keys,
    join_keys,
    key_array,
    key_kind,
    key_list,
    nth_key,
    same_keys,
)
from hindex.orc.metadata.types import OrcType
from hindex.plan.order import Order
from hindex.scan.lookup_cost import is_key_walk_worthwhile
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import OutputColumn, ScanTask, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Runner
from hindex.store.file_views import FileView
from hindex.table.file_schema import recorded_type
from hindex.table.schema import spelled
from hindex.value_class import value_class

#: The number of data files that stay open while stripes of several files are visited in turn.
_OPEN_FILES = 32


@total_ordering
@value_class
class _Reversed:
    """Bytes in descending order."""

    key: bytes

    def __lt__(self, other: _Reversed) -> bool:
        return self.key > other.key


#: The sort key of a row: 0 for the first part and 1 for the second (nulls and values), then the value.
_Rank = tuple[int, int | bytes | _Reversed]


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A row of a file. Rows sort by rank, then by file, stripe and row number."""

    rank: _Rank
    task: int
    stripe: int
    row: int


def check_orders(plan: ScanPlan, orders: Sequence[Order]) -> None:
    """Refuse a column whose values have no order.

    Raises:
        ColumnError: naming the column.
    """
    for order in orders:
        data_type = plan.snapshot.schema.resolve(order.column).type
        if key_kind(data_type) is None:
            raise ColumnError(
                f"Column {spelled(order.column)!r} is of type {data_type}, whose values have no order: name a field of "
                "it"
            )


def first_rows(plan: ScanPlan, order: Order, start: int, stop: int, runner: Runner) -> pa.Table:
    """Return the rows of an order from the position ``start`` to before ``stop``.

    Args:
        plan: a plan whose first lookup is the order's column.
    """
    files = _Files(plan, runner)
    places = _first_places(plan, order, stop, files)[start:] if stop > start else []
    parts: list[pa.RecordBatch] = []
    at: dict[_Place, int] = {}
    in_file = sorted(places, key=lambda place: (place.task, place.stripe, place.row))
    if plan.has_only_index_keys:
        return _from_keys(plan, places, order)
    for (number, stripe), group in groupby(in_file, key=lambda place: (place.task, place.stripe)):
        task = files.open(number)
        stripe_places = list(group)
        rows = BitMap([place.row for place in stripe_places])
        num_rows = task.reader.stripes[stripe].num_rows
        parts.append(task.read(StripeResult(stripe, num_rows, Bounds.exactly(rows))))
        for place in stripe_places:
            at[place] = len(at)
    schema = plan.output_schema()
    rows_in_file_order = pa.Table.from_batches(parts, schema)
    return rows_in_file_order.take(pa.array([at[place] for place in places], pa.int64()))


@value_class
class SortKey:
    """An order and the values of its column, one for each row."""

    order: Order
    type: OrcType
    values: pa.ChunkedArray

    def ranks(self) -> pa.Array:
        """Return keys that sort as the values of the column; NULL for NULL."""
        array = self.values.combine_chunks()
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
        ranks = array_keys(self.type, array)
        if isinstance(ranks, pa.Array):
            return ranks
        return pa.array(ranks, pa.int64(), mask=np.asarray(array.is_null()))


def sorted_rows(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Sort the rows of a table by several keys, stably; the first key is the most significant."""
    indices: pa.Array | None = None
    # Arrow places the nulls of all keys of a sort at the same end, so there is a stable sort for each key
    for key in reversed(keys):
        ranks = key.ranks()
        by_key = pc.array_sort_indices(
            ranks if indices is None else ranks.take(indices),
            order="descending" if key.order.descending else "ascending",
            null_placement="at_start" if key.order.has_nulls_first else "at_end",
        )
        indices = by_key if indices is None else indices.take(by_key)
    return table if indices is None else table.take(indices)


class _Files:
    """A cache of open tasks. It opens tasks when they are needed and drops the least recently used ones."""

    def __init__(self, plan: ScanPlan, runner: Runner) -> None:
        self._plan = plan
        self.runner = runner
        self._open: OrderedDict[int, ScanTaskReader] = OrderedDict()

    def open(self, number: int) -> ScanTaskReader:
        task = self._open.get(number)
        if task is None:
            task = self._open[number] = self.runner.open(self._plan.tasks[number])
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return task


def _first_places(plan: ScanPlan, order: Order, limit: int, files: _Files) -> list[_Place]:
    stripes = sorted(_stripes(plan, order, files), key=lambda item: (item[0] is not None, item))
    places: list[_Place] = []
    for best, number, stripe in stripes:
        if len(places) == limit and best is not None and _Place(best, number, stripe, 0) > places[-1]:
            break
        task = files.open(number)
        if stripe >= len(task.stripes):
            continue
        result = files.runner.look_up(task, stripe)
        if not len(result.bounds.upper):
            continue
        ranked_rows = _first_in_stripe(
            task, task.resolve_undecided(result), task.task.lookups[0], order, limit
        )
        files.runner.mode.check(task.notes)
        places = sorted([*places, *(_Place(rank, number, stripe, row) for rank, row in ranked_rows)])[:limit]
    return places


def _stripes(plan: ScanPlan, order: Order, files: _Files) -> Iterator[tuple[_Rank | None, int, int]]:
    """Yield each stripe as the best rank of its rows (None if not recorded), its task and its number."""
    views = plan.snapshot.views.by_path(task.path for task in plan.tasks)
    column = plan.lookups[0]
    for number, task in enumerate(plan.tasks):
        view = views[task.path]
        stripe_stats = next((stats for _, stats in recorded_stats(plan, view, task, column)), ())
        if stripe_stats and (view.is_certainly_fresh or files.open(number).is_fresh):
            for stripe, stats in enumerate(stripe_stats):
                yield _best(order, stats), number, stripe
            continue
        opened = files.open(number)
        for stripe in opened.stripes:
            yield _best_in_stripe(opened, stripe, task.lookups[0], order), number, stripe


def recorded_stats(
    plan: ScanPlan, view: FileView, task: ScanTask, column: OutputColumn
) -> Iterator[tuple[str, Sequence[ColumnStats]]]:
    """Yield the name of each index of a column with its statistics of a file's stripes in the manifest."""
    entry = view.entry
    if entry is None or column.is_partition:
        return
    binding = tuple(item.name for item in plan.snapshot.schema.data_columns)
    file_type = recorded_type(entry.schema, binding, column.name, view.file.acid is not None)
    if file_type is None or not same_keys(file_type, column.type):
        return
    used = {use.name for use in task.indexes}
    for index in plan.snapshot.manifest.indexes:
        file = entry.index_file(index.id)
        if file is None or index.name not in used or not _is_on(plan, index.column, column):
            continue
        if file.stripe_stats and are_of_kind(file.stripe_stats, key_kind(column.type)):
            yield index.name, file.stripe_stats


def _is_on(plan: ScanPlan, indexed: str, column: OutputColumn) -> bool:
    try:
        return plan.snapshot.schema.resolve(indexed, is_stored=True).name == column.name
    except ColumnError:
        return False


def _best_in_stripe(task: ScanTaskReader, stripe: int, column: OutputColumn, order: Order) -> _Rank | None:
    rows = task.reader.stripes[stripe].num_rows
    if column.is_partition:
        keys = _value_keys(column)
        return _rank(order, keys[0]) if len(keys) else _null_rank(order)
    source_and_min_max = task.min_max(stripe, column)
    if source_and_min_max is None:
        return None
    min_max = source_and_min_max[1]
    if min_max.low is None and min_max.null_count < rows:
        return _null_rank(order) if min_max.null_count and order.has_nulls_first else None
    return _best(order, ColumnStats(rows, min_max.null_count, min_max.low, min_max.high))


def _best(order: Order, stats: ColumnStats) -> _Rank | None:
    if (order.has_nulls_first and stats.null_count) or not stats.has_values:
        return _null_rank(order)
    key = stats.max_key if order.descending else stats.min_key
    assert key is not None
    return None if order.descending and stats.max_is_prefix else _rank(order, key)


def _null_rank(order: Order) -> _Rank:
    return (0 if order.has_nulls_first else 1), 0


def _rank(order: Order, key: Key) -> _Rank:
    part = 1 if order.has_nulls_first else 0
    if not order.descending:
        return part, key
    return part, (-key if isinstance(key, int) else _Reversed(key))


def _first_in_stripe(
    task: ScanTaskReader, result: StripeResult, column: OutputColumn, order: Order, limit: int
) -> list[tuple[_Rank, int]]:
    """Return the first rows of a stripe in the order, each after its rank."""
    rows = result.bounds.lower
    if column.is_partition or not task.has(column.name):
        keys = _value_keys(column)
        rank = _rank(order, keys[0]) if len(keys) else _null_rank(order)
        return [(rank, row) for row in rows[:limit]]
    keyed = task.keyed(column.name)
    if keyed is not None and is_key_walk_worthwhile(keyed[1].key_count(result.stripe), len(rows)):
        name, reader = keyed
        try:
            walked = _walked(reader, result, order, limit)
        except IndexFileError as error:
            task.give_up(column.name, name, error)
        else:
            task.meter.add_indexes([name])
            return walked
    return _read(task, result, column, order, limit)


def _walked(reader: KeyedReader, result: StripeResult, order: Order, limit: int) -> list[tuple[_Rank, int]]:
    rows = result.bounds.lower
    null_rank = _null_rank(order)

    def nulls(count: int) -> list[tuple[_Rank, int]]:
        return [(null_rank, row) for row in (rows & reader.null_rows(result.stripe))[:count]]

    ranked_rows = nulls(limit) if order.has_nulls_first else []
    if len(ranked_rows) < limit:
        for item in reader.key_rows(result.stripe, rows, descending=order.descending):
            ends = np.cumsum(item.counts)
            numbers = range(len(ends))
            for at in reversed(numbers) if order.descending else numbers:
                rank = _rank(order, nth_key(item.keys, at))
                matching = item.rows[ends[at] - item.counts[at] : ends[at]]
                ranked_rows += [(rank, row) for row in matching[: limit - len(ranked_rows)].tolist()]
                if len(ranked_rows) >= limit:
                    return ranked_rows
    return ranked_rows if order.has_nulls_first else ranked_rows + nulls(limit - len(ranked_rows))


def _read(
    task: ScanTaskReader, result: StripeResult, column: OutputColumn, order: Order, limit: int
) -> list[tuple[_Rank, int]]:
    numbers = np.asarray(result.bounds.lower.to_array())
    table = pa.table({"value": task.read(result, columns=[column]).column(0), "row": numbers})
    first = sorted_rows(table, [SortKey(order, column.type, table.column("value"))]).slice(0, limit)
    values = first.column("value").combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    keys, valid = key_list(array_keys(column.type, values)), values.is_valid().to_pylist()
    return [
        (_rank(order, key) if is_valid else _null_rank(order), row)
        for key, is_valid, row in zip(keys, valid, first.column("row").to_pylist(), strict=True)
    ]


def _value_keys(column: OutputColumn) -> list[Key]:
    """Return the key of a partition column's value; [] if it is NULL, or if the file lacks the column."""
    if column.partition_value is None or not column.partition_value.is_valid:
        return []
    return key_list(array_keys(column.type, pa.repeat(column.partition_value, 1)))


def _from_keys(plan: ScanPlan, places: Sequence[_Place], order: Order) -> pa.Table:
    data_type = plan.columns[0].type
    null = _null_rank(order)[0]
    keys = [place.rank[1] for place in places if place.rank[0] != null]
    unwrapped = [item.key if isinstance(item, _Reversed) else item for item in keys]
    if key_kind(data_type) is KeyKind.INT64:
        signed = np.array([-key if order.descending else key for key in unwrapped], np.int64)  # type: ignore[operator]
        values = key_array(data_type, signed)
    else:
        values = key_array(data_type, join_keys(KeyKind.BYTES, [pa.array(unwrapped, pa.large_binary())]))
    nulls = pa.nulls(len(places) - len(unwrapped), values.type)
    whole = pa.concat_arrays([nulls, values] if order.has_nulls_first else [values, nulls])
    schema = plan.output_schema()
    return pa.Table.from_arrays([whole.cast(field.type) for field in schema], schema=schema)

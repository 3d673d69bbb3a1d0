"""Bound the rows of a stripe that a filter keeps, without reading data.

Indexes come first, the cheaper indexes of all leaves before the others; then the file's own statistics; then its
bloom filters. Each source is used only while rows are undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock

from pyroaring import BitMap

from hindex.index.index_type import Bounds, CostedReader, MinMax, MinMaxSource
from hindex.keys import key_kind
from hindex.orc import OrcReader
from hindex.plan.filter import AllOf, Filter, Indexable, Leaf, Residual
from hindex.plan.filter_evaluation import bounds, on_columns
from hindex.plan.reasons import Note, Reason
from hindex.scan.file_columns import FileColumns
from hindex.scan.file_pruning import row_id_bounds
from hindex.scan.lookup_cost import are_keys_spread, is_cheap, max_values, reason_to_skip_lookup
from hindex.scan.open_indexes import ColumnIndex, OpenIndexes
from hindex.scan.orc_statistics import OrcStatistics, StatisticsResult, StatisticsSource
from hindex.scan.scan_task import LeafResult, OutputColumn, ScanTask, StripeResult

#: The bounds of each condition in a stripe; None if there are none yet.
_LeafBounds = dict[Indexable, Bounds | None]
_Step = Callable[[StripeResult, Indexable, Bounds | None], Bounds | None]


class StripeFilter:
    """The lookups of filters in the stripes of one data file.

    Args:
        indexes: the usable indexes, or None.
        notes: receives one note per unused index.
    """

    def __init__(
        self,
        task: ScanTask,
        reader: OrcReader,
        columns: FileColumns,
        indexes: OpenIndexes | None,
        notes: list[Note],
    ) -> None:
        self._task = task
        self._reader = reader
        self._columns = columns
        self._indexes = indexes
        self._notes = notes
        # stripes are worked on by several threads
        self._lock = Lock()
        self._orc = OrcStatistics(reader, task.path, notes)
        root, read = on_columns(task.filter), {column.name for column in task.columns}
        # conditions of all rows, on columns that are read
        self._read_leaves = [
            part
            for part in (root.children if isinstance(root, AllOf) else (root,))
            if isinstance(part, Leaf) and part.column in read and columns.are_keys_values(part)
        ]

    def look_up(self, stripe: int, root: Filter) -> StripeResult:
        """Return the bounds of the rows of a stripe that a filter keeps; deleted rows are among them."""
        count = self._rows(stripe)
        result = StripeResult(stripe, count, Bounds.unknown(count))
        if self._task.reads_all:
            result.bounds = bounds(root, lambda _: None, count)
            return result
        # the root is not sorted yet: sorting it opens indexes to estimate their costs
        bounds_by_leaf = self._refine(result, root, lambda _, __, so_far: so_far, {})
        for step in self._steps(bounds_by_leaf) if result.undecided else ():
            bounds_by_leaf = self._refine(
                result, self._sorted(stripe, root, bounds_by_leaf), step, bounds_by_leaf
            )
            if not result.undecided:
                break
        return result

    def _steps(self, bounds_by_leaf: _LeafBounds) -> Iterator[_Step]:
        """Yield the lookups of the leaves that the file's statistics leave undecided, cheapest first."""
        orders: tuple[int, ...] = (0,)
        if self._indexes is not None:
            orders = self._indexes.orders(
                leaf.column for leaf, so_far in bounds_by_leaf.items() if _is_open(so_far)
            )
        for order in orders:
            yield partial(self._by_indexes, order, order == orders[-1])
        yield self._by_statistics
        yield self._by_filters

    def min_max_by_source(
        self, stripe: int, column: OutputColumn
    ) -> Iterator[tuple[str | StatisticsSource, MinMax]]:
        """Yield the minimum and maximum of a whole stripe from each source: indexes, then file statistics."""
        if self._task.reads_all:
            return
        if not self._columns.has(column.name):
            yield StatisticsSource.STATISTICS, MinMax(self._rows(stripe), None, None)
            return
        for item in self._sources(column.name):
            if isinstance(item.reader, MinMaxSource):
                yield item.name, item.reader.min_max(stripe)
        min_max = self._orc.min_max(stripe, self._columns.type_in_file(column.name), column.type)
        if min_max is not None:
            yield StatisticsSource.STATISTICS, min_max

    def _sources(self, column: str) -> tuple[ColumnIndex, ...]:
        return () if self._indexes is None else tuple(self._indexes.sources(column))

    def _rows(self, stripe: int) -> int:
        return self._reader.stripes[stripe].num_rows

    def _sorted(self, stripe: int, root: Filter, bounds_by_leaf: _LeafBounds) -> Filter:
        """Return a filter with the parts of its AND sorted by the rows that they may keep, fewest first."""
        if not isinstance(root, AllOf):
            return root

        def rows(part: Filter) -> int:
            if not isinstance(part, Leaf):
                return self._rows(stripe)
            so_far = bounds_by_leaf.get(part)
            least = self._rows(stripe) if so_far is None else len(so_far.upper)
            for item in self._sources(part.column) if _is_open(so_far) else ():
                if isinstance(item.reader, CostedReader):
                    least = min(least, item.reader.estimate_cost(stripe, part.domain).rows)
            return least

        return AllOf(tuple(sorted(root.children, key=rows)))

    def _refine(self, result: StripeResult, root: Filter, step: _Step, earlier: _LeafBounds) -> _LeafBounds:
        """Evaluate the filter again, with one more step for each leaf; return the bounds of the leaves.

        Leaves that no longer matter are left out.
        """
        bounds_by_leaf: _LeafBounds = {}

        def lookup(leaf: Indexable) -> Bounds | None:
            if leaf not in bounds_by_leaf:
                so_far = earlier[leaf] if leaf in earlier else self._by_file(result, leaf)
                bounds_by_leaf[leaf] = step(result, leaf, so_far)
            return bounds_by_leaf[leaf]

        result.bounds = bounds(root, lookup, result.num_rows)
        return bounds_by_leaf

    def _by_file(self, result: StripeResult, leaf: Indexable) -> Bounds | None:
        """Return the bounds of a leaf from the file's columns and file-level statistics; None if there are none.

        The statistics may save reading index pages. A leaf without index uses them later, in `_by_statistics`.
        """
        if leaf.is_on_expression:
            return None
        if not self._columns.has(leaf.column):
            # null in every row
            is_kept = isinstance(leaf, Leaf) and leaf.domain.null_allowed
            null_bounds = Bounds.all(result.num_rows) if is_kept else Bounds.none()
            result.leaf_results.append(LeafResult(leaf, None, len(null_bounds.upper)))
            return null_bounds
        if isinstance(leaf, Residual):
            return None
        if self._columns.is_row_key(leaf.column):
            return self._by_place(result, leaf)
        if self._indexes is None or leaf.column not in self._indexes.columns:
            return None
        file_type = self._columns.type_in_file(leaf.column)
        return _narrow(result, leaf, None, self._orc.file_result(result.stripe, leaf, file_type))

    def _by_place(self, result: StripeResult, leaf: Leaf) -> Bounds | None:
        """Return the bounds of a leaf on row keys from the path of an original file; None if there are none."""
        acid = self._task.acid
        if acid is None or not self._columns.is_flat:
            return None
        first = self._reader.stripes[result.stripe].first_row
        place_bounds = row_id_bounds(leaf.column, leaf.domain, acid, first, result.num_rows)
        if place_bounds is not None:
            result.leaf_results.append(
                LeafResult(leaf, None, len(place_bounds.upper), source=StatisticsSource.PLACE)
            )
        return place_bounds

    def _by_indexes(
        self, order: int, is_last: bool, result: StripeResult, leaf: Indexable, so_far: Bounds | None
    ) -> Bounds | None:
        """Narrow the bounds of a leaf by the indexes of one ``order``.

        Cheap indexes answer all leaves before expensive ones are read.
        """
        if so_far is not None and so_far.exact:
            return so_far
        if self._columns.is_row_key(leaf.column):
            if is_last:
                result.unanswered.append(leaf)
            return None
        combined = self._combined(result, leaf, order, so_far)
        if combined is None and is_last:
            result.unanswered.append(leaf)
        return combined

    def _by_statistics(self, result: StripeResult, leaf: Indexable, so_far: Bounds | None) -> Bounds | None:
        if isinstance(leaf, Residual) or leaf.is_on_expression:
            return so_far
        if so_far is not None and (so_far.exact or self._is_small(so_far.upper)):
            return so_far
        if self._columns.is_row_key(leaf.column):
            return None
        undecided = Bounds.unknown(result.num_rows) if so_far is None else so_far
        statistics = self._orc.statistics(
            result.stripe,
            leaf,
            self._columns.type_in_file(leaf.column),
            undecided.upper - undecided.lower,
        )
        return _narrow(result, leaf, so_far, statistics)

    def _by_filters(self, result: StripeResult, leaf: Indexable, so_far: Bounds | None) -> Bounds | None:
        if isinstance(leaf, Residual) or leaf.is_on_expression:
            return so_far
        if self._columns.is_row_key(leaf.column):
            return None
        candidates = result.bounds.upper - result.bounds.lower
        if so_far is not None:
            if so_far.exact or self._is_small(so_far.upper):
                return so_far
            candidates &= so_far.upper - so_far.lower
        file_type = self._columns.type_in_file(leaf.column)
        return _narrow(result, leaf, so_far, self._orc.filters(result.stripe, leaf, file_type, candidates))

    def _is_small(self, rows: BitMap) -> bool:
        """Return True if so few rows may match that ORC's own statistics cannot save anything."""
        return len(rows) <= self._reader.tail.row_index_stride

    def _combined(
        self, result: StripeResult, leaf: Indexable, order: int, combined: Bounds | None
    ) -> Bounds | None:
        """Narrow the bounds of a condition by all indexes of one order; None if there are still no bounds."""
        for item in self._sources(leaf.column):
            if item.order != order or not item.domains(leaf):
                continue
            if isinstance(leaf, Leaf) and not self._pays(result, leaf, item, combined):
                continue
            index_bounds = self._look_up(result, leaf, item)
            if index_bounds is None:
                continue
            combined = index_bounds if combined is None else combined.refine(index_bounds)
            result.leaf_results.append(LeafResult(leaf, item.name, len(combined.upper), combined.exact))
            if combined.exact:
                break
        return combined

    def _look_up(self, result: StripeResult, leaf: Indexable, item: ColumnIndex) -> Bounds | None:
        """Look up a condition in one index; if its column is read, keep the values of up to `max_values` rows."""
        assert self._indexes is not None
        if isinstance(leaf, Residual) or not any(part is leaf for part in self._read_leaves):
            return self._indexes.lookup(item, result.stripe, leaf)
        answer = self._indexes.lookup_keys(item, result.stripe, leaf, max_values(result.num_rows))
        if answer is None:
            return None
        index_bounds, values = answer
        if values is not None:
            result.values[leaf.column] = values
        return index_bounds

    def _pays(self, result: StripeResult, leaf: Leaf, item: ColumnIndex, so_far: Bounds | None) -> bool:
        """Return True if a lookup saves more than it costs.

        A lookup unpacks row numbers, and saves decoding and comparing rows. The file's statistics cost less, and
        checking a column that is read anyway costs nothing.
        """
        reader = item.reader
        if not self._task.columns or self._task.always_looks_up or not isinstance(reader, CostedReader):
            return True
        cost = reader.estimate_cost(result.stripe, leaf.domain)
        if is_cheap(cost):
            return True
        bounds_so_far = Bounds.unknown(result.num_rows) if so_far is None else so_far
        if not leaf.is_on_expression and not are_keys_spread(cost, result.num_rows):
            undecided = bounds_so_far.upper - bounds_so_far.lower
            file_type = self._columns.type_in_file(leaf.column)
            statistics = self._orc.statistics(result.stripe, leaf, file_type, undecided)
            if statistics is not None:
                bounds_so_far = bounds_so_far.refine(statistics.bounds)
        is_read = any(column.name == leaf.column for column in self._task.columns)
        kind = key_kind(leaf.type)
        assert kind is not None
        reason = reason_to_skip_lookup(cost, bounds_so_far, result.num_rows, kind, is_read=is_read)
        if reason is not None:
            self._note_once(Note(Reason.NOT_SELECTIVE, item.name, f"{leaf}: {reason}"))
        return reason is None

    def _note_once(self, note: Note) -> None:
        with self._lock:
            if note not in self._notes:
                self._notes.append(note)


def _is_open(so_far: Bounds | None) -> bool:
    return so_far is None or not so_far.exact


def _narrow(
    result: StripeResult, leaf: Leaf, so_far: Bounds | None, other: StatisticsResult | None
) -> Bounds | None:
    """Narrow the bounds of a leaf by one more result, if there is one, and record it."""
    if other is None:
        return so_far
    narrowed = other.bounds if so_far is None else so_far.refine(other.bounds)
    result.leaf_results.append(
        LeafResult(
            leaf,
            None,
            len(narrowed.upper),
            narrowed.exact,
            other.source,
            other.kept,
            other.groups,
        )
    )
    return narrowed

"""Running a scan task: index lookups to row sets, row sets to rows.

Nothing here knows Spark or SQL: executors import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError, OrcError, TableError
from hindex.index.base import (
    Bounds,
    Ends,
    EndsReader,
    EstimatingReader,
    IndexReader,
    KeyedReader,
    Operator,
)
from hindex.index.btree import BTREE
from hindex.index.btree_locations import group_rows
from hindex.index.open_files import open_index_file
from hindex.index.rowsets import group_count
from hindex.keys import same_keys
from hindex.orc import DecodePath, OrcReader, RowSelection
from hindex.orc.acid.files import open_file
from hindex.orc.acid.rows import LiveRows
from hindex.orc.acid.schema import ROW_ID
from hindex.orc.columns.arrays import bool_array
from hindex.orc.selection import Rows
from hindex.orc.types import OrcType
from hindex.plan.evaluate import Mask, bounds, mask
from hindex.plan.filter import AllOf, Filter, Leaf
from hindex.plan.reasons import Note, Reason, failure_reason
from hindex.scan.cost import CHEAP_ROWS, why_not_ask
from hindex.scan.meter import NO_METER, Step
from hindex.scan.orc_answers import OrcAnswer, OrcAnswers, Source
from hindex.scan.task import IndexUse, LocatedGroups, OutputColumn, ScanTask
from hindex.table.paths import bind_paths
from hindex.table.schema import common_type
from hindex.table.type_text import parse_type


@dataclass(frozen=True, slots=True)
class LeafAnswer:
    """What one source said of one leaf in one stripe; a leaf has one for each that was asked, in their order.

    ``index`` is None where the file itself has no such column. ``rows`` may match by this answer and those before
    it, and ``exact`` says that these leave nothing to check. What the file's own statistics and filters say has its
    ``source`` in place of an index; of the ``groups`` row groups that it was asked about, ``groups_kept`` are left.
    """

    leaf: Leaf
    index: str | None
    rows: int
    exact: bool = True
    source: Source | None = None
    groups_kept: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class _Answerer:
    """Something that answers a leaf for a stripe. Those of a low ``order`` are asked first."""

    name: str
    order: int
    operators: frozenset[Operator]
    lookup: Callable[[int, Domain], Bounds]
    reader: IndexReader | None = None


@dataclass(slots=True)
class StripeAnswer:
    """The rows of one stripe that are certainly, and possibly, wanted.

    ``unanswered`` are the leaves that no index could answer; leaves that no longer mattered are in neither.
    """

    stripe: int
    num_rows: int
    bounds: Bounds
    answers: list[LeafAnswer] = field(default_factory=list)
    unanswered: list[Leaf] = field(default_factory=list)
    deleted: int = 0
    invisible: int = 0

    @property
    def undecided(self) -> int:
        return len(self.bounds.upper) - len(self.bounds.lower)

    def first(self, limit: int | None) -> StripeAnswer:
        """Without certain rows beyond a limit: a stripe need not give more than are asked for."""
        if limit is None or self.undecided or len(self.bounds.lower) <= limit:
            return self
        kept = BitMap(islice(self.bounds.lower, max(limit, 0)))
        return replace(self, bounds=Bounds.exactly(kept))


#: What is known of each leaf in a stripe; None where nothing is.
Known = dict[Leaf, Bounds | None]
_Step = Callable[[StripeAnswer, Leaf, Bounds | None], Bounds | None]


class OpenTask:
    """A scan task with its data file and index files open. Its stripes may be read from several threads.

    ``notes`` tell of every index that was planned but could not be used.

    :raises TableError: if the data file is gone.
    :raises OrcError: if it cannot be read.
    """

    def __init__(self, task: ScanTask) -> None:
        self.task = task
        self.notes: list[Note] = []
        try:
            self.reader = OrcReader(task.uri) if task.acid is None else open_file(task.acid.file)
        except OrcError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise TableError(
                    f"data file {task.path!r} was deleted after the scan was planned: run the query again"
                ) from error
            raise
        self.is_fresh = (
            self.reader.tail.file_length == task.length and self.reader.tail.checksum == task.tail_checksum
        )
        self._columns = (*task.filter_columns, *task.columns, *task.lookups)
        wanted = {column.name for column in self._columns if not column.is_partition}
        bound = bind_paths(task.binding, self.reader.tail.schema, wanted, transactional=task.acid is not None)
        self._file_names = {name: found.path for name, found in bound.items()}
        try:
            self._check_types()
            self._live = None if task.acid is None else LiveRows(self.reader, task.acid)
        except HindexError:
            self.reader.close()
            raise
        self._orc = OrcAnswers(self.reader, task.path, self.notes)
        #: Is told how long reading takes.
        self.meter = NO_METER
        self._answerers: dict[str, list[_Answerer]] = {}
        # one at least: what is known of a file's columns without an index is said in it, too
        self._orders: tuple[int, ...] = (0,)
        if task.indexes or task.located:
            self._open_indexes()

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        self.reader.close()

    def __enter__(self) -> OpenTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stripes(self) -> range:
        return range(len(self.reader.stripes))

    def row_groups(self, rows: int) -> int:
        """How many row groups a stripe of so many rows has."""
        return group_count(self.reader.tail.row_index_stride, rows)

    def decode_paths(
        self, stripe: int, selection: RowSelection, columns: Sequence[str]
    ) -> tuple[DecodePath, ...]:
        """How columns of a selection would be decoded."""
        names = [self._file_names[name] for name in columns if name in self._file_names]
        return self.reader.decode_paths(stripe, names, selection)

    def answer(self, stripe: int) -> StripeAnswer:
        """Ask the indexes for the wanted rows of a stripe, then the file itself; no data is read.

        Each is asked about everything before the next one is, which the rest may then not need.
        """
        found = self._asked(stripe, self.task.filter)
        self._remove(found)
        return found

    def bounds_of(self, stripe: int, column: OutputColumn, domain: Domain) -> Bounds:
        """The rows of a stripe, deleted ones among them, whose value of a column of the file is in a domain.

        No data is read.
        """
        return self._asked(stripe, Leaf(column.name, column.type, domain)).bounds

    def _asked(self, stripe: int, root: Filter) -> StripeAnswer:
        count = self.reader.stripes[stripe].num_rows
        found = StripeAnswer(stripe, count, Bounds.unknown(count))
        if self.task.reads_all:
            found.bounds = bounds(root, lambda _: None, count)
            return found
        known: Known = {}
        by_indexes: list[_Step] = [partial(self._by_indexes, order) for order in self._orders]
        for step in (*by_indexes, self._by_statistics, self._by_filters):
            known = self._refine(found, self._sorted(stripe, root, known), step, known)
            if not found.undecided:
                break
        return found

    def _sorted(self, stripe: int, root: Filter, known: Known) -> Filter:
        """A filter with the parts of its AND in another order: those first that leave the fewest rows."""
        if not isinstance(root, AllOf):
            return root

        def rows(part: Filter) -> int:
            if not isinstance(part, Leaf):
                return self.reader.stripes[stripe].num_rows
            so_far = known.get(part)
            least = self.reader.stripes[stripe].num_rows if so_far is None else len(so_far.upper)
            for item in self._answerers.get(part.column, ()):
                if isinstance(item.reader, EstimatingReader):
                    least = min(least, item.reader.effort(stripe, part.domain).rows)
            return least

        return AllOf(tuple(sorted(root.children, key=rows)))

    def _remove(self, found: StripeAnswer) -> None:
        """Take out the rows of a transactional table that are not there: whatever an answer is made of goes by it."""
        if self._live is None or not found.bounds.upper:
            return
        removed = self._live.removed(found.stripe, found.bounds.upper)
        found.deleted, found.invisible = len(removed.deleted), len(removed.invisible)
        if found.deleted or found.invisible:
            gone, before = removed.deleted | removed.invisible, found.bounds
            upper = before.upper - gone
            found.bounds = Bounds.exactly(upper) if before.exact else Bounds(before.lower - gone, upper)

    def _refine(self, found: StripeAnswer, root: Filter, step: _Step, before: Known) -> Known:
        """Answer the filter anew, each leaf by one more step. Leaves that no longer matter are left out."""
        known: Known = {}

        def lookup(leaf: Leaf) -> Bounds | None:
            if leaf not in known:
                known[leaf] = step(found, leaf, before.get(leaf))
            return known[leaf]

        found.bounds = bounds(root, lookup, found.num_rows)
        return known

    def _by_indexes(
        self, order: int, found: StripeAnswer, leaf: Leaf, so_far: Bounds | None
    ) -> Bounds | None:
        """What indexes of one ``order`` say, beside what is known: the cheaper ones are asked of all leaves first."""
        if so_far is not None and so_far.exact:
            return so_far
        if leaf.column not in self._file_names:
            # a column that the file does not have is null in every row
            answer = Bounds.all(found.num_rows) if leaf.domain.null_allowed else Bounds.none()
            found.answers.append(LeafAnswer(leaf, None, len(answer.upper)))
            return answer
        combined = self._combined(found, leaf, order, so_far)
        if combined is None and order == self._orders[-1]:
            found.unanswered.append(leaf)
        return combined

    def _by_statistics(self, found: StripeAnswer, leaf: Leaf, so_far: Bounds | None) -> Bounds | None:
        if so_far is not None and (so_far.exact or self._is_small(so_far.upper)):
            return so_far
        of = self.reader.column_type(self._file_names[leaf.column])
        return _narrowed(found, leaf, so_far, self._orc.statistics(found.stripe, leaf, of))

    def _by_filters(self, found: StripeAnswer, leaf: Leaf, so_far: Bounds | None) -> Bounds | None:
        candidates = found.bounds.upper - found.bounds.lower
        if so_far is not None:
            if so_far.exact or self._is_small(so_far.upper):
                return so_far
            candidates &= so_far.upper - so_far.lower
        of = self.reader.column_type(self._file_names[leaf.column])
        return _narrowed(found, leaf, so_far, self._orc.filters(found.stripe, leaf, of, candidates))

    def _is_small(self, rows: BitMap) -> bool:
        """Whether an answer leaves so few rows that what the file tells of itself saves nothing."""
        return len(rows) <= self.reader.tail.row_index_stride

    def _combined(
        self, found: StripeAnswer, leaf: Leaf, order: int, combined: Bounds | None
    ) -> Bounds | None:
        """What is known of a leaf, and all that those of an order say, together; None where that is nothing."""
        needed = Operator.of(leaf.domain)
        for item in list(self._answerers.get(leaf.column, ())):
            if item.order != order or not item.operators & needed:
                continue
            if not self._pays(found, leaf, item, combined):
                continue
            try:
                said = item.lookup(found.stripe, leaf.domain)
            except IndexFileError as error:
                self._give_up(leaf.column, item, error)
                continue
            combined = said if combined is None else combined.narrowed(said)
            found.answers.append(LeafAnswer(leaf, item.name, len(combined.upper), combined.exact))
            if combined.exact:
                break
        return combined

    def _pays(self, found: StripeAnswer, leaf: Leaf, item: _Answerer, so_far: Bounds | None) -> bool:
        """Whether a lookup saves more than it takes: unpacking rows where others would be decoded and compared.

        What the file's statistics tell is known for less, and a column that is read anyway costs nothing to check.
        """
        reader = item.reader
        if not self.task.columns or not isinstance(reader, EstimatingReader):
            return True
        effort = reader.effort(found.stripe, leaf.domain)
        if effort.walked <= CHEAP_ROWS:
            return True
        of = self.reader.column_type(self._file_names[leaf.column])
        told = self._orc.statistics(found.stripe, leaf, of)
        known = Bounds.unknown(found.num_rows) if so_far is None else so_far
        if told is not None:
            known = known.narrowed(told.bounds)
        is_read = any(column.name == leaf.column for column in self.task.columns)
        why_not = why_not_ask(effort, known, found.num_rows, is_read=is_read)
        if why_not is not None:
            self._note_once(Note(Reason.NOT_SELECTIVE, item.name, f"{leaf}: {why_not}"))
        return why_not is None

    def _note_once(self, note: Note) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def has(self, column: str) -> bool:
        """Whether the file has a column of the table; in one that does not, it is null in every row."""
        return column in self._file_names

    def keyed(self, column: str) -> tuple[str, KeyedReader] | None:
        """An index that knows the rows of every key of a column, and its name."""
        for item in self._answerers.get(column, ()):
            if isinstance(item.reader, KeyedReader):
                return item.name, item.reader
        return None

    def ends(self, stripe: int, column: OutputColumn) -> tuple[str | Source, Ends] | None:
        """The ends of a whole stripe's values, and the index, or what of the file, that tells them."""
        return next(self.every_ends(stripe, column), None)

    def every_ends(self, stripe: int, column: OutputColumn) -> Iterator[tuple[str | Source, Ends]]:
        """What each of them tells, the one first that :meth:`ends` goes by."""
        if self.task.reads_all:
            return
        if column.name not in self._file_names:
            yield Source.STATISTICS, Ends(self.reader.stripes[stripe].num_rows, None, None)
            return
        for item in self._answerers.get(column.name, ()):
            if isinstance(item.reader, EndsReader):
                yield item.name, item.reader.ends(stripe)
        of = self.reader.column_type(self._file_names[column.name])
        found = self._orc.ends(stripe, of, column.type)
        if found is not None:
            yield Source.STATISTICS, found

    def alone(self, stripe: int, leaf: Leaf) -> Iterator[tuple[str, Bounds]]:
        """What each index says of a leaf by itself, by its name."""
        for item in list(self._answerers.get(leaf.column, ())):
            if not item.operators & Operator.of(leaf.domain):
                continue
            try:
                said = item.lookup(stripe, leaf.domain)
            except IndexFileError as error:
                self._give_up(leaf.column, item, error)
                continue
            yield item.name, said

    def give_up(self, column: str, index: str, error: HindexError) -> None:
        """Use an index of a column no more."""
        for item in list(self._answerers.get(column, ())):
            if item.name == index:
                self._give_up(column, item, error)

    def settled(self, answer: StripeAnswer) -> StripeAnswer:
        """The answer with its undecided rows decided, for which the columns of the filter are read."""
        if not answer.undecided:
            return answer
        matching, _, _ = self._decide(answer)
        rows = answer.bounds.lower | BitMap(matching.astype(np.uint32))
        return replace(answer, bounds=Bounds.exactly(rows))

    def _decide(self, answer: StripeAnswer) -> tuple[Rows, Mask, dict[str, pa.Array]]:
        """The undecided rows that match; which of the undecided these are; and the filter's columns, for all."""
        lower, upper = answer.bounds.lower, answer.bounds.upper
        candidates = RowSelection.of(upper - lower if len(lower) else upper, answer.num_rows)
        with self.meter.step(Step.PREDICATE):
            decoded = self._read_columns(answer.stripe, self.task.filter_columns, candidates)
        matches = mask(self.task.filter, decoded, len(candidates))
        return candidates.to_array()[matches], matches, decoded

    def read(self, answer: StripeAnswer, columns: Sequence[OutputColumn] | None = None) -> pa.RecordBatch:
        """The wanted rows of a stripe: those certain by index, and of the undecided those that match."""
        columns = self.task.columns if columns is None else columns
        lower, upper = answer.bounds.lower, answer.bounds.upper
        decoded: dict[str, pa.Array] = {}
        rows = lower
        if len(upper) > len(lower):
            matching, matches, decoded = self._decide(answer)
            if len(lower):
                rows, decoded = lower | BitMap(matching.astype(np.uint32)), {}
            else:
                kept = bool_array(matches, None)
                wanted = {column.name for column in columns}
                decoded = {name: array.filter(kept) for name, array in decoded.items() if name in wanted}
                selection = RowSelection.of(matching, answer.num_rows)
                return self._assemble(answer.stripe, columns, selection, decoded)
        return self._assemble(answer.stripe, columns, RowSelection.of(rows, answer.num_rows), decoded)

    def count(self, answer: StripeAnswer) -> int:
        """How many rows of a stripe are wanted: no data is read where the indexes decide."""
        if not answer.undecided:
            return len(answer.bounds.lower)
        found: int = self.read(answer, ()).num_rows
        return found

    def _assemble(
        self,
        stripe: int,
        columns: Sequence[OutputColumn],
        selection: RowSelection,
        decoded: dict[str, pa.Array],
    ) -> pa.RecordBatch:
        missing = [column for column in columns if column.name not in decoded and not column.is_partition]
        with self.meter.step(Step.COLUMNS):
            found = decoded | self._read_columns(stripe, missing, selection)
        arrays = [
            pa.repeat(column.partition_value, len(selection)) if column.is_partition else found[column.name]
            for column in columns
        ]
        if not columns:
            return pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), len(selection), [None], children=[])
            )
        return pa.RecordBatch.from_arrays(arrays, schema=output_schema(columns))

    def _read_columns(
        self, stripe: int, columns: Sequence[OutputColumn], selection: RowSelection
    ) -> dict[str, pa.Array]:
        in_file = [column for column in columns if column.name in self._file_names]
        batch = self.reader.read_stripe(stripe, [self._file_names[c.name] for c in in_file], selection)
        found = {
            column.name: pa.nulls(len(selection), column.type.to_arrow())
            for column in columns
            if column.name not in self._file_names
        }
        for i, column in enumerate(in_file):
            array = batch.column(i)
            found[column.name] = self._cast(array, column)
        if self._live is not None and ROW_ID in found and ROW_ID not in self.task.binding:
            found[ROW_ID] = self._live.row_ids(stripe, selection)
        return found

    def _cast(self, array: pa.Array, column: OutputColumn) -> pa.Array:
        wanted = column.type.to_arrow()
        if array.type == wanted:
            return array
        try:
            return array.cast(wanted)
        except pa.ArrowException as error:
            raise OrcError(
                f"a value of the file's type {array.type} does not fit the table's {column.type}: {error}",
                path=self.reader.path,
                column=column.name,
            ) from error

    def _check_types(self) -> None:
        """The plan's types come from the manifest; a file that was replaced since may have others."""
        for column in self._columns:
            name = self._file_names.get(column.name)
            if name is None or column.is_partition:
                continue
            found = self.reader.column_type(name)
            if not found.same_as(column.type) and common_type(column.type, found) != column.type:
                raise TableError(
                    f"column {column.name!r} is {found} in data file {self.task.path!r}, which was planned to be "
                    f"{column.type}: the file was replaced by one of the same length and time; touch it and run "
                    "the query again"
                )

    def _open_indexes(self) -> None:
        task = self.task
        if not self.is_fresh:
            self.notes.append(
                Note(
                    Reason.STALE_FILE,
                    task.path,
                    "length and time are as indexed, but the ORC tail's checksum is not: it was replaced",
                )
            )
            return
        stripe_rows = tuple(stripe.num_rows for stripe in self.reader.stripes)
        for use in task.indexes:
            name = self._file_names.get(use.column)
            if name is None:
                continue
            try:
                opened = open_index_file(use.path, use.length, use.footer_checksum)
                indexed = _recorded_type(opened.footer.column_type, use)
                if opened.reader.stripe_rows != stripe_rows:
                    raise IndexFileError(
                        f"Index file {use.path!r} has other stripes than its data file; rebuild the index"
                    )
            except HindexError as error:
                self._note_failure(use.name, error)
                continue
            wanted = next(c.type for c in self._columns if c.name == use.column)
            if not same_keys(indexed, wanted):
                self.notes.append(
                    Note(
                        Reason.TYPE_MISMATCH,
                        f"{use.name} on {task.path}",
                        f"it indexes {opened.footer.column_type} and the table's column is {wanted}",
                    )
                )
                continue
            answerer = _Answerer(
                use.name, opened.type.order, opened.type.operators, opened.reader.lookup, opened.reader
            )
            self._answerers.setdefault(use.column, []).append(answerer)
        for column, answerer in _located_answerers(task.located, stripe_rows):
            self._answerers.setdefault(column, []).append(answerer)
        orders = sorted({item.order for known in self._answerers.values() for item in known})
        self._orders = tuple(orders) or self._orders

    def _give_up(self, column: str, index: _Answerer, error: HindexError) -> None:
        """Use an index no more: a page of it could not be read."""
        self._answerers[column] = [item for item in self._answerers[column] if item is not index]
        self._note_failure(index.name, error)

    def _note_failure(self, index: str, error: HindexError) -> None:
        self.notes.append(Note(failure_reason(error), f"{index} on {self.task.path}", str(error)))


def _located_answerers(
    located: Sequence[LocatedGroups], stripe_rows: Sequence[int]
) -> Iterator[tuple[str, _Answerer]]:
    """The answers that the driver had looked up, by column."""
    by_index: dict[tuple[str, str], dict[Domain, LocatedGroups]] = {}
    for item in located:
        by_index.setdefault((item.column, item.name), {})[item.domain] = item
    for (column, name), known in by_index.items():

        def lookup(stripe: int, domain: Domain, known: Mapping[Domain, LocatedGroups] = known) -> Bounds:
            item = known.get(domain)
            if item is None:
                return Bounds.unknown(stripe_rows[stripe])
            groups = BitMap.deserialize(item.groups)
            return Bounds(BitMap(), group_rows(groups, item.row_group_rows, stripe_rows, stripe))

        yield column, _Answerer(name, BTREE.order, BTREE.operators, lookup)


def _narrowed(
    found: StripeAnswer, leaf: Leaf, so_far: Bounds | None, answer: OrcAnswer | None
) -> Bounds | None:
    """What is known of a leaf with one more answer, which is noted."""
    if answer is None:
        return so_far
    narrowed = answer.bounds if so_far is None else so_far.narrowed(answer.bounds)
    found.answers.append(
        LeafAnswer(leaf, None, len(narrowed.upper), narrowed.exact, answer.source, answer.kept, answer.groups)
    )
    return narrowed


def output_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """The Arrow schema of columns to read."""
    return pa.schema(
        [
            pa.field(
                column.name,
                column.partition_value.type if column.partition_value is not None else column.type.to_arrow(),
            )
            for column in columns
        ]
    )


def _recorded_type(text: str, use: IndexUse) -> OrcType:
    try:
        return parse_type(text)
    except ValueError as error:
        raise IndexFileError(
            f"Index file {use.path!r} is of a column type that cannot be read ({error}); rebuild the index"
        ) from error

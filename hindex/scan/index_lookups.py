"""The indexes of a data file, opened when first needed, and the cost of looking rows up in them.

The constants of the cost were measured with ``python -m tests.bench.cost``, by processor time, on TPC-H's lineitem
and orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from threading import Lock

from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError
from hindex.index.btree import BTREE, group_rows
from hindex.index.index_type import Bounds, IndexReader, KeyedReader, LookupCost, Operator
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_index_file
from hindex.keys import KeyKind, key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Leaf
from hindex.plan.reasons import Note, Reason, failure_reason
from hindex.scan.file_columns import FileColumns
from hindex.scan.scan_task import IndexUse, LocatedGroups, ScanTask
from hindex.table.type_text import parse_type

#: How many rows can be decoded and compared while one is unpacked from an index: 45 ns against 13 of a bigint, and a
#: little more as indexes are asked one after the other. With nothing in memory, asking one that keeps 24 % of the rows
#: took 0.97 of the time, 27 % 1.01 and 30 % 1.07; by the clock 0.96, 1.09 and 1.18.
_ROWS_PER_WALKED = 4


#: The same where the column is read anyway, so that only comparing it and skipping between the rows are saved: up to
#: here an index was no slower (it took 0.94 of the time where it kept 5 % of the rows, and 1.0 to 1.1 at 10 %).
_ROWS_PER_WALKED_IF_READ = 12


#: How many rows can be while a page is read and parsed: 0.1 ms of 10 ns each, for text 0.25 ms of 65 ns.
_ROWS_PER_PAGE = {KeyKind.INT64: 10_000, KeyKind.BYTES: 4_000}


#: Lookups that unpack no more rows than these, from a few pages, are not worth a thought.
_CHEAP_ROWS = 10_000


_CHEAP_PAGES = 4


#: An index of so many keys for each row that is left is not walked: reading the rows is less.
_KEYS_PER_ROW = 64


#: Rows that can be read and grouped while the rows of two keys are intersected: 21 combinations took a tenth of the
#: time of reading 1.1 million rows, 350 two thirds.
_ROWS_PER_CROSSING = 2_000


#: Rows of sets that can be intersected while one value is read and grouped: 0.6 ns each where they are spread evenly,
#: which is the worst for bitmaps, against 6 ns; but sets have to be fetched, too.
_CROSSED_PER_VALUE = 4


@dataclass(frozen=True, slots=True)
class LookupSource:
    """An index that answers a leaf for a stripe. Those of a low ``order`` are asked first."""

    name: str
    order: int
    operators: frozenset[Operator]
    lookup: Callable[[int, Domain], Bounds]
    reader: IndexReader | None = None


class IndexLookups:
    """The indexes of one data file, by column. Those of a column are opened when that column is first asked about.

    :param stripe_rows: how many rows each stripe of the data file has.
    :param notes: is told of every index that was planned but could not be used.
    :param cache: where index files are kept; the process's by default.
    """

    def __init__(
        self,
        task: ScanTask,
        columns: FileColumns,
        stripe_rows: tuple[int, ...],
        notes: list[Note],
        cache: Cache | None = None,
    ) -> None:
        self._task = task
        self._in_file = columns
        self._stripe_rows = stripe_rows
        self._notes = notes
        self._cache = cache
        self._sources: dict[str, list[LookupSource]] = {}
        # stripes are worked on by several threads
        self._lock = Lock()
        #: The columns that have any.
        self.columns = frozenset(use.column for use in task.indexes) | {item.column for item in task.located}

    def orders(self, columns: Iterable[str]) -> tuple[int, ...]:
        """In which those of some columns are asked; one at least: what has no index is told of in it, too."""
        return tuple(sorted({item.order for column in columns for item in self.sources(column)})) or (0,)

    def sources(self, column: str) -> Sequence[LookupSource]:
        """Those of a column that may still be asked."""
        with self._lock:
            return tuple(self._opened(column))

    def keyed(self, column: str) -> tuple[str, KeyedReader] | None:
        """An index that knows the rows of every key of a column, and its name."""
        for item in self.sources(column):
            if isinstance(item.reader, KeyedReader):
                return item.name, item.reader
        return None

    def lookup_each(self, stripe: int, leaf: Leaf) -> Iterator[tuple[str, Bounds]]:
        """Yield the answer of each index alone to a leaf, with its name."""
        for item in self.sources(leaf.column):
            if not item.operators & Operator.for_domain(leaf.domain):
                continue
            bounds = self.lookup(item, stripe, leaf)
            if bounds is not None:
                yield item.name, bounds

    def lookup(self, index: LookupSource, stripe: int, leaf: Leaf) -> Bounds | None:
        """Look up a leaf in one index.

        Return None if the index cannot be read; it is not used again.
        """
        try:
            return index.lookup(stripe, leaf.domain)
        except IndexFileError as error:
            self.give_up(leaf.column, index.name, error)
            return None

    def give_up(self, column: str, index: str, error: HindexError) -> None:
        """Use an index of a column no more: a page of it could not be read."""
        with self._lock:
            sources = self._opened(column)
            remaining = [item for item in sources if item.name != index]
            if len(remaining) < len(sources):
                self._sources[column] = remaining
                self._note_failure(index, error)

    def _opened(self, column: str) -> list[LookupSource]:
        """Those of a column, opened when they are first asked for; the lock is held."""
        if column not in self._sources:
            uses = [use for use in self._task.indexes if use.column == column and self._in_file.has(column)]
            opened = [self._open(use, self._in_file.type_in_table(column)) for use in uses]
            located = [item for item in self._task.located if item.column == column]
            self._sources[column] = [
                *(item for item in opened if item is not None),
                *_located_sources(located, self._stripe_rows),
            ]
        return self._sources[column]

    def _open(self, use: IndexUse, table_type: OrcType) -> LookupSource | None:
        try:
            opened = open_index_file(use.path, use.length, use.footer_checksum, self._cache)
            indexed = _recorded_type(opened.footer.column_type, use)
            if opened.footer.key_kind is not key_kind(indexed):
                raise IndexFileError(f"Index file {use.path!r} has keys of no such type; rebuild the index")
            if opened.reader.stripe_rows != self._stripe_rows:
                raise IndexFileError(
                    f"Index file {use.path!r} has other stripes than its data file; rebuild the index"
                )
        except HindexError as error:
            self._note_failure(use.name, error)
            return None
        if not same_keys(indexed, table_type):
            self._notes.append(
                Note(
                    Reason.TYPE_MISMATCH,
                    f"{use.name} on {self._task.path}",
                    f"it indexes {opened.footer.column_type} and the table's column is {table_type}",
                )
            )
            return None
        return LookupSource(
            use.name, opened.type.order, opened.type.operators, opened.reader.lookup, opened.reader
        )

    def _note_failure(self, index: str, error: HindexError) -> None:
        self._notes.append(Note(failure_reason(error), f"{index} on {self._task.path}", str(error)))


def _located_sources(located: Sequence[LocatedGroups], stripe_rows: Sequence[int]) -> Iterator[LookupSource]:
    """The answers on one column that the driver had looked up."""
    by_index: dict[str, dict[Domain, LocatedGroups]] = {}
    for item in located:
        by_index.setdefault(item.name, {})[item.domain] = item
    for name, located_by_domain in by_index.items():

        def lookup(
            stripe: int, domain: Domain, located_by_domain: Mapping[Domain, LocatedGroups] = located_by_domain
        ) -> Bounds:
            item = located_by_domain.get(domain)
            if item is None:
                return Bounds.unknown(stripe_rows[stripe])
            groups = BitMap.deserialize(item.groups)
            return Bounds(BitMap(), group_rows(groups, item.row_group_rows, stripe_rows, stripe))

        yield LookupSource(name, BTREE.order, BTREE.operators, lookup)


def _recorded_type(text: str, use: IndexUse) -> OrcType:
    try:
        return parse_type(text)
    except ValueError as error:
        raise IndexFileError(
            f"Index file {use.path!r} is of a column type that cannot be read ({error}); rebuild the index"
        ) from error


def is_walked(keys: int, rows: int) -> bool:
    """Return True if walking so many keys of an index pays for the remaining rows."""
    return keys <= _KEYS_PER_ROW * rows


def are_crossed(keys: Sequence[int], rows: int, stripe_rows: int) -> bool:
    """Return True if intersecting the keys of several columns pays for the remaining rows.

    All rows of the last column's keys are gone through for each combination of keys of the others.

    :param keys: how many each column has, ascending.
    """
    combinations = prod(count + 1 for count in keys)
    passed = prod(max(count, 1) for count in keys[:-1]) * stripe_rows
    return _ROWS_PER_CROSSING * combinations <= rows and passed <= _CROSSED_PER_VALUE * len(keys) * rows


def is_cheap(effort: LookupCost) -> bool:
    """Return True if a lookup is so cheap that its cost needs no further estimate."""
    return effort.walked <= _CHEAP_ROWS and effort.pages <= _CHEAP_PAGES


def reason_to_skip_lookup(
    effort: LookupCost, bounds: Bounds, rows: int, kind: KeyKind, *, is_read: bool
) -> str | None:
    """Return the reason why a lookup does not pay, for people; None if it pays.

    :param kind: of the index's keys.
    :param known: what cheaper indexes and the file's own statistics say of the stripe's ``rows``.
    :param is_read: whether the column is read anyway, so that comparing it costs little.
    """
    if is_cheap(effort):
        return None
    possible, undecided = len(bounds.upper), len(bounds.upper) - len(bounds.lower)
    keeps_most = 2 * effort.rows >= possible
    walked = (_ROWS_PER_WALKED_IF_READ if is_read else _ROWS_PER_WALKED) * effort.walked
    if max(walked, _ROWS_PER_PAGE[kind] * effort.pages) < undecided and not (is_read and keeps_most):
        return None
    if undecided < rows:
        return "other indexes and statistics rule out about as much"
    return "most rows match" if keeps_most else "a lookup takes as long as reading the remaining rows"

"""The indexes of a data file, opened when first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from threading import Lock
from typing import TypeVar

from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError
from hindex.index.btree import BTREE, group_rows
from hindex.index.index_type import Bounds, IndexReader, KeyedReader, KeyRows, Operator, has_ngrams
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_index_file
from hindex.keys import key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Indexable, Leaf, lookup_domains
from hindex.plan.reasons import Note, Reason, failure_reason
from hindex.scan.file_columns import FileColumns
from hindex.scan.scan_task import CandidateRowGroups, IndexUse, ScanTask
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

T = TypeVar("T")


@value_class
class ColumnIndex:
    """An index that answers conditions for a stripe. Indexes of a low ``order`` are looked up first."""

    name: str
    order: int
    operators: frozenset[Operator]
    lookup: Callable[[int, Domain], Bounds]
    reader: IndexReader | None = None
    has_ngrams: bool = False

    def domains(self, condition: Indexable) -> tuple[Domain, ...]:
        """Return the domains to look up for a condition, whose rows are united; () if it is not supported."""
        domains = lookup_domains(condition, on_ngrams=self.has_ngrams)
        if self.has_ngrams or any(self.operators & Operator.for_domain(domain) for domain in domains):
            return domains
        return ()


class OpenIndexes:
    """The indexes of one data file, by column. The indexes of a column are opened when they are first needed.

    Args:
        stripe_rows: the number of rows of each stripe of the data file.
        notes: receives one note per index that was planned but could not be used.
        cache: the cache of index files; by default, that of the process.
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
        self._sources: dict[str, list[ColumnIndex]] = {}
        # stripes are worked on by several threads
        self._lock = Lock()
        #: The columns that have an index.
        self.columns = frozenset(use.column for use in task.indexes) | {
            item.column for item in task.candidates
        }

    def orders(self, columns: Iterable[str]) -> tuple[int, ...]:
        """Return the distinct lookup orders of the indexes of some columns, ascending.

        There is at least one, in which conditions without an index are recorded as unanswered.
        """
        return tuple(sorted({item.order for column in columns for item in self.sources(column)})) or (0,)

    def sources(self, column: str) -> Sequence[ColumnIndex]:
        """Return the usable indexes of a column."""
        with self._lock:
            return tuple(self._opened(column))

    def keyed(self, column: str) -> tuple[str, KeyedReader] | None:
        """Return an index with the rows of every key of a column, after its name; None if there is none."""
        for item in self.sources(column):
            if isinstance(item.reader, KeyedReader):
                return item.name, item.reader
        return None

    def lookup_each(self, stripe: int, condition: Indexable) -> Iterator[tuple[str, Bounds]]:
        """Yield the answer of each index alone to a condition, with its name."""
        for item in self.sources(condition.column):
            bounds = self.lookup(item, stripe, condition) if item.domains(condition) else None
            if bounds is not None:
                yield item.name, bounds

    def lookup(self, index: ColumnIndex, stripe: int, condition: Indexable) -> Bounds | None:
        """Look up a condition in an index that supports it.

        Return None if the index cannot be read; it is not used again.
        """
        return self._attempt(
            index,
            condition.column,
            lambda: reduce(
                Bounds.__or__, (index.lookup(stripe, domain) for domain in index.domains(condition))
            ),
        )

    def lookup_keys(
        self, index: ColumnIndex, stripe: int, leaf: Leaf, max_rows: int
    ) -> tuple[Bounds, KeyRows | None] | None:
        """Look up a leaf in one index, as `lookup`, and get the keys of the matching rows.

        The keys are None if the index does not have them, or if there are nulls or more than ``max_rows`` rows.
        """
        reader = index.reader
        if not isinstance(reader, KeyedReader):
            bounds = self.lookup(index, stripe, leaf)
            return None if bounds is None else (bounds, None)
        return self._attempt(index, leaf.column, lambda: reader.lookup_keys(stripe, leaf.domain, max_rows))

    def _attempt(self, index: ColumnIndex, column: str, look_up: Callable[[], T]) -> T | None:
        try:
            return look_up()
        except IndexFileError as error:
            self.give_up(column, index.name, error)
            return None

    def give_up(self, column: str, index: str, error: HindexError) -> None:
        """Stop using an index of a column because a page of it could not be read, and note the error."""
        with self._lock:
            sources = self._opened(column)
            remaining = [item for item in sources if item.name != index]
            if len(remaining) < len(sources):
                self._sources[column] = remaining
                self._note_failure(index, error)

    def _opened(self, column: str) -> list[ColumnIndex]:
        """Return the indexes of a column, opened at the first call. The caller has the lock."""
        if column not in self._sources:
            uses = [use for use in self._task.indexes if use.column == column]
            opened = [
                self._open(use, use.expression_type or self._in_file.type_in_table(column))
                for use in uses
                if use.expression_type is not None or self._in_file.has(column)
            ]
            candidates = [item for item in self._task.candidates if item.column == column]
            self._sources[column] = [
                *(item for item in opened if item is not None),
                *_candidate_sources(candidates, self._stripe_rows),
            ]
        return self._sources[column]

    def _open(self, use: IndexUse, table_type: OrcType) -> ColumnIndex | None:
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
        return ColumnIndex(
            use.name,
            opened.type.order,
            opened.type.operators,
            opened.reader.lookup,
            opened.reader,
            has_ngrams(opened.type),
        )

    def _note_failure(self, index: str, error: HindexError) -> None:
        self._notes.append(Note(failure_reason(error), f"{index} on {self._task.path}", str(error)))


def _candidate_sources(
    candidates: Sequence[CandidateRowGroups], stripe_rows: Sequence[int]
) -> Iterator[ColumnIndex]:
    """Yield the driver's lookups on one column as indexes: one for each index of many data files."""
    by_index: dict[str, dict[Domain, CandidateRowGroups]] = {}
    for item in candidates:
        by_index.setdefault(item.name, {})[item.domain] = item
    for name, groups_by_domain in by_index.items():

        def lookup(
            stripe: int,
            domain: Domain,
            groups_by_domain: Mapping[Domain, CandidateRowGroups] = groups_by_domain,
        ) -> Bounds:
            item = groups_by_domain.get(domain)
            if item is None:
                return Bounds.unknown(stripe_rows[stripe])
            groups = BitMap.deserialize(item.groups)
            return Bounds(BitMap(), group_rows(groups, item.row_group_rows, stripe_rows, stripe))

        yield ColumnIndex(name, BTREE.order, BTREE.operators, lookup)


def _recorded_type(text: str, use: IndexUse) -> OrcType:
    try:
        return parse_type(text)
    except ValueError as error:
        raise IndexFileError(
            f"Index file {use.path!r} is of a column type that cannot be read ({error}); rebuild the index"
        ) from error

"""Prune files and row groups on the driver, by indexes that cover many data files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError
from hindex.index.btree import FileGroups, IndexedFile
from hindex.index.column_stats import Mask, are_of_kind
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_btree_file
from hindex.keys import key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Filter, Leaf, every_leaf
from hindex.plan.reasons import Note, Reason, failure_reason
from hindex.scan.file_pruning import FileGroup, StripeAnswer, recorded_types
from hindex.scan.scan_task import CandidateRowGroups
from hindex.store.entry_table import EntryTable
from hindex.store.file_views import FileView
from hindex.store.manifest import FileEntry, IndexEntry, SharedFileEntry, SharedIndexEntry
from hindex.store.segment import string_array
from hindex.store.snapshot import Snapshot
from hindex.table.type_text import parse_type

#: The most leaf pages of one index file that are read for a range; wider ranges are not looked up.
MAX_LEAVES = 4096

#: An index file, and the values to look up in it.
RemoteLookup = tuple[SharedFileEntry, Domain]

_NO_GROUPS = np.zeros(0, np.uint32)
_REMEDY = "ALTER INDEX ... REBUILD writes it again"


class SharedIndexPruner:
    """A pruner by shared indexes. It looks up each leaf once per index, whatever the number of data files.

    Args:
        indexes: the table's indexes by column.
        cache: the cache of index files; by default, that of the process.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        indexes: Mapping[str, Sequence[IndexEntry]],
        cache: Cache | None = None,
    ) -> None:
        self._store = snapshot.store
        self._binding = tuple(column.name for column in snapshot.schema.data_columns)
        self._indexes = indexes
        self._cache = cache
        self._groups_by_key: dict[tuple[str, Leaf], dict[str, FileGroups] | None] = {}
        #: One note for each index that could not be used.
        self.notes: list[Note] = []

    def answers(self, group: FileGroup, leaf: Leaf, wanted: Mask) -> Iterator[StripeAnswer]:
        """Yield the stripes that may have a matching row, for each index that covers files of a group."""
        table = group.table
        if table is None:
            return
        # without a type, the file lacks the column, which is null in every row: the index is on an earlier column
        # of that name
        wanted = wanted & sum(
            (files for _, files in group.with_types(leaf, self._binding)), np.zeros(len(wanted), np.bool_)
        )
        for index in self._indexes.get(leaf.column, ()):
            entries, numbers = table.shared_of(index.id)
            own = np.where(wanted, numbers[group.rows], -1)
            files = np.zeros(len(wanted), np.bool_)
            # covered stripes without a matching row group stay False
            upper = np.zeros(len(group.stripe_rows), np.bool_)
            for number in np.unique(own[own >= 0]).tolist():
                groups_by_path = self._groups_by_path(index, entries[number], leaf)
                if groups_by_path is not None:
                    files |= own == number
                    _mark_stripes(group, table, groups_by_path, files, upper)
            if files.any():
                yield StripeAnswer(index.name, files, np.zeros(len(upper), np.bool_), upper)

    def remote_lookups(self, entry: SharedIndexEntry, root: Filter) -> Iterator[RemoteLookup]:
        """Yield the lookups of a filter in index files of a remote store."""
        for leaf in every_leaf(root):
            if any(index.id == entry.index_id for index in self._indexes.get(leaf.column, ())):
                for file in entry.files:
                    if are_of_kind([file.stats], key_kind(leaf.type)) and file.stats.can_match(leaf.domain):
                        yield file, leaf.domain

    def prefetch(self, lookup: RemoteLookup) -> None:
        """Fetch the pages of a lookup into the cache; an error is raised again by the lookup."""
        file, domain = lookup
        with contextlib.suppress(HindexError):
            path = self._store.absolute(file.path)
            reader = open_btree_file(path, file.length, file.footer_checksum, self._cache)
            locations = reader.locate(domain, max_leaves=MAX_LEAVES)
            if locations is not None:
                reader.files(locations)

    def candidates(self, view: FileView, root: Filter) -> tuple[CandidateRowGroups, ...]:
        """Return the row groups to read for each leaf that an index answers, for the task of a file."""
        if view.entry is None or not view.entry.shared:
            return ()
        return tuple(
            CandidateRowGroups(
                index.name,
                leaf.column,
                leaf.domain,
                groups.file.row_group_rows,
                BitMap(groups.groups).serialize(),
            )
            for leaf in dict.fromkeys(every_leaf(root))
            for index, groups in self._groups(view, leaf)
        )

    def _groups(self, view: FileView, leaf: Leaf) -> Iterator[tuple[IndexEntry, FileGroups]]:
        entry = view.entry
        if entry is None or not view.is_listed_fresh or not entry.shared:
            return
        transactional = view.file.acid is not None
        if not recorded_types(entry.schema, self._binding, leaf, transactional):
            # the file lacks the column, which is null in every row: the index is on an earlier column of that name
            return
        for index in self._indexes.get(leaf.column, ()):
            shared_entry = entry.shared_index(index.id)
            groups_by_path = None if shared_entry is None else self._groups_by_path(index, shared_entry, leaf)
            if groups_by_path is None:
                continue
            groups = groups_by_path.get(view.file.path)
            if groups is None:
                # the index covers the file and has no row group of it
                indexed_file = IndexedFile(
                    entry.path, entry.length, entry.tail_checksum, 0, entry.stripe_rows
                )
                yield index, FileGroups(indexed_file, _NO_GROUPS)
            elif _is_same_version(groups.file, entry):
                yield index, groups
            else:
                problem = f"it describes another version of the file than the manifest; {_REMEDY}"
                self._note(Reason.CORRUPT, f"{index.name} on {view.file.path}", problem)

    def _groups_by_path(
        self, index: IndexEntry, shared_entry: SharedIndexEntry, leaf: Leaf
    ) -> dict[str, FileGroups] | None:
        """Return the row groups that may have a matching row, by file; None if the index cannot be used."""
        key = shared_entry.id, leaf
        if key not in self._groups_by_key:
            self._groups_by_key[key] = self._locate_groups(index, shared_entry, leaf)
        return self._groups_by_key[key]

    def _locate_groups(
        self, index: IndexEntry, shared_entry: SharedIndexEntry, leaf: Leaf
    ) -> dict[str, FileGroups] | None:
        subject = (
            index.name if shared_entry.partition is None else f"{index.name} on {shared_entry.partition}"
        )
        groups_by_path: dict[str, FileGroups] = {}
        try:
            if not same_keys(_recorded_type(shared_entry), leaf.type):
                problem = f"it indexes {shared_entry.column_type} and the table's column is {leaf.type}"
                self._note(Reason.TYPE_MISMATCH, subject, problem)
                return None
            for file in shared_entry.files:
                if not are_of_kind([file.stats], key_kind(leaf.type)):
                    raise IndexFileError(f"the manifest has keys of no such type of {file.path!r}; {_REMEDY}")
                if not file.stats.can_match(leaf.domain):
                    continue
                path = self._store.absolute(file.path)
                reader = open_btree_file(path, file.length, file.footer_checksum, self._cache)
                if reader.file.footer.key_kind is not key_kind(leaf.type):
                    raise IndexFileError(f"Index file {path!r} has keys of no such type; {_REMEDY}")
                if reader.num_locations != shared_entry.num_row_groups:
                    raise IndexFileError(
                        f"Index file {path!r} is of {reader.num_locations} row groups, and by the manifest of "
                        f"{shared_entry.num_row_groups}; {_REMEDY}"
                    )
                locations = reader.locate(leaf.domain, max_leaves=MAX_LEAVES)
                if locations is None:
                    self._note(Reason.NOT_SELECTIVE, subject, f"too many values are in the range of {leaf}")
                    return None
                for groups in reader.files(locations):
                    _add(groups_by_path, groups)
        except HindexError as error:
            self._note(failure_reason(error), subject, str(error))
            return None
        return groups_by_path

    def _note(self, reason: Reason, subject: str, detail: str) -> None:
        self.notes.append(Note(reason, subject, detail))


def _mark_stripes(
    group: FileGroup,
    table: EntryTable,
    groups_by_path: Mapping[str, FileGroups],
    files: Mask,
    upper: Mask,
) -> None:
    """Mark the stripes of a group that contain the given row groups.

    Args:
        groups_by_path: the row groups that may have a matching row, by file.
        files: a mask of the covered files; files of another version than the index describes are removed from it.
        upper: the mask of stripes to mark.
    """
    rows = table.find(string_array(list(groups_by_path)))
    starts = np.cumsum(group.num_stripes) - group.num_stripes
    for row, groups in zip(rows.tolist(), groups_by_path.values(), strict=True):
        place = int(np.searchsorted(group.rows, row))
        if row < 0 or place == len(group.rows) or group.rows[place] != row:
            continue
        first = int(starts[place])
        stripe_rows = tuple(group.stripe_rows[first : first + int(group.num_stripes[place])].tolist())
        version = int(table.lengths[row]), int(table.tail_checksums[row]), stripe_rows
        if (groups.file.length, groups.file.tail_checksum, groups.file.stripe_rows) != version:
            # `candidates` makes the note, for the task of the file
            files[place] = False
            continue
        ends = np.cumsum(groups.file.stripe_groups)
        upper[first + np.unique(np.searchsorted(ends, groups.groups, side="right"))] = True


def _is_same_version(file: IndexedFile, entry: FileEntry) -> bool:
    return (file.length, file.tail_checksum, file.stripe_rows) == (
        entry.length,
        entry.tail_checksum,
        entry.stripe_rows,
    )


def _add(groups_by_path: dict[str, FileGroups], groups: FileGroups) -> None:
    earlier = groups_by_path.get(groups.file.path)
    if earlier is not None:
        if earlier.file != groups.file:
            raise IndexFileError(
                f"the files of the index describe two versions of {groups.file.path!r}; {_REMEDY}"
            )
        groups = FileGroups(groups.file, np.union1d(earlier.groups, groups.groups))
    groups_by_path[groups.file.path] = groups


def _recorded_type(shared_entry: SharedIndexEntry) -> OrcType:
    try:
        return parse_type(shared_entry.column_type)
    except ValueError as error:
        raise IndexFileError(
            f"the column type {shared_entry.column_type!r} cannot be read ({error}); {_REMEDY}"
        ) from error

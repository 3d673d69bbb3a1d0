"""Checks that the keys of an index have the current type of the column."""

from __future__ import annotations

from functools import lru_cache

from hindex.errors import HindexError
from hindex.index.column_stats import are_of_kind
from hindex.index.reader_cache import open_index_file
from hindex.keys import key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.plan.index_columns import IndexColumn
from hindex.store.file_views import FileView
from hindex.store.manifest import IndexEntry, SharedIndexEntry
from hindex.store.store import Store
from hindex.table.type_text import parse_type


def has_current_keys(
    view: FileView, index: IndexEntry, column: IndexColumn, binding: tuple[str, ...], store: Store
) -> bool:
    """Return True if the keys in an index file of one data file are of the column's current type.

    The index file is opened only if the column had another type in the data file or at the last build. An unreadable
    index file counts as current: its lookups and checks report the damage.

    Args:
        binding: names of the table's data columns.
    """
    assert view.entry is not None
    file = view.entry.index_file(index.id)
    is_acid = view.file.acid is not None
    if file is None or has_recorded_keys(view.entry.schema, index, column, binding, is_acid=is_acid):
        return True
    try:
        reader = open_index_file(store.absolute(file.path), file.length, file.footer_checksum)
    except HindexError:
        return True
    return _has_same_keys(reader.footer.column_type, column.type)


def has_recorded_keys(
    schema: str, index: IndexEntry, column: IndexColumn, binding: tuple[str, ...], *, is_acid: bool = False
) -> bool:
    """Return True if a column had its current type in a data file of a recorded schema, and at the last build.

    True as well if the file lacks the column.
    """
    in_file = column.recorded_type(schema, binding, transactional=is_acid)
    return in_file is None or (
        same_keys(in_file, column.type) and _has_same_keys(index.column_type, column.type)
    )


def has_keys_of_type(index_set: SharedIndexEntry, data_type: OrcType) -> bool:
    """Return True if the files of an index set, and their manifest entries, have keys of a type."""
    if not _has_same_keys(index_set.column_type, data_type):
        return False
    return all(are_of_kind([file.stats], key_kind(data_type)) for file in index_set.files)


@lru_cache(maxsize=256)
def _has_same_keys(type_name: str, data_type: OrcType) -> bool:
    """Return True if a recorded type has the same keys as another; False for types of later versions."""
    try:
        return same_keys(parse_type(type_name), data_type)
    except ValueError:
        return False

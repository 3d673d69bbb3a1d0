"""Check that the keys of an index have the present type of the column."""

from __future__ import annotations

from functools import lru_cache

from hindex.errors import HindexError
from hindex.index.column_stats import are_of_kind
from hindex.index.reader_cache import open_index_file
from hindex.keys import key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.store.manifest import IndexEntry, SharedIndexEntry
from hindex.store.snapshot import FileView
from hindex.store.store import Store
from hindex.table.file_schema import recorded_type
from hindex.table.type_text import parse_type


def has_present_keys(
    view: FileView, index: IndexEntry, column: str, data_type: OrcType, binding: tuple[str, ...], store: Store
) -> bool:
    """Return True if the keys that an index has of a file are of the column's present type.

    An index file of one data file is opened only if the file's type or that of the last build is another one; where it
    cannot be, that is told by whoever asks it, and not here.

    :param binding: the table's data columns.
    """
    if view.entry is None:
        return True
    shared = view.entry.shared_index(index.id)
    if shared is not None:
        return has_keys_of(shared, data_type)
    file = view.entry.index_file(index.id)
    in_file = recorded_type(view.entry.schema, binding, column, view.file.acid is not None)
    if (
        file is None
        or in_file is None
        or (same_keys(in_file, data_type) and _says(index.column_type, data_type))
    ):
        return True
    try:
        opened = open_index_file(store.absolute(file.path), file.length, file.footer_checksum)
    except HindexError:
        return True
    return _says(opened.footer.column_type, data_type)


def has_keys_of(held: SharedIndexEntry, data_type: OrcType) -> bool:
    """Return True if a set of files, and its manifest entries, have keys of a type."""
    if not _says(held.column_type, data_type):
        return False
    return all(are_of_kind([file.stats], key_kind(data_type)) for file in held.files)


@lru_cache(maxsize=256)
def _says(text: str, data_type: OrcType) -> bool:
    """Return True if a type's string names a type with the same keys.

    Types of later versions are unknown: False.
    """
    try:
        return same_keys(parse_type(text), data_type)
    except ValueError:
        return False

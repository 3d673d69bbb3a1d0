"""Open index files shared by the scans of one process.

Index files never change once written, so every later scan can use an open file with its decoded pages.
"""

from __future__ import annotations

from collections.abc import Hashable

from hindex.errors import IndexFileError, OrcError, TableError, root_os_error
from hindex.index.btree import BTreeReader
from hindex.index.bundle import Bundle, is_bundle
from hindex.index.index_file import Footer, IndexFileReader
from hindex.index.index_type import FileIndexType, IndexReader, file_index_type
from hindex.index.page_cache import Cache, shared_cache
from hindex.orc.io.file_system import open_source
from hindex.table.location import is_local
from hindex.value_class import value_class

# the memory of a reader without its directory, and the factor by which a directory grows when it is parsed
_OPEN_BYTES = 8 * 1024
_DIRECTORY_FACTOR = 4


@value_class
class OpenIndex:
    """An open index file: its type, footer and reader."""

    type: FileIndexType
    footer: Footer
    reader: IndexReader


def open_index_file(path: str, length: int, footer_checksum: int, cache: Cache | None = None) -> OpenIndex:
    """Open the index file of one data file, or return the open one.

    Args:
        length: in bytes, as recorded when the file was written.
        footer_checksum: the crc32c of its footer, as recorded.
        cache: the cache of the file and its pages; by default, that of the process.

    Raises:
        IndexFileError: if the file is missing, corrupt or not the one recorded.
        NewerFormatError: if a newer version wrote it.
        HindexError: if its index type is not installed.
    """
    key = (path, length, footer_checksum)
    cache = shared_cache() if cache is None else cache
    cached = cache.get(key)
    if isinstance(cached, OpenIndex):
        return cached
    if is_bundle(path):
        file = IndexFileReader(open_bundle(path, cache).open(length, footer_checksum), cache)
    else:
        file = _opened(path, length, footer_checksum, cache)
    index = file_index_type(file.footer.index_type)
    opened = OpenIndex(index, file.footer, index.reader(file))
    if is_bundle(path):
        # it has no open file of its own, but all of its bytes are in memory
        cache.put(key, opened, _weight(file) + length)
    else:
        _keep(cache, key, opened, file)
    return opened


def open_bundle(path: str, cache: Cache | None = None) -> Bundle:
    """Open a bundle, or return the open one.

    Raises:
        IndexFileError: if the bundle is missing or corrupt.
        NewerFormatError: if a newer version wrote it.
    """
    cache = shared_cache() if cache is None else cache
    cached = cache.get(path)
    if isinstance(cached, Bundle):
        return cached
    bundle = Bundle(_opened_file(path, None, cache))
    _keep(cache, path, bundle, bundle.file)
    return bundle


def open_btree_file(path: str, length: int, footer_checksum: int, cache: Cache | None = None) -> BTreeReader:
    """Open a BTREE index file, or return the open one. Parameters are those of `open_index_file`.

    Raises:
        IndexFileError: if the file is missing, corrupt or not the one recorded.
        NewerFormatError: if a newer version wrote it.
    """
    key = (path, length, footer_checksum)
    cache = shared_cache() if cache is None else cache
    cached = cache.get(key)
    if isinstance(cached, BTreeReader):
        return cached
    reader = BTreeReader(_opened(path, length, footer_checksum, cache))
    _keep(cache, key, reader, reader.file)
    return reader


def _keep(cache: Cache, key: Hashable, value: object, file: IndexFileReader) -> None:
    """Put an open file into a cache; only local files have a descriptor, and so a maximum number."""
    put = cache.put_file if is_local(file.path) else cache.put
    put(key, value, _weight(file))


def _weight(file: IndexFileReader) -> int:
    return _OPEN_BYTES + _DIRECTORY_FACTOR * len(file.footer.body) + file.kept_bytes


def _opened_file(path: str, length: int | None, cache: Cache) -> IndexFileReader:
    try:
        # each page is verified when it is read
        return IndexFileReader(open_source(path, length=length, detects_changes=False), cache)
    except (OrcError, TableError) as error:
        message = error.message if isinstance(error, OrcError) else error
        is_missing = isinstance(root_os_error(error), FileNotFoundError)
        remedy = "rebuild the index" if is_missing else "check its access"
        raise IndexFileError(f"Index file {path!r}: {message}; {remedy}") from error


def _opened(path: str, length: int, footer_checksum: int, cache: Cache) -> IndexFileReader:
    file = _opened_file(path, length, cache)
    if (file.length, file.footer_crc32c) != (length, footer_checksum):
        file.close()
        raise IndexFileError(
            f"Index file {path!r} is not the one that the manifest records; rebuild the index"
        )
    return file

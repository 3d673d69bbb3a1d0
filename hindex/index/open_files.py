"""Open index files shared by the scans of one process.

Index files never change once written, so an open one, with the pages it has decoded, serves every later scan.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from hindex.errors import IndexFileError, OrcError
from hindex.index.base import IndexReader, open_index
from hindex.index.file import Footer, IndexFileReader
from hindex.orc.source import LocalSource

#: Index files kept open; each holds a memory map and a few decoded pages.
MAX_OPEN = 256

_lock = threading.Lock()
_open: OrderedDict[tuple[str, int, int], tuple[Footer, IndexReader]] = OrderedDict()


def open_index_file(path: str, length: int, footer_checksum: int) -> tuple[Footer, IndexReader]:
    """The reader of an index file and its footer; opened once.

    :param length: bytes, as recorded when it was written.
    :param footer_checksum: crc32c of its footer, as recorded.
    :raises IndexFileError: if the file is missing, corrupt or not the one recorded.
    :raises NewerFormatError: if a newer version wrote it.
    """
    key = (path, length, footer_checksum)
    with _lock:
        found = _open.get(key)
        if found is not None:
            _open.move_to_end(key)
            return found
    try:
        file = IndexFileReader(LocalSource(path))
    except OrcError as error:
        raise IndexFileError(
            f"Index file {path!r} cannot be opened: {error.message}; rebuild the index"
        ) from error
    if (file.length, file.footer_crc32c) != (length, footer_checksum):
        file.close()
        raise IndexFileError(
            f"Index file {path!r} is not the one that the manifest records; rebuild the index"
        )
    opened = (file.footer, open_index(file))
    with _lock:
        _open[key] = opened
        while len(_open) > MAX_OPEN:
            # not closed: a scan may still be using it; the last reference frees it
            _open.popitem(last=False)
    return opened

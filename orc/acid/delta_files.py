"""Data files and delete files of a transactional directory: their position in it, and how to open them."""

from __future__ import annotations

import json
import struct
from collections.abc import Hashable, Sequence
from dataclasses import replace

from hindex.errors import OrcError
from hindex.orc.acid.schema import acid_columns
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import ByteSource, Range
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.reader.file_cache import FILE_CACHE, FileCache
from hindex.orc.reader.orc_reader import OrcReader
from hindex.value_class import value_class

#: The footer's key of the layout version, and the first supported version, that of Hive 3.
_VERSION_KEY = "hive.acid.version"
_FIRST_VERSION = 2
#: A version with more digits is corrupt: Python refuses to parse thousands of digits.
_VERSION_DIGITS = 18

_LONG = struct.Struct(">q")

#: The data format in the marker of a compacted base, and all known ones.
_COMPACTED = "compacted"
_BASE_FORMATS = (_COMPACTED, "truncated", "dropped")


@value_class
class StoredFile:
    """A file and the length of its valid part.

    Attributes:
        flush_length: the number of complete bytes according to the side file; None if all are complete.
        version_file: the URI of its directory's version file; None if it has none.
    """

    uri: str
    flush_length: int | None = None
    version_file: str | None = None


@value_class
class DeleteFile:
    """A file of a delete delta, and that delta's write ids.

    Attributes:
        changed_ns: the time of the last change, in nanoseconds since 1970; 0 if unknown.
    """

    file: StoredFile
    min_write_id: int
    max_write_id: int
    length: int
    changed_ns: int


@value_class
class AcidFile:
    """A data file and the delete files that may delete its rows. Small and picklable.

    Attributes:
        directory: the directory relative to the table; row ids of flat files count within it.
        write_id: the write id in the row keys of a flat file.
        bucket: the bucket in the file's name; None if it has none.
        statement: the statement in the directory's name; -1 if it has none.
        first_row_id: the row id of a flat file's first row; None if unknown, or if the file has the ACID schema.
        deletes: the files that may delete its rows.
        changed_ns: the time of the last change, in nanoseconds since 1970; 0 if unknown.
        is_newer: True if a compaction wrote the file after the snapshot of ``valid``, in which some of its write ids
            are valid and others undecided.
    """

    file: StoredFile
    directory: str
    write_id: int
    bucket: int | None
    statement: int = -1
    first_row_id: int | None = None
    deletes: tuple[DeleteFile, ...] = ()
    valid: ValidWriteIds = ALL_VALID
    changed_ns: int = 0
    is_newer: bool = False

    def physical(self) -> AcidFile:
        """Return the same file with all its rows: without deletes, and all write ids valid."""
        return replace(self, deletes=(), valid=ALL_VALID, is_newer=False)


def flush_length(content: bytes) -> int:
    """Return the number of valid bytes of a data file: the last 64-bit integer of its side file; 0 without one."""
    whole = len(content) // _LONG.size * _LONG.size
    return max(_LONG.unpack_from(content, whole - _LONG.size)[0], 0) if whole else 0


def is_compacted(content: bytes) -> bool:
    """Return True if the marker in a base directory is that of a compaction.

    TRUNCATE and DROP write markers too.

    >>> is_compacted(b'{"thisFileVersion": "0", "dataFormat": "truncated"}')
    False

    Raises:
        ValueError: if the marker has another version or data format.
    """
    try:
        marker = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(marker, dict) or marker.get("thisFileVersion") != "0":
        raise ValueError("its version is unknown")
    data_format = str(marker.get("dataFormat")).lower()
    if data_format not in _BASE_FORMATS:
        raise ValueError(f"its data format {data_format!r} is unknown")
    return data_format == _COMPACTED


def open_file(file: StoredFile, cache: FileCache = FILE_CACHE, timezone: str | None = None) -> OrcReader:
    """Open a file of a transactional directory.

    Args:
        cache: as for `hindex.orc.OrcReader`.
        timezone: as for `hindex.orc.OrcReader`.

    Raises:
        OrcError: if it is not readable as ORC, or is an ACID file with rows of a Hive version before 3.
    """
    source = _stored_source(file)
    try:
        reader = OrcReader(source, cache=cache, timezone=timezone)
        _check_version(reader.tail, file)
    except BaseException:
        source.close()
        raise
    return reader


def file_tail(file: StoredFile) -> FileTail:
    """Read the tail of a file of a transactional directory. Raises the errors of `open_file`."""
    source = _stored_source(file)
    try:
        tail = read_tail(source)
        _check_version(tail, file)
    finally:
        source.close()
    return tail


def _stored_source(file: StoredFile) -> ByteSource:
    """Open the complete bytes of a file."""
    # a writer may still append to a file with a side file
    source = open_source(file.uri, detects_changes=file.flush_length is None)
    if file.flush_length is None or file.flush_length >= source.size():
        return source
    return _Prefix(source, file.flush_length)


def _check_version(tail: FileTail, file: StoredFile) -> None:
    if not tail.num_rows or acid_columns(tail.schema, tail.path) is None:
        return
    value = next((item.value for item in tail.footer.metadata if item.name == _VERSION_KEY), b"")
    if not value and file.version_file is not None:
        value = _content(file.version_file)
    value = value.strip()
    version = int(value) if value.isdigit() and len(value) <= _VERSION_DIGITS else 0
    if version < _FIRST_VERSION:
        raise OrcError(
            f"the ACID layout has version {version}, which Hive before 3 wrote: run a major compaction with Hive 3 "
            "or later",
            path=tail.path,
        )


def _content(uri: str) -> bytes:
    source = open_source(uri)
    try:
        (data,) = source.read([(0, min(source.size(), 64))])
        return bytes(data).strip()
    finally:
        source.close()


class _Prefix:
    """The first bytes of a file that is still being written."""

    def __init__(self, inner: ByteSource, length: int) -> None:
        self._inner = inner
        self._length = length
        self.path = inner.path
        self.is_remote = inner.is_remote

    def size(self) -> int:
        return self._length

    def identity(self) -> Hashable | None:
        identity = self._inner.identity()
        return None if identity is None else (identity, self._length)

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return self._inner.has_other_mtime(mtime_ns)

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return self._inner.requests(ranges)

    def prefetch(self, ranges: Sequence[Range]) -> None:
        self._inner.prefetch(ranges)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self._length:
                raise OrcError(
                    f"bytes {offset} to {offset + length} are requested but only {self._length} are complete",
                    path=self.path,
                )
        return self._inner.read(ranges)

    def close(self) -> None:
        self._inner.close()

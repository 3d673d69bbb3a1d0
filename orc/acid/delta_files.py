"""Data files and delete files of a transactional directory: what their place says of them, and how they are opened."""

from __future__ import annotations

import json
import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.acid.schema import acid_columns
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from hindex.orc.io.source import ByteSource, Range, open_source
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.reader.file_cache import KNOWN_FILES, FileCache
from hindex.orc.reader.orc_reader import OrcReader

#: What the footer of an ACID file tells its layout's version by, and the first one that is read: that of Hive 3.
_VERSION_KEY = "hive.acid.version"
_FIRST_VERSION = 2
#: Longer ones are none: Python refuses to read a number of thousands of digits.
_VERSION_DIGITS = 18

_LONG = struct.Struct(">q")

#: What markers call a base that a compaction wrote, and others.
_COMPACTED = "compacted"
_BASE_FORMATS = (_COMPACTED, "truncated", "dropped")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file and the length of its valid part.

    :ivar flush_length: bytes that are complete, where a side file says so; None where all are.
    :ivar version_file: the URI of its directory's version file; None where there is none.
    """

    uri: str
    flush_length: int | None = None
    version_file: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of a delete delta, and the write ids of that.

    :ivar changed_ns: when it was last changed, nanoseconds since 1970; 0 where nothing tells.
    """

    file: StoredFile
    min_write_id: int
    max_write_id: int
    length: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class AcidFile:
    """A data file and the delete files that concern its rows. Small and picklable.

    :ivar directory: where the rows before those of a flat file are counted, relative to the table.
    :ivar write_id: what the keys of a flat file's rows have as their write id.
    :ivar bucket: as the file's name tells it; None where it does not.
    :ivar statement: of its directory, -1 where that has none.
    :ivar first_row_id: of a flat file, its first row's; None where it is not known, or the file has the ACID schema.
    :ivar deletes: the files that may delete rows of it.
    :ivar changed_ns: when it was last changed, nanoseconds since 1970; 0 where nothing tells.
    :ivar is_newer: whether the snapshot of ``valid`` was taken before all write ids of its directory were decided, some
        of which are valid: what compacted them came later.
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
        """The same file with all its rows."""
        return replace(self, deletes=(), valid=ALL_VALID, is_newer=False)


def flush_length(content: bytes) -> int:
    """Return the number of valid bytes of a data file: the last 64-bit integer of its side file; 0 without one."""
    whole = len(content) // _LONG.size * _LONG.size
    return max(_LONG.unpack_from(content, whole - _LONG.size)[0], 0) if whole else 0


def is_compacted(content: bytes) -> bool:
    """Return True if the marker in a base directory says that a compaction wrote it.

    TRUNCATE and DROP write markers too.

    >>> is_compacted(b'{"thisFileVersion": "0", "dataFormat": "truncated"}')
    False

    :raises ValueError: if it tells something else.
    """
    try:
        told = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(told, dict) or told.get("thisFileVersion") != "0":
        raise ValueError("it is of no known version")
    of = str(told.get("dataFormat")).lower()
    if of not in _BASE_FORMATS:
        raise ValueError(f"it tells of a base that is {of!r}, which is not known")
    return of == _COMPACTED


def open_file(file: StoredFile, known: FileCache = KNOWN_FILES, timezone: str | None = None) -> OrcReader:
    """Open a file of a transactional directory.

    :param known: as for :class:`~hindex.orc.OrcReader`, and so is ``timezone``.
    :raises OrcError: if it is not readable as ORC, or an ACID file of Hive before 3 that has rows.
    """
    source = _stored_source(file)
    try:
        reader = OrcReader(source, known=known, timezone=timezone)
        _check_version(reader.tail, file)
    except BaseException:
        source.close()
        raise
    return reader


def file_tail(file: StoredFile) -> FileTail:
    """The tail of a file of a transactional directory, read now; errors are those of :func:`open_file`."""
    source = _stored_source(file)
    try:
        tail = read_tail(source)
        _check_version(tail, file)
    finally:
        source.close()
    return tail


def _stored_source(file: StoredFile) -> ByteSource:
    """The bytes of a file that count."""
    source = open_source(file.uri)
    if file.flush_length is None or file.flush_length >= source.size():
        return source
    return _Prefix(source, file.flush_length)


def _check_version(tail: FileTail, file: StoredFile) -> None:
    if not tail.num_rows or acid_columns(tail.schema, tail.path) is None:
        return
    text = next((item.value for item in tail.footer.metadata if item.name == _VERSION_KEY), b"")
    if not text and file.version_file is not None:
        text = _content(file.version_file)
    text = text.strip()
    version = int(text) if text.isdigit() and len(text) <= _VERSION_DIGITS else 0
    if version < _FIRST_VERSION:
        raise OrcError(
            f"the ACID layout is of version {version}, which Hive before 3 wrote: run a major compaction with Hive 3 "
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

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self._length:
                raise OrcError(
                    f"bytes {offset} to {offset + length} are wanted but only {self._length} are complete",
                    path=self.path,
                )
        return self._inner.read(ranges)

    def release(self, offset: int, length: int) -> None:
        self._inner.release(offset, length)

    def open_arrow(self) -> pa.NativeFile:
        (data,) = self.read([(0, self._length)])
        return pa.BufferReader(data)

    def close(self) -> None:
        self._inner.close()

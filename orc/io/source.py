"""Positional reads: where the bytes of a file come from.

A source is asked for all ranges of one step together, so that a remote store can fetch them at once.
"""

from __future__ import annotations

import datetime
import errno
import mmap
import os
import stat
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from hindex.errors import ArgumentTypeError, OrcError, TableError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Two wanted ranges of a remote file closer than this may be fetched as one (a request costs more than the gap).
COALESCE_GAP = 64 * 1024

#: All gaps that are fetched together take at most this part of the wanted bytes, or so many bytes.
GAPS_PART = 1 / 20
GAPS_BYTES = 4096

#: Requests that are under way at once for one read.
REQUESTS = 8

# schemes of object stores that pyarrow knows, and its name for them
_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}

#: Headers of object stores name whole seconds.
_SECOND_NS = 10**9

Range = tuple[int, int]


@runtime_checkable
class ByteSource(Protocol):
    """Something that can be read at any position."""

    @property
    def path(self) -> str:
        """The name for messages."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def identity(self) -> Hashable | None:
        """Return a value that identifies the present state of the file, or None if that is unknown."""
        ...

    def has_other_mtime(self, mtime_ns: int) -> bool:
        """True if the file was not last modified at a listed time; costs no request.

        :param mtime_ns: as a listing of the same store shows it, nanoseconds since 1970. Where either of them has no
            time, False.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """Return True if a read costs a request, so that few and early reads are better."""
        ...

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the requests of :meth:`read` for ``(offset, length)`` ranges: ascending and coalesced."""
        ...

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        """The bytes of each ``(offset, length)``, in order.

        :raises OrcError: where a range does not lie within the source.
        """
        ...

    def release(self, offset: int, length: int) -> None:
        """Say that a part of the file is not wanted for now; views of it stay valid."""
        ...

    def close(self) -> None:
        """Free what the source holds; views handed out stay valid."""
        ...


def coalesce(ranges: Sequence[Range], most: int) -> list[Range]:
    """Ranges in ascending order, those merged that overlap, adjoin or are close.

    :param most: the widest gap that may be fetched along. The smallest gaps come first, until they take the
        part of the wanted bytes that :data:`GAPS_PART` allows.
    """
    merged: list[list[int]] = []
    for offset, length in sorted(ranges):
        if not length:
            continue
        if merged and offset <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], offset + length)
        else:
            merged.append([offset, offset + length])
    if most and len(merged) > 1:
        left = max(int(GAPS_PART * sum(end - start for start, end in merged)), GAPS_BYTES)
        gaps = sorted((merged[i + 1][0] - merged[i][1], i) for i in range(len(merged) - 1))
        closed = set()
        for gap, i in gaps:
            left -= gap
            if gap > most or left < 0:
                break
            closed.add(i + 1)
        wider: list[list[int]] = []
        for i, (start, end) in enumerate(merged):
            if i in closed:
                wider[-1][1] = end
            else:
                wider.append([start, end])
        merged = wider
    return [(start, end - start) for start, end in merged]


def _check(path: str, size: int, ranges: Sequence[Range]) -> None:
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > size:
            raise OrcError(
                f"bytes {offset} to {offset + length} are wanted but the file has {size}: it is truncated or corrupt",
                path=path,
            )


class BytesSource:
    """Bytes in memory."""

    is_remote = False

    def __init__(self, data: bytes | memoryview, path: str = "<memory>") -> None:
        self._view = memoryview(data).cast("B")
        self.path = path

    def size(self) -> int:
        return len(self._view)

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return coalesce(ranges, 0)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, len(self._view), ranges)
        return [self._view[offset : offset + length] for offset, length in ranges]

    def identity(self) -> None:
        """Nothing: other bytes may have the same name."""

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return False

    def release(self, offset: int, length: int) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Nothing to free: the caller owns the bytes."""


class LocalSource:
    """A memory-mapped local file.

    A file that is cut short in place while it is mapped would end the process at the next access, so its
    length is looked at before every read.
    """

    is_remote = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor = -1
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY)
            status = os.fstat(self._descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._size = status.st_size
            self._map = (
                mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_READ) if self._size else None
            )
        except OSError as error:
            raise OrcError(f"cannot open the file: {error.strerror}", path=self.path) from error
        except ValueError as error:
            raise OrcError(
                f"cannot map the file, it changed as it was opened: {error}", path=self.path
            ) from error
        self._view = memoryview(self._map) if self._map is not None else memoryview(b"")

    def __del__(self) -> None:
        self.close()

    def identity(self) -> Hashable | None:
        if self._descriptor < 0:
            return None
        status = os.fstat(self._descriptor)
        # a change of the content that restores the modification time still shows in the status' own
        return (
            self.path,
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return self._descriptor >= 0 and listed_mtime(os.fstat(self._descriptor)) != mtime_ns

    def size(self) -> int:
        return self._size

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return coalesce(ranges, 0)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        self._check_length()
        return [self._view[offset : offset + length] for offset, length in ranges]

    def release(self, offset: int, length: int) -> None:
        # the pages stay in the system's cache: only this process counts them no longer as its own
        start = offset - offset % mmap.PAGESIZE
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED") and offset + length <= self._size:
            self._map.madvise(mmap.MADV_DONTNEED, start, offset + length - start)

    def close(self) -> None:
        """Drop the references: the map is freed when the last view of it goes."""
        self._view = memoryview(b"")
        self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_length(self) -> None:
        if self._descriptor >= 0 and os.fstat(self._descriptor).st_size < self._size:
            raise OrcError(
                f"the file had {self._size} bytes and was cut short while it was open: run again when nothing "
                "writes to it",
                path=self.path,
            )


class _RemoteSource:
    """The common part of remote sources: near ranges are coalesced into one request, and requests run in parallel."""

    path: str
    is_remote = True
    _size: int
    #: When the object was written, as the answer that told its size says; 0 where that does not.
    _mtime_ns: int = 0

    def size(self) -> int:
        return self._size

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return coalesce(ranges, COALESCE_GAP)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        wanted = self.requests(ranges)
        blocks = [memoryview(block) for block in self._fetch(wanted)]
        for (start, length), block in zip(wanted, blocks, strict=True):
            if len(block) != length:
                raise OrcError(
                    f"bytes {start} to {start + length} came back short: the file changed", path=self.path
                )
        found: list[memoryview] = [memoryview(b"")] * len(ranges)
        at = 0
        for i in sorted((i for i, item in enumerate(ranges) if item[1]), key=lambda i: ranges[i]):
            offset, length = ranges[i]
            while offset >= sum(wanted[at]):
                at += 1
            skip = offset - wanted[at][0]
            found[i] = blocks[at][skip : skip + length]
        return found

    def identity(self) -> None:
        """Nothing: few stores tell a version of an object for certain."""

    def has_other_mtime(self, mtime_ns: int) -> bool:
        shown = self._mtime_ns
        if not shown or not mtime_ns:
            return False
        # a header names whole seconds, a listing perhaps their fractions
        return abs(shown - mtime_ns) >= (1 if shown % _SECOND_NS else _SECOND_NS)

    def release(self, offset: int, length: int) -> None:
        """Nothing to free: what was fetched belongs to who holds its views."""

    def _fetch(self, wanted: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        raise NotImplementedError


class FileSystemSource(_RemoteSource):
    """A file of a :class:`pyarrow.fs.FileSystem`."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, path: str, *, size: int | None = None) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            self._file = filesystem.open_input_file(path)
            self._size = self._file.size() if size is None else size
            self._mtime_ns = _header_mtime(self._file.metadata())
        except OSError as error:
            raise OrcError(f"cannot open the file: {error}", path=path) from error

    def _fetch(self, wanted: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        if len(wanted) < 2:
            return [self._one(item) for item in wanted]
        with ThreadPoolExecutor(min(REQUESTS, len(wanted))) as pool:
            return list(pool.map(self._one, wanted))

    def _one(self, item: Range) -> bytes:
        start, length = item
        try:
            data: bytes = self._file.read_at(length, start)
        except OSError as error:
            raise OrcError(
                f"cannot read bytes {start} to {start + length}: {error}", path=self.path
            ) from error
        return data

    def close(self) -> None:
        self._file.close()


class FsspecSource(_RemoteSource):
    """A file of an fsspec file system, which runs the requests of one read together if it is asynchronous."""

    def __init__(self, filesystem: AbstractFileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            info = filesystem.info(path)
            self._size = int(info["size"])
            self._mtime_ns = _info_mtime(info)
        except Exception as error:
            # each library has a family of its own; a store that does not tell a file's length gives None
            raise OrcError(f"cannot open the file: {one_line(error)}", path=path) from error

    def _fetch(self, wanted: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        starts = [start for start, _ in wanted]
        ends = [start + length for start, length in wanted]
        try:
            found: list[bytes] = self._filesystem.cat_ranges(
                [self.path] * len(wanted), starts, ends, max_gap=None, on_error="raise"
            )
        except Exception as error:
            raise OrcError(f"cannot read {len(wanted)} ranges: {one_line(error)}", path=self.path) from error
        return found

    def close(self) -> None:
        """Nothing to free: each request opens the file for itself."""


def resolve_filesystem(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a path or URI, and the path within it.

    :raises TableError: if the scheme is unknown or the store cannot be reached.
    """
    scheme = urlsplit(uri).scheme
    if len(scheme) <= 1:
        return pyarrow.fs.LocalFileSystem(), os.fspath(Path(uri).absolute())
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), unquote(urlsplit(uri).path)
    if scheme in _BUCKETS:
        head, slash, rest = uri[len(scheme) + 3 :].partition("/")
        # object names are taken literally, as Spark does: "%2F" in one is no slash
        place, mark, query = _without_options(rest)
        if not slash:
            head, mark, query = head.partition("?")
        environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
        filesystem, bucket = _bucket(f"{_BUCKETS[scheme]}://{head}{mark}{query}", environment)
        return filesystem, f"{bucket}{slash}{place}"
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(_quoted(uri))
    except (OSError, ValueError) as error:
        found = _fsspec_filesystem(uri) if isinstance(error, ValueError) else None
        if found is None:
            raise TableError(f"Table {uri!r} is invalid: {error}") from error
        # what it remembers of earlier listings may be out of date
        found[0].invalidate_cache()
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(found[0])), found[1]
    return filesystem, path


def _without_options(path: str) -> tuple[str, str, str]:
    """A path, and the options behind it with the mark before them."""
    return path.partition("?") if "=" in path.rpartition("?")[2] else (path, "", "")


def _quoted(uri: str) -> str:
    """A URI whose path pyarrow takes as it is written: it undoes one quoting, and refuses blanks."""
    head, slash, rest = uri.partition("://")
    authority, root, path = rest.partition("/")
    if not slash or not root:
        return uri
    place, mark, query = _without_options(path)
    return f"{head}://{authority}/{quote(place)}{mark}{query}"


@lru_cache(maxsize=32)
def _bucket(uri: str, environment: tuple[tuple[str, str], ...]) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a bucket, made once: it looks up the bucket's region, and keeps its connections."""
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise TableError(f"Table {uri!r} is invalid: {error}") from error
    return filesystem, path.rstrip("/")


def _fsspec_filesystem(uri: str) -> tuple[AbstractFileSystem, str] | None:
    """The same by fsspec, for schemes that pyarrow does not know; None where fsspec cannot help."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        return None
    try:
        filesystem, path = url_to_fs(uri)
    except (ImportError, OSError, ValueError):
        return None
    return filesystem, path


Location = str | os.PathLike[str] | tuple[Any, str]


def open_source(location: Location) -> ByteSource:
    """Open a local path (memory-mapped), a URI, or a ``(file system, path)`` pair.

    URIs are those that pyarrow knows, and where fsspec is installed those that it knows. A file system is
    pyarrow's or fsspec's.

    :raises OrcError: if there is no such file.
    :raises TableError: if the scheme is unknown or the store cannot be reached.
    :raises ArgumentTypeError: for anything else than these.
    """
    given: object = location
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        filesystem, path = given
        if not (isinstance(filesystem, pyarrow.fs.FileSystem) or _protocols(filesystem)):
            raise ArgumentTypeError(f"a file system is one of pyarrow.fs or of fsspec, not {filesystem!r}")
    elif isinstance(given, tuple) or not isinstance(location, str | os.PathLike):
        raise ArgumentTypeError(
            "an ORC file is read from a path, a URI, or a pair of a file system and a path, "
            f"not from {given!r}"
        )
    else:
        filesystem, path = resolve_filesystem(os.fspath(location))
    if isinstance(filesystem, pyarrow.fs.PyFileSystem) and isinstance(
        filesystem.handler, pyarrow.fs.FSSpecHandler
    ):
        filesystem = filesystem.handler.fs
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem) or "file" in _protocols(filesystem):
        return LocalSource(path)
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return FileSystemSource(filesystem, path)
    return FsspecSource(filesystem, path)


def listed_mtime(status: os.stat_result) -> int:
    """The modification time of a local file as listings record it: in 64 bits, years from 2262 on wrap around."""
    return (status.st_mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63)


def _header_mtime(metadata: Mapping[str | bytes, str | bytes] | None) -> int:
    """Return the modification time of an object from the response headers; 0 if they have none."""
    for name, value in (metadata or {}).items():
        if name in ("Last-Modified", b"Last-Modified"):
            text = value.decode() if isinstance(value, bytes) else value
            try:
                return int(datetime.datetime.fromisoformat(text).timestamp()) * _SECOND_NS
            except ValueError:
                return 0
    return 0


def _info_mtime(info: Mapping[str, Any]) -> int:
    """Return the modification time of an fsspec object, converted as in pyarrow's listings; 0 if its store has none."""
    try:
        return pyarrow.fs.FileInfo("", mtime=info.get("mtime")).mtime_ns or 0
    except (OverflowError, TypeError, ValueError):
        return 0


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def _protocols(filesystem: object) -> tuple[str, ...]:
    """The names of an fsspec file system; none of pyarrow's."""
    names = getattr(filesystem, "protocol", ())
    return (names,) if isinstance(names, str) else tuple(names)

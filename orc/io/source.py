"""Byte sources of files, with positional reads.

A caller requests all ranges of one step together, so that a remote store can fetch them at once.
"""

from __future__ import annotations

import datetime
import io
import os
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from hindex.errors import ArgumentTypeError, OrcError, TableError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Ranges of a remote file with a smaller gap may be fetched as one: a request costs more than the gap.
COALESCE_GAP = 64 * 1024

#: The maximum of all fetched gaps, as a part of the requested bytes and in bytes; the greater one counts.
GAPS_PART = 1 / 20
GAPS_BYTES = 4096

#: Parallel requests of one read.
REQUESTS = 8

# schemes of object stores, and pyarrow's name for them
_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}

#: Headers of object stores name whole seconds.
_SECOND_NS = 10**9

Range = tuple[int, int]


class ByteSource(Protocol):
    """Bytes that can be read at any position."""

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
        """Return True if the modification time is not the listed one, without a request; False if either is missing.

        Args:
            mtime_ns: the time in a listing of the same store, nanoseconds since 1970.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """Return True if a read costs a request, so that few and early reads are better."""
        ...

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the requests of `read` for ``(offset, length)`` ranges: ascending and coalesced."""
        ...

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        """Read the bytes of each ``(offset, length)``, in order.

        Raises:
            OrcError: if a range is outside the source.
        """
        ...

    def close(self) -> None:
        """Free the source's resources; returned views stay valid."""
        ...


def coalesce_ranges(ranges: Sequence[Range], max_gap: int) -> list[Range]:
    """Merge ranges that overlap, adjoin or are close; the result ascends.

    Args:
        max_gap: the widest gap to fetch with its neighbours. The smallest gaps are merged first, until they take the
            part of the requested bytes that `GAPS_PART` allows.
    """
    merged: list[list[int]] = []
    for offset, length in sorted(ranges):
        if not length:
            continue
        if merged and offset <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], offset + length)
        else:
            merged.append([offset, offset + length])
    if max_gap and len(merged) > 1:
        budget = max(int(GAPS_PART * sum(end - start for start, end in merged)), GAPS_BYTES)
        gaps = sorted((merged[i + 1][0] - merged[i][1], i) for i in range(len(merged) - 1))
        closed = set()
        for gap, i in gaps:
            budget -= gap
            if gap > max_gap or budget < 0:
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
                f"bytes {offset} to {offset + length} are requested but the file has {size}: it is truncated or "
                "corrupt",
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
        return coalesce_ranges(ranges, 0)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, len(self._view), ranges)
        return [self._view[offset : offset + length] for offset, length in ranges]

    def identity(self) -> None:
        """Return None: other bytes may have the same name."""

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return False

    def close(self) -> None:
        """Free nothing: the caller owns the bytes."""


class _RequestSource:
    """The base of sources that fetch bytes by requests: close ranges are coalesced into one request."""

    path: str
    is_remote = True
    _size: int
    #: The modification time in the response with the size; 0 if it has none.
    _mtime_ns: int = 0
    #: Ranges with a smaller gap may be fetched as one.
    _max_gap = COALESCE_GAP

    def size(self) -> int:
        return self._size

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return coalesce_ranges(ranges, self._max_gap)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        requests = self.requests(ranges)
        blocks = [memoryview(block) for block in self._fetch(requests)]
        for (start, length), block in zip(requests, blocks, strict=True):
            if len(block) != length:
                raise OrcError(
                    f"bytes {start} to {start + length} are incomplete in the response: the file has changed",
                    path=self.path,
                )
        if len(ranges) == len(blocks) == 1:
            return blocks
        views: list[memoryview] = [memoryview(b"")] * len(ranges)
        number = 0
        for i in sorted((i for i, item in enumerate(ranges) if item[1]), key=lambda i: ranges[i]):
            offset, length = ranges[i]
            while offset >= sum(requests[number]):
                number += 1
            skip = offset - requests[number][0]
            views[i] = blocks[number][skip : skip + length]
        return views

    def identity(self) -> Hashable | None:
        """Return None: few stores have reliable versions of objects."""
        return None

    def has_other_mtime(self, mtime_ns: int) -> bool:
        own = self._mtime_ns
        if not own or not mtime_ns:
            return False
        # a header has whole seconds, a listing may have fractions
        return abs(own - mtime_ns) >= (1 if own % _SECOND_NS else _SECOND_NS)

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        raise NotImplementedError


class LocalSource(_RequestSource):
    """A local file, read by positional reads into memory of this process.

    It is not mapped: access to a mapped file that was truncated ends the process, and a mapped page changes with the
    file after it was verified.

    Args:
        detects_changes: refuse to read a file whose length or modification time is no longer that of its opening:
            bytes of two versions would make wrong rows. False if the caller verifies the bytes, or if they stay as
            they are while the file grows.
    """

    is_remote = False
    _max_gap = 0

    def __init__(self, path: str | os.PathLike[str], *, detects_changes: bool = True) -> None:
        self.path = os.fspath(path)
        self._detects_changes = detects_changes
        self._file: io.FileIO | None = None
        try:
            self._file = io.FileIO(self.path)
            self._status = os.fstat(self._file.fileno())
        except OSError as error:
            raise OrcError(f"cannot open the file: {error.strerror}", path=self.path) from error
        except ValueError as error:
            # the path has a NUL
            raise OrcError(f"cannot open the file: {error}", path=self.path) from error
        self._size = self._status.st_size

    def __del__(self) -> None:
        self.close()

    def identity(self) -> Hashable | None:
        if self._file is None or self._file.closed:
            return None
        status = self._status
        # a change of the content that restores the modification time still changes the ctime
        return (
            self.path,
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return listed_mtime(self._status) != mtime_ns

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes]:
        try:
            if self._file is None:
                raise ValueError("it was not opened")
            descriptor = self._file.fileno()
            blocks = [_read_at(descriptor, offset, length) for offset, length in ranges]
            # after the reads: a change during one shows, and so does a descriptor that another thread has closed
            # and that belongs to another file now
            status = os.fstat(descriptor)
        except ValueError as error:
            raise OrcError("the file is closed: open it again", path=self.path) from error
        except OSError as error:
            raise OrcError(f"the file cannot be read: {error.strerror}", path=self.path) from error
        self._check_unchanged(status)
        return blocks

    def close(self) -> None:
        if self._file is not None:
            # FileIO forgets its descriptor before it closes it: after an interrupt, a second call closes no other file
            self._file.close()

    def _check_unchanged(self, status: os.stat_result) -> None:
        before = self._status
        if (status.st_dev, status.st_ino) != (before.st_dev, before.st_ino):
            raise OrcError("the file is closed: open it again", path=self.path)
        if status.st_size < before.st_size:
            raise OrcError(
                f"the file had {before.st_size} bytes and was truncated while it was open: run again when nothing "
                "writes to it",
                path=self.path,
            )
        if self._detects_changes and (status.st_size, status.st_mtime_ns) != (
            before.st_size,
            before.st_mtime_ns,
        ):
            raise OrcError(
                "the file was overwritten while it was open: run again when nothing writes to it",
                path=self.path,
            )


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Read bytes at a position; fewer at the end of the file."""
    data = os.pread(descriptor, length, offset)
    # the system reads at most 2 GiB at once
    while len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data))):
        data += more
    return data


class FileSystemSource(_RequestSource):
    """A file of a `pyarrow.fs.FileSystem`."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            self._file = filesystem.open_input_file(path)
            self._size = self._file.size()
            self._mtime_ns = _header_mtime(self._file.metadata())
        except OSError as error:
            raise OrcError(f"cannot open the file: {error}", path=path) from error

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        if len(ranges) < 2:
            return [self._read_range(item) for item in ranges]
        with ThreadPoolExecutor(min(REQUESTS, len(ranges))) as pool:
            return list(pool.map(self._read_range, ranges))

    def _read_range(self, item: Range) -> bytes:
        start, length = item
        try:
            data: bytes = self._file.read_at(length, start)
        except (OSError, ValueError) as error:  # ValueError if it is closed
            raise OrcError(
                f"cannot read bytes {start} to {start + length}: {error}", path=self.path
            ) from error
        return data

    def close(self) -> None:
        self._file.close()


class FsspecSource(_RequestSource):
    """A file of an fsspec file system, which runs the requests of one read together if it is asynchronous."""

    def __init__(self, filesystem: AbstractFileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            info = filesystem.info(path)
            self._size = int(info["size"])
            self._mtime_ns = _info_mtime(info)
        except Exception as error:
            # each library has its own errors; a store without file lengths returns None
            raise OrcError(f"cannot open the file: {one_line(error)}", path=path) from error

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        starts = [start for start, _ in ranges]
        ends = [start + length for start, length in ranges]
        try:
            blocks: list[bytes] = self._filesystem.cat_ranges(
                [self.path] * len(ranges), starts, ends, max_gap=None, on_error="raise"
            )
        except Exception as error:
            raise OrcError(f"cannot read {len(ranges)} ranges: {one_line(error)}", path=self.path) from error
        return blocks

    def close(self) -> None:
        """Free nothing: each request opens the file."""


def resolve_filesystem(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Resolve a path or URI to its file system and the path within it.

    Raises:
        TableError: if the scheme is unknown or the store cannot be reached.
    """
    scheme = urlsplit(uri).scheme
    if len(scheme) <= 1:
        return pyarrow.fs.LocalFileSystem(), os.fspath(Path(uri).absolute())
    if scheme == "file":
        path = uri.partition(":")[2]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]
        return pyarrow.fs.LocalFileSystem(), unquote(path)
    if scheme in _BUCKETS:
        head, slash, rest = uri[len(scheme) + 3 :].partition("/")
        # object names are taken literally, as Spark does: "%2F" in one is no slash
        path, mark, query = _split_options(rest)
        if not slash:
            head, mark, query = head.partition("?")
        environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
        filesystem, bucket = _bucket(f"{_BUCKETS[scheme]}://{head}{mark}{query}", environment)
        return filesystem, f"{bucket}{slash}{path}"
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(_quote_path(uri))
    except (OSError, ValueError) as error:
        resolved = _fsspec_filesystem(uri) if isinstance(error, ValueError) else None
        if resolved is None:
            raise TableError(f"Table {uri!r} is invalid: {error}") from error
        # its cached listings may be out of date
        resolved[0].invalidate_cache()
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(resolved[0])), resolved[1]
    return filesystem, path


def _split_options(path: str) -> tuple[str, str, str]:
    """Split a path into the path, the mark before the options, and the options."""
    return path.partition("?") if "=" in path.rpartition("?")[2] else (path, "", "")


def _quote_path(uri: str) -> str:
    """Quote a URI so that pyarrow uses its path as it is written: it unquotes once, and refuses spaces."""
    head, slash, rest = uri.partition("://")
    authority, root, path = rest.partition("/")
    if not slash or not root:
        return uri
    path, mark, query = _split_options(path)
    return f"{head}://{authority}/{quote(path)}{mark}{query}"


@lru_cache(maxsize=32)
def _bucket(uri: str, environment: tuple[tuple[str, str], ...]) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a bucket, cached: it looks up the bucket's region, and keeps its connections."""
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise TableError(f"Table {uri!r} is invalid: {error}") from error
    return filesystem, path.rstrip("/")


def _fsspec_filesystem(uri: str) -> tuple[AbstractFileSystem, str] | None:
    """Resolve a URI by fsspec, for schemes that pyarrow does not support; return None if fsspec fails."""
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


def open_source(location: Location, *, detects_changes: bool = True) -> ByteSource:
    """Open a local path, a URI, or a ``(file system, path)`` pair.

    URIs are those of pyarrow, and those of fsspec if it is installed. A file system is pyarrow's or fsspec's.

    Args:
        detects_changes: see `LocalSource`.

    Raises:
        OrcError: if there is no such file.
        TableError: if the scheme is unknown or the store cannot be reached.
        ArgumentTypeError: for any other location.
    """
    argument: object = location
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[1], str):
        filesystem, path = argument
        if not (isinstance(filesystem, pyarrow.fs.FileSystem) or _protocols(filesystem)):
            raise ArgumentTypeError(f"a file system is one of pyarrow.fs or of fsspec, not {filesystem!r}")
    elif isinstance(argument, tuple) or not isinstance(location, str | os.PathLike):
        raise ArgumentTypeError(
            "an ORC file is read from a path, a URI, or a pair of a file system and a path, "
            f"not from {argument!r}"
        )
    else:
        filesystem, path = resolve_filesystem(os.fspath(location))
    if isinstance(filesystem, pyarrow.fs.PyFileSystem) and isinstance(
        filesystem.handler, pyarrow.fs.FSSpecHandler
    ):
        filesystem = filesystem.handler.fs
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem) or "file" in _protocols(filesystem):
        return LocalSource(path, detects_changes=detects_changes)
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return FileSystemSource(filesystem, path)
    return FsspecSource(filesystem, path)


def listed_mtime(status: os.stat_result) -> int:
    """Return the modification time of a local file as in listings: in 64 bits, so that years from 2262 on wrap."""
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
    """Return the protocols of an fsspec file system; none for pyarrow's."""
    names = getattr(filesystem, "protocol", ())
    return (names,) if isinstance(names, str) else tuple(names)

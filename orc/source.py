"""Positional reads: where the bytes of a file come from.

A source is asked for all ranges of one step together, so that a remote store can fetch them at once.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from hindex.errors import OrcError, TableError

#: Two wanted ranges of a remote file closer than this are fetched as one (a request costs more than the gap).
COALESCE_GAP = 64 * 1024


class ByteSource(Protocol):
    """Something that can be read at any position."""

    @property
    def path(self) -> str:
        """The name for messages."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes of each ``(offset, length)``, in order.

        :raises OrcError: where a range does not lie within the source.
        """
        ...

    def open_arrow(self) -> pa.NativeFile:
        """The same bytes as an Arrow file of its own."""
        ...

    def close(self) -> None:
        """Free what the source holds; views handed out stay valid."""
        ...


def _check(path: str, size: int, ranges: Sequence[tuple[int, int]]) -> None:
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > size:
            raise OrcError(
                f"bytes {offset} to {offset + length} are wanted but the file has {size}: it is truncated or corrupt",
                path=path,
            )


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes | memoryview, path: str = "<memory>") -> None:
        self._view = memoryview(data).cast("B")
        self.path = path

    def size(self) -> int:
        return len(self._view)

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        _check(self.path, len(self._view), ranges)
        return [self._view[offset : offset + length] for offset, length in ranges]

    def open_arrow(self) -> pa.NativeFile:
        return pa.BufferReader(self._view)

    def close(self) -> None:
        """Nothing to free: the caller owns the bytes."""


class LocalSource:
    """A memory-mapped local file.

    A file that is cut short in place while it is mapped would end the process at the next access, so its
    length is looked at before every read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._descriptor = -1
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY)
            self._size = os.fstat(self._descriptor).st_size
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

    def size(self) -> int:
        return self._size

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        self._check_length()
        return [self._view[offset : offset + length] for offset, length in ranges]

    def open_arrow(self) -> pa.NativeFile:
        # the bytes already mapped, so that both readers see one file even if it is replaced meanwhile
        self._check_length()
        return pa.BufferReader(self._view)

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


class FileSystemSource:
    """A file of a :class:`pyarrow.fs.FileSystem`; near ranges are coalesced into one request."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, path: str, *, size: int | None = None) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            self._file = filesystem.open_input_file(path)
            self._size = self._file.size() if size is None else size
        except OSError as error:
            raise OrcError(f"cannot open the file: {error}", path=path) from error

    def size(self) -> int:
        return self._size

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        found: list[memoryview] = [memoryview(b"")] * len(ranges)
        order = sorted((i for i, item in enumerate(ranges) if item[1]), key=lambda i: ranges[i])
        at = 0
        while at < len(order):
            start, length = ranges[order[at]]
            end, until = start + length, at + 1
            while until < len(order) and ranges[order[until]][0] <= end + COALESCE_GAP:
                end = max(end, sum(ranges[order[until]]))
                until += 1
            try:
                block = memoryview(self._file.read_at(end - start, start))
            except OSError as error:
                raise OrcError(f"cannot read bytes {start} to {end}: {error}", path=self.path) from error
            if len(block) != end - start:
                raise OrcError(f"bytes {start} to {end} came back short: the file changed", path=self.path)
            for i in order[at:until]:
                offset, size = ranges[i]
                found[i] = block[offset - start : offset - start + size]
            at = until
        return found

    def open_arrow(self) -> pa.NativeFile:
        return self._filesystem.open_input_file(self.path)

    def close(self) -> None:
        self._file.close()


def resolve_filesystem(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a path or URI, and the path within it.

    :raises TableError: if the scheme is unknown or the store cannot be reached.
    """
    scheme = urlsplit(uri).scheme
    if len(scheme) <= 1:
        return pyarrow.fs.LocalFileSystem(), os.fspath(Path(uri).absolute())
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), unquote(urlsplit(uri).path)
    if scheme in ("s3a", "s3n"):
        uri = "s3" + uri[len(scheme) :]
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise TableError(f"Table {uri!r} is invalid: {error}") from error
    return filesystem, path


def open_source(uri: str | os.PathLike[str]) -> ByteSource:
    """Open a local path (memory-mapped) or any URI that pyarrow knows."""
    filesystem, path = resolve_filesystem(os.fspath(uri))
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        return LocalSource(path)
    return FileSystemSource(filesystem, path)

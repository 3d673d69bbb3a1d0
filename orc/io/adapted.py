"""File systems of pyarrow and fsspec that a user passes, and fsspec's file systems of URIs."""

from __future__ import annotations

import contextlib
import datetime
import errno
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from hindex.errors import ArgumentTypeError, OrcError, TableError
from hindex.orc.io.file_system import FileInfo, FileSystem, request_all
from hindex.orc.io.source import SECOND_NS, ByteSource, Range, RequestSource, one_line

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class AdaptedFileSystem(FileSystem):
    """A file system of pyarrow or fsspec.

    Raises:
        ArgumentTypeError: for any other object.
    """

    def __init__(self, filesystem: object) -> None:
        filesystem = _unwrapped(filesystem)
        self._fsspec: AbstractFileSystem | None = None
        if isinstance(filesystem, pyarrow.fs.FileSystem):
            self._arrow = filesystem
        elif _protocols(filesystem):
            self._fsspec = filesystem
            self._arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))
        else:
            raise ArgumentTypeError(f"a file system is one of pyarrow.fs or of fsspec, not {filesystem!r}")

    @classmethod
    def from_uri(cls, uri: str) -> tuple[AdaptedFileSystem, str]:
        """Return fsspec's file system of a URI, and the path within it.

        Raises:
            TableError: if fsspec is missing, or does not support the URI.
        """
        try:
            from fsspec.core import url_to_fs

            filesystem, path = url_to_fs(uri)
        except Exception as error:  # each library has its own errors
            raise TableError(f"Table {uri!r} is invalid: {one_line(error)}") from error
        return cls(filesystem), path.rstrip("/")

    @staticmethod
    def local_path(filesystem: object, path: str) -> str | None:
        """Return the local path if a file system of pyarrow or fsspec is the local one; else None."""
        filesystem = _unwrapped(filesystem)
        is_local = isinstance(filesystem, pyarrow.fs.LocalFileSystem) or "file" in _protocols(filesystem)
        return path if is_local else None

    def info(self, path: str) -> FileInfo:
        self._forget()
        with _raise_os_error():
            info = self._arrow.get_file_info(path)
        if info.type == pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return _file_info(info, info.base_name)

    def entries(self, path: str, *, recursive: bool = True) -> Iterator[FileInfo]:
        self._forget()
        with _raise_os_error():
            infos = self._arrow.get_file_info(pyarrow.fs.FileSelector(path, recursive=recursive))
        for info in infos:
            yield _file_info(info, info.path[len(path) :].strip("/"))

    def open(self, path: str, length: int | None = None, version: Hashable | None = None) -> ByteSource:
        if self._fsspec is not None:
            return FsspecSource(self._fsspec, path)
        return FileSystemSource(self._arrow, path)

    def _forget(self) -> None:
        """Drop fsspec's cached listings, which may be out of date."""
        if self._fsspec is not None:
            self._fsspec.invalidate_cache()


class FileSystemSource(RequestSource):
    """A file of a `pyarrow.fs.FileSystem`."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, path: str) -> None:
        self.path = path
        try:
            self._file = filesystem.open_input_file(path)
            self._size = self._file.size()
            self._mtime_ns = _header_mtime(self._file.metadata())
        except OSError as error:
            raise OrcError(f"cannot open the file: {error}", path=path) from error

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        if len(ranges) < 2:
            return [self._read_range(item) for item in ranges]
        return request_all(self._read_range, ranges)

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
        super().close()
        self._file.close()


class FsspecSource(RequestSource):
    """A file of an fsspec file system. An asynchronous one runs the requests of one read concurrently."""

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


def _file_info(info: pyarrow.fs.FileInfo, path: str) -> FileInfo:
    is_directory = info.type == pyarrow.fs.FileType.Directory
    return FileInfo(path, 0 if is_directory else info.size, info.mtime_ns or 0, is_directory=is_directory)


def _header_mtime(metadata: Mapping[str | bytes, str | bytes] | None) -> int:
    """Return the modification time of an object from the response headers; 0 if they have none."""
    for name, value in (metadata or {}).items():
        if name in ("Last-Modified", b"Last-Modified"):
            text = value.decode() if isinstance(value, bytes) else value
            try:
                return int(datetime.datetime.fromisoformat(text).timestamp()) * SECOND_NS
            except ValueError:
                return 0
    return 0


def _info_mtime(info: Mapping[str, Any]) -> int:
    """Return the modification time of an fsspec object, converted as in pyarrow's listings; 0 if its store has none."""
    try:
        return pyarrow.fs.FileInfo("", mtime=info.get("mtime")).mtime_ns or 0
    except (OverflowError, TypeError, ValueError):
        return 0


def _unwrapped(filesystem: object) -> Any:  # noqa: ANN401
    """Return the fsspec file system that a pyarrow file system wraps, or the file system itself."""
    if isinstance(filesystem, pyarrow.fs.PyFileSystem) and isinstance(
        filesystem.handler, pyarrow.fs.FSSpecHandler
    ):
        return filesystem.handler.fs
    return filesystem


def _protocols(filesystem: object) -> tuple[str, ...]:
    """Return the protocols of an fsspec file system; none for pyarrow's."""
    names = getattr(filesystem, "protocol", ())
    return (names,) if isinstance(names, str) else tuple(names)


@contextlib.contextmanager
def _raise_os_error() -> Iterator[None]:
    """Convert all errors of the underlying library to `OSError`."""
    try:
        yield
    except (OSError, UnicodeDecodeError):
        raise
    except Exception as error:  # each library has its own errors
        raise OSError(errno.EIO, one_line(error)) from error

"""HDFS, through hdfs-native, which needs neither Java nor Hadoop's library."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from hindex.errors import MissingRuntimeError, OrcError, TableError
from hindex.orc.io.file_system import FileInfo, WritableFileSystem, is_walked, request, request_all
from hindex.orc.io.source import Range, RequestSource, one_line

try:
    from hdfs_native import Client, WriteOptions
except ImportError as error:
    raise MissingRuntimeError(
        f"HDFS needs the package hdfs-native, which is missing ({error}); pip install 'hdfs-native>=0.14'"
    ) from error

if TYPE_CHECKING:
    from hdfs_native import FileReader, FileStatus

T = TypeVar("T")

#: The name node's own error: the class in Java, and the message before its stack.
_ANSWER = re.compile(r'RPCError\("[\w.]*?([\w$]+)", "(.*?)(?:\\n\\tat|"\)$)', re.DOTALL)
#: The error of the Kerberos library: codes, and its message.
_KERBEROS = re.compile(r'^GSSAPIError\(.*"(.*)"\)$', re.DOTALL)
#: The library's own error.
_OWN = re.compile(r'^\w+\("(.*)"\)$', re.DOTALL)
_TICKET = "get a ticket by kinit, and check it by klist"
#: The error of a name node that closes the connection.
_CLOSED = "RPC listener disconnected"
_AUTHENTICATION = (
    "the name node closed the connection: if it has Kerberos, set hadoop.security.authentication to kerberos in the "
    "core-site.xml of HADOOP_CONF_DIR"
)
#: The error numbers of Hadoop's exceptions.
_ERRNO = {
    "AccessControlException": errno.EACCES,
    "SafeModeException": errno.EROFS,
    "SnapshotAccessControlException": errno.EROFS,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
}
#: The least size of a block, in bytes: a quota counts a whole block while one is written.
_MIN_BLOCK = 1 << 20
_CHECKSUM_BYTES = 512
#: The bytes of a local file that are written at once.
_PART = 4 << 20


class Hdfs(WritableFileSystem):
    """A name node, a name service or a view of several.

    Args:
        root: the URI without a path. Without a host, the default file system of ``HADOOP_CONF_DIR``.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        try:
            # without a host, it is the default file system
            self.client = Client(None if root.endswith("://") else root)
        except RuntimeError as error:
            raise TableError(
                f"{root + '/'!r} cannot be opened: {_message(error)}; check the URI, and HADOOP_CONF_DIR"
            ) from error

    def info(self, path: str) -> FileInfo:
        return _info(_call(self.client.get_file_info, path), path.rpartition("/")[2])

    def entries(self, path: str, *, recursive: bool = True) -> Iterator[FileInfo]:
        above = [path]
        while above:
            below: list[str] = []
            # one level at a time, all directories of a level concurrently
            for statuses in request_all(lambda place: self._list(place, path), above):
                for status in statuses:
                    if status.path.rstrip("/") == path.rstrip("/"):
                        raise NotADirectoryError(errno.ENOTDIR, "it is a file", path)
                    info = _info(status, status.path[len(path) :].strip("/"))
                    if info.is_directory and is_walked(info.path.rpartition("/")[2]):
                        below.append(status.path)
                    yield info
            above = below if recursive else []

    def open(self, path: str, length: int | None = None, version: Hashable | None = None) -> HdfsSource:
        return HdfsSource(self, path, f"{self._root}{path}", length, version)

    def read(self, path: str, limit: int) -> bytes:
        reader: FileReader = _call(self.client.read, path)
        if len(reader) > limit:
            raise ValueError(f"it has more than the {limit} bytes that are supported")
        return _call(reader.read_range, 0, len(reader))

    def create(self, path: str, data: bytes) -> None:
        # a file exists before its content is written, and a killed writer leaves it empty
        temporary = f"{path.rpartition('/')[0]}/.tmp-{uuid.uuid4().hex}"
        self.write(temporary, data)
        try:
            _call(self.client.rename, temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.delete(temporary)
            raise

    def write(self, path: str, data: bytes) -> None:
        self._write(path, iter([data]), len(data))

    def upload(self, path: str, local: str) -> None:
        with open(local, "rb") as file:  # noqa: PTH123 a name
            self._write(path, iter(lambda: file.read(_PART), b""), os.fstat(file.fileno()).st_size)

    def delete(self, path: str) -> None:
        _call(self.client.delete, path)

    def make_directory(self, path: str) -> None:
        missing = []
        while (above := self._directory(path)) is None:
            missing.append(path)
            path = path.rpartition("/")[0] or "/"
        for directory in reversed(missing):
            # the library applies no umask: a store has the permissions of its parent directory
            _call(self.client.mkdirs, directory, above.permission, create_parent=True)

    def remove_directory(self, path: str) -> None:
        if not _call(self.client.delete, path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def _directory(self, path: str) -> FileStatus | None:
        with contextlib.suppress(FileNotFoundError):
            return _call(self.client.get_file_info, path)
        return None

    def _list(self, path: str, root: str) -> list[FileStatus]:
        try:
            return _call(lambda: list(self.client.list_status(path)))
        except FileNotFoundError:
            if path == root:
                raise
            return []  # removed after its parent was listed

    def _write(self, path: str, parts: Iterator[bytes], size: int) -> None:
        directory = path.rpartition("/")[0]
        above = self._directory(directory)
        if above is None:
            self.make_directory(directory)
            above = _call(self.client.get_file_info, directory)
        # one block: a busy name node may refuse a second block for a moment, and the library does not retry
        block = max(-(-size // _CHECKSUM_BYTES) * _CHECKSUM_BYTES, _MIN_BLOCK)
        options = WriteOptions(block_size=block, permission=above.permission & 0o666)
        file = _call(self.client.create, path, options)
        try:
            for part in parts:
                _call(file.write, part)
            _call(file.close)
        except OSError:
            # a partly written file looks complete once it is closed
            with contextlib.suppress(OSError):
                self.delete(path)
            raise


class HdfsSource(RequestSource):
    """A file of HDFS. An open reader continues to read the file that it opened, even after a rename."""

    def __init__(
        self, files: Hdfs, path: str, name: str, length: int | None, version: Hashable | None
    ) -> None:
        self.path = name
        self._files = files
        self._path = path
        self._version = version
        self._opened: FileReader | None = None
        if length is not None:
            self._size = length
            return
        try:
            self._size = -1
            self._size = len(self._reader)
        except OSError as error:
            raise OrcError(f"cannot open the file: {error.strerror or error}", path=name) from error

    @property
    def _reader(self) -> FileReader:
        if self._opened is None:
            reader: FileReader = _call(self._files.client.read, self._path)
            if self._size not in (-1, len(reader)) or (
                self._version is not None and self._files.info(self._path).version != self._version
            ):
                raise OSError(errno.ESTALE, "the file was overwritten: run again when nothing writes to it")
            self._opened = reader
        return self._opened

    def identity(self) -> Hashable | None:
        return None if self._version is None else (self.path, self._version)

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes]:
        try:
            reader = self._reader
            if len(ranges) < 2:
                return [_call(reader.read_range, *item) for item in ranges]
            return request_all(lambda item: _call(reader.read_range, *item), ranges)
        except OSError as error:
            raise OrcError(
                f"cannot read {len(ranges)} ranges: {error.strerror or error}", path=self.path
            ) from error


def _info(status: FileStatus, path: str) -> FileInfo:
    changed = status.modification_time
    return FileInfo(
        path, status.length, changed * 1_000_000, (changed, status.length), is_directory=status.isdir
    )


def _call(function: Callable[..., T], *args: Any, **options: Any) -> T:  # noqa: ANN401
    """Call the library and convert its errors.

    Raises:
        OSError: for all errors of the library, with the name node's own message.
    """
    try:
        return request(function, *args, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, _message(error)) from error
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, _message(error)) from error
    except (OSError, RuntimeError) as error:
        if _KERBEROS.search(str(error)):
            raise PermissionError(errno.EACCES, f"{_message(error)}; {_TICKET}") from error
        answer = _ANSWER.search(str(error))
        raise OSError(_ERRNO.get(answer[1] if answer else "", errno.EIO), _message(error)) from error


def _message(error: BaseException) -> str:
    """Return the message of an error in one line, without a Java stack trace."""
    answer = _ANSWER.search(str(error)) or _KERBEROS.search(str(error)) or _OWN.search(str(error))
    text = answer[answer.lastindex or 0] if answer else one_line(error).partition("\tat ")[0]
    text = " ".join(text.replace("\\n", " ").replace('\\"', '"').split())
    return f"{text}: {_AUTHENTICATION}" if text == _CLOSED else text

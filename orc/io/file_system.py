"""File systems: the interface to list, read and write files, and the file system of a path or URI.

Object stores and HDFS are accessed through libraries, which are imported when they are needed.
"""

from __future__ import annotations

import errno
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow.fs

from hindex.errors import ArgumentError, ArgumentTypeError, TableError
from hindex.orc.io.source import ByteSource, LocalSource

#: The environment variable with the number of concurrent requests of a process.
REQUESTS_VARIABLE = "HINDEX_REQUESTS"
DEFAULT_REQUESTS, MAX_REQUESTS = 64, 1024

#: The seconds after which a request fails, including retries in the library: HDFS retries for three minutes.
REQUEST_SECONDS = 300
_THREADS = "hindex-request"

T = TypeVar("T")
Item = TypeVar("Item")

#: The schemes of Hadoop's file systems for S3.
_S3_SCHEMES = ("s3", "s3a", "s3n")
_OBJECT_SCHEMES = (*_S3_SCHEMES, "gs", "gcs", "abfs", "abfss", "az")
_HDFS_SCHEMES = ("hdfs", "viewfs")
#: The prefixes of variables with locations and credentials of object stores.
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_", "AZURITE_")


class MissingBucketError(FileNotFoundError):
    """The error for a bucket or container that does not exist."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file or directory.

    Args:
        path: relative to the listed directory, or the name of a single file.
        length: in bytes; 0 for a directory.
        mtime_ns: the modification time, in nanoseconds since 1970; 0 if the store has none.
        version: a value that changes when the file is written again; None if the store has none.
    """

    path: str
    length: int
    mtime_ns: int = 0
    version: Hashable | None = None
    is_directory: bool = False


class FileSystem(ABC):
    """A file system that can be listed and read. Its paths are those that `file_system` returns, and paths below.

    All methods except `open` raise `OSError`, whatever the underlying library raises.
    """

    @abstractmethod
    def info(self, path: str) -> FileInfo:
        """Return the file or directory at a path.

        Raises:
            FileNotFoundError: if there is none.
        """

    @abstractmethod
    def entries(self, path: str, *, recursive: bool = True) -> Iterator[FileInfo]:
        """Yield the files below a directory, and the directories if the store has directories.

        The content of directories that `is_walked` excludes may be left out.

        Raises:
            FileNotFoundError: if there is no such directory, on stores that have directories.
        """

    @abstractmethod
    def open(self, path: str, length: int | None = None, version: Hashable | None = None) -> ByteSource:
        """Open a file.

        Args:
            length: its length in bytes, if a listing or manifest has it: then the first read is the first request.
            version: the version of its `FileInfo`, if a listing has it: no other version is read.

        Raises:
            OrcError: if it cannot be opened.
        """


class WritableFileSystem(FileSystem, ABC):
    """A file system that can also be written.

    Attributes:
        returns_versions: True if `create` returns the version of the file as in listings.
    """

    returns_versions = False

    @abstractmethod
    def read(self, path: str, limit: int) -> bytes:
        """Read a file of at most ``limit`` bytes.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if the file is longer.
        """

    @abstractmethod
    def create(self, path: str, data: bytes) -> Hashable | None:
        """Create a file with its whole content, durably and atomically: only one of several writers succeeds.

        Returns:
            the version of the file if `returns_versions`.

        Raises:
            FileExistsError: if the file exists, or another writer is just creating it.
        """

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write a file durably, under a name that no other writer uses."""

    @abstractmethod
    def upload(self, path: str, local: str) -> None:
        """Upload a local file, durably, under a name that no other writer uses."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, on stores that have directories."""

    @abstractmethod
    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty, on stores that have directories.

        Raises:
            OSError: if it is not empty, or does not exist.
        """


def is_walked(name: str) -> bool:
    """Return False for the directories of index stores, which may be large, and of running writers."""
    return name == "_spark_metadata" or "=" in name or not name.startswith((".", "_"))


def file_system(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path within it.

    Raises:
        TableError: if the scheme is unknown, or the URI does not fit it.
        MissingRuntimeError: if a package is missing.
    """
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme in _OBJECT_SCHEMES:
        head, slash, path = rest.partition("/")
        path, _, options = _split_options(path) if slash else (path, "", "")
        if not slash:
            head, _, options = head.partition("?")
        if scheme in _S3_SCHEMES:
            scheme = "s3"
        environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES)))
        return _object_store(scheme, head, options, environment), path.rstrip("/")
    if scheme in _HDFS_SCHEMES:
        head, _, path = rest.partition("/")
        environment = tuple(
            sorted(item for item in os.environ.items() if item[0].startswith(("HADOOP_", "KRB5")))
        )
        return _hdfs(f"{scheme}://{head}", environment), f"/{path.rstrip('/')}"
    from hindex.orc.io.adapted import AdaptedFileSystem

    local = local_file_path(uri)
    if local is not None:
        return AdaptedFileSystem(pyarrow.fs.LocalFileSystem()), local
    return AdaptedFileSystem.from_uri(uri)


def _split_options(path: str) -> tuple[str, str, str]:
    """Split a path into the path, the separator before the options, and the options."""
    return path.partition("?") if "=" in path.rpartition("?")[2] else (path, "", "")


# cached: a client keeps its connections
@lru_cache(maxsize=32)
def _object_store(
    scheme: str, head: str, options: str, environment: tuple[tuple[str, str], ...]
) -> FileSystem:
    from hindex.orc.io.object_store import ObjectStore

    return ObjectStore(scheme, head, options)


@lru_cache(maxsize=32)
def _hdfs(root: str, environment: tuple[tuple[str, str], ...]) -> FileSystem:
    from hindex.orc.io.hdfs import Hdfs

    return Hdfs(root)


@lru_cache(maxsize=1)
def request_limit() -> int:
    """Return the most concurrent requests of this process.

    Raises:
        ArgumentError: if the environment variable is not such a number.
    """
    text = os.environ.get(REQUESTS_VARIABLE, "") or str(DEFAULT_REQUESTS)
    limit = int(text) if text.isdecimal() else 0
    if not 1 <= limit <= MAX_REQUESTS:
        raise ArgumentError(
            f"{REQUESTS_VARIABLE} is {text!r}: set it to a number of requests from 1 to {MAX_REQUESTS}"
        )
    return limit


@lru_cache(maxsize=1)
def _request_pool() -> ThreadPoolExecutor:
    """Return the threads that wait for requests. Work in these threads must not submit to this pool."""
    return ThreadPoolExecutor(request_limit(), _THREADS)


# the process that made the first request
_owner: int | None = None


def request(
    function: Callable[..., T], *args: object, seconds: float | None = REQUEST_SECONDS, **options: object
) -> T:
    """Call a library in one of the request threads, so that the caller can be interrupted meanwhile.

    Args:
        seconds: the time limit; None for no limit.

    Raises:
        TimeoutError: after that time.
        OSError: in a process that was forked after the first request, which would wait forever: it does not have
            the libraries' threads, and cannot create their pools again.
    """
    global _owner  # noqa: PLW0603
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise OSError(
            errno.EIO,
            "remote files were used before this process was forked, and cannot be used in it: start processes by "
            "multiprocessing's 'spawn' or 'forkserver'",
        )
    if threading.current_thread().name.startswith(_THREADS):
        return function(*args, **options)
    answer = _request_pool().submit(function, *args, **options)
    try:
        return answer.result(seconds)
    except FutureTimeoutError as error:
        if answer.done():
            raise  # the library's own error
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {seconds} seconds") from error


def request_all(function: Callable[[Item], T], items: Collection[Item]) -> list[T]:
    """Call a function for each item in the request threads, and return the results in the items' order.

    The function may call `request`, but not `request_all`.

    Raises:
        TimeoutError: after `REQUEST_SECONDS` for each round of as many items as there are threads.
    """
    rounds = 1 + len(items) // request_limit()
    try:
        return list(_request_pool().map(function, items, timeout=rounds * REQUEST_SECONDS))
    except FutureTimeoutError as error:
        if error.errno is not None:
            raise  # the library's own error
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {rounds * REQUEST_SECONDS} seconds") from error


# a forked process does not have its parent's threads
os.register_at_fork(after_in_child=_request_pool.cache_clear)


#: The location of an ORC file: a local path, a URI, or a pair of a pyarrow or fsspec file system and a path in it.
Location = str | os.PathLike[str] | tuple[Any, str]


def open_source(
    location: Location,
    *,
    length: int | None = None,
    version: Hashable | None = None,
    detects_changes: bool = True,
) -> ByteSource:
    """Open a local path, a URI, or a ``(file system, path)`` pair.

    Args:
        length: the file's length in bytes, if a listing has it: it saves a request. It is ignored for local files.
        version: the only version to read, if a listing has it; another one is an error with number ``ESTALE``.
        detects_changes: see `LocalSource`.

    Raises:
        OrcError: if there is no such file.
        TableError: if the scheme is unknown.
        MissingRuntimeError: if a package is missing.
        ArgumentTypeError: for any other location.
    """
    argument: object = location
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[1], str):
        from hindex.orc.io.adapted import AdaptedFileSystem

        filesystem, path = argument
        local = AdaptedFileSystem.local_path(filesystem, path)
        if local is not None:
            return LocalSource(local, detects_changes=detects_changes)
        return AdaptedFileSystem(filesystem).open(path)
    if isinstance(argument, tuple) or not isinstance(location, str | os.PathLike):
        raise ArgumentTypeError(
            "an ORC file is read from a path, a URI, or a pair of a file system and a path, "
            f"not from {argument!r}"
        )
    uri = os.fspath(location)
    local = local_file_path(uri)
    if local is not None:
        return LocalSource(local, detects_changes=detects_changes)
    filesystem, path = file_system(uri)
    return filesystem.open(path, length, version)


def local_file_path(uri: str) -> str | None:
    """Return the absolute path of a local path or ``file:`` URI; None for other URIs."""
    scheme = urlsplit(uri).scheme
    if len(scheme) <= 1:
        return os.fspath(Path(uri).absolute())
    if scheme != "file":
        return None
    path = uri.partition(":")[2]
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return unquote(path)


def arrow_file_system(uri: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return pyarrow's file system of a path or URI, for files that pyarrow reads itself."""
    local = local_file_path(uri)
    if local is not None:
        return pyarrow.fs.LocalFileSystem(), local
    try:
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise TableError(f"{uri!r} cannot be opened by pyarrow: {error}") from error
    return filesystem, path

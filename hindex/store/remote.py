"""Stores on object stores and other file systems of fsspec."""

from __future__ import annotations

import contextlib
import datetime
import errno
import inspect
import threading
import time
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hindex.errors import MissingRuntimeError, StoreError
from hindex.store.storage import TEMPORARY_PREFIX, StoredFile, another_store, reason

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: fsspec's names of file systems whose exclusive creation is one step of the server (or, in memory, of this module).
EXCLUSIVE = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az", "memory"})

#: The package that fsspec needs for a scheme.
_PACKAGES = {
    "s3": "s3fs>=2025.12",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
}
#: Schemes whose file systems work without remembered listings; Azure's looks into them. There, a listing that another
#: thread of the process began before a commit may be taken for one after it: docs/store.md.
_UNCACHED = frozenset({"s3", "gs", "gcs"})
#: Requests of one call that are under way at once.
_REQUESTS = 16
_TIMES = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")
_TAKEN = {"PreconditionFailed", "412"}
#: Another writer is at it in this very moment: neither has won yet.
_UNDER_WAY = {"ConditionalRequestConflict", "OperationAborted", "409"}

# in memory, looking for a name and taking it are two steps
_memory = threading.Lock()
# roots' first parts where creating twice was seen to fail
_proven: set[str] = set()


class RemoteStorage:
    """All files below a prefix of an object store, or a directory of some other file system of fsspec.

    Args:
        root: its URI, normalised and without options.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._opened: tuple[AbstractFileSystem, str] | None = None

    def locate(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def names(self, directory: str) -> list[str]:
        return [place.rpartition("/")[2] for place, kind in self._list(directory) if kind != "directory"]

    def directories(self) -> list[str]:
        return [place.rstrip("/").rpartition("/")[2] for place, kind in self._list("") if kind == "directory"]

    def files(self, directory: str) -> Iterator[StoredFile]:
        infos: dict[str, dict[str, Any]] = {}
        top = self._path(directory)
        with _raise_os_error(), contextlib.suppress(FileNotFoundError):
            self._filesystem.invalidate_cache()
            infos = self._filesystem.find(top, detail=True)
        for object_path, info in infos.items():
            name = object_path[len(top) :].strip("/")
            # an empty object that stands for a directory ends in a slash
            if name and not object_path.endswith("/"):
                yield StoredFile(f"{directory}/{name}", int(info["size"] or 0), _mtime_ns(info))

    def version(self, path: str) -> Hashable:
        with _raise_os_error():
            self._filesystem.invalidate_cache()
            info = self._filesystem.info(self._path(path))
        return str(info.get("ETag") or info.get("etag")), _mtime_ns(info), info["size"]

    def read(self, path: str, limit: int) -> bytes:
        object_path = self._path(path)
        try:
            with _raise_os_error():
                # one byte more shows that the file is longer, without reading all of it
                data: bytes = self._filesystem.cat_file(object_path, start=0, end=limit + 1)
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            # S3 has no range of an object without bytes
            if not self._is_empty(object_path):
                raise
            data = b""
        if len(data) > limit:
            raise ValueError(f"it has more than the {limit} bytes that are supported")
        return data

    def check_access(self, path: str) -> None:
        """Do nothing: it would take a request for each file."""

    def read_all(self, paths: Sequence[str], limit: int) -> list[bytes]:
        if len(paths) < 2:
            return [self.read(path, limit) for path in paths]
        with ThreadPoolExecutor(min(_REQUESTS, len(paths))) as pool:
            return list(pool.map(lambda path: self.read(path, limit), paths))

    def create(self, path: str, data: bytes, *, is_first: bool = True) -> bool:
        self._prove_exclusive()
        try:
            self._create(path, data)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return False
            return self._is_own_file(path, data, error)
        return True

    def write(self, files: Mapping[str, bytes]) -> None:
        def put(item: tuple[str, bytes]) -> None:
            with _raise_os_error():
                self._filesystem.pipe_file(self._path(item[0]), item[1])

        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(put, files.items()))

    def upload(self, path: str, local: str) -> None:
        """Write a file from a local one, under a name that no other writer uses."""
        with _raise_os_error():
            self._filesystem.put_file(local, self._path(path))

    def delete(self, path: str) -> None:
        with _raise_os_error(), contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(self._path(path))

    def prepare(self, directory: str) -> None:
        self._prove_exclusive()

    def commit_lock(self, directory: str) -> contextlib.AbstractContextManager[None]:
        """Do not wait: writers of an object store cannot see each other."""
        return contextlib.nullcontext()

    def tidy(self, directory: str) -> None:
        """Do nothing: an object store has no empty directories."""

    @property
    def _filesystem(self) -> AbstractFileSystem:
        return self._open()[0]

    def _path(self, path: str) -> str:
        base = self._open()[1].rstrip("/")
        return f"{base}/{path}" if path else base

    def _open(self) -> tuple[AbstractFileSystem, str]:
        if self._opened is None:
            scheme = self.root.partition(":")[0]
            try:
                from fsspec.core import url_to_fs

                # all threads share one file system, and a listing that one of them began before another's commit
                # would be remembered after it
                options = {"use_listings_cache": False} if scheme in _UNCACHED else {}
                filesystem, path = url_to_fs(self.root, **options)
            except ImportError as error:
                needed = _PACKAGES.get(scheme, "fsspec")
                raise MissingRuntimeError(
                    f"the store {self.root!r} needs a package that is missing ({reason(error)}); pip install {needed!r}"
                ) from error
            except (OSError, ValueError) as error:
                raise StoreError(
                    f"cannot open the store {self.root!r}: {reason(error)}; check the URI, or "
                    f"{another_store('a local directory')}"
                ) from error
            self._opened = filesystem, path
        return self._opened

    def _is_empty(self, object_path: str) -> bool:
        with contextlib.suppress(OSError), _raise_os_error():
            return bool(self._filesystem.info(object_path)["size"] == 0)
        return False

    def _list(self, directory: str) -> list[tuple[str, str]]:
        with _raise_os_error(), contextlib.suppress(FileNotFoundError):
            self._filesystem.invalidate_cache()
            infos = self._filesystem.ls(self._path(directory), detail=True)
            return [(str(info["name"]), str(info["type"])) for info in infos]
        return []

    def _create(self, path: str, data: bytes) -> None:
        """Create a file.

        Raises:
            FileExistsError: if there is one.
            OSError: with ``EAGAIN`` if another writer is creating it just now; if it cannot be written.
        """
        object_path, filesystem = self._path(path), self._filesystem
        try:
            with _raise_os_error(), _memory if "memory" in _names(filesystem) else contextlib.nullcontext():
                filesystem.pipe_file(object_path, data, mode="create")
        except OSError as error:
            code = _code(error)
            if code in _TAKEN:
                raise FileExistsError(errno.EEXIST, "it exists already", object_path) from error
            if code in _UNDER_WAY:
                raise OSError(errno.EAGAIN, "another writer is creating it", object_path) from error
            raise

    def _is_own_file(self, path: str, data: bytes, error: OSError) -> bool:
        """Return True if a file exists because our own request to create it succeeded, and only its answer was lost."""
        try:
            stored = self.read(path, len(data))
        except FileNotFoundError:
            if isinstance(error, FileExistsError):
                return False  # there was one, and it is deleted already
            raise error from None
        except ValueError:
            return False
        except OSError as unreadable:
            if isinstance(error, PermissionError):
                raise error from None
            raise StoreError(
                f"the outcome of writing {self.locate(path)!r} is unknown: {reason(error)}, and reading it fails too "
                f"({reason(unreadable)}). Run SHOW INDEXES when the store is reachable again"
            ) from error
        return stored == data

    def _prove_exclusive(self) -> None:
        """Make sure that a file cannot be created twice here: commits rely on it.

        Raises:
            StoreError: if it can.
        """
        names = _names(self._filesystem)
        first_part = self._path("").strip("/").partition("/")[0]
        key = f"{names[0]}://{first_part}"
        if key in _proven:
            return
        is_listed = bool(EXCLUSIVE.intersection(names))
        probe = f"manifests/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        if is_listed and _takes_mode(self._filesystem):
            self._create(probe, b"first")
            try:
                self._create(probe, b"second")
            except FileExistsError:
                _proven.add(key)
                return
            finally:
                with contextlib.suppress(OSError):
                    self.delete(probe)
        raise StoreError(
            f"cannot commit to the store {self.root!r}: the file system {names[0]!r} cannot create a file only if it "
            "is absent, so that two writers could undo each other's work; use S3, Google Cloud Storage or Azure with "
            f"a current fsspec, or {another_store('a local directory')}"
        )


def _names(filesystem: AbstractFileSystem) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _takes_mode(filesystem: AbstractFileSystem) -> bool:
    """Return True if a file system creates files exclusively, in one request."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    filesystem_class = type(filesystem)
    if isinstance(filesystem, AsyncFileSystem):
        return "mode" in inspect.signature(filesystem_class._pipe_file).parameters
    is_own = filesystem_class.pipe_file is not AbstractFileSystem.pipe_file
    return is_own and "mode" in inspect.signature(filesystem_class.pipe_file).parameters


def _mtime_ns(info: Mapping[str, Any]) -> int:
    """Return the modification time of a file; the present time if the store has none, so that no file counts as old."""
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, datetime.datetime):
            return int(value.timestamp() * 1_000_000) * 1000
        if isinstance(value, int | float):
            return int(value * 1_000_000_000)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                return int(datetime.datetime.fromisoformat(value).timestamp() * 1_000_000) * 1000
    return time.time_ns()


def _code(error: OSError) -> str:
    """Return the code of an object store's own error, or an empty string."""
    response = getattr(error.__cause__, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


@contextlib.contextmanager
def _raise_os_error() -> Iterator[None]:
    """Errors of the library below, of whatever family, as `OSError`."""
    try:
        yield
    except (OSError, StoreError, MissingRuntimeError):
        raise
    except Exception as error:  # each library has a family of its own
        raise OSError(errno.EIO, reason(error)) from error

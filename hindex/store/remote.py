"""Stores on object stores and HDFS."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial

from hindex.errors import StoreError, TableError
from hindex.lru_cache import cached_property
from hindex.orc.io.file_system import FileInfo, WritableFileSystem, file_system, request_all
from hindex.orc.io.source import one_line
from hindex.orc.io.thread_pool import ThreadPool
from hindex.store.storage import TEMPORARY_PREFIX, LatestFile, StoredFile, another_store

#: The name of a copy of the latest file of a directory, and the most bytes of such a file.
_HINT = "latest.hint"
_MAX_HINT_BYTES = 1 << 20

# the buckets and name nodes that refused to create a file twice
_proven: set[str] = set()


class RemoteStorage:
    """A directory of HDFS, or all files below a prefix of an object store.

    Args:
        root: its URI, normalised and without options.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def locate(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def names(self, directory: str) -> dict[str, Hashable | None]:
        return {info.path: info.version for info in self._listed(directory) if not info.is_directory}

    def names_and_latest(self, directory: str) -> tuple[dict[str, Hashable | None], LatestFile | None]:
        if not self._files.returns_versions:
            return self.names(directory), None
        with ThreadPool(1) as pool:
            reading = pool.submit(self._read_hint, directory)
            names = self.names(directory)
            version, latest = reading.result()
        # a hint with another version is of another file of that name
        return names, None if version is None or names.get(latest.name) != version else latest

    def directories(self) -> list[str]:
        return [info.path for info in self._listed("") if info.is_directory]

    def files(self, directory: str) -> Iterator[StoredFile]:
        for info in self._listed(directory, recursive=True):
            if not info.is_directory:
                yield StoredFile(f"{directory}/{info.path}", info.length, info.mtime_ns)

    def version(self, path: str) -> Hashable:
        info = self._files.info(self._path(path))
        return (info.mtime_ns, info.length) if info.version is None else info.version

    def read(self, path: str, limit: int) -> bytes:
        return self._files.read(self._path(path), limit)

    def check_access(self, path: str) -> None:
        """Do nothing: it would take a request for each file."""

    def read_all(self, paths: Sequence[str], limit: int) -> list[bytes]:
        if len(paths) < 2:
            return [self.read(path, limit) for path in paths]
        return request_all(partial(self.read, limit=limit), paths)

    def create(self, path: str, data: bytes, *, is_first: bool = True) -> bool:
        if is_first:
            self._files.make_directory(self._path(path.rpartition("/")[0]))
        self._prove_exclusive()
        try:
            version = self._files.create(self._path(path), data)
        except OSError as error:
            return self._is_own_file(path, data, error)
        if isinstance(version, str) and len(data) <= _MAX_HINT_BYTES:
            self._write_hint(path, version, data)
        return True

    def _write_hint(self, path: str, version: str, data: bytes) -> None:
        """Write a copy of a file under a fixed name. A slower writer may replace it by a copy of an older file."""
        directory, _, name = path.rpartition("/")
        # without a hint, readers make one more request
        with contextlib.suppress(OSError):
            self._files.write(self._path(f"{directory}/{_HINT}"), f"{name}\n{version}\n".encode() + data)

    def _read_hint(self, directory: str) -> tuple[str | None, LatestFile]:
        """Return the version of the latest file and that file, according to the hint; None if there is no hint."""
        try:
            hint = self.read(f"{directory}/{_HINT}", 2 * _MAX_HINT_BYTES)
            name, version, data = hint.split(b"\n", 2)
            return version.decode(), LatestFile(name.decode(), data)
        except (OSError, ValueError):
            return None, LatestFile("", b"")

    def write(self, files: Mapping[str, bytes]) -> None:
        for directory in {path.rpartition("/")[0] for path in files}:
            self._files.make_directory(self._path(directory))
        request_all(lambda item: self._files.write(self._path(item[0]), item[1]), files.items())

    def upload(self, path: str, local: str) -> None:
        """Upload a local file, under a name that no other writer uses."""
        self._files.upload(self._path(path), local)

    def delete(self, path: str) -> None:
        self._files.delete(self._path(path))

    def prepare(self, directory: str) -> None:
        self._files.make_directory(self._path(directory))
        self._prove_exclusive()

    def commit_lock(self, directory: str) -> contextlib.AbstractContextManager[None]:
        """Do not wait: writers cannot see each other."""
        return contextlib.nullcontext()

    def tidy(self, directory: str) -> None:
        # a directory that is not empty stays
        with contextlib.suppress(OSError):
            while True:
                self._files.remove_directory(self._path(directory))
                if not directory:
                    break
                directory = directory.rpartition("/")[0]

    @cached_property
    def _opened(self) -> tuple[WritableFileSystem, str]:
        try:
            files, path = file_system(self.root)
        except TableError as error:
            raise StoreError(
                f"cannot open the store {self.root!r}: {error}; check the URI, or {another_store('a local directory')}"
            ) from error
        if not isinstance(files, WritableFileSystem):
            raise StoreError(
                f"the store {self.root!r} cannot be there: nothing creates a file only if it is absent, so that two "
                "writers could undo each other's work; use S3, Google Cloud Storage, Azure or HDFS, or "
                f"{another_store('a local directory')}"
            )
        return files, path

    @property
    def _files(self) -> WritableFileSystem:
        return self._opened[0]

    def _path(self, path: str) -> str:
        return "/".join(part for part in (self._opened[1], path) if part)

    def _listed(self, directory: str, *, recursive: bool = False) -> Iterator[FileInfo]:
        """Yield the entries of a directory; nothing if there is no such directory."""
        with contextlib.suppress(FileNotFoundError):
            yield from self._files.entries(self._path(directory), recursive=recursive)

    def _is_own_file(self, path: str, data: bytes, error: OSError) -> bool:
        """Return True if a file exists because our own request created it, and only the response was lost."""
        try:
            stored = self.read(path, len(data))
        except FileNotFoundError:
            if isinstance(error, FileExistsError):
                return False  # it is already deleted, or not yet written
            raise error from None
        except ValueError:
            return False
        except OSError as unreadable:
            if isinstance(error, PermissionError):
                raise error from None
            raise StoreError(
                f"the outcome of writing {self.locate(path)!r} is unknown: {one_line(error)}, and reading it fails too "
                f"({one_line(unreadable)}). Run SHOW INDEXES when the store is reachable again"
            ) from error
        return stored == data

    def _prove_exclusive(self) -> None:
        """Check that a file cannot be created twice here: commits rely on that, and some servers do not ensure it.

        Raises:
            StoreError: if it can.
        """
        place = "/".join(self.root.split("/", 3)[:3])
        if place in _proven:
            return
        probe = self._path(f"manifests/{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        self._files.make_directory(probe.rpartition("/")[0])
        try:
            # the name is new: it exists only if a response was lost and the library repeated the request
            self._files.create(probe, b"first")
            self._files.create(probe, b"second")
        except FileExistsError:
            _proven.add(place)
            return
        finally:
            with contextlib.suppress(OSError):
                self._files.delete(probe)
        raise StoreError(
            f"cannot commit to the store {self.root!r}: its server creates a file although there is one, so that two "
            "writers could undo each other's work; use one with conditional writes (If-None-Match), or "
            f"{another_store('a local directory')}"
        )

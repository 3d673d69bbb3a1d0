"""The store: the directory that holds a table's manifests and index files.

Manifests are immutable and numbered; a commit creates the next number if it is absent, so that of two racing
writers one sees that it lost, rebases and tries again. Readers take the highest number and never wait.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hindex.errors import CommitConflictError, NewerFormatError, StoreError
from hindex.store.files import TEMPORARY_PREFIX, create_if_absent, make_directories, read_whole
from hindex.store.format import MAX_BYTES, corrupt, decode, encode
from hindex.store.manifest import Manifest, is_safe_path
from hindex.table.listing import is_local, local_path, normalize_uri

#: The directory within a table; Spark and Hive skip names that begin with an underscore.
STORE_NAME = "_hindex"

#: Tries of one commit; each lost race waits a little longer, up to :data:`_MAX_WAIT_S`.
COMMIT_ATTEMPTS = 100

_MAX_WAIT_S = 0.2
_LOAD_ATTEMPTS = 20
_MANIFESTS = "manifests"
_DATA = "data"
_MANIFEST_NAME = re.compile(r"([0-9]{20})\.manifest", re.ASCII)
_INDEX_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class GarbageFile:
    """A file of the store that no manifest needs.

    :param path: relative to the store's directory.
    :param length: bytes.
    :param mtime_ns: modification time; a young file may belong to a build that has not committed yet.
    """

    path: str
    length: int
    mtime_ns: int


class Store:
    """The index store of one table. Cheap to make: nothing is read or created before it is needed.

    :param root: local directory that holds ``manifests/`` and ``data/``.
    :param table_uri: the table's normalised URI.
    """

    def __init__(self, root: str, table_uri: str) -> None:
        self.root = root
        self.table_uri = table_uri
        self._safe: set[str] = set()
        self._cached: tuple[tuple[str, int, int, int], Manifest] | None = None

    def __repr__(self) -> str:
        return f"Store(root={self.root!r}, table_uri={self.table_uri!r})"

    @classmethod
    def for_table(cls, table_uri: str, store: str | None = None) -> Store:
        """The store of a table: ``_hindex`` within (or beside) it, or a place of its own within ``store``.

        :param table_uri: any spelling of the table's place.
        :raises StoreError: if the store would not be on a local file system.
        """
        uri = normalize_uri(table_uri)
        if store is not None:
            return cls(f"{_shared_root(store)}/{shared_name(uri)}", uri)
        if not is_local(uri):
            raise StoreError(
                f"the indexes of {uri!r} cannot be stored beside it: only local stores are supported; "
                "pass store=<local directory>"
            )
        if os.path.isfile(uri):  # noqa: PTH113 pathlib raises where a name is too long or may not be looked at
            directory, _, name = uri.rpartition("/")
            return cls(f"{directory}/{STORE_NAME}/files/{name}", uri)
        return cls(f"{uri.rstrip('/')}/{STORE_NAME}", uri)

    def load(self) -> Manifest | None:
        """The latest manifest, or None where nothing was ever committed.

        :raises StoreError: if it cannot be read or is corrupt.
        :raises NewerFormatError: if a newer version of hindex wrote it.
        """
        manifest = self._load_as_written()
        # a table that was moved keeps its indexes: all other names in the manifest are relative
        return None if manifest is None else replace(manifest, table_uri=self.table_uri)

    def _load_as_written(self) -> Manifest | None:
        directory = Path(self.root, _MANIFESTS)
        for _ in range(_LOAD_ATTEMPTS):
            number = self._latest_number()
            if number == 0:
                return None
            path = directory / _manifest_name(number)
            try:
                status = path.stat()
                # a manifest never changes, so one that was decoded serves until there is a later one
                identity = (str(path), status.st_ino, status.st_mtime_ns, status.st_size)
                if self._cached is not None and self._cached[0] == identity:
                    return self._cached[1]
                data = read_whole(path, MAX_BYTES + 64)
            except FileNotFoundError:
                # cleaned up since it was listed: a later one exists
                continue
            except OSError as error:
                raise StoreError(
                    f"cannot read manifest {str(path)!r}: {error.strerror}; check its access"
                ) from error
            except ValueError as error:
                raise corrupt(str(path), str(error)) from error
            manifest = decode(data, str(path))
            if manifest.number != number:
                raise corrupt(str(path), f"it is number {manifest.number} under another name")
            self._cached = (identity, manifest)
            return manifest
        raise StoreError(
            f"manifests vanish from {str(directory)!r} as they are listed; stop what deletes them"
        )

    def commit(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Apply a change to the latest manifest and make the result the latest.

        ``change`` is called again, on the newer manifest, whenever another writer was faster; what it raises
        ends the commit. A change that changes nothing writes nothing.

        :returns: the manifest as committed, or the latest as it is.
        :raises CommitConflictError: if other writers were faster every time.
        :raises StoreError: if the store cannot be read or written; the old state is intact.
        """
        directory = Path(self.root, _MANIFESTS)
        for attempt in range(COMMIT_ATTEMPTS):
            old = self.load() or Manifest.empty(self.table_uri)
            new = change(old)
            if new.same_content(old):
                return old
            new = replace(
                new, number=old.number + 1, table_uri=self.table_uri, created_ms=time.time_ns() // 1_000_000
            )
            data = encode(new)
            try:
                make_directories(directory)
                if create_if_absent(directory, _manifest_name(new.number), data):
                    return new
            except OSError as error:
                raise StoreError(
                    f"cannot write to the store {self.root!r}: {error.strerror}; nothing was changed. Make "
                    "room or grant access there, or pass store=<another directory>"
                ) from error
            time.sleep(random.uniform(0, min(_MAX_WAIT_S, 0.002 * 2 ** min(attempt, 10))))  # noqa: S311 no secret
        raise CommitConflictError(
            f"other writers committed to {self.root!r} {COMMIT_ATTEMPTS} times in a row first; nothing was "
            "changed. Try again when fewer writers are active"
        )

    def index_directory(self, index_id: str) -> str:
        """The directory of an index's files, relative to the store; it is not made."""
        _check_index_id(index_id)
        return f"{_DATA}/{index_id}"

    def absolute(self, path: str) -> str:
        """The local path of a file of the store.

        :raises StoreError: if the name would leave the store.
        """
        if not is_safe_path(path):
            raise StoreError(
                f"file {path!r} is not within the store {self.root!r}; drop the index that names it"
            )
        found = f"{self.root}/{path}"
        directory = found.rpartition("/")[0]
        # a table has many index files in few directories, and resolving a path asks the system at every step
        if directory in self._safe and not os.path.islink(found):  # noqa: PTH114 pathlib takes ten times as long
            return found
        if not Path(found).resolve().is_relative_to(Path(self.root).resolve()):
            raise StoreError(f"{found!r} is a symbolic link that leaves the store; remove the link")
        if Path(directory).resolve().is_relative_to(Path(self.root).resolve()):
            self._safe.add(directory)
        return found

    def prepare_index_directory(self, index_id: str) -> str:
        """Create the directory of an index's files and return its absolute path.

        :raises StoreError: if it cannot be created.
        """
        _check_index_id(index_id)
        path = self.absolute(f"{_DATA}/{index_id}")
        try:
            make_directories(Path(path))
        except OSError as error:
            raise StoreError(
                f"cannot create {path!r}: {error.strerror}; make room or grant access there, or pass "
                "store=<another directory>"
            ) from error
        return path

    def garbage(self) -> tuple[GarbageFile, ...]:
        """The index files and leftovers that the latest manifest does not name, sorted by path.

        :raises StoreError: if the store cannot be read.
        """
        # files first: one that a commit makes live in between is then seen as live
        present = list(self._files())
        manifest = self.load()
        live = {file.path for entry in manifest.files for file in entry.index_files} if manifest else set()
        return tuple(sorted((item for item in present if item.path not in live), key=lambda item: item.path))

    def _files(self) -> Iterator[GarbageFile]:
        """Every file below ``data/``, and temporary files beside the manifests."""
        for directory in (_MANIFESTS, _DATA):
            for place, _, names in os.walk(Path(self.root, directory), onerror=self._listing_failed):
                for name in names:
                    if directory == _MANIFESTS and not name.startswith(TEMPORARY_PREFIX):
                        continue
                    path = Path(place, name)
                    try:
                        status = path.lstat()
                    except FileNotFoundError:
                        continue
                    relative = path.relative_to(self.root).as_posix()
                    yield GarbageFile(relative, status.st_size, status.st_mtime_ns)

    def _listing_failed(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise StoreError(
                f"cannot list {error.filename!r}: {error.strerror}; check its permissions"
            ) from error

    def _latest_number(self) -> int:
        directory = Path(self.root, _MANIFESTS)
        latest = 0
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    found = _MANIFEST_NAME.fullmatch(entry.name)
                    if found is not None:
                        latest = max(latest, int(found[1]))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            raise StoreError(
                f"cannot list {str(directory)!r}: {error.strerror}; check its permissions"
            ) from error
        return latest


def shared_name(table_uri: str) -> str:
    """The directory name of a table within a shared store: readable, and distinct for distinct tables."""
    name = _PLAIN.sub("_", table_uri.rpartition("/")[2])[:64].strip("._") or "table"
    return f"{name}-{hashlib.sha256(table_uri.encode()).hexdigest()[:16]}"


def list_stores(store: str) -> tuple[Store, ...]:
    """The stores of all tables in a shared store directory, sorted by table URI.

    Directories without a readable manifest are left out.

    :raises StoreError: if the directory cannot be listed.
    """
    root = _shared_root(store)
    try:
        names = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreError(f"cannot list the store {root!r}: {error.strerror}") from error
    found: list[Store] = []
    for name in names:
        place = f"{root}/{name}"
        try:
            manifest = Store(place, "")._load_as_written()
        except (StoreError, NewerFormatError):
            continue
        if manifest is not None and shared_name(manifest.table_uri) == name:
            found.append(Store(place, manifest.table_uri))
    return tuple(sorted(found, key=lambda item: item.table_uri))


def _shared_root(store: str) -> str:
    if not is_local(store):
        raise StoreError(
            f"the store {store!r} is not on a local file system, and no other is supported yet; "
            "pass store=<local directory>"
        )
    return local_path(store)


def _check_index_id(index_id: str) -> None:
    if not _INDEX_ID.fullmatch(index_id):
        raise ValueError(f"{index_id!r} is not the id of an index")


def _manifest_name(number: int) -> str:
    return f"{number:020d}.manifest"

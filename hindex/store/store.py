"""The store: the directory of a table's manifests and index files.

Manifests are immutable and numbered. A commit creates the next number if it is absent: of two racing writers, one
loses, rebases and tries again. Readers use the highest number and never wait.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

import google_crc32c

from hindex.errors import CommitConflictError, HindexError, NewerFormatError, StoreError
from hindex.lru_cache import LruCache
from hindex.orc.io.source import one_line
from hindex.store.build_files import (
    BUILDS,
    MAX_NOTICE_BYTES,
    Builder,
    BuildMarker,
    notice_name,
    parse_notice_name,
)
from hindex.store.entries import Segment
from hindex.store.manifest import IndexEntry, Manifest, is_safe_path
from hindex.store.manifest_file import MAX_BYTES, corrupt, decode, encode, unsaved_segments
from hindex.store.segment import MAX_SEGMENT_BYTES, MetadataCopy, StoredSegment
from hindex.store.storage import (
    STORE_NAME,
    TEMPORARY_PREFIX,
    LatestFile,
    another_store,
    is_missing,
    open_storage,
    write_remedy,
)
from hindex.table.directory_tree import is_hidden
from hindex.table.location import is_local, join_uri, normalize_uri
from hindex.value_class import value_class

#: The directory of copies of the data files' metadata.
METADATA = "metadata"

#: The default retention of VACUUM, longer than a build takes.
RETAIN_HOURS = 168.0

#: The most attempts of a commit. After a lost race, a writer waits up to the duration of the attempt, doubled with
#: each of the first attempts.
COMMIT_ATTEMPTS = 100

_MAX_DOUBLINGS = 5
_MAX_WAIT_S = 5.0
_LOAD_ATTEMPTS = 20
_MANIFESTS = "manifests"
_DATA = "data"
_SEGMENTS = "segments"
_MANIFEST_NAME = re.compile(r"([0-9]{20})\.manifest", re.ASCII)
_INDEX_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")

#: The most data files of all cached manifests: about a kilobyte each.
_MAX_CACHED_FILES = 1 << 18
#: The most cached manifests, however small they are.
_MAX_CACHED_MANIFESTS = 256
#: The last decoded manifest of each store of the process, with its identity, weighted by its data files. A
#: manifest never changes.
RECENT: LruCache[str, tuple[Hashable, Manifest]] = LruCache(_MAX_CACHED_FILES, _MAX_CACHED_MANIFESTS)


class GarbageKind(enum.Enum):
    """The reason why a file of the store is not needed; the value is the message."""

    INDEX_FILE = "index file that no retained manifest names"
    SEGMENT = "segment that no retained manifest names"
    METADATA = "copies of metadata that no retained manifest names"
    TEMPORARY = "left by a commit that was killed"
    MANIFEST = "superseded manifest"
    BUILD = "left by a build that was killed"
    TABLE_GONE = "the table is deleted"


@value_class
class GarbageFile:
    """A file of the store that is not needed.

    Args:
        path: relative to the store's directory.
        length: in bytes.
        mtime_ns: the time when the file became garbage: that of a superseded manifest's successor, or the file's
            own modification time. A recent file may belong to a build that has not committed yet.
    """

    path: str
    length: int
    mtime_ns: int
    kind: GarbageKind = GarbageKind.INDEX_FILE


class Store:
    """The index store of one table. Nothing is read or created before it is needed.

    Args:
        root: the local directory, or URI, with ``manifests/`` and ``data/``.
        table_uri: the table's normalised URI.
        named: the configured location of the stores of all tables, or None.
    """

    def __init__(self, root: str, table_uri: str, named: str | None = None) -> None:
        self.root = root
        self._configured_location = named
        self.table_uri = table_uri
        self._storage = open_storage(root)
        self._cached: tuple[Hashable, Manifest] | None = None
        # segments of the manifests in use: a manifest shares most of its segments with the manifest before it
        self._segments: WeakValueDictionary[StoredSegment, Segment] = WeakValueDictionary()
        self._latest_seen = 0

    def __reduce__(self) -> tuple[object, ...]:
        return Store, (self.root, self.table_uri, self._configured_location)

    def __repr__(self) -> str:
        return f"Store(root={self.root!r}, table_uri={self.table_uri!r})"

    @classmethod
    def for_table(cls, table_uri: str, store: str | None = None) -> Store:
        """Return the store of a table: ``_hindex`` within (or beside) it, or a directory within ``store``.

        Args:
            table_uri: the table's location in any spelling.
            store: a directory or URI in any spelling.

        Raises:
            StoreError: if a store is not supported at that URI.
        """
        uri = normalize_uri(table_uri)
        if store is not None:
            base = normalize_uri(store)
            return cls(join_uri(base, shared_name(uri)), uri, base)
        # for remote tables the name decides: a directory with such a name finds its store, too
        is_file = os.path.isfile(uri) if is_local(uri) else uri.endswith(".orc")  # noqa: PTH113 pathlib raises
        if is_file:
            directory, _, name = uri.rpartition("/")
            return cls(f"{directory}/{STORE_NAME}/files/{name}", uri)
        return cls(join_uri(uri, STORE_NAME), uri)

    def missing_root(self) -> str | None:
        """Return the configured location of all stores if it is local and missing, else None."""
        location = self._configured_location
        return location if location is not None and is_local(location) and is_missing(location) else None

    def check_hidden(self) -> None:
        """Refuse a store inside the table where readers would mistake its files for data.

        Raises:
            StoreError: for such a location.
        """
        within = self.root.removeprefix(f"{self.table_uri}/")
        if within != self.root and not any(map(is_hidden, within.split("/"))):
            raise StoreError(
                f"the store {self.root!r} is within the table {self.table_uri!r}, whose readers would take its files "
                f"for data; {another_store('a directory beside the table')}"
            )

    def load(self) -> Manifest | None:
        """Return the latest manifest, or None before the first commit.

        Raises:
            StoreError: if it cannot be read or is corrupt.
            NewerFormatError: if a newer version of hindex wrote it.
        """
        manifest = self._load_as_written()
        self._latest_seen = 0 if manifest is None else manifest.number
        # a table that was moved keeps its indexes: all other names in the manifest are relative
        return None if manifest is None else replace(manifest, table_uri=self.table_uri)

    def _load_as_written(self) -> Manifest | None:
        for _ in range(_LOAD_ATTEMPTS):
            versions, latest = self._list_manifests()
            number = max(versions, default=0)
            if number == 0:
                return None
            manifest = None
            if latest is not None and latest.name == _manifest_name(number):
                # if the copy is damaged, the manifest itself is read
                with contextlib.suppress(HindexError):
                    manifest = self._read(number, versions[number], latest.data)
            if manifest is None:
                # None: VACUUM deleted it after it was listed, so a later one exists
                manifest = self._read(number, versions[number])
            if manifest is not None:
                return manifest
        raise StoreError(
            f"manifests disappear from {self._message_path(_MANIFESTS)!r} while they are listed; stop "
            "the process that deletes them"
        )

    def _read(
        self, number: int, version: Hashable | None = None, data: bytes | None = None
    ) -> Manifest | None:
        """Read one manifest as written; None if there is none.

        Args:
            version: the version of its file, if a listing has it.
            data: its bytes, if they have already been read.
        """
        path = f"{_MANIFESTS}/{_manifest_name(number)}"
        name = self._message_path(path)
        try:
            # a manifest never changes, so a decoded one is used until there is a later one
            identity = (self.root, path, self._storage.version(path) if version is None else version)
            if self._cached is not None and self._cached[0] == identity:
                return self._cached[1]
            cached = RECENT.get(self.root)
            if cached is not None and cached[0] == identity:
                self._keep(identity, cached[1])
                return cached[1]
            if data is None:
                data = self._storage.read(path, MAX_BYTES + 64)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read manifest {name!r}: {one_line(error)}; check its access") from error
        except ValueError as error:
            raise corrupt(name, str(error)) from error
        manifest = decode(data, name, self._load_segments, self._segments)
        if manifest.number != number:
            raise corrupt(name, f"it is number {manifest.number} under another name")
        self._keep(identity, manifest)
        RECENT.put(self.root, (identity, manifest), len(manifest.files))
        return manifest

    def _keep(self, identity: Hashable, manifest: Manifest) -> None:
        if self._cached is None or self._cached[1].number <= manifest.number:
            self._cached = (identity, manifest)

    def commit(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Apply a change to the latest manifest, and commit the result as the latest.

        ``change`` is called again with the newer manifest whenever another writer was faster; its exceptions end
        the commit. Nothing is written if it changes nothing.

        Returns:
            the committed manifest, or the latest if nothing changed.

        Raises:
            CommitConflictError: if other writers were faster every time.
            StoreError: if the store cannot be read or written; the old state is intact, unless the message says
                otherwise.
        """
        with self._storage.commit_lock(_MANIFESTS):
            for attempt in range(COMMIT_ATTEMPTS):
                begin = time.monotonic()
                new = self._try_commit(change)
                if new is not None:
                    return new
                # a slow store needs longer waits, so that writers do not collide again
                longest = (time.monotonic() - begin) * 2 ** min(attempt, _MAX_DOUBLINGS)
                time.sleep(random.uniform(0, min(longest, _MAX_WAIT_S)))  # noqa: S311 no secret
        raise CommitConflictError(
            f"other writers committed to {self.root!r} {COMMIT_ATTEMPTS} times in a row first; nothing was "
            "changed. Try again when fewer writers are active"
        )

    def _try_commit(self, change: Callable[[Manifest], Manifest]) -> Manifest | None:
        """Try to commit once; None if another writer was faster."""
        seen = self._latest_seen
        old = self.load() or Manifest.empty(self.table_uri)
        if old.number < seen:
            latest = f"its latest is {old.number}" if old.number else "it has none"
            raise StoreError(
                f"the store {self.root!r} disappeared: its manifest {seen} existed before, and now {latest}; nothing "
                "was changed. Restore it, or run the statement again to start over"
            )
        new = change(old)
        if new.same_content(old):
            return old
        new = replace(
            new, number=old.number + 1, table_uri=self.table_uri, created_ms=time.time_ns() // 1_000_000
        )
        if not self._put(new, is_first=old.number == 0):
            return None
        self._latest_seen = new.number
        return new

    def _put(self, manifest: Manifest, *, is_first: bool) -> bool:
        """Write a manifest and its new segments; return False if another writer was faster."""
        path = f"{_MANIFESTS}/{_manifest_name(manifest.number)}"
        locations: dict[Segment, StoredSegment] = {}
        for segment in unsaved_segments(manifest):
            data = segment.data
            name = f"{_SEGMENTS}/{uuid.uuid4().hex}.segment"
            locations[segment] = StoredSegment(name, len(data), google_crc32c.value(data))
        encoded = encode(manifest, locations, uuid.uuid4().bytes)
        try:
            if locations:
                self._storage.write({stored.path: segment.data for segment, stored in locations.items()})
            is_done = self._storage.create(path, encoded, is_first=is_first)
        except OSError as error:
            self._discard(locations.values())
            raise StoreError(
                f"cannot write to the store {self.root!r}: {one_line(error)}; nothing was changed; "
                f"{write_remedy(error)}"
            ) from error
        if not is_done:
            self._discard(locations.values())
            return False
        for segment, stored in locations.items():
            segment.keep(stored, self._load_segments)
            self._segments[stored] = segment
        return True

    def _discard(self, segments: Iterable[StoredSegment]) -> None:
        """Delete the segments of a manifest that was not written; if that fails, they stay as garbage."""
        for stored in segments:
            with contextlib.suppress(OSError):
                self._storage.delete(stored.path)

    def _load_segments(self, segments: Sequence[StoredSegment]) -> list[bytes]:
        try:
            return self._storage.read_all([stored.path for stored in segments], MAX_SEGMENT_BYTES)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"cannot read a segment of a manifest in {self.root!r}: {one_line(error)}; check its access, and that "
                "no VACUUM INDEXES ran with a retention shorter than this statement"
            ) from error

    def index_directory(self, index_id: str) -> str:
        """Return the directory of an index's files, relative to the store; do not create it."""
        _check_index_id(index_id)
        return f"{_DATA}/{index_id}"

    def locate(self, copy: MetadataCopy) -> MetadataCopy:
        """Return a copy of metadata with an absolute path."""
        return replace(copy, path=self.absolute(copy.path))

    def absolute(self, path: str) -> str:
        """Return the local path, or URI, of a file of the store.

        Raises:
            StoreError: if the path is outside the store.
        """
        if not is_safe_path(path):
            raise StoreError(
                f"file {path!r} is not within the store {self.root!r}; drop the index that names it"
            )
        return self._storage.locate(path)

    def access_problem(self, path: str) -> str:
        """Return the reason why a file cannot be opened; "" if it can, or if checking takes a request."""
        try:
            self._storage.check_access(path)
        except OSError as error:
            return one_line(error)
        return ""

    def prepare_index_directory(self, index_id: str) -> str:
        """Create the directory of an index's files and return its absolute path, or URI.

        Raises:
            StoreError: if it cannot be created, or if the store does not support commits.
        """
        path = self.index_directory(index_id)
        try:
            directory = self.absolute(path)
            self._storage.prepare(path)
        except OSError as error:
            raise StoreError(
                f"cannot create {self._message_path(path)!r}: {one_line(error)}; {write_remedy(error)}"
            ) from error
        return directory

    @contextlib.contextmanager
    def register_build(self, entries: Sequence[IndexEntry]) -> Iterator[None]:
        """Announce a build of indexes to other processes while the context is active.

        Raises:
            StoreError: if nothing can be written to the store.
        """
        path = f"{BUILDS}/{notice_name(Builder.this())}"
        notice = Manifest(0, self.table_uri, time.time_ns() // 1_000_000, tuple(entries), ())
        try:
            self._storage.write({path: encode(notice)})
        except OSError as error:
            raise StoreError(
                f"cannot write to the store {self.root!r}: {one_line(error)}; nothing was changed; "
                f"{write_remedy(error)}"
            ) from error
        try:
            yield
        finally:
            # other processes detect that a remaining notice is over, or VACUUM deletes it
            with contextlib.suppress(OSError):
                self._storage.delete(path)
                self._storage.tidy(BUILDS)

    def builds(self) -> tuple[BuildMarker, ...]:
        """Return the running builds in the order of their start, as far as their notices can be read.

        Raises:
            StoreError: if the store cannot be listed.
        """
        try:
            names = self._storage.names(BUILDS)
        except OSError as error:
            raise self._cannot_list(BUILDS, error) from error
        notices = []
        for name in names:
            builder = parse_notice_name(name)
            if builder is None or builder.is_gone:
                continue
            try:
                data = self._storage.read(f"{BUILDS}/{name}", MAX_NOTICE_BYTES)
                notice = decode(data, self._message_path(f"{BUILDS}/{name}"))
            except (OSError, ValueError, StoreError, NewerFormatError):
                continue  # the build has ended, or another version wrote the notice: nothing relies on it
            notices.append(BuildMarker(builder, notice.created_ms, notice.indexes))
        return tuple(sorted(notices, key=lambda item: item.started_ms))

    def index_files(self) -> dict[str, int]:
        """Return the length in bytes of every file below ``data/``, by path relative to the store.

        Raises:
            StoreError: if the store cannot be read.
        """
        return {item.path: item.length for item in self._files(_DATA)}

    def garbage(self, kept_since_ns: int | None = None) -> tuple[GarbageFile, ...]:
        """List the files that are not needed, sorted by path: unnamed index files, and leftovers of commits.

        Args:
            kept_since_ns: manifests that were superseded at this time or later are live, too, so that their
                readers find the index files; older ones are garbage. None: only the latest is live.

        Raises:
            StoreError: if the store cannot be read.
        """
        # files first: a file that a commit makes live in the meantime is then live
        present = list(self._files(_DATA))
        present += [replace(item, kind=GarbageKind.SEGMENT) for item in self._files(_SEGMENTS)]
        present += [replace(item, kind=GarbageKind.METADATA) for item in self._files(METADATA)]
        present += [
            replace(item, kind=GarbageKind.BUILD) for item in self._files(BUILDS) if _is_abandoned(item)
        ]
        manifests = list(self._files(_MANIFESTS))
        present += [replace(item, kind=GarbageKind.TEMPORARY) for item in manifests if _is_temporary(item)]
        manifest = self.load()
        live = _referenced_files(manifest)
        superseded: list[GarbageFile] = []
        if kept_since_ns is not None and manifest is not None:
            for item in _superseded(manifests, manifest.number):
                if item.mtime_ns < kept_since_ns:
                    superseded.append(item)
                else:
                    live |= self._superseded_files(_number(item.path))
        unneeded = [item for item in present if item.path not in live and not _is_foreign(item.path)]
        return tuple(sorted([*unneeded, *superseded], key=lambda item: item.path))

    def _superseded_files(self, number: int) -> frozenset[str]:
        """Return the files of a superseded manifest.

        None of them if its segments are deleted: the manifest cannot be used, and only reserves its number.
        """
        manifest = self._read(number)
        try:
            return _referenced_files(manifest)
        except StoreError:
            present = {item.path for item in self._files(_SEGMENTS)}
            if manifest is None or manifest.segment_paths() <= present:
                raise
            return frozenset()

    def all_files(self) -> tuple[GarbageFile, ...]:
        """Return every file of the store of a deleted table, sorted by path.

        Raises:
            StoreError: if the store cannot be read.
        """
        directories = (_DATA, METADATA, _MANIFESTS, _SEGMENTS, BUILDS)
        files = [item for place in directories for item in self._files(place)]
        return tuple(
            replace(item, kind=GarbageKind.TABLE_GONE) for item in sorted(files, key=lambda item: item.path)
        )

    def remove(self, garbage: Iterable[GarbageFile]) -> None:
        """Delete files, and the directories that are then empty; of a symbolic link, only the link is deleted.

        Raises:
            StoreError: at the first file that cannot be deleted.
        """
        directories: set[str] = set()
        for item in garbage:
            if not is_safe_path(item.path):
                raise ValueError(f"{item.path!r} leaves the store")
            try:
                self._storage.delete(item.path)
            except OSError as error:
                raise StoreError(
                    f"cannot delete {self._message_path(item.path)!r}: {one_line(error)}; grant access there and "
                    "run VACUUM INDEXES again"
                ) from error
            directories.add(item.path.rpartition("/")[0])
        for directory in directories:
            self._storage.tidy(directory)

    def _files(self, directory: str) -> Iterator[GarbageFile]:
        """Yield every file below one of the store's directories."""
        try:
            for item in self._storage.files(directory):
                yield GarbageFile(item.path, item.length, item.mtime_ns)
        except OSError as error:
            raise self._cannot_list(directory, error) from error

    def _list_manifests(self) -> tuple[dict[int, Hashable | None], LatestFile | None]:
        """Return the numbers of the manifests, and the latest manifest's bytes if a hint has them.

        Each number has the version of its file, or None if the listing does not have it.
        """
        try:
            if self._cached is None and RECENT.get(self.root) is None:
                names, latest = self._storage.names_and_latest(_MANIFESTS)
            else:
                names, latest = self._storage.names(_MANIFESTS), None
        except OSError as error:
            raise self._cannot_list(_MANIFESTS, error) from error
        matches = ((_MANIFEST_NAME.fullmatch(name), version) for name, version in names.items())
        return {int(match[1]): version for match, version in matches if match}, latest

    def _cannot_list(self, directory: str, error: OSError) -> StoreError:
        location = error.filename or self._message_path(directory)
        return StoreError(f"cannot list {location!r}: {one_line(error)}; check its permissions")

    def _message_path(self, path: str) -> str:
        """Return the full path of a file of the store for messages."""
        return f"{self.root}/{path}"


def shared_name(table_uri: str) -> str:
    """Return the directory name of a table within a shared store: readable, and unique for each table."""
    name = _PLAIN.sub("_", table_uri.rpartition("/")[2])[:64].strip("._") or "table"
    return f"{name}-{hashlib.sha256(table_uri.encode()).hexdigest()[:16]}"


def list_stores(store: str) -> tuple[Store, ...]:
    """Return the stores of all tables in a shared store, sorted by table URI.

    Directories without a readable manifest are left out.

    Raises:
        StoreError: if the directory cannot be listed.
    """
    root = normalize_uri(store)
    try:
        names = open_storage(root).directories()
    except OSError as error:
        raise StoreError(
            f"cannot list the store {root!r}: {one_line(error)}; check its permissions"
        ) from error
    stores: list[Store] = []
    for name in names:
        place = join_uri(root, name)
        try:
            manifest = Store(place, "")._load_as_written()
        except (StoreError, NewerFormatError):
            continue
        if manifest is not None and shared_name(manifest.table_uri) == name:
            stores.append(Store(place, manifest.table_uri))
    return tuple(sorted(stores, key=lambda item: item.table_uri))


def _check_index_id(index_id: str) -> None:
    if not _INDEX_ID.fullmatch(index_id):
        raise ValueError(f"{index_id!r} is not the id of an index")


def _referenced_files(manifest: Manifest | None) -> frozenset[str]:
    """Return the paths of all files that a manifest names."""
    return manifest.file_paths() | manifest.segment_paths() if manifest else frozenset()


def _is_foreign(path: str) -> bool:
    """Return True if a file below ``data/`` is outside the directories of indexes."""
    parts = path.split("/")
    return parts[0] == _DATA and (len(parts) < 3 or not _INDEX_ID.fullmatch(parts[1]))


def _is_temporary(item: GarbageFile) -> bool:
    return item.path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


def _is_abandoned(item: GarbageFile) -> bool:
    """Return True if a notice may belong to an ended build; then its age decides."""
    builder = parse_notice_name(item.path.rpartition("/")[2])
    return builder is not None and (builder.host != Builder.this().host or builder.is_gone)


def _superseded(manifests: Iterable[GarbageFile], latest: int) -> Iterator[GarbageFile]:
    """Yield the manifests before the latest, each with the time at which the next one was written."""
    following: int | None = None
    numbered = [item for item in manifests if _MANIFEST_NAME.fullmatch(item.path.rpartition("/")[2])]
    for item in sorted(numbered, key=lambda item: item.path, reverse=True):
        if _number(item.path) > latest:
            continue
        if following is not None:
            yield replace(item, mtime_ns=following, kind=GarbageKind.MANIFEST)
        following = item.mtime_ns


def _number(path: str) -> int:
    """Return the number in a manifest's path."""
    return int(path.rpartition("/")[2].partition(".")[0])


def _manifest_name(number: int) -> str:
    return f"{number:020d}.manifest"

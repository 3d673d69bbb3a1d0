"""Storage: the operations that a store needs of its file system or object store."""

from __future__ import annotations

import errno
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import Protocol

from hindex.errors import StoreError
from hindex.table.location import is_local, local_path, normalize_uri
from hindex.value_class import value_class

#: The directory within a table; Spark and Hive skip names that begin with an underscore.
STORE_NAME = "_hindex"

#: The prefix of the names of unfinished files.
TEMPORARY_PREFIX = ".tmp-"


@value_class
class StoredFile:
    """A file of the store: its path relative to the root, its bytes, and its time in nanoseconds since 1970."""

    path: str
    length: int
    mtime_ns: int


@value_class
class LatestFile:
    """The name and the content of the file that was created last in a directory."""

    name: str
    data: bytes = field(repr=False)


class Storage(Protocol):
    """A directory, or all objects below a prefix. Paths are relative to it, with forward slashes.

    All methods raise `OSError`, whatever the underlying library raises.
    """

    @property
    def root(self) -> str:
        """The absolute local path or URI."""
        ...

    def locate(self, path: str) -> str:
        """Return the absolute local path or URI of a file, which need not exist.

        Raises:
            StoreError: if it would be outside the root.
        """
        ...

    def names(self, directory: str) -> dict[str, Hashable | None]:
        """Return the names of the files directly in a directory; {} if there is no such directory.

        Each has its `version`, or None if the listing does not have it.
        """
        ...

    def names_and_latest(self, directory: str) -> tuple[dict[str, Hashable | None], LatestFile | None]:
        """Return `names`, and the latest of these files if a hint has its content, which saves a request."""
        ...

    def directories(self) -> list[str]:
        """Return the names of the directories directly in the root; [] if there is no root."""
        ...

    def files(self, directory: str) -> Iterator[StoredFile]:
        """Yield every file below a directory; nothing if there is no such directory."""
        ...

    def version(self, path: str) -> Hashable:
        """Return a value that changes when a file is written again.

        Raises:
            FileNotFoundError: if there is none.
        """
        ...

    def read(self, path: str, limit: int) -> bytes:
        """Read a file of at most ``limit`` bytes.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is longer, or not a regular file.
        """
        ...

    def check_access(self, path: str) -> None:
        """Check that a file can be opened, if that takes no request."""
        ...

    def read_all(self, paths: Sequence[str], limit: int) -> list[bytes]:
        """Read several files, as `read`."""
        ...

    def create(self, path: str, data: bytes, *, is_first: bool = True) -> bool:
        """Create a file with its whole content, durably, only if the name does not exist (put if absent).

        Args:
            is_first: True if its directory may be missing.

        Returns:
            False if the name exists; that file is not changed.

        Raises:
            StoreError: if this storage does not support it, or the outcome is unknown.
        """
        ...

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files durably, under names that no other writer uses."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        ...

    def prepare(self, directory: str) -> None:
        """Create a directory, if the storage has directories; fail if nothing can be written there."""
        ...

    def commit_lock(self, directory: str) -> AbstractContextManager[None]:
        """Wait for other writers on the same machine, where possible.

        This keeps a writer from losing every race. Correctness does not rely on it, and the wait ends after some
        seconds.
        """
        ...

    def tidy(self, directory: str) -> None:
        """Remove a directory and its parents, up to the root, as long as they are empty."""
        ...


def open_storage(location: str) -> Storage:
    """Return the storage of a local path or URI; nothing is read or created.

    Raises:
        StoreError: if the scheme of the URI is not supported.
    """
    if is_local(location):
        from hindex.store.local import LocalStorage

        return LocalStorage(local_path(location))
    from hindex.store.remote import RemoteStorage

    uri = normalize_uri(location)
    if "?" in uri:
        raise StoreError(
            f"the store {location!r} cannot have options in its URI; give them in the environment, such as "
            f"AWS_ENDPOINT_URL, or {another_store('a local directory')}"
        )
    return RemoteStorage(uri)


def another_store(location: str) -> str:
    """Return the remedy for messages: use a store at another location."""
    return f"name {location} as the store: store= of connect(), --store of the command, or HINDEX_STORE"


def write_remedy(error: OSError) -> str:
    """Return the remedy for a store that cannot be written."""
    match error.errno:
        case errno.ENOTDIR | errno.EEXIST:
            first = "there is a file where a directory has to be: move it away"
        case errno.ENOENT:
            first = "create the bucket, container or directory, if it is missing"
        case errno.ENOSPC | errno.EDQUOT:
            first = "make room there"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            first = "grant access there"
        case _:
            first = "make room or grant access there"
    return f"{first}, or {another_store('another directory')}"


def is_missing(location: str) -> bool:
    """Return True if nothing exists at the location of a store.

    A store on an object store counts as missing if it has no directories there. On errors, return False: reading
    from the store reports them.
    """
    try:
        return not (
            Path(local_path(location)).is_dir()
            if is_local(location)
            else open_storage(location).directories()
        )
    except (OSError, StoreError):
        return False

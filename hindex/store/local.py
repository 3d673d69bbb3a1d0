"""Stores on local and mounted file systems."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from hindex.errors import StoreError
from hindex.store.files import (
    ATTEMPTS,
    create_if_absent,
    make_directories,
    read_whole,
    sync_directory,
    write_new,
)
from hindex.store.storage import StoredFile

Found = TypeVar("Found")

#: How long a writer waits at most for those before it; one of them may be stopped.
TURN_S = 10.0

# the directories whose locks a thread holds
_turns = threading.local()


class LocalStorage:
    """A local directory.

    :param root: its absolute path.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._safe: set[str] = set()

    def locate(self, path: str) -> str:
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

    def names(self, directory: str) -> list[str]:
        try:
            with os.scandir(Path(self.root, directory)) as entries:
                return [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def directories(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def files(self, directory: str) -> Iterator[StoredFile]:
        """Every file below a directory; symbolic links are listed and not followed."""
        top = Path(self.root, directory)
        if not top.resolve().is_relative_to(Path(self.root).resolve()):
            raise StoreError(f"{str(top)!r} is a symbolic link that leaves the store; remove the link")
        for place, _, names in os.walk(top, onerror=_listing_failed):
            for name in names:
                path = Path(place, name)
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue
                yield StoredFile(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime_ns)

    def version(self, path: str) -> Hashable:
        status = Path(self.root, path).stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, path: str, limit: int) -> bytes:
        return read_whole(Path(self.root, path), limit)

    def read_all(self, paths: Sequence[str], limit: int) -> list[bytes]:
        return [self.read(path, limit) for path in paths]

    def create(self, path: str, data: bytes, *, is_first: bool = True) -> bool:
        directory, _, name = path.rpartition("/")
        place = Path(self.root, directory)
        if not is_first:
            return create_if_absent(place, name, data)
        return _in_directory(place, partial(create_if_absent, place, name, data))

    def write(self, files: Mapping[str, bytes]) -> None:
        directories: set[Path] = set()
        for path, data in files.items():
            place = Path(self.root, path)
            _in_directory(place.parent, partial(write_new, place, data))
            directories.add(place.parent)
        for directory in directories:
            sync_directory(directory)

    def delete(self, path: str) -> None:
        Path(self.root, path).unlink(missing_ok=True)

    def prepare(self, directory: str) -> None:
        make_directories(Path(self.root, directory))

    @contextlib.contextmanager
    def turn(self, directory: str) -> Iterator[None]:
        """Hold the lock of a directory, which its holder's death frees; without it after :data:`TURN_S` seconds."""
        place = Path(self.root, directory)
        mine: set[Path] = _turns.__dict__.setdefault("mine", set())
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # there is none before the first commit, and of anything else that commit will tell
            descriptor = -1
        if descriptor < 0:
            yield
            return
        # a commit within another one's change has its turn already
        is_outer = place not in mine
        mine.add(place)
        try:
            until = time.monotonic() + TURN_S
            while is_outer and time.monotonic() < until:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 no secret
                except OSError:
                    break  # a file system without locks
            yield
        finally:
            if is_outer:
                mine.discard(place)
            os.close(descriptor)

    def tidy(self, directory: str) -> None:
        root = Path(self.root)
        place = root / directory
        while place == root or place.is_relative_to(root):
            # one that is not empty stays
            try:
                place.rmdir()
            except OSError:
                return
            place = place.parent


def _in_directory(place: Path, write: Callable[[], Found]) -> Found:
    """Write into a directory, which is made where it is missing: VACUUM, or a build that ends, may find it empty."""
    for _ in range(ATTEMPTS - 1):
        make_directories(place)
        with contextlib.suppress(FileNotFoundError):
            return write()
    make_directories(place)
    return write()


def _listing_failed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error

"""Stores on local and mounted file systems."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import stat
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from hindex.errors import StoreError
from hindex.store.permissions import directory_permissions, file_permissions
from hindex.store.storage import TEMPORARY_PREFIX, LatestFile, StoredFile, another_store

#: The most attempts to create a directory that other processes remove because it is empty.
ATTEMPTS = 20

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}


def create_file(path: Path) -> int:
    """Create a file with the permissions of `file_permissions`, and return its descriptor.

    Raises:
        OSError: if it cannot be created; nothing is left behind.
    """
    permissions = file_permissions(path)
    # until its permissions are set, only its owner may open it
    initial_mode = 0o666 if permissions is None else stat.S_IRUSR | stat.S_IWUSR
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, initial_mode)
    if permissions is not None:
        try:
            permissions.apply(descriptor)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
    return descriptor


def create_if_absent(directory: Path, name: str, data: bytes) -> bool:
    """Create ``directory/name`` durably, never visible with part of its content.

    Returns:
        False if the name exists already; that file is not changed.

    Raises:
        OSError: if it cannot be written; nothing is left behind.
        StoreError: if the file system has no hard links, or the file exists but may not be durable.
    """
    temporary = directory / f"{TEMPORARY_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
    try:
        descriptor = create_file(temporary)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            # unlike rename, link fails if the name exists
            os.link(temporary, directory / name)
        except FileExistsError:
            # over NFS the response to the request may be lost, and the retried request finds the file
            if not _is_same(temporary, directory / name):
                return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise StoreError(
                    f"cannot commit in {str(directory)!r}: its file system has no hard links "
                    f"({error.strerror}); {another_store('a directory on another file system')}"
                ) from error
            raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    try:
        sync_directory(directory)
    except OSError as error:
        # others may have read it and committed after it, so it cannot be withdrawn
        raise StoreError(
            f"{str(directory / name)!r} was committed, but its directory could not be written to disk "
            f"({error.strerror}): the change is visible now and may be lost if the machine fails. Check the disk"
        ) from error
    return True


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist, durable once its directory is synced.

    Raises:
        OSError: if it cannot be written; nothing is left behind.
    """
    descriptor = create_file(path)
    try:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def read_whole(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is larger, or not a regular file.
    """
    # without O_NONBLOCK a pipe of that name would block for ever
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > limit:
            raise ValueError(f"it has {status.st_size} bytes, more than the {limit} that are supported")
        # reading up to the limit would allocate a buffer of the limit, however short the file is
        return file.read(status.st_size)


def make_directories(path: Path) -> None:
    """Create a directory and its parents, durably.

    Other processes may remove them again while they are empty.

    Raises:
        OSError: if a directory cannot be created.
    """
    for _ in range(ATTEMPTS):
        if path.is_dir():
            return
        above = path.parent
        make_directories(above)
        try:
            permissions = directory_permissions(path)
            path.mkdir(0o777 if permissions is None else permissions.mode)
            if permissions is not None:
                permissions.apply(path)
            sync_directory(above)
        except (FileExistsError, FileNotFoundError):
            pass
        else:
            return
        if os.path.lexists(path) and not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some network file systems cannot, and need not, sync directories
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


T = TypeVar("T")

#: The most seconds that a writer waits for earlier writers, since one of them may hang.
TURN_S = 10.0

# the directories whose locks a thread holds
_turns = threading.local()


class LocalStorage:
    """A local directory.

    Args:
        root: its absolute path.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._safe: set[str] = set()

    def locate(self, path: str) -> str:
        location = f"{self.root}/{path}"
        directory = location.rpartition("/")[0]
        # a table has many index files in few directories, and resolving a path takes a system call per part
        if directory in self._safe and not os.path.islink(location):  # noqa: PTH114 pathlib takes ten times as long
            return location
        if not Path(location).resolve().is_relative_to(Path(self.root).resolve()):
            raise StoreError(f"{location!r} is a symbolic link that leaves the store; remove the link")
        if Path(directory).resolve().is_relative_to(Path(self.root).resolve()):
            self._safe.add(directory)
        return location

    def names(self, directory: str) -> dict[str, Hashable | None]:
        try:
            with os.scandir(Path(self.root, directory)) as entries:
                return {entry.name: None for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def names_and_latest(self, directory: str) -> tuple[dict[str, Hashable | None], LatestFile | None]:
        return self.names(directory), None

    def directories(self) -> list[str]:
        try:
            with os.scandir(self.root) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def files(self, directory: str) -> Iterator[StoredFile]:
        """Yield every file below a directory; symbolic links are listed and not followed."""
        top = Path(self.root, directory)
        if not top.resolve().is_relative_to(Path(self.root).resolve()):
            raise StoreError(f"{str(top)!r} is a symbolic link that leaves the store; remove the link")
        for directory_path, _, names in os.walk(top, onerror=_listing_failed):
            for name in names:
                path = Path(directory_path, name)
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

    def check_access(self, path: str) -> None:
        os.close(os.open(Path(self.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def read_all(self, paths: Sequence[str], limit: int) -> list[bytes]:
        return [self.read(path, limit) for path in paths]

    def create(self, path: str, data: bytes, *, is_first: bool = True) -> bool:
        directory, _, name = path.rpartition("/")
        directory_path = Path(self.root, directory)
        if not is_first:
            return create_if_absent(directory_path, name, data)
        return _in_directory(directory_path, partial(create_if_absent, directory_path, name, data))

    def write(self, files: Mapping[str, bytes]) -> None:
        directories: set[Path] = set()
        for path, data in files.items():
            file_path = Path(self.root, path)
            _in_directory(file_path.parent, partial(write_new, file_path, data))
            directories.add(file_path.parent)
        for directory in directories:
            sync_directory(directory)

    def delete(self, path: str) -> None:
        Path(self.root, path).unlink(missing_ok=True)

    def prepare(self, directory: str) -> None:
        make_directories(Path(self.root, directory))

    @contextlib.contextmanager
    def commit_lock(self, directory: str) -> Iterator[None]:
        """Hold the lock of a directory; go on without it after `TURN_S` seconds. It is freed if its owner dies."""
        directory_path = Path(self.root, directory)
        held_locks: set[Path] = _turns.__dict__.setdefault("mine", set())
        try:
            descriptor = os.open(directory_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # the directory is missing before the first commit; the commit reports any other error
            descriptor = -1
        if descriptor < 0:
            yield
            return
        # a commit within the change of another commit already has the lock
        is_outer = directory_path not in held_locks
        held_locks.add(directory_path)
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
                held_locks.discard(directory_path)
            os.close(descriptor)

    def tidy(self, directory: str) -> None:
        root = Path(self.root)
        directory_path = root / directory
        while directory_path == root or directory_path.is_relative_to(root):
            # a directory that is not empty stays
            try:
                directory_path.rmdir()
            except OSError:
                return
            directory_path = directory_path.parent


def _in_directory(directory: Path, write: Callable[[], T]) -> T:
    """Write into a directory; create it if VACUUM, or a build that ends, has removed it because it was empty."""
    for _ in range(ATTEMPTS - 1):
        make_directories(directory)
        with contextlib.suppress(FileNotFoundError):
            return write()
    make_directories(directory)
    return write()


def _listing_failed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error

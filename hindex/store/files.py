"""Durable local files: create a file with its whole content, and only if it is absent."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from pathlib import Path

from hindex.errors import StoreError
from hindex.store.storage import TEMPORARY_PREFIX, another_store

#: How often a directory is made again that others, who take it for empty, remove.
ATTEMPTS = 20

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}


def create_if_absent(directory: Path, name: str, data: bytes) -> bool:
    """Create ``directory/name`` durably, never visible with part of its content.

    :returns: False if the name exists already: it is left alone.
    :raises OSError: if it cannot be written; nothing is left behind.
    :raises StoreError: if the file system has no hard links, or the file is there but may not be durable.
    """
    temporary = directory / f"{TEMPORARY_PREFIX}{os.getpid()}-{uuid.uuid4().hex}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            # unlike rename, link fails where the name exists
            os.link(temporary, directory / name)
        except FileExistsError:
            # over NFS the answer that it is made may be lost, and the request that is sent again finds it there
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
        # others may have seen it and built on it, so it cannot be taken back
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

    :raises OSError: if it cannot be written; nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
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
    """The content of a regular file of at most ``limit`` bytes.

    :raises OSError: if it cannot be read.
    :raises ValueError: if it is larger, or no regular file.
    """
    # without O_NONBLOCK a pipe of that name would block for ever
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > limit:
            raise ValueError(f"it has {status.st_size} bytes, more than the {limit} that are supported")
        # a buffer of the limit would be taken whole, however short the file is
        return file.read(status.st_size)


def make_directories(path: Path) -> None:
    """Create a directory and those above it, durably.

    Others may remove them meanwhile, as long as they are empty.

    :raises OSError: if one cannot be created.
    """
    for _ in range(ATTEMPTS):
        if path.is_dir():
            return
        above = path.parent
        make_directories(above)
        try:
            path.mkdir()
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

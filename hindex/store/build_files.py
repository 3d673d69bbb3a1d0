"""Files of running builds: index files before they are published, and notices for other processes.

A builder writes a notice into ``builds/`` before it starts and deletes it when it ends; nothing relies on it. The name
has the host, the process id and its start time; the content is framed as a manifest, with the entries of the indexes.
A killed builder leaves its notice behind: processes on the same host detect that it has ended; on other hosts,
VACUUM deletes the notice.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import uuid
from pathlib import Path
from typing import IO

from hindex.store.local import make_directories
from hindex.store.manifest import IndexEntry
from hindex.store.permissions import Permissions, file_permissions
from hindex.store.remote import RemoteStorage
from hindex.store.storage import open_storage
from hindex.table.location import is_local, local_path
from hindex.value_class import value_class

#: The directory of notices within a store.
BUILDS = "builds"

#: Longer notices are not read.
MAX_NOTICE_BYTES = 1 << 20

_NAME = re.compile(r"(?P<host>[A-Za-z0-9.-]+)_(?P<pid>[0-9]+)_(?P<began>[0-9]+)_[0-9a-f]{32}", re.ASCII)
_FOREIGN = re.compile(r"[^A-Za-z0-9.-]")


@value_class
class Builder:
    """The process of a build.

    Attributes:
        began: the start of the process in ticks since the host's boot, which distinguishes it from an earlier
            process with the same id; 0 if the system does not report it.
    """

    host: str
    pid: int
    began: int = 0

    @classmethod
    def this(cls) -> Builder:
        """Return this process."""
        return cls(_host(), os.getpid(), _began(os.getpid()) or 0)

    @property
    def is_gone(self) -> bool:
        """True if the process has certainly ended. Processes of other hosts are assumed to run."""
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True  # no process has, or can have, this id
        except OSError:
            pass  # it runs as another user
        return bool(self.began) and _began(self.pid) != self.began


@value_class
class BuildMarker:
    """A running build of some indexes; ``started_ms`` is in milliseconds since 1970."""

    builder: Builder
    started_ms: int
    indexes: tuple[IndexEntry, ...]


def notice_name(builder: Builder) -> str:
    """Return a new name for the notice of a process."""
    return f"{builder.host}_{builder.pid}_{builder.began}_{uuid.uuid4().hex}"


def parse_notice_name(name: str) -> Builder | None:
    """Return the process in a notice's name; None if it is not the name of a notice."""
    match = _NAME.fullmatch(name)
    return None if match is None else Builder(match["host"], int(match["pid"]), int(match["began"]))


def _host() -> str:
    return _FOREIGN.sub("-", socket.gethostname())[:100] or "unknown"


def _began(pid: int) -> int | None:
    """Return the start of a process in ticks since boot; None if the system does not report it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the second field, a name in brackets, may contain anything
    state, *rest = status.rpartition(")")[2].split()
    # a zombie has ended and only its entry remains
    return -1 if state == "Z" else int(rest[18])


class StagedFile:
    """One index file that is being written.

    Attributes:
        sink: the sink of an index builder: the file's path, or an open temporary file.

    Args:
        directory: the absolute local path, or URI.
        data_file: the URI of the data file whose values it contains; None for several.

    Raises:
        OSError: if the file cannot be created.
    """

    def __init__(self, directory: str, name: str, data_file: str | None = None) -> None:
        self._directory = directory
        self._name = name
        self._data_file = data_file
        self._temporary: IO[bytes] | None = None
        self.sink: str | IO[bytes] = f"{directory}/{name}"
        if is_local(directory):
            make_directories(Path(directory))
        else:
            self.sink = self._temporary = tempfile.NamedTemporaryFile(prefix="hindex-")  # noqa: SIM115 see close

    def restrict(self) -> None:
        """Give a local file in a table's own store the permissions of the data, before values are written.

        Raises:
            OSError: if they cannot be set.
        """
        if self._temporary is None:
            permissions = data_permissions(self._directory, self._data_file)
            if permissions is not None:
                permissions.apply(Path(self._directory, self._name))

    def publish(self) -> None:
        """Move the finished file to its final location, durably.

        Raises:
            OSError: if it cannot be written there.
        """
        if self._temporary is not None:
            self._temporary.flush()
            RemoteStorage(self._directory).upload(self._name, self._temporary.name)
        self.restrict()
        self.close()

    def close(self) -> None:
        """Close a temporary file, which deletes it; its content has been published or is discarded."""
        if self._temporary is not None:
            # on a full disk, buffered bytes cannot be written
            with contextlib.suppress(OSError):
                self._temporary.close()


def data_permissions(directory: str, data_file: str | None) -> Permissions | None:
    """Return the permissions of a new index file; None for those of the process.

    Args:
        directory: the absolute local path, or URI, of the index file's directory.
        data_file: the URI of the data file whose values it contains; None for several.
    """
    if not is_local(directory):
        return None
    local = local_path(data_file) if data_file is not None and is_local(data_file) else None
    return file_permissions(Path(directory, "x.hidx"), local)


def discard_files(directory: str, prefix: str) -> None:
    """Delete the files of a directory whose names have a prefix, and the directory if it is empty then.

    Errors are ignored: they would hide the error that led here.
    """
    storage = open_storage(directory)
    with contextlib.suppress(OSError):
        for name in storage.names(""):
            if name.startswith(prefix):
                with contextlib.suppress(OSError):
                    storage.delete(name)
        storage.tidy("")

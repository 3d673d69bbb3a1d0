"""Notices of builds under way, so that others see them: nothing relies on one.

A builder puts a file into ``builds/`` before it starts and deletes it when it ends. Its name tells the host, the
process and when that began; its content is framed as a manifest is, with the entries of the indexes being built. A
builder that was killed leaves its notice: on the same host it is seen to be over, elsewhere VACUUM deletes it.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from hindex.store.manifest import IndexEntry

#: The directory of notices within a store.
BUILDS = "builds"

#: Longer ones are not read.
MAX_NOTICE_BYTES = 1 << 20

_NAME = re.compile(r"(?P<host>[A-Za-z0-9.-]+)_(?P<pid>[0-9]+)_(?P<began>[0-9]+)_[0-9a-f]{32}", re.ASCII)
_FOREIGN = re.compile(r"[^A-Za-z0-9.-]")


@dataclass(frozen=True, slots=True)
class Builder:
    """The process that builds.

    :ivar began: ticks from the host's start to the process's, which tell it from an earlier one of its number; 0
        where the system does not say.
    """

    host: str
    pid: int
    began: int = 0

    @classmethod
    def this(cls) -> Builder:
        """This process."""
        return cls(_host(), os.getpid(), _began(os.getpid()) or 0)

    @property
    def is_gone(self) -> bool:
        """Return True if the process is known to have ended.

        Nothing is known about processes of other hosts.
        """
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True  # of a number that no process has, or can have
        except OSError:
            pass  # it is there, and somebody else's
        return bool(self.began) and _began(self.pid) != self.began


@dataclass(frozen=True, slots=True)
class BuildNotice:
    """A build under way, of some indexes, since ``started_ms`` (since 1970)."""

    builder: Builder
    started_ms: int
    indexes: tuple[IndexEntry, ...]


def notice_name(builder: Builder) -> str:
    """A new name for the notice of a process."""
    return f"{builder.host}_{builder.pid}_{builder.began}_{uuid.uuid4().hex}"


def builder_of(name: str) -> Builder | None:
    """The process that a notice's name tells; None for names of something else."""
    found = _NAME.fullmatch(name)
    return None if found is None else Builder(found["host"], int(found["pid"]), int(found["began"]))


def _host() -> str:
    return _FOREIGN.sub("-", socket.gethostname())[:100] or "unknown"


def _began(pid: int) -> int | None:
    """Return the start of a process in ticks since boot; None if the system does not report it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # the second field, a name in brackets, may hold anything
    state, *rest = status.rpartition(")")[2].split()
    # a zombie has ended and is only remembered
    return -1 if state == "Z" else int(rest[18])

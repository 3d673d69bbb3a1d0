"""Names of directories and files in a transactional directory."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from hindex.errors import TableError

#: Directories hold this file where Hive 3 or later wrote them; its content is the version of the layout.
VERSION_FILE = "_orc_acid_version"
#: And this one where a base without a visibility suffix was written by a compaction, or has no rows because the table
#: was truncated or the partition dropped; its content tells which.
METADATA_FILE = "_metadata_acid"
#: What the name of a file ends in that says how much of another one may be read.
FLUSH_LENGTH = "_flush_length"

_LOOKS_ACID = re.compile(r"(base|delta|delete_delta)_-?[0-9]+(_[0-9]+)*(_v[0-9]+)?")
_VISIBILITY = re.compile(r"_v([0-9]+)$")
_BASE = re.compile(r"base_(-?[0-9]+)")
_DELTA = re.compile(r"(delta|delete_delta)_([0-9]+)_([0-9]+)(?:_([0-9]+))?")
_BUCKET = re.compile(r"bucket_([0-9]+)(_[0-9]+)?")
_ORIGINAL = re.compile(r"([0-9]+)_[0-9]+(_copy_[0-9]+)?")
#: The greatest bucket and statement: twelve bits of a row's key each.
MOST_NUMBER = 0xFFF

_INT64 = range(-(1 << 63), 1 << 63)


class DirectoryKind(enum.Enum):
    """The kind of a transactional directory; the value is the prefix of its name."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """The parsed name of a directory.

    :ivar min_write_id: of a base, its only one.
    :ivar statement: -1 where the name has none.
    :ivar visibility: the transaction of the compaction that wrote it; None where the name has none.
    """

    name: str
    kind: DirectoryKind
    min_write_id: int
    max_write_id: int
    statement: int = -1
    visibility: int | None = None


def looks_acid(name: str) -> bool:
    """Return True if a directory of this name makes its parent a transactional directory."""
    return _LOOKS_ACID.fullmatch(name) is not None


def parse_directory(name: str) -> AcidDirectory:
    """Read a directory's name; numbers may have any width.

    :raises TableError: for a name that :func:`looks_acid` and is none.
    """
    found = _VISIBILITY.search(name)
    visibility = None if found is None else int(found[1])
    stem = name if found is None else name[: found.start()]
    if base := _BASE.fullmatch(stem):
        number = int(base[1])
        parsed = AcidDirectory(name, DirectoryKind.BASE, number, number, -1, visibility)
    elif delta := _DELTA.fullmatch(stem):
        statement = -1 if delta[4] is None else int(delta[4])
        kind = DirectoryKind(delta[1])
        parsed = AcidDirectory(name, kind, int(delta[2]), int(delta[3]), statement, visibility)
    else:
        raise _unreadable(
            name, "expected base_N, delta_N_M or delete_delta_N_M, with _STATEMENT and _vN at most"
        )
    if parsed.min_write_id > parsed.max_write_id:
        raise _unreadable(name, "its least write id is greater than its greatest")
    if parsed.min_write_id not in _INT64 or parsed.max_write_id not in _INT64:
        raise _unreadable(name, "a write id has more than 64 bits")
    if parsed.statement > MOST_NUMBER:
        raise _unreadable(
            name, f"its statement is above {MOST_NUMBER}, the greatest that keys of rows can have"
        )
    return parsed


def _unreadable(name: str, why: str) -> TableError:
    return TableError(
        f"the directory {name!r} looks like one of a transactional table, but its name cannot be read: {why}; "
        "rename or remove it"
    )


def bucket_of(name: str) -> int | None:
    """The bucket that a data file's name tells, of the ACID schema or an original one; None where it tells none.

    >>> bucket_of("bucket_00003_0"), bucket_of("000001_0_copy_2"), bucket_of("part-0.orc")
    (3, 1, None)
    """
    found = _BUCKET.fullmatch(name) or _ORIGINAL.fullmatch(name)
    bucket = None if found is None else int(found[1])
    # keys have twelve bits for it: a greater number is no bucket's
    return None if bucket is None or bucket > MOST_NUMBER else bucket


def is_bucket_file(name: str) -> bool:
    """Return True if ACID writers use such a file name."""
    return _BUCKET.fullmatch(name) is not None

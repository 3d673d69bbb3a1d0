"""The valid content of a transactional directory: the base, deltas, delete deltas and original files that readers
see.

The rule is that of Hive 3: a base stands for everything up to its write id, and deltas that cover more stand for
those that cover less.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hindex.errors import TableError
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds

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


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """A base, delta or delete delta as a listing shows it.

    :ivar subdirectories: names of the directories in it, but for hidden ones.
    :ivar marker: reads its file ``_metadata_acid``: whether a compaction wrote it; None where it has none. It is called
        where that makes a difference, and may raise.
    """

    name: str
    subdirectories: tuple[str, ...] = ()
    marker: Callable[[], bool] | None = None


class Why(enum.Enum):
    """The reason why a part of a transactional directory is ignored; the value is shown to people."""

    OLDER_BASE = "a newer base stands for it"
    INVALID_BASE = "its write id is not valid, or what it stands for was still open"
    COVERED = "its write ids are in the base or in another delta"
    INVALID = "none of its write ids that are not in another directory is valid"
    SAME_COMPACTION = "a later compaction wrote the same write ids"
    HIDDEN_ORIGINAL = "a base stands for the original files"


@dataclass(frozen=True, slots=True)
class Obsolete:
    """A directory or original file that does not count."""

    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class AcidState:
    """The valid content of a transactional directory.

    :ivar originals: paths of the original files within the directory, ascending.
    :ivar obsolete: what does not count, in the order of names.
    """

    base: AcidDirectory | None
    deltas: tuple[AcidDirectory, ...]
    delete_deltas: tuple[AcidDirectory, ...]
    originals: tuple[str, ...]
    obsolete: tuple[Obsolete, ...]

    @property
    def directories(self) -> tuple[AcidDirectory, ...]:
        """All directories that count."""
        base = () if self.base is None else (self.base,)
        return (*base, *self.deltas, *self.delete_deltas)


def acid_state(
    path: str,
    directories: Sequence[ListedDirectory],
    originals: Iterable[str] = (),
    valid: ValidWriteIds = ALL_VALID,
    *,
    insert_only: bool = False,
) -> AcidState:
    """Determine the valid content of a directory from its listing.

    :param path: of the directory, for messages.
    :param originals: paths of the original files within the directory that are not empty.
    :param insert_only: whether the table is known to have no deletes.
    :raises TableError: where the directory is not as Hive leaves one, or its history does not reach back as far as
        the valid write ids ask for.
    """
    parsed = []
    for item in directories:
        try:
            found = parse_directory(item.name)
        except TableError as error:
            raise TableError(f"transactional directory {path!r} is invalid: {error}") from error
        if item.subdirectories:
            raise TableError(
                f"transactional directory {path!r} is invalid: {item.name!r} holds the directory "
                f"{item.subdirectories[0]!r}, and there should be none: remove it"
            )
        if insert_only and found.kind is DirectoryKind.DELETE_DELTA:
            raise TableError(
                f"transactional directory {path!r} is invalid: it has {item.name!r}, but the table is insert-only: "
                "it should have no delete deltas"
            )
        parsed.append((found, item.marker))
    obsolete: list[Obsolete] = []
    bases = [_Base(found, marker) for found, marker in parsed if found.kind is DirectoryKind.BASE]
    base = _base(bases, valid, obsolete)
    taken = _deltas(
        [found for found, _ in parsed if found.kind is not DirectoryKind.BASE], base, valid, obsolete
    )
    kept = sorted(originals)
    if base is None:
        _check_history(path, bases, [0] * len(kept) + [item.min_write_id for item in taken], valid)
    else:
        obsolete += [Obsolete(name, Why.HIDDEN_ORIGINAL) for name in kept]
        kept = []
    return AcidState(
        base,
        tuple(item for item in taken if item.kind is DirectoryKind.DELTA),
        tuple(item for item in taken if item.kind is DirectoryKind.DELETE_DELTA),
        tuple(kept),
        tuple(sorted(obsolete, key=lambda item: item.name)),
    )


class _Base:
    """A base, whose marker is read once, and only if it matters."""

    def __init__(self, directory: AcidDirectory, marker: Callable[[], bool] | None) -> None:
        self.directory = directory
        self.write_id = directory.min_write_id
        self._marker = marker

    @cached_property
    def is_compacted(self) -> bool:
        return self.directory.visibility is not None or (self._marker is not None and self._marker())

    def is_valid(self, valid: ValidWriteIds) -> bool:
        compacted, other = valid.compacted_valid(self.write_id), valid.valid(self.write_id)
        return compacted if compacted == other or self.is_compacted else other

    def order(self) -> tuple[int, int, str]:
        return self.write_id, *_version(self.directory)


def _base(bases: Sequence[_Base], valid: ValidWriteIds, obsolete: list[Obsolete]) -> AcidDirectory | None:
    ordered = sorted(bases, key=_Base.order, reverse=True)
    chosen = next((base for base in ordered if base.is_valid(valid)), None)
    if chosen is not None and chosen.directory.visibility is None:
        # others without a version are of the same write id, under names of other widths
        same = [base for base in ordered if base.write_id == chosen.write_id and base.is_valid(valid)]
        chosen = chosen if len(same) == 1 else max(same, key=lambda base: (base.is_compacted, base.order()))
    for base in bases:
        if base is not chosen:
            is_older = chosen is not None and base.write_id <= chosen.write_id
            obsolete.append(Obsolete(base.directory.name, Why.OLDER_BASE if is_older else Why.INVALID_BASE))
    return None if chosen is None else chosen.directory


def _check_history(path: str, bases: Sequence[_Base], since: Sequence[int], valid: ValidWriteIds) -> None:
    """Refuse a directory of which no base can be read, if a base may have done away with rows that are seen.

    A compaction did. An overwrite that was aborted did not, and another one only if it was committed after the list of
    valid write ids was made, and cleaned up after: then nothing is left that is older.

    :param since: the least write ids of what counts.
    :raises TableError: if one may.
    """
    ordered = sorted(bases, key=_Base.order)
    compacted = next((base for base in ordered if base.is_compacted), None)
    if compacted is not None:
        raise TableError(
            f"transactional directory {path!r}: not enough history: the oldest compacted base is "
            f"{compacted.directory.name!r}, and the valid write ids (up to {valid.high_watermark}) do not include all "
            "that it stands for; read it with a newer list"
        )
    unknown = next((base for base in ordered if base.write_id not in valid.aborted), None)
    if unknown is not None and min(since, default=unknown.write_id) >= unknown.write_id:
        raise TableError(
            f"transactional directory {path!r}: not enough history: there is nothing older than the base "
            f"{unknown.directory.name!r}, which the valid write ids (up to {valid.high_watermark}) do not include; "
            "read it with a newer list"
        )


def _deltas(
    deltas: Sequence[AcidDirectory],
    base: AcidDirectory | None,
    valid: ValidWriteIds,
    obsolete: list[Obsolete],
) -> list[AcidDirectory]:
    current, last = (0 if base is None else base.min_write_id), -1
    taken: list[AcidDirectory] = []
    for item in sorted(_latest(deltas, obsolete), key=_order):
        if item.max_write_id > current:
            if not valid.any_valid(max(current + 1, item.min_write_id), item.max_write_id):
                obsolete.append(Obsolete(item.name, Why.INVALID))
                continue
            current, last = item.max_write_id, item.statement
        elif not ((item.max_write_id == current and last >= 0) or (taken and _same(item, taken[-1]))):
            obsolete.append(Obsolete(item.name, Why.COVERED))
            continue
        taken.append(item)
    return taken


def _latest(deltas: Sequence[AcidDirectory], obsolete: list[Obsolete]) -> list[AcidDirectory]:
    """Without what compactions that failed, or were done again, left of the same write ids."""
    newest: dict[object, AcidDirectory] = {}
    for item in deltas:
        key = _range(item)
        held = newest.get(key)
        newest[key] = item if held is None else max(held, item, key=_version)
    # two without a version are one transaction's, under names of other widths
    kept = {item.name for item in newest.values()}
    kept |= {
        item.name for item in deltas if item.visibility is None and newest[_range(item)].visibility is None
    }
    obsolete += [Obsolete(item.name, Why.SAME_COMPACTION) for item in deltas if item.name not in kept]
    return [item for item in deltas if item.name in kept]


def _range(item: AcidDirectory) -> tuple[object, ...]:
    return item.kind, item.min_write_id, item.max_write_id, item.statement


def _version(item: AcidDirectory) -> tuple[int, str]:
    return (-1 if item.visibility is None else item.visibility), item.name


def _order(item: AcidDirectory) -> tuple[int, int, int, str]:
    return item.min_write_id, -item.max_write_id, item.statement, item.name


def _same(a: AcidDirectory, b: AcidDirectory) -> bool:
    return (a.min_write_id, a.max_write_id, a.statement) == (b.min_write_id, b.max_write_id, b.statement)

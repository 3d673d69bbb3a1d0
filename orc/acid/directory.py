"""The valid content of a transactional directory: base, deltas, delete deltas and original files.

The rule is that of Hive 3: a base replaces everything up to its write id, and a delta replaces the deltas whose write
ids it includes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from hindex.errors import TableError
from hindex.lru_cache import cached_property
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from hindex.value_class import value_class

#: The file in directories that Hive 3 or later wrote; its content is the version of the layout.
VERSION_FILE = "_orc_acid_version"
#: The file of a base without a visibility suffix that a compaction wrote, or that is empty because the table was
#: truncated or the partition dropped; its content distinguishes these.
METADATA_FILE = "_metadata_acid"
#: The suffix of a side file with the valid length of a file.
FLUSH_LENGTH = "_flush_length"

_ACID_NAME = re.compile(r"(base|delta|delete_delta)_-?[0-9]+(_[0-9]+)*(_v[0-9]+)?")
_VISIBILITY = re.compile(r"_v([0-9]+)$")
_BASE = re.compile(r"base_(-?[0-9]+)")
_DELTA = re.compile(r"(delta|delete_delta)_([0-9]+)_([0-9]+)(?:_([0-9]+))?")
_BUCKET = re.compile(r"bucket_([0-9]+)(_[0-9]+)?")
_ORIGINAL = re.compile(r"([0-9]+)_[0-9]+(_copy_[0-9]+)?")
_UNION = re.compile(r"HIVE_UNION_SUBDIR_[0-9]+")
#: The greatest bucket and statement: each has twelve bits of a row's key.
MAX_BUCKET = 0xFFF

_INT64 = range(-(1 << 63), 1 << 63)


class DirectoryKind(enum.Enum):
    """The kind of a transactional directory; the value is the prefix of its name."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"


@value_class
class AcidDirectory:
    """The parsed name of a directory.

    Attributes:
        min_write_id: the first write id; a base has only one, which is also its ``max_write_id``.
        statement: the statement within the transaction; -1 if the name has none.
        visibility: the transaction of the compaction that wrote it; None if the name has none.
    """

    name: str
    kind: DirectoryKind
    min_write_id: int
    max_write_id: int
    statement: int = -1
    visibility: int | None = None


def is_acid_directory(name: str) -> bool:
    """Return True if a directory of this name makes its parent a transactional directory."""
    return _ACID_NAME.fullmatch(name) is not None


def parse_directory(name: str) -> AcidDirectory:
    """Parse a directory's name; numbers may have any width.

    Raises:
        TableError: if the name satisfies `is_acid_directory` and cannot be parsed.
    """
    match = _VISIBILITY.search(name)
    visibility = None if match is None else int(match[1])
    stem = name if match is None else name[: match.start()]
    if base := _BASE.fullmatch(stem):
        number = int(base[1])
        parsed = AcidDirectory(name, DirectoryKind.BASE, number, number, -1, visibility)
    elif delta := _DELTA.fullmatch(stem):
        statement = -1 if delta[4] is None else int(delta[4])
        kind = DirectoryKind(delta[1])
        parsed = AcidDirectory(name, kind, int(delta[2]), int(delta[3]), statement, visibility)
    else:
        raise _invalid_name(
            name, "expected base_N, delta_N_M or delete_delta_N_M, optionally with _STATEMENT and _vN"
        )
    if parsed.min_write_id > parsed.max_write_id:
        raise _invalid_name(name, "its first write id is greater than its last")
    if parsed.min_write_id not in _INT64 or parsed.max_write_id not in _INT64:
        raise _invalid_name(name, "a write id has more than 64 bits")
    if parsed.statement > MAX_BUCKET:
        raise _invalid_name(name, f"its statement is above {MAX_BUCKET}, the maximum in row keys")
    return parsed


def _invalid_name(name: str, reason: str) -> TableError:
    return TableError(f"invalid name of a transactional directory {name!r}: {reason}; rename or remove it")


def parse_bucket(name: str) -> int | None:
    """Parse the bucket number in the name of a data file or original file; return None if it has none.

    >>> parse_bucket("bucket_00003_0"), parse_bucket("000001_0_copy_2"), parse_bucket("part-0.orc")
    (3, 1, None)
    """
    match = _BUCKET.fullmatch(name) or _ORIGINAL.fullmatch(name)
    bucket = None if match is None else int(match[1])
    # row keys have twelve bits for a bucket: a greater number is not a bucket
    return None if bucket is None or bucket > MAX_BUCKET else bucket


def is_bucket_file(name: str) -> bool:
    """Return True if ACID writers use such a file name."""
    return _BUCKET.fullmatch(name) is not None


def is_union_directory(name: str) -> bool:
    """Return True if Tez writes the rows of a branch of UNION ALL to a directory of this name."""
    return _UNION.fullmatch(name) is not None


@value_class
class ListedDirectory:
    """A base, delta or delete delta as a listing shows it.

    Attributes:
        subdirectories: names of the directories in it, without hidden ones.
        marker: reads its file ``_metadata_acid`` and returns True if a compaction wrote the base; None if there is no
            such file. It is called only if that makes a difference, and may raise.
    """

    name: str
    subdirectories: tuple[str, ...] = ()
    marker: Callable[[], bool] | None = None


class ObsoleteReason(enum.Enum):
    """The reason to ignore a part of a transactional directory; the value is shown to users."""

    OLDER_BASE = "a newer base replaces it"
    INVALID_BASE = "its write id is invalid, or it includes an open transaction"
    COVERED = "the base or another delta includes its write ids"
    INVALID = "all its write ids are invalid or in another directory"
    SAME_COMPACTION = "a later compaction wrote the same write ids"
    HIDDEN_ORIGINAL = "a base replaces the original files"


@value_class
class Obsolete:
    """A directory or original file that readers ignore."""

    name: str
    reason: ObsoleteReason


@value_class
class AcidState:
    """The valid content of a transactional directory.

    Attributes:
        originals: the paths of the original files within the directory, ascending.
        obsolete: the ignored directories and files, by name.
    """

    base: AcidDirectory | None
    deltas: tuple[AcidDirectory, ...]
    delete_deltas: tuple[AcidDirectory, ...]
    originals: tuple[str, ...]
    obsolete: tuple[Obsolete, ...]

    @property
    def directories(self) -> tuple[AcidDirectory, ...]:
        """The base, the deltas and the delete deltas."""
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

    Args:
        path: the directory, for messages.
        originals: the paths of the non-empty original files within the directory.
        insert_only: True if the table cannot have deletes.

    Raises:
        TableError: if the directory does not have Hive's layout, or its history begins after the valid write ids.
    """
    parsed = []
    for item in directories:
        try:
            directory = parse_directory(item.name)
        except TableError as error:
            raise TableError(f"transactional directory {path!r} is invalid: {error}") from error
        if insert_only and directory.kind is DirectoryKind.DELETE_DELTA:
            raise TableError(
                f"transactional directory {path!r} is invalid: it has {item.name!r}, but the table is insert-only: "
                "insert-only tables have no delete deltas"
            )
        parsed.append((directory, item.marker))
    obsolete: list[Obsolete] = []
    bases = [_Base(directory, marker) for directory, marker in parsed if directory.kind is DirectoryKind.BASE]
    base = _select_base(bases, valid, obsolete)
    current = _select_deltas(
        [directory for directory, _ in parsed if directory.kind is not DirectoryKind.BASE],
        base,
        valid,
        obsolete,
    )
    originals = sorted(originals)
    if base is None:
        _check_history(path, bases, [0] * len(originals) + [item.min_write_id for item in current], valid)
    else:
        obsolete += [Obsolete(name, ObsoleteReason.HIDDEN_ORIGINAL) for name in originals]
        originals = []
    state = AcidState(
        base,
        tuple(item for item in current if item.kind is DirectoryKind.DELTA),
        tuple(item for item in current if item.kind is DirectoryKind.DELETE_DELTA),
        tuple(originals),
        tuple(sorted(obsolete, key=lambda item: item.name)),
    )
    _check_subdirectories(path, state, {item.name: item.subdirectories for item in directories})
    return state


def _check_subdirectories(path: str, state: AcidState, inside: Mapping[str, Sequence[str]]) -> None:
    """Refuse subdirectories of valid directories; obsolete directories are not read, whatever they contain."""
    for directory in state.directories:
        for name in inside[directory.name]:
            # the rows of a UNION ALL in an insert-only table, which deletes cannot affect
            if not is_union_directory(name) or state.delete_deltas:
                raise TableError(
                    f"transactional directory {path!r} is invalid: {directory.name!r} contains the directory "
                    f"{name!r}: remove it"
                )


class _Base:
    """A base whose marker is read at most once."""

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

    def sort_key(self) -> tuple[int, int, str]:
        return self.write_id, *_version(self.directory)


def _select_base(
    bases: Sequence[_Base], valid: ValidWriteIds, obsolete: list[Obsolete]
) -> AcidDirectory | None:
    ordered = sorted(bases, key=_Base.sort_key, reverse=True)
    selected = next((base for base in ordered if base.is_valid(valid)), None)
    if selected is not None and selected.directory.visibility is None:
        # bases without a version may have the same write id, under names of other widths
        same = [base for base in ordered if base.write_id == selected.write_id and base.is_valid(valid)]
        selected = (
            selected if len(same) == 1 else max(same, key=lambda base: (base.is_compacted, base.sort_key()))
        )
    for base in bases:
        if base is not selected:
            is_older = selected is not None and base.write_id <= selected.write_id
            obsolete.append(
                Obsolete(
                    base.directory.name,
                    ObsoleteReason.OLDER_BASE if is_older else ObsoleteReason.INVALID_BASE,
                )
            )
    return None if selected is None else selected.directory


def _check_history(path: str, bases: Sequence[_Base], since: Sequence[int], valid: ValidWriteIds) -> None:
    """Refuse a directory without a readable base if a base may have replaced visible rows.

    A compacted base has replaced rows. An aborted overwrite has not. Any other overwrite has if it was committed
    after the list of valid write ids was made, and the older files were cleaned up: then nothing older exists.

    Args:
        since: the first write ids of the selected directories.

    Raises:
        TableError: if visible rows may be missing.
    """
    ordered = sorted(bases, key=_Base.sort_key)
    compacted = next((base for base in ordered if base.is_compacted), None)
    if compacted is not None:
        raise TableError(
            f"transactional directory {path!r}: not enough history: the oldest compacted base is "
            f"{compacted.directory.name!r}, and the valid write ids (up to {valid.high_watermark}) do not include all "
            "of its own; read it with a newer list"
        )
    newer = next((base for base in ordered if base.write_id not in valid.aborted), None)
    if newer is not None and min(since, default=newer.write_id) >= newer.write_id:
        raise TableError(
            f"transactional directory {path!r}: not enough history: nothing is older than the base "
            f"{newer.directory.name!r}, which the valid write ids (up to {valid.high_watermark}) do not include; "
            "read it with a newer list"
        )


def _select_deltas(
    deltas: Sequence[AcidDirectory],
    base: AcidDirectory | None,
    valid: ValidWriteIds,
    obsolete: list[Obsolete],
) -> list[AcidDirectory]:
    current, last = (0 if base is None else base.min_write_id), -1
    selected: list[AcidDirectory] = []
    for item in sorted(_latest_versions(deltas, obsolete), key=_sort_key):
        if item.max_write_id > current:
            if not valid.any_valid(max(current + 1, item.min_write_id), item.max_write_id):
                obsolete.append(Obsolete(item.name, ObsoleteReason.INVALID))
                continue
            current, last = item.max_write_id, item.statement
        elif not (
            (item.max_write_id == current and last >= 0) or (selected and _has_same_range(item, selected[-1]))
        ):
            obsolete.append(Obsolete(item.name, ObsoleteReason.COVERED))
            continue
        selected.append(item)
    return selected


def _latest_versions(deltas: Sequence[AcidDirectory], obsolete: list[Obsolete]) -> list[AcidDirectory]:
    """Keep the newest delta of each range of write ids, if several compactions wrote it."""
    newest: dict[object, AcidDirectory] = {}
    for item in deltas:
        key = _range(item)
        previous = newest.get(key)
        newest[key] = item if previous is None else max(previous, item, key=_version)
    # two deltas without a version belong to one transaction, under names of other widths
    kept = {item.name for item in newest.values()}
    kept |= {
        item.name for item in deltas if item.visibility is None and newest[_range(item)].visibility is None
    }
    obsolete += [
        Obsolete(item.name, ObsoleteReason.SAME_COMPACTION) for item in deltas if item.name not in kept
    ]
    return [item for item in deltas if item.name in kept]


def _range(item: AcidDirectory) -> tuple[object, ...]:
    return item.kind, item.min_write_id, item.max_write_id, item.statement


def _version(item: AcidDirectory) -> tuple[int, str]:
    return (-1 if item.visibility is None else item.visibility), item.name


def _sort_key(item: AcidDirectory) -> tuple[int, int, int, str]:
    return item.min_write_id, -item.max_write_id, item.statement, item.name


def _has_same_range(a: AcidDirectory, b: AcidDirectory) -> bool:
    return (a.min_write_id, a.max_write_id, a.statement) == (b.min_write_id, b.max_write_id, b.statement)

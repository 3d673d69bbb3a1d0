"""What counts in one transactional directory: the base, deltas, delete deltas and original files that a reader sees.

The rule is that of Hive 3: a base stands for everything up to its write id, and deltas that cover more stand for
those that cover less.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hindex.errors import TableError
from hindex.orc.acid.names import AcidDirectory, DirectoryKind, parse_directory
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """A base, delta or delete delta as a listing shows it.

    :ivar subdirectories: names of the directories in it, but for hidden ones.
    :ivar is_marked_compacted: whether it has a file ``_metadata_acid``.
    """

    name: str
    subdirectories: tuple[str, ...] = ()
    is_marked_compacted: bool = False


class Why(enum.Enum):
    """Why something in a transactional directory does not count; the value is shown to people."""

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
    """What counts in a transactional directory.

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
    """What counts of a listing.

    :param path: of the directory, for messages.
    :param originals: paths of the original files within the directory that are not empty.
    :param insert_only: whether the table is known to have no deletes.
    :raises TableError: where the directory is not as Hive leaves one, or its history does not reach back as far as
        the valid write ids ask for.
    """
    parsed = []
    for item in directories:
        found = parse_directory(item.name)
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
        parsed.append((found, found.visibility is not None or item.is_marked_compacted))
    obsolete: list[Obsolete] = []
    bases = [(found, compacted) for found, compacted in parsed if found.kind is DirectoryKind.BASE]
    base = _base(path, bases, valid, obsolete)
    taken = _deltas(
        [found for found, _ in parsed if found.kind is not DirectoryKind.BASE], base, valid, obsolete
    )
    kept = sorted(originals)
    if base is not None:
        obsolete += [Obsolete(name, Why.HIDDEN_ORIGINAL) for name in kept]
        kept = []
    return AcidState(
        base,
        tuple(item for item in taken if item.kind is DirectoryKind.DELTA),
        tuple(item for item in taken if item.kind is DirectoryKind.DELETE_DELTA),
        tuple(kept),
        tuple(sorted(obsolete, key=lambda item: item.name)),
    )


def _base(
    path: str,
    bases: Sequence[tuple[AcidDirectory, bool]],
    valid: ValidWriteIds,
    obsolete: list[Obsolete],
) -> AcidDirectory | None:
    usable = [
        (base.min_write_id, compacted, base.visibility or 0, base.name, base)
        for base, compacted in bases
        if (valid.compacted_valid(base.min_write_id) if compacted else valid.valid(base.min_write_id))
    ]
    if bases and not usable:
        oldest = min((base for base, _ in bases), key=lambda base: base.min_write_id)
        raise TableError(
            f"transactional directory {path!r}: not enough history: the oldest base is {oldest.name!r}, which the "
            f"valid write ids (up to {valid.high_watermark}) do not include; read it with a newer list"
        )
    if not usable:
        return None
    chosen = max(usable)[-1]
    readable = {item[-1].name for item in usable}
    obsolete += [
        Obsolete(base.name, Why.OLDER_BASE if base.name in readable else Why.INVALID_BASE)
        for base, _ in bases
        if base is not chosen
    ]
    return chosen


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

"""Results of statements: small values; ``str()`` is a sentence, ``to_arrow()`` a table."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hindex.formatting import counted, megabytes, plural
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyarrow as pa


#: Maximum number of problems in the sentence of a check.
_SHOWN_PROBLEMS = 10


class IndexState(enum.Enum):
    """The state of an index relative to its table."""

    FRESH = "fresh"
    STALE = "stale"
    DEFERRED = "deferred"
    BUILDING = "building"
    QUARANTINED = "quarantined"
    TABLE_GONE = "table gone"
    UNUSABLE = "unusable"


class Record:
    """A dataclass of plain values whose fields are the columns of its Arrow row."""

    __slots__ = ()

    def to_arrow(self) -> pa.Table:
        """Return this result as a table of one row."""
        return records_table(type(self), [self])


def records_table(kind: type[Record], records: Sequence[Record]) -> pa.Table:
    """Return results of one kind as the rows of a table."""
    import pyarrow as pa

    kinds = {"int": pa.int64(), "bool": pa.bool_(), "float": pa.float64()}
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    arrays = {}
    for field in fields:
        name = str(field.type)
        data_type = pa.list_(pa.string()) if name.startswith("tuple") else kinds.get(name, pa.string())
        values = [getattr(record, field.name) for record in records]
        arrays[field.name] = pa.array([v.value if isinstance(v, enum.Enum) else v for v in values], data_type)
    return pa.table(arrays)


@value_class
class BuildEstimate(Record):
    """The estimate of a build; nothing was written.

    Args:
        files: number of data files to read.
        stripes: number of stripes in them; ``rows`` is the number of rows.
        read_bytes: estimated bytes to read: the column's share of the stripes.
        index_bytes: estimated size of the index.
        sampled_stripes: number of stripes from which both are estimated.
    """

    index: str
    table: str
    column: str
    type: str
    files: int
    stripes: int
    rows: int
    read_bytes: int
    index_bytes: int
    sampled_stripes: int

    def __str__(self) -> str:
        return (
            f"Index {self.index!r} would read {counted(self.files, 'file')} of {self.table!r} "
            f"({counted(self.stripes, 'stripe')}, {counted(self.rows, 'row')}, about {megabytes(self.read_bytes)}) "
            f"and take about {megabytes(self.index_bytes)}"
        )


@value_class
class RefreshResult(Record):
    """The result of a refresh or rebuild of a table's indexes, or of its dry run.

    Args:
        files_read: number of data files read: changed and new ones, or (in a rebuild) all.
        files_forgotten: number of data files that were deleted, or that the index no longer covers.
        rows: number of rows in the files read.
        changed: True if a new manifest was committed; without changes nothing is written.
        unusable: why indexes of the table were left out: they no longer fit its columns or partitions.
    """

    indexes: tuple[str, ...]
    table: str
    files_read: int
    files_forgotten: int
    rows: int
    changed: bool
    dry_run: bool = False
    unusable: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.indexes))
        subject = f"{'Index' if len(self.indexes) == 1 else 'Indexes'} {names} of {self.table!r}"
        if not (self.files_read or self.files_forgotten or self.changed):
            return f"{subject}: nothing to do{self._unusable_text()}"
        text = f"{subject}: {'would read' if self.dry_run else 'read'} {counted(self.files_read, 'file')} "
        text += f"({counted(self.rows, 'row')})"
        if self.files_forgotten:
            verb = "drop" if self.dry_run else "dropped"
            text += f", {verb} {counted(self.files_forgotten, 'deleted file')}"
        return text + self._unusable_text()

    def _unusable_text(self) -> str:
        return "".join(f"\nNot refreshed: {reason}" for reason in self.unusable)


@value_class
class AdoptResult(Record):
    """The result of ADOPT INDEXES, or of its dry run.

    Args:
        files_adopted: number of data files whose present times were recorded: copies of the indexed ones.
        files_fresh: number of data files whose entries were fresh already.
        files_differing: number of data files that differ from the indexed ones; a refresh reads them.
        files_gone: number of data files that are indexed and missing from the table.
        verified_stripes: number of stripes whose data was compared with an index.
    """

    indexes: tuple[str, ...]
    table: str
    files_adopted: int
    files_fresh: int
    files_differing: int
    files_gone: int
    verified_stripes: int
    dry_run: bool = False

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.indexes))
        text = f"{'Index' if len(self.indexes) == 1 else 'Indexes'} {names} of {self.table!r}: "
        if self.files_adopted:
            text += f"{'would adopt' if self.dry_run else 'adopted'} {counted(self.files_adopted, 'file')} "
            text += f"({counted(self.verified_stripes, 'stripe')} compared with the indexes)"
        else:
            text += "nothing to adopt"
        text += f"; {self.files_fresh:,} fresh already"
        if self.files_differing or self.files_gone:
            text += f"; {self.files_differing:,} different, {self.files_gone:,} gone: run REFRESH INDEXES for these"
        return text


@value_class
class DropResult(Record):
    """The result of DROP INDEX.

    Args:
        partitions: the predicate of a partial drop; None if the whole index was dropped.
        files: number of data files whose index files were dropped.
        dropped: False if there was no such index and IF EXISTS allowed it.
    """

    index: str
    table: str | None
    partitions: str | None
    files: int
    dropped: bool

    def __str__(self) -> str:
        if not self.dropped:
            return f"Index {self.index!r} does not exist, nothing was dropped"
        action = "dropped" if self.partitions is None else f"dropped for {self.partitions}"
        return f"Index {self.index!r} of {self.table!r} {action}; VACUUM INDEXES frees its space"


@value_class
class RenameResult(Record):
    """The result of ALTER INDEX ... RENAME."""

    index: str
    new_name: str
    table: str

    def __str__(self) -> str:
        return f"Index {self.index!r} of {self.table!r} is now {self.new_name!r}"


@value_class
class CheckResult(Record):
    """The result of checking an index.

    Args:
        files: number of data files in the partitions of the index. Of these, ``fresh`` are indexed in their current
            state, ``changed`` in an older state, and ``added`` not at all. ``gone`` are indexed and deleted.
        rows_covered: percentage of the rows, rounded down.
        verified_stripes: number of stripes whose data was compared with the index; 0 without VERIFY.
        problems: damaged files and wrong answers, a sentence each.
        notes: files that VERIFY skipped, with the reason, a sentence each.
    """

    index: str
    table: str
    state: IndexState
    files: int
    fresh: int
    changed: int
    added: int
    gone: int
    rows_covered: float
    verified_stripes: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True if nothing is damaged or wrong.

        A stale index is neither.
        """
        return not self.problems

    def __str__(self) -> str:
        covered = (
            f"Index {self.index!r} of {self.table!r} is {self.state.value}: {self.fresh:,} of "
            f"{counted(self.files, 'file')} indexed, {self.rows_covered:g} % of the rows"
        )
        verified = [f"{counted(self.verified_stripes, 'stripe')} verified"] if self.verified_stripes else []
        more = len(self.problems) - _SHOWN_PROBLEMS
        hidden = [f"{more:,} more {plural(more, 'problem')} in .problems"] if more > 0 else []
        return "; ".join([covered, *verified, *self.problems[:_SHOWN_PROBLEMS], *hidden, *self.notes])

    def __repr__(self) -> str:
        return str(self)


@value_class
class VacuumedFile(Record):
    """A file that VACUUM removed; its path is relative to the store."""

    path: str
    bytes: int
    reason: str


@value_class
class VacuumResult(Record):
    """The result of VACUUM on one table's store, or of its dry run.

    Args:
        kept_young: number of unneeded files that are kept for the retention.
    """

    table: str
    files: tuple[VacuumedFile, ...]
    bytes: int
    kept_young: int
    retain_hours: float
    dry_run: bool
    removed_store: bool

    def to_arrow(self) -> pa.Table:
        """Return the files as a table, a row each."""
        return records_table(VacuumedFile, self.files)

    def __str__(self) -> str:
        removed = "the store" if self.removed_store else counted(len(self.files), "file")
        young = (
            f"; {self.kept_young:,} more not needed, kept for {self.retain_hours:g} h"
            if self.kept_young
            else ""
        )
        return (
            f"{'Would remove' if self.dry_run else 'Removed'} {removed} of {self.table!r} "
            f"({megabytes(self.bytes)}){young}"
        )

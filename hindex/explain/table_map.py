"""A table as a map: its stripes as lines of row groups, each with what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: What becomes of a row group, as a character of :attr:`StripeMap.cells`, and what people are told.
SKIPPED, BY_INDEX, SELECTED, WHOLE = ".isw"
MEANINGS = {
    SKIPPED: "skipped",
    BY_INDEX: "answered without reading",
    SELECTED: "read in part",
    WHOLE: "read whole",
}

#: Most stripes, and most row groups, that a map shows.
MAX_STRIPES = 300
MAX_CELLS = 20_000


@dataclass(frozen=True, slots=True)
class StripeMap:
    """One stripe, ``number`` counted from 0, with a character for each row group."""

    number: int
    cells: str


@dataclass(frozen=True, slots=True)
class FileMap:
    """One data file. Of one that was skipped before it was opened, there are no stripes to show."""

    path: str
    stripes: tuple[StripeMap, ...] = ()
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class TableMap:
    """The files that are shown, in order of path, and how many files, stripes and row groups there are besides."""

    files: tuple[FileMap, ...] = ()
    more_files: int = 0
    more_stripes: int = 0
    more_groups: int = 0

    def __str__(self) -> str:
        """Describe the part that is not shown; empty if all is."""
        counts = (
            (self.more_files, "file", "files"),
            (self.more_stripes, "stripe", "stripes"),
            (self.more_groups, "row group", "row groups"),
        )
        told = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count]
        return f"not shown: {', '.join(told)}" if told else ""


def table_map(files: Iterable[FileMap]) -> TableMap:
    """The map of a table's files, cut where it would be too large."""
    shown: list[FileMap] = []
    stripes = cells = more_files = more_stripes = more_groups = 0
    for file in files:
        kept = []
        for stripe in file.stripes:
            room = MAX_CELLS - cells
            if stripes >= MAX_STRIPES or not room:
                more_stripes += 1
                more_groups += len(stripe.cells)
                continue
            kept.append(StripeMap(stripe.number, stripe.cells[:room]))
            more_groups += max(len(stripe.cells) - room, 0)
            cells += len(kept[-1].cells)
            stripes += 1
        if kept or (not file.stripes and stripes < MAX_STRIPES):
            stripes += not file.stripes
            shown.append(FileMap(file.path, tuple(kept), file.is_skipped))
        else:
            more_files += 1
    return TableMap(tuple(shown), more_files, more_stripes, more_groups)

"""The files and directories of a table."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file met while walking: its directory relative to the table (``""`` is the table) and its name."""

    directory: str
    name: str
    length: int
    mtime_ns: int
    changed_ns: int | None = None

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}" if self.directory else self.name


@dataclass(slots=True)
class DirectoryTree:
    """The visible files of a table, and what makes directories of it transactional.

    ``acid`` maps each base, delta and delete delta to the names of visible directories in it, and ``markers`` are the
    hidden files of these that are looked for, by path.
    """

    files: list[ListedFile] = field(default_factory=list)
    acid: dict[str, list[str]] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)

"""A scan task: everything that is needed to read the wanted rows of one data file, as a plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hindex.domain import Domain
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Filter


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column to read: its name in the table, its type there, and its value where the partition fixes it."""

    name: str
    type: OrcType
    is_partition: bool = False
    partition_value: pa.Scalar[Any] | None = None


@dataclass(frozen=True, slots=True)
class IndexUse:
    """An index file that may answer for a column; ``path`` is absolute."""

    name: str
    column: str
    path: str
    length: int
    footer_checksum: int


@dataclass(frozen=True, slots=True)
class LocatedGroups:
    """The row groups that may match one leaf, found on the driver by an index of many data files.

    :ivar row_group_rows: rows of a row group, of which the last in a stripe may have fewer; 0 where a stripe is one.
    :ivar groups: a roaring bitmap of row groups, numbered from 0 through all stripes.
    """

    name: str
    column: str
    domain: Domain
    row_group_rows: int
    groups: bytes


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Read the rows of one data file that a filter keeps. Small and picklable: any engine can run it.

    ``filter`` has no partition columns left. ``lookups`` are columns that are asked of indexes and, where these do not
    tell, read: those of aggregates and of an order. With ``reads_all``, nothing is asked but the data. ``indexes`` and
    ``located`` may be used only if the file's length, modification time and tail checksum are still ``length``,
    ``mtime_ns``, both as listed, and ``tail_checksum``.
    ``binding`` names the table's data columns, against which the file's own columns are matched by name; these are
    ``names``, if it is still the file of that length and checksum. ``acid`` tells the rows of a transactional table's
    file that are there. ``timezone`` is the reader's time zone: with it, ``timestamp`` columns are read as instants,
    which ``filter`` is on.
    """

    path: str
    uri: str
    length: int
    mtime_ns: int
    tail_checksum: int | None
    filter: Filter
    filter_columns: tuple[OutputColumn, ...]
    columns: tuple[OutputColumn, ...]
    binding: tuple[str, ...]
    indexes: tuple[IndexUse, ...] = ()
    located: tuple[LocatedGroups, ...] = ()
    partition: tuple[str | None, ...] = ()
    lookups: tuple[OutputColumn, ...] = ()
    reads_all: bool = False
    acid: AcidFile | None = None
    names: tuple[str, ...] = ()
    timezone: str | None = None

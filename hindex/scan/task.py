"""A scan task: everything that is needed to read the wanted rows of one data file, as a plain value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hindex.orc.types import OrcType
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
class ScanTask:
    """Read the rows of one data file that a filter keeps. Small and picklable: any engine can run it.

    ``filter`` has no partition columns left. ``indexes`` may be used only if the file's length and tail
    checksum are still ``length`` and ``tail_checksum``. ``binding`` names the table's data columns, against
    which the file's own columns are matched by name.
    """

    path: str
    uri: str
    length: int
    tail_checksum: int | None
    filter: Filter
    filter_columns: tuple[OutputColumn, ...]
    columns: tuple[OutputColumn, ...]
    binding: tuple[str, ...]
    indexes: tuple[IndexUse, ...] = ()
    partition: tuple[str | None, ...] = ()

"""Scan tasks: the plan of reading one data file, and the rows of its stripes that lookups leave."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.index.index_type import Bounds, KeyRows
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Filter, Indexable
from hindex.scan.orc_statistics import StatisticsSource
from hindex.store.segment import MetadataCopy
from hindex.value_class import value_class


@value_class
class OutputColumn:
    """One column to read: its name in the table, its type there, and its value where the partition fixes it.

    Of an expression, only indexes have the values: it is not read.
    """

    name: str
    type: OrcType
    is_partition: bool = False
    partition_value: pa.Scalar[Any] | None = None
    is_expression: bool = False


@value_class
class IndexUse:
    """An index file that may answer for a column; ``path`` is absolute.

    ``expression_type`` is the type of an expression, which is no column of the file; None for a column.
    """

    name: str
    column: str
    path: str
    length: int
    footer_checksum: int
    expression_type: OrcType | None = None


@value_class
class IncludedUse:
    """The file of an index of type ROWS; ``path`` is absolute.

    Attributes:
        columns: the names of its columns in the table, and ``types``, the struct of these as text.
    """

    name: str
    columns: tuple[str, ...]
    types: str
    rows_per_block: int
    path: str
    length: int
    footer_checksum: int


@value_class
class CandidateRowGroups:
    """The row groups that may match one leaf, found on the driver by an index of many data files.

    Attributes:
        row_group_rows: rows of a row group, of which the last in a stripe may have fewer; 0 where a stripe is one.
        groups: a roaring bitmap of row groups, numbered from 0 through all stripes.
    """

    name: str
    column: str
    domain: Domain
    row_group_rows: int
    groups: bytes


@value_class
class ScanTask:
    """Read the rows of one data file that a filter keeps. Small and picklable: any engine can run it.

    ``filter`` has no partition columns left. ``lookups`` are columns that are asked of indexes and, where these do not
    tell, read: those of aggregates and of an order. With ``reads_all``, nothing is asked but the data; with
    ``always_looks_up``, indexes are read even if decoding the column takes no longer; with ``keeps_errors``,
    rows whose condition raises an error are kept, for a filter above to decide. Columns may be read from the
    ``included`` indexes. ``indexes``, ``included`` and ``candidates`` may be used only if the file's length,
    modification time and tail checksum are still ``length``, ``mtime_ns``, both as listed, and ``tail_checksum``.
    ``binding`` names the table's data columns, against which the file's own columns are matched by name; these are
    ``names``, if it is still the file of that length and checksum. ``acid`` tells the rows of a transactional table's
    file that are there. ``version`` is that of the file in the listing of a remote store, and
    ``metadata`` the copy of that version's metadata, if there is one. ``timezone`` is the reader's
    time zone: with it, ``timestamp`` columns are read as instants, which ``filter`` is on.
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
    candidates: tuple[CandidateRowGroups, ...] = ()
    partition: tuple[str | None, ...] = ()
    lookups: tuple[OutputColumn, ...] = ()
    reads_all: bool = False
    always_looks_up: bool = False
    keeps_errors: bool = False
    acid: AcidFile | None = None
    names: tuple[str, ...] = ()
    timezone: str | None = None
    version: Hashable | None = None
    metadata: MetadataCopy | None = None
    included: tuple[IncludedUse, ...] = ()


@value_class
class LeafResult:
    """The answer of one source to one condition for one stripe.

    A condition has one for each source, in lookup order.

    ``index`` is None where the file itself has no such column. ``rows`` may match by this answer and those before
    it, and ``exact`` says that these leave nothing to check. What the file's own statistics, filters and place say has
    its ``source`` instead of an index; of the ``groups`` row groups that it was asked about, ``groups_kept`` are left
    (the place is asked about none).
    """

    leaf: Indexable
    index: str | None
    rows: int
    exact: bool = True
    source: StatisticsSource | None = None
    groups_kept: int = 0
    groups: int = 0


@dataclass(slots=True)
class StripeResult:
    """The rows of one stripe that are certainly, and possibly, wanted.

    ``unanswered`` are the conditions that no index could answer; those that no longer mattered are in neither. Of a
    transactional table, ``key_columns`` of the file tell the rows that are ``deleted`` and ``invisible``.
    ``values`` are the keys of some columns at all rows that may be wanted, from their indexes.
    """

    stripe: int
    num_rows: int
    bounds: Bounds
    leaf_results: list[LeafResult] = field(default_factory=list)
    unanswered: list[Indexable] = field(default_factory=list)
    deleted: int = 0
    invisible: int = 0
    key_columns: tuple[str, ...] = ()
    values: dict[str, KeyRows] = field(default_factory=dict)

    @property
    def indexes(self) -> Iterator[str]:
        """The names of the indexes that answered; of one that answered for several leaves, several times."""
        return (item.index for item in self.leaf_results if item.index is not None)

    @property
    def undecided(self) -> int:
        return len(self.bounds.upper) - len(self.bounds.lower)

    def first(self, limit: int | None) -> StripeResult:
        """Without certain rows beyond a limit: a stripe need not give more than are asked for."""
        if limit is None or self.undecided or len(self.bounds.lower) <= limit:
            return self
        kept = BitMap(islice(self.bounds.lower, max(limit, 0)))
        return replace(self, bounds=Bounds.exactly(kept))

    def after(self, offset: int) -> StripeResult:
        """Return the result without its first rows; all rows must be decided."""
        return replace(self, bounds=Bounds.exactly(self.bounds.lower[offset:]))

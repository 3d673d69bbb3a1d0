"""Scan tasks: the plan to read one data file, and the lookup results of its stripes."""

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
    """A column to read: its name and type in the table, and its value if it is a partition column.

    An expression is not read: only indexes have its values.
    """

    name: str
    type: OrcType
    is_partition: bool = False
    partition_value: pa.Scalar[Any] | None = None
    is_expression: bool = False


@value_class
class IndexUse:
    """An index file that may answer conditions on a column; ``path`` is absolute.

    ``expression_type`` is the type of an expression, which the file has no column for; None for a column.
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
        columns: the names of its columns in the table.
        types: the struct type of these columns, as a string.
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
    """The row groups that may match one leaf, as the driver looked them up in an index of many data files.

    Attributes:
        row_group_rows: the rows of a row group, fewer in the last of a stripe; 0 if each stripe is one row group.
        groups: a serialised roaring bitmap of row groups, numbered from 0 through all stripes.
    """

    name: str
    column: str
    domain: Domain
    row_group_rows: int
    groups: bytes


@value_class
class ScanTask:
    """The plan to read the rows of one data file that a filter keeps. Small and picklable: any engine can run it.

    ``indexes``, ``included`` and ``candidates`` may be used only if the file still has the listed ``length`` and
    ``mtime_ns``, and the recorded ``tail_checksum``.

    Attributes:
        filter: the filter, without partition columns.
        binding: the table's data columns, which the file's own columns are matched with by name.
        lookups: the columns of aggregates and of an order: their values come from indexes, or else are read.
        reads_all: no index or statistics are used, only the data.
        always_looks_up: indexes are read even if decoding the column takes no longer.
        keeps_errors: rows whose condition raises an error are kept, for a filter above to decide.
        acid: the file of a transactional table, with its delete files.
        names: the file's own columns, if it still has that length and checksum.
        timezone: the reader's time zone: with it, ``timestamp`` columns are read as instants, also in ``filter``.
        version: the version of the file in the listing of a remote store.
        metadata: the copy of that version's metadata, if there is one.
        included: indexes from which columns may be read.
        first_stripe: the first stripe that the task reads.
        end_stripe: the stripe after the last one to read; None to read to the end, even if the file has grown.
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
    first_stripe: int = 0
    end_stripe: int | None = None


@value_class
class LeafResult:
    """The answer of one source to one condition for one stripe.

    A condition has one result for each source, in lookup order.

    Attributes:
        index: the name of the index; None if the answer is from the file itself.
        rows: the number of rows that may match by this answer and those before it.
        exact: True if all of these rows match.
        source: the file's statistics, bloom filters or path; None for an index, or if the file lacks the column.
        groups_kept: the row groups that may match, of the ``groups`` row groups that the source tested.
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
    """The rows of one stripe that certainly, and possibly, match.

    Attributes:
        unanswered: the conditions that no index could answer. Conditions that no longer mattered are neither here
            nor in ``leaf_results``.
        deleted: the number of deleted rows of a transactional table that are removed from ``bounds``.
        invisible: the number of rows that are removed because they are not visible.
        key_columns: the file's columns that decide which rows these are.
        values: the keys of some columns at all rows that may match, from their indexes.
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
        """The names of the indexes that answered, one for each leaf that they answered."""
        return (item.index for item in self.leaf_results if item.index is not None)

    @property
    def undecided(self) -> int:
        return len(self.bounds.upper) - len(self.bounds.lower)

    def first(self, limit: int | None) -> StripeResult:
        """Return the result with at most ``limit`` rows, if all rows are decided; otherwise the result itself."""
        if limit is None or self.undecided or len(self.bounds.lower) <= limit:
            return self
        kept = BitMap(islice(self.bounds.lower, max(limit, 0)))
        return replace(self, bounds=Bounds.exactly(kept))

    def after(self, offset: int) -> StripeResult:
        """Return the result without its first rows; all rows must be decided."""
        return replace(self, bounds=Bounds.exactly(self.bounds.lower[offset:]))

"""The BTREE index type (Hive's COMPACT): every key of a column with the row groups that hold it.

One index file covers many data files: those of a partition or of the whole table. It is one B+tree, whose leaves
are like BITMAP's with the numbers of row groups in the place of rows (:mod:`hindex.index.btree_locations`). A large
index is several files, each with a range of the keys.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.domain import Key
from hindex.index import roaring
from hindex.index.btree_locations import IndexedFile, first_locations, write_locations
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import VALUES_PER_PAGE, page_message
from hindex.index.index_file import BinarySink, Footer, IndexFileWriter
from hindex.index.index_type import (
    Level,
    Operator,
    check_column,
    mean_key_bytes,
    resolve_properties,
)
from hindex.index.leaf_page import ByteKeys
from hindex.index.tree_writer import Int64s, TreeWriter, UInt32s, key_at, write_bitmap
from hindex.keys import KeyKind, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb


@dataclass(frozen=True, slots=True)
class BTreeFileSummary:
    """A finished file: what the manifest records of it. ``length`` is in bytes.

    ``extent.rows`` are pairs of a key and a row group, ``extent.null_count`` the row groups with a null.
    """

    length: int
    footer_crc32c: int
    key_count: int
    extent: ColumnStats


class BTreeWriter:
    """Writes one BTREE index file, its keys ascending. What is added is not held back.

    :param sink: a path that must not exist, or something to write to that the caller closes.
    :param data_type: the column's type in the table, whose keys are given.
    :param files: the data files whose row groups are numbered.
    :raises ColumnError: if columns of this type cannot be indexed.
    :raises HindexError: if a property is unknown or ill-formed.
    :raises ValueError: if there are too many row groups to be numbered.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        files: Sequence[IndexedFile],
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._type = data_type
        self._kind = check_column(BTREE, column, data_type)
        self._column = column
        self._metadata = dict(metadata or {})
        self._properties = resolve_properties(BTREE, properties)
        self._files = files
        self._locations = first_locations(files)[-1]
        if self._locations > roaring.MAX_ROWS:
            raise ValueError(f"{self._locations} row groups are more than can be numbered")
        self._nulls: UInt32s = np.zeros(0, np.uint32)
        self._ends: tuple[Key, Key] | None = None
        self._writer = IndexFileWriter(sink)
        self._tree = TreeWriter(self._writer, int(self._properties["values_per_page"]))

    def add(self, keys: Int64s | ByteKeys, starts: Int64s, locations: UInt32s) -> None:
        """Add keys, all above those before, with ``locations[starts[i]:starts[i + 1]]``, ascending, of key ``i``."""
        if not len(keys):
            return
        last = key_at(keys, len(keys) - 1)
        self._ends = (key_at(keys, 0) if self._ends is None else self._ends[0], last)
        self._tree.add(keys, starts, locations)

    def add_nulls(self, locations: npt.NDArray[np.uint32]) -> None:
        """Add row groups that hold a null."""
        self._nulls = np.union1d(self._nulls, locations)

    def finish(self) -> BTreeFileSummary:
        """Write nulls, locations and the footer; an own file is made durable and closed."""
        tree = self._tree
        body = pb.BTreeBody(locations=self._locations, null_count=len(self._nulls), key_count=sum(tree.keys))
        if len(self._nulls):
            body.nulls.CopyFrom(page_message(write_bitmap(self._writer, roaring.from_sorted(self._nulls))))
        for page, first in write_locations(self._writer, self._files):
            body.location_pages.add(page=page_message(page), first=first)
        end = 0
        for page in tree.pages:
            if page.offset != end:
                body.runs.add(offset=page.offset)
            body.runs[-1].leaves += 1
            end = page.offset + page.length
        body.leaf_length.extend(page.length for page in tree.pages)
        body.leaf_crc32c.extend(page.crc32c for page in tree.pages)
        body.leaf_keys.extend(tree.keys)
        body.leaf_rows.extend(tree.rows)
        bounds = body.int_bounds if self._kind is KeyKind.INT64 else body.byte_bounds
        bounds.extend(tree.bounds)  # type: ignore[arg-type]
        footer = Footer(
            index_type=BTREE.name,
            column=self._column,
            column_type=str(self._type),
            key_kind=self._kind,
            properties=self._properties,
            metadata=self._metadata,
            body=body.SerializeToString(deterministic=True),
            writer="hindex",
        )
        length, crc = self._writer.finish(footer)
        low, high = self._ends if self._ends is not None else (None, None)
        extent = ColumnStats(sum(tree.rows), len(self._nulls), low, high)
        return BTreeFileSummary(length, crc, sum(tree.keys), extent)

    def abort(self) -> None:
        """Give up; an own file is removed."""
        self._writer.abort()


class BTreeIndex:
    """The BTREE type, as :class:`~hindex.index.index_type.IndexType` describes it."""

    name = "BTREE"
    order = 25
    levels = frozenset({Level.PARTITION, Level.TABLE})
    operators = frozenset(Operator)
    properties = (VALUES_PER_PAGE,)

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

    def estimate_bytes(self, data_type: OrcType, rows: int, distinct: int) -> int:
        distinct = max(min(distinct, rows), 1)
        # each key is in a row group of 10,000 rows, or in so many as it has rows
        entries = min(rows, distinct * max(rows // 10_000, 1))
        bits = math.log2(max(rows / 10_000, 2)) + 1
        return int(entries * bits / 8 + distinct * mean_key_bytes(data_type))


BTREE = BTreeIndex()

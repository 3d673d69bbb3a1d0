"""Looking up rows in a BITMAP index file: a tree of leaf pages for each stripe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key, Range
from hindex.errors import IndexFileError
from hindex.index.file_builder import page_ref
from hindex.index.index_file import IndexFileReader, PageRef
from hindex.index.index_type import Bounds, KeyCounts, KeyRows, LookupCost
from hindex.index.leaf_page import OverflowRows
from hindex.index.roaring import MAX_ROWS
from hindex.index.tree_reader import TreeReader, clipped
from hindex.keys import KeyKind, join_keys
from hindex.proto import index_file_pb2 as pb


@dataclass(slots=True)
class _Stripe:
    """The directory of one stripe."""

    rows: int
    null_count: int
    key_count: int
    nulls: PageRef | None
    tree: TreeReader


class BitmapReader:
    """Reads a BITMAP index file; may be shared by threads.

    :raises IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        self._kind = file.footer.key_kind
        if file.footer.index_type != "BITMAP":
            raise file.error(f"it holds a {file.footer.index_type!r} index where BITMAP is expected")
        try:
            body = pb.BitmapBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.BitmapStripe) -> _Stripe:
        def broken(message: object) -> IndexFileError:
            return self.file.error(f"the directory of stripe {number}: {message}")

        if len(item.leaf_length) != len(item.leaf_crc32c):
            raise broken("its lists are not of one length")
        if item.rows > MAX_ROWS:
            raise broken(f"it counts {item.rows} rows")
        if sum(item.leaf_rows) + item.null_count != item.rows or sum(item.leaf_keys) != item.key_count:
            raise broken("its rows or keys do not add up")
        if bool(item.null_count) != item.HasField("nulls"):
            raise broken("its null rows are not where they should be")
        leaves, at = [], item.leaf_offset
        for length, crc in zip(item.leaf_length, item.leaf_crc32c, strict=True):
            leaves.append(PageRef(at, length, crc))
            at += length
        bounds: list[Key] = list(item.int_bounds if self._kind is KeyKind.INT64 else item.byte_bounds)
        try:
            tree = TreeReader(
                self.file,
                total=item.rows,
                leaves=leaves,
                leaf_keys=item.leaf_keys,
                leaf_rows=item.leaf_rows,
                bounds=bounds,
            )
        except ValueError as error:
            raise broken(error) from error
        return _Stripe(
            rows=item.rows,
            null_count=item.null_count,
            key_count=item.key_count,
            nulls=page_ref(item.nulls) if item.null_count else None,
            tree=tree,
        )

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """Rows of each stripe, nulls included."""
        return tuple(stripe.rows for stripe in self._stripes)

    def null_count(self, stripe: int) -> int:
        """Null rows of a stripe."""
        return self._stripes[stripe].null_count

    def key_count(self, stripe: int) -> int:
        """Distinct non-null values of a stripe."""
        return self._stripes[stripe].key_count

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """The rows of a stripe whose value is in ``domain``: exact, always.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        held = self._stripes[stripe]
        ranges = clipped(domain.ranges) if self._kind is KeyKind.INT64 else domain.ranges
        if ranges == (Range(),):
            if domain.null_allowed or not held.null_count:
                return Bounds.all(held.rows)
            return Bounds.exactly(self._but(held, self._nulls(held)))
        if not ranges or not len(held.tree):
            return Bounds.exactly(self._nulls(held) if domain.null_allowed else BitMap())
        wanted = held.tree.wanted(ranges)
        if 2 * held.tree.count_rows(wanted) > held.rows - held.null_count:
            # most values are members: the few that are not are cheaper to find
            others = Domain(ranges).complement(null_allowed=not domain.null_allowed)
            excluded = held.tree.rows(held.tree.wanted(others.ranges))
            if others.null_allowed:
                excluded = excluded | self._nulls(held)
            return Bounds.exactly(self._but(held, excluded))
        found = held.tree.rows(wanted)
        if domain.null_allowed:
            found = found | self._nulls(held)
        return Bounds.exactly(found)

    def null_rows(self, stripe: int) -> BitMap:
        """The null rows of a stripe."""
        return self._nulls(self._stripes[stripe])

    def key_counts(self, stripe: int, rows: BitMap | None = None) -> KeyCounts:
        """See :class:`~hindex.index.index_type.KeyedReader`."""
        held = self._stripes[stripe]
        if rows is not None and len(rows) == held.rows:
            rows = None
        nulls = held.null_count if rows is None else self._nulls(held).intersection_cardinality(rows)
        parts = held.tree.key_counts(rows)
        counts = np.concatenate([counts for _, counts in parts]) if parts else np.zeros(0, np.int64)
        return KeyCounts(join_keys(self._kind, [keys for keys, _ in parts]), counts, nulls)

    def key_rows(
        self, stripe: int, rows: BitMap | None = None, *, descending: bool = False
    ) -> Iterator[KeyRows]:
        """See :class:`~hindex.index.index_type.KeyedReader`."""
        held = self._stripes[stripe]
        if rows is not None and len(rows) == held.rows:
            rows = None
        return held.tree.key_rows(rows, descending=descending)

    def effort(self, stripe: int, domain: Domain) -> LookupCost:
        """See :class:`~hindex.index.index_type.CostedReader`."""
        held = self._stripes[stripe]
        filled = held.rows - held.null_count
        nulls = held.null_count if domain.null_allowed else 0
        if not len(held.tree) or domain.has_every_value:
            return LookupCost((filled if domain.has_every_value else 0) + nulls, 0)
        found = held.tree.effort(held.tree.wanted(domain.ranges))
        rows = found.rows
        if 2 * rows > filled:
            others = Domain(domain.ranges).complement(null_allowed=False)
            found = held.tree.effort(held.tree.wanted(others.ranges))
        return LookupCost(rows + nulls, found.walked, found.pages)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _but(self, held: _Stripe, rows: BitMap) -> BitMap:
        return BitMap(range(held.rows)) - rows

    def _nulls(self, held: _Stripe) -> BitMap:
        if held.nulls is None:
            return BitMap()
        return held.tree.bitmaps([OverflowRows(held.null_count, held.nulls)])[0]

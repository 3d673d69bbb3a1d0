"""A column decoded whole, from the stripe's start: composite types, and files without a row index.

Source: ORC specification v1, "Struct Columns", "List Columns", "Map Columns" and "Union Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.columns.arrays import fixed_array, validity
from hindex.orc.columns.context import ColumnContext
from hindex.orc.columns.layout import has_present, stream_layout, whole_stream
from hindex.orc.columns.primitive import read_primitive
from hindex.orc.compression import Decompressor
from hindex.orc.selection import RowSelection
from hindex.orc.streams import Fetched
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.tail import FileTail
from hindex.orc.types import Kind, OrcType

Ints = npt.NDArray[np.int64]

FetchedColumn = Mapping[StreamKind, Fetched]


class WholeColumns:
    """Decodes columns of one stripe whole; ``fetched`` gives a column's streams by its number."""

    def __init__(
        self,
        tail: FileTail,
        stripe: Stripe,
        decompressor: Decompressor,
        fetched: Callable[[int], FetchedColumn],
    ) -> None:
        self._tail = tail
        self._stripe = stripe
        self._decompressor = decompressor
        self._fetched = fetched

    def read(self, of: OrcType, count: int) -> pa.Array:
        """The first ``count`` values of a column, nulls of its parents not counted."""
        if of.is_primitive:
            layout = stream_layout(of, self._stripe.encodings[of.column], self._tail.version)
            return read_primitive(self._context(of, count, layout), self._tail, self._stripe)
        match of.kind:
            case Kind.STRUCT:
                return self._struct(of, count)
            case Kind.LIST:
                return self._list(of, count)
            case Kind.MAP:
                return self._map(of, count)
            case _:
                return self._union(of, count)

    def _context(self, of: OrcType, count: int, layout: tuple[tuple[StreamKind, int], ...]) -> ColumnContext:
        return ColumnContext(
            of,
            self._stripe.encodings[of.column],
            RowSelection(count).groups(0),
            np.array([count] if count else [], np.int64),
            whole_stream(layout, has_present=has_present(self._stripe, of.column)) if count else {},
            self._fetched(of.column),
            self._decompressor,
            dictionary_size=self._stripe.dictionary_sizes[of.column],
        )

    def _struct(self, of: OrcType, count: int) -> pa.Array:
        wanted = self._context(of, count, ()).wanted
        children = [self.read(child, len(wanted.ranks)) for child in of.children]
        arrow = of.to_arrow()
        if wanted.valid is not None:
            slots = fixed_array(pa.int64(), np.arange(len(wanted.ranks)), wanted.valid)
            children = [child.take(slots) for child in children]
        return pa.Array.from_buffers(arrow, count, [validity(wanted.valid)], children=children)

    def _lengths(self, of: OrcType, count: int) -> tuple[list[pa.Buffer | None], int]:
        context = self._context(of, count, ((StreamKind.LENGTH, 1),))
        lengths = context.integers(StreamKind.LENGTH, signed=False) if len(context.wanted.ranks) else _NO_INTS
        if len(lengths) and (lengths.min() < 0 or lengths.max() > np.iinfo(np.int32).max):
            raise OrcError("a list's length is negative or absurdly large", stream="LENGTH")
        total = int(lengths.sum())
        if total > np.iinfo(np.int32).max:
            raise OrcError(
                f"the stripe's lists have {total} elements, more than one array holds", stream="LENGTH"
            )
        full = lengths
        if context.wanted.valid is not None:
            full = np.zeros(count, np.int64)
            full[context.wanted.valid] = lengths
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(full, out=offsets[1:])
        return [validity(context.wanted.valid), pa.py_buffer(offsets)], total

    def _list(self, of: OrcType, count: int) -> pa.Array:
        buffers, total = self._lengths(of, count)
        return pa.Array.from_buffers(
            of.to_arrow(), count, buffers, children=[self.read(of.children[0], total)]
        )

    def _map(self, of: OrcType, count: int) -> pa.Array:
        buffers, total = self._lengths(of, count)
        arrow = of.to_arrow()
        keys, values = (self.read(child, total) for child in of.children)
        if keys.null_count:
            raise OrcError("a map has a null key, which Arrow cannot hold")
        entries = pa.StructArray.from_arrays([keys, values], fields=[arrow.key_field, arrow.item_field])
        return pa.Array.from_buffers(arrow, count, buffers, children=[entries])

    def _union(self, of: OrcType, count: int) -> pa.Array:
        context = self._context(of, count, ((StreamKind.DATA, 1),))
        tags = context.bytes(StreamKind.DATA) if len(context.wanted.ranks) else np.zeros(0, np.uint8)
        if len(tags) and int(tags.max()) >= len(of.children):
            raise OrcError(
                f"a union's tag is {int(tags.max())} of {len(of.children)} children", stream="DATA"
            )
        children, offsets = [], np.zeros(len(tags), np.int32)
        for tag, child in enumerate(of.children):
            mine = tags == tag
            children.append(self.read(child, int(mine.sum())))
            offsets[mine] = np.arange(int(mine.sum()))
        ids = tags.astype(np.int8)
        if context.wanted.valid is not None:
            # Arrow's unions have no nulls of their own: a null is a null of the first child
            null_slot = len(children[0])
            children[0] = pa.concat_arrays([children[0], pa.nulls(1, children[0].type)])
            full_ids, full_offsets = np.zeros(count, np.int8), np.full(count, null_slot, np.int32)
            full_ids[context.wanted.valid], full_offsets[context.wanted.valid] = ids, offsets
            ids, offsets = full_ids, full_offsets
        names = [f"_union_{i}" for i in range(len(children))]
        return pa.UnionArray.from_dense(
            fixed_array(pa.int8(), ids, None), fixed_array(pa.int32(), offsets, None), children, names
        )


_NO_INTS = np.zeros(0, np.int64)

"""Columns of any type at some rows: structs, lists, maps and unions lead to rows of their children.

A child has values only where its parents are not null, and its row index counts just these. So the wanted rows
of a row group become, level by level, wanted values of the same row group in the child's own numbers.
Source: ORC specification v1, "Struct Columns", "List Columns", "Map Columns" and "Union Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.claims import is_doubtful
from hindex.orc.columns.arrays import fixed_array, spread, validity
from hindex.orc.columns.context import ColumnContext, WantedValues
from hindex.orc.columns.layout import has_present
from hindex.orc.columns.primitive import read_primitive
from hindex.orc.compression import Decompressor
from hindex.orc.encoding import byte_rle
from hindex.orc.encoding.buffers import ragged, starts_of
from hindex.orc.fetched import Fetched
from hindex.orc.places import Places
from hindex.orc.selection import GroupedRows, RowSelection
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.tail import FileTail
from hindex.orc.types import Kind, OrcType

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

StreamPlaces = Mapping[StreamKind, Places]

_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The wanted values of one node of the type tree, nulls of its parents not counted.

    ``rows`` numbers them within their row group; ``groups`` are these groups' ordinals among all touched ones;
    ``counts[i]`` values are in the i-th group; without ``has_totals`` they are counted at least up to the last wanted
    one.
    """

    rows: GroupedRows
    groups: Ints
    counts: Ints
    has_totals: bool = True

    @classmethod
    def of(cls, selection: RowSelection, rows: GroupedRows, stride: int) -> Level:
        """The rows of a stripe."""
        size = stride or selection.num_rows
        counts = np.minimum(selection.num_rows - rows.ids * size, size)
        return cls(rows, np.arange(len(rows.ids)), counts)

    def below(
        self, groups: Ints, offsets: Ints, ranks: Ints, counts: Ints, *, has_totals: bool = False
    ) -> Level:
        """Values of a child: the same for some of the groups."""
        rows = GroupedRows(self.rows.ids[groups], offsets, ranks)
        return Level(rows, self.groups[groups], counts, has_totals)

    def child(self, wanted: WantedValues) -> Level:
        """A child that has one value for each that is not null."""
        return self.below(
            wanted.groups, wanted.offsets, wanted.ranks, wanted.totals, has_totals=self.has_totals
        )

    def __len__(self) -> int:
        return len(self.rows.rows)


class ColumnTree:
    """Decodes columns of one stripe at some rows.

    :param streams: gives a column's streams by its number.
    :param places: where the touched row groups lie in the streams, column by column.
    :param timezone: the reader's time zone, see :class:`~hindex.orc.OrcReader`.
    """

    def __init__(
        self,
        tail: FileTail,
        stripe: Stripe,
        decompressor: Decompressor,
        streams: Callable[[int], Mapping[StreamKind, Fetched]],
        places: Mapping[int, StreamPlaces],
        timezone: str | None = None,
    ) -> None:
        self._tail = tail
        self._timezone = timezone
        self._stripe = stripe
        self._decompressor = decompressor
        self._streams = streams
        self._places = places
        self._below: dict[int, tuple[Level, Bools | None]] = {}

    def read(self, of: OrcType, parents: Sequence[OrcType], level: Level) -> pa.Array:
        """The values of a column at the rows of ``level``, which are rows of the first parent."""
        there: Bools | None = None
        for parent in parents:
            known = self._below.get(parent.column)
            if known is None:
                known = self._below[parent.column] = self._enter(parent, level, there)
            level, there = known
        return _with_nulls(self._array(of, level), there)

    def _enter(self, of: OrcType, level: Level, there: Bools | None) -> tuple[Level, Bools | None]:
        """The rows of a struct's children, and at which of the first rows they are."""
        if not has_present(self._stripe, of.column) or not len(level):
            return level, there
        wanted = self._context(of, level).wanted
        if wanted.valid is not None:
            there = wanted.valid if there is None else spread(wanted.valid, there)
        return level.child(wanted), there

    def _context(self, of: OrcType, level: Level) -> ColumnContext:
        places = self._places.get(of.column, {})
        return ColumnContext(
            of,
            self._stripe.encodings[of.column],
            level.rows,
            level.counts,
            {kind: found.of(level.groups) for kind, found in places.items()},
            self._streams(of.column),
            self._decompressor,
            dictionary_size=self._stripe.dictionary_sizes[of.column],
            marks=self._stripe.marks.get(of.column),
            has_totals=level.has_totals,
        )

    def _array(self, of: OrcType, level: Level) -> pa.Array:
        if not len(level):
            return pa.nulls(0, of.to_arrow())
        context = self._context(of, level)
        match of.kind:
            case Kind.STRUCT:
                return self._struct(context, level)
            case Kind.LIST:
                return self._list(context, level)
            case Kind.MAP:
                return self._map(context, level)
            case Kind.UNION:
                return self._union(context, level)
            case _:
                return read_primitive(context, self._tail, self._stripe, self._timezone)

    def _struct(self, context: ColumnContext, level: Level) -> pa.Array:
        valid, below = context.wanted.valid, level.child(context.wanted)
        children = []
        for child in context.type.children:
            children.append(_with_nulls(self._array(child, below), valid))
        return pa.Array.from_buffers(
            context.type.to_arrow(), len(level), [validity(valid)], children=children
        )

    def _elements(self, context: ColumnContext, level: Level) -> tuple[list[pa.Buffer | None], Level]:
        """A list's buffers, and the wanted values of what it is made of."""
        wanted = context.wanted
        if not len(wanted.ranks):
            offsets = pa.py_buffer(np.zeros(len(level) + 1, np.int32))
            return [validity(wanted.valid), offsets], level.below(*_NOTHING)
        lengths, firsts = context.prefix_integers(StreamKind.LENGTH)
        if int(lengths.min()) < 0 or int(lengths.max()) > _MOST:
            raise OrcError("a list's length is negative or absurdly large", stream="LENGTH")
        ends = np.cumsum(lengths)
        per_group = np.diff(wanted.offsets)
        at = wanted.ranks + np.repeat(firsts, per_group)
        # a group's elements are counted from its own first list
        before = ends[firsts] - lengths[firsts]
        sizes = lengths[at]
        if int(sizes.sum()) > _MOST:
            raise OrcError(
                f"the selected lists have {int(sizes.sum())} elements, more than one array holds: select fewer rows",
                stream="LENGTH",
            )
        reach = ends[at[wanted.offsets[1:] - 1]] - before
        self._check_elements(context, level, int(sizes.sum()), reach)
        ranks = np.repeat(ends[at] - sizes - np.repeat(before, per_group), sizes) + ragged(sizes)
        per_group = np.add.reduceat(sizes, wanted.offsets[:-1])
        filled = np.flatnonzero(per_group)
        counts = reach[filled]
        offsets = pa.py_buffer(starts_of(spread(sizes, wanted.valid)).astype(np.int32))
        below = level.below(wanted.groups[filled], starts_of(per_group[filled]), ranks, counts)
        return [validity(wanted.valid), offsets], below

    def _check_elements(self, context: ColumnContext, level: Level, elements: int, reach: Ints) -> None:
        """Refuse lists that have more elements than there are.

        :param elements: of all wanted lists.
        :param reach: int64[G], of each group's lists up to its last wanted one.
        """
        for child in context.type.children:
            if is_doubtful(self._stripe, child.walk(), elements):
                group = int(np.argmax(reach))
                last = reach[group : group + 1]
                groups = context.wanted.groups[group : group + 1]
                self._array(child, level.below(groups, np.array([0, 1]), last - 1, last))

    def _list(self, context: ColumnContext, level: Level) -> pa.Array:
        buffers, below = self._elements(context, level)
        of = context.type
        values = self._array(of.children[0], below)
        return pa.Array.from_buffers(of.to_arrow(), len(level), buffers, children=[values])

    def _map(self, context: ColumnContext, level: Level) -> pa.Array:
        buffers, below = self._elements(context, level)
        arrow = context.type.to_arrow()
        keys, values = (self._array(child, below) for child in context.type.children)
        if keys.null_count:
            # pyarrow would end the process
            raise OrcError(
                "a map of the selected rows has a null key, which neither Arrow nor Spark can hold: leave out these "
                "rows or the column"
            )
        entries = pa.StructArray.from_arrays([keys, values], fields=[arrow.key_field, arrow.item_field])
        return pa.Array.from_buffers(arrow, len(level), buffers, children=[entries])

    def _union(self, context: ColumnContext, level: Level) -> pa.Array:
        wanted, variants = context.wanted, context.type.children
        if not variants:
            raise OrcError("a union type has no children: nothing could be a value of it")
        tags, all_tags, at, firsts = np.zeros(0, np.uint8), np.zeros(0, np.uint8), _NONE, _NONE
        if len(wanted.ranks):
            all_tags, firsts = self._tags(context)
            at = wanted.ranks + np.repeat(firsts, np.diff(wanted.offsets))
            tags = all_tags[at]
            if int(tags.max()) >= len(variants):
                raise OrcError(
                    f"a union's tag is {int(tags.max())} of {len(variants)} children", stream="DATA"
                )
        group_of = np.repeat(np.arange(len(wanted.groups)), np.diff(wanted.offsets))
        children, offsets = [], np.zeros(len(tags), np.int32)
        for tag, child in enumerate(variants):
            mine = np.flatnonzero(tags == tag)
            before = starts_of(all_tags == tag)
            ranks = before[at[mine]] - before[firsts[group_of[mine]]]
            groups, starts = np.unique(group_of[mine], return_index=True)
            bounds = np.append(starts, len(mine)).astype(np.int64)
            counts = ranks[bounds[1:] - 1] + 1
            children.append(self._array(child, level.below(wanted.groups[groups], bounds, ranks, counts)))
            offsets[mine] = np.arange(len(mine))
        ids = tags.astype(np.int8)
        if wanted.valid is not None:
            # Arrow's unions have no nulls of their own: a null is a null of the first child
            ids = spread(ids, wanted.valid)
            first = ids == 0
            children[0] = _with_nulls(children[0], wanted.valid[first])
            offsets = spread(offsets, wanted.valid)
            offsets[first] = np.arange(len(children[0]))
        names = [f"_union_{i}" for i in range(len(children))]
        return pa.UnionArray.from_dense(
            fixed_array(pa.int8(), ids, None), fixed_array(pa.int32(), offsets, None), children, names
        )

    def _tags(self, context: ColumnContext) -> tuple[npt.NDArray[np.uint8], Ints]:
        """A union's tags up to each group's last wanted one, and where each group's first is."""
        spans, skips = context.spans(StreamKind.DATA)
        counts = skips + context.wanted.last() + 1
        tags = byte_rle.decode(spans.buffer, spans.starts, spans.limits, counts)
        return tags, np.cumsum(counts) - counts + skips


def _with_nulls(array: pa.Array, valid: Bools | None) -> pa.Array:
    """An array's values at the slots that are valid, nulls at the others."""
    if valid is None:
        return array
    return array.take(fixed_array(pa.int64(), np.arange(len(array)), valid))


_NONE: Ints = np.zeros(0, np.int64)
_NOTHING = (_NONE, np.zeros(1, np.int64), _NONE, _NONE)

"""What decoding one column of one stripe needs: its streams, the wanted rows, and which of them are null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.claims import LONGEST, most_run_bytes
from hindex.orc.columns.arrays import fixed_array
from hindex.orc.compression import Decompressor
from hindex.orc.cost import LEAST_HANDED_OVER, handover_pays, is_filled
from hindex.orc.encoding import boolean, byte_rle, rle_v1, rle_v2, varint
from hindex.orc.encoding.buffers import begins_of, ragged, starts_of
from hindex.orc.fetched import Fetched
from hindex.orc.handover import Buffer, decode_integers
from hindex.orc.marks import VARINTS_APART, ColumnMarks, Marks, Walks, apart
from hindex.orc.places import Bytes, Places, Spans
from hindex.orc.selection import GroupedRows
from hindex.orc.streams import StreamWindow
from hindex.orc.stripe import EncodingKind, StreamKind
from hindex.orc.types import OrcType

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)
Item = TypeVar("Item")

#: A walk that leaves marks may take so many times as long as another way.
_PATIENCE = 4
#: Values at the first group's start that tell how long the runs are.
_SAMPLE = 512


class RunLengthEncoding(Protocol):
    """What both versions of the integer encoding offer; see :mod:`hindex.orc.encoding`."""

    def gather(
        self, buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints, *, signed: bool
    ) -> Ints: ...

    def decode(self, buf: Bytes, starts: Ints, limits: Ints, counts: Ints, *, signed: bool) -> Ints: ...


@dataclass(frozen=True, slots=True, eq=False)
class WantedValues:
    """The non-null values that are wanted, by the row groups that hold any.

    ``valid`` marks which selected rows are not null (None: all). ``groups`` are ordinals among the touched
    row groups; ``ranks`` number the values within their row group, nulls not counted; those of the i-th
    group are ``ranks[offsets[i]:offsets[i + 1]]``. ``totals[i]`` values are in the whole group.
    """

    valid: Bools | None
    groups: Ints
    ranks: Ints
    offsets: Ints
    totals: Ints

    @property
    def is_all(self) -> bool:
        return len(self.ranks) == int(self.totals.sum())

    def last(self) -> Ints:
        return self.ranks[self.offsets[1:] - 1]


class ColumnContext:
    """One column of one stripe, with the wanted rows; decoders ask it for decoded streams."""

    def __init__(
        self,
        of: OrcType,
        encoding: EncodingKind,
        rows: GroupedRows,
        group_rows: Ints,
        places: Mapping[StreamKind, Places],
        fetched: Mapping[StreamKind, Fetched],
        decompressor: Decompressor,
        *,
        dictionary_size: int = 0,
        marks: ColumnMarks | None = None,
        has_totals: bool = True,
    ) -> None:
        self.type = of
        self.encoding = encoding
        self.dictionary_size = dictionary_size
        self.num_rows = len(rows.rows)
        self._places = places
        self._fetched = fetched
        self._decompressor = decompressor
        self._ids = rows.ids
        self._has_totals = has_totals
        self._marks = marks if marks is not None else ColumnMarks()
        self.wanted = self._values(rows, group_rows)

    @property
    def stored(self) -> int:
        """How many bytes the column's streams have as stored, in the stripe."""
        return sum(fetched.length for fetched in self._fetched.values())

    def window(self, kind: StreamKind) -> StreamWindow:
        return StreamWindow(self._fetched.get(kind) or Fetched(0), self._decompressor)

    def _values(self, rows: GroupedRows, group_rows: Ints) -> WantedValues:
        if StreamKind.PRESENT not in self._places:
            return WantedValues(None, np.arange(len(rows.ids)), rows.rows, rows.offsets, group_rows)
        try:
            bits = self._present(group_rows)
        except OrcError as error:
            raise error.at(stream="PRESENT") from error
        ends = np.cumsum(group_rows)
        first_bits = ends - group_rows
        selected = rows.rows + np.repeat(first_bits, np.diff(rows.offsets))
        valid = bits[selected]
        before = np.concatenate([[0], np.cumsum(bits)])
        totals = before[ends] - before[first_bits]
        if valid.all():
            valid_or_none, kept = None, np.diff(rows.offsets)
        else:
            valid_or_none = valid
            counts = np.concatenate([[0], np.cumsum(valid)])
            kept = counts[rows.offsets[1:]] - counts[rows.offsets[:-1]]
            selected = selected[valid]
        ranks = before[selected] - np.repeat(before[first_bits], kept)
        active = np.flatnonzero(kept)
        offsets = np.concatenate([[0], np.cumsum(kept[active])])
        return WantedValues(valid_or_none, active, ranks, offsets, totals[active])

    def _present(self, group_rows: Ints) -> Bools:
        places = self._places[StreamKind.PRESENT]
        tails, most = (places.end_skip > 0).tolist(), most_run_bytes(group_rows)
        spans = self.window(StreamKind.PRESENT).spans(places, tails, most)
        bits = boolean.decode(spans.buffer, spans.starts, spans.limits, places.skip + group_rows)
        return _drop_heads(bits, places.skip, group_rows)

    def places(self, kind: StreamKind) -> Places:
        """Where the groups that hold wanted values lie in a stream."""
        return self._places[kind].of(self.wanted.groups)

    def spans(self, kind: StreamKind) -> tuple[Spans, Ints]:
        """The decompressed spans of the groups with wanted values, and the values to skip in each."""
        places = self.places(kind)
        return self.window(kind).spans(places, self._tails(places).tolist(), self._most), places.skip

    @property
    def _most(self) -> Ints:
        """The bytes that the values of each group take at most, in any stream but those of strings."""
        return most_run_bytes(self.wanted.totals)

    def _tails(self, places: Places) -> Bools:
        """Whether a wanted value is in the run that begins at each group's end, which has the last ``end_skip``."""
        tails: Bools = self.wanted.last() >= self.wanted.totals - places.end_skip
        return tails

    def integers(self, kind: StreamKind, *, signed: bool) -> Ints:
        """The wanted values of an integer stream."""
        wanted, places = self.wanted, self.places(kind)
        spans, skips = self.spans(kind)
        is_all = wanted.is_all
        ordinals, walks = wanted.ranks, None
        if not is_all:
            ordinals = ordinals + np.repeat(skips, np.diff(wanted.offsets))
            walks = self._walks(kind, ordinals)
        if signed and self.encoding.is_v2:
            first, last = places.ranges()
            if self._handover_pays(spans, places, len(first), walks):
                found = self._handed_over(spans, places, first, last)
                if found is not None:
                    return found
        if walks is not None:
            return self._gather(kind, spans, walks, signed=signed)
        rle = self._rle()
        if is_all:
            values = rle.decode(
                spans.buffer, spans.starts, spans.limits, skips + wanted.totals, signed=signed
            )
            return _drop_heads(values, skips, wanted.totals)
        return rle.gather(spans.buffer, spans.starts, spans.limits, ordinals, wanted.offsets, signed=signed)

    def _walks(self, kind: StreamKind, ordinals: Ints) -> Walks | None:
        """How to get to wanted values from the marks of a stream; None where none are used."""
        # where many are wanted, looking for the mark before each takes longer than walking
        if not self._marks.learns or not self.encoding.is_v2 or self.fills_groups:
            return None
        bounds = self.wanted.offsets
        walks = Walks.to(self._marks.of(kind), self._ids[self.wanted.groups], ordinals, bounds)
        return walks if walks.spares(bounds) else None

    def _gather(self, kind: StreamKind, spans: Spans, walks: Walks, *, signed: bool) -> Ints:
        walked: list[rle_v2.Runs] = []
        starts = spans.starts[walks.groups] + walks.starts.offsets
        limits = spans.limits[walks.groups]
        values = rle_v2.gather(
            spans.buffer, starts, limits, walks.ordinals, walks.bounds, signed=signed, walked=walked
        )
        if walks.is_long:
            self._learn(kind, spans, walks, walked[0])
        return values

    def _learn(
        self, kind: StreamKind, spans: Spans, walks: Walks, runs: rle_v2.Runs, sums: Ints | None = None
    ) -> None:
        """Mark some of the runs walked over; ``sums`` are the running sums of all values, a zero before them."""
        walk = np.repeat(np.arange(len(walks.groups)), np.diff(runs.bounds))
        total = starts_of(runs.count)
        passed = total[:-1] - total[runs.bounds[walk]]
        chosen = apart(passed, runs.bounds)
        walk, passed = walk[chosen], passed[chosen]
        group = walks.groups[walk]
        known = None
        if sums is not None:
            first = starts_of(walks.lengths())[walk]
            known = walks.starts.sums[walk] + sums[first + passed] - sums[first]
        self._marks.of(kind).learn(
            self._ids[self.wanted.groups[group]],
            walks.starts.ordinals[walk] + passed,
            runs.at[chosen] - spans.starts[group],
            known,
        )

    def _handover_pays(self, spans: Spans, places: Places, ranges: int, walks: Walks | None) -> bool:
        wanted = self.wanted
        total = int(wanted.totals.sum())
        if total < LEAST_HANDED_OVER or not self._has_totals:
            return False
        start, limit = int(spans.starts[0]), int(spans.limits[0])
        # the run at the group's end is there only if a value of it is wanted
        held = int(places.skip[0] + wanted.totals[0])
        held -= 0 if self._tails(places)[0] else int(places.end_skip[0])
        density = rle_v2.runs_per_value(spans.buffer, start, limit, min(held, _SAMPLE))
        if walks is None:
            walked = int(wanted.last().sum()) + len(wanted.groups)
        else:
            # a walk that leaves marks is worth some patience
            walked = int(walks.lengths().sum()) // (_PATIENCE if walks.is_long else 1)
        return handover_pays(total, len(wanted.ranks), len(wanted.groups), ranges, density, walked)

    def _handed_over(self, spans: Spans, places: Places, first: Ints, last: Ints) -> Ints | None:
        """The wanted values of a signed stream of which pyarrow decodes all ranges of groups, first to last."""
        # what a range has of the run at its end is left out where nothing of it is wanted
        left_out = np.where(self._tails(places)[last], 0, places.end_skip[last])
        pieces = self._cut(spans, places, first, last, left_out, signed=True)
        rows = np.add.reduceat(self.wanted.totals, first) - left_out
        stripes = _starts_in(places.stripe[first])
        values = decode_integers(pieces, np.add.reduceat(rows, stripes).tolist())
        if values is None or self.wanted.is_all:
            return values
        begins = np.repeat(starts_of(left_out)[:-1], last - first + 1)
        found: Ints = values[self.ordinals() - np.repeat(begins, np.diff(self.wanted.offsets))]
        return found

    def _cut(
        self, spans: Spans, places: Places, first: Ints, last: Ints, left_out: Ints, *, signed: bool
    ) -> list[list[Buffer]]:
        """The runs of ranges of groups without ``left_out`` values at each one's end, as a stream for each stripe."""
        pieces = rle_v2.cut(
            spans.buffer,
            spans.starts[first],
            spans.ends[last],
            spans.limits[last],
            places.skip[first],
            places.end_skip[last] - left_out,
            np.add.reduceat(self.wanted.totals, first) - left_out,
            signed=signed,
        )
        return [list(chain.from_iterable(ranges)) for ranges in _apart(pieces, places.stripe[first])]

    def ordinals(self) -> Ints:
        """The wanted values, numbered over all groups that hold any."""
        wanted = self.wanted
        found: Ints = wanted.ranks + np.repeat(starts_of(wanted.totals)[:-1], np.diff(wanted.offsets))
        return found

    def taken(self, values: pa.Array) -> pa.Array:
        """Of all values of the groups that hold wanted ones, these, and nulls at the selected rows that are null."""
        valid = self.wanted.valid
        if valid is None and self.wanted.is_all:
            return values
        return values.take(fixed_array(pa.int64(), self.ordinals(), valid))

    @property
    def fills_groups(self) -> bool:
        """Whether so many values of the touched row groups are wanted that pyarrow may as well decode them all."""
        wanted = self.wanted
        return (
            self._has_totals
            and self.encoding.is_v2
            and is_filled(int(wanted.totals.sum()), len(wanted.ranks))
        )

    @property
    def rows_of_stripes(self) -> list[int]:
        """How many values the groups that hold wanted ones have, of each stripe that has such groups."""
        stripe = self.places(StreamKind.DATA).stripe
        found: list[int] = np.add.reduceat(self.wanted.totals, _starts_in(stripe)).tolist()
        return found

    def runs_of_groups(self, kind: StreamKind, *, signed: bool) -> list[list[Buffer]]:
        """The integers of the groups that hold wanted values, as a stream for each stripe."""
        places = self.places(kind)
        spans = self.window(kind).spans(places, (places.end_skip > 0).tolist(), self._most)
        first, last = places.ranges()
        return self._cut(spans, places, first, last, np.zeros(len(first), np.int64), signed=signed)

    def bytes_of_groups(self, kind: StreamKind) -> list[list[Buffer]]:
        """The bytes of the groups that hold wanted values, for each stripe, of a stream whose positions are exact."""
        places = self.places(kind)
        spans = self.window(kind).spans(places, [False] * len(self.wanted.groups), self._most)
        data = spans.buffer.data
        pieces: list[Buffer] = [
            data[start:limit]
            for start, limit in zip(spans.starts.tolist(), spans.limits.tolist(), strict=True)
        ]
        return _apart(pieces, places.stripe)

    def prefix_integers(self, kind: StreamKind) -> tuple[Ints, Ints]:
        """The values of an unsigned stream up to each group's last wanted one, and where each group's first is.

        Values of the run before a group's first stand there too.
        """
        spans, skips = self.spans(kind)
        counts = skips + self.wanted.last() + 1
        values = self._rle().decode(spans.buffer, spans.starts, spans.limits, counts, signed=False)
        return values, np.cumsum(counts) - counts + skips

    def extents(self) -> tuple[Ints, Ints]:
        """Of each wanted value of a stream of bytes, where it ends and how long it is.

        In bytes, counted from the first value of its group; by the stream of unsigned lengths.
        """
        spans, skips = self.spans(StreamKind.LENGTH)
        wanted = self.wanted
        ordinals = wanted.ranks + np.repeat(skips, np.diff(wanted.offsets))
        walks = self._walks(StreamKind.LENGTH, ordinals)
        if walks is None:
            walks = Walks.to(Marks(), wanted.groups, ordinals, wanted.offsets)
        walked: list[rle_v2.Runs] = []
        counts = walks.lengths()
        starts = spans.starts[walks.groups] + walks.starts.offsets
        limits = spans.limits[walks.groups]
        if self.encoding.is_v2:
            lengths = rle_v2.decode(spans.buffer, starts, limits, counts, signed=False, walked=walked)
        else:
            lengths = rle_v1.decode(spans.buffer, starts, limits, counts, signed=False)
        check_lengths(lengths)
        ends = starts_of(lengths)
        first = starts_of(counts)[:-1]
        # a walk from the group's position passes the last values of the group before
        unknown = np.flatnonzero(~walks.starts.known)
        walks.starts.sums[unknown] = (
            ends[first[unknown]] - ends[first[unknown] + skips[walks.groups[unknown]]]
        )
        per_walk = np.diff(walks.bounds)
        at = walks.ordinals + np.repeat(first, per_walk)
        base = walks.starts.sums - ends[first]
        if walked and self._marks.learns and walks.is_long:
            self._learn(StreamKind.LENGTH, spans, walks, walked[0], ends)
        return ends[at + 1] + np.repeat(base, per_walk), lengths[at]

    def decimals(self) -> tuple[npt.NDArray[np.uint64], Ints]:
        """The wanted values of a DATA stream of varints, as 128-bit two's complement words."""
        spans, _ = self.spans(StreamKind.DATA)
        wanted = self.wanted
        if wanted.is_all:
            return varint.decode_decimal(spans.buffer, spans.starts, spans.limits, wanted.totals)
        walks = self._walks(StreamKind.DATA, wanted.ranks)
        if walks is None:
            return varint.gather_decimal(
                spans.buffer, spans.starts, spans.limits, wanted.ranks, wanted.offsets
            )
        marks, ids = self._marks.of(StreamKind.DATA), self._ids[wanted.groups]
        starts, limits = spans.starts[walks.groups] + walks.starts.offsets, spans.limits[walks.groups]
        if (walks.lengths() > 2 * VARINTS_APART).any():
            steps = (walks.lengths() - 1) // VARINTS_APART
            walk = np.repeat(np.arange(len(steps)), steps)
            passed = (ragged(steps) + 1) * VARINTS_APART
            at = varint.starts_at(spans.buffer, starts, limits, passed, starts_of(steps))
            group = walks.groups[walk]
            marks.learn(ids[group], walks.starts.ordinals[walk] + passed, at - spans.starts[group])
        return varint.gather_decimal(spans.buffer, starts, limits, walks.ordinals, walks.bounds)

    def bits(self, kind: StreamKind) -> Bools:
        spans, skips = self.spans(kind)
        ordinals = self.wanted.ranks + np.repeat(skips, np.diff(self.wanted.offsets))
        return boolean.gather(spans.buffer, spans.starts, spans.limits, ordinals, self.wanted.offsets)

    def bytes(self, kind: StreamKind) -> Bytes:
        spans, skips = self.spans(kind)
        ordinals = self.wanted.ranks + np.repeat(skips, np.diff(self.wanted.offsets))
        return byte_rle.gather(spans.buffer, spans.starts, spans.limits, ordinals, self.wanted.offsets)

    def _rle(self) -> RunLengthEncoding:
        return rle_v2 if self.encoding.is_v2 else rle_v1

    def whole_integers(self, kind: StreamKind, count: int) -> Ints:
        """The first ``count`` values of a stream that belongs to the stripe, such as dictionary lengths."""
        counts = np.array([count], np.int64)
        spans = self.window(kind).spans(Places.whole(), [False], most_run_bytes(counts))
        return self._rle().decode(spans.buffer, spans.starts, spans.limits, counts, signed=False)


def _starts_in(stripe: Ints) -> Ints:
    """Where each stripe begins in a sequence of groups or ranges, by the stripe of each."""
    return np.flatnonzero(begins_of(stripe))


def _apart(items: Sequence[Item], stripe: Ints) -> list[list[Item]]:
    """Items of groups or ranges, those of one stripe together."""
    bounds = [*_starts_in(stripe).tolist(), len(items)]
    return [list(items[begin:end]) for begin, end in pairwise(bounds)]


def _drop_heads(values: npt.NDArray[Scalar], skips: Ints, counts: Ints) -> npt.NDArray[Scalar]:
    """Drop the first ``skips[g]`` of each group's ``skips[g] + counts[g]`` values."""
    if not skips.any():
        return values
    keep = np.ones(len(values), bool)
    starts = np.cumsum(skips + counts) - (skips + counts)
    for start, skip in zip(starts.tolist(), skips.tolist(), strict=True):
        keep[start : start + skip] = False
    return values[keep]


def check_lengths(lengths: Ints) -> None:
    """Refuse lengths that no string has; sums of the others cannot wrap unnoticed, they stay far below 2^63."""
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) >= LONGEST):
        raise OrcError("a string's length is negative or absurdly large")

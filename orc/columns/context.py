"""What decoding one column of one stripe needs: its streams, the wanted rows, and which of them are null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.compression import Decompressor
from hindex.orc.encoding import boolean, byte_rle, rle_v1, rle_v2
from hindex.orc.selection import GroupedRows
from hindex.orc.streams import Bytes, Fetched, Places, Spans, StreamWindow
from hindex.orc.stripe import EncodingKind, StreamKind
from hindex.orc.types import OrcType

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)


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
    ) -> None:
        self.type = of
        self.encoding = encoding
        self.dictionary_size = dictionary_size
        self.num_rows = len(rows.rows)
        self._places = places
        self._fetched = fetched
        self._decompressor = decompressor
        self.wanted = self._values(rows, group_rows)

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
        spans = self.window(StreamKind.PRESENT).spans(places, (places.end_skip > 0).tolist())
        bits = boolean.decode(spans.buffer, spans.starts, spans.limits, places.skip + group_rows)
        return _drop_heads(bits, places.skip, group_rows)

    def places(self, kind: StreamKind) -> Places:
        """Where the groups that hold wanted values lie in a stream."""
        return self._places[kind].of(self.wanted.groups)

    def spans(self, kind: StreamKind) -> tuple[Spans, Ints]:
        """The decompressed spans of the groups with wanted values, and the values to skip in each."""
        places = self.places(kind)
        # the run that begins at a group's end holds its last end_skip values
        tails = self.wanted.last() >= self.wanted.totals - places.end_skip
        return self.window(kind).spans(places, tails.tolist()), places.skip

    def integers(self, kind: StreamKind, *, signed: bool) -> Ints:
        """The wanted values of an integer stream."""
        spans, skips = self.spans(kind)
        wanted = self.wanted
        rle = self._rle()
        if wanted.is_all:
            values = rle.decode(
                spans.buffer, spans.starts, spans.limits, skips + wanted.totals, signed=signed
            )
            return _drop_heads(values, skips, wanted.totals)
        ordinals = wanted.ranks + np.repeat(skips, np.diff(wanted.offsets))
        return rle.gather(spans.buffer, spans.starts, spans.limits, ordinals, wanted.offsets, signed=signed)

    def prefix_integers(self, kind: StreamKind) -> tuple[Ints, Ints]:
        """The values of an unsigned stream up to each group's last wanted one, and where each group's first is.

        Values of the run before a group's first stand there too.
        """
        spans, skips = self.spans(kind)
        counts = skips + self.wanted.last() + 1
        values = self._rle().decode(spans.buffer, spans.starts, spans.limits, counts, signed=False)
        return values, np.cumsum(counts) - counts + skips

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
        spans = self.window(kind).spans(Places.whole(), [False])
        rle = self._rle()
        return rle.decode(spans.buffer, spans.starts, spans.limits, np.array([count], np.int64), signed=False)


def _drop_heads(values: npt.NDArray[Scalar], skips: Ints, counts: Ints) -> npt.NDArray[Scalar]:
    """Drop the first ``skips[g]`` of each group's ``skips[g] + counts[g]`` values."""
    if not skips.any():
        return values
    keep = np.ones(len(values), bool)
    starts = np.cumsum(skips + counts) - (skips + counts)
    for start, skip in zip(starts.tolist(), skips.tolist(), strict=True):
        keep[start : start + skip] = False
    return values[keep]

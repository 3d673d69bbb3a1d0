"""Which streams a column has, and how a row index entry's numbers are dealt out to them.

Source: ORC specification v1, "Column Encodings" and "Row Index". An entry lists, stream by stream, the
chunk's offset (compressed files only), the byte within the chunk's content, and then how many values of the
run there belong to earlier row groups; boolean streams add the bit within the byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from hindex.orc.encoding.buffers import begins_of, starts_of
from hindex.orc.places import Places
from hindex.orc.runs import Runs
from hindex.orc.stripe import EncodingKind, StreamKind, Stripe, is_decimal64
from hindex.orc.types import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind, OrcType

Ints = npt.NDArray[np.int64]

#: Numbers in a position after the place itself, by how the stream is encoded.
_BYTES, _RUNS, _BITS = 0, 1, 2

#: No stream goes so far, and eight times as much is still a number of 64 bits.
_MOST_POSITION = 1 << 56


def stream_layout(
    of: OrcType, encoding: EncodingKind, version: tuple[int, int]
) -> tuple[tuple[StreamKind, int], ...]:
    """The streams that hold a column's values, in the order of its positions; PRESENT excluded."""
    kind = of.kind
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        if encoding.is_dictionary:
            return ((StreamKind.DATA, _RUNS),)
        return ((StreamKind.DATA, _BYTES), (StreamKind.LENGTH, _RUNS))
    if kind in INTEGER_KINDS or kind == Kind.DATE:
        return ((StreamKind.DATA, _RUNS),)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return ((StreamKind.DATA, _BYTES),)
    if kind == Kind.BOOLEAN:
        return ((StreamKind.DATA, _BITS),)
    if kind == Kind.DECIMAL:
        if is_decimal64(of, version):
            return ((StreamKind.DATA, _RUNS),)
        return ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _RUNS))
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        return ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS))
    if kind in (Kind.LIST, Kind.MAP):
        return ((StreamKind.LENGTH, _RUNS),)
    if kind == Kind.UNION:
        return ((StreamKind.DATA, _RUNS),)
    return ()


def run_streams(of: OrcType, encoding: EncodingKind, version: tuple[int, int]) -> tuple[StreamKind, ...]:
    """The streams of a primitive column that are run-length encoded integers."""
    if of.kind == Kind.BYTE:
        return ()
    return tuple(kind for kind, extra in stream_layout(of, encoding, version) if extra == _RUNS)


def by_value(of: OrcType, encoding: EncodingKind, kind: StreamKind) -> bool:
    """Whether the bytes of single values can be found in a stream, so that not all of a row group is needed."""
    if kind != StreamKind.DATA:
        return False
    if of.kind in STRING_KINDS or of.kind in BINARY_KINDS:
        return not encoding.is_dictionary
    return of.kind in (Kind.FLOAT, Kind.DOUBLE)


def runs_of(of: OrcType, encoding: EncodingKind, kind: StreamKind) -> Runs:
    """How a stream's runs are encoded; of no use for streams without runs."""
    if kind == StreamKind.PRESENT or of.kind == Kind.BOOLEAN:
        return Runs.BITS
    if of.kind in (Kind.BYTE, Kind.UNION):
        return Runs.BYTES
    return Runs.INTEGERS_V2 if encoding.is_v2 else Runs.INTEGERS_V1


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """The row index of one column as a table: a line of numbers for each row group of the stripe.

    ``columns[kind]`` is where a stream's numbers begin in a line, and how many follow the place itself. ``firsts``
    are the first lines of the stripes, where it is the table of several.
    """

    lines: Ints
    columns: Mapping[StreamKind, tuple[int, int]]
    compressed: bool
    firsts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))

    @classmethod
    def of(
        cls,
        layout: Sequence[tuple[StreamKind, int]],
        entries: Sequence[Sequence[int]],
        *,
        compressed: bool,
        has_present: bool,
    ) -> PositionTable | None:
        """The table of a row index's entries.

        :returns: None where an entry does not have the numbers that the layout asks for, where they do not ascend, or
            are beyond any stream, so that sums of them would wrap.
        """
        place = 2 if compressed else 1
        full = ((StreamKind.PRESENT, _BITS), *layout) if has_present else tuple(layout)
        length = sum(place + extra for _, extra in full)
        # a writer that drops a PRESENT stream without nulls may leave its numbers in the entries
        dropped = 0 if has_present else place + _BITS
        lengths = {len(entry) for entry in entries}
        try:
            if lengths == {length}:
                numbers = np.fromiter(chain.from_iterable(entries), np.int64, len(entries) * length)
            elif lengths <= {length, length + dropped}:
                kept = [list(entry)[len(entry) - length :] for entry in entries]
                numbers = np.fromiter(chain.from_iterable(kept), np.int64, len(entries) * length)
            else:
                return None
        except OverflowError:
            return None
        if len(numbers) and int(numbers.max()) > _MOST_POSITION:
            return None
        columns, at = {}, 0
        for kind, extra in full:
            columns[kind] = at, extra
            at += place + extra
        found = cls(numbers.reshape(len(entries), length), columns, compressed)
        if any((np.diff(found._chunks(kind)) < 0).any() for kind in columns):
            return None
        return found

    @classmethod
    def joined(
        cls, tables: Sequence[PositionTable], lengths: Mapping[StreamKind, Sequence[int]]
    ) -> PositionTable | None:
        """The table of several stripes whose streams, of equal layout, follow each other.

        :param lengths: of each stream in each stripe, in bytes.
        :returns: None where they do not fit together: positions that do not begin with a stream, or go to its end.
            There a stripe has no value, and the next one's first would be taken for it.
        """
        first = tables[0]
        lines = np.concatenate([table.lines for table in tables])
        counts = np.array([len(table.lines) for table in tables])
        if any(table.columns != first.columns or table.lines[0].any() for table in tables):
            return None
        for kind, (at, _) in first.columns.items():
            if any(
                int(table.lines[-1, at]) >= length
                for table, length in zip(tables, lengths[kind], strict=True)
            ):
                return None
            lines[:, at] += np.repeat(np.cumsum([0, *lengths[kind][:-1]]), counts)
        return cls(lines, first.columns, first.compressed, starts_of(counts)[:-1])

    def starts(self, kind: StreamKind) -> list[int]:
        """Where the chunks begin that are known of a stream, ascending; none of an uncompressed one."""
        if not self.compressed:
            return []
        chunks = self._chunks(kind)
        found: list[int] = chunks[begins_of(chunks)].tolist()
        return found

    def places(self, groups: Ints) -> dict[StreamKind, Places]:
        """Where some row groups lie in each stream."""
        has_end = groups + 1 < len(self.lines)
        begin, end = self.lines[groups], self.lines[np.where(has_end, groups + 1, 0)]
        stripe = self.firsts.searchsorted(groups, "right") - 1
        found = {}
        for kind, (at, extra) in self.columns.items():
            found[kind] = Places(
                chunk=begin[:, at],
                inner=self._inner(begin, at),
                skip=self._skips(begin, at, extra),
                end_chunk=np.where(has_end, end[:, at], -1),
                end_inner=np.where(has_end, self._inner(end, at), 0),
                end_skip=np.where(has_end, self._skips(end, at, extra), 0),
                stripe=stripe,
            )
        return found

    def _chunks(self, kind: StreamKind) -> Ints:
        chunks: Ints = self.lines[:, self.columns[kind][0]]
        return chunks

    def _inner(self, lines: Ints, at: int) -> Ints:
        inner: Ints = lines[:, at + 1] if self.compressed else np.zeros(len(lines), np.int64)
        return inner

    def _skips(self, lines: Ints, at: int, extra: int) -> Ints:
        at += 2 if self.compressed else 1
        if extra == _BYTES:
            return np.zeros(len(lines), np.int64)
        skips: Ints = lines[:, at] if extra == _RUNS else lines[:, at] * 8 + lines[:, at + 1]
        return skips


def whole_stream(layout: Sequence[tuple[StreamKind, int]], *, has_present: bool) -> dict[StreamKind, Places]:
    """Places that make the whole stripe one group: for files without a row index."""
    kinds = [kind for kind, _ in layout] + ([StreamKind.PRESENT] if has_present else [])
    return {kind: Places.whole() for kind in kinds}


def has_present(stripe: Stripe, column: int) -> bool:
    return (column, StreamKind.PRESENT) in stripe.streams

"""Row index entries dealt out to streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hindex.orc.columns.layout import PositionTable
from hindex.orc.places import Places
from hindex.orc.stripe import StreamKind

#: A direct string: DATA has a place, LENGTH a place and values to skip.
LAYOUT = ((StreamKind.DATA, 0), (StreamKind.LENGTH, 1))


def deal_positions(
    layout: Sequence[tuple[StreamKind, int]],
    entries: Sequence[Sequence[int]],
    groups: Sequence[int],
    *,
    compressed: bool,
    has_present: bool,
) -> dict[StreamKind, Places] | None:
    table = PositionTable.of(layout, entries, compressed=compressed, has_present=has_present)
    return None if table is None else table.places(np.array(groups, np.int64))


def test_compressed_with_present() -> None:
    entries = [
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [10, 11, 2, 3, 20, 21, 30, 31, 5],
        [40, 41, 0, 7, 50, 51, 60, 61, 8],
    ]
    found = deal_positions(LAYOUT, entries, [1, 2], compressed=True, has_present=True)
    assert found is not None
    present, data, length = (found[k] for k in (StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH))
    assert (present.chunk.tolist(), present.inner.tolist()) == ([10, 40], [11, 41])
    # two bytes and three bits of the run belong to earlier row groups
    assert present.skip.tolist() == [2 * 8 + 3, 7]
    assert present.end_skip.tolist() == [7, 0]
    assert (data.chunk.tolist(), data.inner.tolist(), data.skip.tolist()) == ([20, 50], [21, 51], [0, 0])
    assert (data.end_chunk.tolist(), data.end_inner.tolist()) == ([50, -1], [51, 0])
    assert (length.skip.tolist(), length.end_skip.tolist()) == ([5, 8], [8, 0])


def test_uncompressed_places_have_one_number() -> None:
    found = deal_positions(LAYOUT, [[0, 0, 0], [20, 30, 5]], [0, 1], compressed=False, has_present=False)
    assert found is not None
    data, length = found[StreamKind.DATA], found[StreamKind.LENGTH]
    assert (data.chunk.tolist(), data.inner.tolist(), data.end_chunk.tolist()) == ([0, 20], [0, 0], [20, -1])
    assert (length.chunk.tolist(), length.skip.tolist(), length.end_skip.tolist()) == (
        [0, 30],
        [0, 5],
        [5, 0],
    )


def test_numbers_left_over_from_a_dropped_present_stream_are_passed_over() -> None:
    entries = [[9, 9, 9, 9, 1, 2, 3, 4, 5], [9, 9, 9, 9, 20, 21, 30, 31, 6]]
    found = deal_positions(LAYOUT, entries, [1], compressed=True, has_present=False)
    assert found is not None
    assert found[StreamKind.DATA].chunk.tolist() == [20]
    assert found[StreamKind.LENGTH].skip.tolist() == [6]


def test_entries_of_another_shape_are_not_guessed_at() -> None:
    for entries in ([[1, 2, 3]], [[0] * 9, [0] * 8], [[0] * 4 + [1 << 63] * 5]):
        assert deal_positions(LAYOUT, entries, [0], compressed=True, has_present=True) is None
    # chunks that go backwards
    assert deal_positions(LAYOUT, [[9] * 5, [0] * 5], [0], compressed=True, has_present=False) is None


def test_positions_that_would_wrap_are_not_believed() -> None:
    # eight times the bytes of the first is -8 in 64 bits
    for far in ((1 << 61) - 1, (1 << 63) - 1, (1 << 56) + 1):
        entries = [[0] * 9, [0, 0, far, 0, 0, 0, 0, 0, 0]]
        assert deal_positions(LAYOUT, entries, [1], compressed=True, has_present=True) is None
    entries = [[0] * 9, [0, 0, 1 << 56, 0, 0, 0, 0, 0, 0]]
    found = deal_positions(LAYOUT, entries, [1], compressed=True, has_present=True)
    assert found is not None
    assert found[StreamKind.PRESENT].skip.tolist() == [1 << 59]


def test_the_chunks_that_row_groups_begin_in_are_known() -> None:
    entries = [[0, 0, 0, 0, 0], [0, 7, 5, 0, 0], [40, 8, 30, 3, 1], [40, 9, 30, 4, 0]]
    table = PositionTable.of(LAYOUT, entries, compressed=True, has_present=False)
    assert table is not None
    assert (table.starts(StreamKind.DATA), table.starts(StreamKind.LENGTH)) == ([0, 40], [0, 5, 30])

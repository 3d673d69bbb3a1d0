"""Row index entries dealt out to streams."""

from __future__ import annotations

from hindex.orc.decode.positions import parse_positions
from hindex.orc.metadata.stripe import StreamKind

#: A direct string: DATA has a place, LENGTH a place and values to skip.
LAYOUT = ((StreamKind.DATA, 0), (StreamKind.LENGTH, 1))


def test_compressed_locations_have_two_numbers_and_present_counts_bits() -> None:
    entries = [
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [10, 11, 2, 3, 20, 21, 30, 31, 5],
        [40, 41, 0, 7, 50, 51, 60, 61, 8],
    ]
    positions = parse_positions(LAYOUT, entries, is_compressed=True, has_present=True)
    assert positions is not None
    present, data, length = (positions[k] for k in (StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH))
    assert (present.chunk.tolist(), present.inner.tolist()) == ([0, 10, 40], [0, 11, 41])
    # two bytes and three bits of the run belong to earlier row groups
    assert present.skip.tolist() == [0, 2 * 8 + 3, 7]
    assert (data.chunk.tolist(), data.inner.tolist(), data.skip.tolist()) == (
        [0, 20, 50],
        [0, 21, 51],
        [0, 0, 0],
    )
    assert (length.chunk.tolist(), length.inner.tolist(), length.skip.tolist()) == (
        [0, 30, 60],
        [0, 31, 61],
        [0, 5, 8],
    )
    assert [len(item) for item in (present, data, length)] == [3, 3, 3]


def test_uncompressed_places_have_one_number() -> None:
    positions = parse_positions(LAYOUT, [[0, 0, 0], [20, 30, 5]], is_compressed=False, has_present=False)
    assert positions is not None
    data, length = positions[StreamKind.DATA], positions[StreamKind.LENGTH]
    assert (data.chunk.tolist(), data.inner.tolist(), data.skip.tolist()) == ([0, 20], [0, 0], [0, 0])
    assert (length.chunk.tolist(), length.inner.tolist(), length.skip.tolist()) == ([0, 30], [0, 0], [0, 5])


def test_leftover_numbers_of_a_dropped_present_stream_are_skipped() -> None:
    entries = [[9, 9, 9, 9, 1, 2, 3, 4, 5], [20, 21, 30, 31, 6]]
    for both in (entries, [entries[0]] * 2):
        positions = parse_positions(LAYOUT, both, is_compressed=True, has_present=False)
        assert positions is not None
        assert positions[StreamKind.DATA].chunk.tolist() == [1, both[1][-5]]
        assert positions[StreamKind.LENGTH].skip.tolist() == [5, both[1][-1]]


def test_entries_of_another_shape_are_not_guessed_at() -> None:
    for entries in ([[1, 2, 3]], [[0] * 9, [0] * 8], [[0] * 4 + [1 << 63] * 5]):
        assert parse_positions(LAYOUT, entries, is_compressed=True, has_present=True) is None
    # chunks that go backwards
    assert parse_positions(LAYOUT, [[9] * 5, [0] * 5], is_compressed=True, has_present=False) is None


def test_positions_that_would_overflow_are_rejected() -> None:
    # eight times the bytes of the first is -8 in 64 bits
    for far in ((1 << 61) - 1, (1 << 63) - 1, (1 << 53) + 1):
        entries = [[0] * 9, [0, 0, far, 0, 0, 0, 0, 0, 0]]
        assert parse_positions(LAYOUT, entries, is_compressed=True, has_present=True) is None
    # nor are runs that 128 row groups like this one would make wrap
    for skip in ([0, 0, 1 << 53, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 1 << 53]):
        assert parse_positions(LAYOUT, [[0] * 9, skip], is_compressed=True, has_present=True) is None
    entries = [[0] * 9, [0, 1 << 53, 129, 7, 0, 1 << 53, 0, 1 << 53, 511]]
    positions = parse_positions(LAYOUT, entries, is_compressed=True, has_present=True)
    assert positions is not None
    assert positions[StreamKind.PRESENT].skip.tolist() == [0, 129 * 8 + 7]
    assert positions[StreamKind.LENGTH].skip.tolist() == [0, 511]

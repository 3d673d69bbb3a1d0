"""The extents that a manifest keeps of stripes: as they were, but for long keys; contradictions are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.domain import Domain, Range
from hindex.index.column_stats import (
    _MAX_RANGES,
    LISTS,
    SHORT_KEY,
    ColumnStats,
    StatsColumn,
    encode_stripe_stats,
)
from hindex.keys import KeyKind
from hindex.proto import manifest_pb2 as pb
from tests.support.messages import raises

KEYS = st.integers(-(1 << 63), (1 << 63) - 1)
LONG_KEYS = st.binary(max_size=3) | st.binary(min_size=SHORT_KEY - 1, max_size=SHORT_KEY + 2)


#: Keys that begin alike as far as they are kept, and differ behind that.
NEAR_KEYS = st.tuples(st.sampled_from([SHORT_KEY - 1, SHORT_KEY, SHORT_KEY + 1]), st.binary(max_size=1)).map(
    lambda item: b"b" * item[0] + item[1]
)


@st.composite
def extents(draw: st.DrawFn, keys: st.SearchStrategy[Any] | None = None) -> list[ColumnStats]:
    keys = draw(st.sampled_from([KEYS, LONG_KEYS])) if keys is None else keys
    stats = []
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(0, 9))
        nulls = draw(st.integers(0, rows))
        if nulls == rows:
            stats.append(ColumnStats(rows, nulls, None, None))
        else:
            low, high = sorted([draw(keys), draw(keys)])
            stats.append(ColumnStats(rows, nulls, low, high))
    return stats


@given(extents())
def test_round_trip(given_extents: list[ColumnStats]) -> None:
    column = column_of([given_extents, given_extents[:1], given_extents])
    back = column.stripe_stats(2)
    assert column.all_stripe_stats() == [back, back[:1], back]
    assert back == tuple(item.truncate() for item in given_extents)
    for item in back:
        assert not isinstance(item.max_key, bytes) or len(item.max_key) <= SHORT_KEY


def test_long_keys_are_marked() -> None:
    long = b"z" * (SHORT_KEY + 1)
    stats = [ColumnStats(1, 0, b"a", b"b"), ColumnStats(2, 2, None, None), ColumnStats(1, 0, long, long)]
    message = encode_stripe_stats(stats)
    assert list(message.cut) == [1]
    assert column_of([stats]).stripe_stats(0)[2] == ColumnStats(
        1, 0, long[:-1], long[:-1], max_is_prefix=True
    )


def column_of(files: Sequence[Sequence[ColumnStats]]) -> StatsColumn:
    """The extents of some files' stripes as a segment has them."""
    messages = [encode_stripe_stats(item) for item in files]
    return decoded(messages, [[extent.rows for extent in item] for item in files])


def decoded(messages: Sequence[pb.StripeStats], rows: Sequence[Sequence[int]]) -> StatsColumn:
    lists = [
        pa.array([list(getattr(message, name)) for message in messages], pa.list_(of))
        for name, of in LISTS.items()
    ]
    return StatsColumn(
        pa.StructArray.from_arrays(lists, names=list(LISTS)), pa.array(rows, pa.list_(pa.uint64()))
    )


#: Bounds beyond all keys of 64 bits, too.
WIDE = st.none() | KEYS | st.sampled_from([-(1 << 70), 1 << 70, -(1 << 63), (1 << 63) - 1])
NEAR = st.none() | LONG_KEYS | NEAR_KEYS


@given(
    st.sampled_from([(KEYS, WIDE, KeyKind.INT64), (LONG_KEYS | NEAR_KEYS, NEAR, KeyKind.BYTES)]),
    st.integers(1, SHORT_KEY + 1),
    st.data(),
)
def test_files_of_a_column_are_judged_as_each_extent_is(
    kinds: tuple[st.SearchStrategy[Any], st.SearchStrategy[Any], KeyKind], limit: int, data: st.DataObject
) -> None:
    """Also where another version cut keys at other lengths."""
    keys, bounds, kind = kinds
    files = data.draw(st.lists(extents(keys), min_size=1, max_size=4), "files")
    pieces = data.draw(
        st.lists(st.tuples(bounds, bounds, st.booleans(), st.booleans()), max_size=12), "pieces"
    )
    domain = Domain.from_ranges(
        [
            item
            for low, high, low_in, high_in in pieces
            for item in Domain.between(low, high, low_inclusive=low_in, high_inclusive=high_in).ranges
        ],
        null_allowed=data.draw(st.booleans(), "null"),
    )
    stripes = [item for file in files for item in file]
    written = [item.truncate() for item in stripes]
    lower, upper = column_of(files).match(domain, kind)
    assert upper.tolist() == [item.can_match(domain) for item in written]
    # of many ranges, each stripe is compared as it was written, with as many bytes of its greatest key
    assert lower.tolist() == [item.all_match(domain) for item in written]
    cut_otherwise = column_of([[item.truncate(limit) for item in file] for file in files])
    lower, upper = cut_otherwise.match(domain, kind)
    for item, every, some in zip(stripes, lower.tolist(), upper.tolist(), strict=True):
        assert some or not item.can_match(domain)
        assert item.all_match(domain) or not every


@pytest.mark.parametrize("limit", [3, SHORT_KEY - 1, SHORT_KEY, SHORT_KEY + 1])
@pytest.mark.parametrize("many", [False, True], ids=["few ranges", "many ranges"])
def test_keys_behind_a_cut_are_not_missed(limit: int, many: bool) -> None:
    """The greatest key begins with what is kept of it: the bound of a range may, too, and go on."""
    key = b"b" * (SHORT_KEY + 1)
    column = column_of(
        [[ColumnStats(9, 0, b"a", key + b"z").truncate(limit)], [ColumnStats(9, 0, b"a", b"ab")]]
    )
    other = [Range(b"%d" % number, b"%d" % number) for number in range(100, 100 + _MAX_RANGES * many)]
    for low in (key[:SHORT_KEY], key, key + b"y"):
        for high in (None, low + b"~"):
            _, upper = column.match(Domain((*other, Range(low, high))), KeyKind.BYTES)
            assert upper.tolist() == [True, False]


@pytest.mark.parametrize("limit", [3, SHORT_KEY - 1, SHORT_KEY, SHORT_KEY + 1])
@pytest.mark.parametrize("many", [False, True], ids=["few ranges", "many ranges"])
def test_cut_keys_may_lie_beyond_a_longer_bound(limit: int, many: bool) -> None:
    """A greatest key that is cut before the bound of a range ends is below it only by what is kept of the key."""
    key = b"b" * limit
    column = column_of(
        [[ColumnStats(9, 0, b"a", key + b"z").truncate(limit)], [ColumnStats(9, 0, b"a", b"a")]]
    )
    other = [Range(b"%d" % number, b"%d" % number) for number in range(100, 100 + _MAX_RANGES * many)]
    lower, upper = column.match(Domain((*other, Range(b"a", key + b"c"))), KeyKind.BYTES)
    assert (lower.tolist(), upper.tolist()) == ([False, True], [True, True])


def test_many_ranges_are_judged_by_both_of_their_ends() -> None:
    ranges = tuple(Range(b"%d" % number, b"%d~" % number) for number in range(100, 101 + _MAX_RANGES))
    first, last = ranges[0].low, ranges[-1].low
    assert isinstance(first, bytes)
    assert isinstance(last, bytes)
    keys = (b"0", first, last + b"5", last + b"~", last + b"~~")
    column = column_of([[ColumnStats(1, 0, key, key)] for key in keys])
    for mask in column.match(Domain(ranges), KeyKind.BYTES):
        assert mask.tolist() == [False, True, True, True, False]


def test_files_with_keys_of_another_kind_are_not_compared() -> None:
    column = column_of(
        [[ColumnStats(9, 0, 1, 2)], [ColumnStats(9, 0, b"a", b"b")], [ColumnStats(9, 9, None, None)]]
    )
    for kind, key, others in ((KeyKind.INT64, 7, [1]), (KeyKind.BYTES, b"x", [0])):
        is_compared = [at not in others for at in range(3)]
        assert column.has_keys_of(kind).tolist() == is_compared
        for mask in column.match(Domain.points([key]), kind):
            assert not mask[is_compared].any()


@pytest.mark.parametrize(
    "message",
    [
        pb.StripeStats(null_counts=[0], int_mins=[1], int_maxs=[2]),
        pb.StripeStats(null_counts=[0, 0], int_mins=[1], int_maxs=[2]),
        pb.StripeStats(null_counts=[0, 5], int_mins=[1, 1], int_maxs=[2, 2]),
        pb.StripeStats(null_counts=[0, 6], int_mins=[1], int_maxs=[2]),
        pb.StripeStats(null_counts=[0, 5], int_mins=[3], int_maxs=[2]),
        pb.StripeStats(null_counts=[0, 5], int_mins=[1], byte_mins=[b"a"], int_maxs=[2]),
        pb.StripeStats(null_counts=[0, 5], int_mins=[1], int_maxs=[2], cut=[0]),
        pb.StripeStats(null_counts=[0, 5], byte_mins=[b"a"], byte_maxs=[b"b"], cut=[1]),
    ],
    ids=str,
)
def test_contradictions(message: pb.StripeStats) -> None:
    with raises(ValueError):
        decoded([message], [[5, 5]])

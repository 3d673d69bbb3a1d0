"""The extents that a manifest keeps of stripes: as they were, but for long keys; contradictions are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.index.extent import SHORT_KEY, Extent
from hindex.proto import manifest_pb2 as pb
from hindex.store.extents import decode_extents, encode_extents

KEYS = st.integers(-(1 << 63), (1 << 63) - 1)
LONG_KEYS = st.binary(max_size=3) | st.binary(min_size=SHORT_KEY - 1, max_size=SHORT_KEY + 2)


@st.composite
def extents(draw: st.DrawFn) -> list[Extent]:
    keys: st.SearchStrategy[Any] = draw(st.sampled_from([KEYS, LONG_KEYS]))
    found = []
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.integers(0, 9))
        nulls = draw(st.integers(0, rows))
        if nulls == rows:
            found.append(Extent(rows, nulls, None, None))
        else:
            low, high = sorted([draw(keys), draw(keys)])
            found.append(Extent(rows, nulls, low, high))
    return found


@given(extents())
def test_round_trip(given_extents: list[Extent]) -> None:
    message = pb.StripeExtents.FromString(encode_extents(given_extents).SerializeToString())
    back = decode_extents(message, [item.rows for item in given_extents])
    assert back == tuple(item.cut() for item in given_extents)
    for item in back:
        assert not isinstance(item.max_key, bytes) or len(item.max_key) <= SHORT_KEY


def test_long_keys_are_marked() -> None:
    long = b"z" * (SHORT_KEY + 1)
    found = [Extent(1, 0, b"a", b"b"), Extent(2, 2, None, None), Extent(1, 0, long, long)]
    message = encode_extents(found)
    assert list(message.cut) == [1]
    assert decode_extents(message, [1, 2, 1])[2] == Extent(1, 0, long[:-1], long[:-1], max_is_prefix=True)


@pytest.mark.parametrize(
    "message",
    [
        pb.StripeExtents(null_counts=[0], int_mins=[1], int_maxs=[2]),
        pb.StripeExtents(null_counts=[0, 0], int_mins=[1], int_maxs=[2]),
        pb.StripeExtents(null_counts=[0, 5], int_mins=[1, 1], int_maxs=[2, 2]),
        pb.StripeExtents(null_counts=[0, 6], int_mins=[1], int_maxs=[2]),
        pb.StripeExtents(null_counts=[0, 5], int_mins=[3], int_maxs=[2]),
        pb.StripeExtents(null_counts=[0, 5], int_mins=[1], byte_mins=[b"a"], int_maxs=[2]),
        pb.StripeExtents(null_counts=[0, 5], int_mins=[1], int_maxs=[2], cut=[0]),
        pb.StripeExtents(null_counts=[0, 5], byte_mins=[b"a"], byte_maxs=[b"b"], cut=[1]),
    ],
    ids=str,
)
def test_contradictions(message: pb.StripeExtents) -> None:
    with pytest.raises(ValueError, match=r"stripe|extent"):
        decode_extents(message, [5, 5])

"""MINMAX and stats: long keys, extremes, and what is read."""

from __future__ import annotations

import io
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hindex.domain import Domain, Range
from hindex.errors import BuildError
from hindex.index.column_stats import ColumnStats, array_stats
from hindex.index.index_file import IndexFileReader
from hindex.index.minmax import LONG_KEY, MinMaxBuilder, MinMaxReader
from hindex.orc.io.source import BytesSource
from tests.index.support import TYPES, build, key_of, open_index
from tests.support.messages import raises

LONG, STRING, DOUBLE = TYPES["bigint"], TYPES["string"], TYPES["double"]

BYTES = st.binary(max_size=5).map(lambda text: bytes(byte % 3 + 0xFD for byte in text)) | st.binary(
    max_size=4
)


@given(
    st.lists(st.none() | BYTES, min_size=1, max_size=5),
    st.lists(st.tuples(BYTES | st.none(), BYTES | st.none(), st.booleans(), st.booleans()), max_size=3),
    st.booleans(),
    st.integers(0, 3),
)
def test_cut_extents_stay_safe(
    keys: list[bytes | None],
    pieces: list[tuple[bytes | None, bytes | None, bool, bool]],
    null_allowed: bool,
    limit: int,
) -> None:
    domain = Domain.from_ranges(
        [
            item
            for low, high, low_in, high_in in pieces
            for item in Domain.between(low, high, low_inclusive=low_in, high_inclusive=high_in).ranges
        ],
        null_allowed=null_allowed,
    )
    non_null = [key for key in keys if key is not None]
    stats = ColumnStats(
        len(keys),
        len(keys) - len(non_null),
        min(non_null) if non_null else None,
        max(non_null) if non_null else None,
    )
    members = [domain.contains(key) for key in keys]
    for item in (stats, stats.truncate(limit), stats.truncate(3).truncate(limit)):
        assert item.can_match(domain) or not any(members)
        assert all(members) or not item.all_match(domain)
    # keys beyond the greatest are excluded if nothing was truncated
    if non_null:
        beyond = Domain.from_ranges([Range(stats.max_key, None, False)])
        assert not stats.can_match(beyond)
        assert stats.all_match(Domain.between(stats.min_key, stats.max_key)) == (len(non_null) == len(keys))


def test_long_strings_are_cut_and_stay_useful() -> None:
    long = "m" * (LONG_KEY + 500)
    column = ["a", "b", long + "x", long + "y", "z" * LONG_KEY, "zz" + "a" * LONG_KEY]
    data = build(STRING, [pa.array(column)], using="MINMAX", row_group_rows=2)
    assert len(data) < 3000
    reader = open_index(data)

    def upper(domain: Domain) -> list[int]:
        bounds = reader.lookup(0, domain)
        true = [row for row, value in enumerate(column) if domain.contains(value.encode())]
        assert set(bounds.lower) <= set(true) <= set(bounds.upper)
        return list(bounds.upper)

    assert upper(Domain.points([(long + "y").encode()])) == [2, 3]
    assert upper(Domain.points([(long + "q").encode()])) == [2, 3]
    assert upper(Domain.points([b"n"])) == []
    assert upper(Domain.points([b"c"])) == []
    assert upper(Domain.between(b"n", None)) == [4, 5]
    assert list(reader.lookup(0, Domain.between(b"m", b"n")).lower) == [2, 3]
    # the truncated rest may lie below
    assert list(reader.lookup(0, Domain.between(b"m", (long + "z").encode())).lower) == []


def test_floats() -> None:
    column = [0.0, -0.0, math.nan, 1.0, -math.inf, math.inf, None, math.nan]
    reader = open_index(build(DOUBLE, [pa.array(column, pa.float64())], using="MINMAX", row_group_rows=2))

    def key(value: float) -> int:
        float_key = key_of(DOUBLE, value)
        assert isinstance(float_key, int)
        return float_key

    for domain, lower, upper in [
        (Domain.points([key(0.0)]), [0, 1], [0, 1, 4, 5]),
        (Domain.points([key(math.nan)]), [], [2, 3, 6, 7]),
        (Domain.between(key(math.inf), None, low_inclusive=False), [], [2, 3, 6, 7]),
        (Domain.between(None, key(math.inf)), [0, 1, 4, 5], [0, 1, 2, 3, 4, 5]),
        (Domain.points([key(math.nan)], null_allowed=True), [6, 7], [2, 3, 6, 7]),
    ]:
        bounds = reader.lookup(0, domain)
        assert (list(bounds.lower), list(bounds.upper)) == (lower, upper), domain


def test_what_a_lookup_reads() -> None:
    data = build(LONG, [pa.array(range(1000), pa.int64())] * 2, using="MINMAX", row_group_rows=100)
    file = IndexFileReader(BytesSource(data, "x.hidx"))
    reader = MinMaxReader(file)
    # the stripe's own stats decides
    assert not reader.lookup(0, Domain.points([5000])).upper
    assert reader.lookup(0, Domain.between(0, None)).exact
    assert reader.lookup(0, Domain.only_null()).exact
    assert file.pages_read == 0
    bounds = reader.lookup(0, Domain.between(250, 449))
    assert (list(bounds.lower), list(bounds.upper)) == (list(range(300, 400)), list(range(200, 500)))
    assert file.pages_read == 1
    reader.lookup(0, Domain.points([7]))
    assert file.pages_read == 1


def test_extents_that_are_known_need_no_values() -> None:
    sink = io.BytesIO()
    builder = MinMaxBuilder(sink, LONG, row_group_rows=10)
    builder.add_stats(
        25, [ColumnStats(10, 0, 1, 5), ColumnStats(10, 10, None, None), ColumnStats(5, 1, -3, 9)]
    )
    assert builder.finish().stripes[0].stats == ColumnStats(25, 11, -3, 9)
    reader = open_index(sink.getvalue())
    assert list(reader.lookup(0, Domain.points([7])).upper) == [20, 21, 22, 23, 24]
    assert reader.lookup(0, Domain.between(1, 5)).lower.max() == 9
    for groups in (
        [ColumnStats(10, 0, 1, 5)],
        [ColumnStats(10, 0, 1, 5), ColumnStats(10, 0, 1, 5), ColumnStats(6, 0, 1, 2)],
    ):
        with raises(BuildError):
            MinMaxBuilder(io.BytesIO(), LONG, row_group_rows=10).add_stats(25, groups)


@given(st.lists(st.lists(BYTES, min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_a_stripe_spans_its_row_groups_wherever_their_keys_are_cut(
    groups: list[list[bytes]], data: st.DataObject
) -> None:
    """Writers cut at characters, not at one length: a group's prefix may be below another's whole key."""
    stats = []
    for keys in groups:
        low, high, limit = min(keys), max(keys), data.draw(st.integers(0, 5))
        is_cut = len(high) > limit
        stats.append(ColumnStats(1, 0, min(low, high[:limit]) if is_cut else low, high[:limit], is_cut))
    sink = io.BytesIO()
    builder = MinMaxBuilder(sink, STRING, row_group_rows=1)
    builder.add_stats(len(stats), stats)
    whole = builder.finish().stripes[0].stats
    reader = open_index(sink.getvalue())
    for row, keys in enumerate(groups):
        for key in keys:
            assert whole.can_match(Domain.points([key])), (whole, key)
            assert row in reader.lookup(0, Domain.points([key])).upper, (whole, key)
            below = Domain.between(None, key, high_inclusive=False)
            assert not whole.all_match(below), (whole, key)
            assert row not in reader.lookup(0, below).lower, (whole, key)


def test_slices_and_dictionaries() -> None:
    whole = pa.array(["z", None, "b", "a", "c", "zz"])
    assert array_stats(STRING, whole.slice(1, 4)) == ColumnStats(4, 1, b"a", b"c")
    assert array_stats(STRING, whole.dictionary_encode().slice(1, 4)) == ColumnStats(4, 1, b"a", b"c")
    numbers = pa.array([100, None, 2, 1, 3, 100], pa.int64())
    assert array_stats(LONG, numbers.slice(1, 4)) == ColumnStats(4, 1, 1, 3)
    padded = array_stats(TYPES["char"], pa.array(["b", "a"]))
    assert padded == ColumnStats(2, 0, b"a".ljust(20), b"b".ljust(20))

"""BITMAP lookups against an oracle made of the values themselves."""

from __future__ import annotations

import datetime
import io
import math
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from hindex.domain import Domain, Range
from hindex.errors import BuildError, ColumnError, HindexError
from hindex.index import postings, roaring, tree_reader
from hindex.index.bitmap import BITMAP, BitmapBuilder, BitmapReader
from hindex.index.column_stats import ColumnStats
from hindex.index.index_type import StripeSummary
from hindex.orc.metadata.types import Kind, OrcType
from tests.index import peak_memory, support
from tests.index.support import TYPES, build, read, rows
from tests.support.cases import cases, sampled
from tests.support.messages import raises

LONG = TYPES["bigint"]
STRING = TYPES["string"]


def leaf_count(reader: BitmapReader) -> int:
    """Leaf pages of the first stripe."""
    return len(reader._stripes[0].tree)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=cases(10, 30))
@given(data=st.data())
def test_random_domains_of_every_type(name: str, data: st.DataObject) -> None:
    data_type = TYPES[name]
    some = support.values(data_type)
    pool = data.draw(st.lists(some, min_size=1, max_size=12), "pool")
    column = st.lists(st.none() | st.sampled_from(pool) | some, max_size=40)
    stripes = data.draw(st.lists(column, min_size=1, max_size=3), "stripes")
    file = build(
        data_type,
        [support.to_array(data_type, stripe) for stripe in stripes],
        values_per_page=data.draw(st.sampled_from([1, 2, 3, 7, 4096]), "values_per_page"),
    )
    reader = read(file)
    assert reader.stripe_rows == tuple(map(len, stripes))
    bound = st.none() | st.sampled_from(pool) | some
    piece = st.tuples(bound, bound, st.booleans(), st.booleans()) | st.sampled_from(pool).map(
        lambda value: (value, value, True, True)
    )
    for _ in range(4):
        pieces = data.draw(st.lists(piece, max_size=5), "pieces")
        null_allowed = data.draw(st.booleans(), "null_allowed")
        domain = support.domain(data_type, pieces, null_allowed)
        for number, stripe in enumerate(stripes):
            wanted = support.expected(data_type, stripe, pieces, null_allowed)
            assert rows(reader, number, domain) == wanted


def test_keys_of_one_leaf_that_have_many_rows_inline() -> None:
    """Their unpacked rows are kept, each for its own key, and for its own stripe."""
    count = tree_reader._MANY_ROWS * 20
    columns = [[(i * 7 + stripe) % 10 for i in range(count)] for stripe in range(2)]
    reader = read(build(LONG, [pa.array(column) for column in columns]))
    for stripe in range(2):
        (leaf,) = reader._stripes[stripe].tree.leaves([0])
        assert min(leaf.inline_counts) >= tree_reader._MANY_ROWS, "rows of other keys are read"
    for _ in range(2):
        for stripe, column in enumerate(columns):
            for key in range(10):
                expected = [i for i, value in enumerate(column) if value == key]
                assert rows(reader, stripe, Domain.points([key])) == expected


def test_the_oracle_knows_nan_and_zero() -> None:
    data_type = TYPES["double"]
    column = [0.0, -0.0, math.nan, math.inf, None, -math.inf, -math.nan]
    reader = read(build(data_type, [support.to_array(data_type, column)]))
    assert rows(reader, 0, support.domain(data_type, [(0.0, 0.0, True, True)], False)) == [0, 1]
    assert rows(reader, 0, support.domain(data_type, [(math.nan, math.nan, True, True)], False)) == [2, 6]
    assert rows(reader, 0, support.domain(data_type, [(5.0, None, False, False)], True)) == [2, 3, 4, 6]


SHAPES: dict[str, Any] = {
    "few values": lambda rng, n: rng.integers(0, 7, n),
    "one value": lambda rng, n: np.full(n, 42),
    "dense and sparse": lambda rng, n: np.where(rng.random(n) < 0.5, 0, rng.integers(0, 900, n)),
    "some thousands": lambda rng, n: rng.integers(0, 2500, n) - 1000,
    "near-unique": lambda rng, n: rng.integers(0, n, n),
    "sorted": lambda rng, n: np.sort(rng.integers(0, 200, n)),
    "unique": lambda rng, n: rng.permutation(n),
    "clustered": lambda rng, n: np.arange(n) // 4,
    "beyond 32 bits": lambda rng, n: rng.integers(0, 1 << 40, n),
    "whole range": lambda rng, n: rng.integers(-(1 << 63), (1 << 63) - 1, n, endpoint=True),
}


@sampled(7)
@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("shape", SHAPES)
def test_large_stripes(shape: str, nulls: float) -> None:
    seed = 20261
    rng = np.random.default_rng(seed)
    keys = SHAPES[shape](rng, 60_000).astype(np.int64)
    missing = rng.random(len(keys)) < nulls
    array = pa.array(keys, pa.int64(), mask=missing)
    reader = read(build(LONG, [array]))
    valid = ~missing
    domains = [Domain.none(), Domain.all(), Domain.not_null(), Domain.only_null()]
    points = np.unique(keys)
    for _ in range(4):
        low, high = np.sort(rng.choice(keys, 2)).tolist()
        domains += [Domain.points([low]), Domain.between(low, high), Domain.between(low, None)]
        domains += [Domain.between(None, high), Domain.points([low]).complement(null_allowed=False)]
    domains.append(Domain.points(rng.choice(points, min(len(points), 10_000), replace=False).tolist()))
    domains.append(Domain.points([int(points[0]), int(points[-1]) ^ 1, *points[::2].tolist()]))
    domains.append(Domain.between(int(points[0]), int(points[-1])))
    for domain in domains:
        if domain.ranges and all(item.is_point for item in domain.ranges):
            mask = np.isin(keys, np.array([item.low for item in domain.ranges], np.int64))
        else:
            mask = np.zeros(len(keys), np.bool_)
            for item in domain.ranges:
                part = np.ones(len(keys), np.bool_)
                if item.low is not None:
                    part &= keys >= item.low
                if item.high is not None:
                    part &= keys <= item.high
                mask |= part
        mask = (mask & valid) | (missing & domain.null_allowed)
        bounds = reader.lookup(0, domain)
        assert bounds.exact
        assert bounds.lower == BitMap(np.flatnonzero(mask)), (seed, shape, domain)


def test_a_row_number_above_16_bits_and_32_bit_packing_agree() -> None:
    column = list(range(70_000)) * 2
    reader = read(build(LONG, [pa.array(column, pa.int64())]))
    assert rows(reader, 0, Domain.points([69_999])) == [69_999, 139_999]


def test_strings_that_hurt() -> None:
    big = "x" * (1 << 20)
    column = [big, "", None, big + "a", "a\0", "a", "a\0\0", "\U0001f600", "\uffff", "", None, "x"]
    for page in (1, 2, 4096):
        reader = read(build(STRING, [pa.array(column)], values_per_page=page))
        assert rows(reader, 0, Domain.points([b""])) == [1, 9]
        assert rows(reader, 0, Domain.points([big.encode()])) == [0]
        assert rows(reader, 0, Domain.between(b"x", None, low_inclusive=False)) == [0, 3, 7, 8]
        assert rows(reader, 0, Domain.points([b"a\0", b"a\0\0"])) == [4, 6]
        assert rows(reader, 0, Domain.between(None, b"a", high_inclusive=False)) == [1, 9]
        # code point order, not the order of UTF-16 units
        assert rows(reader, 0, Domain.between("\uffff".encode(), None, low_inclusive=False)) == [7]
        assert rows(reader, 0, Domain.only_null()) == [2, 10]


def test_invalid_utf8_in_a_string_column() -> None:
    column = [b"\xff\xfe", b"\x80", b"ok", None, b"\xff"]
    array = pa.array(column, pa.binary())
    as_text = pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count)
    for given_array in (array, as_text, array.cast(pa.large_binary())):
        reader = read(build(STRING, [given_array]))
        assert rows(reader, 0, Domain.points([b"\xff"])) == [4]
        assert rows(reader, 0, Domain.between(b"\x80", None)) == [0, 1, 4]


def test_long_bounds_stay_out_of_the_footer() -> None:
    column = [str(n) + "y" * 100_000 for n in range(10, 30)]
    reader = read(build(STRING, [pa.array(column)], values_per_page=1))
    assert len(reader.file.footer.body) < 2000
    for row, value in enumerate(column):
        assert rows(reader, 0, Domain.points([value.encode()])) == [row]


@pytest.mark.parametrize("data_type", [LONG, STRING, TYPES["decimal_38_4"], TYPES["boolean"]], ids=str)
def test_stripes_without_values(data_type: OrcType) -> None:
    empty, blank = pa.array([], data_type.to_arrow()), pa.nulls(5, data_type.to_arrow())
    reader = read(build(data_type, [empty, blank, empty]))
    assert reader.stripe_rows == (0, 5, 0)
    point = Domain.points([b"1" if data_type in (STRING, TYPES["decimal_38_4"]) else 1])
    for stripe, null_rows in ((0, []), (1, [0, 1, 2, 3, 4]), (2, [])):
        assert rows(reader, stripe, Domain.all()) == null_rows
        assert rows(reader, stripe, Domain.only_null()) == null_rows
        assert rows(reader, stripe, Domain.not_null()) == []
        assert rows(reader, stripe, point) == []
        assert rows(reader, stripe, Domain(point.ranges, True)) == null_rows


def test_a_file_without_stripes() -> None:
    assert read(build(LONG, [])).stripe_rows == ()


def test_bounds_beyond_64_bits() -> None:
    column = [-(1 << 63), 5, (1 << 63) - 1, None]
    reader = read(build(LONG, [pa.array(column, pa.int64())], values_per_page=1))
    far = 1 << 70
    assert rows(reader, 0, Domain.points([far, -far, 5])) == [1]
    assert rows(reader, 0, Domain.between(far, None)) == []
    assert rows(reader, 0, Domain.between(None, -far)) == []
    assert rows(reader, 0, Domain.between(-far, far)) == [0, 1, 2]
    assert rows(reader, 0, Domain.between(6, far)) == [2]
    assert rows(reader, 0, Domain((Range(-far, 4), Range(6, far)), True)) == [0, 2, 3]
    assert rows(reader, 0, Domain.points([(1 << 63) - 1])) == [2]
    assert rows(reader, 0, Domain.points([-(1 << 63)])) == [0]


def test_dictionaries_with_repeats_nulls_and_unused_values() -> None:
    dictionary = pa.array(["b", "a", None, "b", "unused"])
    indices = pa.array([0, 1, 2, 3, None, 1], pa.int32())
    reader = read(build(STRING, [pa.DictionaryArray.from_arrays(indices, dictionary)]))
    assert reader.key_count(0) == 2
    assert rows(reader, 0, Domain.points([b"b"])) == [0, 3]
    assert rows(reader, 0, Domain.only_null()) == [2, 4]
    assert rows(reader, 0, Domain.between(b"a", None)) == [0, 1, 3, 5]
    numbers = pa.DictionaryArray.from_arrays(indices, pa.array([7, 5, None, 7, 9], pa.int64()))
    reader = read(build(LONG, [numbers]))
    assert rows(reader, 0, Domain.points([7])) == [0, 3]
    assert rows(reader, 0, Domain.only_null()) == [2, 4]


def test_slices_and_chunks_are_read_where_they_begin() -> None:
    whole = pa.array([9, None, 1, 2, None, 2, 3], pa.int64())
    reader = read(build(LONG, [whole.slice(2, 4), pa.chunked_array([whole.slice(0, 2), whole.slice(5)])]))
    assert rows(reader, 0, Domain.points([2])) == [1, 3]
    assert rows(reader, 0, Domain.only_null()) == [2]
    assert rows(reader, 1, Domain.points([2, 9])) == [0, 2]


def test_what_a_lookup_reads() -> None:
    keys = np.random.default_rng(3).permutation(50_000)
    frequent = np.where(np.arange(50_000) % 3 == 0, -1, keys)
    reader = read(build(LONG, [pa.array(frequent, pa.int64())], values_per_page=100))
    file = reader.file
    leaves = leaf_count(reader)
    assert leaves > 300
    assert file.pages_read == 0
    target = int(keys[1])
    assert rows(reader, 0, Domain.points([target])) == [1]
    assert file.pages_read == 1
    # the same leaf again comes from the cache
    rows(reader, 0, Domain.points([target]))
    assert file.pages_read == 1
    assert len(rows(reader, 0, Domain.points([-1]))) == 16_667
    assert file.pages_read == 3
    # a key below all, and nothing but nulls, read nothing
    assert rows(reader, 0, Domain.points([-2])) == []
    assert rows(reader, 0, Domain.only_null()) == []
    assert len(rows(reader, 0, Domain.not_null())) == 50_000
    assert file.pages_read == 3
    # all but a few leaves: the complement reads the few
    assert len(rows(reader, 0, Domain.between(500, None))) > 30_000
    assert file.pages_read < 3 + leaves // 2


def test_a_small_cache_still_answers() -> None:
    reader = read(build(LONG, [pa.array(range(1000), pa.int64())], values_per_page=10), cache_bytes=1)
    for value in (5, 500, 5, 999):
        assert rows(reader, 0, Domain.points([value])) == [value]
    assert reader.file.pages_read == 4
    assert reader.file._cache.counts.bytes == 0


def test_rows_are_inline_or_outside() -> None:
    rng = np.random.default_rng(5)
    # one clustered, one dense, and many scattered keys
    scattered = rng.integers(10, 500, 50_000)
    column = np.concatenate([np.full(5000, 1), np.where(rng.random(50_000) < 0.3, 2, scattered)])
    reader = read(build(LONG, [pa.array(column, pa.int64())]))
    pages = []
    for value in (1, 2, 10, 499):
        before = reader.file.pages_read
        assert rows(reader, 0, Domain.points([value])) == np.flatnonzero(column == value).tolist()
        pages.append(reader.file.pages_read - before)
    # leaf and bitmap; bitmap; nothing more; another leaf
    assert pages == [2, 1, 0, 1]


def test_one_answer_does_not_change_another() -> None:
    """Row sets are shared by lookups: nulls, unions and complements in turn leave each as it was."""
    rng = np.random.default_rng(6)
    # 1: a bitmap of its own; 2: many rows inline; 3: few rows
    column = rng.choice([1, 2, 3], 60_000, p=[0.9, 0.099, 0.001])
    nulls = rng.random(60_000) < 0.01
    reader = read(build(LONG, [pa.array(column, pa.int64(), mask=nulls)]))
    asked = [
        (values, null)
        for null in (True, False, True)
        for values in ((), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3))
    ]
    for values, null in asked * 2:
        domain = Domain.from_ranges([Range(value, value) for value in values], null_allowed=null)
        wanted = np.where(nulls, null, np.isin(column, values))
        assert rows(reader, 0, domain) == np.flatnonzero(wanted).tolist()
    # all but one key, which is what a complement looks up
    for value in (1, 2, 1, 2):
        domain = Domain.from_ranges([Range(None, value - 1), Range(value + 1, None)], null_allowed=False)
        assert rows(reader, 0, domain) == np.flatnonzero(~nulls & (column != value)).tolist()
        assert rows(reader, 0, Domain.points([value])) == np.flatnonzero(~nulls & (column == value)).tolist()
    # the rows that many had to be unpacked for are kept, and not unpacked again
    hits = reader.file._cache.counts.hits
    rows(reader, 0, Domain.points([2]))
    assert reader.file._cache.counts.hits == hits + 2


@pytest.mark.slow
@sampled(3)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to tell peaks")
@pytest.mark.parametrize("column", peak_memory.COLUMNS)
def test_building_holds_at_most_four_times_the_column(column: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.index.peak_memory", column],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    # a few pages are given or taken
    assert float(run.stdout) <= 4.05, column


@sampled(20)
@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("data_type", [LONG, STRING, TYPES["decimal_38_4"]], ids=str)
def test_a_stripe_grouped_in_pieces(
    data_type: OrcType, shape: str, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    keys = SHAPES[shape](rng, 6000).astype(np.int64)
    numbers = pa.array(keys, pa.int64(), mask=rng.random(len(keys)) < nulls)
    if data_type is LONG:
        array = numbers
    elif data_type is STRING:
        array = numbers.cast(pa.string())
    else:
        array = numbers.cast(pa.decimal128(38, 0)).cast(data_type.to_arrow())
    whole = build(data_type, [array, array.slice(3000)], values_per_page=200)
    monkeypatch.setattr(postings, "MIN_MEMORY", 60_000)
    monkeypatch.setattr(postings, "MEMORY_FACTOR", 0)
    monkeypatch.setattr(postings, "_BLOCK", 1000)
    monkeypatch.setattr(postings, "_SAMPLE", 1000)
    pieces = list(postings.group_key_ranges(data_type, array))
    assert sum(len(item.rows) for item in pieces) == len(array) - array.null_count
    if shape in ("near-unique", "unique", "beyond 32 bits", "whole range"):
        assert len(pieces) > 1
    in_pieces = read(build(data_type, [array, array.slice(3000)], values_per_page=200))
    at_once = read(whole)
    assert in_pieces.key_count(0) == at_once.key_count(0)
    some = [support.key_of(data_type, value) for value in rng.choice(array.drop_null().to_numpy(False), 30)]
    domains = [Domain.points([key]) for key in some]
    domains += [Domain.between(low, high) for low, high in pairwise(some)]
    domains += [Domain.only_null(), Domain.not_null()]
    for stripe in (0, 1):
        for domain in domains:
            assert in_pieces.lookup(stripe, domain) == at_once.lookup(stripe, domain)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_wide_ranges_read_leaves_and_no_bitmaps(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million different values, each in one row: whole leaves or the complement, never a bitmap for each value."""
    count = 1_000_000
    keys = np.random.default_rng(6).permutation(count)
    reader = _million(count)
    leaves = leaf_count(reader)
    assert leaves <= count // 4096 + 8
    loads: list[int] = []
    monkeypatch.setattr(roaring, "load", lambda data, total, rows: loads.append(rows))
    before = reader.file.pages_read
    low = count // 200
    bounds = reader.lookup(0, Domain.between(low, low + int(share * count) - 1))
    assert bounds.exact
    inside = (keys >= low) & (keys < low + int(share * count))
    assert bounds.lower == BitMap(np.flatnonzero(inside))
    pages = reader.file.pages_read - before
    # the leaves of the range, or of what is outside of it where that is less, and those that are cut at its ends
    assert pages <= min(share, 1 - share) * leaves + 4, (pages, leaves)
    assert loads == []


@cache
def _built_million(count: int) -> bytes:
    keys = np.random.default_rng(6).permutation(count)
    return build(LONG, [pa.array(keys, pa.int64())])


def _million(count: int) -> BitmapReader:
    return read(_built_million(count))


def test_wide_ranges_of_frequent_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range over values with bitmaps of their own reads those of its values, or of the others."""
    column = pa.array(np.repeat(np.arange(100), 1000), pa.int64())
    data = build(LONG, [column])
    for low, high, max_pages in [(0, 0, 1), (0, 49, 51), (0, 98, 2), (2, 97, 5)]:
        reader = read(data)
        assert len(reader.lookup(0, Domain.between(low, high)).lower) == 1000 * (high - low + 1)
        assert reader.file.pages_read <= max_pages + leaf_count(reader), (low, high)


def test_the_summary() -> None:
    builder = BitmapBuilder(io.BytesIO(), TYPES["date"], column="d")
    builder.add_stripe(pa.array([datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31)]))
    builder.add_stripe(pa.nulls(2, pa.date32()))
    first, second = builder.finish().stripes
    assert first == StripeSummary(ColumnStats(3, 1, -1, 2), 2)
    assert second == StripeSummary(ColumnStats(2, 2, None, None), 0)


def test_the_same_values_give_the_same_bytes() -> None:
    array = pa.array([3, 1, None, 3], pa.int64())
    metadata = {"b": "2", "a": "1"}
    assert build(LONG, [array], metadata) == build(LONG, [array], dict(sorted(metadata.items())))


@pytest.mark.parametrize(
    ("data_type", "array"),
    [
        (TYPES["timestamp"], pa.array([1], pa.timestamp("ns"))),
        (TYPES["decimal_9_2"], pa.array([None], pa.decimal128(9, 3))),
        (LONG, pa.array([1], pa.int32())),
        (STRING, pa.array([1], pa.int64())),
    ],
)
def test_values_of_another_type_are_refused(data_type: OrcType, array: pa.Array) -> None:
    with raises(BuildError):
        build(data_type, [array])


@pytest.mark.parametrize(
    "data_type",
    [OrcType(Kind.STRUCT), OrcType(Kind.LIST, children=(LONG,)), OrcType(Kind.MAP, children=(LONG, LONG))],
    ids=str,
)
def test_composite_columns_are_refused(data_type: OrcType) -> None:
    assert not BITMAP.supports(data_type)
    with raises(ColumnError):
        build(data_type, [])


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"nonsense": "1"},
            "Unknown property 'nonsense' of index type BITMAP: known properties are values_per_page",
        ),
        ({"values_per_page": "0"}, "a whole number from 1 to"),
        ({"values_per_page": "many"}, "a whole number from 1 to"),
        ({"values_per_page": "1", "VALUES_PER_PAGE": "2"}, "given twice"),
    ],
)
def test_bad_properties(properties: dict[str, str], message: str) -> None:
    with pytest.raises(HindexError, match=message):
        BitmapBuilder(io.BytesIO(), LONG, properties)


def test_properties_are_recorded_in_normal_form() -> None:
    sink = io.BytesIO()
    BitmapBuilder(sink, LONG, {"bitmap.Values_Per_Page": " 07 "}, column="a.b").finish()
    footer = read(sink.getvalue()).file.footer
    assert footer.properties == {"values_per_page": "7"}
    assert (footer.column, footer.column_type) == ("a.b", "bigint")

"""Guarantees of every index type: random data of every column type, against a plain Python oracle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.domain import Domain, Range
from hindex.errors import BuildError, ColumnError, HindexError, IndexFileError, NewerFormatError
from hindex.index.index_file import IndexFileReader
from hindex.index.index_type import CostedReader, FileIndexType, Level, Operator, file_index_type
from hindex.index.page_cache import Cache
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import Kind, OrcType
from tests.index import support
from tests.index.support import FILE_TYPES, TYPES, build, open_index
from tests.support.cases import cases, sampled
from tests.support.messages import raises

LONG, STRING = TYPES["bigint"], TYPES["string"]


@sampled(24)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("using", FILE_TYPES)
@settings(max_examples=cases(8, 25))
@given(data=st.data())
def test_bounds_hold_what_is_true(using: str, name: str, data: st.DataObject) -> None:
    data_type = TYPES[name]
    some = support.values(data_type)
    pool = data.draw(st.lists(some, min_size=1, max_size=12), "pool")
    column = st.lists(st.none() | st.sampled_from(pool) | some, max_size=30) | st.lists(
        st.sampled_from([None, pool[0]]), max_size=9
    )
    stripes = data.draw(st.lists(column, min_size=1, max_size=3), "stripes")
    size = data.draw(st.sampled_from([0, 1, 3, 8, 1000]), "row_group_rows")
    reader = open_index(
        build(
            data_type,
            [support.to_array(data_type, stripe) for stripe in stripes],
            using=using,
            row_group_rows=size,
        )
    )
    assert reader.stripe_rows == tuple(map(len, stripes))
    bound = st.none() | st.sampled_from(pool) | some
    piece = st.tuples(bound, bound, st.booleans(), st.booleans()) | st.sampled_from(pool).map(
        lambda value: (value, value, True, True)
    )
    for _ in range(4):
        pieces = data.draw(st.lists(piece, max_size=4), "pieces")
        null_allowed = data.draw(st.booleans(), "null_allowed")
        domain = support.domain(data_type, pieces, null_allowed)
        for number, stripe in enumerate(stripes):
            wanted = set(support.expected(data_type, stripe, pieces, null_allowed))
            bounds = reader.lookup(number, domain)
            assert set(bounds.lower) <= wanted <= set(bounds.upper)
            assert bounds.upper.max() < len(stripe) if bounds.upper else True
            if using == "BITMAP":
                assert set(bounds.lower) == set(bounds.upper)
            for at in range(0, len(stripe), size or max(len(stripe), 1)):
                group = range(at, min(at + (size or len(stripe)), len(stripe)))
                if using == "MINMAX":
                    _check_minmax(data_type, stripe, group, domain, bounds)


def _check_minmax(data_type: OrcType, stripe: list[Any], group: range, domain: Domain, bounds: Any) -> None:
    """A group is out, in, or open exactly as its statistics say."""
    keys = [support.key_of(data_type, stripe[row]) for row in group if stripe[row] is not None]
    nulls = len(group) - len(keys)
    span = Range(min(keys), max(keys)) if keys else None
    touched = span is not None and bool(domain.intersect(Domain((span,))).ranges)
    some = touched or (nulls > 0 and domain.null_allowed)
    covered = span is None or domain.intersect(Domain((span,))).ranges == (span,)
    if isinstance(keys[0] if keys else 0, bytes) and not covered and span is not None:
        # a range of bytes that begins at the empty string has an open end
        covered = any(item.contains(span.low) and item.contains(span.high) for item in domain.ranges)  # type: ignore[arg-type]
    every = covered and (nulls == 0 or domain.null_allowed)
    assert set(group) <= set(bounds.upper) if some else not set(group) & set(bounds.upper)
    assert set(group) <= set(bounds.lower) if every else not set(group) & set(bounds.lower)


@pytest.mark.parametrize("using", FILE_TYPES)
@pytest.mark.parametrize("data_type", [LONG, STRING, TYPES["decimal_38_4"], TYPES["boolean"]], ids=str)
def test_stripes_without_values(using: str, data_type: OrcType) -> None:
    empty, blank = pa.array([], data_type.to_arrow()), pa.nulls(5, data_type.to_arrow())
    reader = open_index(build(data_type, [empty, blank, empty], using=using, row_group_rows=2))
    assert reader.stripe_rows == (0, 5, 0)
    point = Domain.points([b"1" if data_type in (STRING, TYPES["decimal_38_4"]) else 1])
    for stripe, null_rows in ((0, []), (1, [0, 1, 2, 3, 4]), (2, [])):
        assert list(reader.lookup(stripe, point).upper) == []
        for domain in (Domain.only_null(), Domain(point.ranges, True), Domain.all()):
            bounds = reader.lookup(stripe, domain)
            assert list(bounds.upper) == null_rows
            assert using == "BLOOM" or list(bounds.lower) == null_rows
    assert open_index(build(data_type, [], using=using)).stripe_rows == ()


@pytest.mark.parametrize("using", FILE_TYPES)
def test_bounds_beyond_64_bits(using: str) -> None:
    column = [-(1 << 63), 5, (1 << 63) - 1, None]
    far = 1 << 70
    reader = open_index(build(LONG, [pa.array(column, pa.int64())], using=using, row_group_rows=1))
    for domain, true in [
        (Domain.points([far, -far, 5]), {1}),
        (Domain.between(far, None), set()),
        (Domain.between(None, -far), set()),
        (Domain.between(-far, far), {0, 1, 2}),
        (Domain.between(6, far), {2}),
        (Domain.between((1 << 63) - 3, far), {2}),
        (Domain.between(-far, -(1 << 63) + 3), {0}),
        (Domain((Range(-far, 4), Range(6, far)), True), {0, 2, 3}),
    ]:
        bounds = reader.lookup(0, domain)
        assert set(bounds.lower) <= true <= set(bounds.upper)
        if isinstance(reader, CostedReader):
            assert reader.estimate_cost(0, domain).rows >= len(true) - 1
        if using == "MINMAX":
            assert true == set(bounds.lower) == set(bounds.upper)


def small_file(using: str, data_type: OrcType) -> bytes:
    values: list[Any] = [5, None, 7, 5, 9, 1] if data_type is LONG else ["b", None, "ab" * 20, "b", "", "zz"]
    array = pa.array(values, data_type.to_arrow())
    return build(data_type, [array, array.slice(1)], {"data_file": "x.orc"}, using=using, row_group_rows=2)


def answers(data: bytes, data_type: OrcType) -> list[Any]:
    """Return a file's answers to all queries of this test."""
    reader = open_index(data)
    results: list[Any] = [reader.stripe_rows]
    points = [5, 9] if data_type is LONG else [b"b", b"zz"]
    for stripe in range(len(reader.stripe_rows)):
        for domain in (Domain.points(points), Domain.between(points[0], None), Domain.only_null()):
            bounds = reader.lookup(stripe, domain)
            results.append((list(bounds.lower), list(bounds.upper)))
    return results


@pytest.mark.parametrize("data_type", [LONG, STRING], ids=str)
@pytest.mark.parametrize("using", FILE_TYPES)
def test_every_byte_flipped(using: str, data_type: OrcType) -> None:
    data = small_file(using, data_type)
    right = answers(data, data_type)
    pages_end = IndexFileReader(BytesSource(data)).pages_end
    named = set()
    for at in range(len(data)):
        for bit in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[at] ^= bit
            # pages that the questions do not touch may hide damage, but never change an answer
            try:
                results = answers(bytes(broken), data_type)
            except IndexFileError as error:
                named.add("test.hidx" in str(error))
            else:
                assert results == right, at
                assert at < pages_end, at
    assert named == {True}


@pytest.mark.parametrize("using", FILE_TYPES)
def test_every_page_is_checked(using: str) -> None:
    """Asked for everything, a file answers only if each of its bytes is right."""
    data = small_file(using, LONG)
    pages_end = IndexFileReader(BytesSource(data)).pages_end
    missed = []
    for at in range(pages_end):
        broken = bytearray(data)
        broken[at] ^= 0x10
        try:
            answers(bytes(broken), LONG)
        except IndexFileError:
            continue
        missed.append(at)
    assert missed == []


@pytest.mark.parametrize("data_type", [LONG, STRING], ids=str)
@pytest.mark.parametrize("using", FILE_TYPES)
def test_every_truncation(using: str, data_type: OrcType) -> None:
    data = small_file(using, data_type)
    for length in range(len(data)):
        with pytest.raises(IndexFileError, match=r"test\.hidx"):
            answers(data[:length], data_type)
    with raises(IndexFileError):
        answers(data + b"\0", data_type)


@pytest.mark.parametrize("using", FILE_TYPES)
def test_a_newer_version(using: str) -> None:
    data = bytearray(small_file(using, LONG))
    data[-16] = 2
    with raises(NewerFormatError):
        open_index(bytes(data))


@pytest.mark.parametrize("using", FILE_TYPES)
def test_the_same_values_give_the_same_bytes(using: str) -> None:
    assert small_file(using, STRING) == small_file(using, STRING)


@pytest.mark.parametrize("using", FILE_TYPES)
@pytest.mark.parametrize(
    "data_type",
    [OrcType(Kind.STRUCT), OrcType(Kind.LIST, children=(LONG,)), OrcType(Kind.MAP, children=(LONG, LONG))],
    ids=str,
)
def test_composite_columns_are_refused(using: str, data_type: OrcType) -> None:
    assert not file_index_type(using).supports(data_type)
    with raises(ColumnError):
        build(data_type, [], using=using)


@pytest.mark.parametrize("using", FILE_TYPES)
def test_values_of_another_type_are_refused(using: str) -> None:
    with raises(BuildError):
        build(TYPES["timestamp"], [pa.array([1], pa.timestamp("ns"))], using=using)


@pytest.mark.parametrize("using", FILE_TYPES)
def test_what_a_type_says_of_itself(using: str) -> None:
    index: FileIndexType = file_index_type(using.lower())
    assert index.name == using
    assert index.levels == {Level.STRIPE}
    assert index.operators <= set(Operator)
    assert all(index.supports(type_) for type_ in TYPES.values())
    with raises(HindexError):
        build(LONG, [], using=using, nonsense=1)


@pytest.mark.parametrize("using", FILE_TYPES)
def test_pages_come_from_the_cache(using: str) -> None:
    data = build(LONG, [pa.array(range(1000), pa.int64())], using=using, row_group_rows=100)
    cache = Cache(1 << 20)
    first = IndexFileReader(BytesSource(data, "one.hidx"), cache)
    domain = Domain.points([77])
    right = file_index_type(using).reader(first).lookup(0, domain)
    assert 77 in right.upper
    assert len(right.upper) < 1000
    assert first.pages_read > 0
    # the same file opened anew, as another scan does
    second = IndexFileReader(BytesSource(data, "one.hidx"), cache)
    assert file_index_type(using).reader(second).lookup(0, domain) == right
    assert second.pages_read == 0
    # another file of the same name and other content
    other = build(LONG, [pa.array(range(1000, 0, -1), pa.int64())], using=using, row_group_rows=100)
    third = IndexFileReader(BytesSource(other, "one.hidx"), cache)
    assert 923 in file_index_type(using).reader(third).lookup(0, domain).upper
    assert third.pages_read > 0


def test_operators_of_domains() -> None:
    equal, range_, null = Operator.EQUAL, Operator.RANGE, Operator.NULL
    for domain, needed in [
        (Domain.points([1]), {equal}),
        (Domain.points([b"a", b"b"]), {equal}),
        (Domain.points(range(5)), {equal, range_}),
        (Domain.points(range(0, 200_000, 2)), {equal}),
        (Domain.between(0, 200_000), {range_}),
        (Domain.between(b"a", b"b"), {range_}),
        (Domain.points([1]).complement(null_allowed=False), {range_}),
        (Domain.only_null(), {null}),
        (Domain.not_null(), {null, range_}),
        (Domain.points([1], null_allowed=True), {equal, null}),
    ]:
        assert Operator.for_domain(domain) == needed, domain

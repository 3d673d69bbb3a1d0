"""Bloom filters: hashes against the values that ORC's own tests give, filters against plain Python."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pytest

from hindex.orc.metadata import bloom_filters
from hindex.orc.metadata.bloom_filters import (
    BloomFilters,
    _test,
    bytes_hash,
    integer_hash,
    usable_filters,
    value_hashes,
)
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.statistics import Distrust, Nulls, Value
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import orc_metadata_pb2 as pb
from tests.orc.test_statistics import tail

#: From the tests of ORC's Java and C++ code, which have the same numbers: TestOrcBloomFilter and TestMurmur3.
INTEGERS = {
    0: 0,
    -1: 6614246905173314819,
    -2: -5218250166726157773,
    -3: 1396019780946710816,
    -9223372036854775805: 3691278333958578070,
    -9223372036854775806: -1192099642781211952,
    -9223372036854775807: -9102499068535824902,
    790302201: 1499534499340523007,
    790302202: -5108695154500810163,
    790302203: -2450623810987162260,
    18000000000: -1097054448615658549,
    9223372036064673413: -4986173376161118712,
    9223372036064673414: 3785699328822078862,
    9223372036064673415: 294188322706112357,
}
DICKENS = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,"
    b" it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of"
    b" Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing"
    b" before us, we were all going direct to Heaven, we were all going direct the other way."
)

BIT_64 = 1 << 64


def test_hashes_are_those_of_other_readers() -> None:
    for value, expected in INTEGERS.items():
        assert integer_hash(value) == expected % BIT_64, value
    assert bytes_hash(DICKENS) == 305830725663368540
    # the published function with the same seed is another one
    assert bytes_hash(b"abc") not in [h % BIT_64 for h in mmh3.hash64(b"abc", 104729)]


def test_unsigned_shifts_are_another_hash_of_some_values_only() -> None:
    # the value that ORC's test of the old C++ writer's files looks for is one of them
    assert integer_hash(18_000_000_000) != integer_hash(18_000_000_000, unsigned_shifts=True)
    differ = sum(integer_hash(value) != integer_hash(value, unsigned_shifts=True) for value in range(1000))
    assert 0 < differ < 1000


def plain_positions(hash_: int, functions: int, bits: int) -> list[int]:
    """As the specification has it, in integers without bounds."""
    first, second = hash_ & 0xFFFFFFFF, hash_ >> 32
    positions = []
    for i in range(1, functions + 1):
        combined = (first + i * second) & 0xFFFFFFFF
        positions.append((~combined & 0xFFFFFFFF if combined >> 31 else combined) % bits)
    return positions


def plain_filter(hashes: list[int], functions: int, words: int, *, old: bool = False) -> pb.BloomFilter:
    bits = 0
    for hash_ in hashes:
        for position in plain_positions(hash_, functions, words * 64):
            bits |= 1 << position
    if old:
        filter_words = [bits >> 64 * i & (BIT_64 - 1) for i in range(words)]
        return pb.BloomFilter(num_hash_functions=functions, bitset=filter_words)
    return pb.BloomFilter(num_hash_functions=functions, utf8bitset=bits.to_bytes(words * 8, "little"))


@pytest.mark.parametrize("old", [False, True], ids=["UTF8", "original"])
def test_filters_of_many_shapes_answer_as_plain_python_does(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, old: bool
) -> None:
    groups = [[int(h) for h in rng.integers(0, BIT_64, 40, dtype=np.uint64)] for _ in range(9)]
    shapes = [(7, 8), (3, 8), (7, 8), (1, 1), (64, 100), (7, 9), (2, 5), (7, 8), (5, 1000)]
    message = pb.BloomFilterIndex(
        bloom_filter=[
            plain_filter(hashes, *shape, old=old) for hashes, shape in zip(groups, shapes, strict=True)
        ]
    )
    filters = BloomFilters.of(message, [Nulls.NONE] * 9)
    assert filters.bad == 0
    others = [int(h) for h in rng.integers(0, BIT_64, 300, dtype=np.uint64)]
    ruled_out = 0
    for hash_ in [hash_ for hashes in groups for hash_ in hashes] + others:
        expected = []
        for item, (functions, words) in zip(message.bloom_filter, shapes, strict=True):
            data = b"".join(w.to_bytes(8, "little") for w in item.bitset) if old else item.utf8bitset
            bits = int.from_bytes(data, "little")
            expected.append(all(bits >> p & 1 for p in plain_positions(hash_, functions, words * 64)))
        assert filters.might_contain_any([hash_]).tolist() == expected
        ruled_out += expected.count(False)
    assert ruled_out > 1000
    # of several values, any; of none, no row group
    assert filters.might_contain_any([groups[0][0], groups[4][0]])[[0, 4]].all()
    assert not filters.might_contain_any([]).any()
    each = np.stack([filters.might_contain_any([hash_]) for hash_ in others])
    # the memory is bounded, also where the functions of one filter are more than are tested at once
    for at_once in (1, 64, 100, 1000, 1 << 20):
        tested: list[int] = []

        def test(bits: Any, functions: int, hashes: Any, tested: list[int] = tested) -> Any:
            tested.append(len(bits) * functions * len(hashes))
            return _test(bits, functions, hashes)

        monkeypatch.setattr(bloom_filters, "_test", test)
        monkeypatch.setattr(bloom_filters, "_POSITIONS", at_once)
        for count in (1, 3, 300):
            assert (filters.might_contain_any(others[:count]) == each[:count].any(axis=0)).all()
        assert max(tested) <= max(at_once, 64)
        assert sum(tested) == 304 * sum(functions for functions, _ in shapes)


FULL = b"\xff" * 8


@pytest.mark.parametrize(
    ("item", "nulls", "is_bad"),
    [
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=b"\x01" + b"\0" * 7), Nulls.NONE, False),
        (pb.BloomFilter(num_hash_functions=0, utf8bitset=FULL), Nulls.NONE, True),
        (pb.BloomFilter(utf8bitset=FULL), Nulls.NONE, True),
        (pb.BloomFilter(num_hash_functions=10_000, bitset=[1]), Nulls.NONE, True),
        (pb.BloomFilter(num_hash_functions=3), Nulls.NONE, True),
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=b""), Nulls.NONE, True),
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=FULL[:7]), Nulls.NONE, True),
        # nothing was ever put in, although there are values
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=b"\0" * 8), Nulls.NONE, True),
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=b"\0" * 8), Nulls.UNKNOWN, True),
        (pb.BloomFilter(num_hash_functions=3, utf8bitset=b"\0" * 8), Nulls.ALL, False),
    ],
)
def test_bad_filters_rule_nothing_out(item: pb.BloomFilter, nulls: Nulls, is_bad: bool) -> None:
    good = plain_filter([integer_hash(5)], 3, 4)
    filters = BloomFilters.of(pb.BloomFilterIndex(bloom_filter=[good, item]), [Nulls.NONE, nulls])
    assert filters.bad == is_bad
    assert filters.might_contain_any([integer_hash(77)]).tolist() == [False, is_bad]
    assert filters.might_contain_any([integer_hash(5)])[0]


NEW, OLD = StreamKind.BLOOM_FILTER_UTF8, StreamKind.BLOOM_FILTER


@pytest.mark.parametrize(
    ("kinds", "kind", "version", "encoding", "zone", "expected"),
    [
        ([], Kind.LONG, 6, 1, "UTC", None),
        ([StreamKind.ROW_INDEX], Kind.LONG, 6, 1, "UTC", None),
        ([NEW], Kind.LONG, 6, 1, "UTC", NEW),
        ([OLD, NEW], Kind.STRING, 6, 1, "UTC", NEW),
        ([OLD], Kind.LONG, 0, 0, "", OLD),
        ([OLD], Kind.DOUBLE, 0, 0, "", OLD),
        # ORC-101: strings in the platform's character set
        ([OLD], Kind.STRING, 4, 0, "UTC", Distrust.OLD_CHARSET),
        ([OLD], Kind.CHAR, 4, 0, "UTC", Distrust.OLD_CHARSET),
        ([OLD], Kind.STRING, 5, 0, "UTC", OLD),
        ([NEW], Kind.STRING, 4, 0, "UTC", NEW),
        # and decimals as text in it
        ([OLD], Kind.DECIMAL, 6, 0, "UTC", Distrust.OLD_DECIMALS),
        ([NEW], Kind.DECIMAL, 6, 0, "UTC", NEW),
        # ORC-135: timestamps in the writer's time zone
        ([NEW], Kind.TIMESTAMP, 5, 1, "UTC", Distrust.OLD_TIMESTAMPS),
        ([OLD], Kind.TIMESTAMP, 6, 1, "UTC", Distrust.LOCAL_FILTER),
        ([NEW], Kind.TIMESTAMP, 6, 0, "UTC", Distrust.LOCAL_FILTER),
        ([NEW], Kind.TIMESTAMP, 6, 1, "America/New_York", Distrust.LOCAL_FILTER),
        ([NEW], Kind.TIMESTAMP, 6, 1, "UTC", NEW),
        ([NEW], Kind.TIMESTAMP_INSTANT, 6, 1, "America/New_York", NEW),
        ([NEW], Kind.DATE, 6, 1, "America/New_York", NEW),
        # never filled
        ([NEW], Kind.BOOLEAN, 6, 1, "UTC", Distrust.NO_FILTER_KIND),
        ([NEW], Kind.LIST, 6, 1, "UTC", Distrust.NO_FILTER_KIND),
    ],
)
def test_usable_filters(
    kinds: list[StreamKind],
    kind: Kind,
    version: int,
    encoding: int,
    zone: str,
    expected: StreamKind | Distrust | None,
) -> None:
    result = usable_filters(kinds, OrcType(kind, 1), tail(version), encoding=encoding, zone=zone)
    assert result == expected


def test_filters_of_encrypted_columns_are_not_used() -> None:
    file = tail(encrypted=frozenset({1}))
    assert usable_filters([NEW], OrcType(Kind.LONG, 1), file, encoding=1, zone="UTC") is Distrust.ENCRYPTED


@pytest.mark.parametrize(
    ("writer", "precision", "by_spark", "expected"),
    [
        # the first Java writers named none
        (None, 9, False, Distrust.MORE_DIGITS),
        (0, 9, False, NEW),
        (0, 18, False, NEW),
        (0, 19, False, Distrust.MORE_DIGITS),
        (0, 0, False, Distrust.MORE_DIGITS),
        (0, 38, True, NEW),
        (1, 38, False, NEW),
        (4, 38, False, NEW),
    ],
)
def test_filters_of_decimals_that_may_have_more_digits(
    writer: int | None, precision: int, by_spark: bool, expected: StreamKind | Distrust
) -> None:
    """Java's writer puts 1.185 into the filter of a DECIMAL(20,2), and readers give 1.19."""
    file = tail(writer=writer)
    if by_spark:
        file.footer.metadata.add(name="org.apache.spark.version", value=b"4.1.0")
    data_type = OrcType(Kind.DECIMAL, 1, precision=precision, scale=2)
    assert usable_filters([NEW, OLD], data_type, file, encoding=1, zone="UTC") is expected


def java(*, is_proleptic: bool = True) -> FileTail:
    return tail(writer=0, is_proleptic=is_proleptic)


DECIMAL = OrcType(Kind.DECIMAL, 1, precision=9, scale=2)


@pytest.mark.parametrize(
    ("value", "data_type", "texts"),
    [
        (b"abc", OrcType(Kind.STRING, 1), [b"abc"]),
        (b"abc ", OrcType(Kind.STRING, 1), [b"abc "]),
        (b"\xc3\xa9 ", OrcType(Kind.CHAR, 1, max_length=3), [b"\xc3\xa9", b"\xc3\xa9 ", b"\xc3\xa9  "]),
        (Decimal("1.50"), DECIMAL, [b"1.5", b"1.50"]),
        (Decimal("1E+2"), DECIMAL, [b"100", b"100.00"]),
        (Decimal("0.00"), DECIMAL, [b"0", b"0.00"]),
        (Decimal("-0.05"), DECIMAL, [b"-0.05"]),
        # more digits than the column has
        (Decimal("0.055"), DECIMAL, [b"0.055"]),
        (Decimal("1" * 36 + ".25"), OrcType(Kind.DECIMAL, 1, precision=38, scale=2), [b"1" * 36 + b".25"]),
    ],
)  # fmt: skip
def test_texts_that_are_hashed(value: Value, data_type: OrcType, texts: list[bytes]) -> None:
    assert sorted(value_hashes(value, data_type, java()) or []) == sorted(map(bytes_hash, texts))


@pytest.mark.parametrize(
    ("value", "kind", "numbers"),
    [
        (5, Kind.LONG, [5]),
        (-5, Kind.INT, [-5]),
        (-5, Kind.BYTE, [-5]),
        (1, Kind.DATE, [1]),
        (-200_000, Kind.DATE, [-200_000]),
        (1_577_836_800_123_456, Kind.TIMESTAMP, [1_577_836_800_123]),
        (-5_000_000, Kind.TIMESTAMP, None),
        (1_999_999, Kind.TIMESTAMP, None),
        (2_000_000, Kind.TIMESTAMP, [2000]),
        (1.5, Kind.DOUBLE, [0x3FF8000000000000]),
        (0.0, Kind.FLOAT, [0, -(1 << 63)]),
        (math.nan, Kind.DOUBLE, None),
    ],
)
def test_hashes_of_numbers(value: Value, kind: Kind, numbers: list[int] | None) -> None:
    hashes = value_hashes(value, OrcType(kind, 1), java())
    expected = None if numbers is None else sorted(map(integer_hash, numbers))
    assert (None if hashes is None else sorted(hashes)) == expected


def test_days_of_the_julian_calendar_are_not_looked_for() -> None:
    assert value_hashes(-200_000, OrcType(Kind.DATE, 1), java(is_proleptic=False)) is None
    assert value_hashes(5, OrcType(Kind.DATE, 1), java(is_proleptic=False)) == [integer_hash(5)]


@pytest.mark.parametrize("kind", [Kind.BYTE, Kind.CHAR])
@pytest.mark.parametrize(
    ("writer", "expected"), [(0, NEW), (1, Distrust.CPP_BYTES), (None, Distrust.CPP_BYTES)]
)
def test_filters_of_tinyint_and_char_are_those_of_java(
    writer: int | None, expected: StreamKind | Distrust, kind: Kind
) -> None:
    file = tail(writer=writer)
    assert usable_filters([NEW], OrcType(kind, 1), file, encoding=1, zone="UTC") is expected


@pytest.mark.parametrize(("writer", "hashes"), [(None, 2), (0, 1), (1, 2), (2, 1), (4, 1), (5, 2)])
def test_both_shifts_are_tried_where_the_writer_may_be_the_old_one_in_cpp(
    writer: int | None, hashes: int
) -> None:
    file = tail(writer=writer)
    result = value_hashes(18_000_000_000, OrcType(Kind.LONG, 1), file)
    assert result is not None
    assert len(result) == hashes
    assert integer_hash(18_000_000_000) in result

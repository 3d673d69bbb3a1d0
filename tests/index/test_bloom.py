"""BLOOM: what it promises of false positives, and what its filters are made of."""

from __future__ import annotations

import math
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import HindexError
from hindex.index.bloom import _PROBED, BloomReader, bit_count, hash_bytes, hash_count, hash_integers
from hindex.index.index_file import IndexFileReader
from hindex.orc.io.source import BytesSource
from tests.index.support import TYPES, build, key_of, open_index
from tests.support.messages import raises

LONG, STRING, DOUBLE = TYPES["bigint"], TYPES["string"], TYPES["double"]


def test_hashes_are_those_of_the_library() -> None:
    rng = np.random.default_rng(1)
    keys = np.concatenate(
        [rng.integers(-(1 << 63), (1 << 63) - 1, 500), [0, -1, 1, (1 << 63) - 1, -(1 << 63)]]
    )
    first, second = hash_integers(keys.astype(np.int64))
    expected = [mmh3.hash64(int(key).to_bytes(8, "little", signed=True), signed=False) for key in keys]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
    texts = [rng.bytes(int(n)) for n in rng.integers(0, 70, 300)]
    first, second = hash_bytes(pa.array(texts, pa.large_binary()))
    expected = [mmh3.hash64(text, signed=False) for text in texts]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected


# so many probes that five standard deviations of the expected count stay within a few percent of it
PROBES = {0.1: 100_000, 0.01: 300_000, 0.001: 1_000_000}


@pytest.mark.parametrize("fpp", PROBES)
@pytest.mark.parametrize("distinct", [1, 7, 100, 1500])
def test_false_positives_of_row_groups(fpp: float, distinct: int) -> None:
    """Counted over many row groups, because a single small filter may be lucky or not."""
    rng = np.random.default_rng(7)
    groups = 4000 // distinct if distinct > 1 else 2000
    size = 2 * distinct
    keys = rng.choice(1 << 40, groups * distinct, replace=False)
    # every key twice in its row group: filters are sized for distinct keys
    rows = np.concatenate([np.repeat(part, 2) for part in np.split(keys, groups)])
    data = build(LONG, [pa.array(rows, pa.int64())], using="BLOOM", row_group_rows=size, fpp=fpp)
    reader = open_index(data)
    assert isinstance(reader, BloomReader)
    directory = reader._stripes[0]
    assert directory.groups is not None
    bits = reader._bits(directory.groups, int(((directory.group_bits + 7) // 8).sum()))
    starts = (8 * (np.cumsum((directory.group_bits + 7) // 8) - (directory.group_bits + 7) // 8)).tolist()
    hits = total = 0
    for number in range(0, groups, max(1, groups * distinct // 4000 // 4)):
        # keys of other groups are no member of this one, but for those that are
        m, start = int(directory.group_bits[number]), starts[number]
        probes = (1 << 41) + rng.integers(0, 1 << 50, max(1, PROBES[fpp] // groups))
        first, second = hash_integers(probes)
        is_member = np.ones(len(probes), np.bool_)
        for i in range(hash_count(fpp)):
            # the formula of the format's page, in its own words
            place = (first % m + i * (1 + second % (m - 1))) % m
            at = start + place.astype(np.int64)
            is_member &= (bits[at // 8] >> (at % 8).astype(np.uint8)) & 1 > 0
        hits += int(is_member.sum())
        total += len(probes)
    assert hits / total <= 1.2 * fpp, (hits, total, hits / total)
    # and not much larger than it must be
    assert hits / total >= fpp / 3 or distinct < 10, (hits, total)


@pytest.mark.parametrize("fpp", [0.05, 0.001])
def test_false_positives_of_a_stripe_as_lookups_see_them(fpp: float) -> None:
    rng = np.random.default_rng(9)
    keys = rng.choice(1 << 30, 20_000, replace=False)
    reader = open_index(build(LONG, [pa.array(keys, pa.int64())], using="BLOOM", fpp=fpp))
    assert all(reader.lookup(0, Domain.points([int(key)])).upper for key in keys[:500])
    probes = (1 << 31) + rng.choice(1 << 30, 15_000, replace=False)
    hits = sum(bool(reader.lookup(0, Domain.points([int(key)])).upper) for key in probes)
    # three standard deviations above the promise are allowed to chance
    assert hits <= 1.2 * fpp * len(probes) + 3 * math.sqrt(fpp * len(probes)), hits
    assert hits > 0.5 * fpp * len(probes), hits


def test_zeros_and_nans_are_one_value_each() -> None:
    payload = np.array([0x7FF8000000000001, 0xFFF0000000000123], np.uint64).view(np.float64)
    column = pa.array(np.concatenate([[-0.0], np.ones(3), payload]), pa.float64())
    reader = open_index(build(DOUBLE, [column], using="BLOOM", row_group_rows=1))
    assert list(reader.lookup(0, Domain.points([key_of(DOUBLE, 0.0)])).upper) == [0]
    assert list(reader.lookup(0, Domain.points([key_of(DOUBLE, math.nan)])).upper) == [4, 5]
    assert list(reader.lookup(0, Domain.points([key_of(DOUBLE, 1.0)])).upper) == [1, 2, 3]


def test_what_it_answers() -> None:
    column = pa.array([1, 2, None, 4, 5, 6, None, None], pa.int64())
    reader = open_index(build(LONG, [column], using="BLOOM", row_group_rows=2, fpp=1e-9))
    for domain, upper in [
        (Domain.points([2]), [0, 1]),
        (Domain.points([2, 5]), [0, 1, 4, 5]),
        # neighbors of an IN list are one range
        (Domain.points([4, 5, 6]), [2, 3, 4, 5]),
        (Domain.points([99]), []),
        (Domain.points([99], null_allowed=True), [2, 3, 6, 7]),
        (Domain.points([1 << 70, 6]), [4, 5]),
        (Domain.between(3, 1 << 20), list(range(8))),
        (Domain.between(4, None), list(range(8))),
        (Domain.points(range(1000, 60_000)), []),
    ]:
        bounds = reader.lookup(0, domain)
        assert list(bounds.upper) == upper, domain
        assert not bounds.lower


def test_the_first_filter_rules_out_without_the_others() -> None:
    column = pa.array(range(10_000), pa.int64())
    data = build(LONG, [column], using="BLOOM", row_group_rows=1000)
    file = IndexFileReader(BytesSource(data, "x.hidx"))
    reader = BloomReader(file)
    assert not reader.lookup(0, Domain.points([123_456])).upper
    assert file.pages_read == 1
    assert list(reader.lookup(0, Domain.points([4321])).upper) == list(range(4000, 5000))
    assert file.pages_read == 2


@pytest.mark.parametrize("last", [5500, 9999])
def test_more_keys_than_are_probed_at_once(last: int) -> None:
    """Row groups that only later, or only earlier, keys match are found with the others."""
    data = build(LONG, [pa.array(range(10_000), pa.int64())], using="BLOOM", row_group_rows=1000)
    reader = BloomReader(IndexFileReader(BytesSource(data, "x.hidx")))
    for keys in ([*range(_PROBED + 50), last], [*range(_PROBED), 2000, last]):
        upper = reader.lookup(0, Domain.points(keys)).upper
        assert set(keys) <= set(upper)
        # at most one further row group by chance
        assert len(upper) <= 1000 * (len({key // 1000 for key in keys}) + 1)


def test_filters_are_sized_for_their_own_keys() -> None:
    constant = build(STRING, [pa.array(["x"] * 50_000)], using="BLOOM", row_group_rows=10_000)
    assert len(constant) < 400
    unique = build(LONG, [pa.array(range(50_000), pa.int64())], using="BLOOM", row_group_rows=10_000)
    # 14.4 bits a key, for stripe and row groups each
    assert len(unique) < 1.02 * 50_000 * 2 * 14.4 / 8
    assert bit_count(0, 0.01) == 0
    for keys in (1, 2, 10, 100, 1000):
        m = bit_count(keys, 0.001)
        assert m > 2 * hash_count(0.001)
        assert all(m % divisor for divisor in range(2, math.isqrt(m) + 1))


@pytest.mark.parametrize(
    ("properties", "recorded"), [({}, "0.001"), ({"fpp": "0.01"}, "0.01"), ({"bloom.fpp": "1e-3"}, "0.001")]
)
def test_the_property(properties: dict[str, Any], recorded: str) -> None:
    data = build(LONG, [], using="BLOOM", **properties)
    assert IndexFileReader(BytesSource(data)).footer.properties == {"fpp": recorded}


@pytest.mark.parametrize("text", ["0", "1", "nan", "many", "-0.1", "1e-12"])
def test_bad_probabilities(text: str) -> None:
    with raises(HindexError):
        build(LONG, [], using="BLOOM", fpp=text)

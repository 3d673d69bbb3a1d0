from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.domain import MANY_RANGES, MAX_KEY, MIN_KEY, Domain, Key, Range, RangeArray, make_range

INTEGERS: tuple[Key, ...] = tuple(range(-6, 7))
#: Every string of up to two letters, and neighbours that no bound in the tests names.
TEXTS: tuple[Key, ...] = tuple(
    sorted({b"", *(bytes([x]) for x in b"abc"), *(bytes([x, y]) for x in b"abc" for y in b"\0abc"), b"\xff"})
)
UNIVERSES = {"integers": (INTEGERS, INTEGERS[2:-2]), "bytes": (TEXTS, TEXTS[:-2])}


@st.composite
def range_lists(draw: st.DrawFn, bounds: tuple[Key, ...]) -> list[Range]:
    end = st.one_of(st.none(), st.sampled_from(bounds))
    items = draw(
        st.lists(
            st.builds(
                lambda low, high, first, last: make_range(
                    low, high, low_inclusive=first, high_inclusive=last
                ),
                end,
                end,
                st.booleans(),
                st.booleans(),
            ),
            max_size=5,
        )
    )
    return [item for item in items if item is not None]


def domains(bounds: tuple[Key, ...]) -> st.SearchStrategy[Domain]:
    return st.builds(
        lambda r, null: Domain.from_ranges(r, null_allowed=null), range_lists(bounds), st.booleans()
    )


def members(domain: Domain, universe: tuple[Key, ...]) -> set[Key | None]:
    return {key for key in (*universe, None) if domain.contains(key)}


def check_invariants(domain: Domain) -> None:
    for item in domain.ranges:
        made = make_range(
            item.low, item.high, low_inclusive=item.low_inclusive, high_inclusive=item.high_inclusive
        )
        assert made == item, "ranges are canonical and not empty"
    for first, second in zip(domain.ranges, domain.ranges[1:], strict=False):
        assert first.high is not None
        assert second.low is not None
        if isinstance(first.high, int) and isinstance(second.low, int):
            assert first.high + 1 < second.low
        else:
            assert first.high <= second.low  # type: ignore[operator]
            assert first.high != second.low or not (first.high_inclusive or second.low_inclusive)
    assert pickle.loads(pickle.dumps(domain)) == domain


@pytest.mark.parametrize("name", UNIVERSES)
@given(data=st.data())
def test_of_is_the_union(name: str, data: st.DataObject) -> None:
    universe, bounds = UNIVERSES[name]
    ranges = data.draw(range_lists(bounds))
    domain = Domain.from_ranges(ranges)
    check_invariants(domain)
    assert members(domain, universe) == {key for key in universe if any(r.contains(key) for r in ranges)}


@pytest.mark.parametrize("name", UNIVERSES)
@given(data=st.data())
def test_set_operations(name: str, data: st.DataObject) -> None:
    universe, bounds = UNIVERSES[name]
    one, other = data.draw(domains(bounds)), data.draw(domains(bounds))
    everything = {*universe, None}
    a, b = members(one, universe), members(other, universe)
    null = data.draw(st.booleans())
    for result, expected in (
        (one.union(other), a | b),
        (one.intersect(other), a & b),
        (one.complement(null_allowed=null), (everything - a - {None}) | ({None} if null else set())),
    ):
        check_invariants(result)
        assert members(result, universe) == expected


@pytest.mark.parametrize("name", UNIVERSES)
@given(data=st.data())
def test_equal_sets_are_equal_values(name: str, data: st.DataObject) -> None:
    _, bounds = UNIVERSES[name]
    one, other = data.draw(domains(bounds)), data.draw(domains(bounds))
    assert one.union(other) == other.union(one)
    assert one.intersect(other) == other.intersect(one)
    twice = one.complement(null_allowed=not one.null_allowed).complement(null_allowed=one.null_allowed)
    assert twice == one
    neither = one.union(other).complement(null_allowed=False)
    assert neither == one.complement(null_allowed=False).intersect(other.complement(null_allowed=False))
    assert one.union(one.complement(null_allowed=True)).has_every_value
    assert one.intersect(one.complement(null_allowed=False)).is_none


@pytest.mark.parametrize("name", UNIVERSES)
@given(data=st.data())
def test_between(name: str, data: st.DataObject) -> None:
    universe, bounds = UNIVERSES[name]
    low, high = data.draw(st.sampled_from(bounds)), data.draw(st.sampled_from(bounds))
    first, last = data.draw(st.booleans()), data.draw(st.booleans())
    domain = Domain.between(low, high, low_inclusive=first, high_inclusive=last)
    check_invariants(domain)
    inside = {k for k in universe if low < k < high}  # type: ignore[operator]
    ends = {k for k, kept in ((low, first), (high, last)) if kept and low <= high}  # type: ignore[operator]
    if low == high and not (first and last):
        ends = set()
    assert members(domain, universe) == inside | ends


@pytest.mark.parametrize("ends", [(), (MIN_KEY,), (MAX_KEY,), (MIN_KEY, MAX_KEY)])
def test_the_complement_of_many_keys(ends: tuple[int, ...]) -> None:
    """Arrays of ranges: keys at the ends of 64 bits leave no range beyond them."""
    keys = [*range(0, 3 * MANY_RANGES, 3), *ends]
    domain = Domain.points(keys)
    assert isinstance(domain.ranges, RangeArray)
    assert list(domain.ranges[2:5]) == list(domain.ranges)[2:5] == [domain.ranges[at] for at in (2, 3, 4)]
    complement = domain.complement(null_allowed=True)
    near = {key + step for key in keys for step in (-2, -1, 0, 1, 2)}
    universe = tuple(sorted(key for key in near if MIN_KEY <= key <= MAX_KEY))
    assert members(complement, universe) == {None, *universe} - set(keys)
    assert complement.intersect(domain).is_none
    assert complement.complement(null_allowed=False) == domain


def test_many_keys_beyond_64_bits() -> None:
    """Literals may lie anywhere."""
    keys = [*range(0, 3 * MANY_RANGES, 3), MAX_KEY + 1, MIN_KEY - 1]
    domain = Domain.points(keys, null_allowed=True)
    assert members(domain, (*keys, 1, MAX_KEY, MIN_KEY)) == {None, *keys}


def test_constants() -> None:
    assert Domain.none().is_none
    assert Domain.all().is_all
    assert Domain.not_null().has_every_value
    assert not Domain.not_null().is_all
    assert Domain.only_null().contains(None)
    assert not Domain.only_null().is_none
    assert not Domain.not_null().contains(None)


def test_integers_that_adjoin_are_one_range() -> None:
    assert Domain.points([3, 1, 2, 2]).ranges == (Range(1, 3),)
    assert Domain.between(None, 5).union(Domain.between(6, None)).has_every_value
    assert Domain.between(1, 2, low_inclusive=False, high_inclusive=False).is_none


def test_the_empty_string_is_the_least() -> None:
    assert Domain.between(None, b"", high_inclusive=False).is_none
    assert Domain.between(b"", None).has_every_value
    assert Domain.between(None, b"") == Domain.points([b""])
    assert Domain.points([b""]).union(Domain.between(b"", None, low_inclusive=False)).has_every_value


def test_bytes_that_touch_at_an_excluded_bound_stay_apart() -> None:
    below = Domain.between(None, b"b", high_inclusive=False)
    above = Domain.between(b"b", None, low_inclusive=False)
    assert len(below.union(above).ranges) == 2
    assert below.union(above).union(Domain.points([b"b"])).has_every_value


def test_a_pickled_domain_is_found_in_a_process_that_hashes_otherwise() -> None:
    domain = Domain.points([b"a", b"b"])
    assert hash(domain) == hash(Domain.points([b"b", b"a"]))
    script = (
        "import pickle, sys; from hindex.domain import Domain; "
        "domain = pickle.loads(bytes.fromhex(sys.argv[1])); assert domain in {Domain.points([b'a', b'b']): 1}"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", script, pickle.dumps(domain).hex()],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )

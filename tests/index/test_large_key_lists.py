"""Large lists of keys: merged with the leaves of BITMAP and BTREE, without an object or a page read for each key."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import MAX_KEY, MIN_KEY, Domain, Range, RangeArray
from hindex.index.btree import BTreeReader, BTreeWriter, IndexedFile, stripe_entries
from hindex.index.column_stats import ColumnStats
from hindex.index.index_file import IndexFileReader
from hindex.index.tree_writer import byte_keys
from hindex.keys import array_keys
from hindex.orc.io.source import BytesSource
from hindex.plan.filter_evaluation import _members
from tests.index.support import TYPES, build, read, to_array

ROOT = Path(__file__).parents[2]
ROWS = 200_000
GROUP = 100
KINDS = {"sparse": TYPES["bigint"], "runs": TYPES["bigint"], "strings": TYPES["string"]}


def column(kind: str, rng: np.random.Generator) -> list[Any]:
    """Values with few rows each, in no order, some of them null."""
    numbers = rng.integers(0, ROWS // 2, ROWS)
    values: list[Any] = [int(n) * 7 if kind == "sparse" else int(n) for n in numbers]
    if kind == "strings":
        values = [f"key {n:06}" for n in numbers]
    for row in range(0, ROWS, 999):
        values[row] = None
    return values


def key_list(kind: str, rng: np.random.Generator) -> set[Any]:
    """Keys, some of which are in the column, those of integers alone or in runs."""
    keys = rng.integers(-1000, ROWS, 100_000)
    if kind == "sparse":
        return {int(n) * 7 + int(n) % 2 for n in keys}
    return {f"key {n:06}" for n in keys.tolist()} if kind == "strings" else set(keys.tolist())


def domain_of(kind: str, keys: set[Any], *, null_allowed: bool = False) -> Domain:
    array = to_array(KINDS[kind], list(keys))
    return Domain.from_keys(array_keys(KINDS[kind], array), null_allowed=null_allowed)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ordinals of ranges that become objects."""
    made: list[int] = []
    real = RangeArray.__getitem__

    def get(self: RangeArray, at: Any) -> Any:
        if not isinstance(at, slice):
            made.append(at)
        return real(self, at)

    monkeypatch.setattr(RangeArray, "__getitem__", get)
    monkeypatch.setattr(RangeArray, "__iter__", lambda self: (self[at] for at in range(len(self))))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("null_allowed", [False, True])
def test_bitmap(kind: str, null_allowed: bool, rng: np.random.Generator, objects: list[int]) -> None:
    values, keys = column(kind, rng), key_list(kind, rng)
    reader = read(build(KINDS[kind], [to_array(KINDS[kind], values)], values_per_page=1024))
    domain = domain_of(kind, keys, null_allowed=null_allowed)
    bounds = reader.lookup(0, domain)
    members = [row for row, value in enumerate(values) if (null_allowed if value is None else value in keys)]
    assert bounds.exact
    assert bounds.lower.to_array().tolist() == members
    leaves = len(reader._stripes[0].tree)
    assert leaves > 50
    assert reader.file.pages_read <= leaves + null_allowed
    assert len(objects) <= 8 * leaves
    # the estimate reads nothing, and makes no objects either
    pages = reader.file.pages_read
    cost = reader.estimate_cost(0, domain)
    assert cost.pages <= leaves
    assert reader.file.pages_read == pages


@pytest.mark.parametrize("kind", KINDS)
def test_bitmap_reads_only_the_leaves_of_the_list(
    kind: str, rng: np.random.Generator, objects: list[int]
) -> None:
    values = column(kind, rng)
    present = sorted({value for value in values if value is not None})
    keys = set(present[1000:9000:3])
    reader = read(build(KINDS[kind], [to_array(KINDS[kind], values)], values_per_page=1024))
    bounds = reader.lookup(0, domain_of(kind, keys))
    assert bounds.lower.to_array().tolist() == [row for row, value in enumerate(values) if value in keys]
    assert 7 <= reader.file.pages_read <= 10
    assert len(objects) <= 100


@pytest.mark.parametrize("kind", KINDS)
def test_btree(kind: str, rng: np.random.Generator, objects: list[int]) -> None:
    values = column(kind, rng)
    present = sorted({value for value in values if value is not None})
    for keys in (set(present[1000:9000:7]), key_list(kind, rng)):
        reader = btree(kind, values)
        locations = reader.locate(domain_of(kind, keys))
        assert locations is not None
        expected = {row // GROUP for row, value in enumerate(values) if value in keys}
        assert set(locations) == expected
        leaves = len(reader._tree)
        assert leaves > 50
        assert reader.file.pages_read <= (10 if len(keys) < 8000 else leaves)
        assert len(objects) <= 12 * leaves


def btree(kind: str, values: list[Any]) -> BTreeReader:
    data_type = KINDS[kind]
    postings = stripe_entries(data_type, to_array(data_type, values), row_group_rows=GROUP, first=0)
    sink = io.BytesIO()
    file = IndexedFile("a.orc", 1, 1, GROUP, (len(values),))
    writer = BTreeWriter(sink, data_type, [file], properties={"values_per_page": "1024"})
    keys = postings.keys if isinstance(postings.keys, np.ndarray) else byte_keys(postings.keys)
    writer.add(keys, postings.starts, postings.rows)
    writer.add_nulls(postings.nulls)
    writer.finish()
    return BTreeReader(IndexFileReader(BytesSource(sink.getvalue(), "test.hidx")))


def test_a_list_is_an_array() -> None:
    """Equal to the domain of the same ranges, with the same hash, also after pickling; its complement too."""
    ends = [MIN_KEY, MIN_KEY + 1, -5, 0, MAX_KEY]
    numbers = [*range(10, 20_000, 3), *range(30_001, 32_000), *ends]
    texts = sorted({b"", *(f"{n}".encode() for n in range(0, 9000, 2))})
    for domain, ranges in (
        (
            Domain.from_keys(np.array(numbers[::-1], np.int64)),
            Domain.from_ranges([Range(n, n) for n in numbers]).ranges,
        ),
        (
            Domain.from_keys(pa.array(texts[::-1], pa.large_binary())),
            tuple(Range(text, text) for text in texts),
        ),
    ):
        assert isinstance(domain.ranges, RangeArray)
        plain = Domain(tuple(ranges))
        assert domain == plain
        assert plain == domain
        assert hash(domain) == hash(plain)
        assert pickle.loads(pickle.dumps(domain)) == domain
        assert repr(domain.ranges[1:-1]) == repr(pickle.loads(pickle.dumps(domain)).ranges[1:-1])
        assert repr(domain.ranges[1:]) != repr(domain.ranges[:-1])
        others, plain_others = (item.complement(null_allowed=True) for item in (domain, plain))
        whole = domain.union(others)
        probes = (
            [*numbers, *(n + 1 for n in numbers[:-1])]
            if isinstance(ranges[1].low, int)
            else [*texts, b"1", b"x"]
        )
        for probe in probes:
            assert domain.contains(probe) == plain.contains(probe) != others.contains(probe)
            assert others.contains(probe) == plain_others.contains(probe)
            assert whole.contains(probe)
        assert others.complement(null_allowed=False) == domain
        assert domain.intersect(others).is_none
    assert Domain.from_keys(np.array([], np.int64)).is_none
    assert Domain.from_keys(np.array([3, 1, 2, 3], np.int64)) == Domain.between(1, 3)


@pytest.mark.parametrize("gap", [2, (1 << 63) - 1, 1 << 63, MAX_KEY - MIN_KEY])
def test_keys_far_apart_are_not_one_range(gap: int) -> None:
    """Their difference may have more than 63 bits."""
    keys = np.array([MIN_KEY, MIN_KEY + gap], np.int64)
    assert Domain.from_keys(keys) == Domain.points(keys.tolist())


def test_single_keys_become_an_array() -> None:
    numbers = list(range(0, 9000, 3))
    texts = [f"{n:05}".encode() for n in numbers]
    assert Domain.points(numbers[::-1]) == Domain.from_keys(np.array(numbers, np.int64))
    assert Domain.points(texts[::-1]) == Domain.from_keys(pa.array(texts, pa.large_binary()))
    assert isinstance(Domain.points(texts).ranges, RangeArray)
    beyond = Domain.points([*numbers, 1 << 70], null_allowed=True)
    assert beyond.contains(1 << 70)
    assert beyond.contains(None)
    assert [n for n in range(9000) if beyond.contains(n)] == numbers


def test_members_of_a_column_that_is_read() -> None:
    numbers = list(range(0, 9000, 3))
    column = np.arange(-5, 9005)
    members = _members(Domain.points(numbers), column)
    assert column[members].tolist() == numbers
    texts = pa.array([None, *(f"{n:05}".encode() for n in range(9000))], pa.large_binary())
    keys = [f"{n:05}".encode() for n in numbers]
    assert texts.filter(pa.array(_members(Domain.points(keys), texts))).to_pylist() == keys


@pytest.mark.parametrize(
    "spans",
    [
        [(5, 5), (9, 9), (20, 20), (21, 40), (100, 100)],
        [(5, 5), (9, 9), (20, 20), (100, 4000), (8000, 8000)],
        [(MIN_KEY, -3), (0, 0), (2, 2), (4, 4), (90, MAX_KEY)],
        [(MIN_KEY, MIN_KEY), (0, 0), (2, 3), (5, 6), (MAX_KEY - 1, MAX_KEY)],
        [(MIN_KEY, MIN_KEY), (0, 0), (2, 2), (5, 5), (MAX_KEY, MAX_KEY)],
    ],
    ids=["keys in runs", "a long range", "open ends", "greatest keys", "single keys at both ends"],
)
def test_members_of_keys_and_ranges(spans: list[tuple[int, int]]) -> None:
    column = [MIN_KEY, MIN_KEY + 1, *range(-10, 9000), MAX_KEY - 2, MAX_KEY - 1, MAX_KEY]
    expected = [value for value in column if any(low <= value <= high for low, high in spans)]
    ranges = RangeArray(*(np.array(ends, np.int64) for ends in zip(*spans, strict=True)))
    array = np.array(column)
    assert array[_members(Domain(ranges), array)].tolist() == expected


def test_statistics_compare_a_list_as_they_compare_its_ranges(
    rng: np.random.Generator, objects: list[int]
) -> None:
    lows = np.unique(rng.integers(-2000, 2000, 60)) * 10
    highs = lows + rng.integers(0, 8, len(lows))
    ranges = tuple(Range(low, high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True))
    listed, separate = Domain(RangeArray(lows, highs)), Domain(ranges)
    outcomes = set()
    for low in range(-20_100, 20_100, 7):
        stats = ColumnStats(100, 0, low, low + int(rng.integers(0, 400)) * int(rng.integers(0, 2)))
        outcome = stats.can_match(listed), stats.all_match(listed)
        assert outcome == (stats.can_match(separate), stats.all_match(separate))
        outcomes.add(outcome)
    assert outcomes == {(False, False), (True, False), (True, True)}
    # a range becomes an object only if a column's values may be in it
    assert len(objects) <= 2 * len(range(-20_100, 20_100, 7))


def test_processes_forked_during_lookups() -> None:
    """Each has threads of its own for lookups: those of its parent, and their locks, are not there."""
    code = """
import os, signal, threading
import numpy as np, pyarrow as pa
from hindex.domain import Domain
from hindex.index import tree_reader
from tests.index.support import TYPES, build, read

tree_reader._BYTES_AT_ONCE = 1 << 14
values = np.random.default_rng(3).permutation(100_000)
reader = read(build(TYPES["bigint"], [pa.array(values)]))
keys = Domain.from_keys(np.arange(0, 100_000, 9))
expected = np.flatnonzero(values % 9 == 0)
def look_up():
    assert np.array_equal(reader.lookup(0, keys).lower.to_array(), expected)
is_over = threading.Event()
def go_on():
    while not is_over.is_set():
        look_up()
threads = [threading.Thread(target=go_on, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            assert not tree_reader._lookup_threads.cache_info().currsize
            look_up()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
is_over.set()
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=300, check=False)
    assert ran.returncode == 0


def test_byte_keys_of_a_slice() -> None:
    words = [f"word {number:04}" for number in range(1000)]
    reader = read(build(TYPES["string"], [to_array(TYPES["string"], words)], values_per_page=100))
    every = array_keys(TYPES["string"], to_array(TYPES["string"], words))
    domain = Domain(RangeArray(every[300:500]), null_allowed=False)
    assert reader.lookup(0, domain).lower.to_array().tolist() == list(range(300, 500))

"""BTREE lookups against an oracle made of the values themselves."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.domain import Domain
from hindex.errors import ColumnError, HindexError, IndexFileError
from hindex.index import btree, roaring
from hindex.index.btree import BTREE, BTreeReader, BTreeWriter, IndexedFile, first_locations
from hindex.index.index_file import Footer, IndexFileReader, IndexFileWriter, page_message
from hindex.index.index_type import Level, index_type, resolve_properties
from hindex.index.postings import group_pairs
from hindex.index.tree_writer import FIRST_BOUND
from hindex.keys import KeyKind
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import index_file_pb2 as pb
from tests.index import support
from tests.index.btree_support import ModelFile, Place, build, places, read
from tests.index.support import TYPES
from tests.support.cases import cases, sampled
from tests.support.messages import raises

LONG = TYPES["bigint"]
STRING = TYPES["string"]


def locate(reader: BTreeReader, domain: Domain) -> list[Place]:
    """Return the results of a lookup, in the order of files and row groups."""
    locations = reader.locate(domain)
    assert locations is not None
    return [(item.file.path, number) for item in reader.files(locations) for number in item.groups.tolist()]


def test_bounds_beyond_64_bits() -> None:
    far = 1 << 70
    file = ModelFile("x.orc", 1, [[-(1 << 63), 5, (1 << 63) - 1, None]])
    reader = read(build(LONG, [file])[0])
    for domain, true in [
        (Domain.points([far, -far, 5]), {1}),
        (Domain.points([far]), set()),
        (Domain.between(far, None), set()),
        (Domain.between(None, -far), set()),
        (Domain.between(-far, far), {0, 1, 2}),
        (Domain.between(6, far), {2}),
        (Domain.between(-far, -(1 << 63) + 3), {0}),
    ]:
        assert {number for _, number in locate(reader, domain)} == true


@pytest.mark.parametrize("pieces", [1, 3, 10])
def test_long_keys_that_come_in_several_pieces(pieces: int) -> None:
    """The bound between two leaves tells keys apart behind their first bytes."""
    keys = [f"{'x' * (FIRST_BOUND + 10)}{number:03}" for number in range(200)]
    file = ModelFile("x.orc", 1, [keys])
    reader = read(build(STRING, [file], pieces=pieces, values_per_page=4)[0])
    for number, key in enumerate(keys):
        assert locate(reader, Domain.points([key.encode()])) == [("x.orc", number)]
    assert locate(reader, Domain.points([keys[0].encode() + b"!"])) == []


def test_many_row_groups_of_several_keys_among_very_many() -> None:
    """A row group counts once however many of its keys are wanted, also where sets are made of sorted rows."""
    groups = 140_000
    file = ModelFile("x.orc", 2, [range(2 * groups)])
    data, _ = build(LONG, [file])
    reader = read(data)
    low, high = 20_001, 24_200
    assert roaring._FEW < high - low < groups // 32
    domain = Domain.between(low, high)
    assert locate(reader, domain) == [("x.orc", number) for number in range(low // 2, high // 2 + 1)]
    points = Domain.points(range(low, high, 1))
    assert locate(reader, points) == [("x.orc", number) for number in range(low // 2, (high - 1) // 2 + 1)]


@sampled(8)
@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=cases(10, 30))
@given(data=st.data())
def test_random_domains_of_every_type(name: str, data: st.DataObject) -> None:
    data_type = TYPES[name]
    some = support.values(data_type)
    pool = data.draw(st.lists(some, min_size=1, max_size=12), "pool")
    stripe = st.lists(st.none() | st.sampled_from(pool) | some, max_size=25)
    stripes = data.draw(st.lists(st.lists(stripe, max_size=3), max_size=4), "files")
    files = [
        ModelFile(f"part={i}/f{i}.orc", data.draw(st.sampled_from([0, 1, 3, 10]), "row group"), column)
        for i, column in enumerate(stripes)
    ]
    pages = data.draw(st.sampled_from([1, 2, 7, 4096]), "values_per_page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(btree, "PAGE_FILES", data.draw(st.sampled_from([1, 2, 512]), "files of a page"))
        file, summary = build(
            data_type, files, pieces=data.draw(st.integers(1, 4), "pieces"), values_per_page=pages
        )
    reader = read(file)
    assert list(reader.all_files()) == [item.indexed for item in files]
    bound = st.none() | st.sampled_from(pool) | some
    piece = st.tuples(bound, bound, st.booleans(), st.booleans()) | st.sampled_from(pool).map(
        lambda value: (value, value, True, True)
    )
    for _ in range(4):
        pieces = data.draw(st.lists(piece, max_size=5), "pieces")
        null_allowed = data.draw(st.booleans(), "null_allowed")
        domain = support.domain(data_type, pieces, null_allowed)
        wanted = places(
            files, lambda value, p=pieces, n=null_allowed: bool(support.expected(data_type, [value], p, n))
        )
        assert locate(reader, domain) == wanted
        # what the manifest keeps of the file never rules out what is there
        assert summary.stats.can_match(domain) or not wanted
    assert summary.stats.null_count == len(places(files, lambda value: value is None))


SHAPES: dict[str, Any] = {
    "unique": lambda rng, n: rng.permutation(n),
    "near-unique": lambda rng, n: rng.integers(0, n, n),
    "few values": lambda rng, n: rng.integers(0, 7, n),
    "sorted": lambda rng, n: np.arange(n) // 3,
    "clustered": lambda rng, n: np.arange(n) // 900,
    "whole range": lambda rng, n: rng.integers(-(1 << 63), (1 << 63) - 1, n, endpoint=True),
}


@pytest.mark.parametrize("kind", ["bigint", "string"])
@pytest.mark.parametrize("shape", SHAPES)
def test_large_files(shape: str, kind: str, rng: np.random.Generator) -> None:
    """Keys of so many row groups that they are bitmaps of their own, and leaves of every kind."""
    values = SHAPES[shape](rng, 60_000).tolist()
    text = (lambda value: f"{value:022}") if kind == "string" else (lambda value: value)
    column = [
        None if missing else text(value)
        for value, missing in zip(values, rng.random(60_000) < 0.01, strict=True)
    ]
    files = [
        ModelFile(
            f"f{i}",
            20,
            [column[i * 20_000 : i * 20_000 + 12_345], column[i * 20_000 + 12_345 : (i + 1) * 20_000]],
        )
        for i in range(3)
    ]
    reader = read(build(TYPES[kind], files, pieces=5, values_per_page=500)[0])
    where: dict[Any, list[Place]] = defaultdict(list)
    for file in files:
        for number, group in enumerate(file.row_groups()):
            for value in set(group):
                where[value].append((file.path, number))
    some = rng.choice(60_000, 40)
    for at in some.tolist():
        value = column[at]
        if value is not None:
            key = value.encode() if isinstance(value, str) else value
            assert locate(reader, Domain.points([key])) == where[value]
    assert locate(reader, Domain.only_null()) == where[None]
    low, high = sorted(text(values[at]) for at in some[:2].tolist())
    domain = support.domain(TYPES[kind], [(low, high, True, False)], False)
    between = {
        place for value, at in where.items() if value is not None and low <= value < high for place in at
    }
    assert set(locate(reader, domain)) == between
    assert len(locate(reader, Domain.all())) == sum(file.indexed.num_groups for file in files)


def test_a_needle_in_a_hundred_thousand_stripes(rng: np.random.Generator) -> None:
    """A lookup reads the end of the file, one leaf, and one page of the locations, however many there are."""
    stripes, groups, width = 10, 13, 10_000
    files = [
        IndexedFile(
            f"region={i % 7}/part-{i:05}-0f0f0f0f-1234.c000.zstd.orc",
            100_000_000 + i,
            i,
            width,
            (groups * width,) * stripes,
        )
        for i in range(10_000)
    ]
    total = first_locations(files)[-1]
    assert sum(len(file.stripe_rows) for file in files) == 100_000
    keys = np.sort(rng.choice(1 << 40, 1_000_000, replace=False))
    locations = rng.integers(0, total, len(keys)).astype(np.uint32)
    sink = io.BytesIO()
    writer = BTreeWriter(sink, LONG, files)
    for start in range(0, len(keys), 100_000):
        part = keys[start : start + 100_000]
        writer.add(part, np.arange(len(part) + 1), locations[start : start + 100_000])
    summary = writer.finish()
    source = CountingSource(sink.getvalue())
    reader = BTreeReader(IndexFileReader(source))
    assert len(source.reads) == 1
    assert source.reads[0] == 64 * 1024 < summary.length // 10
    for at in rng.choice(len(keys), 5).tolist():
        before, pages = len(source.reads), reader.file.pages_read
        (hit,) = reader.files(reader.locate(Domain.points([int(keys[at])])) or pytest.fail("not found"))
        file, inside = divmod(int(locations[at]), stripes * groups)
        assert (hit.file, hit.groups.tolist()) == (files[file], [inside])
        assert reader.file.pages_read - pages <= 2
        assert sum(source.reads[before:]) < 64 * 1024
    # a key that is not there needs the leaf alone; one beyond all needs no more than that
    missing = next(
        key
        for key in range(int(keys[500_000]) + 1, 1 << 40)
        if key not in set(keys[500_000:500_010].tolist())
    )
    pages = reader.file.pages_read
    assert locate(reader, Domain.points([missing])) == []
    assert locate(reader, Domain.points([-5])) == []
    assert reader.file.pages_read - pages <= 1


class CountingSource(BytesSource):
    """Counts the bytes of each read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, "test.hidx")
        self.reads: list[int] = []

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.reads += [length for _, length in ranges]
        return super().read(ranges)


def test_a_row_group_is_found_once_whatever_its_keys() -> None:
    """Few of many row groups, each by two keys of the range."""
    files = [ModelFile("f", 2, [list(range(40_000))])]
    reader = read(build(LONG, files)[0])
    assert list(reader.locate(Domain.between(1000, 1399)) or ()) == list(range(500, 700))


def test_too_wide_a_range_can_be_declined() -> None:
    files = [ModelFile("f", 10, [list(range(1000))])]
    reader = read(build(LONG, files, values_per_page=10)[0])
    assert reader.locate(Domain.between(100, 299), max_leaves=5) is None
    assert reader.file.pages_read == 0
    assert list(reader.locate(Domain.between(100, 129), max_leaves=5) or ()) == [10, 11, 12]


def test_a_range_stops_where_every_row_group_is_found() -> None:
    rng = np.random.default_rng(8)
    files = [ModelFile("f", 10, [rng.permutation(20_000).tolist()])]
    reader = read(build(LONG, files, values_per_page=10)[0])
    assert len(locate(reader, Domain.not_null())) == 2000
    assert reader.file.pages_read < 2000


def test_the_type() -> None:
    assert index_type("compact") is index_type("btree") is BTREE
    assert BTREE.levels == {Level.PARTITION, Level.TABLE}
    assert BTREE.supports(LONG)
    assert not BTREE.supports(OrcType(Kind.LIST, children=(LONG,)))
    with raises(ColumnError):
        BTreeWriter(io.BytesIO(), OrcType(Kind.LIST, children=(LONG,)), [])
    with raises(HindexError):
        BTreeWriter(io.BytesIO(), LONG, [], properties={"fpp": "1"})
    for wrong in ("0", "x", "1e3", str(1 << 21)):
        with raises(HindexError):
            BTreeWriter(io.BytesIO(), LONG, [], properties={"values_per_page": wrong})
    assert resolve_properties(BTREE, {"btree.Values_Per_Page": " 07 "}) == {"values_per_page": "7"}
    huge = IndexedFile("f", 1, 1, 1, (1 << 32,))
    with raises(ValueError):
        BTreeWriter(io.BytesIO(), LONG, [huge])


@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_pairs_come_back_grouped(kind: str, rng: np.random.Generator) -> None:
    for span in (5, 1 << 20, 1 << 62):
        pairs = {
            (int(k), int(n))
            for k, n in zip(rng.integers(-span, span, 500), rng.integers(0, 1 << 31, 500), strict=True)
        }
        shuffled = list(pairs)
        random.Random(int(rng.integers(1 << 30))).shuffle(shuffled)
        expected: dict[Any, list[int]] = defaultdict(list)
        for key, number in sorted(pairs):
            expected[key if kind == "bigint" else str(key).encode()].append(number)
        keys: Any = np.array([key for key, _ in shuffled], np.int64)
        if kind == "string":
            keys = pa.array([str(key).encode() for key, _ in shuffled], pa.large_binary())
        grouped = group_pairs(keys, np.array([number for _, number in shuffled], np.uint32))
        names = pa.array(grouped.keys).to_pylist()
        ends = grouped.starts.tolist()
        assert names == sorted(expected)
        assert [grouped.rows[a:b].tolist() for a, b in pairwise(ends)] == [expected[name] for name in names]


# Damage

EXAMPLE = [
    ModelFile("a=1/x.orc", 2, [[5, 7, None, 5], [9]]),
    ModelFile("a=2/y.orc", 0, [[-3, 5], []]),
    ModelFile("a=2/z.orc", 5, [list(range(100, 120)), [None, 5]]),
]
DOMAINS = [
    Domain.points([5]),
    Domain.only_null(),
    Domain.between(8, 104),
    Domain.not_null(),
    Domain.points([6]),
]
#: A key in so many row groups that they are a page of their own.
MANY = [ModelFile("many.orc", 1, [[1] * 300 + [2]])]


def answers(data: bytes) -> list[list[Place]]:
    reader = read(data)
    return [locate(reader, domain) for domain in DOMAINS]


@pytest.mark.parametrize("files", [EXAMPLE, MANY], ids=["example", "many"])
def test_every_flipped_byte_and_truncation_is_found(files: list[ModelFile]) -> None:
    data, summary = build(LONG, files, values_per_page=4)
    assert all(len(answers(data)[at]) > 1 for at in ((0, 1, 2, 3) if files is EXAMPLE else (3,)))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x41
        with pytest.raises(IndexFileError, match=r"test\.hidx"):
            answers(bytes(changed))
    for length in range(len(data)):
        with pytest.raises(IndexFileError):
            answers(data[:length])
    assert summary.length == len(data)


def rewritten(data: bytes, change: Any) -> bytes:
    """The same file with another directory, its checksum right."""
    reader = IndexFileReader(BytesSource(data, "test.hidx"))
    body = pb.BTreeBody.FromString(reader.footer.body)
    change(body)
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    sink.write(data[8 : reader.pages_end])
    footer = reader.footer
    writer.finish(
        Footer(footer.index_type, "c", footer.column_type, KeyKind.INT64, {}, {}, body.SerializeToString())
    )
    return sink.getvalue()


CONTRADICTIONS = {
    "fewer locations": lambda body: setattr(body, "locations", body.locations - 1),
    "more locations": lambda body: setattr(body, "locations", body.locations + 1),
    "too many locations": lambda body: setattr(body, "locations", 1 << 32),
    "no location pages": lambda body: body.ClearField("location_pages"),
    "a first that is not 0": lambda body: setattr(body.location_pages[0], "first", 1),
    "fewer keys": lambda body: setattr(body, "key_count", body.key_count - 1),
    "more nulls": lambda body: setattr(body, "null_count", body.null_count + 1),
    "nulls nowhere": lambda body: body.ClearField("nulls"),
    "nulls uncounted": lambda body: setattr(body, "null_count", 0),
    "a leaf less in a run": lambda body: setattr(body.runs[0], "leaves", body.runs[0].leaves - 1),
    "a run elsewhere": lambda body: setattr(body.runs[0], "offset", body.runs[0].offset + 1),
    "a leaf's rows": lambda body: body.leaf_rows.__setitem__(0, body.leaf_rows[0] + 1),
    "bounds out of order": lambda body: body.int_bounds.__setitem__(1, body.int_bounds[0]),
    "a leaf without bytes": lambda body: body.leaf_length.__setitem__(0, 0),
    "a checksum less": lambda body: body.leaf_crc32c.pop(),
    "no bounds": lambda body: body.ClearField("int_bounds"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_under_right_checksums(name: str) -> None:
    data, _ = build(LONG, EXAMPLE, values_per_page=4)
    assert answers(rewritten(data, lambda body: None)) == answers(data)
    with pytest.raises(IndexFileError, match="corrupt"):
        answers(rewritten(data, CONTRADICTIONS[name]))


def test_a_file_of_very_many_stripes_is_listed_whole() -> None:
    """The page that lists it is as long as the row groups that it has allow."""
    file = IndexedFile("x" * 4000, 1, 1, 0, (1 << 40,) * 300_000)
    writer = BTreeWriter(sink := io.BytesIO(), LONG, [file])
    writer.finish()
    assert list(read(sink.getvalue()).all_files()) == [file]


def test_a_file_of_more_stripes_than_can_be_listed_is_not_indexed() -> None:
    file = IndexedFile("x.orc", 1, 1, 0, (0,) * (1 << 20))
    with raises(ValueError):
        BTreeWriter(io.BytesIO(), LONG, [file]).finish()


def test_a_page_of_files_that_is_longer_than_its_row_groups_allow_is_not_unpacked() -> None:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    page = writer.write_page([bytes(1 << 24)])
    body = pb.BTreeBody(locations=7)
    body.location_pages.add(page=page_message(page), first=0)
    writer.finish(Footer("BTREE", "c", "bigint", KeyKind.INT64, {}, {}, body.SerializeToString()))
    with raises(IndexFileError):
        list(read(sink.getvalue()).all_files())


def test_a_file_of_another_type() -> None:
    with raises(IndexFileError):
        read(support.build(LONG, [pa.array([1], pa.int64())]))


def test_keys_of_many_row_groups_take_few_bits_for_each() -> None:
    rng = np.random.default_rng(1)
    files = [IndexedFile("f.orc", 1, 1, 10, (12_000,))]
    key_groups = [np.sort(rng.choice(1200, 450, replace=False)).astype(np.uint32) for _ in range(200)]
    sink = io.BytesIO()
    writer = BTreeWriter(sink, LONG, files, column="c")
    writer.add(np.arange(200), np.arange(0, 201 * 450, 450), np.concatenate(key_groups))
    summary = writer.finish()
    reader = read(sink.getvalue())
    for key, groups in enumerate(key_groups):
        locations = reader.locate(Domain.points([key]))
        assert locations is not None
        assert locations.to_array().tolist() == groups.tolist()
    # three bits a row group where a key is in three of eight; a set of 16-bit numbers takes 16
    assert 8 * summary.length < 4 * 200 * 450

"""Changes of manifests, and their bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.errors import IndexExistsError, IndexNotFoundError, NewerFormatError, StoreError
from hindex.index.column_stats import ColumnStats
from hindex.proto import manifest_pb2 as pb
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    IndexFileEntry,
    Manifest,
    add_indexes,
    drop_index,
    is_safe_path,
    merge_build_result,
    new_index_id,
)
from hindex.store.manifest_file import VERSION, decode, encode
from hindex.store.segment import encode_segment, entry_batch
from hindex.table.listing import Fingerprint
from tests.support.messages import raises


def index(
    name: str, column: str | None = None, *, kind: str = "bitmap", where: str | None = None
) -> IndexEntry:
    return IndexEntry(new_index_id(), name, column or f"c_{name}", kind, "int", where=where, created_ms=5)


def data_file(path: str, *indexes: IndexEntry, version: int = 1, schema: str = "struct<a:int>") -> FileEntry:
    files = sorted((index_file(item, path, version) for item in indexes), key=lambda item: item.index_id)
    return FileEntry(path, 100, version, 7, 30, (10, 20), schema, tuple(files))


def index_file(index: IndexEntry, path: str, version: int = 1) -> IndexFileEntry:
    return IndexFileEntry(index.id, f"data/{index.id}/{path}-{version}.hidx", 50, 9)


A, B, C = index("a"), index("b"), index("c")


def manifest(*indexes: IndexEntry, files: tuple[FileEntry, ...] = ()) -> Manifest:
    return Manifest(3, "/t", 1, indexes, files)


def test_an_empty_one() -> None:
    empty = Manifest.empty("/t")
    assert (empty.number, empty.indexes, tuple(empty.files)) == (0, (), ())
    assert empty.find_index("a") is None
    with raises(IndexNotFoundError):
        empty.index("a")


def test_add_and_find() -> None:
    added = add_indexes(manifest(A), [B, replace(C, properties=(("z", "1"), ("b", "2")))])
    assert [item.name for item in added.indexes] == ["a", "b", "c"]
    assert added.indexes[2].properties == (("b", "2"), ("z", "1"))
    assert added.index("B") is added.indexes[1]
    assert not added.same_content(manifest(A))
    assert added.same_content(replace(added, number=9, created_ms=9))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (index("a", "other"), "^Index 'a' already exists; "),
        (index("A", "other"), "^Index 'A' already exists; "),
        (
            index("n", A.column),
            r"^Index with same \(table, column, index type\) already exists: 'a' on column 'c_a'",
        ),
        (index("n", "C_A", kind="BITMAP"), "Index with same"),
    ],
)
def test_what_exists_already(new: IndexEntry, message: str) -> None:
    with pytest.raises(IndexExistsError, match=message) as caught:
        add_indexes(manifest(A, B), [new])
    assert "\n" not in str(caught.value)
    with pytest.raises(IndexExistsError):
        add_indexes(manifest(), [A, new])


def test_other_types_and_partitions_are_other_indexes() -> None:
    others = [index("b", A.column, kind="bloom"), index("c", A.column, where="r = 1")]
    assert len(add_indexes(manifest(A), others).indexes) == 3


def test_drop() -> None:
    before = manifest(A, B, files=(data_file("x", A, B), data_file("y", A)))
    after = drop_index(before, "A")
    assert after.indexes == (B,)
    assert after.files == (data_file("x", B),)
    assert drop_index(after, "b").files == ()
    with raises(IndexNotFoundError):
        drop_index(before, "zz")


@pytest.mark.parametrize(
    ("old", "built", "expected"),
    [
        # new files, in order
        ([], [data_file("y", A), data_file("x", A)], [data_file("x", A), data_file("y", A)]),
        # one more index of the same version of a file
        ([data_file("x", A)], [data_file("x", B)], [data_file("x", A, B)]),
        # another version of the file: what was known of the old one is worth nothing
        ([data_file("x", A)], [data_file("x", B, version=2)], [data_file("x", B, version=2)]),
        ([data_file("x", A, B)], [data_file("x", A, version=2)], [data_file("x", A, version=2)]),
        # an index that was dropped while it was refreshed
        ([data_file("x", A)], [data_file("x", C), data_file("y", C)], [data_file("x", A)]),
        ([data_file("x", A), data_file("y", A)], [], [data_file("x", A), data_file("y", A)]),
    ],
)
def test_merge_files(old: list[FileEntry], built: list[FileEntry], expected: list[FileEntry]) -> None:
    assert merge_build_result(manifest(A, B, files=tuple(old)), files=built).files == tuple(expected)


def test_merge_replaces_an_indexs_file() -> None:
    old, fresh = data_file("x", A, B), data_file("x", A)
    fresh = replace(fresh, index_files=(replace(fresh.index_files[0], path=f"data/{A.id}/again.hidx"),))
    (merged,) = merge_build_result(manifest(A, B, files=(old,)), files=[fresh]).files
    assert merged.index_file(A.id) == fresh.index_files[0]
    assert merged.index_file(B.id) == old.index_file(B.id)
    assert merged.index_file(C.id) is None
    assert merged.fingerprint == Fingerprint(100, 1, 7)


def test_merge_knows_the_status_that_was_seen_last() -> None:
    before = manifest(A, B, files=(replace(data_file("x", A), changed_ns=5),))
    after = merge_build_result(before, files=[replace(data_file("x", B), changed_ns=9)])
    assert {item.index_id for item in after.files[0].index_files} == {A.id, B.id}
    assert after.files[0].changed_ns == 9


def test_merge_new_indexes_and_vanished_files() -> None:
    before = manifest(A, files=(data_file("x", A), data_file("y", A)))
    after = merge_build_result(before, new_indexes=[B], files=[data_file("y", B)], vanished=["x", "never"])
    assert after.indexes == (A, B)
    assert after.files == (data_file("y", A, B),)
    assert before.files == (data_file("x", A), data_file("y", A))
    with pytest.raises(IndexExistsError):
        merge_build_result(before, new_indexes=[A])
    assert merge_build_result(before) == before


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("a", True),
        ("a/b c/..d", True),
        ("k=v%2F/é#?.orc", True),
        ("", False),
        ("/a", False),
        ("..", False),
        ("a/../b", False),
        ("a/./b", False),
        ("a//b", False),
        ("a/", False),
        ("a\0b", False),
    ],
)
def test_safe_paths(path: str, safe: bool) -> None:
    assert is_safe_path(path) is safe


SMALL = manifest(
    replace(A, properties=(("k", "v"),), where="p = 1", creator="hindex 0"),
    B,
    files=(data_file("p=1/x.orc", A, B), data_file("y", A, schema="struct<a:string>")),
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    indexes = draw(
        st.lists(
            st.builds(
                IndexEntry,
                st.uuids().map(lambda item: item.hex),
                *[TEXT] * 4,
                st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
                st.none() | TEXT,
                U64,
                TEXT,
            ),
            max_size=3,
            unique_by=lambda item: item.id,
        )
    )
    paths = draw(st.lists(TEXT.filter(is_safe_path), max_size=4, unique=True))
    files = []
    for path in sorted(paths):
        rows = draw(st.lists(st.integers(0, 2**40), max_size=3))
        entries = [
            IndexFileEntry(item.id, f"data/{item.id}/{number}.hidx", draw(U64), draw(U32))
            for number, item in enumerate(
                draw(st.lists(st.sampled_from(indexes), max_size=3, unique=True)) if indexes else []
            )
        ]
        mtime = draw(st.integers(-(2**63), 2**63 - 1))
        entries.sort(key=lambda item: item.index_id)
        entry = FileEntry(
            path,
            draw(U64),
            mtime,
            draw(U32),
            sum(rows),
            tuple(rows),
            draw(TEXT),
            tuple(entries),
            changed_ns=draw(st.integers(-(2**63), 2**63 - 1)),
            num_row_groups=draw(st.integers(0, sum(rows))),
            lacks_time_zone=draw(st.booleans()),
        )
        files.append(entry)
    return Manifest(draw(U64), draw(TEXT), draw(U64), tuple(indexes), tuple(files))


@given(manifests())
def test_round_trip(given_manifest: Manifest) -> None:
    assert decode(encode(given_manifest), "m") == given_manifest


def test_schemas_are_stored_once() -> None:
    long = "struct<" + ",".join(f"c{at}:int" for at in range(1000)) + ">"
    many = manifest(A, files=tuple(data_file(f"{at:05}", A, schema=long) for at in range(1000)))
    data = encode(many)
    assert len(data) < 50_000
    back = decode(data, "m")
    assert back == many
    assert len({id(entry.schema) for entry in back.files}) == 1


def test_every_flipped_bit_is_noticed() -> None:
    data = encode(SMALL)
    for at in range(len(data)):
        for bit in (1, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= bit
            with pytest.raises(StoreError, match=r"manifest 'm' is corrupt: .*; restore it"):
                decode(bytes(damaged), "m")


def test_every_truncation_is_noticed() -> None:
    data = encode(SMALL)
    for length in range(len(data)):
        with pytest.raises(StoreError, match="manifest 'm' is corrupt"):
            decode(data[:length], "m")
    with pytest.raises(StoreError, match="manifest 'm' is corrupt"):
        decode(data + b"\0", "m")


def framed(payload: bytes, version: int = VERSION) -> bytes:
    data = struct.pack("<8sIQ", b"HINDEXMF", version, len(payload)) + payload
    return data + struct.pack("<I", google_crc32c.value(data))


def test_a_newer_version() -> None:
    assert framed(encode(SMALL)[20:-4]) == encode(SMALL)
    with raises(NewerFormatError):
        decode(framed(b"whatever it holds", 2), "m")


def hostile(change: Callable[[pb.Manifest], object]) -> bytes:
    message = pb.Manifest.FromString(encode(SMALL)[20:-4])
    change(message)
    return framed(message.SerializeToString())


def hostile_entry(change: Callable[[FileEntry], FileEntry], number: int = 0) -> bytes:
    """A manifest whose segment says something else of a file than the rest of it does."""
    files = list(SMALL.files)
    files[number] = change(files[number])
    return hostile(lambda m: m.segments[0].__setattr__("data", encode_segment(entry_batch(files))))


def elsewhere(path: str, length: int) -> pb.FileSegment:
    """A segment that is a file of its own."""
    return pb.FileSegment(num_files=1, first_path="a", last_path="a", path=path, length=length)


def with_stripe_stats(entry: FileEntry, *stripe_stats: ColumnStats) -> FileEntry:
    return replace(
        entry, index_files=(replace(entry.index_files[0], stripe_stats=stripe_stats), *entry.index_files[1:])
    )


def with_index_path(entry: FileEntry, path: str) -> FileEntry:
    return replace(entry, index_files=(replace(entry.index_files[0], path=path), *entry.index_files[1:]))


@pytest.mark.parametrize(
    "data",
    [
        framed(b"\xff\xff\xff"),
        framed(b"\x12\x02\xff\xff"),
        hostile(lambda m: m.indexes[1].__setattr__("id", A.id)),
        hostile(lambda m: m.segments[0].__setattr__("num_files", 0)),
        hostile(lambda m: m.segments[0].__setattr__("num_files", 3)),
        hostile(lambda m: m.segments[0].__setattr__("first_path", "z")),
        hostile(lambda m: m.segments[0].__setattr__("last_path", "z")),
        hostile(lambda m: m.segments[0].shared_indexes.append(0)),
        hostile(lambda m: m.segments[0].indexes[0].__setattr__("index", 2)),
        hostile(lambda m: m.segments[0].indexes.pop()),
        hostile(lambda m: m.segments[0].__setattr__("data", b"")),
        hostile(lambda m: m.segments[0].__setattr__("data", m.segments[0].data[:-9])),
        hostile(lambda m: m.segments.add().CopyFrom(m.segments[0])),
        hostile(lambda m: m.segments[0].CopyFrom(elsewhere("../x", 9))),
        hostile(lambda m: m.segments[0].CopyFrom(elsewhere("segments/x", 1 << 40))),
        hostile_entry(lambda f: replace(f, path="p=1/../../x")),
        hostile_entry(lambda f: replace(f, path="zz")),
        hostile_entry(lambda f: replace(f, num_rows=31)),
        hostile_entry(lambda f: replace(f, index_files=f.index_files[:1])),
        hostile_entry(lambda f: with_index_path(f, "../../etc/passwd")),
        hostile_entry(lambda f: with_index_path(f, "/etc/passwd")),
        hostile_entry(lambda f: with_stripe_stats(f, ColumnStats(10, 0, 1, 2))),
        hostile_entry(lambda f: with_stripe_stats(f, ColumnStats(10, 0, 1, 2), ColumnStats(20, 0, 4, 3)), 1),
        hostile_entry(lambda f: replace(f, path="a"), 1),
    ],
)
def test_sound_frames_around_nonsense(data: bytes) -> None:
    with pytest.raises(StoreError, match=r"(manifest 'm'|segment within the manifest) is corrupt") as caught:
        tuple(decode(data, "m").files)
    assert "\n" not in str(caught.value)


def test_a_manifest_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindex.store.manifest_file.MAX_BYTES", 100)
    with pytest.raises(StoreError, match="more than the 100 that are supported"):
        encode(SMALL)

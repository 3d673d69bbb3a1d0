"""Index files that cover many data files: what a manifest keeps of them, and how changes go about them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest

from hindex.errors import StoreError
from hindex.index.column_stats import ColumnStats
from hindex.proto import manifest_pb2 as pb
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    IndexFileEntry,
    Manifest,
    SharedFileEntry,
    SharedIndexEntry,
    drop_index,
    merge_build_result,
    new_index_id,
    remove_index_files,
)
from hindex.store.manifest_file import decode, encode
from hindex.store.store import Store


def index(name: str) -> IndexEntry:
    return IndexEntry(new_index_id(), name, f"c_{name}", "BTREE", "int", level="table")


def shared(index: IndexEntry, *names: str, partition: str | None = None) -> SharedIndexEntry:
    ends = [(0, 9), (10, 1 << 62)]
    files = tuple(
        SharedFileEntry(f"data/{index.id}/{name}.hidx", 100 + at, 7, ColumnStats(50, at, *ends[at]))
        for at, name in enumerate(names)
    )
    return SharedIndexEntry(new_index_id(), index.id, "int", partition, 2, 40, files)


def data_file(
    path: str, *covers: SharedIndexEntry, version: int = 1, own: IndexEntry | None = None
) -> FileEntry:
    files = () if own is None else (IndexFileEntry(own.id, f"data/{own.id}/{path}.hidx", 50, 9),)
    return FileEntry(path, 100, version, 7, 30, (10, 20), "struct<a:int>", files, covers)


A, B, BITS = index("a"), index("b"), replace(index("bits"), type="BITMAP", level="stripe")
OLD, NEW, OTHER = shared(A, "old"), shared(A, "new0", "new1"), shared(B, "other")
TWO = Manifest(3, "/t", 1, (A, B, BITS), (data_file("x", OLD, OTHER, own=BITS), data_file("y", OLD)))


def covered(manifest: Manifest, index: IndexEntry = A) -> dict[str, SharedIndexEntry | None]:
    return {entry.path: entry.shared_index(index.id) for entry in manifest.files}


def test_bytes_come_back() -> None:
    texts = SharedIndexEntry(
        new_index_id(),
        B.id,
        "string",
        "day=1/region=a b",
        1,
        3,
        (
            SharedFileEntry("data/t", 5, 1, ColumnStats(3, 0, b"", b"\xff\0")),
            SharedFileEntry("data/n", 5, 1, ColumnStats(0, 2, None, None)),
        ),
    )
    whole = replace(TWO, files=(*TWO.files, data_file("z", NEW, texts), data_file("zz")))
    # a data file that nothing covers would be left out by a change, but is no error
    assert decode(encode(whole), "m") == whole
    assert whole.shared_indexes() == (OLD, OTHER, NEW, texts)
    assert whole.file_paths() == {
        f"data/{BITS.id}/x.hidx",
        "data/t",
        "data/n",
        *(file.path for entry in (OLD, OTHER, NEW) for file in entry.files),
    }
    assert whole.index_bytes(A.id) == 100 + 100 + 101
    assert whole.index_bytes(BITS.id) == 50
    again = decode(encode(whole), "m").files
    # one value however many name it
    assert again[0].shared[0] is again[1].shared[0]


def test_long_keys_are_cut() -> None:
    long = SharedFileEntry("data/l", 5, 1, ColumnStats(3, 0, b"a" * 100, b"z" * 100))
    entry = replace(OLD, files=(long,))
    file = decode(encode(replace(TWO, files=(data_file("x", entry),))), "m").files[0].shared[0].files[0]
    assert file.stats == ColumnStats(3, 0, b"a" * 64, b"z" * 64, True)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda m: merge_build_result(m, files=[data_file("z", NEW)]),
            {"x": OLD, "y": OLD, "z": NEW},
            id="a file more",
        ),
        pytest.param(
            lambda m: merge_build_result(m, files=[data_file("x", NEW), data_file("y", NEW)]),
            {"x": NEW, "y": NEW},
            id="all anew",
        ),
        pytest.param(
            lambda m: merge_build_result(m, files=[data_file("y", NEW, version=2)]),
            {"x": OLD, "y": NEW},
            id="a file that changed",
        ),
        pytest.param(
            lambda m: merge_build_result(m, files=[data_file("y", version=2, own=BITS)]),
            {"x": OLD, "y": None},
            id="a file that changed, for another index",
        ),
        pytest.param(
            lambda m: merge_build_result(m, files=[data_file("y", own=BITS)]),
            {"x": OLD, "y": OLD},
            id="another index of the same version",
        ),
        pytest.param(
            lambda m: merge_build_result(
                m, files=[data_file("y", NEW), data_file("y", OTHER), data_file("z", NEW)]
            ),
            {"x": OLD, "y": NEW, "z": NEW},
            id="two jobs of one build",
        ),
        pytest.param(lambda m: merge_build_result(m, vanished=["y"]), {"x": OLD}, id="vanished"),
        pytest.param(lambda m: drop_index(m, "a"), {"x": None}, id="dropped"),
        pytest.param(lambda m: drop_index(m, "bits"), {"x": OLD, "y": OLD}, id="another dropped"),
        pytest.param(
            lambda m: remove_index_files(m, A.id, {"x"}), {"x": None, "y": OLD}, id="a partition dropped"
        ),
        pytest.param(
            lambda m: merge_build_result(drop_index(m, "a"), files=[data_file("z", NEW)]),
            {"x": None},
            id="dropped while it was built",
        ),
    ],
)
def test_changes(
    change: Callable[[Manifest], Manifest], expected: dict[str, SharedIndexEntry | None]
) -> None:
    changed = change(TWO)
    assert covered(changed) == expected
    others = {entry for entry in expected.values() if entry is not None}
    assert {entry for entry in changed.shared_indexes() if entry.index_id == A.id} == others
    assert not changed.same_content(TWO) or changed == TWO
    decoded = decode(encode(changed), "m")
    assert (decoded.indexes, decoded.files) == (changed.indexes, changed.files)


def test_what_two_indexes_share_stays_apart() -> None:
    merged = merge_build_result(TWO, files=[data_file("x", NEW)])
    assert covered(merged, B) == {"x": OTHER, "y": None}
    assert merged.files[0].is_covered_by(B.id)
    assert merged.files[0].is_covered_by(BITS.id)
    assert not merged.files[1].is_covered_by(B.id)


def test_garbage(tmp_path: Path) -> None:
    store = Store.for_table(str(tmp_path))
    for entry in (OLD, NEW, OTHER):
        for file in entry.files:
            place = Path(store.prepare_index_directory(entry.index_id)) / Path(file.path).name
            place.write_bytes(b"x")
    store.commit(lambda _: replace(TWO, files=(data_file("x", OLD, OTHER), data_file("y", OLD))))
    assert [item.path for item in store.garbage()] == sorted(file.path for file in NEW.files)
    store.commit(lambda m: merge_build_result(m, files=[data_file("x", NEW)]))
    assert store.garbage() == ()
    store.commit(lambda m: merge_build_result(m, files=[data_file("y", NEW)]))
    assert [item.path for item in store.garbage()] == [OLD.files[0].path]
    store.commit(lambda m: drop_index(m, "a"))
    assert len(store.garbage()) == 3


def hostile(change: Callable[[pb.Manifest], object]) -> bytes:
    """Bytes with a right checksum and wrong content."""
    data = encode(TWO)
    message = pb.Manifest.FromString(data[20:-4])
    change(message)
    payload = message.SerializeToString()
    framed = data[:12] + struct.pack("<Q", len(payload)) + payload
    return framed + struct.pack("<I", google_crc32c.value(framed))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda m: m.segments[0].shared_indexes.append(9), "index", id="a position"),
        pytest.param(
            lambda m: setattr(m.shared_indexes[0], "index", 9), "index", id="the position of an index"
        ),
        pytest.param(
            lambda m: setattr(m.shared_indexes[1], "id", m.shared_indexes[0].id), "same id", id="an id twice"
        ),
        pytest.param(
            lambda m: setattr(m.shared_indexes[0].files[0], "path", "../x"), "leaves the store", id="a path"
        ),
        pytest.param(
            lambda m: m.shared_indexes[0].files[0].extent.ClearField("int_max"),
            "no least and greatest key",
            id="half a range",
        ),
        pytest.param(
            lambda m: setattr(m.shared_indexes[0].files[0].extent, "byte_min", b"x"),
            "no least and greatest key",
            id="keys of two kinds",
        ),
        pytest.param(
            lambda m: setattr(m.shared_indexes[0].files[0].extent, "max_is_prefix", True),
            "truncated statistics have no key",
            id="an integer that is cut",
        ),
        pytest.param(
            lambda m: setattr(m.shared_indexes[0].files[0].extent, "int_min", 1 << 40),
            "least key of statistics is above the greatest",
            id="a range that ends before it begins",
        ),
    ],
)
def test_contradictions_are_refused(change: Callable[[pb.Manifest], object], message: str) -> None:
    assert decode(hostile(lambda _: None), "m") == TWO
    with pytest.raises(StoreError, match=message):
        decode(hostile(change), "m")

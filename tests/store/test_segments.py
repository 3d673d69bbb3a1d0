"""Segments: what they keep, what of them a commit writes, and what the extents in them rule out."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import Domain, Key, Range
from hindex.errors import StoreError
from hindex.index.column_stats import ColumnStats, StoredStats, are_of_kind
from hindex.keys import KeyKind
from hindex.store import segment
from hindex.store.arrow_stream import raw_bytes
from hindex.store.entries import FileEntries
from hindex.store.entry_table import EntryTable
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    IndexFileEntry,
    Manifest,
    MetadataCopy,
    SharedFileEntry,
    SharedIndexEntry,
    drop_index,
    merge_build_result,
    remove_index_files,
    rename_index,
)
from hindex.store.manifest_file import decode, encode
from hindex.store.segment import encode_segment, entry_batch
from hindex.store.store import RECENT, Store
from tests.support.messages import raises

INT = IndexEntry("1" * 32, "int", "i", "minmax", "bigint")
TEXT = IndexEntry("2" * 32, "text", "t", "minmax", "string")
BITS = IndexEntry("3" * 32, "bits", "b", "bitmap", "int")
TREE = IndexEntry("4" * 32, "tree", "b", "BTREE", "int", level="table")
SHARED = SharedIndexEntry(
    "5" * 32, TREE.id, "int", None, 2, 9, (SharedFileEntry("data/s", 1, 2, ColumnStats(1, 0, 1, 2)),)
)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindex.store.entries.SEGMENT_FILES", 8)


def own(
    index: IndexEntry, path: str, extents: tuple[ColumnStats, ...] = (), version: int = 1
) -> IndexFileEntry:
    return IndexFileEntry(index.id, f"data/{index.id}/{path}-{version}.hidx", 7, version, extents)


def entry(number: int, version: int = 1) -> FileEntry:
    path = f"f{number:05}.orc"
    return FileEntry(path, 10, version, 3, 4, (4,), "struct<b:int>", (own(BITS, path, version=version),))


def table(files: int) -> Manifest:
    return Manifest(1, "/t", 1, (BITS,), tuple(entry(number) for number in range(files)))


def random_key(rng: np.random.Generator, kind: str) -> Key:
    if kind == "int":
        return (
            int(rng.integers(-50, 50)) if rng.random() < 0.9 else int(rng.choice([-(1 << 63), (1 << 63) - 1]))
        )
    letters = bytes(rng.choice([0, 97, 98, 255], size=int(rng.choice([0, 1, 2, 3, 63, 64, 65, 70]))).tolist())
    # long ones that are alike for as long as a manifest keeps them
    return b"a" * int(rng.choice([62, 64])) + letters[:6] if rng.random() < 0.4 else letters


def random_extent(rng: np.random.Generator, kind: str, rows: int) -> ColumnStats:
    nulls = int(rng.choice([0, 0, 1, rows]))
    if nulls >= rows:
        return ColumnStats(rows, rows, None, None)
    low, high = sorted([random_key(rng, kind), random_key(rng, kind)])
    return ColumnStats(rows, nulls, low, high)


def random_domain(rng: np.random.Generator, kind: str) -> Domain:
    keys = sorted({random_key(rng, kind) for _ in range(int(rng.choice([0, 1, 2, 4, 60])))})
    if kind == "int" and rng.random() < 0.2:
        # literals may lie beyond all keys
        keys = [-(1 << 70), *keys] if rng.random() < 0.5 else [*keys, 1 << 70]
    if rng.random() < 0.5:
        ranges = [Range(key, key) for key in keys]
    else:
        ends = [bool(end) for end in rng.random(2) < 0.5] if kind == "text" else [True, True]
        ranges = [Range(a, b, *ends) for a, b in zip(keys[::2], keys[1::2], strict=False)]
        if ranges and rng.random() < 0.3:
            ranges[0] = replace(ranges[0], low=None, low_inclusive=True)
        if ranges and rng.random() < 0.3:
            ranges[-1] = replace(ranges[-1], high=None, high_inclusive=True)
    return Domain(tuple(ranges), bool(rng.random() < 0.3))


@pytest.mark.parametrize("kind", ["int", "text"])
def test_pruning_against_each_extent(kind: str, rng: np.random.Generator) -> None:
    """Files are ruled out if no extent of theirs can match, as a loop over all extents says, and never otherwise."""
    index, other = (INT, "text") if kind == "int" else (TEXT, "int")
    key_kind = KeyKind.INT64 if kind == "int" else KeyKind.BYTES
    ruled_out = 0
    for _ in range(60):
        files = []
        for number in range(30):
            path = f"f{number:03}"
            stripes = tuple(int(rows) for rows in rng.integers(1, 5, int(rng.integers(0, 4))))
            found_kind = kind if rng.random() < 0.9 else other
            extents = tuple(random_extent(rng, found_kind, rows) for rows in stripes)
            mine = (own(index, path, extents if rng.random() < 0.9 else ()),) if rng.random() < 0.9 else ()
            files.append(
                FileEntry(path, 1, 1, 1, sum(stripes), stripes, "struct<>", (*mine, own(BITS, path)))
            )
        entries = decode(encode(Manifest(1, "/t", 1, (INT, TEXT, BITS), tuple(files))), "m").entries
        domain = random_domain(rng, kind)
        for written, item in zip(files, entries, strict=True):
            file, before = item.index_file(index.id), written.index_file(index.id)
            if file is None or not file.stripe_stats:
                assert before is None or not before.stripe_stats
                continue
            assert before is not None
            assert isinstance(file.stripe_stats, StoredStats)
            column, at = file.stripe_stats.column, file.stripe_stats.file
            is_known = are_of_kind(before.stripe_stats, key_kind)
            assert column.has_keys_of(key_kind)[at] == is_known
            if not is_known:
                continue
            first = sum(column.num_stripes(earlier) for earlier in range(at))
            own_stripes = slice(first, first + len(file.stripe_stats))
            lower, upper = (mask[own_stripes].tolist() for mask in column.match(domain, key_kind))
            assert upper == [extent.can_match(domain) for extent in file.stripe_stats], (domain, item)
            assert lower == [extent.all_match(domain) for extent in file.stripe_stats], (domain, item)
            ruled_out += not any(upper)
            assert file.stripe_stats == tuple(extent.truncate() for extent in before.stripe_stats)
    assert ruled_out > 100


def test_more_row_groups_than_rows_are_refused() -> None:
    data = encode_segment(entry_batch([replace(entry(0), num_row_groups=5)]))
    with raises(ValueError):
        EntryTable.decode(data, ())


def test_stripes_of_more_rows_than_64_bits_count_are_refused() -> None:
    """The sum of their rows is that of the file in 64 bits."""
    data = encode_segment(entry_batch([replace(entry(0), num_rows=5, stripe_rows=(1 << 63, 1 << 63, 5))]))
    with raises(ValueError):
        EntryTable.decode(data, ())


def files_in(store: Store) -> dict[str, int]:
    root = Path(store.root)
    return {str(p.relative_to(root)): p.stat().st_size for p in root.rglob("*") if p.is_file()}


def test_ten_changed_files_write_ten_segments(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    first = store.commit(lambda old: replace(table(400), number=0))
    assert len(first.entries.segments) == 50
    before = files_in(store)
    assert len(before) == 51
    changed = [entry(number, 2) for number in range(0, 400, 40)]
    again = Store(store.root, "/t")
    second = again.commit(lambda old: merge_build_result(old, files=changed))
    after = files_in(store)
    assert {path: after[path] for path in before} == before
    new = sorted(set(after) - set(before))
    assert [path.partition("/")[0] for path in new] == ["manifests"] + ["segments"] * 10
    assert sum(after[path] for path in new if path.startswith("segments")) < sum(before.values()) / 4
    expected = [entry(number, 2 if number % 40 == 0 else 1) for number in range(400)]
    assert list(second.files) == expected
    latest = Store(store.root, "/t").load()
    assert latest is not None
    assert list(latest.files) == expected
    assert len({s.stored for s in first.entries.segments} & {s.stored for s in latest.entries.segments}) == 40
    # of the first manifest only what the second does not have is garbage
    assert {item.path for item in store.garbage()} == {
        s.stored.path for s in first.entries.segments if s.stored
    } - {s.stored.path for s in latest.entries.segments if s.stored}
    assert {item.path for item in store.garbage(0)} == set()
    # a name is in the manifest alone
    store.commit(lambda old: rename_index(old, "bits", "other"))
    assert len(files_in(store)) == len(after) + 1


def test_a_commit_that_loses_a_race_leaves_no_segments(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(400), number=0))
    rivals: list[Callable[[Manifest], Manifest]] = [lambda latest: rename_index(latest, "bits", "other")]

    def late(old: Manifest) -> Manifest:
        while rivals:
            store.commit(rivals.pop())
        return merge_build_result(old, files=[entry(0, 2)])

    assert store.commit(late).number == 3
    assert store.garbage(0) == ()


def copy(path: str) -> MetadataCopy:
    return MetadataCopy('"version"', path, 1 << 40, 7, 8, 9)


def test_copies_of_metadata_are_within_the_store() -> None:
    entries = [replace(entry(1), metadata=copy("metadata/x")), entry(2)]
    assert EntryTable.decode(encode_segment(entry_batch(entries)), ()).entries() == tuple(entries)
    for path in ("../x", "/x", "s3://b/x"):
        data = encode_segment(entry_batch([replace(entry(1), metadata=copy(path))]))
        with raises(ValueError):
            EntryTable.decode(data, ()).entries()


def test_the_latest_copy_of_metadata_counts() -> None:
    """A build that makes none, as of a file that was replaced meanwhile, keeps that of the recorded file."""
    first, second = copy("metadata/1"), copy("metadata/2")
    manifest = replace(table(0), indexes=(BITS, INT))
    for version, made, kept in ((1, first, first), (1, None, first), (1, second, second), (2, None, None)):
        built = replace(entry(1, version), metadata=made, index_files=(own(INT, "f", version=version),))
        manifest = merge_build_result(manifest, files=[built])
        assert [item.metadata for item in manifest.files] == [kept]


def test_a_small_table_is_one_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(8), number=0))
    assert len(files_in(store)) == 1
    assert list(Store(store.root, "/t").load().files) == list(table(8).files)  # type: ignore[union-attr]


def random_entry(rng: np.random.Generator, number: int, version: int) -> FileEntry:
    """A data file with some of what an entry may have, so that segments differ in their columns."""
    path = f"f{number:05}.orc"
    stripe_rows = tuple(rng.integers(1, 9, int(rng.integers(1, 4))).tolist())
    files = []
    for index, kind in ((INT, "int"), (TEXT, "text"), (BITS, "")):
        if rng.random() < 0.5:
            extents = tuple(random_extent(rng, kind, rows).truncate() for rows in stripe_rows) if kind else ()
            files.append(own(index, path, extents if rng.random() < 0.7 else (), version))
    return FileEntry(
        path,
        10,
        version,
        3,
        sum(stripe_rows),
        stripe_rows,
        f"struct<{'ibt'[int(rng.integers(3))]}:int>",
        tuple(files),
        (SHARED,) if not files or rng.random() < 0.3 else (),
        int(rng.integers(3)),
        0,
        bool(rng.random() < 0.2),
        copy(f"metadata/{number}") if rng.random() < 0.2 else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_changes_against_a_dict(seed: int, tmp_path: Path) -> None:
    """Random changes give the entries that the same changes of a dict give, in segments that are not too long."""
    rng = np.random.default_rng(seed)
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(old, indexes=(INT, TEXT, BITS, TREE)))
    expected: dict[str, FileEntry] = {}

    def drop(index: IndexEntry, paths: Iterable[str]) -> None:
        for path in set(paths) & set(expected):
            item = expected.pop(path)
            files = tuple(file for file in item.index_files if file.index_id != index.id)
            shared = tuple(other for other in item.shared if other.index_id != index.id)
            if files or shared:
                expected[path] = replace(item, index_files=files, shared=shared)

    for turn in range(30):
        numbers = rng.choice(60, int(rng.choice([1, 3, 30])), replace=False).tolist()
        paths = [entry(number).path for number in numbers]
        match int(rng.integers(4)):
            case 0 | 1:
                built = [random_entry(rng, number, turn) for number in numbers]
                expected.update((item.path, item) for item in built)
                store.commit(lambda old, built=built: merge_build_result(old, files=built))  # type: ignore[misc]
            case 2:
                expected = {path: item for path, item in expected.items() if path not in paths}
                store.commit(lambda old, paths=paths: merge_build_result(old, vanished=paths))  # type: ignore[misc]
            case _:
                index = (INT, TEXT, BITS, TREE)[int(rng.integers(4))]
                drop(index, paths)
                store.commit(
                    lambda old, index=index, paths=paths: remove_index_files(old, index.id, paths)  # type: ignore[misc]
                )
        RECENT.clear()
        loaded = Store(store.root, "/t").load()
        assert loaded is not None
        assert list(loaded.files) == [expected[path] for path in sorted(expected)]
        assert len(loaded.files) == len(expected)
        assert all(segment.summary.num_files <= 8 for segment in loaded.entries.segments)
        is_shared = any(item.shared for item in expected.values())
        assert loaded.shared_indexes() == ((SHARED,) if is_shared else ())
        assert loaded.entries.find(paths) == {p: expected[p] for p in paths if p in expected}
    for index in (BITS, TREE, INT):
        drop(index, list(expected))
        store.commit(lambda old, index=index: drop_index(old, index.name))  # type: ignore[misc]
        loaded = Store(store.root, "/t").load()
        assert loaded is not None
        assert list(loaded.files) == [expected[path] for path in sorted(expected)]


def test_what_is_left_of_a_last_segment_joins_the_one_before_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "/t")
    first = store.commit(lambda old: replace(table(12), number=0))
    assert [segment.summary.num_files for segment in first.entries.segments] == [6, 6]
    gone = [entry(number).path for number in range(6, 11)]
    store.commit(lambda old: merge_build_result(old, vanished=gone))
    RECENT.clear()
    loaded = Store(store.root, "/t").load()
    assert loaded is not None
    left = [entry(number) for number in (*range(6), 11)]
    assert [segment.summary.num_files for segment in loaded.entries.segments] == [7]
    assert list(loaded.files) == left
    assert list(loaded.entries.find(item.path for item in left).values()) == left


def test_a_commit_makes_objects_of_changed_entries_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(str(tmp_path), "/t").commit(lambda old: replace(table(400), number=0))
    made: list[int] = []
    entries = EntryTable.entries

    def count(self: EntryTable, rows: Any = None) -> tuple[FileEntry, ...]:
        result = entries(self, rows)
        made.append(len(result))
        return result

    monkeypatch.setattr(EntryTable, "entries", count)
    RECENT.clear()
    changed = [entry(number, 2) for number in range(0, 400, 40)]
    store = Store(str(tmp_path), "/t")
    store.commit(lambda old: merge_build_result(old, files=changed))
    # once to merge them with what is recorded, once to see whether anything changes
    assert sum(made) == 2 * len(changed)
    made.clear()
    # a second time there is nothing to write
    number = store.commit(lambda old: old).number
    assert store.commit(lambda old: merge_build_result(old, files=changed)).number == number
    assert sum(made) == 2 * len(changed)
    store.commit(lambda old: drop_index(old, "bits"))
    assert sum(made) == 2 * len(changed)


def test_as_a_sequence() -> None:
    files = tuple(entry(number) for number in range(20))
    entries = FileEntries.from_entries(files)
    assert (len(entries), entries[0], entries[-1], entries[7:9]) == (20, files[0], files[19], files[7:9])
    assert entries == files
    assert files == entries
    assert entries != files[:19]
    assert entries == decode(encode(table(20)), "m").files
    assert hash(entries) == hash(files)
    assert entry(3) in entries
    for at in (20, -21):
        with pytest.raises(IndexError):
            entries[at]


def many_stripes(number: int, stripes: int) -> FileEntry:
    """A data file of stripes that are all alike: the more there are, the more a segment shrinks."""
    path = f"f{number:05}.orc"
    extents = (ColumnStats(4, 0, 1, 2),) * stripes
    return FileEntry(
        path, 10, 1, 3, 4 * stripes, (4,) * stripes, "struct<i:bigint>", (own(INT, path, extents),)
    )


def test_raw_bytes_are_told_before_anything_is_decompressed() -> None:
    for entries in ([entry(0)], [entry(n) for n in range(50)], [many_stripes(n, 500) for n in range(9)]):
        data = encode_segment(entry_batch(entries))
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
        arrays = [*batch.columns, batch.column("schema").dictionary]
        # of dictionaries, the buffers of a column are those of the numbers
        sizes = {part.address: part.size for array in arrays for part in array.buffers() if part is not None}
        assert raw_bytes(data) == sum(sizes.values())


def test_every_damage_of_what_tells_raw_bytes_is_an_error_or_harmless() -> None:
    data = encode_segment(entry_batch([many_stripes(n, 3) for n in range(5)]))
    for length in range(len(data)):
        with contextlib.suppress(ValueError):
            assert raw_bytes(data[:length]) <= raw_bytes(data)
    for at in range(len(data)):
        for mask in (1 << at % 8, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= mask
            with contextlib.suppress(ValueError):
                assert raw_bytes(bytes(damaged)) >= 0


def test_a_segment_that_is_too_long_once_it_is_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    files = [many_stripes(n, 3000) for n in range(20)]
    store.commit(lambda old: merge_build_result(old, new_indexes=[INT], files=files))
    assert list(Store(store.root, "/t").load().files) == files  # type: ignore[union-attr]
    monkeypatch.setattr(segment, "MAX_RAW_BYTES", 1 << 16)
    monkeypatch.setattr(segment, "MAX_RAW_FACTOR", 2)
    RECENT.clear()
    before = pa.total_allocated_bytes()
    loaded = Store(store.root, "/t").load()
    assert loaded is not None
    with pytest.raises(StoreError, match=r"segment .*is corrupt: its \d+ bytes are \d+ once .*; restore it"):
        list(loaded.files)
    assert pa.total_allocated_bytes() - before < 1 << 16
    # those that shrink less may be longer
    monkeypatch.setattr(segment, "MAX_RAW_FACTOR", 1 << 20)
    RECENT.clear()
    assert list(Store(store.root, "/t").load().files) == files  # type: ignore[union-attr]


def test_segments_of_files_of_many_stripes_are_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none is refused that a commit wrote; a single file that would be is refused by the commit."""
    monkeypatch.setattr(segment, "MAX_RAW_BYTES", 1 << 16)
    monkeypatch.setattr(segment, "MAX_RAW_FACTOR", 2)
    monkeypatch.setattr("hindex.store.entries.SEGMENT_RAW_BYTES", 1 << 15)
    store = Store(str(tmp_path / "s"), "/t")
    files = [many_stripes(n, 1 + 100 * (n % 9)) for n in range(50)]
    store.commit(lambda old: merge_build_result(old, new_indexes=[INT], files=files))
    loaded = Store(store.root, "/t").load()
    assert loaded is not None
    assert list(loaded.files) == files
    assert len(loaded.entries.segments) > 20
    changed = many_stripes(7, 5)
    store.commit(lambda old: merge_build_result(old, files=[changed]))
    assert list(Store(store.root, "/t").load().files) == [*files[:7], changed, *files[8:]]  # type: ignore[union-attr]
    before = files_in(store)
    with pytest.raises(
        StoreError, match=r"'f00007.orc' to 'f00007.orc' cannot be recorded: .*; nothing was changed"
    ):
        store.commit(lambda old: merge_build_result(old, files=[many_stripes(7, 9000)]))
    assert files_in(store) == before


def test_the_schema_of_many_files_is_one_text() -> None:
    wide = f"struct<{','.join(f'c{n}:int' for n in range(50_000))}>"
    files = tuple(replace(entry(number), schema=wide) for number in range(8))
    decoded = decode(encode(replace(table(0), files=files)), "m").files
    assert decoded == files
    assert len({id(item.schema) for item in decoded}) == 1


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_segment_is_named(tmp_path: Path, damage: str) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(40), number=0))
    path = sorted(Path(store.root, "segments").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flip" else data[:-1])
    loaded = Store(store.root, "/t").load()
    assert loaded is not None
    with pytest.raises(StoreError, match="segment") as caught:
        list(loaded.files)
    assert "\n" not in str(caught.value)
    assert damage == "gone" or path.name in str(caught.value)


def test_nothing_is_garbage_while_a_retained_manifest_cannot_be_read(tmp_path: Path) -> None:
    """Its segments exist: a later read may succeed, and then needs the index files that they name."""
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(40), number=0))
    store.commit(lambda old: merge_build_result(old, files=[entry(20, 2)]))
    (superseded,) = store.garbage()
    path = Path(store.root, superseded.path)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    RECENT.clear()
    with raises(StoreError):
        Store(store.root, "/t").garbage(0)
    path.write_bytes(data)
    assert Store(store.root, "/t").garbage(0) == ()
    # without its segment, it can never be read again
    path.unlink()
    RECENT.clear()
    assert Store(store.root, "/t").garbage(0) == ()


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(9), number=0))
    path = sorted(Path(store.root, "segments").iterdir())[0]
    data = path.read_bytes()
    for at in range(0, len(data), 5):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        loaded = Store(store.root, "/t").load()
        assert loaded is not None
        with pytest.raises(StoreError, match=f"segment 'segments/{path.name}' is corrupt"):
            list(loaded.files)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("after", [0, 1, 4, 5])
def test_segments_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    """Wherever a disk is full in a commit of several files, nothing of the commit is left."""
    store = Store(str(tmp_path / "s"), "/t")
    store.commit(lambda old: replace(table(40), number=0))
    before = files_in(store)
    real, calls = os.write, 0

    def fail(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(number, os.strerror(number))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(StoreError, match=f"{os.strerror(number)}; nothing was changed"):
            store.commit(lambda old: merge_build_result(old, files=[entry(n, 2) for n in range(0, 40, 8)]))
    assert calls > after
    assert files_in(store) == before
    assert list(store.load().files) == list(table(40).files)  # type: ignore[union-attr]
    changed = [entry(n, 2) for n in range(0, 40, 8)]
    assert store.commit(lambda old: merge_build_result(old, files=changed)).number == 2
    assert Store(store.root, "/t").load().files[0] == entry(0, 2)  # type: ignore[union-attr]


def test_a_file_size_limit(tmp_path: Path) -> None:
    """The system itself refuses to write on, in the middle of a file."""
    import subprocess
    import sys

    program = """
import resource, signal, sys
from dataclasses import replace
from hindex.errors import StoreError
from tests.store.test_segments import table
from hindex.store.store import Store
store = Store(sys.argv[1], "/t")
store.commit(lambda old: replace(table(4), number=0))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.commit(lambda old: replace(old, files=table(5).files))
except StoreError as error:
    assert str(error).count("File too large; nothing was changed") == 1, error
    assert len(store.load().files) == 4
    print("refused")
"""
    command = [sys.executable, "-c", program, str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.stdout == "refused\n", done.stderr
    assert len(files_in(Store(str(tmp_path / "s"), "/t"))) == 1

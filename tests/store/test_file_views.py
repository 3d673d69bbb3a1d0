"""Data files beside their manifest entries: the flags of all files are those of each one."""

from __future__ import annotations

import numpy as np
import pytest

from hindex.orc.metadata.types import Kind, OrcType
from hindex.store.entries import FileEntries, Segment
from hindex.store.entry_table import EntryTable
from hindex.store.file_views import FileKind, FileView, FileViews
from hindex.store.manifest import FileEntry, IndexFileEntry, MetadataCopy
from hindex.store.snapshot import _is_proved
from hindex.table.listing import DataFile, DataFiles

KIND = FileKind((("a", OrcType(Kind.INT)),), ("a",))


def random_file(rng: np.random.Generator, number: int) -> tuple[DataFile, FileEntry | None, int | None]:
    """A data file, its entry and the checksum of its tail, whose values are equal more often than not."""

    def value() -> int:
        return int(rng.choice([7, 7, 7, 8]))

    def version() -> str | None:
        return [None, "v", "w"][int(rng.integers(3))]

    path, is_local, recorded = f"{number:03}.orc", rng.random() < 0.5, version()
    file = DataFile(
        path,
        f"/t/{path}",
        value(),
        value() if rng.random() < 0.9 else 0,
        changed_ns=value() if is_local else None,
        version=None if is_local else version(),
    )
    copy = None if recorded is None else MetadataCopy(recorded, "metadata/x", 9, 0, 9, 9)
    entry = FileEntry(
        path,
        value(),
        value() if rng.random() < 0.9 else 0,
        value(),
        4,
        (4,),
        "struct<a:int>",
        (IndexFileEntry("1" * 32, "data/x", 1, 1),),
        changed_ns=int(rng.choice([7, 8, -1])),
        metadata=copy,
    )
    return file, entry if rng.random() < 0.9 else None, value() if rng.random() < 0.6 else None


def flags(file: DataFile, entry: FileEntry | None, tail: int | None) -> tuple[bool, bool, bool, bool]:
    """The flags of one file by their definitions: listed fresh, replaced, of the recorded version, certainly fresh."""
    if entry is None:
        return False, False, False, False
    has_status = (file.length, file.mtime_ns) == (entry.length, entry.mtime_ns)
    is_fresh = has_status and tail in (None, entry.tail_checksum)
    has_version = entry.metadata is not None and file.version == entry.metadata.version
    if file.changed_ns is None:
        is_untouched = file.mtime_ns != 0 and entry.changed_ns != -1
    else:
        is_untouched = file.changed_ns == entry.changed_ns
    is_certain = is_fresh and (tail is not None or has_version or is_untouched)
    return is_fresh, has_status and not is_fresh, has_version, is_certain


def flags_of(views: FileViews) -> list[tuple[bool, bool, bool, bool]]:
    return [
        (view.is_listed_fresh, view.is_replaced, view.has_recorded_version, view.is_certainly_fresh)
        for view in views
    ]


def entry_of(path: str) -> FileEntry:
    files = (IndexFileEntry("1" * 32, f"data/{path}", 1, 1),)
    return FileEntry(path, 7, 7, 7, 4, (4,), "struct<a:int>", files)


@pytest.mark.parametrize("only_listed", [False, True])
def test_random_files_and_entries_are_matched_by_their_paths(
    rng: np.random.Generator, only_listed: bool
) -> None:
    """Of several segments, some of whose first and last files are new, or deleted."""
    for _ in range(50):
        listed, recorded = (
            [f"{number:02}" for number in range(30) if rng.random() < share] for share in rng.random(2)
        )
        tables = [
            EntryTable.from_entries([entry_of(path) for path in part.tolist()])
            for part in np.array_split(np.array(recorded, np.str_), 3)
            if len(part)
        ]
        entries = FileEntries(tuple(map(Segment.from_table, tables)))
        files = DataFiles.of(DataFile(path, f"/t/{path}", 7, 7) for path in listed)
        views, others = FileViews.matched(files, entries, only_listed=only_listed)
        assert [view.entry and view.entry.path for view in views] == [
            path if path in recorded else None for path in listed
        ]
        assert others == ([] if only_listed else [path for path in recorded if path not in listed])


def test_flags_of_random_files(rng: np.random.Generator) -> None:
    for _ in range(20):
        files = [random_file(rng, number) for number in range(100)]
        views = FileViews.of(FileView(file, entry, KIND, tail_checksum=tail) for file, entry, tail in files)
        assert flags_of(views) == [flags(*item) for item in files]


def test_a_time_that_can_be_set_proves_a_file_to_a_query_only(rng: np.random.Generator) -> None:
    """A refresh reads the tail of a remote file without a recorded version; no program sets a local change time."""
    files = [random_file(rng, number) for number in range(400)]
    views = FileViews.of(FileView(file, entry, KIND, tail_checksum=tail) for file, entry, tail in files)
    to_query, to_refresh = (_is_proved(views, trusts_times=trusts).tolist() for trusts in (True, False))
    for (file, entry, tail), by_time, is_proved in zip(files, to_query, to_refresh, strict=True):
        is_fresh, _, has_version, is_certain = flags(file, entry, tail)
        assert by_time == is_certain
        if is_fresh:
            is_local_status = is_certain and file.changed_ns is not None
            assert is_proved == (tail is not None or has_version or is_local_status)


def test_flags_follow_the_tails_that_are_read_later(rng: np.random.Generator) -> None:
    files = [random_file(rng, number) for number in range(200)]
    before = FileViews.of(FileView(file, entry, KIND) for file, entry, _ in files)
    assert flags_of(before) == [flags(file, entry, None) for file, entry, _ in files]
    tails = np.array([-1 if tail is None else tail for *_, tail in files], np.int64)
    assert flags_of(before.with_tail_checksums(tails)) == [flags(*item) for item in files]

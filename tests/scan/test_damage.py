"""Damaged, missing and newer index files and manifests: queries read instead, and EXPLAIN says why."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import pytest

import hindex
from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.build import btree_job
from hindex.errors import FallbackError, NewerFormatError, OrcError, StoreError
from hindex.index import index_type
from hindex.index.column_stats import ColumnStats
from hindex.index.index_file import IndexFileReader, IndexFileWriter
from hindex.keys import KeyKind
from hindex.orc.io.source import LocalSource
from hindex.plan.reasons import Reason
from hindex.sql import parse_predicate
from hindex.store import segment
from hindex.store.manifest import Manifest
from hindex.store.store import RECENT, Store
from tests.support import local_build
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.small import ROWS, WHERE, deny_access, expected, ids, reasons, store_state, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index_files(path: Path, index: str = "by_a") -> list[Path]:
    """The index files of the table's data files, in their order."""
    store = Store.for_table(str(path))
    manifest = store.load()
    assert manifest is not None
    entry = manifest.index(index)
    files = [item.index_file(entry.id) for item in manifest.files]
    return [Path(store.absolute(item.path)) for item in files if item is not None]


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(change(file.read_bytes()))


def flipped(at: int) -> Callable[[bytes], bytes]:
    """One byte other than it was; counted from the end where negative."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[at] ^= 0x55
        return bytes(changed)

    return change


def newer(data: bytes) -> bytes:
    """The version is one of the numbers of the trailer, before its checksum and magic."""
    at = len(data) - 16
    return data[:at] + struct.pack("<I", 99) + data[at + 4 :]


@sampled(4)
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(Path.unlink, Reason.INDEX_MISSING, id="missing"),
        pytest.param(rewrite(lambda data: b""), Reason.CORRUPT, id="empty"),
        pytest.param(rewrite(lambda data: data[:-7]), Reason.CORRUPT, id="truncated"),
        pytest.param(rewrite(flipped(10)), Reason.CORRUPT, id="page"),
        pytest.param(rewrite(flipped(-30)), Reason.CORRUPT, id="footer"),
        pytest.param(rewrite(flipped(-1)), Reason.CORRUPT, id="magic"),
        pytest.param(rewrite(lambda data: b"\xff" * len(data)), Reason.CORRUPT, id="noise"),
        pytest.param(rewrite(newer), Reason.NEWER_FORMAT, id="newer"),
    ],
)
def test_a_damaged_index_file(
    path: Path, table: Table, damage: Callable[[Path], object], reason: Reason
) -> None:
    damage(index_files(path)[0])
    scan = table.scan(WHERE)
    assert set(reasons(scan)) == {reason}
    assert reasons(scan)[reason] == ["by_a on one.orc"]
    assert ids(scan) == expected()
    explained = scan.explain()
    assert not explained.exact
    # the other file's index still skips its rows
    assert explained.rows is not None
    assert explained.rows.kept == ROWS + len(expected(ROWS))
    # and the other index answers what it can
    assert table.scan("s = 's3'").explain().exact
    both = table.scan("a = 3 AND s = 's3'")
    assert ids(both) == [i for i in range(2 * ROWS) if i % 10 == 3]
    assert both.explain().rows.kept == 2 * ROWS // 10  # type: ignore[union-attr]


def test_an_index_file_without_permission(path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = index_files(path)[0]
    with monkeypatch.context() as patch:
        deny_access(patch, denied)
        scan = table.scan(WHERE)
        assert ids(scan) == expected()
        assert reasons(scan) == {Reason.UNREADABLE: ["by_a on one.orc"]}
        text = " ".join(scan.explain().to_text().split())
        problem = "cannot open the file: Permission denied; check its access"
        assert f"Index file '{denied}': {problem}" in text
        assert "REBUILD" not in text
        assert "rebuild" not in text
        with pytest.raises(FallbackError, match=r"UNREADABLE: 1 index file: by_a on one\.orc"):
            table.scan(WHERE, mode="strict").to_arrow()
        result = table.index("by_a").check()
        (problem,) = result.problems
        assert problem.startswith("index file ")
        assert problem.endswith(" of 'one.orc' cannot be read: Permission denied; check its access")
        assert ids(table.scan(WHERE, mode="prove")) == expected()
    # nothing was recorded: with access, the index serves again
    assert table.index("by_a").status == "fresh"
    assert table.scan(WHERE).explain().exact


def test_a_disk_that_fails(path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification reports what it cannot read, and proposes no rebuild either."""
    real = LocalSource.read

    def read(self: LocalSource, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        if self.path.endswith(".hidx"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, ranges)

    monkeypatch.setattr(LocalSource, "read", read)
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert set(reasons(scan)) == {Reason.UNREADABLE}
    problems = table.index("by_a").check(verify=True).problems
    assert problems
    assert all("Input/output error" in problem and "ebuild" not in problem for problem in problems)


def test_a_manifest_without_permission(path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    RECENT.clear()
    deny_access(monkeypatch, *(path / "_hindex" / "manifests").iterdir())
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.UNREADABLE: ["the manifest"]}


def test_a_data_file_without_permission(path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    deny_access(monkeypatch, path / "one.orc")
    for read in (Scan.to_arrow, Scan.count):
        with pytest.raises(OrcError, match=r"^file .*/one.orc: cannot open the file: Permission denied$"):
            read(table.scan("id >= 0"))


def test_an_index_file_in_the_place_of_another(path: Path, table: Table) -> None:
    one, two = index_files(path)
    shutil.copy(two, one)
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.CORRUPT: ["by_a on one.orc"]}


@pytest.mark.parametrize("using", ["bitmap", "bloom", "minmax"])
@pytest.mark.parametrize("is_shorter", [True, False], ids=["fewer stripes", "more stripes"])
def test_an_index_file_of_another_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str, is_shorter: bool
) -> None:
    """The manifest, whose checksums fit, names the index file of a data file that has other stripes."""
    local_build.install(monkeypatch)
    for name, count in (("long", ROWS), ("short", 500)):
        write_rows(tmp_path / "t" / f"{name}.orc", 0, [i % 10 for i in range(count)])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", using)
    wrong, right = ("long.orc", "short.orc") if is_shorter else ("short.orc", "long.orc")

    def record(manifest: Manifest) -> Manifest:
        files = {item.path: item for item in manifest.files}
        (own,), (other,) = files[wrong].index_files, files[right].index_files
        changed = replace(own, path=other.path, length=other.length, footer_checksum=other.footer_checksum)
        files[wrong] = replace(files[wrong], index_files=(changed,))
        return replace(manifest, files=list(files.values()))

    Store.for_table(table.uri).commit(record)
    scan = table.scan("a = 3")
    assert ids(scan) == [*range(3, ROWS, 10), *range(3, 500, 10)]
    assert reasons(scan) == {Reason.CORRUPT: [f"by_a on {wrong}"]}
    assert "other stripes than its data file" in scan.explain().notes[0].detail
    assert table.scan("a = 99").count() == 0
    assert table.scan().max("a") == 9
    assert table.scan("a < 2").value_counts("a").to_pydict()["a"] == [0, 1]
    assert [item.problems != () for item in table.check_indexes(verify=True)] == [True]


@pytest.mark.parametrize("using", ["bitmap", "bloom", "minmax"])
def test_an_index_file_of_a_data_file_with_as_many_stripes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str
) -> None:
    """Each of the two has one stripe, of another number of rows."""
    local_build.install(monkeypatch)
    counts = {"long.orc": 90, "short.orc": 40}
    for name, count in counts.items():
        write_rows(tmp_path / "t" / name, 0, [i % 10 for i in range(count)])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", using)

    def record(manifest: Manifest) -> Manifest:
        files = {item.path: item for item in manifest.files}
        own, other = (files[name].index_files[0] for name in counts)
        for name, item, source in (("long.orc", own, other), ("short.orc", other, own)):
            changed = replace(
                item, path=source.path, length=source.length, footer_checksum=source.footer_checksum
            )
            files[name] = replace(files[name], index_files=(changed,))
        return replace(manifest, files=list(files.values()))

    Store.for_table(table.uri).commit(record)
    scan = table.scan("a = 3")
    assert ids(scan) == [*range(3, 90, 10), *range(3, 40, 10)]
    assert reasons(scan) == {Reason.CORRUPT: ["by_a on long.orc", "by_a on short.orc"]}


@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
def test_an_index_file_with_keys_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str
) -> None:
    """Whoever made it made its checksums fit, too."""
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "x.orc", 0, [i % 10 for i in range(ROWS)])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", using)
    (file,) = (tmp_path / "t" / "_hindex").rglob("*.hidx")
    old = IndexFileReader(LocalSource(file))
    made = tmp_path / "made.hidx"
    writer = IndexFileWriter(made)
    writer.append_bytes(old.read_bytes(8, old.pages_end - 8))
    length, checksum = writer.finish(replace(old.footer, key_kind=KeyKind.BYTES))
    made.replace(file)

    def record(manifest: Manifest) -> Manifest:
        (entry,) = manifest.files
        own = [replace(item, length=length, footer_checksum=checksum) for item in entry.index_files]
        shared = [
            replace(
                item, files=tuple(replace(f, length=length, footer_checksum=checksum) for f in item.files)
            )
            for item in entry.shared
        ]
        return replace(manifest, files=[replace(entry, index_files=tuple(own), shared=tuple(shared))])

    Store.for_table(table.uri).commit(record)
    scan = table.scan("a = 3")
    assert ids(scan) == list(range(3, ROWS, 10))
    assert set(reasons(scan)) == {Reason.CORRUPT}


@pytest.mark.parametrize("using", ["bitmap", "btree", "minmax"])
def test_a_manifest_with_keys_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str
) -> None:
    """Its checksum fits, too."""
    local_build.install(monkeypatch)
    for at in (0, ROWS):
        write_rows(tmp_path / "t" / f"x{at}.orc", at, [i % 10 for i in range(ROWS)])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", using)

    def other(extent: ColumnStats) -> ColumnStats:
        return replace(extent, min_key=b"a", max_key=b"b")

    def record(manifest: Manifest) -> Manifest:
        files = []
        for entry in manifest.files:
            own = [replace(i, stripe_stats=tuple(map(other, i.stripe_stats))) for i in entry.index_files]
            shared = [
                replace(i, files=tuple(replace(f, stats=other(f.stats)) for f in i.files))
                for i in entry.shared
            ]
            files.append(replace(entry, index_files=tuple(own), shared=tuple(shared)))
        return replace(manifest, files=files)

    Store.for_table(table.uri).commit(record)
    scan = table.scan("a = 3")
    assert sorted(ids(scan)) == list(range(3, 2 * ROWS, 10))
    assert set(reasons(scan)) == {Reason.CORRUPT}
    assert "the manifest has keys of" in scan.explain().notes[0].detail
    first = table.scan(columns=["a"], limit=3)
    for descending in (False, True):
        rows = first.order_by("a", descending=descending).to_arrow()["a"].to_pylist()
        assert rows == [9 * descending] * 3
        ordered = first.order_by("a", descending=descending)
        assert set(reasons(ordered)) == ({Reason.CORRUPT} if using != "btree" else set())
    write_rows(tmp_path / "t" / "y.orc", 9000, [3])
    monkeypatch.setattr(btree_job, "MAX_SETS", 0)
    monkeypatch.setattr(btree_job, "PART_ROWS", 10)
    table.refresh_indexes()
    table.rebuild_index("by_a")
    assert reasons(table.scan("a = 3")) == {}
    assert sorted(ids(table.scan("a = 3"))) == [*range(3, 2 * ROWS, 10), 9000]


def test_an_index_file_that_is_a_link_out_of_the_store(path: Path, table: Table, tmp_path: Path) -> None:
    file = index_files(path)[0]
    file.rename(tmp_path / "outside.hidx")
    file.symlink_to(tmp_path / "outside.hidx")
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.CORRUPT: ["by_a on one.orc"]}


def test_an_index_of_a_type_that_is_not_known_here(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_type, "_BUILT_IN", {})
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.UNKNOWN_INDEX_TYPE: ["by_a on one.orc", "by_a on two.orc"]}


def test_all_index_files_gone(path: Path, table: Table) -> None:
    shutil.rmtree(path / "_hindex" / "data")
    scan = table.scan("a = 3 OR s = 's4'")
    assert ids(scan) == expected()
    assert set(reasons(scan)) == {Reason.INDEX_MISSING}


# Manifests


def manifest_file(path: Path) -> Path:
    return max((path / "_hindex" / "manifests").glob("*.manifest"))


def newer_manifest(data: bytes) -> bytes:
    """A frame of a later version, its checksum right."""
    framed = data[:8] + struct.pack("<I", 99) + data[12:-4]
    return framed + struct.pack("<I", google_crc32c.value(framed))


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(rewrite(lambda data: b""), Reason.CORRUPT, id="empty"),
        pytest.param(rewrite(lambda data: data[:-1]), Reason.CORRUPT, id="truncated"),
        pytest.param(rewrite(flipped(40)), Reason.CORRUPT, id="byte"),
        pytest.param(make_directory, Reason.CORRUPT, id="directory"),
        pytest.param(rewrite(newer_manifest), Reason.NEWER_FORMAT, id="newer"),
    ],
)
def test_a_damaged_manifest(
    path: Path, spark: SparkSession, damage: Callable[[Path], object], reason: Reason
) -> None:
    table = hindex.connect(spark=spark).table(str(path))
    damage(manifest_file(path))
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert set(reasons(scan)) == {reason}
    assert "manifest" in str(scan.explain())
    assert table.scan().explain().notes == ()
    assert table.scan().count() == 2 * ROWS

    error = NewerFormatError if reason is Reason.NEWER_FORMAT else StoreError
    before = store_state(table)
    with pytest.raises(error, match="manifest"):
        table.indexes()
    with pytest.raises(error, match="manifest"):
        table.index("by_a")
    with pytest.raises(error, match="manifest"):
        table.create_index("other", "id")
    with pytest.raises(error, match="manifest"):
        table.create_index("by_a", "a", if_not_exists=True)
    with pytest.raises(error, match="manifest"):
        table.drop_index("by_a", if_exists=True)
    assert store_state(table) == before


def test_a_segment_that_would_take_the_memory_of_the_machine(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "MAX_RAW_BYTES", 100)
    monkeypatch.setattr(segment, "MAX_RAW_FACTOR", 0)
    RECENT.clear()
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.CORRUPT: ["the manifest"]}
    assert "once they are decompressed" in scan.explain().notes[0].detail


def test_a_set_of_other_row_groups_than_the_manifest_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "x.orc", 0, [i % 10 for i in range(ROWS)])
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", "btree")

    def record(manifest: Manifest) -> Manifest:
        (entry,) = manifest.files
        shared = tuple(replace(item, num_row_groups=item.num_row_groups + 1) for item in entry.shared)
        return replace(manifest, files=[replace(entry, shared=shared)])

    Store.for_table(table.uri).commit(record)
    scan = table.scan("a = 3")
    assert ids(scan) == list(range(3, ROWS, 10))
    assert reasons(scan) == {Reason.CORRUPT: ["by_a"]}
    assert "row groups, and by the manifest of" in scan.explain().notes[0].detail


def test_a_recorded_schema_that_cannot_be_read(
    path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hindex.store import snapshot

    def refuse(text: str) -> None:
        raise ValueError(f"{text[:5]} is of a later version")

    snapshot._recorded_kind.cache_clear()
    monkeypatch.setattr(snapshot, "parse_type", refuse)
    assert ids(table.scan(parse_predicate(WHERE))) == expected()
    assert table.scan(WHERE).explain().exact
    snapshot._recorded_kind.cache_clear()

"""Queries of tables whose columns have indexes of every type, alone and together: rows, and what was skipped."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import IndexFileError
from hindex.index.index_file import IndexFileReader
from hindex.index.page_cache import DEFAULT_BYTES, shared_cache
from hindex.orc import OrcReader
from hindex.orc.io.source import LocalSource
from hindex.plan.filter import leaves
from hindex.plan.reasons import Reason
from hindex.scan import scan_task_reader
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.store.store import Store
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, keep_stat, reasons, write_columns, write_rows

TYPES = ("bitmap", "bloom", "minmax")
FILES, ROWS = 4, 1000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Row i has a = i, null for every 10th, and s of i // 2; file f has rows f * ROWS to (f + 1) * ROWS."""
    path = tmp_path_factory.mktemp("types") / "table"
    for number in range(FILES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        write_rows(path / f"{number}.orc", rows[0], [a(i) for i in rows], [f"s{i // 2:06}" for i in rows])
    return path


def a(row: int) -> int | None:
    return row if row % 10 else None


@pytest.fixture
def path(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "table"))


@pytest.fixture
def table(path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    local_build.install(monkeypatch)
    return LocalConnection().table(str(path))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that queries open."""
    result: list[str] = []
    real = OrcReader

    def open_reader(source: str, timezone: str | None = None) -> Any:
        result.append(Path(source).name)
        return real(source, timezone=timezone)

    monkeypatch.setattr(scan_task_reader, "OrcReader", open_reader)
    return result


CASES: list[tuple[str, Callable[[int], bool]]] = [
    ("a = 1234", lambda i: i == 1234),
    ("a = 1230", lambda i: False),
    ("a IN (7, 8, 9, 3456)", lambda i: i in (7, 8, 9, 3456)),
    ("a BETWEEN 1990 AND 2010", lambda i: 1990 <= i <= 2010 and bool(i % 10)),
    ("a > 3900 AND a < 3950", lambda i: 3900 < i < 3950 and bool(i % 10)),
    ("a <> 5", lambda i: i != 5 and bool(i % 10)),
    ("a IS NULL", lambda i: i % 10 == 0),
    ("a IS NOT NULL AND s = 's000001'", lambda i: i in (2, 3)),
    ("a > 100000", lambda i: False),
    ("a = 12 OR s = 's001000'", lambda i: i == 12 or i // 2 == 1000),
    ("s LIKE 's0001%'", lambda i: 100 <= i // 2 < 200),
    ("NOT (a = 3 OR s < 's001999')", lambda i: i // 2 >= 1999 and bool(i % 10)),
    ("a <=> NULL AND s >= 's001990'", lambda i: i % 10 == 0 and i // 2 >= 1990),
    ("a = 1234 AND s = 's000000'", lambda i: False),
]


@pytest.mark.parametrize(
    "using", [*((name,) for name in TYPES), ("btree",), ("minmax", "bloom"), (*TYPES, "btree")], ids=" ".join
)
def test_every_type_alone_and_together(table: Table, using: tuple[str, ...]) -> None:
    specs = [IndexSpec(f"{column}_{name}", column, name) for column in "as" for name in using]
    table.create_indexes(specs)
    for where, keep in CASES:
        scan = table.scan(where)
        assert ids(scan) == [i for i in range(FILES * ROWS) if keep(i)], where
        explained = scan.explain()
        assert explained.notes == (), where
        assert not ("bitmap" in using and not explained.exact), where


def test_the_cheapest_is_asked_first_and_the_last_only_where_needed(table: Table) -> None:
    table.create_indexes([IndexSpec(f"a_{name}", "a", name) for name in TYPES])
    tree = table.scan("a = 1234").explain().to_json()["tree"]
    assert [item["index"] for item in tree["sources"]] == ["a_minmax", "a_bloom", "a_bitmap"]
    left = [item["rows"] for item in tree["sources"]]
    assert left[0] >= left[1] >= left[2] == 1
    assert (tree["index"], tree["index_type"], tree["exact"], tree["rows"]) == ("a_bitmap", "BITMAP", True, 1)
    # the first one decides; BLOOM has no part in ranges
    tree = table.scan("a > 100000").explain().to_json()["tree"]
    assert [item["index"] for item in tree["sources"]] == ["a_minmax"]
    tree = table.scan("a > 1230").explain().to_json()["tree"]
    assert [item["index"] for item in tree["sources"]] == ["a_minmax", "a_bitmap"]


def test_two_inexact_indexes_leave_what_both_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row groups between whose ends a value lies, and those whose bloom filters may have it, differ."""
    local_build.install(monkeypatch)
    # row group g has multiples of g + 2, from some point on
    values = [(i // 100 + 2) * (50 * (i // 100) + i % 100) for i in range(2000)]
    columns = {"id": pa.array(range(2000), pa.int64()), "a": pa.array(values, pa.int32())}
    write_columns(tmp_path / "t" / "0.orc", columns, codec="none", stride=100)
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("a_minmax", "a", "minmax")
    table.create_index("a_bloom", "a", "bloom", properties={"fpp": "0.3"})
    smaller = 0
    for value in range(0, 20000, 97):
        where = f"a = {value}"
        scan = table.scan(where)
        expected = [i for i in range(2000) if values[i] == value]
        for task in scan.plan().tasks:
            with ScanTaskReader(task) as opened:
                (leaf,) = leaves(task.filter)
                alone = {name: bounds.upper for name, bounds in opened.lookup_each(0, leaf)}
                assert set(alone) == {"a_minmax", "a_bloom"}
                both = alone["a_minmax"] & alone["a_bloom"]
                assert set(expected) <= set(both)
                smaller += len(both) < min(map(len, alone.values()))
                answer = opened.look_up(0)
                assert answer.bounds.upper <= both, where
                # without the file's own statistics, that is all that is known
                assert [item.rows for item in answer.leaf_results if item.index][-1] == len(both), where
                assert opened.read(answer).column("id").to_pylist() == expected
        assert ids(scan) == expected
        assert scan.explain().notes == ()
    assert smaller > 10


def groups(file: Path) -> list[int]:
    """The row groups of each stripe of a file."""
    with OrcReader(file) as reader:
        return [math.ceil(stripe.num_rows / reader.tail.row_index_stride) for stripe in reader.stripes]


def test_files_are_skipped_before_they_are_opened(table: Table, path: Path, opened: list[str]) -> None:
    table.create_indexes([IndexSpec("a_minmax", "a", "minmax"), IndexSpec("s_minmax", "s", "minmax")])
    for where, files in [
        ("a = 1234", ["1.orc"]),
        ("a = 1234 OR a = 3456", ["1.orc", "3.orc"]),
        ("a BETWEEN 1995 AND 2005", ["1.orc", "2.orc"]),
        ("a > 100000", []),
        ("a = 1234 AND s = 's000000'", []),
        ("a = 1234 OR s = 's000000'", ["0.orc", "1.orc"]),
        ("a = 1234 OR id = 7", ["0.orc", "1.orc", "2.orc", "3.orc"]),
        ("a IS NOT NULL", ["0.orc", "1.orc", "2.orc", "3.orc"]),
        ("s IS NULL", []),
    ]:
        opened.clear()
        scan = table.scan(where)
        scan.count()
        assert opened == files, where
        explained = scan.explain()
        assert explained.stripes.total is not None, where
        assert explained.rows is not None
        assert explained.rows.total == FILES * ROWS, where
        assert explained.row_groups is not None
        assert explained.row_groups.total == sum(sum(groups(path / f"{n}.orc")) for n in range(FILES)), where
        assert (explained.files.kept or 0) <= len(files), where
    assert "MINMAX a_minmax  exact  0 rows" in str(table.scan("a > 100000").explain())


def test_a_file_that_changed_is_not_skipped(table: Table, path: Path, opened: list[str]) -> None:
    table.create_index("a_minmax", "a", "minmax")
    shutil.copy(path / "3.orc", path / "0.orc")
    os.utime(path / "0.orc", ns=(1, 1))
    assert ids(table.scan("a = 3456")) == [3456, 3456]
    assert Reason.STALE_FILE in reasons(table.scan("a = 3456"))
    assert ids(table.scan("a = 12")) == []


def test_a_column_of_another_type_in_a_file(table: Table, path: Path) -> None:
    """Keys of the file's type that are not those of the table's must not skip it."""
    other = path.parent / "other"
    decimals = {"id": pa.array([1, 2]), "a": pa.array([1, 250], pa.decimal128(6, 2))}
    more = {"id": pa.array([3, 4]), "a": pa.array([1, 250], pa.decimal128(8, 4))}
    write_columns(other / "0.orc", decimals)
    write_columns(other / "1.orc", more)
    mixed = LocalConnection().table(str(other))
    for name in TYPES:
        mixed.create_index(f"a_{name}", "a", name)
    assert ids(mixed.scan("a = 250")) == [2, 4]
    assert ids(mixed.scan("a < 2")) == [1, 3]


def index_file(table: Table, path: Path, name: str, data_file: str = "0.orc") -> Path:
    store = Store.for_table(str(path))
    manifest = store.load()
    assert manifest is not None
    entry = next(item for item in manifest.files if item.path == data_file)
    result = entry.index_file(manifest.index(name).id)
    assert result is not None
    return Path(store.absolute(result.path))


@pytest.mark.parametrize("using", TYPES)
def test_bytes_of_an_index_file_flipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str) -> None:
    """The query is right, and where the damage was met it is told."""
    local_build.install(monkeypatch)
    write_rows(tmp_path / "t" / "0.orc", 0, [5, None, 7, 5, 9, 1] * 60)
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("x", "a", using)
    file = index_file(table, tmp_path / "t", "x")
    data = file.read_bytes()
    where = "a = 5 OR a IS NULL"
    expected = [i for i in range(360) if i % 6 in (0, 1, 3)]
    assert ids(table.scan(where)) == expected
    pages_end = IndexFileReader(LocalSource(file)).pages_end
    messages = 0
    # every one of them is flipped where readers are tested
    for at in range(0, len(data), 5):
        broken = bytearray(data)
        broken[at] ^= 0x41
        keep_stat(file, lambda content=bytes(broken): file.write_bytes(content))  # type: ignore[misc]
        shared_cache().clear()
        scan = table.scan(where, ["id"])
        plan = scan.plan()
        (task,) = plan.tasks
        with ScanTaskReader(task) as opened:
            answers = [opened.look_up(stripe) for stripe in opened.stripes]
            rows = [i for answer in answers for i in opened.read(answer).column(0).to_pylist()]
        assert rows == expected, at
        damage = {note.reason for note in opened.notes}
        assert damage <= {Reason.CORRUPT, Reason.NEWER_FORMAT}, at
        assert damage or at < pages_end, at
        messages += bool(damage)
    assert messages >= (len(data) - pages_end) // 5
    shared_cache().clear()


@pytest.mark.parametrize("using", TYPES)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[: len(data) // 2], Reason.CORRUPT),
        (lambda data: data[:-16] + b"\2" + data[-15:], Reason.NEWER_FORMAT),
        (None, Reason.INDEX_MISSING),
    ],
    ids=["truncated", "newer", "missing"],
)
def test_an_index_file_that_cannot_be_used(
    table: Table, path: Path, using: str, change: Callable[[bytes], bytes] | None, reason: Reason
) -> None:
    table.create_index("x", "a", using)
    file = index_file(table, path, "x", "1.orc")
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    scan = table.scan("a = 1234")
    assert ids(scan) == [1234]
    assert reasons(scan) == {reason: ["x on 1.orc"]}
    with pytest.raises(IndexFileError):
        IndexFileReader(LocalSource(file) if file.exists() else _missing(file))


def _missing(file: Path) -> Any:
    raise IndexFileError(f"{file} is gone")


def test_files_and_pages_are_kept_between_scans(table: Table) -> None:
    table.create_indexes([IndexSpec(f"a_{name}", "a", name) for name in TYPES])
    shared_cache().clear()
    assert table.scan("a IN (77, 1234)").count() == 2
    before = shared_cache().counts
    assert table.scan("a IN (77, 1234)").count() == 2
    again = shared_cache().counts.since(before)
    assert again.misses == 0
    assert again.hits > 6
    explained = table.scan("a IN (77, 1234)").explain()
    assert explained.cache is not None
    assert (explained.cache.hits, explained.cache.misses) == (again.hits, 0)
    assert explained.to_json()["cache"]["hits"] == again.hits


def test_the_bound_of_the_cache(path: Path) -> None:
    with raises(ValueError):
        hindex.connect(cache_bytes=-1)
    try:
        hindex.connect(cache_bytes=0)
        assert shared_cache().counts.bytes == 0
    finally:
        hindex.connect(cache_bytes=DEFAULT_BYTES)

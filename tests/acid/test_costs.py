"""The costs of deletes, and their explanation."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from pyroaring import BitMap

from hindex.errors import TableError
from hindex.explanations.explanation import ReadPath
from hindex.orc import OrcReader
from hindex.orc.acid import deletes as acid_deletes
from hindex.orc.acid import delta_files as acid_files
from hindex.orc.acid.deletes import DeletedRows
from hindex.orc.acid.delta_files import DeleteFile, StoredFile
from hindex.orc.acid.live_rows import DELETED
from hindex.orc.acid.row_keys import FlatKeys, KeyRange, bucket_code
from hindex.orc.acid.write_ids import ALL_VALID
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import ByteSource
from hindex.scan.task_runner import run_lookups
from hindex.store import snapshot
from tests.acid.tables import B0, MOST, delete, ids_of, insert, table_of
from tests.acid.writing import AcidRow, write_acid, write_flat, write_marker
from tests.support.messages import raises


def test_parts_of_a_delete_delta_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of deletes whose statistics hold none of the wanted keys stay unread."""
    monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 0)
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(1000))
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, at) for at in range(0, 1000, 2)], 2)
    read: list[int] = []
    batches = OrcReader.batches

    def counting(self: Any, columns: Any = None, rows: Any = None, **options: Any) -> Any:
        read.append(sum(len(selection) for selection in rows.values()))
        return batches(self, columns, rows, **options)

    monkeypatch.setattr(OrcReader, "batches", counting)
    assert ids_of(tmp_path, where="id = 500 OR id = 501") == [501]
    # of 500 deletes in row groups of 16: that which holds row 500, twice, as rows are counted again
    assert 0 < sum(read) <= 2 * 2 * 16
    read.clear()
    assert ids_of(tmp_path) == list(range(1, 1000, 2))
    assert 500 <= sum(read) < 2 * 500
    # what is deleted of whole stripes is known from then on
    read.clear()
    assert ids_of(tmp_path) == list(range(1, 1000, 2))
    assert read == []


def test_deletes_of_a_large_delete_delta_without_a_row_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 0)
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(100))
    deleted: list[AcidRow] = [((1, B0, at), 2, None) for at in range(0, 100, 3)]
    write_acid(tmp_path / "delete_delta_2_2" / "bucket_00000", deleted, stride=0)
    expected = [at for at in range(100) if at % 3]
    assert ids_of(tmp_path, where="id = 6 OR id = 7") == [7]
    assert ids_of(tmp_path) == expected


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose tails are read, as they are."""
    read: list[str] = []

    def counting(read_tail: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(source: Any) -> Any:
            read.append(source.path)
            return read_tail(source)

        return call

    for module in (snapshot, acid_files):
        monkeypatch.setattr(module, "read_tail", counting(module.read_tail))
    return read


def test_a_thousand_original_files_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flat(tmp_path / "one", [(1, 0, "x"), (2, 0, "y")])
    content = (tmp_path / "one").read_bytes()
    (tmp_path / "t").mkdir()
    names = ["000000_0", *(f"000000_0_copy_{number}" for number in range(1, 1000))]
    for name in names:
        (tmp_path / "t" / name).write_bytes(content)
    delete(tmp_path / "t" / "delete_delta_1_1" / "bucket_00000", [(0, B0, 1999)], 1)
    read = counted(monkeypatch)
    plan = table_of(tmp_path / "t").unchecked_scan().plan()
    assert len(plan.tasks) == 1000
    assert sorted(Path(path).name for path in read) == sorted(names)
    firsts = {task.path: task.acid.first_row_id for task in plan.tasks if task.acid}
    assert firsts == {name: 2 * at for at, name in enumerate(sorted(names))}
    assert max(len(pickle.dumps(task)) for task in plan.tasks) < 4000


def test_markers_of_bases_are_read_where_they_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        insert(tmp_path / f"p={number}" / "base_2" / "bucket_00000", 2, [number])
        write_marker(tmp_path / f"p={number}" / "base_2")
    insert(tmp_path / "p=5" / "base_4" / "bucket_00000", 4, [40])
    write_marker(tmp_path / "p=5" / "base_4", "truncated")
    read = []

    def watched(uri: str) -> ByteSource:
        read.append(uri)
        return open_source(uri)

    monkeypatch.setattr("hindex.table.transactional.open_source", watched)
    # open elsewhere and after the bases, aborted ones that are in no base, and no list at all
    for valid, ids in (("", [0, 1, 2, 3, 4, 40]), ("t:9:5:5,7:3", [0, 1, 2, 3, 4, 40])):
        assert sorted(table_of(tmp_path, valid).scan(columns=["id"]).to_arrow()["id"].to_pylist()) == ids
        assert read == []
    table = table_of(tmp_path, "t:9:3:3:").scan(where="p >= 3", columns=["id"]).to_arrow()
    assert sorted(table["id"].to_pylist()) == [3, 4, 40]
    # of the only base above what is open
    assert {uri.partition("/p=")[2] for uri in read} == {"5/base_4/_metadata_acid"}


def test_small_files_of_deletes_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        write_flat(tmp_path / f"000000_0_copy_{number}", [(10 * number + at, 0, "x") for at in range(10)])
    for write_id in (1, 2):
        keys = [(0, B0, at) for at in range(write_id, 50, 5)]
        delete(tmp_path / f"delete_delta_{write_id}_{write_id}" / "bucket_00000", keys, write_id)
    read: list[str] = []
    every = acid_deletes._DeleteReader.all_keys

    def watched(self: Any) -> Any:
        read.append(self._reader.path)
        return every(self)

    monkeypatch.setattr(acid_deletes._DeleteReader, "all_keys", watched)
    expected = [10 + at for at in range(50) if at % 5 not in (1, 2)]
    assert ids_of(tmp_path) == expected
    assert len(read) == 2
    # a file that is another one now is read again
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(0, B0, 3)], 2)
    assert ids_of(tmp_path) == [10 + at for at in range(50) if at % 5 != 1 and at != 3]
    assert len(read) == 3
    # readers of other transactions have their own entries
    assert ids_of(tmp_path, f"t:1:{MOST}::") == [10 + at for at in range(50) if at % 5 != 1]


def test_tasks_are_plain_values(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(10))
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, 4)], 2)
    plan = table_of(tmp_path, f"t:5:{MOST}::3").scan(columns=["row__id"]).plan()
    assert pickle.loads(pickle.dumps(plan.tasks)) == plan.tasks


def test_explain_shows_deleted_rows(tmp_path: Path) -> None:
    rows = [((w, B0, at), w, (10 * w + at, 0, "x")) for w in (1, 2) for at in range(10)]
    write_acid(tmp_path / "delta_1_2_v7" / "bucket_00000", rows)
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [(1, B0, at) for at in range(4)], 3)
    explanation = table_of(tmp_path, f"t:3:{MOST}::2").scan().explain()
    assert (explanation.deleted, explanation.invisible) == (4, 10)
    assert (explanation.rows.kept, explanation.rows.total) == (6, 20)  # type: ignore[union-attr]
    assert explanation.path is ReadPath.FULL_SCAN
    lines = [line.split() for line in explanation.to_text().splitlines()]
    assert ["deleted", "4"] in lines
    assert ["not", "seen", "10"] in lines
    assert (explanation.to_json()["deleted"], explanation.to_json()["invisible"]) == (4, 10)


def test_few_files_of_deletes_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 0)
    monkeypatch.setattr("hindex.orc.acid.deletes._MAX_OPEN", 3)
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(100))
    for write_id in range(2, 10):
        keys = [(1, B0, 10 * write_id + at) for at in range(3)]
        delete(tmp_path / f"delete_delta_{write_id}_{write_id}" / "bucket_00000", keys, write_id)
    open_files = []
    rows = DeletedRows.rows

    def watched(self: DeletedRows, keys: Any) -> Any:
        result = rows(self, keys)
        open_files.append(len(self._open))
        return result

    monkeypatch.setattr(DeletedRows, "rows", watched)
    gone = {10 * write_id + at for write_id in range(2, 10) for at in range(3)}
    assert ids_of(tmp_path) == [i for i in range(100) if i not in gone]
    assert max(open_files) == 3


def test_a_scan_with_few_deletes_decodes_as_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are decoded whole, and filtered; row ids that do not count up are read, for the first scan only."""
    rows = [((1, B0, at + (at > 500) + (at > 1500)), 1, (at, at % 3, f"x{at}")) for at in range(2000)]
    write_acid(tmp_path / "base_1" / "bucket_00000", rows, stripe_rows=1000, stride=100)
    write_acid(tmp_path / "base_1" / "bucket_00001", rows, stripe_rows=1000, stride=100)
    gone = [*range(0, 2000, 100), 1999]
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [rows[at][0] for at in gone], 2)
    read: list[tuple[tuple[str, ...], int]] = []
    readers = []
    read_stripe = OrcReader.read_stripe

    def watched(self: Any, stripe: Any, columns: Any, rows: Any, *pool: Any) -> Any:
        readers.append(self)
        read.append((tuple(columns), len(rows)))
        return read_stripe(self, stripe, columns, rows, *pool)

    monkeypatch.setattr(OrcReader, "read_stripe", watched)
    table = table_of(tmp_path)
    user = ("row.id", "row.s")
    for row_ids in (True, False):
        read.clear()
        readers.clear()
        ids = table.scan(columns=["id", "s"]).to_arrow()["id"].to_pylist()
        assert ids == 2 * [at for at in range(2000) if at not in gone]
        # the write id and the bucket are the same in a whole stripe, which its statistics tell
        wanted = {"rowId": 2000 * 2} if row_ids else {}
        assert {
            names[0]: sum(n for c, n in read if c == names) for names, _ in read if names != user
        } == wanted
        assert sum(count for names, count in read if names == user) == 2 * (2000 - 21)
        counts = [reader.counts for reader in set(readers)]
        # four stripes of two columns, and of row ids: of few row groups, too
        assert sum(item.whole_columns for item in counts) == 4 * (3 if row_ids else 2)
        assert sum(item.row_groups for item in counts) == 0
    # rows of one row group are read alone, and go by what is known
    read.clear()
    assert table.scan(where="id = 100 OR id = 101", columns=["s"]).to_arrow()["s"].to_pylist() == ["x101"] * 2
    assert all(names[0] != "rowId" for names, _ in read)


@pytest.mark.parametrize("compression", ["zlib", "uncompressed"])
def test_row_ids_that_count_up_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    """Consecutive row ids are recognized by their bytes; with any other id, all are read."""
    base, count = tmp_path / "base_1" / "bucket_00000", 5000
    read: list[tuple[str, ...]] = []
    read_stripe = OrcReader.read_stripe

    def watched(self: Any, stripe: int, columns: Any = None, *given: Any) -> Any:
        read.append(tuple(columns))
        return read_stripe(self, stripe, columns, *given)

    ids = np.arange(count) + 70
    swapped, doubled, parted = ids.copy(), ids.copy(), ids.copy()
    swapped[[600, 4000]] = swapped[[4000, 600]]
    doubled[1000] = doubled[999]  # which should not be: the key stands for both rows
    parted[2500:] += 10
    gone = [70, 581, 582, 670, 1069, 1070, 3000, 4070, 5069, 5070]
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, at) for at in gone], 2)
    monkeypatch.setattr(OrcReader, "read_stripe", watched)
    for row_ids, is_told in ((ids, True), (swapped, False), (doubled, False), (parted, False)):
        base.parent.mkdir(exist_ok=True)
        numbers = pa.array(np.full(count, 1, np.int32)), pa.array(np.full(count, B0, np.int32))
        every = pa.array(np.ones(count, np.int64))
        user = pa.StructArray.from_arrays([pa.array(np.arange(count))], ["id"])
        names = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
        table = pa.table([numbers[0], every, numbers[1], pa.array(row_ids), every, user], names)
        pyarrow.orc.write_table(table, str(base), compression=compression)
        (tmp_path / "base_1" / "_orc_acid_version").write_text("2")
        read.clear()
        assert ids_of(tmp_path) == np.flatnonzero(~np.isin(row_ids, gone)).tolist()
        assert ("rowId",) not in read if is_told else ("rowId",) in read


def test_cached_deletes_belong_to_one_version(tmp_path: Path) -> None:
    """Of a data file, of each file of deletes, and of the write ids that are seen."""
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(200))
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, 3)], 2)
    every = set(range(200))
    for _ in range(2):
        assert set(ids_of(tmp_path)) == every - {3}
        assert set(ids_of(tmp_path, f"t:1:{MOST}::")) == every
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [(1, B0, 4)], 3)
    assert set(ids_of(tmp_path)) == every - {3, 4}
    assert set(ids_of(tmp_path, f"t:3:{MOST}::2")) == every - {4}
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, 9)], 2)
    assert set(ids_of(tmp_path)) == every - {4, 9}
    # the same ids, in another order
    rows = [((1, B0, 199 - at), 1, (at, at % 3, "x")) for at in range(200)]
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", rows)
    assert set(ids_of(tmp_path)) == every - {195, 190}


def test_every_file_of_deletes_is_opened_for_its_ranges_and_for_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many data files there are, as far as memory for what is known reaches; beyond, again."""
    for number in range(4):
        rows = [(100 * number + at, 0, "x") for at in range(100)]
        write_flat(tmp_path / f"000000_0_copy_{number}", rows)
    for write_id in range(1, 31):
        keys = [(0, B0, at) for at in range(write_id, 400, 40)]
        delete(tmp_path / f"delete_delta_{write_id}_{write_id}" / "bucket_00000", keys, write_id)
    opened: list[str] = []
    open_file = acid_files.open_file

    def watched(file: Any) -> OrcReader:
        opened.append(file.uri)
        return open_file(file)

    monkeypatch.setattr(acid_deletes, "open_file", watched)
    expected = [at for at in range(400) if at % 40 == 0 or at % 40 > 30]
    for times in (2, 0):
        opened.clear()
        assert ids_of(tmp_path) == expected
        assert sorted(Counter(opened).values()) == [times] * 30 * bool(times)
    for cache, limit in ((acid_deletes.RANGES, 10_000), (acid_deletes.KEYS, 5_000)):
        cache.clear()
        monkeypatch.setattr(cache, "_limit", limit)
    DELETED.clear()
    opened.clear()
    assert ids_of(tmp_path) == expected
    assert len(opened) > 2 * 30
    for cache in (acid_deletes.RANGES, acid_deletes.KEYS):
        assert 0 < cache.weight <= cache._limit
        assert 0 < len(cache) < 30


@pytest.mark.parametrize("small", [True, False])
def test_deletes_that_are_removed_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """A compaction was done, and its cleaner came, between the plan and the read: nothing is read without them."""
    monkeypatch.setattr(acid_deletes, "SMALL_ROWS", 1 << 16 if small else 0)
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(10))
    for write_id in (2, 3):
        path = tmp_path / f"delete_delta_{write_id}_{write_id}" / "bucket_00000"
        delete(path, [(1, B0, write_id)], write_id)
    planned = table_of(tmp_path).scan(columns=["id"]).plan()
    path.unlink()
    with raises(TableError):
        list(run_lookups(planned.tasks))
    assert ids_of(tmp_path) == [0, 1, *range(3, 10)]


def test_a_file_of_deletes_that_two_threads_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the readers is kept for the stripes to come, and both are closed."""
    path = tmp_path / "bucket_00000"
    delete(path, [(1, B0, 3), (1, B0, 5)], 2)
    # nothing tells its version, so that it is read through a reader each time
    file = DeleteFile(StoredFile(str(path)), 2, 2, path.stat().st_size, 0)
    deleted = DeletedRows([file], ALL_VALID, KeyRange())
    keys = FlatKeys(1, bucket_code(B0), 0, 10)
    opened: list[Any] = []
    closed: list[Any] = []

    class Watched(acid_deletes._DeleteReader):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            opened.append(self)
            if len(opened) == 1:
                # as another thread would, before this one has noted its own
                assert deleted.rows(keys) == BitMap([3, 5])

        def close(self) -> None:
            closed.append(self)
            super().close()

    monkeypatch.setattr(acid_deletes, "_DeleteReader", Watched)
    for _ in range(3):
        assert deleted.rows(keys) == BitMap([3, 5])
    assert closed == opened[:1]
    deleted.close()
    assert closed == opened
    assert len(opened) == 2

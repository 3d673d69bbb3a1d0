"""Each rule of reading a transactional table, and each thing that Hive and Trino disagree about, on a small table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

import hindex
from hindex.api.table import Table
from hindex.errors import OrcError, TableError
from hindex.orc.acid.delta_files import flush_length
from hindex.orc.io.adapted import AdaptedFileSystem
from hindex.store.store import Store
from hindex.table import directory_tree
from hindex.table.listing import list_data_files
from hindex.table.transactional import AcidOptions
from tests.acid.tables import B0, MOST, delete, ids_of, insert, keys_of, table_of
from tests.acid.writing import (
    Key,
    bucket_property,
    write_acid,
    write_flat,
    write_marker,
    write_side_file,
    write_version_file,
)
from tests.support.messages import raises

# Row keys and deletes


def test_user_columns_are_those_of_row(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1_0000" / "bucket_00000", 1, range(5))
    table = table_of(tmp_path)
    assert table.schema.names == ("id", "k", "s")
    assert table.scan().to_arrow().schema == pa.schema(
        [("id", pa.int64()), ("k", pa.int32()), ("s", pa.string())]
    )
    assert ids_of(tmp_path, where="k = 1") == [1, 4]


def test_deletes_and_updates(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1_0000" / "bucket_00000", 1, range(200))
    delete(tmp_path / "delete_delta_2_2_0000" / "bucket_00000", [(1, B0, 3), (1, B0, 150)], 2)
    # an update of 3 rows: deletes and new rows, of the same statement
    delete(tmp_path / "delete_delta_3_3_0000" / "bucket_00000", [(1, B0, at) for at in (4, 5, 6)], 3)
    insert(tmp_path / "delta_3_3_0000" / "bucket_00000", 3, (4, 5, 6))
    assert ids_of(tmp_path) == [i for i in range(200) if i not in (3, 150)]
    assert keys_of(tmp_path)[5] == (3, B0, 1)
    assert ids_of(tmp_path, where="id > 2 AND id < 6") == [4, 5]


def test_the_bucket_files_of_deletes_are_all_read(tmp_path: Path) -> None:
    """Trino #31302: by name, bucket_00000_0 and the file of another writer would be missed."""
    for bucket in (0, 1):
        ids = range(10 * bucket, 10 * bucket + 5)
        insert(tmp_path / "delta_1_1" / f"bucket_0000{bucket}", 1, ids, bucket_property(bucket))
    delete(tmp_path / "delete_delta_2_2_0000" / "bucket_00000_0", [(1, B0, 0)], 2)
    delete(tmp_path / "delete_delta_2_2_0000" / "bucket_00007", [(1, bucket_property(1), 1)], 2)
    assert ids_of(tmp_path) == [1, 2, 3, 4, 10, 12, 13, 14]


def test_the_statement_belongs_to_the_key(tmp_path: Path) -> None:
    """Trino #8208: rows of two statements have the same write id, bucket and row id."""
    for statement in (0, 1):
        path = tmp_path / f"delta_1_1_000{statement}" / "bucket_00000"
        insert(path, 1, range(10 * statement, 10 * statement + 3), bucket_property(0, statement))
    delete(tmp_path / "delete_delta_2_2_0000" / "bucket_00000", [(1, bucket_property(0, 1), 0)], 2)
    assert ids_of(tmp_path) == [0, 1, 2, 11, 12]


def test_the_write_id_and_row_id_belong_to_the_key(tmp_path: Path) -> None:
    for write_id in (1, 2):
        insert(
            tmp_path / f"delta_{write_id}_{write_id}" / "bucket_00000",
            write_id,
            (10 * write_id, 10 * write_id + 1),
        )
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [(2, B0, 1), (3, B0, 0), (1, B0, 7)], 3)
    assert ids_of(tmp_path) == [10, 11, 20]


def test_a_bucket_of_version_0(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(3), prop=2)
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, bucket_property(2), 1)], 2)
    assert ids_of(tmp_path) == [0, 2]


def test_deletes_of_buckets_of_both_versions(tmp_path: Path) -> None:
    """The numbers of version 0 are less than all of version 1, but their buckets are not."""
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(10))
    insert(tmp_path / "delta_1_1" / "bucket_00003", 1, range(30, 40), bucket_property(3))
    insert(tmp_path / "delta_1_1" / "bucket_00005", 1, range(50, 60), 5)
    keys = [(1, 3, 4), (1, 5, 6), (1, B0, 2), (1, bucket_property(5), 7)]
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", keys, 2)
    gone = {2, 34, 56, 57}
    assert ids_of(tmp_path) == sorted({*range(10), *range(30, 40), *range(50, 60)} - gone)
    # each version in a stripe of its own
    several = [(1, 3, i) for i in range(48)] + [(1, B0, 0), (1, B0, 9)]
    write_acid(tmp_path / "delete_delta_3_3" / "bucket_00000", [(key, 3, None) for key in several])
    assert ids_of(tmp_path) == [1, 3, 4, 5, 6, 7, 8, 50, 51, 52, 53, 54, 55, 58, 59]


def test_a_bucket_of_an_unknown_version(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(3), prop=2 << 29)
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, 2 << 29, 1)], 2)
    with raises(OrcError):
        ids_of(tmp_path)


def test_the_operation_of_a_row_is_ignored(tmp_path: Path) -> None:
    """The column ``operation`` says nothing in this layout: data files hold rows, and delete deltas deletes."""
    for operation, directory in (
        (0, "delta_1_1"),
        (1, "delta_2_2"),
        (2, "delta_3_3"),
        (0, "delete_delta_4_4"),
    ):
        write_id = int(directory[-1])
        values = None if write_id == 4 else (write_id, 0, "x")
        key = (1, B0, 0) if write_id == 4 else (write_id, B0, 0)
        path = tmp_path / directory / "bucket_00000"
        write_acid(path, [(key, write_id, values)], operation=operation)
    assert ids_of(tmp_path) == [2, 3]


def test_deletes_in_any_order_are_found(tmp_path: Path) -> None:
    """Hive sorts both; nothing here relies on it."""
    rows = [((1, B0, at), 1, (at, 0, "x")) for at in range(300)]
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", rows[::-1])
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, at * 7 % 300) for at in range(100)], 2)
    gone = {at * 7 % 300 for at in range(100)}
    assert ids_of(tmp_path) == [at for at in range(300) if at not in gone]


def test_older_deletes_are_not_opened(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, (1, 2))
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, 0)], 2)
    insert(tmp_path / "delta_3_3" / "bucket_00000", 3, (3, 4))
    files = {file.path: file.acid for file in list_data_files(str(tmp_path)).files}
    assert {path: len(acid.deletes) for path, acid in files.items() if acid} == {
        "delta_1_1/bucket_00000": 1,
        "delta_3_3/bucket_00000": 0,
    }
    assert ids_of(tmp_path) == [2, 3, 4]


def test_original_files(tmp_path: Path) -> None:
    """The global row ids of files that were there before: from 0, X1, X1 + X2, and in the order of their paths."""
    sizes = {
        "000000_0": 30,
        "000000_0_copy_1": 20,
        "000000_0_copy_2": 10,
        "000000_0_copy_10": 5,
        "000001_0": 7,
    }
    first = {
        "000000_0": 0,
        "000000_0_copy_1": 30,
        "000000_0_copy_10": 50,
        "000000_0_copy_2": 55,
        "000001_0": 0,
    }
    expected: dict[int, Key] = {}
    for number, (name, size) in enumerate(sizes.items()):
        ids = range(1000 * number, 1000 * number + size)
        write_flat(tmp_path / name, [(i, 0, "x") for i in ids], stripe_rows=8, stride=4)
        prop = bucket_property(int(name[:6]))
        expected |= {i: (0, prop, first[name] + at) for at, i in enumerate(ids)}
    (tmp_path / "000000_0_copy_11").write_bytes(b"")
    write_flat(tmp_path / "000000_0_copy_12", [])
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [9999])
    keys = keys_of(tmp_path)
    assert keys.pop(9999) == (1, B0, 0)
    assert keys == expected
    gone = {
        3: (0, B0, 3),
        1019: (0, B0, 49),
        3000: (0, B0, 50),
        2009: (0, B0, 64),
        4006: (0, bucket_property(1), 6),
    }
    assert {i: expected[i] for i in gone} == gone
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", sorted(gone.values()), 2)
    assert ids_of(tmp_path) == sorted((expected.keys() | {9999}) - gone.keys())
    # the rows of a file are those before any pruning
    assert ids_of(tmp_path, where="id >= 1018 AND id <= 1019") == [1018]


def test_original_files_below_are_counted_too(tmp_path: Path) -> None:
    write_flat(tmp_path / "000000_0", [(1, 0, "x")])
    write_flat(tmp_path / "HIVE_UNION_SUBDIR_1" / "000000_0", [(2, 0, "x")])
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [3])
    assert keys_of(tmp_path) == {1: (0, B0, 0), 2: (0, B0, 1), 3: (1, B0, 0)}


def test_loaded_files_have_keys_of_their_directory(tmp_path: Path) -> None:
    """LOAD DATA leaves flat files in a delta or base: each file has its own schema."""
    write_flat(tmp_path / "base_5" / "000000_0", [(i, 0, "x") for i in range(3)])
    insert(tmp_path / "base_5" / "bucket_00001", 5, [10, 11], bucket_property(1))
    write_flat(tmp_path / "delta_6_6_0000" / "000000_0", [(20, 0, "x")])
    write_flat(tmp_path / "delta_6_6_0000" / "000000_0_copy_1", [(21, 0, "x")])
    write_flat(tmp_path / "delta_7_9" / "bucket_00002", [(30, 0, "x")])
    assert keys_of(tmp_path) == {
        **{i: (5, B0, i) for i in range(3)},
        10: (5, bucket_property(1), 0),
        11: (5, bucket_property(1), 1),
        20: (6, B0, 0),
        21: (6, B0, 1),
        30: (7, bucket_property(2), 0),
    }
    delete(tmp_path / "delete_delta_10_10" / "bucket_00000", [(5, B0, 1), (6, B0, 1)], 10)
    assert ids_of(tmp_path) == [0, 2, 10, 11, 20, 30]


def test_two_loads_of_one_transaction(tmp_path: Path) -> None:
    for statement in (0, 1):
        write_flat(tmp_path / f"delta_6_6_000{statement}" / "000000_0", [(statement, 0, "x")])
    assert keys_of(tmp_path) == {0: (6, B0, 0), 1: (6, bucket_property(0, 1), 0)}


def test_flat_files_whose_names_tell_no_bucket(tmp_path: Path) -> None:
    """As in insert-only tables: they have rows, but no keys."""
    write_flat(tmp_path / "delta_1_1" / "part-0.orc", [(1, 0, "x")])
    assert ids_of(tmp_path) == [1]
    with raises(OrcError):
        table_of(tmp_path).scan(columns=["row__id"]).to_arrow()
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, B0, 0)], 2)
    with raises(OrcError):
        ids_of(tmp_path)


def test_deletes_of_other_files_than_one_without_a_bucket(tmp_path: Path) -> None:
    """The statistics of deletes name their write ids; a file without keys has one."""
    write_flat(tmp_path / "part-0.orc", [(i, 0, "x") for i in range(60)])
    insert(tmp_path / "delta_2_2" / "bucket_00000", 2, range(100, 160))
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [(2, B0, i) for i in range(5)], 3)
    live = [*range(60), *range(105, 160)]
    assert ids_of(tmp_path) == live
    assert ids_of(tmp_path, where="id BETWEEN 50 AND 106") == [*range(50, 60), 105, 106]
    # a file of deletes of older and of newer rows, each in a stripe
    write_flat(tmp_path / "delta_6_6" / "part-0.orc", [(i, 0, "x") for i in range(200, 210)])
    around = [(2, B0, 5 + i) for i in range(48)] + [(7, B0, i) for i in range(5, 8)]
    write_acid(tmp_path / "delete_delta_8_8" / "bucket_00000", [(key, 8, None) for key in around])
    live = [*range(60), *range(153, 160), *range(200, 210)]
    assert ids_of(tmp_path) == live
    delete(tmp_path / "delete_delta_9_9" / "bucket_00000", [(0, B0, 0)], 9)
    with raises(OrcError):
        ids_of(tmp_path)
    assert ids_of(tmp_path, where="id > 100") == live[60:]


# Which write ids are seen


def test_rows_of_transactions_that_are_not_valid(tmp_path: Path) -> None:
    """A compacted delta has rows of many transactions: each row counts by its own."""
    rows = [((w, B0, at), w, (10 * w + at, 0, "x")) for w in (1, 2, 3) for at in range(3)]
    write_acid(tmp_path / "delta_1_3_v9" / "bucket_00000", rows, stripe_rows=4, stride=2)
    deletes = [((1, B0, 0), 2, None), ((1, B0, 1), 3, None)]
    write_acid(tmp_path / "delete_delta_1_3_v9" / "bucket_00000", deletes)
    assert ids_of(tmp_path) == [12, 20, 21, 22, 30, 31, 32]
    assert ids_of(tmp_path, f"t:3:{MOST}::3") == [11, 12, 20, 21, 22]
    assert ids_of(tmp_path, f"t:3:{MOST}::2") == [10, 12, 30, 31, 32]
    assert ids_of(tmp_path, "t:1:2:2:") == [10, 11, 12]
    assert ids_of(tmp_path, f"t:3:{MOST}::2", where="id < 12") == [10]


def test_valid_write_ids_of_a_connection_and_a_scan(tmp_path: Path) -> None:
    for write_id in (1, 2):
        insert(tmp_path / f"delta_{write_id}_{write_id}" / "bucket_00000", write_id, [write_id])
    seen = f"t:1:{MOST}::"
    statement = f"SELECT COUNT(*) FROM '{tmp_path}'"
    assert hindex.connect().sql(statement).to_arrow().column(0).to_pylist() == [2]  # type: ignore[union-attr]
    assert hindex.connect(valid_write_ids=seen).sql(statement).to_arrow().column(0).to_pylist() == [1]  # type: ignore[union-attr]
    assert hindex.connect(valid_write_ids=seen).table(str(tmp_path), valid_write_ids="").scan().count() == 2
    table = table_of(tmp_path)
    assert (table.scan(valid_write_ids=seen).count(), table.scan().count()) == (1, 2)
    with raises(TableError):
        hindex.connect(valid_write_ids="nonsense")


# What is in the directories


def test_hidden_and_empty_files(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    (tmp_path / "delta_1_1" / "_orc_acid_version").write_text("2")
    (tmp_path / "delta_1_1" / ".bucket_00001.crc").write_text("x")
    (tmp_path / "delta_1_1" / "_tmp").mkdir()
    (tmp_path / "delta_1_1" / "bucket_00003").write_bytes(b"")
    (tmp_path / "_tmp_space.db").mkdir()
    (tmp_path / ".hive-staging" / "delta_9_9").mkdir(parents=True)
    assert ids_of(tmp_path) == [1]


def test_an_empty_base_stands_for_what_was_before(tmp_path: Path) -> None:
    write_flat(tmp_path / "000000_0", [(1, 0, "x")])
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [2])
    insert(tmp_path / "delta_3_3" / "bucket_00000", 3, [3])
    (tmp_path / "base_2").mkdir()
    assert ids_of(tmp_path) == [3]


def test_a_directory_in_a_delta(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "sub" / "bucket_00000", 1, [1])
    with raises(TableError):
        ids_of(tmp_path)


def test_a_copy_of_a_delta_in_a_delta_that_a_base_replaced(tmp_path: Path) -> None:
    """As of a move to a directory that was there already."""
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    insert(tmp_path / "delta_1_1" / "delta_1_1" / "bucket_00000", 1, [1])
    insert(tmp_path / "base_2" / "bucket_00000", 2, [2])
    assert ids_of(tmp_path) == [2]
    with raises(TableError):
        ids_of(tmp_path, "t:1:2:2:")


def test_insert_only_tables_of_a_union_all(tmp_path: Path) -> None:
    """Each branch has a directory of its own in the delta or base, with files of the same names."""
    for at, directory in enumerate(["delta_1_1_0000", "delta_2_2_0000", "base_3", "delta_4_4_0000"]):
        for branch in (1, 2):
            place = tmp_path / directory / f"HIVE_UNION_SUBDIR_{branch}"
            write_flat(place / "000000_0", [(10 * (at + 1) + branch, 0, "x")])
    write_flat(tmp_path / "delta_4_4_0000" / "000000_0", [(40, 0, "x")])
    assert ids_of(tmp_path) == [31, 32, 40, 41, 42]
    assert ids_of(tmp_path, "t:2:3:3:", where="id > 11") == [12, 21, 22]
    # distinct keys: the branches' rows are those of the delta
    keys = keys_of(tmp_path)
    assert [keys[i] for i in (40, 41, 42)] == [(4, B0, 0), (4, B0, 1), (4, B0, 2)]
    (tmp_path / "delta_4_4_0000" / "HIVE_UNION_SUBDIR_1" / "more").mkdir()
    with raises(TableError):
        ids_of(tmp_path)


def test_insert_only_tables(tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        write_flat(tmp_path / f"delta_{write_id}_{write_id}_0000" / "000000_0", [(write_id, 0, "x")])
    assert ids_of(tmp_path) == [1, 2, 3]
    assert ids_of(tmp_path, f"t:3:{MOST}::2") == [1, 3]
    delete(tmp_path / "delete_delta_4_4_0000" / "bucket_00000", [(1, B0, 0)], 4)
    with raises(TableError):
        list_data_files(str(tmp_path), options=AcidOptions(insert_only=True))
    # a scan's own list of valid write ids changes nothing of that
    store, options = Store.for_table(str(tmp_path)), AcidOptions(insert_only=True)
    table = Table(hindex.connect(), "t", str(tmp_path), store, options=options)
    for valid in (None, f"t:4:{MOST}::"):
        with pytest.raises(TableError, match="insert-only"):
            table.scan(valid_write_ids=valid).count()


def test_a_compaction_of_an_insert_only_table_that_came_after_the_list(tmp_path: Path) -> None:
    """Nothing tells which of its rows are of which write id: none is read that should not be seen."""
    for write_id in (1, 2, 3):
        write_flat(tmp_path / f"delta_{write_id}_{write_id}_0000" / "000000_0", [(write_id, 0, "x")])
    # write id 2 was aborted
    write_flat(tmp_path / "delta_1_3_v7" / "000000_0", [(1, 0, "x"), (3, 0, "x")])
    insert(tmp_path / "delta_4_4_0000" / "bucket_00000", 4, [4])
    assert ids_of(tmp_path, f"t:3:{MOST}::2") == [1, 3]
    assert ids_of(tmp_path, f"t:4:{MOST}::2,4") == [1, 3]
    assert ids_of(tmp_path, "t:4:4:4:2") == [1, 3]
    # when the lists were made, a write id was open, or not given yet
    for valid in ("t:3:3:3:2", "t:3:1:1:2", f"t:2:{MOST}::2", "t:4:2:2:4"):
        for where in (None, "id = 1", "id > 0"):
            with raises(OrcError):
                ids_of(tmp_path, valid, where)
    shutil.rmtree(tmp_path / "delta_1_3_v7")
    assert ids_of(tmp_path, "t:3:3:3:2") == [1]


@pytest.mark.parametrize("where", ["footer", "file", "neither", "old file"])
def test_the_layout_of_hive_before_3_is_refused(tmp_path: Path, where: str) -> None:
    path = tmp_path / "delta_1_1" / "bucket_00000"
    write_acid(path, [((1, B0, 0), 1, (1, 0, "x"))], version=b"2" if where == "footer" else None)
    if "file" in where:
        write_version_file(path.parent, "1" if where == "old file" else "2")
    if where in ("footer", "file"):
        assert ids_of(tmp_path) == [1]
        return
    with raises(OrcError):
        ids_of(tmp_path)


@pytest.mark.parametrize("version", [b"9" * 5000, b"-2", b"", b"2.0"])
def test_versions_of_the_layout_that_are_no_numbers(tmp_path: Path, version: bytes) -> None:
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", [((1, B0, 0), 1, (1, 0, "x"))], version=version)
    with raises(OrcError):
        ids_of(tmp_path)


def test_files_of_hive_before_3_without_rows_are_read(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", [], version=None)
    insert(tmp_path / "delta_2_2" / "bucket_00000", 2, [5])
    assert ids_of(tmp_path) == [5]


def test_side_files_say_how_much_is_read(tmp_path: Path) -> None:
    path = tmp_path / "delta_1_2" / "bucket_00000"
    insert(path, 1, range(20))
    complete = path.read_bytes()
    # what follows is still being written
    path.write_bytes(complete + b"\x00" * 100)
    write_side_file(path, 3, len(complete))
    assert ids_of(tmp_path) == list(range(20))
    assert [file.length for file in list_data_files(str(tmp_path)).files] == [len(complete)]
    write_side_file(path, len(complete) + 1000)
    path.write_bytes(complete)
    assert ids_of(tmp_path) == list(range(20))
    write_side_file(path)
    assert list_data_files(str(tmp_path)).files[0].length == 0


def test_side_files_that_are_written_to() -> None:
    whole = (5).to_bytes(8, "big") + (700).to_bytes(8, "big")
    assert flush_length(whole) == 700
    assert flush_length(whole + b"\x00\x00\x01") == 700
    assert flush_length(b"\x01") == flush_length(b"") == 0


def test_a_delete_delta_of_something_else(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    write_flat(tmp_path / "delete_delta_2_2" / "bucket_00000", [(1, 0, "x")])
    with raises(OrcError):
        ids_of(tmp_path)
    (tmp_path / "delete_delta_2_2" / "bucket_00000").rename(tmp_path / "delete_delta_2_2" / "other.orc")
    with raises(TableError):
        ids_of(tmp_path)


def test_tables_below_and_deltas_above_partitions(tmp_path: Path) -> None:
    insert(tmp_path / "t1" / "delta_1_1" / "bucket_00000", 1, [1])
    with raises(TableError):
        ids_of(tmp_path)
    insert(tmp_path / "t2" / "delta_1_1" / "bucket_00000", 1, [1])
    insert(tmp_path / "t2" / "p=1" / "delta_1_1" / "bucket_00000", 1, [1])
    with raises(TableError):
        ids_of(tmp_path / "t2")


def test_partitions(tmp_path: Path) -> None:
    """Each is a directory of its own; one that has original files only belongs to the table, too."""
    insert(tmp_path / "p=1" / "delta_1_1" / "bucket_00000", 1, [1, 2])
    delete(tmp_path / "p=1" / "delete_delta_2_2" / "bucket_00000", [(1, B0, 0)], 2)
    insert(tmp_path / "p=2" / "base_1" / "bucket_00000", 1, [3, 4])
    write_flat(tmp_path / "p=3" / "000000_0", [(5, 0, "x")])
    rows = table_of(tmp_path).scan(columns=["id", "p", "row__id"]).to_arrow().to_pylist()
    assert [(row["id"], row["p"], row["row__id"]["writeId"]) for row in rows] == [
        (2, 1, 1),
        (3, 2, 1),
        (4, 2, 1),
        (5, 3, 0),
    ]
    assert ids_of(tmp_path, where="p > 1 AND id <> 4") == [3, 5]
    states = list_data_files(str(tmp_path)).transactional
    assert [item.path for item in states] == ["p=1", "p=2", "p=3"]


def test_a_column_that_older_files_lack(tmp_path: Path) -> None:
    write_flat(tmp_path / "000000_0", [(1,)], schema="struct<id:bigint>")  # type: ignore[list-item]
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [2])
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(0, B0, 0)], 2)
    assert table_of(tmp_path).scan(where="k = 2").count() == 1
    assert table_of(tmp_path).scan(where="k IS NULL").count() == 0


@pytest.mark.parametrize("at", [0, 1, 2])
def test_null_keys_are_refused(tmp_path: Path, at: int) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    key = tuple(None if part == at else value for part, value in enumerate((1, B0, 0)))
    # what statistics tell of it is one value, and that there is a null
    write_acid(tmp_path / "delete_delta_2_2" / "bucket_00000", [((1, B0, 0), 2, None), (key, 2, None)])  # type: ignore[list-item]
    with raises(OrcError):
        ids_of(tmp_path)
    other = tmp_path / "other"
    rows = [((1, B0, 0), 1, (1, 0, "x")), ((None, B0, 1), 1, (2, 0, "x"))]
    write_acid(other / "delta_1_1" / "bucket_00000", rows)  # type: ignore[arg-type]
    delete(other / "delete_delta_2_2" / "bucket_00000", [(1, B0, 1)], 2)
    with raises(OrcError):
        ids_of(other)


def test_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same listing where directories come with their files."""
    root = tmp_path / "bucket" / "t"
    insert(root / "p=1" / "delta_1_1_0000" / "bucket_00000", 1, [1, 2])
    write_version_file(root / "p=1" / "delta_1_1_0000")
    delete(root / "p=1" / "delete_delta_2_2_0000" / "bucket_00000", [(1, B0, 0)], 2)
    write_flat(root / "p=2" / "000000_0", [(5, 0, "x")])
    write_marker(root / "p=3" / "base_7")
    remote = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    files = AdaptedFileSystem(remote)
    monkeypatch.setattr(directory_tree, "file_system", lambda uri: (files, uri.removeprefix("s3://")))
    far, near = list_data_files("s3://bucket/t"), list_data_files(str(root))
    assert far.transactional == near.transactional
    assert [file.path for file in far.files] == [file.path for file in near.files]
    assert [file.acid.deletes[0].file.uri for file in far.files if file.acid and file.acid.deletes] == [
        "s3://bucket/t/p=1/delete_delta_2_2_0000/bucket_00000"
    ]
    assert [file.acid.file.version_file for file in far.files if file.acid] == [
        "s3://bucket/t/p=1/delta_1_1_0000/_orc_acid_version",
        None,
    ]
    insert(root / "p=3" / "base_7" / "sub" / "bucket_00000", 1, [1])
    with raises(TableError):
        list_data_files("s3://bucket/t")

"""Directories as Hive may leave them, beyond the plain ones: what is seen of small tables, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindex.cli.inspect_acid import document
from hindex.errors import OrcError, TableError
from hindex.orc.acid.delta_files import is_compacted
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import ByteSource
from tests.acid.tables import B0, MOST, delete, ids_of, insert, keys_of, table_of
from tests.acid.writing import (
    bucket_property,
    write_acid,
    write_flat,
    write_marker,
    write_side_file,
    write_version_file,
)
from tests.support.messages import raises

# Bases


@pytest.mark.parametrize("data_format", ["truncated", "dropped", "DROPPED"])
def test_a_base_without_rows_that_no_compaction_wrote(tmp_path: Path, data_format: str) -> None:
    """TRUNCATE and DROP PARTITION leave a base and a marker in it: what they did is seen as any other write is."""
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    insert(tmp_path / "delta_5_5" / "bucket_00000", 5, [5])
    write_marker(tmp_path / "base_4", data_format)
    # write id 3 is open, elsewhere
    assert ids_of(tmp_path, "t:5:3:3:") == ids_of(tmp_path) == [5]
    write_marker(tmp_path / "base_2", data_format)
    assert ids_of(tmp_path, f"t:5:{MOST}::4") == [5]
    # as if nothing had been done
    assert ids_of(tmp_path, f"t:5:{MOST}::2,4") == [1, 5]
    assert ids_of(tmp_path, f"t:{MOST}:3::") == [5]
    write_marker(tmp_path / "base_4", "compacted")
    insert(tmp_path / "delta_3_3" / "bucket_00000", 3, [3])
    assert ids_of(tmp_path, "t:5:4:4:") == [3, 5]
    assert ids_of(tmp_path, f"t:5:{MOST}::4") == [5]


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "\0", '{"thisFileVersion": "1", "dataFormat": "compacted"}',
     '{"thisFileVersion": "0", "dataFormat": "else"}', '{"thisFileVersion": "0"}', "[" * 100_000,
     '{"thisFileVersion": "0", "dataFormat": "compacted"' + " " * 300 + "}"],
)  # fmt: skip
def test_markers_that_tell_nothing_known(tmp_path: Path, content: str) -> None:
    insert(tmp_path / "base_4" / "bucket_00000", 4, [4])
    (tmp_path / "base_4" / "_metadata_acid").write_text(content)
    assert ids_of(tmp_path) == ids_of(tmp_path, f"t:9:{MOST}::") == [4]
    for valid in ("t:9:3:3:", f"t:9:{MOST}::4", f"t:3:{MOST}::"):
        with pytest.raises(
            TableError, match="'base_4/_metadata_acid' should name the compaction that wrote its base"
        ):
            ids_of(tmp_path, valid)
    # a newer base needs none of an older one, in a delta it tells nothing, and what a name tells needs no marker
    insert(tmp_path / "base_5" / "bucket_00000", 5, [5])
    insert(tmp_path / "delta_6_6" / "bucket_00000", 6, [6])
    (tmp_path / "delta_6_6" / "_metadata_acid").write_text(content)
    assert ids_of(tmp_path, "t:9:3:3:") == ids_of(tmp_path, f"t:9:{MOST}::4") == [5, 6]
    (tmp_path / "base_4").rename(tmp_path / "base_8_v7")
    assert ids_of(tmp_path, f"t:9:{MOST}::8") == [4]


@pytest.mark.parametrize("content", ["[" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_a_marker_that_is_nested_too_deeply(content: str) -> None:
    with raises(ValueError):
        is_compacted(content.encode())


def test_files_that_are_removed_while_a_table_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hive's cleaner does it: a query lists the table once more, and then has its rows."""

    def removing(uri: str) -> ByteSource:
        Path(uri).unlink(missing_ok=True)
        return open_source(uri)

    monkeypatch.setattr("hindex.table.transactional.open_source", removing)
    first = tmp_path / "delta_1_1" / "bucket_00000"
    insert(first, 1, [1])
    write_marker(tmp_path / "base_4", "truncated")
    with raises(TableError):
        table_of(tmp_path, "t:9:3:3:").snapshot()
    write_side_file(first, first.stat().st_size)
    with raises(TableError):
        table_of(tmp_path, f"t:3:{MOST}::").snapshot()
    write_side_file(first, first.stat().st_size)
    assert ids_of(tmp_path, f"t:3:{MOST}::") == [1]


def test_bases_of_one_write_id_under_names_of_other_widths(tmp_path: Path) -> None:
    """Rows of one of them count, and of the compacted one where one is."""
    insert(tmp_path / "base_5" / "bucket_00000", 5, [1, 2])
    insert(tmp_path / "base_0000005" / "bucket_00000", 5, [11, 12, 13])
    insert(tmp_path / "delta_5_5_0000" / "bucket_00000", 5, [21])
    delete(tmp_path / "delete_delta_6_6" / "bucket_00000", [(5, B0, 1)], 6)
    assert ids_of(tmp_path) == [1]
    write_marker(tmp_path / "base_0000005")
    assert ids_of(tmp_path) == [11, 13]
    # write id 4 is open: a compaction's base cannot be read then, and an overwrite's can
    assert ids_of(tmp_path, "t:9:4:4:") == [1]
    write_marker(tmp_path / "base_5")
    assert ids_of(tmp_path) == [1]
    with raises(TableError):
        ids_of(tmp_path, "t:9:4:4:")


# Deletes, and who wrote what


def test_delete_files_that_are_empty_or_still_written(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(5))
    first = tmp_path / "delete_delta_2_2" / "bucket_00000"
    delete(first, [(1, B0, 1)], 2)
    complete = first.read_bytes()
    first.write_bytes(complete + b"\x00" * 77)
    write_side_file(first, len(complete))
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [], 3)
    (tmp_path / "delete_delta_3_3" / "bucket_00001").write_bytes(b"")
    (tmp_path / "delete_delta_4_4").mkdir()
    # nothing of this one is complete
    begun = tmp_path / "delete_delta_5_5" / "bucket_00000"
    delete(begun, [(1, B0, 2)], 5)
    write_side_file(begun, 0)
    assert ids_of(tmp_path) == [0, 2, 3, 4]
    begun.with_name("bucket_00000_flush_length").unlink()
    assert ids_of(tmp_path) == [0, 3, 4]


@pytest.mark.parametrize("flat", [False, True])
def test_deletes_of_invisible_rows(tmp_path: Path, flat: bool) -> None:
    """A row of an aborted transaction that a valid one deletes is taken away once."""
    rows = [((w, B0, at), w, (10 * w + at, 0, "x")) for w in (1, 2) for at in range(3)]
    if flat:
        for write_id in (1, 2):
            path = tmp_path / f"delta_{write_id}_{write_id}_0000" / "000000_0"
            write_flat(path, [values for key, _, values in rows if key[0] == write_id])
    else:
        write_acid(tmp_path / "delta_1_2_v5" / "bucket_00000", rows)
    delete(tmp_path / "delete_delta_3_3" / "bucket_00000", [(1, B0, 0), (2, B0, 1), (2, B0, 9)], 3)
    assert ids_of(tmp_path, f"t:3:{MOST}::2") == [11, 12]
    assert ids_of(tmp_path, f"t:3:{MOST}::3") == [10, 11, 12, 20, 21, 22]
    assert ids_of(tmp_path, f"t:3:{MOST}::2,3") == [10, 11, 12]
    assert ids_of(tmp_path, "t:3:1:1:") == [20, 22]
    files = document(str(tmp_path), f"t:3:{MOST}::2")["files"]
    assert sum(file["rows"] - file["deleted"] - file["not_seen"] for file in files) == 2


def test_partitions_with_the_same_keys(tmp_path: Path) -> None:
    """A delete in one partition takes nothing of another, whose rows have the same keys, also when it is known."""
    for number in (1, 2, 3):
        insert(
            tmp_path / f"p={number}" / "delta_1_1_0000" / "bucket_00000",
            1,
            range(10 * number, 10 * number + 3),
        )
    delete(tmp_path / "p=1" / "delete_delta_2_2_0000" / "bucket_00000", [(1, B0, 0), (1, B0, 1)], 2)
    delete(tmp_path / "p=3" / "delete_delta_2_2_0000" / "bucket_00000", [(1, B0, 2)], 2)
    for _ in range(2):
        assert ids_of(tmp_path) == [12, 20, 21, 22, 30, 31]
        assert ids_of(tmp_path, where="p <> 2") == [12, 30, 31]
    assert ids_of(tmp_path, f"t:2:{MOST}::2") == [10, 11, 12, 20, 21, 22, 30, 31, 32]


def test_the_base_of_a_table_that_became_transactional(tmp_path: Path) -> None:
    """Its first compaction, where no transaction wrote yet, has the least integer as its write id."""
    base = "base_-9223372036854775808_v0000007"
    rows = [((0, B0, at), 0, (at, 0, "x")) for at in range(3)]
    write_acid(tmp_path / base / "bucket_00000", rows)
    write_flat(tmp_path / "000000_0", [values for _, _, values in rows])
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [10])
    delete(tmp_path / "delete_delta_2_2" / "bucket_00000", [(0, B0, 1)], 2)
    assert ids_of(tmp_path) == [0, 2, 10]
    assert ids_of(tmp_path, "t:2:1:1,2:") == [0, 1, 2]


def test_compacted_delete_deltas_without_a_base(tmp_path: Path) -> None:
    """A delete delta stands for the deltas within it, too; those of other write ids stay."""
    rows = [((1, B0, at), 1, (at, 0, "x")) for at in range(6)]
    write_acid(tmp_path / "base_1_v3" / "bucket_00000", rows)
    for write_id in (2, 3):
        path = tmp_path / f"delete_delta_{write_id}_{write_id}_0000" / "bucket_00000"
        delete(path, [(1, B0, write_id)], write_id)
    compacted = tmp_path / "delete_delta_2_3_v8" / "bucket_00000"
    write_acid(compacted, [((1, B0, 2), 2, None), ((1, B0, 3), 3, None)])
    delete(tmp_path / "delete_delta_4_4_0001" / "bucket_00000_0", [(1, B0, 0)], 4)
    insert(tmp_path / "delta_4_4_0000" / "bucket_00000", 4, [40])
    assert ids_of(tmp_path) == [1, 4, 5, 40]
    assert ids_of(tmp_path, f"t:4:{MOST}::3") == [1, 3, 4, 5, 40]
    assert ids_of(tmp_path, f"t:4:{MOST}::2,3,4") == [0, 1, 2, 3, 4, 5]
    obsolete = {item["name"] for item in document(str(tmp_path))["directories"][0]["obsolete"]}
    assert obsolete == {"delete_delta_2_2_0000", "delete_delta_3_3_0000"}


def test_rows_of_a_transaction_that_it_deleted_itself(tmp_path: Path) -> None:
    """Statements of one transaction: what it inserted, updated and deleted, bucket files of either name."""
    insert(tmp_path / "delta_5_5_0000" / "bucket_00000", 5, [1, 2, 3])
    insert(tmp_path / "delta_5_5_0000" / "bucket_00001_0", 5, [4, 5], bucket_property(1))
    delete(tmp_path / "delete_delta_5_5_0001" / "bucket_00000", [(5, B0, 0), (5, bucket_property(1), 1)], 5)
    insert(tmp_path / "delta_5_5_0001" / "bucket_00000", 5, [50], bucket_property(0, 1))
    delete(tmp_path / "delete_delta_5_5_0002" / "bucket_00000", [(5, bucket_property(0, 1), 0)], 5)
    assert ids_of(tmp_path) == [2, 3, 4]
    assert table_of(tmp_path, "t:5:5:5:").scan().count() == 0


# What is in the directories


def test_an_acid_file_among_original_ones(tmp_path: Path) -> None:
    """The names of a file's fields decide its schema, and its rows do not count as those of flat files."""
    write_flat(tmp_path / "000000_0", [(1, 0, "x"), (2, 0, "x")])
    rows = [((7, B0, at), 7, (10 + at, 0, "x")) for at in (3, 4)]
    write_acid(tmp_path / "000000_0_copy_1", rows)
    write_flat(tmp_path / "000000_0_copy_2", [(3, 0, "x")])
    delete(tmp_path / "delete_delta_8_8" / "bucket_00000", [(7, B0, 4), (0, B0, 1)], 8)
    assert keys_of(tmp_path) == {1: (0, B0, 0), 13: (7, B0, 3), 3: (0, B0, 2)}
    # its rows have transactions of their own
    assert ids_of(tmp_path, f"t:8:{MOST}::7") == [1, 3]


@pytest.mark.parametrize("below", ["", "p=1"])
@pytest.mark.parametrize("wrong", ["delete_delta_2_2/sub/bucket_00000", "base_2_3/x", "base_9_v1/x"])
def test_messages_tell_where_a_directory_is(tmp_path: Path, below: str, wrong: str) -> None:
    root = tmp_path / below
    insert(root / "delta_1_1" / "bucket_00000", 1, [1])
    insert(root / wrong, 1, [1])
    with raises(TableError):
        ids_of(tmp_path, f"t:5:{MOST}::")


@pytest.mark.parametrize("version", [None, "1", "2"])
def test_deletes_of_hive_before_3_are_refused(tmp_path: Path, version: str | None) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1, 2])
    path = tmp_path / "delete_delta_2_2" / "bucket_00000"
    write_acid(path, [((1, B0, 0), 2, None)], version=None)
    if version is not None:
        write_version_file(path.parent, version)
    if version == "2":
        assert ids_of(tmp_path) == [2]
        return
    with raises(OrcError):
        ids_of(tmp_path)

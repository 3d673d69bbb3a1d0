"""The keys of rows as columns, what may be asked of them, and columns of a table that are called as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.api.table import Table
from hindex.errors import ColumnError, PredicateError
from hindex.explanations.explanation import ReadPath, RowCount
from hindex.orc import OrcReader
from hindex.orc.acid import delta_files as acid_files
from hindex.orc.acid.delta_files import StoredFile
from hindex.plan.reasons import Reason
from hindex.scan.planning import plan_full_scan
from tests.acid.tables import B0, delete, ids_of, insert, keys_of, table_of
from tests.acid.writing import ACID, COLUMNS, Key, bucket_property, write_acid, write_flat
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises

#: A flat file that was loaded, and all flat ones of a table.
LOADED = "delta_7_7_0002/000000_0"
FLAT = ["000000_0", "000000_0_copy_1", "000001_0", LOADED]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> LocalConnection:
    local_build.install(monkeypatch)
    return LocalConnection()


def test_row_keys_in_conditions(tmp_path: Path) -> None:
    """Stored, made of a file's place, or both; what statistics tell of stored ones is not read."""
    write_flat(tmp_path / "000000_0", [(1000 + i, 0, "x") for i in range(60)])
    write_flat(tmp_path / "000001_0", [(2000 + i, 0, "x") for i in range(60)])
    insert(tmp_path / "delta_4_4_0001" / "bucket_00000", 4, range(100), bucket_property(0, 1))
    delete(tmp_path / "delete_delta_5_5" / "bucket_00000", [(0, B0, 7), (4, bucket_property(0, 1), 50)], 5)
    table = table_of(tmp_path)
    keys = keys_of(tmp_path)
    assert len(keys) == 218
    cases: dict[str, Callable[[int, Key], bool]] = {
        "row__id.writeid = 0": lambda i, key: key[0] == 0,
        "row__id.rowid BETWEEN 5 AND 8": lambda i, key: 5 <= key[2] <= 8,
        "ROW__ID.rowId IN (7, 9, 50, 51, 99) AND id < 1500": lambda i, key: (
            key[2] in (7, 9, 50, 51, 99) and i < 1500
        ),
        "NOT row__id.bucketid <> 536936448": lambda i, key: key[1] == bucket_property(1),
        "row__id.bucketid % 2 = 1 AND row__id.rowid + 1 > 98": lambda i, key: key[1] % 2 == 1 and key[2] > 97,
        "row__id.writeid > 3 OR id = 1059": lambda i, key: key[0] > 3 or i == 1059,
        "row__id.writeid IS NULL": lambda i, key: False,
        "row__id IS NOT NULL AND row__id.rowid = 3": lambda i, key: key[2] == 3,
    }
    for where, keeps in cases.items():
        wanted = sorted(i for i, key in keys.items() if keeps(i, key))
        assert ids_of(tmp_path, where=where) == wanted, where
        result = table.scan(where=where, columns=["row__id.rowid"]).to_arrow()
        assert result.column_names == ["row__id.rowId"]
        assert sorted(result[0].to_pylist()) == sorted(keys[i][2] for i in wanted), where
    explained = table.scan(where="row__id.rowid = 98", columns=["id"]).explain()
    # one row group in the file with stored keys; the keys of flat files follow from their places
    assert explained.row_groups == RowCount(1, 15)
    assert {note.reason for note in explained.notes} == {Reason.ROW_KEY}
    for where in ("row__id.nope = 1", "row__id.rowid.more = 1"):
        with raises(ColumnError):
            table.scan(where=where).count()
    with raises(PredicateError):
        table.scan(where="row__id = 1").count()


@pytest.mark.parametrize(
    ("where", "keeps", "count"),
    [
        ("row__id.writeid = 0", lambda key: key[0] == 0, 180),
        ("row__id.writeid = 7", lambda key: key[0] == 7, 40),
        ("row__id.writeid > 7 OR row__id.writeid < 0 OR row__id.rowid IS NULL", lambda key: False, 0),
        (f"row__id.bucketid = {bucket_property(1)}", lambda key: key[1] == bucket_property(1), 60),
        (f"row__id.bucketid = {bucket_property(0, 2)}", lambda key: key[1] == bucket_property(0, 2), 40),
        ("row__id.rowid BETWEEN 50 AND 69", lambda key: 50 <= key[2] <= 69, 30),
        ("row__id.rowid >= 100", lambda key: key[2] >= 100, 20),
        ("NOT row__id.rowid < 119 AND row__id.writeid = 0", lambda key: key[0] == 0 and key[2] >= 119, 1),
        (
            "row__id.writeid = 7 AND row__id.rowid IN (0, 39, 40)",
            lambda key: key[0] == 7 and key[2] in (0, 39),
            2,
        ),
    ],
)
def test_conditions_on_keys_of_flat_files_read_no_other_rows(
    tmp_path: Path, where: str, keeps: Callable[[Key], bool], count: int
) -> None:
    """Two original files of one bucket, one of another, and one that was loaded; stripes have 48 rows."""
    for name, first in (("000000_0", 0), ("000000_0_copy_1", 100), ("000001_0", 200)):
        write_flat(tmp_path / name, [(first + at, 0, "x") for at in range(60)])
    write_flat(tmp_path / "delta_7_7_0002" / "000000_0", [(300 + at, 0, "x") for at in range(40)])
    wanted = sorted(i for i, key in keys_of(tmp_path).items() if keeps(key))
    assert len(wanted) == count
    assert ids_of(tmp_path, where=where) == wanted
    scan = table_of(tmp_path).scan(where=where, columns=["id"])
    explained = scan.explain()
    assert (explained.rows, explained.exact) == (RowCount(count, 220), True)
    assert scan.count() == count


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("where", "keeps", "opened"),
    [
        ("row__id.writeid > 6", lambda i, key: key[0] > 6, [LOADED]),
        ("row__id.writeid = 7 AND id < 320", lambda i, key: key[0] == 7 and i < 320, [LOADED]),
        (
            "row__id.writeid = 0 AND row__id.rowid BETWEEN 60 AND 70",
            lambda i, key: key[0] == 0 and 60 <= key[2] <= 70,
            ["000000_0_copy_1"],
        ),
        ("row__id.rowid = 59", lambda i, key: key[2] == 59, ["000000_0", "000001_0"]),
        (
            f"NOT (row__id.bucketid = {B0} OR row__id.rowid > 5)",
            lambda i, key: key[1] != B0 and key[2] <= 5,
            ["000001_0", LOADED],
        ),
        ("row__id IS NULL AND id > 5", lambda i, key: False, []),
        # what the place does not tell
        ("row__id.writeid = 7 OR id = 105", lambda i, key: key[0] == 7 or i == 105, FLAT),
        ("row__id IS NOT NULL AND id > 150", lambda i, key: i > 150, FLAT),
        ("row__id.writeid % 2 = 1", lambda i, key: key[0] % 2 == 1, FLAT),
    ],
)
def test_flat_files_ruled_out_by_their_path_are_not_opened(
    tmp_path: Path,
    connection: LocalConnection,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    keeps: Callable[[int, Key], bool],
    opened: list[str],
    is_indexed: bool,
) -> None:
    """Indexed or not, the plan knows the write ids, buckets and preceding rows of the files."""
    for name, first in zip(FLAT[:3], (0, 100, 200), strict=True):
        write_flat(tmp_path / name, [(first + at, at % 3, "x") for at in range(60)])
    write_flat(tmp_path / LOADED, [(300 + at, 0, "x") for at in range(40)])
    insert(tmp_path / "delta_8_8" / "bucket_00000", 8, range(400, 440))
    keys = keys_of(tmp_path)
    table = connection.table(str(tmp_path))
    if is_indexed:
        # BITMAP has nothing in the manifest that rules out a file
        table.create_index("by_k", "k", using="bitmap")
    names: list[str] = []
    open_file = acid_files.open_file

    def watched(file: StoredFile, timezone: str | None = None) -> OrcReader:
        names.append(file.uri)
        return open_file(file, timezone=timezone)

    scan = table.scan(where=where, columns=["id"])
    monkeypatch.setattr(acid_files, "open_file", watched)
    ids = sorted(scan.to_arrow()["id"].to_pylist())
    assert sorted(names) == sorted(str(tmp_path / name) for name in (*opened, "delta_8_8/bucket_00000"))
    assert ids == sorted(i for i, key in keys.items() if keeps(i, key))
    explained = scan.explain()
    assert [share.total for share in (explained.rows, explained.stripes, explained.row_groups) if share] == [
        260,
        8,
        18,
    ]
    assert explained.table_map is not None
    assert sum(file.is_skipped for file in explained.table_map.files) == 4 - len(opened)
    assert table.scan(where=where, mode="prove").count() == len(ids)
    # whatever a proof compares with is read
    assert len(plan_full_scan(scan.plan()).tasks) == 5


def test_explain_shows_row_keys_decided_by_the_files_path(tmp_path: Path) -> None:
    for name in ("000000_0", LOADED):
        write_flat(tmp_path / name, [(at, at, "x") for at in range(40)])
    for where, decision in (
        ("row__id.writeid = 7", "path and row position  exact  40 rows"),
        ("row__id.rowid < 3", "path and row position  exact  6 rows"),
        ("row__id IS NOT NULL", "path and row position  exact  80 rows"),
        ("row__id IS NULL", "path and row position  exact  0 rows"),
    ):
        scan = table_of(tmp_path).scan(where=where, columns=["id"])
        (line,) = (line for line in scan.explain().to_text().splitlines() if "path and row position" in line)
        assert line.split(maxsplit=len(where.split()))[-1] == decision
        # all rows that are left are read, and no index is used; but other files are left out
        is_full = decision.endswith("80 rows")
        assert (scan.explain().path is ReadPath.FULL_SCAN) is is_full
        assert scan.count() == int(decision.split()[-2])


def test_explain_counts_row_ids_of_read_files_only(tmp_path: Path) -> None:
    """The place of the first file leaves open which of its rows have the row ids; it is skipped by its write id."""
    for name in ("000000_0", LOADED):
        write_flat(tmp_path / name, [(at, at, "x") for at in range(40)])
    for where in (
        "row__id.rowid < 3 AND row__id.writeid = 7",
        "row__id.writeid = 7 AND row__id.rowid < 3",
    ):
        scan = table_of(tmp_path).scan(where=where, columns=["id"])
        text = scan.explain().to_text()
        (line,) = (line for line in text.splitlines() if line.strip().startswith("row__id.rowid < 3  "))
        assert line.partition("path and row position")[2].split() == ["exact", "3", "rows"]
        assert scan.count() == 3


def test_row_keys_that_are_wider_than_they_should_be(tmp_path: Path) -> None:
    """Their columns are not taken for those of the table, and their values are."""
    schema = ACID.replace("bucket:int", "bucket:bigint")
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", [((1, B0, 0), 1, (5, 0, "x"))], schema=schema)
    assert ids_of(tmp_path, where=f"row__id.bucketid = {B0}") == [5]
    assert ids_of(tmp_path, where=f"row__id.bucketid <> {B0}") == []


def test_columns_of_their_own_that_are_called_as_row_keys_are(tmp_path: Path) -> None:
    plain = "struct<id:bigint,row__id:struct<rowid:bigint>>"
    write_flat(tmp_path / "t" / "000000_0", [(i, (70 + i,)) for i in range(5)], schema=plain)  # type: ignore[misc]
    insert(tmp_path / "u" / "delta_1_1" / "bucket_00000", 1, [1])
    for where, wanted in (("row__id.rowid = 72", [2]), ("row__id.rowid = 2", [])):
        assert ids_of(tmp_path / "t", where=where) == wanted
    (tmp_path / "t" / "delete_delta_1_1").mkdir()
    assert ids_of(tmp_path / "t", where="row__id.rowid = 72") == [2]
    with raises(ColumnError):
        ids_of(tmp_path / "u", where="row__id.writeid.x = 1")


def test_row_ids_are_not_of_all_columns(tmp_path: Path) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    table = table_of(tmp_path)
    assert "row__id" not in table.scan().to_arrow().schema.names
    result = table.scan(columns=["ROW__ID", "id"]).to_arrow()
    data_type = pa.struct([("writeId", pa.int64()), ("bucketId", pa.int32()), ("rowId", pa.int64())])
    assert result.schema == pa.schema([("row__id", data_type), ("id", pa.int64())])
    write_flat(tmp_path / "plain" / "000000_0", [(1, 0, "x")])
    with raises(ColumnError):
        table_of(tmp_path / "plain").scan(columns=["row__id"]).to_arrow()


@pytest.mark.parametrize(
    "query",
    [
        lambda table: table.scan(columns=["id"]).order_by("row__id.rowid").to_arrow(),
        lambda table: table.scan().min("ROW__ID.writeId"),
        lambda table: table.scan().value_counts("row__id.bucketid"),
        lambda table: table.scan().value_counts("row__id"),
        lambda table: table.create_index("by_key", "row__id.rowid"),
    ],
)
def test_row_keys_are_read_and_compared_only(tmp_path: Path, query: Callable[[Table], object]) -> None:
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, [1])
    with raises(ColumnError):
        query(table_of(tmp_path))


def test_conditions_on_row_keys_are_no_fallback(tmp_path: Path, connection: LocalConnection) -> None:
    """There is nothing to create: strict mode takes them, beside indexes and alone."""
    insert(tmp_path / "delta_1_1" / "bucket_00000", 1, range(100))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    for where, wanted in (("k = 1 AND row__id.rowid < 7", [1, 4]), ("row__id.rowid = 6", [6])):
        scan = table.scan(where=where, columns=["id"], mode="strict")
        assert scan.to_arrow()["id"].to_pylist() == wanted
        explained = scan.explain()
        assert [(note.reason, note.subject) for note in explained.notes] == [
            (Reason.ROW_KEY, "row__id.rowId")
        ]
        (line,) = (line for line in explained.to_text().splitlines() if line.endswith("ROW_KEY"))
        assert line.lstrip().startswith("row__id.rowid")
    assert table.scan(where="k = 1", mode="strict").explain().notes == ()
    # each condition has its own reason
    insert(tmp_path / "delta_2_2" / "bucket_00000", 2, range(100, 200))
    lines = table.scan(where="k = 1 AND row__id.rowid < 7", columns=["id"]).explain().to_text().splitlines()
    decisions = {line.split()[0]: line.split()[-1] for line in lines[lines.index("  AND") + 1 :][:2]}
    assert decisions == {"k": "NEW_FILE", "row__id.rowid": "ROW_KEY"}


def test_a_struct_of_the_table_called_as_the_row_key_is(tmp_path: Path) -> None:
    """Whatever fields it has."""
    schema = ACID.replace(COLUMNS, "id:bigint,row__id:struct<foo:int,writeId:bigint>")
    rows = [((1, B0, at), 1, (at, (at * 2, at * 3))) for at in range(20)]
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", rows, schema=schema)  # type: ignore[arg-type]
    assert ids_of(tmp_path, where="row__id.foo = 8") == [4]
    assert ids_of(tmp_path, where="row__id.writeid = 9") == [3]
    result = table_of(tmp_path).scan(columns=["row__id.foo", "row__id"], limit=2).to_arrow().to_pylist()
    assert result[1] == {"row__id.foo": 2, "row__id": {"foo": 2, "writeId": 3}}


@pytest.mark.parametrize("name", ["row__id.writeId", "row__id.writeid", "row__id.rowId"])
def test_a_column_whose_name_has_the_dot_of_a_row_key(
    tmp_path: Path, connection: LocalConnection, name: str
) -> None:
    """It is read and indexed as any other; other fields of the key are still there."""
    rows = pa.table({"id": range(20), name: [10 + 2 * at for at in range(20)]})
    write_keyed(tmp_path / "acid" / "delta_0000001_0000001_0000" / "bucket_00000", rows)
    (tmp_path / "plain").mkdir()
    pa.orc.write_table(rows, str(tmp_path / "plain" / "0.orc"))
    for path in (tmp_path / "acid", tmp_path / "plain"):
        table = connection.table(str(path))
        for is_indexed in (False, True):
            if is_indexed:
                table.create_index("own", name, using="bitmap")
            for value, wanted in ((18, [4]), (1, [])):
                scan = table.scan(where=f"`{name}` = {value}", columns=["id"])
                assert scan.to_arrow()["id"].to_pylist() == wanted
                assert scan.count() == len(wanted)
            notes = {note.reason for note in scan.explain().notes}
            assert notes == (set() if is_indexed else {Reason.NO_INDEX})
        assert table.scan().to_arrow().equals(rows)
        for spelled in (name, name.upper()):
            assert table.scan(columns=[spelled]).to_arrow().equals(rows.select([name]))
    acid = connection.table(str(tmp_path / "acid"))
    assert acid.scan(where="row__id.bucketid = 0").count() == 20
    with raises(ColumnError):
        acid.scan(where=name + " = 18").count()


def write_keyed(path: Path, rows: pa.Table) -> None:
    """Rows of one bucket with keys from 0; names may hold dots, which a schema as text cannot."""
    path.parent.mkdir(parents=True)
    (path.parent / "_orc_acid_version").write_text("2")
    count = rows.num_rows
    same = {
        "operation": pa.array([0] * count, pa.int32()),
        "originalTransaction": pa.array([1] * count, pa.int64()),
        "bucket": pa.array([0] * count, pa.int32()),
        "rowId": pa.array(range(count), pa.int64()),
        "currentTransaction": pa.array([1] * count, pa.int64()),
    }
    user = pa.StructArray.from_arrays([column.chunk(0) for column in rows.columns], names=rows.column_names)
    pa.orc.write_table(pa.table({**same, "row": user}), str(path))

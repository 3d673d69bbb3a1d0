"""Mistakes get one clear error each, and leave the indexes as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import (
    BuildError,
    ColumnError,
    HindexError,
    IndexExistsError,
    IndexNotFoundError,
    OrcError,
    PredicateError,
    StatementError,
    TableError,
)
from hindex.store.store import Store
from tests.support.messages import raises
from tests.support.small import ids, store_state, write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Action = Callable[[Table], object]


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table with an index, and columns of every awkward kind."""
    path = tmp_path_factory.mktemp("built") / "table"
    count = 300
    for part in (1, 2):
        write_columns(
            path / f"part={part}" / "x.orc",
            {
                "id": pa.array(range(part * 1000, part * 1000 + count), pa.int64()),
                "a": pa.array([i % 10 for i in range(count)], pa.int32()),
                "s": pa.array([f"s{i % 7}" for i in range(count)]),
                "items": pa.array([[i] for i in range(count)], pa.list_(pa.int64())),
                "person": pa.array([{"name": "x", "age": i} for i in range(count)]),
                "a b": pa.array([i % 3 for i in range(count)], pa.int32()),
            },
        )
    hindex.connect(spark=spark).table(str(path)).create_index("by_a", "a")
    return path


@pytest.fixture
def path(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "table"))


def rows(table: Table, where: str | None = None, columns: list[str] | None = None) -> pa.Table:
    return table.scan(where, columns).to_arrow()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda t: rows(t, "b = 1"),
            ColumnError,
            r"^Column 'b' cannot be resolved; .*the columns are: id, a, s",
        ),
        (
            lambda t: rows(t, None, ["ID", "aa"]),
            ColumnError,
            r"^Column 'aa' cannot be resolved; did you mean a\b",
        ),
        (
            lambda t: rows(t, None, ["a.b"]),
            ColumnError,
            r"^Column 'a.b' cannot be resolved: a value of type int has no fields",
        ),
        (
            lambda t: rows(t, "person.age.x = 1"),
            ColumnError,
            r"^Column 'person.age.x' cannot be resolved: a value of type bigint has no fields",
        ),
        (
            lambda t: rows(t, None, ["items.x"]),
            ColumnError,
            r"^Column 'items.x' cannot be resolved: a value of type array<bigint> has no fields",
        ),
        (
            lambda t: rows(t, "person.size = 1"),
            ColumnError,
            r"^Column 'person.size' cannot be resolved; .*fields are: name, age",
        ),
        (
            lambda t: rows(t, "persn.first_of_all_names = 1"),
            ColumnError,
            r"^Column 'persn.first_of_all_names' cannot be resolved; did you mean person\?",
        ),
        (
            lambda t: rows(t, "Age = 1"),
            ColumnError,
            r"; did you mean person\.age\? a field is written with its struct$",
        ),
        (lambda t: rows(t, "person.aeg = 1"), ColumnError, r"did you mean age\? the fields are: name, age$"),
        (
            lambda t: rows(t, "s = Berlin"),
            ColumnError,
            r"^Column 'Berlin' cannot be resolved; the columns are: .*; string literals need quotes: 'Berlin'$",
        ),
        (
            lambda t: rows(t, "s IN (a, Berlin)"),
            ColumnError,
            r"^Column 'Berlin' cannot be resolved; the columns are: .*; string literals need quotes: 'Berlin'$",
        ),
        (
            lambda t: rows(t, "s != None"),
            ColumnError,
            r"^Column 'None' .*; use IS NULL to match NULL$",
        ),
        (lambda t: rows(t, "s = aa"), ColumnError, r"^Column 'aa' .* did you mean a\b[^']*$"),
        (lambda t: rows(t, "Berlin = 'x'"), ColumnError, r"^Column 'Berlin' [^']*$"),
        (
            lambda t: rows(t, "tbl.a = 1"),
            ColumnError,
            r"^Column 'tbl.a' cannot be resolved; did you mean a\? a column is written without the name of its table$",
        ),
        (lambda t: rows(t, "a = "), StatementError, r"^syntax error"),
        (lambda t: rows(t, "a = 'x'"), PredicateError, r"the literal 'x' cannot be cast to bigint"),
        (
            lambda t: rows(t, "a = TRUE"),
            PredicateError,
            r"the comparison = of column 'a' of type int and the boolean TRUE is refused",
        ),
        (
            lambda t: rows(t, "items = 1"),
            PredicateError,
            r"a column of type array<bigint> can only be tested for NULL",
        ),
        (lambda t: t.scan(columns="a"), ColumnError, r"columns is a list of names, such as \['a'\]"),
        (lambda t: t.scan(limit=-1), ValueError, r"limit is -1: it cannot be negative"),
        (
            lambda t: t.index("nope"),
            IndexNotFoundError,
            r"^Index 'nope' does not exist; the table's indexes are: 'by_a'$",
        ),
        (
            lambda t: t.drop_index("nope"),
            IndexNotFoundError,
            r"^Index 'nope' does not exist; the table's indexes are: 'by_a'$",
        ),
        (lambda t: t.create_index("i", "b"), ColumnError, r"^Column 'b' cannot be resolved"),
        (
            lambda t: t.create_index("i", "s", using="nonsense"),
            HindexError,
            r"^Unknown index type 'nonsense': known types are BITMAP",
        ),
        (
            lambda t: t.create_index("i", "items"),
            ColumnError,
            r"^Column 'items' is of type array<bigint>, which BITMAP cannot index",
        ),
        (
            lambda t: t.create_index("i", "person"),
            ColumnError,
            r"^Column 'person' is of type struct<name:string,age:bigint>, which BITMAP cannot index",
        ),
        (
            lambda t: t.create_index("i", "items", "btree"),
            ColumnError,
            r"^Column 'items' is of type array<bigint>, which BTREE cannot index",
        ),
        (
            lambda t: t.create_index("i", "part"),
            ColumnError,
            r"^Column 'part' is a partition column: its values are in the directory names",
        ),
        (
            lambda t: t.create_index("i", "s", where="a = 1"),
            ColumnError,
            (
                r"^index creation is only supported for predicates on partition columns: 'a' is not a partition column "
                r"\(partition columns: part\)$"
            ),
        ),
        (
            lambda t: t.create_index("i", "s", where="part = 1 OR s = 'x'"),
            ColumnError,
            r"^index creation is only supported for predicates on partition columns: 's' is not",
        ),
        (
            lambda t: t.create_index("i", "s", where="part = 3"),
            TableError,
            r"^No index will be created: no data file of table '.*' is in the partitions 'part = 3'$",
        ),
        (
            lambda t: t.create_index("i", "s", where="part = 'x'"),
            PredicateError,
            r"the literal 'x' cannot be cast to bigint",
        ),
        (lambda t: t.create_index("i", "s", where="part ="), StatementError, r"^syntax error"),
        (
            lambda t: t.create_index("i", "s", properties={"speed": "9"}),
            HindexError,
            r"^Unknown property 'speed' of index type BITMAP",
        ),
        (lambda t: t.create_index("", "s"), ColumnError, r"^an index needs a name$"),
        (
            lambda t: t.create_index("BY_A", "s"),
            IndexExistsError,
            r"^Index 'BY_A' already exists; drop it first",
        ),
        (
            lambda t: t.create_index("other", "A", using="Bitmap"),
            IndexExistsError,
            r"^Index with same \(table, column, index type\) already exists: 'by_a'",
        ),
        (
            lambda t: t.create_indexes([IndexSpec("i", "s"), IndexSpec("I", "id")]),
            IndexExistsError,
            r"^Index 'I' already exists",
        ),
        (
            lambda t: t.create_indexes([IndexSpec("i", "s"), IndexSpec("j", "S")]),
            IndexExistsError,
            r"already exists: 'i' on column 's'",
        ),
        (
            lambda t: t.create_indexes([IndexSpec("i", "s"), IndexSpec("j", "nope")]),
            ColumnError,
            r"^Column 'nope' cannot be resolved",
        ),
    ],
)
def test_one_clear_error(path: Path, act: Action, error: type[Exception], message: str) -> None:
    # no session is given, and none is started: a mistake is found before
    table = hindex.connect().table(str(path))
    before = store_state(table)
    with pytest.raises(error, match=message) as raised:
        act(table)
    if not isinstance(raised.value, StatementError):
        assert "\n" not in str(raised.value)
    assert store_state(table) == before
    assert table.scan("a = 4", ["id"]).explain().exact


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SELECT * FROM '{}/nope'", TableError, r"^Table '.*/nope' is invalid: no such file or directory"),
        ("SELECT * FROM '{}s'", TableError, r"no such file or directory: (.*)s; did you mean '\1'\?$"),
        ("SELECT nope FROM '{}'", ColumnError, r"^Column 'nope' cannot be resolved"),
        ("SELECT COUNT(*) FROM '{}' WHERE nope = 1", ColumnError, r"^Column 'nope' cannot be resolved"),
        ("EXPLAIN SELECT * FROM '{}' WHERE nope = 1", ColumnError, r"^Column 'nope' cannot be resolved"),
        ("SELECT * FROM '{}' WERE a = 1", StatementError, r"^syntax error at line 1, column"),
        ("CREATE INDEX i USING nonsense ON '{}' (s)", HindexError, r"^Unknown index type 'nonsense'"),
        (
            "CREATE INDEX i USING bitmap ON '{}' (s, lower(s))",
            ColumnError,
            r"^an index on several columns, or of type ROWS, takes columns, and lower\(s\) is an expression",
        ),
        ("CREATE INDEX by_a USING bitmap ON '{}' (s)", IndexExistsError, r"^Index 'by_a' already exists"),
        ("CREATE INDEX i USING bitmap ON '{}' (part)", ColumnError, r"^Column 'part' is a partition column"),
        (
            "CREATE INDEX i USING bitmap ON '{}' (s) WHERE s = 'x'",
            ColumnError,
            r"^index creation is only supported",
        ),
        ("SHOW INDEXES nope ON '{}'", IndexNotFoundError, r"^Index 'nope' does not exist"),
        ("DROP INDEX nope ON '{}'", IndexNotFoundError, r"^Index 'nope' does not exist"),
    ],
)
def test_one_clear_error_from_statements(
    path: Path, statement: str, error: type[HindexError], message: str
) -> None:
    connection = hindex.connect()
    table = connection.table(str(path))
    before = store_state(table)
    with pytest.raises(error, match=message):
        connection.sql(statement.format(path))
    assert store_state(table) == before


def test_a_select_returns_a_query_result(path: Path) -> None:
    scan = hindex.connect().sql(f"SELECT id FROM '{path}' WHERE a = 4 LIMIT 3")
    assert isinstance(scan, hindex.QueryResult)
    assert ids(scan) == [1004, 1014, 1024]


# Files


def not_orc(path: Path) -> None:
    path.write_text("id,a\n1,2\n" * 100)


def truncated(path: Path) -> None:
    write_rows(path, 0, list(range(1000)))
    path.write_bytes(path.read_bytes()[:-200])


def beheaded(path: Path) -> None:
    """The tail is whole, the stripes are gone."""
    write_rows(path, 0, list(range(3000)))
    path.write_bytes(path.read_bytes()[-2500:])


def codec_9(path: Path) -> None:
    """The postscript's second field is the codec; the one before is a varint."""
    write_rows(path, 0, [1, 2])
    data = bytearray(path.read_bytes())
    at = len(data) - 1 - data[-1]
    assert data[at] == 0x08
    at += 1
    while data[at] & 0x80:
        at += 1
    assert data[at + 1] == 0x10
    data[at + 2] = 9
    path.write_bytes(data)


DAMAGES = [
    pytest.param(not_orc, r"not an ORC file, or a truncated one", id="not ORC"),
    pytest.param(truncated, r"not an ORC file, or a truncated one", id="truncated"),
    pytest.param(beheaded, r"the file has 2500: it is corrupt", id="beheaded"),
    pytest.param(
        codec_9, r"unknown compression codec 9: the codecs are 0 \(none\), 1 \(zlib\)", id="codec 9"
    ),
    pytest.param(lambda path: path.write_bytes(b"ORC"), r"not an ORC file, or a truncated one", id="3 bytes"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_file_that_cannot_be_read(
    path: Path, spark: SparkSession, damage: Callable[[Path], object], message: str
) -> None:
    table = hindex.connect(spark=spark).table(str(path))
    bad = path / "part=1" / "bad.orc"
    damage(bad)
    before = store_state(table)
    for act in (
        lambda: table.scan("a = 4").to_arrow(),
        lambda: table.scan("a = 4").count(),
        lambda: table.create_index("i", "s"),
    ):
        with pytest.raises((OrcError, BuildError), match=message) as raised:
            act()
        assert "bad.orc" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert store_state(table) == before
    assert Store.for_table(str(path)).garbage() == ()
    bad.unlink()
    assert table.scan("a = 4").explain().exact


def test_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    connection = hindex.connect(spark=spark)
    path = tmp_path / "table"
    path.mkdir()
    for name in (None, "empty.orc", "_hidden.orc"):
        if name is not None:
            (path / name).touch()
        with raises(TableError):
            connection.table(str(path)).create_index("i", "a")
        with raises(TableError):
            connection.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a)")
        assert not (path / "_hindex").exists()


def test_no_such_table(spark: SparkSession, tmp_path: Path) -> None:
    connection = hindex.connect(spark=spark)
    with raises(TableError):
        connection.table(str(tmp_path / "nope")).scan().to_arrow()
    with raises(TableError):
        connection.table(str(tmp_path / "nope")).indexes()
    with raises(TableError):
        connection.table("no_such_table")
    with raises(TableError):
        connection.sql("SELECT * FROM no.such_table")

"""Queries of some partitions list the directories of these alone, and return the rows that a listing of all gives."""

from __future__ import annotations

import json
import logging
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from hindex.api import scan
from hindex.api.table import Table
from hindex.errors import ColumnError, HindexError
from hindex.explanations.explanation import RowCount
from hindex.orc.metadata.types import Kind, OrcType
from hindex.store.store import Store
from hindex.table.partitions import CatalogPartitions, PartitionFilter, PartitionLocation
from hindex.table.schema import DeclaredSchema, TableColumn
from tests.acid.tables import B0, delete, insert
from tests.acid.writing import write_flat
from tests.support import local_build
from tests.support.cases import cases, sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, write_columns, write_rows
from tests.support.work import record_listings

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are listed meanwhile, relative to the table."""
    return record_listings(monkeypatch)


def make(root: Path, *directories: str) -> Table:
    """A table of a file with one row in each directory: ``id`` is its number."""
    for number, directory in enumerate(directories):
        write_rows(root / directory / "x.orc", number, [number])
    return opened(root)


def opened(root: Path) -> Table:
    """A table whose schema is known."""
    table = LocalConnection().table(str(root))
    assert table.scan().count()
    return table


def whole(root: Path, where: str) -> list[int]:
    """The rows as a table gives them that has not been listed yet, and so is listed whole."""
    return sorted(ids(LocalConnection().table(str(root)).scan(where, ["id"])))


@pytest.mark.parametrize(
    ("directories", "where", "expected"),
    [
        (["p=1", "p=2", "p=3"], "p = 2", ["p=2"]),
        (["p=1", "p=2", "p=3"], "p = 2 AND id >= 0", ["p=2"]),
        (["p=1", "p=2", "p=3"], "p IN (1, 3)", ["p=1", "p=3"]),
        (["p=1", "p=2", f"p={NULL}"], "p <=> 2", ["p=2"]),
        (["p=a", "p=b%2Fc", "p=d"], "p = 'b/c'", ["p=b%2Fc"]),
        (["p=a", "p=b"], "upper(p) = 'B'", ["p=b"]),
        (["d=2024-01-01", "d=2024-02-01"], "d < DATE '2024-01-15'", ["d=2024-01-01"]),
        # what is below p=1 gives q its type, so that it is listed, but not its files
        (["p=1/q=1", "p=1/q=2", "p=2/q=1"], "q = 2", ["p=1", "p=2", "p=1/q=2"]),
        (["p=1/q=1", "p=1/q=2", "p=2/q=1"], "p = 2", ["p=1", "p=2", "p=2/q=1"]),
        (["p=1", "p=2"], "p = 2 OR id = 0", ["p=1", "p=2"]),
        (["p=1", "p=2"], "id = 1", ["p=1", "p=2"]),
    ],
)
def test_the_directories_that_a_condition_needs_are_listed(
    tmp_path: Path, listed: list[str], directories: list[str], where: str, expected: list[str]
) -> None:
    table = make(tmp_path / "t", *directories)
    rows = whole(tmp_path / "t", where)
    assert rows
    listed.clear()
    assert sorted(ids(table.scan(where))) == rows
    assert set(listed) == {"", *expected}
    listed.clear()
    assert table.scan(where).count() == len(rows)
    assert set(listed) == {"", *expected}


def test_an_index_answers_as_before(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    table = make(tmp_path / "t", *(f"p={number}" for number in range(9)))
    table.create_index("by_a", "a", "minmax")
    listed.clear()
    condition = table.scan("p > 5 AND a = 7")
    assert ids(condition) == [7]
    assert set(listed) == {"", "p=6", "p=7", "p=8"}
    # an explanation counts the files of all partitions
    assert condition.explain().files == RowCount(1, 9)


def add_text(root: Path) -> None:
    write_rows(root / "p=abc" / "x.orc", 90, [1])


def add_column(root: Path) -> None:
    write_columns(root / "p=2" / "y.orc", {"id": pa.array([90]), "new": pa.array([1])})


def add_file(root: Path) -> None:
    write_rows(root / "p=2" / "y.orc", 90, [1])


def remove_wanted(root: Path) -> None:
    shutil.rmtree(root / "p=2")


def test_a_partition_that_is_left_out_gives_the_column_another_type(tmp_path: Path) -> None:
    """Its value is one of the type of the others, and would not be so by itself."""
    table = make(tmp_path / "t", "p=1.5", "p=2.5")
    write_rows(tmp_path / "t" / "p=9999999999" / "x.orc", 90, [1])
    expected = LocalConnection().table(str(tmp_path / "t")).scan("p = 1.5").to_arrow()
    assert expected["p"].to_pylist() == ["1.5"]
    assert table.scan("p = 1.5").to_arrow().equals(expected)


def test_columns_that_come_later_are_those_of_all_partitions(tmp_path: Path) -> None:
    """Where a listed file has another column than the table had, files that are not listed may have one, too."""
    table = make(tmp_path / "t", "p=1", "p=2")
    for partition, name in ((1, "y"), (2, "z")):
        write_columns(
            tmp_path / "t" / f"p={partition}" / "y.orc", {"id": pa.array([90]), name: pa.array([1])}
        )
    expected = LocalConnection().table(str(tmp_path / "t"))
    assert expected.columns == ("id", "a", "s", "y", "z", "p")
    assert table.scan("p = 2").to_arrow().equals(expected.scan("p = 2").to_arrow())


def outcome_of_all(root: Path, where: str) -> tuple[object, list[str]]:
    """The outcome of a query for which all partitions are listed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "MANY_FILES", 1 << 40)
        return outcome(LocalConnection().table(str(root)), where)


def outcome(table: Table, where: str) -> tuple[object, list[str]]:
    """The schema and rows of a query, or its error."""
    try:
        rows = table.scan(where).to_arrow()
    except HindexError as error:
        return type(error), [str(error)]
    return rows.schema, sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("change", [add_text, add_column, add_file, remove_wanted])
@pytest.mark.parametrize("where", ["p = 2", "p >= 2", "p = '2'", "p < '3'"])
def test_changes_since_the_schema_was_read(
    tmp_path: Path, change: Callable[[Path], None], where: str
) -> None:
    table = make(tmp_path / "t", "p=1", "p=2", "p=3")
    change(tmp_path / "t")
    assert outcome(table, where) == outcome(LocalConnection().table(table.uri), where)


def test_a_narrower_type_of_the_wanted_partitions_is_not_taken(tmp_path: Path, listed: list[str]) -> None:
    table = make(tmp_path / "t", "p=1", "p=02", "p=5000000000", "p=x")
    listed.clear()
    # a string: 2 is another value
    assert ids(table.scan("p = '2'")) == []
    assert ids(table.scan("p = '02'")) == [1]
    assert ids(table.scan("p = '1'")) == [0]
    assert table.scan("p = '1'", ["p"]).to_arrow().to_pylist() == [{"p": "1"}]
    assert "p=5000000000" in listed


@pytest.mark.parametrize("gone", ["p=-", "p=x"])
def test_an_empty_directory_gives_a_column_no_type(tmp_path: Path, gone: str) -> None:
    """As the last file of a partition leaves it."""
    table = make(tmp_path / "t", "p=9", "p=10", gone)
    # strings
    assert ids(table.scan("p > '5' AND a < 2")) == [0]
    (tmp_path / "t" / gone / "x.orc").unlink()
    expected = LocalConnection().table(table.uri).scan("p > '5' AND a < 2").to_arrow()
    assert expected["p"].to_pylist() == [10, 9]
    assert table.scan("p > '5' AND a < 2").to_arrow() == expected


def test_a_condition_that_no_partition_satisfies(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "p=1", "p=2")
    result = table.scan("p = 7").to_arrow()
    assert (result.num_rows, result.column_names) == (0, ["id", "a", "s", "p"])


def test_columns_of_other_partitions_are_null(tmp_path: Path, listed: list[str]) -> None:
    write_columns(tmp_path / "t" / "p=2" / "y.orc", {"id": pa.array([7], pa.int32()), "new": pa.array([1])})
    table = make(tmp_path / "t", "p=1")
    listed.clear()
    result = table.scan("p = 1").to_arrow()
    assert result.to_pylist() == [{"id": 0, "a": 0, "s": "s0", "new": None, "p": 1}]
    assert result.schema == LocalConnection().table(table.uri).scan("p = 1").to_arrow().schema
    assert set(listed[:2]) == {"", "p=1"}


def test_a_directory_in_another_order_is_no_partition(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "a=1/b=1", "a=2/b=1")
    (tmp_path / "t" / "b=5" / "a=7").mkdir(parents=True)
    assert ids(table.scan("b = 1 AND a = 1")) == [0]


def test_the_whole_table_is_listed_again_after_a_while(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that are not listed may have new columns."""
    table = make(tmp_path / "t", "p=1", "p=2")
    add_column(tmp_path / "t")
    assert table.scan("p = 1").to_arrow().column_names == ["id", "a", "s", "p"]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + scan.SCHEMA_SECONDS + 1)
    listed.clear()
    assert table.scan("p = 1").to_arrow().column_names == ["id", "a", "s", "new", "p"]
    assert set(listed) == {"", "p=1", "p=2"}
    listed.clear()
    assert table.scan("p = 1").to_arrow().column_names == ["id", "a", "s", "new", "p"]
    assert set(listed) == {"", "p=1"}


def test_a_table_that_grew_is_pruned(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 3)
    table = make(tmp_path / "t", "p=1", "p=2")
    write_rows(tmp_path / "t" / "p=3" / "x.orc", 9, [9])
    assert ids(table.scan("p = 3")) == [9]
    listed.clear()
    assert ids(table.scan("p = 3")) == [9]
    assert set(listed) == {"", "p=3"}


def test_a_proof_reads_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", "p=1", "p=2", "p=3")
    # a fault: partitions that a condition keeps are left out
    monkeypatch.setattr(PartitionFilter, "keeps", lambda self, directory: directory != "p=2")
    assert ids(table.scan("p >= 2")) == [2]
    assert sorted(ids(table.scan("p >= 2", mode="prove"))) == [1, 2]


def in_catalog(
    root: Path, column_type: OrcType, partitions: CatalogPartitions | None = None, *, is_listed: bool = True
) -> Table:
    """The table as a catalog declares it, partitioned by ``p``; its schema is known if it has been listed."""
    columns = (("id", Kind.LONG), ("a", Kind.INT), ("s", Kind.STRING))
    declared = DeclaredSchema(
        tuple(TableColumn(name, OrcType(kind)) for name, kind in columns), (TableColumn("p", column_type),)
    )
    table = Table(
        LocalConnection(),
        "t",
        str(root),
        Store.for_table(str(root)),
        partitions=None if partitions is None else lambda: partitions,
        declared=lambda: declared,
    )
    assert not is_listed or table.scan().count()
    return table


def test_the_catalog_tells_the_schema_of_a_first_query(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    local_build.install(monkeypatch)
    make(root, "p=1", "p=2", "p=3").create_index("by_a", "a", "minmax")
    add_column(root)
    string = OrcType(Kind.STRING)
    for where, rows in (("p = '2'", [1, 90]), ("p = '2' AND a = 7", []), ("p > '1' AND a = 2", [2])):
        listed.clear()
        table = in_catalog(root, string, is_listed=False)
        result = table.scan(where).to_arrow()
        assert result["id"].to_pylist() == rows
        assert result.column_names == ["id", "a", "s", "p"]
        assert set(listed) == {"", *({"p=2"} if "=" in where[:4] else {"p=2", "p=3"})}
    listed.clear()
    assert in_catalog(root, string, is_listed=False).scan("id = 2").count() == 1
    assert sorted(listed) == ["", "p=1", "p=2", "p=3"]
    with raises(ColumnError):
        in_catalog(root, string, is_listed=False).scan("new = 1")


def test_a_small_table_of_a_catalog_is_listed_whole(
    tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store, that is one request."""
    root = tmp_path / "t"
    local_build.install(monkeypatch)
    make(root, "p=1", "p=2").create_index("by_a", "a", "minmax")
    monkeypatch.setattr(scan, "MANY_FILES", 3)
    listed.clear()
    table = in_catalog(root, OrcType(Kind.INT), is_listed=False)
    assert ids(table.scan("p = 2")) == [1]
    assert set(listed) == {"", "p=1", "p=2"}


def test_directory_of_no_declared_value_is_an_error_in_other_partitions_too(tmp_path: Path) -> None:
    make(tmp_path / "t", "p=1", "p=2")
    table = in_catalog(tmp_path / "t", OrcType(Kind.INT))
    add_text(tmp_path / "t")
    assert outcome(table, "p = 2") == outcome(table, "id >= 0")
    assert "partition p=abc is not read as int" in outcome(table, "p = 2")[1][0]


@pytest.mark.parametrize(
    ("column_type", "escaped", "plain", "value"),
    [
        (OrcType(Kind.INT), "%31", "2", "1"),
        (OrcType(Kind.DOUBLE), "%31%2E5", "2.5", "1.5"),
        (OrcType(Kind.DECIMAL, precision=5, scale=2), "1%2E50", "2.50", "1.5"),
        (OrcType(Kind.DATE), "2024-01%2D01", "2024-02-01", "DATE '2024-01-01'"),
        (OrcType(Kind.STRING), "%61", "b", "'a'"),
    ],
    ids=lambda item: str(item) if isinstance(item, OrcType) else "",
)
def test_escaped_values_of_declared_columns_are_compared(
    tmp_path: Path, listed: list[str], column_type: OrcType, escaped: str, plain: str, value: str
) -> None:
    make(tmp_path / "t", f"p={escaped}", f"p={plain}")
    table = in_catalog(tmp_path / "t", column_type)
    for where, number, directory in ((f"p = {value}", 0, escaped), (f"p > {value}", 1, plain)):
        listed.clear()
        assert ids(table.scan(where)) == [number]
        assert set(listed) == {"", f"p={directory}"}


def test_partition_of_a_sink_has_the_files_of_its_log_only(tmp_path: Path) -> None:
    root = tmp_path / "t"
    paths = [write_rows(root / f"p={number}" / "x.orc", number, [number]) for number in (1, 2)]
    files = [
        {"path": f"file://{path}", "size": path.stat().st_size, "isDir": False, "action": "add"}
        for path in paths
    ]
    (root / "_spark_metadata").mkdir()
    (root / "_spark_metadata" / "0").write_text("\n".join(["v1", *map(json.dumps, files)]))
    table = opened(root)
    write_rows(root / "p=1" / "stray", 90, [1])
    assert ids(table.scan("p = 1")) == [1]
    assert ids(table.scan("p >= 1")) == [1, 2]


def test_pruned_external_partitions_are_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    local_build.install(monkeypatch)
    for number, directory in enumerate(("t/p=1", "elsewhere", "away")):
        write_rows(tmp_path / directory / "x.orc", number, [number])
    partitions = CatalogPartitions(
        frozenset({"p=1"}),
        (
            PartitionLocation("p=2", str(tmp_path / "elsewhere")),
            PartitionLocation("p=3", str(tmp_path / "away")),
        ),
    )
    table = in_catalog(tmp_path / "t", OrcType(Kind.INT), partitions)
    table.create_index("by_a", "a")
    caplog.set_level(logging.INFO, "hindex")
    for where, expected in (("p <= 2 AND a >= 0", [0, 1]), ("p = 1 AND a >= 0", [0]), ("a >= 0", [0, 1, 2])):
        assert sorted(ids(table.scan(where))) == expected
    assert "FILE_GONE" not in caplog.text


def test_transactional_table_is_listed_once(tmp_path: Path, listed: list[str]) -> None:
    root = tmp_path / "t"
    insert(root / "p=1" / "delta_1_1" / "bucket_00000", 1, [10, 11])
    write_flat(root / "p=2" / "000000_0", [(20, 0, "x")])
    delete(root / "p=1" / "delete_delta_2_2" / "bucket_00000", [(1, B0, 0)], 2)
    table = opened(root)
    for where, expected in (("p = 1", [11]), ("p = 2", [20]), ("p > 0", [11, 20])):
        listed.clear()
        assert table.scan(where, ["id"]).to_arrow()["id"].to_pylist() == expected
        assert sorted(set(listed)) == sorted(listed)


VALUES = [
    "1",
    "2",
    "02",
    "30",
    "5000000000",
    "1.5",
    "abc",
    "2024-01-01",
    "2024-13-01",
    "true",
    NULL,
    "a b/ü%",
]
CONDITIONS = [
    *("p = {0}", "p <> {0}", "p > {0}", "p <= {0}", "p IN ({0}, {1})", "p BETWEEN {0} AND {1}", "p IS NULL"),
    *("p IS NOT NULL", "p = {0} OR q = {1}", "p = {0} AND q = {1}", "NOT (p = {0} OR id = 3)", "q >= {0}"),
    *("p = {0} AND id > 2", "p LIKE '2%'", "length(p) = 1", "p <=> {0}"),
]


@pytest.mark.slow
@sampled(4)
@pytest.mark.parametrize("seed", range(cases(8, 30)))
def test_random_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Against the same query of a table that is listed whole, errors included."""
    local_build.install(monkeypatch)
    rng = random.Random(seed)
    root = tmp_path / "t"
    pool = rng.sample(VALUES, rng.randint(1, 5))
    nested = rng.random() < 0.5

    def directory() -> str:
        levels = ["p", "q"] if nested else ["p"]
        return "/".join(f"{name}={quote(rng.choice(pool), safe=' ')}" for name in levels)

    table = make(root, *dict.fromkeys(directory() for _ in range(rng.randint(1, 8))))
    if seed % 2:
        table.create_index("by_a", "a", "minmax")
    compared = 0
    for step in range(40):
        condition = rng.choice(CONDITIONS)
        if not nested:
            condition = condition.replace("q", "p")
        literals = [value if rng.random() < 0.5 else f"'{value}'" for value in rng.choices(pool, k=2)]
        where = condition.format(*(item if item[:1] in "'12305" else f"'{item}'" for item in literals))
        found = outcome(table, where)
        assert found == outcome_of_all(root, where), where
        compared += isinstance(found[0], pa.Schema) * len(found[1])
        if step % 10 == 9:
            write_rows(root / directory() / f"{step}.orc", 1000 * step, [step, None])
    assert compared


@sampled(2)
@pytest.mark.parametrize("where", ["p = 1 AND a = 3", "a = 3", "id = 3", "p = 7"])
def test_a_query_of_a_partitioned_table_imports_no_pandas(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as long to import as to plan 100,000 files."""
    local_build.install(monkeypatch)
    table = make(tmp_path / "t", *(f"p={number}" for number in range(5)))
    table.create_index("by_a", "a", "btree")
    table.create_index("by_id", "id", "minmax")
    write_rows(tmp_path / "t" / "p=4" / "new.orc", 90, [3])
    program = f"""
import sys
import hindex
from hindex.api import scan
scan.MANY_FILES = 0
table = hindex.connect().table({table.uri!r})
rows = [table.scan({where!r}).to_arrow().num_rows for _ in range(2)]
assert "pandas" not in sys.modules
print(rows)
"""
    expected = len(ids(table.scan(where)))
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == str([expected] * 2)

"""Index definitions outlive the files of a catalog table: replacing its directory loses no index."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.api.connection import Connection
from hindex.api.table import IndexSpec, Table
from hindex.errors import IndexExistsError, IndexNotFoundError
from hindex.maintain.results import IndexState, RefreshResult
from hindex.spark.catalog import CatalogDefinitions
from hindex.store.definitions import PREFIX, decode_definition, encode_definition
from hindex.store.store import Store
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.small import ids, reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "defined"
ROWS = "SELECT id, CAST(id % 10 AS INT) AS a, concat('s', id % 7) AS url, CAST(id % 2 AS INT) AS p FROM range({}, {})"
OVERWRITE = f"INSERT OVERWRITE {NAME} {ROWS.format(100, 300)}"


@pytest.fixture(params=["flat", "partitioned"])
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Create a managed table with columns ``id``, ``a``, ``url`` and ``p``, and yield its directory."""
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {NAME} (id BIGINT, a INT, url STRING, p INT) USING orc {by}")
    spark.sql(f"INSERT INTO {NAME} {ROWS.format(0, 100)}")
    (location,) = [row.data_type for row in describe(spark) if row.col_name == "Location"]
    yield Path(location.removeprefix("file:"))
    for name in (NAME, f"{NAME}_2"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def hx(spark: SparkSession) -> Connection:
    return hindex.connect(spark=spark)


def describe(spark: SparkSession) -> list[Any]:
    return spark.sql(f"DESCRIBE TABLE EXTENDED {NAME}").collect()


def properties(spark: SparkSession, name: str = NAME) -> dict[str, str]:
    """Return the properties of the table that store definitions."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    return {row.key: row.value for row in rows if row.key.startswith(PREFIX)}


def statuses(table: Table) -> dict[str, str]:
    return {index.name: index.status for index in table.indexes()}


def check_rows(hx: Connection, spark: SparkSession) -> None:
    """Check that scans return the rows of Spark."""
    for where in ("a = 3", "url = 's2' AND id > 50", "a = 3 OR p = 1"):
        expected = sorted(row.id for row in spark.table(NAME).where(where).collect())
        assert sorted(ids(hx.table(NAME).scan(where))) == expected, where


LOST = "stale: its files were deleted with the table's earlier files, REFRESH INDEX builds it again; 0 of "


@sampled(1)
def test_an_overwritten_table_is_refreshed(hx: Connection, spark: SparkSession, place: Path) -> None:
    table = hx.table(NAME)
    table.create_indexes(
        [
            IndexSpec("by_a", "a", comment='it\'s `a`, \\"${x}\\" ä'),
            # Spark redacts properties that mention URLs
            IndexSpec("url", "url", "bloom", properties={"fpp": "0.01"}, annotations={"token": "url"}),
        ]
    )
    before = {index.name: index for index in table.indexes()}
    assert len(properties(spark)) == 2
    spark.sql(OVERWRITE)
    assert not (place / "_hindex").exists()
    check_rows(hx, spark)
    for one in (table, hx.table(NAME)):
        assert [index.state for index in one.indexes()] == [IndexState.STALE] * 2
        assert all(status.startswith(LOST) for status in statuses(one).values())
        assert [index.num_fresh_files for index in one.indexes()] == [0, 0]
        assert [index.state for index in one.recorded_indexes()] == [IndexState.STALE] * 2
        assert one.index("BY_A").comment == before["by_a"].comment
    shown: Any = hx.sql(f"SHOW INDEXES ON {NAME}")
    assert shown.column("name").to_pylist() == ["by_a", "url"]
    assert hx.sql(f"DESCRIBE INDEX by_a ON {NAME}").num_rows > 10  # type: ignore[union-attr]
    assert [result.state for result in table.check_indexes(verify=True)] == [IndexState.STALE] * 2
    dry = table.refresh_indexes(dry_run=True)
    assert (dry.indexes, dry.files_read > 0, dry.changed) == (("by_a", "url"), True, False)
    assert not (place / "_hindex").exists()
    done = hx.sql(f"REFRESH INDEXES ON {NAME}")
    assert isinstance(done, RefreshResult)
    assert (done.indexes, done.files_read, done.rows, done.changed) == (
        ("by_a", "url"),
        dry.files_read,
        200,
        True,
    )
    assert statuses(table) == {"by_a": "fresh", "url": "fresh"}
    for index in table.indexes():
        old = before[index.name]
        assert (index.column, index.type, index.properties, index.annotations, index.comment) == (
            old.column,
            old.type,
            old.properties,
            old.annotations,
            old.comment,
        )
        assert (index.created_ms, index.level, index.column_type) == (
            old.created_ms,
            old.level,
            old.column_type,
        )
    check_rows(hx, spark)
    assert table.scan("a = 3").explain().exact
    assert not table.refresh_indexes().changed
    assert [result.problems for result in table.check_indexes(verify=True)] == [(), ()]


@sampled(1)
def test_one_of_two_is_refreshed_and_the_other_dropped(
    hx: Connection, spark: SparkSession, place: Path
) -> None:
    table = hx.table(NAME)
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_url", "url")])
    spark.sql(OVERWRITE)
    assert table.refresh_indexes(["by_a"]).indexes == ("by_a",)
    assert statuses(table)["by_a"] == "fresh"
    assert statuses(table)["by_url"].startswith(LOST)
    spark.sql(OVERWRITE)
    dropped = hx.sql(f"DROP INDEX by_url ON {NAME}")
    assert str(dropped).startswith("Index 'by_url' of 'defined' dropped")
    assert list(statuses(table)) == ["by_a"]
    with raises(IndexNotFoundError):
        table.drop_index("by_url")
    assert table.rebuild_index("by_a").changed
    assert statuses(table) == {"by_a": "fresh"}
    table.drop_index("by_a")
    assert properties(spark) == {}
    spark.sql(OVERWRITE)
    assert statuses(table) == {}
    with raises(IndexNotFoundError):
        table.refresh_indexes()


@sampled(1)
def test_names_change(hx: Connection, spark: SparkSession, place: Path) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a")
    table.rename_index("by_a", "A_1")
    spark.sql(OVERWRITE)
    assert list(statuses(table)) == ["A_1"]
    table.create_index("other", "url")
    with pytest.raises(IndexExistsError):
        table.rename_index("a_1", "Other")
    table.rename_index("a_1", "by_a")
    assert [name for name, status in statuses(table).items() if status != "fresh"] == ["by_a"]
    # a renamed table keeps them
    spark.sql(f"ALTER TABLE {NAME} RENAME TO {NAME}_2")
    moved = hx.table(f"{NAME}_2")
    assert moved.refresh_indexes().changed
    assert statuses(moved) == {"other": "fresh", "by_a": "fresh"}


@sampled(1)
def test_copied_table_is_adopted_by_name(hx: Connection, spark: SparkSession, place: Path) -> None:
    hx.table(NAME).create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_id", "id", "btree")])
    copy = place.with_name(f"{NAME}_copy")
    shutil.copytree(place, copy, copy_function=shutil.copyfile)
    files = sorted(copy.rglob("part-*.orc"))
    for file in files:
        os.utime(file, ns=(1, 10**18))
    partitions = "PARTITIONED BY (p)" if (copy / "p=0").exists() else ""
    spark.sql(
        f"CREATE TABLE {NAME}_2 (id BIGINT, a INT, url STRING, p INT) USING orc {partitions} LOCATION '{copy}'"
    )
    if partitions:
        spark.sql(f"MSCK REPAIR TABLE {NAME}_2")
    assert not properties(spark, f"{NAME}_2")
    result: Any = hx.sql(f"ADOPT INDEXES ON {NAME}_2")
    assert (result.files_adopted, result.files_differing, result.files_gone) == (len(files), 0, 0)
    table = hx.table(f"{NAME}_2")
    assert statuses(table) == {"by_a": "fresh", "by_id": "fresh"}
    assert properties(spark, f"{NAME}_2") == properties(spark)
    scan = table.scan("id = 37")
    assert ids(scan) == [37]
    assert (len(scan.plan().tasks), reasons(scan)) == (1, {})
    assert not table.refresh_indexes().changed
    shutil.rmtree(copy)


@sampled(1)
def test_a_lost_index_can_be_created_again(hx: Connection, spark: SparkSession, place: Path) -> None:
    table = hx.table(NAME)
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_url", "url")])
    spark.sql(OVERWRITE)
    assert table.create_index("by_a", "id").status == "fresh"
    assert hx.sql(f"CREATE INDEX IF NOT EXISTS BY_URL USING bitmap ON {NAME} (url)").status == "fresh"  # type: ignore[union-attr]
    assert statuses(table) == {"by_a": "fresh", "BY_URL": "fresh"}
    assert len(properties(spark)) == 2
    # the same column under another name
    spark.sql(OVERWRITE)
    table.create_index("another", "url")
    assert [name for name, status in statuses(table).items() if status == "fresh"] == ["another"]
    assert list(statuses(table)) == ["another", "by_a"]


@sampled(1)
def test_an_emptied_table_keeps_its_definitions(hx: Connection, spark: SparkSession, place: Path) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a", where="p = 1" if "partitioned" in str(describe(spark)) else None)
    spark.sql(f"TRUNCATE TABLE {NAME}")
    check_rows(hx, spark)
    assert [index.state for index in table.indexes()] == [IndexState.STALE]
    done = table.refresh_indexes()
    assert (done.indexes, done.files_read, done.changed) == (("by_a",), 0, True)
    assert "nothing to do" not in str(done)
    assert not table.refresh_indexes().changed
    assert statuses(table) == {"by_a": "fresh"}
    spark.sql(f"TRUNCATE TABLE {NAME}")
    spark.sql(f"INSERT INTO {NAME} {ROWS.format(0, 50)}")
    check_rows(hx, spark)
    assert [index.name for index in table.indexes()] == ["by_a"]
    assert table.refresh_indexes().changed
    assert statuses(table) == {"by_a": "fresh"}
    check_rows(hx, spark)


@sampled(1)
def test_deferred_indexes_stay_so(hx: Connection, spark: SparkSession, place: Path) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a", deferred=True)
    spark.sql(OVERWRITE)
    assert statuses(table) == {"by_a": "deferred: REFRESH INDEX builds it"}
    table.refresh_indexes()
    spark.sql(OVERWRITE)
    assert statuses(table)["by_a"].startswith(LOST)


@sampled(1)
def test_a_table_by_path_has_no_definitions(hx: Connection, spark: SparkSession, place: Path) -> None:
    by_path = hx.table(str(place))
    by_path.create_index("by_a", "a")
    assert properties(spark) == {}
    # a refresh by name writes them to the catalog
    assert not hx.table(NAME).refresh_indexes().changed
    assert len(properties(spark)) == 1
    spark.sql(OVERWRITE)
    assert by_path.indexes() == []
    with raises(IndexNotFoundError):
        hx.sql(f"REFRESH INDEXES ON '{place}'")
    with raises(IndexNotFoundError):
        hx.sql(f"REFRESH INDEX by_a ON '{place}'")
    with pytest.raises(IndexNotFoundError):
        hx.sql(f"REFRESH INDEXES ON '{place}' DRY RUN")
    assert hx.table(NAME).refresh_indexes().changed
    assert [index.status for index in by_path.indexes()] == ["fresh"]


@sampled(1)
def test_two_sessions_create_indexes_at_once(
    hx: Connection, spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's ALTER TABLE writes the properties it read before, and so removes those added meanwhile."""
    other = hindex.connect(spark=spark.newSession()).table(NAME)
    real = CatalogDefinitions._alter

    def alter(self: CatalogDefinitions, names: str, change: str) -> bool:
        monkeypatch.setattr(CatalogDefinitions, "_alter", real)
        other.create_index("by_url", "url")
        is_changed = real(self, names, change)
        (lost,) = (
            key for key, value in properties(spark).items() if decode_definition(key, value).name == "by_url"
        )
        spark.sql(f"ALTER TABLE {NAME} UNSET TBLPROPERTIES ('{lost}')")
        return is_changed

    monkeypatch.setattr(CatalogDefinitions, "_alter", alter)
    hx.table(NAME).create_index("by_a", "a")
    assert set(statuses(other).values()) == {"fresh"}
    spark.sql(OVERWRITE)
    assert sorted(statuses(other)) == ["by_a", "by_url"]


@pytest.mark.slow
@sampled(1)
def test_a_separate_store_keeps_indexes_of_a_recreated_table(
    spark: SparkSession, place: Path, tmp_path: Path
) -> None:
    """``saveAsTable`` drops the table with its properties."""
    hx = hindex.connect(str(tmp_path / "store"), spark)
    table = hx.table(NAME)
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_url", "url", "btree")])
    assert properties(spark) == {}
    frame = spark.sql(ROWS.format(100, 300))
    writer = frame.write.mode("overwrite").format("orc")
    (writer.partitionBy("p") if "p=1" in {item.name for item in place.iterdir()} else writer).saveAsTable(
        NAME
    )
    check_rows(hx, spark)
    assert [index.state for index in hx.table(NAME).indexes()] == [IndexState.STALE] * 2
    done = hx.table(NAME).refresh_indexes()
    assert done.changed
    assert done.files_forgotten > 0
    assert set(statuses(hx.table(NAME)).values()) == {"fresh"}
    check_rows(hx, spark)
    spark.sql(f"INSERT OVERWRITE {NAME} {ROWS.format(0, 10)}")
    check_rows(hx, spark)
    assert hx.table(NAME).refresh_indexes().changed
    assert set(statuses(hx.table(NAME)).values()) == {"fresh"}


@sampled(1)
def test_a_failing_catalog_logs_a_warning(
    hx: Connection,
    spark: SparkSession,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = CatalogDefinitions._alter

    def refuse(self: CatalogDefinitions, names: str, change: str) -> bool:
        self._name = "nobody.may"
        is_changed = real(self, names, change)
        self._name = NAME
        return is_changed

    monkeypatch.setattr(CatalogDefinitions, "_alter", refuse)
    with caplog.at_level(logging.WARNING, "hindex"):
        assert hx.table(NAME).create_index("by_a", "a").status == "fresh"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "does not keep the definition of index by_a" in warning
    assert "\n" not in warning
    check_rows(hx, spark)
    # a definition that is too long
    caplog.clear()
    monkeypatch.undo()
    noise = "".join(hashlib.sha256(bytes([i])).hexdigest() for i in range(100))
    with caplog.at_level(logging.WARNING, "hindex"):
        hx.table(NAME).create_index("long", "url", comment=noise)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "of at most 4,000" in warning


def test_damaged_properties_are_ignored(
    hx: Connection, spark: SparkSession, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a")
    ((key, value),) = properties(spark).items()
    newer = json.dumps({"version": 2}).encode()
    damaged = {
        "x": value,
        "0" * 32: "",
        "1" * 32: "zz",
        "2" * 32: newer.hex(),
        "3" * 32: value[:-8],
        "4" * 31: value,
    }
    pairs = ", ".join(f"'{PREFIX}{name}' = '{text}'" for name, text in damaged.items())
    spark.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ({pairs})")
    shutil.rmtree(place / "_hindex")
    with caplog.at_level(logging.WARNING, "hindex"):
        assert list(statuses(table)) == ["by_a"]
    assert len(caplog.records) == len(damaged)
    assert decode_definition(key, value).name == "by_a"


@sampled(1)
def test_queries_do_not_read_definitions(
    hx: Connection, spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a")

    def refuse(self: CatalogDefinitions) -> tuple[()]:
        raise AssertionError("definitions were read")

    monkeypatch.setattr(CatalogDefinitions, "read", refuse)
    check_rows(hx, spark)
    assert hx.sql(f"SELECT count(*) FROM {NAME} WHERE a = 3") is not None
    joined: Any = hx.sql(f"SELECT x.id FROM {NAME} x JOIN {NAME} y ON x.id = y.id WHERE x.a = 3")
    assert joined.count() == 10
    assert table.scan("a = 3").explain().exact


def test_a_definition_is_read_as_written(hx: Connection, place: Path) -> None:
    table = hx.table(NAME)
    table.create_index("by_a", "a", comment="a\nb ä '\"\\ ${x} \U0001f600", annotations={"k'": "v;"})
    manifest = Store.for_table(table.uri).load()
    assert manifest is not None
    (entry,) = manifest.indexes
    assert decode_definition(PREFIX + entry.id, encode_definition(entry)) == replace(entry, refreshed_ms=0)

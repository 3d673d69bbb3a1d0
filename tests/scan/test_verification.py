"""Scans that prove: they compare with the data, and set indexes aside that are wrong."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.aggregate import top_n
from hindex.api.statement_table import StatementTable
from hindex.api.table import IndexSpec, Table
from hindex.build import job
from hindex.domain import Domain
from hindex.errors import FallbackError
from hindex.index.bitmap import BitmapReader
from hindex.index.index_type import Bounds
from hindex.maintain import builds, verification
from hindex.maintain.results import IndexState
from hindex.maintain.verification import ProveReport, ProveWarning, is_same, prove_scan
from hindex.orc import OrcReader
from hindex.plan.reasons import REPLACED_SINCE, Note, Reason
from hindex.scan.planning import ScanPlan
from hindex.scan.shared_index_pruning import SharedIndexPruner
from hindex.store.manifest import FileEntry
from tests.scan.wrong_indexes import (
    KNOWN,
    ROWS,
    damage_pages,
    exchange,
    indexed_table,
    remove_index_files,
)
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.queries import count_calls
from tests.support.small import ids, reasons, write_columns, write_rows
from tests.support.work import forget


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    return indexed_table(connection, tmp_path / "t")


def test_a_proof_names_the_indexes_that_it_could_not_use(table: Table) -> None:
    damage_pages(table)
    forget()
    scan = table.scan("a = 3 OR id = 5", ["id"], mode="prove")
    assert ids(scan) == sorted({5} | {i for i in range(2 * ROWS) if i % 10 == 3})
    assert scan.proof is not None
    assert scan.proof.disagreements == ()
    assert [(note.reason, note.subject) for note in scan.proof.notes] == [
        (Reason.CORRUPT, f"by_a on {number}.orc") for number in range(2)
    ]
    assert "not used: CORRUPT: 2 index files, e.g. by_a on 0.orc" in str(scan.proof)


def test_prove_finds_nothing_where_all_is_well(table: Table) -> None:
    table.create_index("small", "a", "minmax")
    table.create_index("filter", "a", "bloom")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where in (None, "a = 3", "a = 3 OR id = 5", "a IS NULL", "a = 99", "s = 's3' AND id < 500"):
            scan = table.scan(where, ["id", "s"], mode="prove")
            assert ids(scan) == ids(table.scan(where, ["id"]))
            assert scan.proof is not None
            assert scan.proof.disagreements == ()
            assert scan.proof.rows == scan.count()
            assert "agree with the data" in str(scan.proof)
            assert scan.value_counts("a").equals(table.scan(where).value_counts("a"))
            assert (scan.exists(), scan.min("s")) == (table.scan(where).exists(), table.scan(where).min("s"))


def test_prove_of_files_that_are_replaced_after_the_plan(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("small", "a", "minmax")

    def replaced(plan: ScanPlan) -> tuple[ProveReport, ScanPlan]:
        write_columns(tmp_path / "t" / "0.orc", {"id": pa.array([7, 8]), "a": pa.array([99, 3], pa.int32())})
        return prove_scan(plan)

    monkeypatch.setattr(verification, "prove_scan", replaced)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # the manifest rules out both files that were planned
        scan = table.scan("a = 99", ["id"], mode="prove")
        assert ids(scan) == [7]
    assert scan.proof is not None
    assert (scan.proof.rows, scan.proof.disagreements) == (0, ())
    assert Note(Reason.STALE_FILE, "0.orc", REPLACED_SINCE) in scan.proof.notes


def test_prove_reads_the_records_of_a_file_once(
    tmp_path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many stripes it has: otherwise the work grows with their square."""
    work = {}
    for stripes in (2, 12):
        path = tmp_path / str(stripes) / "0.orc"
        column = pa.array([i % 50 for i in range(1000 * stripes)])
        columns = {"id": pa.array(range(len(column))), "a": column, "b": column}
        write_columns(path, columns, codec="none", stripe=4096, stride=1000)
        with OrcReader(path) as reader:
            assert len(reader.stripes) == stripes
        table = connection.table(str(path.parent))
        table.create_indexes([IndexSpec("by_a", "a", "minmax"), IndexSpec("by_b", "b", "btree")])
        with monkeypatch.context() as patch:
            stats = count_calls(patch, verification, top_n.recorded_stats)
            located = count_calls(patch, SharedIndexPruner, SharedIndexPruner.answers)
            scan = table.scan("a >= 0 AND b = 7", ["id", "a"], mode="prove")
            assert ids(scan) == list(range(7, 1000 * stripes, 50))
            assert scan.proof is not None
            assert scan.proof.disagreements == ()
            assert table.scan(mode="prove").min("a") == 0
        assert stats
        assert located
        work[stripes] = len(stats), len(located)
    assert work[2] == work[12]


@pytest.mark.parametrize("is_certain", [True, False])
def test_prove_asks_every_index_of_the_predicate(
    constant: Table, monkeypatch: pytest.MonkeyPatch, is_certain: bool
) -> None:
    certain = property(lambda self: self.is_listed_fresh & is_certain)
    monkeypatch.setattr("hindex.store.file_views.FileViews.is_certainly_fresh", certain)
    constant.create_index("by_a", "a")
    assert len(constant.scan("k = 8").plan().skipped) == is_certain
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where, rows in KNOWN.items():
            assert constant.scan(where, mode="prove").count() == rows, where
    real = BitmapReader.lookup

    def lookup(self: BitmapReader, stripe: int, domain: Domain) -> Bounds:
        total = self.stripe_rows[stripe]
        return Bounds.exactly(BitMap(range(total)) - real(self, stripe, domain).lower)

    monkeypatch.setattr(BitmapReader, "lookup", lookup)
    for where in ("k = 7", "k = 8"):
        assert constant.scan(where).count() == KNOWN[where]
        with pytest.warns(ProveWarning, match=f"rows of {where} differ by 'by_k'; "):
            assert constant.scan(where, mode="prove").count() == KNOWN[where]
        assert constant.index("by_k").state is IndexState.QUARANTINED
        constant.rebuild_index("by_k")
    remove_index_files(constant)
    for where in ("k = 7", "k = 8"):
        forget()
        scan = constant.scan(where, mode="prove")
        assert scan.count() == KNOWN[where]
        assert scan.proof is not None
        assert [(note.reason, note.subject) for note in scan.proof.notes] == [
            (Reason.INDEX_MISSING, "by_k on 0.orc")
        ]


@pytest.mark.parametrize("using", ["bitmap", "minmax"])
@pytest.mark.parametrize("where", ["manifest", "file"])
def test_prove_finds_the_index_that_is_wrong_and_sets_it_aside(
    connection: LocalConnection,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    using: str,
    where: str,
) -> None:
    certain = property(lambda self: self.is_listed_fresh & (where == "manifest"))
    monkeypatch.setattr("hindex.store.file_views.FileViews.is_certainly_fresh", certain)
    table.drop_index("by_a")
    table.create_index("bad", "a", using)
    table.create_index("good", "a", "bloom")
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 + 20 for i in range(ROWS)])
    exchange(table, tmp_path / "other", "a", extents=where == "manifest")
    # what the manifest says rules the file out before it is opened
    assert (len(table.scan("a = 3").plan().skipped) == 1) == (where == "manifest")
    right = [i for i in range(2 * ROWS) if i % 10 == 3]
    assert ids(table.scan("a = 3", ["id"])) != right

    scan = table.scan("a = 3 AND s <> 'x'", ["id"], mode="prove")
    with pytest.warns(ProveWarning, match="'bad'") as warned:
        rows = scan.to_arrow().column("id").to_pylist()
    assert rows == right
    assert isinstance(scan.proof, ProveReport)
    assert scan.proof.indexes == ("bad",)
    assert {item.path for item in scan.proof.disagreements} == {"0.orc"}
    missing = [(item.stripe, row) for item in scan.proof.disagreements for row in item.missing]
    assert len(missing) == len(right) // 2
    assert str(scan.proof) in str(warned[0].message)
    assert "rows missing" in str(scan.proof)

    # it is not used from now on, in any mode, and everyone is told
    assert ids(table.scan("a = 3", ["id"])) == right
    assert reasons(table.scan("a = 3"))[Reason.QUARANTINED] == ["bad"]
    with raises(FallbackError):
        table.scan("a = 3", mode="strict").count()
    bad = table.index("bad")
    assert bad.state is IndexState.QUARANTINED
    assert bad.status.startswith("quarantined: REFRESH INDEX builds it anew; indexes of ")
    shown = connection.sql(f"SHOW INDEXES ON '{table.name}'")
    assert isinstance(shown, StatementTable)
    assert [status.split(":")[0] for status in shown.column("status").to_pylist()] == [
        "fresh",
        "quarantined",
        "fresh",
    ]
    # what is right stays in use
    assert table.index("good").state is IndexState.FRESH

    assert bad.refresh().files_read == 2
    assert table.index("bad").state is IndexState.FRESH
    assert ids(table.scan("a = 3", ["id"])) == right
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ids(table.scan("a = 3", ["id"], mode="prove")) == right


def test_prove_finds_wrong_keys_that_no_predicate_asks_for(table: Table, tmp_path: Path) -> None:
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 + 20 for i in range(ROWS)])
    exchange(table, tmp_path / "other", "a")
    assert table.scan().distinct("a").to_pylist()[-1] == 29
    with pytest.warns(ProveWarning, match="values of a differ by 'by_a'"):
        assert table.scan(mode="prove").distinct("a").to_pylist()[-1] == 9
    assert table.index("by_a").state is IndexState.QUARANTINED


def test_quarantine_of_some_partitions_stays(connection: LocalConnection, tmp_path: Path) -> None:
    for p in (1, 2):
        write_rows(tmp_path / "t" / f"p={p}" / "0.orc", 0, [1, 2, 3])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("g", "a")
    table.quarantine_indexes(["g", "gone"], "a test")
    assert table.refresh_indexes(["g"], where="p = 1").files_read == 1
    assert table.index("g").state is IndexState.QUARANTINED
    table.rebuild_index("g")
    assert table.index("g").state is IndexState.FRESH


def test_quarantine_while_a_refresh_runs_stays(
    connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh that builds only what is new cures nothing of the rest; a rebuild does."""
    write_rows(tmp_path / "t" / "0.orc", 0, [1, 2, 3])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("g", "a")
    write_rows(tmp_path / "t" / "1.orc", 3, [1, 2, 3])
    real = job.run_build

    def build(*arguments: Any) -> list[FileEntry]:
        table.quarantine_indexes(["g"], "a test")
        return real(*arguments)

    monkeypatch.setattr(builds, "run_build", build)
    assert table.refresh_indexes().files_read == 1
    assert table.index("g").state is IndexState.QUARANTINED
    assert table.rebuild_index("g").files_read == 2
    assert table.index("g").state is IndexState.FRESH
    table.quarantine_indexes(["g"], "a test")
    assert table.refresh_indexes().files_read == 2
    assert table.index("g").state is IndexState.FRESH


def test_values_that_are_nan_are_the_same(connection: LocalConnection, tmp_path: Path) -> None:
    nan = float("nan")
    of = pa.struct([("l", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.float32()))])
    nested: list[Any] = [{"l": [nan, 1.5, None], "m": [("k", nan)]}, None, {"l": None, "m": []}]
    columns = {"f": pa.array([nan, -0.0, None]), "n": pa.array(nested, of), "id": pa.array([0, 1, 2])}
    write_columns(tmp_path / "t" / "0.orc", columns)
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_f", "f")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan("f IS NOT NULL", mode="prove").to_arrow().num_rows == 2


def test_values_that_differ_are_not_the_same() -> None:
    """Neither of other numbers, nor of zeros of another sign."""
    nan = float("nan")
    for one, other in (([nan, 1.0], [nan, 2.0]), ([nan, 0.0], [nan, -0.0]), ([nan, None], [nan, 0.0])):
        batches = [pa.record_batch({"f": pa.array(values)}) for values in (one, one, other)]
        assert is_same(batches[0], batches[1])
        assert not is_same(batches[0], batches[2])


def test_the_proof_of_the_first_rows_is_kept(connection: LocalConnection, table: Table) -> None:
    scan = table.scan("a = 3", mode="prove")
    assert scan.head(2)["id"].to_pylist() == [3, 13]
    assert scan.proof is not None
    assert scan.proof.rows == 200

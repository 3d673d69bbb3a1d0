"""Modes: strict takes what falls back for an error, prove compares with the data and sets wrong indexes aside."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import hindex
from hindex.build import job
from hindex.domain import Domain
from hindex.errors import ColumnError, FallbackError, HindexError, PredicateError
from hindex.index.base import Bounds
from hindex.index.bitmap_reader import BitmapReader
from hindex.lifecycle import builds
from hindex.lifecycle.results import IndexState
from hindex.plan.explain import ReadPath
from hindex.plan.modes import Mode
from hindex.plan.reasons import Reason
from hindex.scan import shared
from hindex.scan.execute import OpenTask
from hindex.scan.proving import ProveReport, ProveWarning
from hindex.scan.proving_values import is_same
from hindex.scan.scan import Scan
from hindex.store.manifest import FileEntry
from hindex.store.store import Store
from hindex.tables import IndexSpec, Table
from tests.support.local_build import LocalConnection
from tests.support.small import ids, reasons, write_columns, write_rows
from tests.support.work import forget

ROWS = 1000


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Two files of some stripes, a = i % 10 in both; ``a`` and ``s`` are indexed, ``id`` is not."""
    for number in range(2):
        write_rows(tmp_path / "t" / f"{number}.orc", number * ROWS, [i % 10 for i in range(ROWS)])
    found = connection.table(str(tmp_path / "t"))
    found.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return found


def remove_index_files(table: Table) -> None:
    for file in Path(table.uri).rglob("*.hidx"):
        file.unlink()


def damage_pages(table: Table) -> None:
    """What shows only when a page is read."""
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[10] ^= 0x55
        file.write_bytes(data)


def change_a_file(table: Table) -> None:
    write_rows(Path(table.uri) / "0.orc", 0, [1, 2, 3])


ASKED: list[Callable[[Scan], object]] = [
    lambda scan: scan.to_arrow(),
    lambda scan: list(scan.to_batches()),
    lambda scan: scan.count(),
    lambda scan: scan.exists(),
    lambda scan: scan.min("a"),
    lambda scan: scan.value_counts("a"),
    lambda scan: scan.order_by("a").to_arrow(),
]


def test_strict_lets_pass_what_indexes_answer(table: Table) -> None:
    for ask in ASKED:
        assert ask(table.scan("a = 3 AND s <> 's4'", mode="strict")) is not None
    assert table.scan(mode="strict").count() == 2 * ROWS
    assert ids(table.scan("a = 77", mode="strict")) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(remove_index_files, Reason.INDEX_MISSING, id="missing"),
        pytest.param(change_a_file, Reason.STALE_FILE, id="stale"),
        pytest.param(damage_pages, Reason.CORRUPT, id="corrupt"),
    ],
)
def test_strict_refuses_to_read(table: Table, change: Callable[[Table], None], reason: Reason) -> None:
    change(table)
    for ask in ASKED:
        scan = table.scan("a = 3", mode="strict")
        with pytest.raises(FallbackError, match=rf"{reason.name}: .*{reason.sentence}"):
            ask(scan)
    # an explanation is what tells why
    assert reason in reasons_of(table.scan("a = 3", mode="strict"))
    assert table.scan("a = 3").count() > 0


@pytest.mark.parametrize("mode", list(Mode))
def test_no_rows_take_nothing(table: Table, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """``LIMIT 0``: names and types are looked at; no file is opened, no index asked or missed, and nothing proved."""
    table.create_index("tree", "id", "btree")
    damage_pages(table)
    change_a_file(table)

    def opens(*_: Any) -> Any:
        raise AssertionError("a file is opened")

    whole = table.scan("s = 's1'").schema
    monkeypatch.setattr(OpenTask, "__init__", opens)
    monkeypatch.setattr(shared, "open_btree_file", opens)
    where = "(id = 7 AND s = 's1' OR a > 3) AND a + 1 > 2"
    scan = table.scan(where, limit=0, mode=mode)
    assert scan.to_arrow().equals(whole.empty_table())
    assert list(scan.to_batches()) == []
    assert scan.order_by("a", descending=True).to_arrow().equals(whole.empty_table())
    assert (scan.count(), scan.exists(), scan.proof) == (0, False, None)
    for analyze in (False, True):
        told = scan.explain(analyze=analyze)
        assert (told.path, told.notes, told.stripes.kept) == (ReadPath.NOTHING, (), 0)
        assert "nothing: no row is asked for" in told.to_text()
        assert "nothing: no row is asked for" in told.to_html()
        assert told.to_json()["limit"] == 0
    for wrong, problem in (("nosuch = 1", ColumnError), ("a = 'x'", PredicateError)):
        for ask in (Scan.to_arrow, Scan.count, Scan.exists, Scan.explain):
            with pytest.raises(problem):
                ask(table.scan(wrong, limit=0, mode=mode))


def reasons_of(scan: Scan) -> set[Reason]:
    return {note.reason for note in scan.explain().notes}


def test_strict_names_columns_without_an_index(table: Table) -> None:
    with pytest.raises(FallbackError, match=r"NO_INDEX: 1 column: id"):
        table.scan("a = 3 AND id > 5", mode="strict").count()
    with pytest.raises(FallbackError, match="NO_INDEX"):
        table.scan(mode="strict").min("id")


def test_strict_takes_an_index_for_each_partition(connection: LocalConnection, tmp_path: Path) -> None:
    for p in (1, 2):
        write_rows(tmp_path / "parts" / f"p={p}" / "x.orc", 100 * p, [i % 10 for i in range(100)])
    table = connection.table(str(tmp_path / "parts"))
    table.create_index("one", "a", where="p = 1")
    table.create_index("ends", "a", "minmax")
    strict = table.scan("a = 3", mode="strict")
    # MINMAX leaves open what the index of the other partition would not
    assert reasons(table.scan("a = 3")) == {Reason.PARTITION_NOT_INDEXED: ["one on p=2/x.orc"]}
    with pytest.raises(FallbackError, match="one on p=2"):
        strict.count()
    table.create_index("two", "a", where="p = 2")
    assert reasons(table.scan("a = 3")) == {}
    assert ids(strict) == [i for i in range(100, 300) if i % 10 == 3]
    assert table.scan("a = 3").explain().exact
    # of a file that came later, that is what is told
    write_rows(tmp_path / "parts" / "p=2" / "y.orc", 300, [3])
    assert reasons(table.scan("a = 3")) == {Reason.NEW_FILE: ["p=2/y.orc"]}


def test_filters_are_not_taken_for_ranges(connection: LocalConnection, tmp_path: Path) -> None:
    for p in (1, 2):
        write_rows(tmp_path / "parts" / f"p={p}" / "x.orc", 100 * p, [i % 10 for i in range(100)])
    table = connection.table(str(tmp_path / "parts"))
    table.create_index("members", "a", "bloom")
    table.create_index("ends", "a", "minmax", where="p = 1")
    assert reasons(table.scan("a > 3")) == {Reason.PARTITION_NOT_INDEXED: ["ends on p=2/x.orc"]}
    with pytest.raises(FallbackError, match="ends on p=2"):
        table.scan("a > 3", mode="strict").count()


def test_an_index_file_of_a_partition_that_it_no_longer_covers(
    connection: LocalConnection, tmp_path: Path
) -> None:
    """A text that is no number makes texts of the partitions' values, and '01' is not '1'."""
    path = tmp_path / "parts"
    write_rows(path / "p=01" / "x.orc", 0, [i % 10 for i in range(100)])
    connection.table(str(path)).create_index("one", "a", where="p = '1'")
    write_rows(path / "p=abc" / "x.orc", 100, [3])
    table = connection.table(str(path))
    where = "a = 3 AND p = '01'"
    assert reasons(table.scan(where)) == {}
    assert ids(table.scan(where, mode="strict")) == list(range(3, 100, 10))
    # stale, and nothing else tells of it
    write_rows(path / "p=01" / "x.orc", 0, [i % 7 for i in range(150)])
    assert reasons(table.scan(where)) == {Reason.PARTITION_NOT_INDEXED: ["one on p=01/x.orc"]}
    with pytest.raises(FallbackError, match="one on p=01"):
        table.scan(where, mode="strict").count()


def test_modes_of_connections(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hindex.connect().mode is Mode.LENIENT
    strict = hindex.connect(mode="STRICT")
    assert strict.table(table.name).scan().mode is Mode.STRICT
    assert strict.table(table.name).scan(mode="lenient").mode is Mode.LENIENT
    with pytest.raises(FallbackError):
        strict.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 3")
    with pytest.raises(FallbackError):
        strict.sql(f"SELECT a FROM '{table.name}' WHERE id = 3")
    with pytest.raises(HindexError, match="Unknown mode 'sure': it is lenient, strict, prove"):
        hindex.connect(mode="sure")


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


@pytest.fixture
def constant(connection: LocalConnection, tmp_path: Path) -> Table:
    """``k`` is 7 in every row, so that the file's own statistics tell all of it; a = i % 10. Both are indexed."""
    columns = {"k": pa.array([7] * ROWS), "a": pa.array([i % 10 for i in range(ROWS)])}
    write_columns(tmp_path / "k" / "0.orc", columns)
    found = connection.table(str(tmp_path / "k"))
    found.create_index("by_k", "k")
    return found


KNOWN = {"k = 7": ROWS, "a = 3 AND k = 7": ROWS // 10, "a = 3 OR k = 8": ROWS // 10, "k = 8": 0}


def test_strict_is_of_the_indexes_that_are_asked(constant: Table) -> None:
    """What else stands in the predicate does not open an index that has nothing to tell."""
    remove_index_files(constant)
    constant.create_index("by_a", "a")
    for where, rows in KNOWN.items():
        forget()
        assert constant.scan(where, mode="strict").count() == rows, where


@pytest.mark.parametrize("is_certain", [True, False])
def test_prove_asks_every_index_of_the_predicate(
    constant: Table, monkeypatch: pytest.MonkeyPatch, is_certain: bool
) -> None:
    certain = property(lambda self: self.is_listed_fresh and is_certain)
    monkeypatch.setattr("hindex.table.snapshot.FileView.is_certainly_fresh", certain)
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


def exchange(table: Table, other: Path, column: str, *, extents: bool = True) -> None:
    """Give one data file the index file of another one's content, recorded as its own.

    :param extents: whether the manifest says the same.
    """
    store = Store.for_table(table.uri)
    manifest = store.load()
    assert manifest is not None
    index = next(item for item in manifest.indexes if item.column == column)
    wrong = LocalConnection().table(str(other))
    wrong.create_index("wrong", column, index.type)
    theirs = Store.for_table(wrong.uri)
    entry = theirs.load().files[0].index_files[0]  # type: ignore[union-attr]
    entry = entry if extents else dataclasses.replace(entry, extents=())
    name = f"{store.index_directory(index.id)}/{'0' * 32}.hidx"
    shutil.copy(theirs.absolute(entry.path), store.absolute(name))

    def change(old: Any) -> Any:
        files = []
        for file in old.files:
            own = tuple(
                dataclasses.replace(entry, path=name, index_id=index.id)
                if item.index_id == index.id and file.path == "0.orc"
                else item
                for item in file.index_files
            )
            files.append(dataclasses.replace(file, index_files=own))
        return dataclasses.replace(old, files=files)

    store.commit(change)


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
    certain = property(lambda self: self.is_listed_fresh and where == "manifest")
    monkeypatch.setattr("hindex.table.snapshot.FileView.is_certainly_fresh", certain)
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
        found = scan.to_arrow().column("id").to_pylist()
    assert found == right
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
    with pytest.raises(FallbackError, match="QUARANTINED: 1 index: bad"):
        table.scan("a = 3", mode="strict").count()
    bad = table.index("bad")
    assert bad.state is IndexState.QUARANTINED
    assert bad.status.startswith("quarantined: REFRESH INDEX builds it anew; indexes of ")
    shown = connection.sql(f"SHOW INDEXES ON '{table.name}'")
    assert isinstance(shown, pa.Table)
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


#: Questions of ``a`` that indexes answer from their pages, or of which they know the ends, with the answers where
#: a = i % 10 in two files of 300 rows.
TOLD: dict[str, tuple[Callable[[Scan], object], object]] = {
    "groups": (lambda scan: scan.value_counts("a").num_rows, 10),
    "distinct": (lambda scan: scan.distinct("a").to_pylist(), list(range(10))),
    "min": (lambda scan: scan.min("a"), 0),
    "max": (lambda scan: scan.max("a"), 9),
    "count": (lambda scan: scan.count("a"), 600),
    "order": (lambda scan: ids(scan.narrowed(None, ["id", "a"], 5).order_by("a")), [0, 10, 20, 30, 40]),
}


@pytest.fixture
def few(connection: LocalConnection, tmp_path: Path) -> Table:
    """Two files of one stripe or a few, without an index."""
    for number in range(2):
        write_rows(tmp_path / "t" / f"{number}.orc", number * 300, [i % 10 for i in range(300)])
    return connection.table(str(tmp_path / "t"))


def test_strict_refuses_what_only_the_last_stripe_falls_back_to(
    connection: LocalConnection, tmp_path: Path
) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, [i % 7 for i in range(90)])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_a", "a")
    damage_pages(table)
    for name in ("groups", "distinct", "order"):
        forget()
        with pytest.raises(FallbackError, match="CORRUPT"):
            TOLD[name][0](table.scan(mode="strict"))
    assert table.scan().distinct("a").to_pylist() == list(range(7))


@pytest.mark.parametrize("where", [None, "a >= 0"])
def test_prove_passes_over_a_damaged_index(few: Table, where: str | None) -> None:
    few.create_index("by_a", "a")
    damage_pages(few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, (ask, right) in TOLD.items():
            forget()
            assert ask(few.scan(where, mode="prove")) == right, name


@pytest.mark.parametrize(
    ("using", "values", "asked"),
    [
        pytest.param("minmax", [i % 10 + 20 for i in range(300)], ["min", "max", "order"], id="ends"),
        pytest.param("minmax", [3 + i % 3 for i in range(300)], ["min", "max", "order"], id="narrow ends"),
        pytest.param(
            "minmax", [None if i % 3 == 0 else i % 10 for i in range(300)], ["count", "order"], id="nulls"
        ),
        pytest.param("bitmap", [(i * 7 + 3) % 10 for i in range(300)], ["order"], id="rows of keys"),
    ],
)
@pytest.mark.parametrize("extents", [True, False])
def test_prove_finds_what_aggregates_and_orders_use(
    few: Table, tmp_path: Path, using: str, values: list[int | None], asked: list[str], extents: bool
) -> None:
    few.create_index("bad", "a", using)
    few.create_index("good", "a", "bloom")
    write_rows(tmp_path / "other" / "0.orc", 0, values)
    exchange(few, tmp_path / "other", "a", extents=extents)
    store = Store.for_table(few.uri)
    loaded = store.load()
    assert loaded is not None
    indexes = loaded.indexes
    for name in asked:
        ask, right = TOLD[name]
        forget()
        with pytest.warns(ProveWarning, match="values of a differ by 'bad'"):
            assert ask(few.scan(mode="prove")) == right, name
        assert few.index("bad").state is IndexState.QUARANTINED
        assert few.index("good").state is IndexState.FRESH
        # once more
        store.commit(lambda old: dataclasses.replace(old, indexes=indexes))


def test_prove_finds_a_manifest_that_is_wrong_alone(few: Table, tmp_path: Path) -> None:
    few.create_index("bad", "a")
    own = extents_of(few)
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 + 20 for i in range(300)])
    exchange(few, tmp_path / "other", "a")
    wrong = extents_of(few)
    assert own != wrong
    few.rebuild_index("bad")
    set_extents(few, wrong)
    with pytest.warns(ProveWarning, match="values of a differ by 'bad'"):
        assert TOLD["order"][0](few.scan(mode="prove")) == TOLD["order"][1]


def extents_of(table: Table) -> tuple[Any, ...]:
    manifest = Store.for_table(table.uri).load()
    assert manifest is not None
    return next(file for file in manifest.files if file.path == "0.orc").index_files[0].extents


def set_extents(table: Table, extents: tuple[Any, ...]) -> None:
    def change(old: Any) -> Any:
        files = [
            dataclasses.replace(
                file,
                index_files=tuple(dataclasses.replace(item, extents=extents) for item in file.index_files),
            )
            if file.path == "0.orc"
            else file
            for file in old.files
        ]
        return dataclasses.replace(old, files=files)

    Store.for_table(table.uri).commit(change)


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

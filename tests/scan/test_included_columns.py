"""Columns that indexes include: rows against the table as it was written, and what was read."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hindex.api.index import IndexSpec
from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.errors import ColumnError, FallbackError, HindexWarning, IndexExistsError, StatementError
from hindex.explanations.explanation import ReadPath, RowCount
from hindex.maintain.verification import ProveWarning
from hindex.orc import OrcReader
from hindex.plan.modes import Mode
from hindex.plan.reasons import Reason
from hindex.plan.time_zones import TimeZones
from hindex.scan import included_columns
from hindex.scan.lookup_cost import block_micros, column_micros
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.spark.tasks import group_tasks, read_group
from hindex.store.store import Store
from tests.scan.wrong_indexes import exchange
from tests.support.cases import cases
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import APART, keep_stat, reasons, write_columns

#: Rows of each of the two files, in some stripes of both.
ROWS = 4000
INCLUDED = ["k", "n", "s", "tags", "r.p", "x"]


def columns(first: int, seed: int = 0) -> dict[str, pa.Array]:
    """The columns of a file: few rows have the same ``k``, and the others have nulls."""
    chance = np.random.default_rng(first + seed)
    numbers = chance.integers(0, 10_000, ROWS)
    missing = chance.random((5, ROWS)) < 0.1

    def some(values: list[object], data_type: pa.DataType, row: int) -> pa.Array:
        return pa.array(
            [None if gone else value for value, gone in zip(values, missing[row].tolist(), strict=True)],
            data_type,
        )

    items = numbers.tolist()
    start = datetime.datetime(2024, 1, 1)
    return {
        "id": pa.array(range(first, first + ROWS), pa.int64()),
        "k": pa.array(chance.integers(0, 500, ROWS), pa.int32()),
        "n": some(items, pa.int32(), 0),
        "s": some([f"text {n} é" for n in items], pa.string(), 1),
        "tags": some([[str(n), None][: n % 3] for n in items], pa.list_(pa.string()), 2),
        "r": some(
            [{"p": n / 8, "q": n} for n in items], pa.struct([("p", pa.float64()), ("q", pa.int64())]), 3
        ),
        "x": some([[float("nan"), -0.0, n / 3][n % 3] for n in items], pa.float64(), 4),
        "t": pa.array([start + datetime.timedelta(minutes=n) for n in items], pa.timestamp("ns")),
    }


@pytest.fixture(autouse=True)
def reads_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read blocks whatever they cost: the data of files as small as here costs less."""
    monkeypatch.setattr(included_columns, "block_micros", lambda *_, **__: 0.0)


@pytest.fixture
def table(tmp_path: Path, connection: LocalConnection) -> Table:
    """``k`` has a BITMAP index, and a ROWS index has `INCLUDED`."""
    for number in range(2):
        write_columns(tmp_path / f"{number}.orc", columns(number * ROWS), stripe=64 << 10, stride=1000)
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", include=INCLUDED)
    return table


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return pa.concat_tables([pa.table(columns(number * ROWS)) for number in range(2)])


def same(scan: Scan, expected: pa.Table) -> bool:
    """Compare texts, as NaN does not equal itself."""
    return str(scan.to_arrow().to_pylist()) == str(expected.to_pylist())


def included(scan: Scan) -> dict[str, tuple[str, ...]]:
    return dict(scan.explain().included)


def test_rows_are_read_from_blocks(table: Table, data: pa.Table, opened: list[OrcReader]) -> None:
    scan = table.scan("k = 77", ["n", "s", "tags", "x"])
    expected = data.filter(pc.equal(data["k"], 77))
    assert len(expected) > 5
    assert same(scan, expected.select(["n", "s", "tags", "x"]))
    assert sum(reader.counts.bytes_decompressed for reader in opened) == 0
    explanation = scan.explain()
    assert explanation.path is ReadPath.INDEX_ROWS
    assert explanation.bytes == RowCount(
        0, sum(file.stat().st_size for file in Path(table.uri).glob("*.orc"))
    )
    assert dict(explanation.included) == {"by_k_rows": ("n", "s", "tags", "x")}
    assert "read from the blocks of by_k_rows: n, s, tags, x" in str(explanation)
    assert explanation.to_json()["included"] == {"by_k_rows": ["n", "s", "tags", "x"]}


def test_other_columns_are_read_from_data(table: Table, data: pa.Table) -> None:
    scan = table.scan("k IN (3, 444)", ["id", "s", "r"])
    assert same(
        scan, data.filter(pc.is_in(data["k"], pa.array([3, 444], pa.int32()))).select(["id", "s", "r"])
    )
    assert included(scan) == {"by_k_rows": ("s",)}
    assert scan.explain().path is ReadPath.SELECTED_ROWS


def test_fields_are_included(table: Table, data: pa.Table) -> None:
    scan = table.scan("k = 5", ["r.p"])
    expected = pc.struct_field(data.filter(pc.equal(data["k"], 5))["r"], "p")
    assert str(scan.to_arrow().column(0).to_pylist()) == str(expected.to_pylist())
    assert included(scan) == {"by_k_rows": ("r.p",)}


def test_conditions_are_checked_on_blocks(table: Table, data: pa.Table, opened: list[OrcReader]) -> None:
    scan = table.scan("k < 9 AND n > 5000", ["s"])
    expected = data.filter(pc.and_(pc.less(data["k"], 9), pc.greater(data["n"], 5000)))
    assert same(scan, expected.select(["s"]))
    assert sum(reader.counts.bytes_decompressed for reader in opened) == 0
    assert set(included(scan)["by_k_rows"]) == {"k", "n", "s"}


def test_what_costs_less_is_read(
    tmp_path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch, opened: list[OrcReader]
) -> None:
    """Few scattered rows of many columns from blocks; many rows, and a narrow column beside a wide one, from data."""
    monkeypatch.setattr(included_columns, "block_micros", block_micros)
    chance = np.random.default_rng(1)
    rows = 60_000
    names = [f"c{at}" for at in range(8)]
    columns = {"k": pa.array(chance.integers(0, 6000, rows))}
    columns |= {name: pa.array(chance.integers(0, 1 << 60, rows)) for name in names}
    columns["wide"] = pa.array([chance.bytes(300).hex() for _ in range(rows)])
    write_columns(tmp_path / "0.orc", columns)
    table = connection.table(str(tmp_path))
    table.create_indexes([IndexSpec("by_k", "k"), IndexSpec("rows", [*names, "wide"], "rows")])
    for where, read, is_included in (
        ("k = 7", names, True),
        ("k = 7", [*names, "wide"], True),
        ("k < 5000", names, False),
        ("k >= 0", names, False),
        ("k < 60", ["c0"], False),
    ):
        scan = table.scan(where, read)
        assert bool(included(scan)) is is_included, (where, read)
        for reader in opened:
            reader.counts.bytes_decompressed = 0
        assert scan.to_arrow().equals(table.scan(where, read, mode="prove").to_arrow())


@pytest.mark.parametrize(
    ("rows", "columns", "is_worthwhile"),
    [(25, 5, True), (25, 16, True), (600, 5, True), (20_000, 5, False), (1_000_000, 16, False)],
)
def test_cost(rows: int, columns: int, is_worthwhile: bool) -> None:
    """The stripe has a million rows, 16 columns of 25 MB together, and row groups of 10,000 rows."""
    groups = min(rows, 100)
    from_blocks = block_micros(min(rows, 1_000_000 // 64), 16, 2700)
    from_data = column_micros([25_000_000 / 16] * columns, groups, groups / 100, 256 << 10)
    assert (from_blocks < from_data) is is_worthwhile


@pytest.mark.parametrize(("megabytes", "is_worthwhile"), [(1, False), (200, True)])
def test_cost_of_requests(megabytes: int, is_worthwhile: bool) -> None:
    """A tenth of 5 columns is read. The requests for the index take as long as reading 5 MB of data."""

    def is_less(*, is_remote: bool) -> bool:
        from_data = column_micros([megabytes * 1_000_000 / 5] * 5, 10, 0.1, 0, is_remote=is_remote)
        return block_micros(10, 5, 1000, is_remote=is_remote) < from_data

    assert is_less(is_remote=False)
    assert is_less(is_remote=True) is is_worthwhile


def test_indexes_that_are_not_used_are_named(table: Table, data: pa.Table) -> None:
    """Only in plans that read a column of theirs."""
    table.drop_index("by_k_rows")
    table.create_index("later", ["n", "s"], "rows", deferred=True)
    expected = data.filter(pc.equal(data["k"], 7))
    for columns, named in ((["s"], ["later"]), (["id"], [])):
        scan = table.scan("k = 7", columns)
        assert same(scan, expected.select(columns))
        assert reasons(scan) == ({Reason.NOT_INCLUDED: named} if named else {})
        # indexes answer the condition
        assert table.scan("k = 7", columns, mode="strict").to_arrow().num_rows == len(expected)
    assert reasons(table.scan("n = 7", ["id"])).keys() == {Reason.NOT_INCLUDED, Reason.NO_INDEX}
    assert reasons(table.scan(columns=["s"])) == {}


@pytest.mark.slow
def test_random_selections(table: Table, data: pa.Table, rng: np.random.Generator) -> None:
    """Selections have few or many rows; some are proved."""
    used = 0
    number = cases(60, 500)
    for _ in range(number):
        names = rng.choice(
            ["id", "n", "s", "tags", "r", "x"], int(rng.integers(1, 6)), replace=False
        ).tolist()
        keys = rng.integers(0, 500, int(rng.choice([1, 2, 20, 300]))).tolist()
        least = int(rng.choice([-1, 5000]))
        where = f"k IN ({', '.join(map(str, keys))})" + (f" AND n > {least}" if least > 0 else "")
        matches = pc.is_in(data["k"], pa.array(keys, pa.int32()))
        if least > 0:
            matches = pc.and_(matches, pc.greater(data["n"], least))
        scan = table.scan(where, names, mode=str(rng.choice(["lenient", "prove"])))
        assert same(scan, data.filter(matches).select(names)), (where, names)
        used += bool(included(table.scan(where, names)))
    assert used > number * 2 / 3


def test_orders_and_groups(table: Table, data: pa.Table, opened: list[OrcReader]) -> None:
    expected = data.filter(pc.equal(data["k"], 77)).sort_by([("n", "descending")])
    first = table.scan("k = 77", ["n"], limit=3).order_by("n", descending=True).to_arrow()
    assert first.to_pylist() == expected.select(["n"])[:3].to_pylist()
    counts = table.scan("k = 77").value_counts("n")
    assert counts.num_rows == len(set(expected["n"].to_pylist()))
    assert sum(reader.counts.bytes_decompressed for reader in opened) == 0


def test_times_are_wall_clocks(tmp_path: Path, connection: LocalConnection) -> None:
    write_columns(tmp_path / "0.orc", columns(0), stride=1000)
    table = connection.table(str(tmp_path))
    table.create_indexes([IndexSpec("by_k", "k"), IndexSpec("rows", ["t", "n"], "rows")])
    scan = table.scan("k = 7", ["t", "n"])
    assert included(scan) == {"rows": ("t", "n")}
    plain = scan.to_arrow()
    assert plain.equals(table.scan("k = 7", ["t", "n"], mode="prove").to_arrow())
    in_utc = scan.with_zones(lambda: TimeZones("UTC", "Asia/Tokyo"))
    assert included(in_utc) == {"rows": ("t", "n")}
    from_data = table.scan("k = 7", ["t", "n"], mode="prove").with_zones(
        lambda: TimeZones("UTC", "Asia/Tokyo")
    )
    assert in_utc.to_arrow().equals(from_data.to_arrow())
    assert in_utc.schema.field("t").type == pa.timestamp("us", "UTC")
    # an instant depends on the reader's zone
    in_zone = scan.with_zones(lambda: TimeZones("Europe/Berlin", "Asia/Tokyo"))
    assert included(in_zone) == {"rows": ("n",)}
    off = table.scan("k = 7", ["t", "n"], mode="prove").with_zones(
        lambda: TimeZones("Europe/Berlin", "Asia/Tokyo")
    )
    assert in_zone.to_arrow().equals(off.to_arrow())


def rows_file(table: Table) -> Path:
    store = Store.for_table(table.uri)
    manifest = store.load()
    assert manifest is not None
    index = manifest.index("by_k_rows")
    (file, *_) = (item for entry in manifest.files for item in entry.index_files if item.index_id == index.id)
    return Path(store.absolute(file.path))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[10:-2000:50] = bytes(len(content[10:-2000:50]))
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [Path.unlink, _cut, _damage])
def test_damage_is_noted_and_data_read(table: Table, data: pa.Table, harm: Callable[[Path], None]) -> None:
    harm(rows_file(table))
    scan = table.scan("k < 40", ["n", "s"])
    assert same(scan, data.filter(pc.less(data["k"], 40)).select(["n", "s"]))
    strict = table.scan("k < 40", ["n", "s"], mode="strict")
    (group,) = group_tasks(strict.plan(), 1)
    with pytest.raises(FallbackError, match=r"by_k_rows on 0\.orc"):
        strict.to_arrow()
    with pytest.raises(FallbackError, match=r"by_k_rows on 0\.orc"):
        list(read_group(group, mode=Mode.STRICT))
    analyzed = table.scan("k < 40", ["n", "s"]).explain(analyze=True)
    assert "by_k_rows on 0.orc" in [note.subject for note in analyzed.notes if note.reason.is_fallback]
    (problem, *_) = table.check_indexes(["by_k_rows"], verify=True)[0].problems
    assert "REBUILD" in problem or "rebuild" in problem
    table.rebuild_index("by_k_rows")
    assert not table.check_indexes(["by_k_rows"], verify=True)[0].problems


def test_verify_and_prove_report_wrong_values(table: Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_columns(other / "0.orc", columns(0, seed=1), stripe=64 << 10, stride=1000)
    exchange(table, other, ", ".join(INCLUDED))
    (problem, *_) = table.check_indexes(["by_k_rows"], verify=True)[0].problems
    assert problem.startswith("wrong values of ")
    with pytest.warns(ProveWarning, match="values differ by 'by_k_rows'"):
        table.scan("k = 7", ["s"], mode="prove").to_arrow()


def test_changed_and_new_files(table: Table, tmp_path: Path) -> None:
    write_columns(tmp_path / "1.orc", columns(3 * ROWS), stripe=64 << 10, stride=1000)
    write_columns(tmp_path / "2.orc", columns(2 * ROWS), stripe=64 << 10, stride=1000)
    now = pa.concat_tables([pa.table(columns(at * ROWS)) for at in (0, 3, 2)])
    expected = now.filter(pc.equal(now["k"], 77)).select(["n", "s"])
    for _ in range(2):
        scan = table.scan("k = 77", ["n", "s"])
        assert same(scan, expected)
        assert {Reason.STALE_FILE, Reason.NEW_FILE} <= set(
            reasons(scan)
        ) or scan.explain().path is ReadPath.INDEX_ROWS
        table.refresh_indexes()
    assert table.index("by_k_rows").status == "fresh"
    assert table.scan("k = 77", ["n", "s"]).explain().path is ReadPath.INDEX_ROWS


def test_statements(table: Table, connection: LocalConnection) -> None:
    name = f"'{table.uri}'"
    estimate = connection.sql(f"CREATE INDEX i USING bitmap ON {name} (id) INCLUDE (t, `s`) DRY RUN")
    connection.sql(f"CREATE INDEX i USING bitmap ON {name} (id) INCLUDE (t, `s`)")
    built = [table.index(item) for item in ("i", "i_rows")]
    assert [(item.type, item.column) for item in built] == [("BITMAP", "id"), ("ROWS", "t, s")]
    size = sum(item.size_bytes for item in built)
    assert abs(estimate.index_bytes - size) < 0.2 * size  # type: ignore[union-attr]
    connection.sql(f"CREATE INDEX wide USING rows ON {name} (id, r.q) WITH ('rows_per_block' = '16')")
    wide = table.index("wide")
    assert (wide.column, wide.properties) == ("id, r.q", {"rows_per_block": "16"})
    with pytest.raises(IndexExistsError):
        connection.sql(f"CREATE INDEX again USING rows ON {name} (id, r.q)")
    with raises(ColumnError):
        connection.sql(f"CREATE INDEX e USING rows ON {name} (n + 1)")
    with pytest.raises(StatementError, match="expected a column in INCLUDE"):
        connection.sql(f"CREATE INDEX e USING bitmap ON {name} (n) INCLUDE (n + 1)")
    with raises(ColumnError):
        connection.sql(f"CREATE INDEX e USING rows ON {name} (n) INCLUDE (s)")
    with raises(ColumnError):
        table.create_index("e", "n", include="s")


def test_columns_are_included_once(table: Table) -> None:
    table.drop_index("by_k")
    with pytest.warns(HindexWarning, match="'by_k_rows' of .* includes s, n already"):
        table.create_index("by_k", "k", include=["s", "n"])
    assert table.index_names() == ["by_k_rows", "by_k"]
    assert included(table.scan("k = 77", ["n", "s"])) == {"by_k_rows": ("n", "s")}
    table.create_index("other", ["s", "t"], "rows")
    assert included(table.scan("k = 77", ["s", "t"])) == {"other": ("s", "t")}
    assert included(table.scan("k = 77", ["s"])) == {"other": ("s",)}
    assert included(table.scan("k = 77", ["n", "s", "t"])) == {"other": ("s", "t"), "by_k_rows": ("n",)}


def test_one_column(table: Table, data: pa.Table) -> None:
    """It has no index that answers conditions on it, and no query says that one is damaged."""
    table.create_index("t_rows", ["t"], "rows")
    table.create_index("later", ["id"], "rows", deferred=True)
    where = "k < 20 AND t < TIMESTAMP '2024-01-03 00:00:00' AND id >= 0"
    scan = table.scan(where, ["s"])
    assert set(reasons(scan)) == {Reason.NO_INDEX, Reason.NOT_INCLUDED}
    assert scan.count() == table.scan(where, ["s"], mode="prove").count() > 0
    advice = table.advise([f"SELECT s FROM '{table.uri}' WHERE id = 5"])
    assert [item.column for item in advice.create] == ["id"]


@pytest.mark.parametrize(
    ("where", "names"), [("k = 7 AND n > 500", ["k"]), ("k = 7", ["s"]), ("k IN (3, 7)", ["x"])]
)
def test_prove_names_the_wrong_index(
    table: Table, tmp_path_factory: pytest.TempPathFactory, where: str, names: list[str]
) -> None:
    table.create_index("right", ["id", "t"], "rows")
    other = tmp_path_factory.mktemp("other")
    write_columns(other / "0.orc", columns(0, seed=1), stripe=64 << 10, stride=1000)
    exchange(table, other, ", ".join(INCLUDED))
    with pytest.warns(ProveWarning, match="values differ by 'by_k_rows'"):
        rows = table.scan(where, [*names, "id"], mode="prove").to_arrow()
    assert table.index("by_k_rows").status.startswith("quarantined")
    assert table.index("right").status == "fresh"
    scan = table.scan(where, [*names, "id"])
    assert str(scan.to_arrow().to_pylist()) == str(rows.to_pylist())
    assert "by_k_rows" not in included(scan)


def test_a_replaced_file_of_the_same_length_and_time_is_read(
    tmp_path: Path, connection: LocalConnection
) -> None:
    path = tmp_path / "0.orc"
    keys = pa.array([at % 50 for at in range(len(APART))])
    write_columns(path, {"k": keys, "n": pa.array(APART)}, codec="none")
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", include=["n"])
    assert table.scan("k = 10", ["n"]).to_arrow()["n"].to_pylist() == APART[10::50]
    later = [value + 1 for value in APART]
    keep_stat(path, lambda: write_columns(path, {"k": keys, "n": pa.array(later)}, codec="none"))
    scan = table.scan("k = 10", ["n"])
    assert scan.to_arrow()["n"].to_pylist() == later[10::50]
    assert reasons(scan) == {Reason.STALE_FILE: ["0.orc"]}


def test_a_file_that_is_replaced_after_the_plan_is_read(tmp_path: Path, connection: LocalConnection) -> None:
    path = tmp_path / "0.orc"
    keys = pa.array([at % 50 for at in range(len(APART))])
    write_columns(path, {"k": keys, "n": pa.array(APART)}, codec="none")
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", include=["n"])
    (task,) = table.scan("k = 10", ["n"]).plan().tasks
    later = [value + 1 for value in APART]
    write_columns(path, {"k": keys, "n": pa.array(later)}, codec="none")
    with ScanTaskReader(task) as reader:
        batches = [reader.read(reader.look_up(stripe)) for stripe in reader.stripes]
    assert pa.Table.from_batches(batches)["n"].to_pylist() == later[10::50]
    assert {note.reason for note in reader.notes} == {Reason.STALE_FILE}


def test_partitions(tmp_path: Path, connection: LocalConnection) -> None:
    for name in ("a", "b"):
        write_columns(tmp_path / f"p={name}" / "0.orc", columns(0))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", where="p = 'a'", include=["n"])
    assert table.index("by_k_rows").where == "p = 'a'"
    assert included(table.scan("k = 77", ["n", "p"])) == {"by_k_rows": ("n",)}
    assert included(table.scan("k = 77 AND p = 'b'", ["n"])) == {}
    assert table.scan("k = 77", ["n"], mode="prove").count() == table.scan("k = 77", ["n"]).count()
    table.create_index("later", "id", include=["s"], deferred=True)
    assert table.index("later_rows").status.startswith("deferred")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["n", "N"], "'n' is named twice"),
        ([], "at least one column"),
        (["nope"], "nope"),
        (["p"], "partition column"),
    ],
)
def test_what_cannot_be_included(
    tmp_path: Path, connection: LocalConnection, names: list[str], message: str
) -> None:
    write_columns(tmp_path / "p=1" / "0.orc", {"n": pa.array([1, 2])})
    table = connection.table(str(tmp_path))
    with pytest.raises(ColumnError, match=message):
        table.create_index("rows", names, "rows")


def test_files_without_a_column_have_no_blocks(table: Table, tmp_path: Path) -> None:
    """Their other columns are read from the data."""
    names = ["id", "k", "s"]
    write_columns(tmp_path / "2.orc", {name: columns(0)[name] for name in names})
    table.refresh_indexes()
    scan = table.scan("k = 77", ["s", "n"])
    rows = scan.to_arrow().to_pylist()
    assert rows == table.scan("k = 77", ["s", "n"], mode="prove").to_arrow().to_pylist()
    assert table.check_indexes(["by_k_rows"])[0].problems == ()
    assert included(scan) == {"by_k_rows": ("n", "s")}

"""Scans choose indexes and their order by the pages of index files that they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from hindex.index.bitmap import BitmapReader
from hindex.index.index_type import Bounds
from hindex.index.page_cache import shared_cache
from hindex.maintain.results import IndexState
from hindex.maintain.verification import ProveWarning
from hindex.plan.reasons import Reason
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import reasons
from tests.support.work import forget, scan_counts
from tests.support.writers import write_pyarrow

ROWS = 60_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One stripe of six row groups: ``mixed`` has no order, ``sorted`` has, and ``few`` has ten values."""
    rng = np.random.default_rng(5)
    columns = {
        "id": np.arange(ROWS),
        "mixed": rng.integers(0, 40_000, ROWS) * 2,
        "sorted": np.sort(rng.integers(0, 40_000, ROWS)) * 2,
        "few": rng.integers(0, 10, ROWS),
    }
    result = tmp_path_factory.mktemp("cost") / "t"
    write_pyarrow(result / "0.orc", pa.table(columns), "none", stripe=1 << 26, stride=10_000)
    return result


@pytest.fixture
def table(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    local_build.install(monkeypatch)
    return LocalConnection(str(tmp_path / "store")).table(str(path))


def pages(scan: Scan, *, count: bool = False) -> int:
    """Pages of index files that a scan's rows, or only counting them, take with nothing in memory."""
    scan.plan()
    forget()
    before = shared_cache().counts
    if count:
        scan.count()
    else:
        scan.to_arrow()
    return shared_cache().counts.since(before).pages_read


def test_a_lookup_that_costs_more_than_reading_the_rows_is_not_done(table: Table) -> None:
    table.create_indexes([IndexSpec("m", "mixed"), IndexSpec("s", "sorted")])
    values = table.scan(None, ["id", "mixed", "sorted"]).to_arrow()
    # the statistics leave one row group open; and a column that is read anyway costs nothing to check
    for where, column, index in (("sorted < 40000", "id", "s"), ("mixed < 40000", "mixed", "m")):
        scan = table.scan(where, [column])
        assert pages(scan) == 0, where
        messages = {note.reason: note for note in scan.explain().notes}
        assert messages[Reason.NOT_SELECTIVE].subject == index
        matching = values.filter(pa.compute.less(values.column(where.split()[0]), 40_000))
        assert scan.to_arrow().column(column).equals(matching.column(column))
    # it is done where it leaves few rows, and where nothing else has to be read, however many match
    for where in ("mixed < 4000", "mixed = 77", "mixed IN (4, 6, 8)", "mixed <> 4", "mixed >= 4000"):
        assert pages(table.scan(where, ["id"])) > 0, where
        assert Reason.NOT_SELECTIVE not in reasons(table.scan(where, ["id"])), where
    for where in ("mixed < 18000", "mixed < 40000", "mixed >= 57600"):
        assert pages(table.scan(where, ["id"])) > 0, where
    assert pages(table.scan("mixed < 40000", []), count=True) > 0
    # most rows match, and the column is read anyway
    assert pages(table.scan("mixed >= 18000", ["mixed"])) == 0
    assert pages(table.scan("mixed >= 18000", ["id"])) > 0


def test_counting_asks_every_index_whatever_the_columns(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("m", "mixed")
    values = table.scan(None, ["mixed"]).to_arrow().column("mixed").to_numpy()
    opened: list[ScanTaskReader] = []
    real = ScanTaskReader.__init__

    def init(self: ScanTaskReader, task: ScanTask) -> None:
        real(self, task)
        opened.append(self)

    monkeypatch.setattr(ScanTaskReader, "__init__", init)
    for columns in (None, ["id"], ["mixed"], []):
        for where, kept in (("mixed < 40000", values < 40_000), ("mixed >= 18000", values >= 18_000)):
            scan = table.scan(where, columns)
            assert scan.count() == int(kept.sum())
            assert scan.exists()
    assert opened
    for task in opened:
        counts = task.reader.counts
        assert counts.row_groups + counts.whole_columns == 0


def test_an_index_that_tells_what_the_file_tells_is_not_asked(table: Table) -> None:
    table.create_index("s", "sorted")
    scan = table.scan("sorted BETWEEN 20000 AND 55000", ["id"])
    assert pages(scan) == 0
    assert "other indexes and statistics rule out about as much" in next(
        note.detail for note in scan.explain().notes if note.reason is Reason.NOT_SELECTIVE
    )
    values = table.scan(None, ["id", "sorted"]).to_arrow()
    inside = pa.compute.and_(
        pa.compute.greater_equal(values.column("sorted"), 20_000),
        pa.compute.less_equal(values.column("sorted"), 55_000),
    )
    assert scan.to_arrow().column("id").equals(values.filter(inside).column("id"))
    assert pages(table.scan("sorted = 20000", ["id"])) == 1
    assert pages(table.scan("sorted BETWEEN 20000 AND 55000", []), count=True) > 1


def test_pages_count_beside_rows(table: Table) -> None:
    """A value in every row group: nearly each page would be read, and each row group all the same."""
    table.create_index("s", "id", properties={"values_per_page": "100"})
    everywhere = ", ".join(str(i) for i in range(17, ROWS, 100))
    scan = table.scan(f"id IN ({everywhere})", ["few"])
    assert pages(scan) == 0
    assert Reason.NOT_SELECTIVE in reasons(scan)
    few = table.scan(None, ["few"]).to_arrow().column("few")
    assert scan.to_arrow().column("few").equals(few.take(list(range(17, ROWS, 100))))
    assert pages(table.scan("id IN (17, 2017, 4017)", ["few"])) == 3
    assert pages(scan, count=True) == 600


def test_what_the_file_as_a_whole_decides_takes_no_index_file(table: Table) -> None:
    table.create_index("m", "mixed")
    for where, kept in (("mixed >= 0", ROWS), ("mixed <= 79998", ROWS), ("mixed IS NOT NULL", ROWS)):
        scan = table.scan(where, ["id"])
        result = scan_counts(scan)
        assert (result["rows"], result["index_files"]) == (kept, 0), where
        assert scan.count() == kept
        assert scan.explain().exact, where
    # a part of an AND that is decided leaves the other to its index
    result = scan_counts(table.scan("mixed >= 0 AND mixed = 78", ["id"]))
    values = table.scan(None, ["mixed"]).to_arrow().column("mixed").to_numpy()
    assert (result["rows"], result["index_files"]) == (int((values == 78).sum()), 1)


def test_a_column_that_is_read_anyway_is_asked_for_fewer_rows(table: Table) -> None:
    table.create_index("m", "mixed")
    for column in ("id", "mixed"):
        assert pages(table.scan("mixed < 12000", [column])) > 0, column
    # more than a third of the rows
    assert pages(table.scan("mixed < 38000", ["id"])) > 0
    assert pages(table.scan("mixed < 38000", ["mixed"])) == 0


def test_the_cheaper_indexes_of_a_column_go_first(table: Table) -> None:
    table.create_index("bits", "mixed")
    alone = pages(table.scan("mixed = 77", ["id"]))
    assert alone == 1
    table.create_index("filter", "mixed", "bloom")
    # odd values do not occur: the filter says so, and there is nothing left to ask
    odd = table.scan("mixed = 77", ["id"])
    assert [item.index for item in odd.explain().tree.answer.sources] == ["filter"]  # type: ignore[union-attr]
    table.create_index("ends", "mixed", "minmax")
    beyond = table.scan("mixed = 90000", ["id"])
    assert pages(beyond) == 0
    there = table.scan(f"mixed = {table.scan(None, ['mixed'], 1).to_arrow().column(0)[0]}", ["id"])
    assert [item.index for item in there.explain().tree.answer.sources] == ["ends", "filter", "bits"]  # type: ignore[union-attr]


@pytest.mark.parametrize("turned", [False, True])
def test_conditions_that_leave_few_rows_go_first_and_nothing_is_asked_after_none(
    table: Table, turned: bool
) -> None:
    table.create_indexes([IndexSpec("m", "mixed"), IndexSpec("f", "few")])

    def both(first: str, second: str) -> Scan:
        parts = [first, second]
        return table.scan(" AND ".join(reversed(parts) if turned else parts), ["id"])

    # one page tells that no row has an odd value
    assert pages(both("mixed = 4001", "few = 3")) == 1
    assert pages(both("mixed = 4001", "few IN (1, 2, 3)")) == 1
    # the same as an OR needs both
    parts = ["mixed = 4001", "few = 3"]
    assert pages(table.scan(" OR ".join(reversed(parts) if turned else parts), ["id"])) > 1


def test_what_is_cheap_is_asked_of_all_conditions_before_what_is_not(table: Table) -> None:
    table.create_indexes([IndexSpec("m", "mixed"), IndexSpec("ends", "few", "minmax")])
    # the ends of few rule everything out, wherever it stands, so that no page of the other index is read
    assert pages(table.scan("mixed = 4000 AND few > 10", ["id"])) == 0
    assert pages(table.scan("few > 10 AND mixed = 4000", ["id"])) == 0
    assert pages(table.scan("mixed = 4000 AND few > 8", ["id"])) >= 1


def test_a_proof_is_of_what_is_run(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting asks an index that reading rows leaves alone, and a proof is of the one that was asked for."""
    table.create_index("m", "mixed")
    right = table.scan("mixed < 40000").count()
    real = BitmapReader.lookup
    wrong = lambda *asked: Bounds.exactly(BitMap(real(*asked).lower[5:]))  # noqa: E731
    monkeypatch.setattr(BitmapReader, "lookup", wrong)
    assert table.scan("mixed < 40000").count() == right - 5
    asked: list[tuple[str, Callable[[Scan], Any]]] = [
        ("rows", lambda scan: scan.count()),
        ("rows", lambda scan: scan.exists()),
        ("rows of mixed < 40000", lambda scan: scan.to_arrow()),
    ]
    for what, ask in asked:
        scan = table.scan("mixed < 40000", mode="prove")
        with pytest.warns(ProveWarning, match="differ by 'm'; 5 rows missing"):
            result = ask(scan)
        assert (result.num_rows if isinstance(result, pa.Table) else result) in (right, True)
        assert scan.proof is not None
        assert [item.what for item in scan.proof.disagreements] == [what]
        assert table.index("m").state is IndexState.QUARANTINED
        table.rebuild_index("m")

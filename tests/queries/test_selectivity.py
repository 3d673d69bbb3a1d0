"""Estimates of the rows that match: exact ones of all indexes, and those of a sample of many files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindex.queries.selectivity import SelectivityEstimate, estimate_selectivity
from hindex.queries.table_scans import plan_table_scan
from hindex.sql import parse_predicate
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows

ROWS = 20


def estimate(path: Path, connection: LocalConnection, files: int, max_share: float) -> SelectivityEstimate:
    """Estimate the rows of ``a = 3`` in files that have one such row each."""
    for number in range(files):
        write_rows(path / f"{number:02}.orc", number * ROWS, list(range(ROWS)))
    table = connection.table(str(path))
    table.create_index("by_a", "a", "bitmap")
    snapshot = table.snapshot()
    scan, plan = plan_table_scan(table, snapshot, parse_predicate("a = 3"), ["id"], lambda: None)
    assert len(plan.tasks) == files
    return estimate_selectivity(scan, plan, max_share)


@pytest.mark.parametrize("files", [1, 5, 16])
def test_all_files_of_a_few_are_read_and_not_looked_up_again(
    tmp_path: Path, connection: LocalConnection, files: int
) -> None:
    result = estimate(tmp_path / "t", connection, files, 1.0)
    assert (result.rows.kept, result.rows.total) == (files, files * ROWS)
    assert result.units is not None
    assert [(task.task.path, list(unit.bounds.upper)) for task, unit in result.units] == [
        (f"{number:02}.orc", [3]) for number in range(files)
    ]


@pytest.mark.parametrize("files", [17, 40])
def test_a_sample_of_many_files_gives_no_rows(
    tmp_path: Path, connection: LocalConnection, files: int
) -> None:
    """It stands for all files, and has the stripes of some only."""
    result = estimate(tmp_path / "t", connection, files, 1.0)
    assert (result.rows.kept, result.rows.total) == (files, files * ROWS)
    assert result.units is None


@pytest.mark.parametrize("files", [5, 40])
def test_an_estimate_ends_once_there_are_too_many(
    tmp_path: Path, connection: LocalConnection, files: int
) -> None:
    result = estimate(tmp_path / "t", connection, files, 0.01)
    assert result.rows.share is not None
    assert result.rows.share > 0.01
    assert result.units is None

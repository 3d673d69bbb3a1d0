"""The cache of unselective predicates: one lookup each, and another after a change of files or indexes."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.queries import selectivity
from hindex.queries.query_execution import run_query
from hindex.queries.query_plan import plan_query
from hindex.queries.selectivity import DECLINED
from hindex.scan.task_runner import Runner
from hindex.sql.queries import parse_query
from hindex.table.listing import DataFiles
from tests.support.queries import count_calls
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_an_unselective_predicate_is_looked_up_once(
    tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is cached until a file or an index changes; a selective predicate needs a lookup each time."""
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.1)
    path = tmp_path / "t"
    for number in range(2):
        write_columns(path / f"{number}.orc", {"id": pa.array([7] * 10), "a": pa.array([3] * 9 + [5])})
    table = tables.table(str(path))
    table.create_index("i", "a")
    text = f"SELECT sum(id) AS n FROM '{path}' WHERE a = {{}}"

    def run(value: int) -> tuple[bool, int, int | None]:
        """Return whether a query reads the index, the number of lookups, and the sum."""
        lookups.clear()
        query = parse_query(text.format(value))
        assert query is not None
        answer = run_query(tables, query).collect()[0]["n"]
        num_lookups = len(lookups)
        (planned,) = plan_query(tables, query)
        if planned.scan is None:
            assert planned.decision.because == "NOT_SELECTIVE: more than 10.0% of the rows may match"
            assert planned.decision.rows is not None
            assert (planned.decision.rows.kept, planned.decision.rows.total) == (18, 20)
            assert len(lookups) == num_lookups
        else:
            # the lookup also serves for reading
            assert planned.units is not None
        return planned.scan is not None, num_lookups, answer

    assert run(3) == (False, 1, 126)
    assert run(3) == (False, 0, 126)
    # another predicate, which is selective: its scan reads the index
    for _ in range(2):
        assert run(5) == (True, 2, 14)
    for number in range(2):
        write_columns(path / f"{number}.orc", {"id": pa.array([7] * 10), "a": pa.array([4] * 9 + [5])})
    table.refresh_indexes()
    assert run(3) == (True, 0, None)
    assert run(4) == (False, 1, 126)
    table.rebuild_index("i")
    assert run(4) == (False, 1, 126)


def fallback_reason(
    hx: hindex.Connection, path: Path, condition: str, expressions: str = "sum(id)"
) -> str | None:
    """Return the reason for which Spark reads a table, or None if hindex does."""
    query = parse_query(f"SELECT {expressions} FROM '{path}' WHERE {condition}")
    assert query is not None
    (planned,) = plan_query(hx, query)
    return planned.decision.because or None


def test_keys_of_the_cache(
    tables: hindex.Connection, wide: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    not_selective = "NOT_SELECTIVE: more than 10.0% of the rows may match"
    assert (fallback_reason(tables, wide, "a = 3"), len(lookups)) == (not_selective, 1)
    # the selected expressions are not part of the key
    assert (fallback_reason(tables, wide, "a = 3", "max(b), sum(id)"), len(lookups)) == (not_selective, 1)
    # nor is the connection's mode, which queries that Spark runs ignore
    strict = hindex.connect(spark=spark, mode="strict")
    assert (fallback_reason(strict, wide, "a = 3"), len(lookups)) == (not_selective, 1)
    # the predicate and the limit on the share of rows are
    assert fallback_reason(tables, wide, "a = 4") is None
    assert len(lookups) > 1
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.95)
    assert fallback_reason(tables, wide, "a = 3") is None


def test_a_replaced_file_needs_another_lookup(
    tables: hindex.Connection, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file has the length and time of the old one."""
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    assert fallback_reason(tables, wide, "a = 3") == "NOT_SELECTIVE: more than 10.0% of the rows may match"
    file = wide / "0.orc"
    before = file.stat()
    columns = {"id": pa.array([7] * 10), "b": pa.array([1] * 10), "a": pa.array([4] * 9 + [5])}
    write_columns(file, columns)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    lookups.clear()
    with monkeypatch.context() as patch:
        # before a remote file is opened, only its listing is known
        patch.setattr(DataFiles, "are_untouched_since", lambda _, at, __: np.ones(len(at), np.bool_))
        # each query looks up both files
        for num_lookups in (2, 4):
            reason = fallback_reason(tables, wide, "a = 3")
            assert reason is not None
            assert "may match; STALE_FILE: 1 file: 0.orc (length and time are as indexed, but" in reason
            assert len(lookups) == num_lookups
    for num_lookups in (6, 6):
        assert (
            fallback_reason(tables, wide, "a = 3") == "NOT_SELECTIVE: more than 10.0% of the rows may match"
        )
        assert len(lookups) == num_lookups
    query = parse_query(f"SELECT sum(id) FROM '{wide}' WHERE a = 3")
    assert query is not None
    assert run_query(tables, query).collect()[0][0] == 9 * 7


def test_a_missing_index_file_is_not_cached(tables: hindex.Connection, wide: Path) -> None:
    """The reason names the missing file, and the next query looks again."""
    file = sorted((wide / "_hindex").rglob("*.hidx"))[0]
    moved = file.rename(file.with_suffix(".away"))
    reason = fallback_reason(tables, wide, "a = 5")
    assert reason is not None
    assert reason.startswith(
        "NOT_SELECTIVE: more than 10.0% of the rows may match; INDEX_MISSING: 1 index file: i on "
    )
    moved.rename(file)
    assert fallback_reason(tables, wide, "a = 5") is None


def test_entries_of_the_cache_are_short(tables: hindex.Connection, wide: Path) -> None:
    """Their size does not depend on the length of the condition."""
    for number in range(3):
        members = ", ".join(map(str, (3, *range(100, 1100), 2000 + number)))
        assert "NOT_SELECTIVE" in str(fallback_reason(tables, wide, f"a IN ({members})"))
    entries = DECLINED._entries
    assert len(entries) == 3
    assert len(pickle.dumps(list(entries))) < 200

"""What is remembered of tables that too many rows are left of: asked once, and anew where anything is another."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.queries import query_plan
from hindex.queries.query_execution import run_query
from hindex.queries.query_plan import TOO_MANY, plan_query
from hindex.scan.task_runner import Runner
from hindex.sql.queries import parse_query
from hindex.table.listing import DataFile
from tests.support.queries import count_calls
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_that_too_many_rows_are_left_is_asked_once(
    tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Until a file or an index is another one; of a table that is read, each time, and only once."""
    asked = count_calls(monkeypatch, Runner, Runner.look_up)
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.1)
    path = tmp_path / "t"
    for number in range(2):
        write_columns(path / f"{number}.orc", {"id": pa.array([7] * 10), "a": pa.array([3] * 9 + [5])})
    table = tables.table(str(path))
    table.create_index("i", "a")
    text = f"SELECT sum(id) AS n FROM '{path}' WHERE a = {{}}"

    def read(value: int) -> tuple[bool, int, int | None]:
        """Whether it is read through its index, how often that was asked, and the answer."""
        asked.clear()
        query = parse_query(text.format(value))
        assert query is not None
        answer = run_query(tables, query).collect()[0]["n"]
        times = len(asked)
        (found,) = plan_query(tables, query)
        if found.scan is None:
            assert found.decision.reason == "NOT_SELECTIVE: more than 10.0% of the rows may match"
            assert found.decision.rows is not None
            assert (found.decision.rows.kept, found.decision.rows.total) == (18, 20)
            assert len(asked) == times
        else:
            # what was asked is what is read by
            assert found.units is not None
        return found.scan is not None, times, answer

    assert read(3) == (False, 1, 126)
    assert read(3) == (False, 0, 126)
    # another question, and one whose answer the scan goes by
    for _ in range(2):
        assert read(5) == (True, 2, 14)
    for number in range(2):
        write_columns(path / f"{number}.orc", {"id": pa.array([7] * 10), "a": pa.array([4] * 9 + [5])})
    table.refresh_indexes()
    assert read(3) == (True, 0, None)
    assert read(4) == (False, 1, 126)
    table.rebuild_index("i")
    assert read(4) == (False, 1, 126)


def asked_of(hx: hindex.Connection, path: Path, condition: str, shown: str = "sum(id)") -> str | None:
    """Why a table is left to Spark; None where it is not."""
    query = parse_query(f"SELECT {shown} FROM '{path}' WHERE {condition}")
    assert query is not None
    (found,) = plan_query(hx, query)
    return found.decision.reason


def test_what_makes_another_question(
    tables: hindex.Connection, wide: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_calls(monkeypatch, Runner, Runner.look_up)
    told = "NOT_SELECTIVE: more than 10.0% of the rows may match"
    assert (asked_of(tables, wide, "a = 3"), len(asked)) == (told, 1)
    # not what else is shown of the rows
    assert (asked_of(tables, wide, "a = 3", "max(b), sum(id)"), len(asked)) == (told, 1)
    # nor the connection's mode, of which no query of Spark takes notice
    strict = hindex.connect(spark=spark, mode="strict")
    assert (asked_of(strict, wide, "a = 3"), len(asked)) == (told, 1)
    # but what is asked for
    assert asked_of(tables, wide, "a = 4") is None
    assert len(asked) > 1
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.95)
    assert asked_of(tables, wide, "a = 3") is None


def test_a_file_that_was_exchanged_is_asked_about_anew(
    tables: hindex.Connection, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is of the same length, and even of the same time."""
    asked = count_calls(monkeypatch, Runner, Runner.look_up)
    assert asked_of(tables, wide, "a = 3") == "NOT_SELECTIVE: more than 10.0% of the rows may match"
    file = wide / "0.orc"
    before = file.stat()
    columns = {"id": pa.array([7] * 10), "b": pa.array([1] * 10), "a": pa.array([4] * 9 + [5])}
    write_columns(file, columns)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    asked.clear()
    with monkeypatch.context() as patch:
        # as of a remote file, nothing but the listing is known until it is opened
        patch.setattr(DataFile, "is_untouched_since", lambda *_: True)
        # both files each time
        for times in (2, 4):
            reason = asked_of(tables, wide, "a = 3")
            assert reason is not None
            assert "may match; STALE_FILE: 1 file: 0.orc (length and time are as indexed, but" in reason
            assert len(asked) == times
    for times in (6, 6):
        assert asked_of(tables, wide, "a = 3") == "NOT_SELECTIVE: more than 10.0% of the rows may match"
        assert len(asked) == times
    query = parse_query(f"SELECT sum(id) FROM '{wide}' WHERE a = 3")
    assert query is not None
    assert run_query(tables, query).collect()[0][0] == 9 * 7


def test_an_index_that_is_away_for_a_while(tables: hindex.Connection, wide: Path) -> None:
    """That it could not be asked is told, and not remembered."""
    file = sorted((wide / "_hindex").rglob("*.hidx"))[0]
    away = file.rename(file.with_suffix(".away"))
    reason = asked_of(tables, wide, "a = 5")
    assert reason is not None
    assert reason.startswith(
        "NOT_SELECTIVE: more than 10.0% of the rows may match; INDEX_MISSING: 1 index file: i on "
    )
    away.rename(file)
    assert asked_of(tables, wide, "a = 5") is None


def test_what_is_remembered_is_short(tables: hindex.Connection, wide: Path) -> None:
    """Whatever the length of the condition."""
    for number in range(3):
        members = ", ".join(map(str, (3, *range(100, 1100), 2000 + number)))
        assert "NOT_SELECTIVE" in str(asked_of(tables, wide, f"a IN ({members})"))
    held = TOO_MANY._entries
    assert len(held) == 3
    assert len(pickle.dumps(list(held))) < 200

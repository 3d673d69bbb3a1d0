"""The log has one line for each query: what was read of the table, through which indexes, or why not."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.index.page_cache import shared_cache
from hindex.scan.query_log import QueryLogEntry
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows

ROWS = 3000


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Four files: rows i have a = i % 10, but those of the last have a = 77; each of several stripes."""
    for number in range(4):
        first = number * ROWS
        a = [77] * ROWS if number == 3 else [i % 10 for i in range(first, first + ROWS)]
        write_rows(tmp_path / "t" / f"{number}.orc", first, a)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s", "bloom")])
    return table


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[int, str]]]:
    """The lines since the last time."""
    caplog.set_level(logging.INFO, "hindex")

    def take() -> list[tuple[int, str]]:
        result = [(record.levelno, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return result

    return take


Lines = Callable[[], list[tuple[int, str]]]


def stripes(table: Table, *files: int) -> int:
    return sum(view.num_stripes for view in table.snapshot().files if int(view.file.path[0]) in files)


def test_each_way_of_reading_is_one_line(table: Table, lines: Lines) -> None:
    total = f"{stripes(table, 0, 1, 2, 3)} stripes"
    of = f"FROM {table.name}"
    rows = table.scan("a = 3", ["id"])
    every = stripes(table, 0, 1, 2)
    read = f"{of} WHERE a = 3: 3 of 4 files, {every} of {total} read"
    lines()
    assert rows.to_arrow().num_rows == 900
    assert lines() == [(logging.INFO, f"SELECT id {read}, 900 rows through by_a (BITMAP)")]
    assert sum(batch.num_rows for batch in rows.to_batches()) == 900
    assert lines() == [(logging.INFO, f"SELECT id {read}, 900 rows through by_a (BITMAP)")]
    nothing = f"0 of 4 files, 0 of {total} read"
    assert rows.count() == 900
    assert lines() == [
        (
            logging.INFO,
            f"SELECT count(*) {of} WHERE a = 3: {nothing}, 900 rows counted through by_a (BITMAP)",
        )
    ]
    assert rows.exists()
    assert lines() == [
        (logging.INFO, f"SELECT EXISTS {of} WHERE a = 3: {nothing}, a row through by_a (BITMAP)")
    ]
    assert table.scan("a = 77").min("a") == 77
    ((level, line),) = lines()
    assert level == logging.INFO
    assert line.startswith(f"SELECT min {of} WHERE a = 77: {nothing}, 1 row through by_a (BITMAP)")
    assert table.scan().value_counts("a").num_rows == 11
    assert lines() == [
        (logging.INFO, f"SELECT a, count {of} GROUP BY a: {nothing}, 11 rows through by_a (BITMAP)")
    ]
    # of the first file, the first stripe; walked from the end of the index
    assert table.scan(limit=2).order_by("a", descending=True).to_arrow().num_rows == 2
    ((level, line),) = lines()
    assert (level, line.split(" FROM ")[0]) == (logging.INFO, "SELECT *")
    assert line.endswith(
        f"ORDER BY a DESC LIMIT 2: 1 of 4 files, 1 of {total} read, 2 rows through by_a (BITMAP)"
    )


def test_a_stopped_stream_is_one_line(table: Table, lines: Lines) -> None:
    batches = table.scan("a = 3").to_batches()
    first = next(batches)
    assert lines() == []
    del batches
    ((level, line),) = lines()
    assert level == logging.INFO
    assert f" read, {first.num_rows} rows, then stopped through by_a (BITMAP)" in line


def test_what_the_driver_rules_out_is_counted(table: Table, lines: Lines) -> None:
    """By the manifest's extents, nothing is opened."""
    assert table.scan("a = 500", ["id"]).to_arrow().num_rows == 0
    ((level, line),) = lines()
    assert level == logging.INFO
    assert "0 of 4 files, 0 of " in line
    assert line.endswith("0 rows through by_a (BITMAP)")


def test_no_index_is_information(table: Table, lines: Lines) -> None:
    assert table.scan("id < 10", ["a"]).to_arrow().num_rows == 10
    ((level, line),) = lines()
    assert level == logging.INFO
    assert " through " not in line
    assert ", 10 rows; NO_INDEX: 1 column: id" in line


def damage(path: Path, table: Table) -> None:
    for file in (path / "_hindex").rglob("*.hidx"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        file.write_bytes(bytes(content))


def remove(path: Path, table: Table) -> None:
    for file in (path / "_hindex").rglob("*.hidx"):
        file.unlink()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path, table: write_rows(path / "0.orc", 0, [3] * 10), "STALE_FILE: 1 file: 0.orc"),
        (lambda path, table: write_rows(path / "9.orc", 0, [3] * 10), "NEW_FILE: 1 file: 9.orc"),
        (damage, "CORRUPT: 3 index files, e.g. by_a on 0.orc"),
        (remove, "INDEX_MISSING: 3 index files, e.g. by_a on 0.orc"),
        (lambda path, table: table.quarantine_indexes(["by_a"], "wrong"), "QUARANTINED: 1 index: by_a"),
    ],
    ids=["stale", "new", "corrupt", "missing", "quarantined"],
)
def test_an_index_that_cannot_be_used_is_a_warning(
    change: Callable[[Path, Table], Any], reason: str, table: Table, tmp_path: Path, lines: Lines
) -> None:
    before = table.scan("a = 3").count()
    change(tmp_path / "t", table)
    shared_cache().clear()
    lines()
    assert table.scan("a = 3", ["id"]).to_arrow().num_rows != 0 < before
    ((level, line),) = lines()
    assert level == logging.WARNING
    assert reason in line


def test_an_expression_on_an_indexed_column_is_a_warning(table: Table, lines: Lines) -> None:
    assert table.scan("a + id = 4").count() == 1
    ((level, line),) = lines()
    assert level == logging.WARNING
    assert "UNSUPPORTED_PREDICATE" in line
    assert table.scan("id + id = 4").count() == 1
    ((level, line),) = lines()
    assert level == logging.INFO
    assert "UNSUPPORTED_PREDICATE" in line


def test_what_does_not_pay_is_information(
    table: Table, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindex.scan.stripe_filter.is_cheap", lambda effort: False)
    monkeypatch.setattr(
        "hindex.scan.stripe_filter.reason_to_skip_lookup", lambda *args, **options: "it would save nothing"
    )
    assert table.scan("a = 3", ["id"]).to_arrow().num_rows == 900
    ((level, line),) = lines()
    assert level == logging.INFO
    assert "NOT_SELECTIVE" in line


def test_explaining_is_no_query(table: Table, lines: Lines) -> None:
    table.scan("a = 3").explain()
    table.scan("a = 3").explain(analyze=True)
    assert lines() == []


def test_a_proof_is_logged(connection: LocalConnection, table: Table, lines: Lines) -> None:
    assert table.scan("a = 3", mode="prove").to_arrow().num_rows == 900
    ((level, line),) = lines()
    assert level == logging.INFO
    assert line.endswith("900 rows; everything is read to prove the indexes")


def test_builds_are_one_line(table: Table, tmp_path: Path, lines: Lines) -> None:
    lines()
    table.create_index("m", "id", "minmax")
    *progress, (level, line) = lines()
    assert all("building m" in text for _, text in progress)
    count = stripes(table, 0, 1, 2, 3)
    start = f"CREATE INDEX m ON {table.name}: 4 files, {count} stripes, 12,000 rows read, "
    assert (level, line[: len(start)]) == (logging.INFO, start)
    assert line.endswith(" of index files written")
    (tmp_path / "t" / "0.orc").unlink()
    table.refresh_indexes(["m"])
    ((_, line),) = lines()
    assert line == (
        f"REFRESH INDEX m ON {table.name}: 0 files, 0 stripes, 0 rows read, 0 bytes of index files written, "
        "1 deleted file dropped"
    )


def test_a_line_is_made_only_for_a_handler(
    table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make(line: QueryLogEntry) -> str:
        made.append("line")
        return "line"

    monkeypatch.setattr(QueryLogEntry, "__str__", make)
    caplog.set_level(logging.WARNING, "hindex")
    table.scan("a = 3").to_arrow()
    assert made == []
    caplog.set_level(logging.INFO, "hindex")
    table.scan("a = 3").to_arrow()
    assert caplog.messages
    assert made


def test_a_program_without_handlers_stays_silent(table: Table, tmp_path: Path) -> None:
    """Also of warnings, which Python writes to standard error where a library does not say otherwise."""
    write_rows(tmp_path / "t" / "0.orc", 0, [3] * 10)
    code = f"import hindex; print(hindex.connect().table({str(tmp_path / 't')!r}).scan('a = 3').count())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("610\n", "")
    assert isinstance(logging.getLogger(hindex.__name__).handlers[0], logging.NullHandler)

"""EXPLAIN and EXPLAIN ANALYZE of real scans: the map, and what was really read. Golden files mask what changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Group
from hindex.api.table import IndexSpec, Table
from hindex.cli.main import cli
from hindex.explanations.explanation import Explanation, ReadPath, RowCount
from hindex.plan.reasons import Reason
from hindex.scan.metrics import Step
from hindex.store.snapshot import Snapshot, take_snapshot
from tests.explanations.test_explanation import check_golden
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns, write_rows
from tests.support.work import forget, scan_counts

ROWS = 1000


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Three files of ten stripes and row groups; a = i % 10, indexed in two of them; ``id`` is not indexed."""
    for number in range(2):
        write_rows(tmp_path / "t" / f"{number}.orc", number * ROWS, [i % 10 for i in range(ROWS)])
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("ends", "id", "minmax")])
    write_rows(tmp_path / "t" / "2.orc", 2 * ROWS, [i % 10 for i in range(ROWS)])
    return table


def cells(explained: Explanation) -> dict[str, str]:
    """The map's row groups by file."""
    assert explained.table_map is not None
    return {file.path: "".join(stripe.cells for stripe in file.stripes) for file in explained.table_map.files}


def test_no_rows_are_explained_as_nothing_read(table: Table) -> None:
    for scan in (
        table.scan(None, ["s"], 0),
        table.scan("id < 500", ["s"], 0),
        table.scan("a = 3", ["s"], 0).order_by("a"),
    ):
        explained = scan.explain(analyze=True)
        assert explained.path is ReadPath.NOTHING
        kept = [
            item.kept for item in (explained.rows, explained.stripes, explained.bytes) if item is not None
        ]
        assert (kept, explained.files) == ([0, 0, 0], RowCount(0, 3))
        assert explained.analyzed is not None
        assert explained.analyzed.rows == scan.to_arrow().num_rows == 0


def test_the_map_shows_what_becomes_of_every_row_group(table: Table) -> None:
    explained = table.scan("a = 3 AND id < 500", ["s"]).explain()
    assert cells(explained) == {"0.orc": "sssss.....", "1.orc": "", "2.orc": "." * 10}
    assert cells(table.scan(None, ["s"]).explain()) == dict.fromkeys(("0.orc", "1.orc", "2.orc"), "w" * 10)
    counted = table.scan("a = 3").aggregate([], "a").explain()
    assert cells(counted) == {"0.orc": "i" * 10, "1.orc": "i" * 10, "2.orc": "w" * 10}
    assert counted.path is ReadPath.SELECTED_ROWS
    nothing = table.scan("a = 77", ["s"]).explain()
    assert set("".join(cells(nothing).values())) <= {"."}
    html = explained.to_html()
    assert html.count("<i></i>") == 5 + 10 + 1  # one more in the legend
    assert "skipped without opening it" in html


def test_a_name_in_double_quotes_is_no_reason_of_another_condition(table: Table) -> None:
    plain, quoted = (table.scan(where, ["s"]).explain() for where in ("a = 3", "a = 3 AND \"id\" <> 'x'"))
    assert quoted.tree == plain.tree
    assert plain.tree.answer is not None
    assert plain.tree.answer.reason is Reason.NEW_FILE
    assert [note.reason for note in quoted.notes] == [Reason.QUOTED_NAME, Reason.NEW_FILE]


def test_analyze_tells_what_was_read(table: Table) -> None:
    scan = table.scan("a = 3 AND id < 1500", ["s"])
    read = scan_counts(scan)
    assert read["row_groups"] + read["whole_columns"] > 0
    forget()
    explained = scan.explain(analyze=True)
    result = explained.analyzed
    assert result is not None
    assert result.rows == read["rows"] == scan.count()
    for name in ("ranges", "bytes_fetched", "chunks", "bytes_decompressed", "row_groups", "whole_columns"):
        assert getattr(result, name) == read[name], name
    assert (result.index_pages, result.index_bytes) == (read["index_pages"], read["index_bytes"])
    assert result.index_pages > 0
    assert result.cache_misses >= result.index_pages
    assert [name for name, _ in result.steps] == [step.value for step in Step]
    assert all(seconds >= 0 for _, seconds in result.steps)
    taken = dict(result.steps)
    assert taken["other columns"] > 0
    assert taken["predicate columns"] == 0
    assert result.seconds >= taken["listing and manifest"]
    # all of it is in memory now, which is told
    again = scan.explain(analyze=True).analyzed
    assert again is not None
    assert (again.index_pages, again.cache_hits > 0) == (0, True)
    assert dict(table.scan("a + id = 4", ["s"]).explain(analyze=True).analyzed.steps)["predicate columns"] > 0  # type: ignore[union-attr]
    # a plain explanation reads nothing
    assert scan.explain().analyzed is None


def test_analyze_of_aggregates_and_orders(table: Table) -> None:
    forget()
    counted = table.scan("id < 1000").aggregate([Group("a", "a")], "a").explain(analyze=True)
    assert counted.analyzed is not None
    assert (counted.path, counted.analyzed.rows, counted.analyzed.row_groups) == (ReadPath.INDEX_ONLY, 10, 0)
    assert counted.analyzed.index_pages > 0
    ordered = table.scan(None, ["s"], 4).order_by("id", descending=True).explain(analyze=True)
    assert ordered.analyzed is not None
    assert ordered.analyzed.rows == 4
    assert ordered.order.startswith("id DESC: ")


def test_statements_and_their_forms(
    connection: LocalConnection, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(table.uri).parent)
    select = "SELECT s, id AS x FROM 't' WHERE a = 3 AND id < 500 ORDER BY id DESC NULLS LAST LIMIT 5"
    result = connection.sql(f"EXPLAIN ANALYZE {select}")
    assert isinstance(result, Explanation)
    assert result.analyzed is not None
    check_golden("analyzed.txt", masked(result.to_text()) + "\n")
    check_golden("analyzed.html", masked(result.to_html()))
    document = json.loads(json.dumps(result.to_json()))
    assert document["analyzed"]["rows"] == 5
    assert set(document["analyzed"]["steps"]) == {step.value for step in Step}
    check_golden("analyzed.json", masked(json.dumps(document, indent=1, ensure_ascii=False)) + "\n")
    grouped = connection.sql("EXPLAIN SELECT a, COUNT(*) FROM 't' WHERE id < 1000 GROUP BY a")
    assert isinstance(grouped, Explanation)
    assert (grouped.path, grouped.group, grouped.columns) == (ReadPath.INDEX_ONLY, "a", ("a", "count(1)"))


def masked(text: str) -> str:
    """Without times, and without sizes that depend on versions of libraries."""
    text = re.sub(r"[\d,.]+(?= (ms|bytes|pages|found in memory|not\b|chunks|ranges))", "N", text)
    text = re.sub(
        r'("(seconds|bytes|misses|hits|chunks|ranges)": '
        r'|\w+_(?:bytes|pages|hits|misses|fetched|decompressed)": )[\d.e-]+',
        r"\1N",
        text,
    )
    text = re.sub(r'(": )\d+\.\d+(e-\d+)?', r"\1N", text)
    text = re.sub(r'("bytes": \{)[^}]*\}', r"\1N}", text)
    return re.sub(r"(bytes\D+?)[\d,]+ of [\d,]+(\D+?)[\d.<>]+%", r"\1N of N\2N%", text)


def test_command_line(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with cli.make_context("hindex", list(arguments)) as context:
            cli.invoke(context)
        return capsys.readouterr().out

    select = f"SELECT s FROM '{table.name}' WHERE a = 3"
    assert "Ran\n  rows                    " in run("explain", "--analyze", select)
    assert "Ran" not in run("explain", select)
    for words in ("EXPLAIN", "explain Analyze"):
        assert "Ran\n  rows  " in run("explain", "--analyze", f"{words} {select}")
    assert json.loads(run("--output", "json", "explain", "--analyze", select))["analyzed"]["rows"] == 300
    assert run("explain", "--html", str(tmp_path / "x.html"), select) == ""
    assert (tmp_path / "x.html").read_text("utf-8").startswith('<div class="hindex">')
    counting = f"SELECT COUNT(*) AS n FROM '{table.name}' WHERE a = 3"
    assert run("--mode", "prove", "--output", "csv", "sql", counting) == "n\n300\n"


def test_what_is_found_damaged_while_it_runs(connection: LocalConnection, table: Table) -> None:
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[10] ^= 0x55
        file.write_bytes(data)
    for select in ("SELECT a, COUNT(*) FROM T GROUP BY a", "SELECT s FROM T ORDER BY a LIMIT 3"):
        forget()
        result = connection.sql(f"EXPLAIN ANALYZE {select}".replace(" T ", f" '{table.name}' "))
        assert isinstance(result, Explanation)
        damaged = [note.subject for note in result.notes if note.reason is Reason.CORRUPT]
        assert "by_a on 0.orc" in damaged, select
        assert len(damaged) == len(set(damaged)), select
        # an order does not come to the other files
        assert result.path is (ReadPath.SELECTED_ROWS if "ORDER" in select else ReadPath.FULL_SCAN), select


def test_orders_and_limits_of_groups(connection: LocalConnection, table: Table) -> None:
    select = f"SELECT a, COUNT(*) AS n FROM '{table.name}' GROUP BY a ORDER BY n DESC LIMIT 2"
    for words, rows in (("EXPLAIN", None), ("EXPLAIN ANALYZE", 2)):
        result = connection.sql(f"{words} {select}")
        assert isinstance(result, Explanation)
        assert (result.order, result.limit) == ("n DESC: the result is sorted", 2)
        assert (None if result.analyzed is None else result.analyzed.rows) == rows


def test_without_a_predicate_nothing_is_left_to_check(table: Table) -> None:
    explained = table.scan().explain()
    assert explained.exact
    assert "exact: nothing is left to check" in str(explained)
    assert not table.scan("id + a = 4").explain().exact


def test_html_of_small_parts(table: Table) -> None:
    explained = replace(table.scan("a = 3").explain(), rows=RowCount(1, 1_000_000))
    assert "&lt;0.01%" in explained.to_html()
    assert "<0.01%" not in explained.to_html()


@pytest.mark.parametrize("is_asked_for", [False, True], ids=["no session", "a session is asked for"])
def test_a_statement_lists_its_table_at_most_once(
    connection: LocalConnection, table: Table, monkeypatch: pytest.MonkeyPatch, is_asked_for: bool
) -> None:
    listed: list[object] = []

    def counted(*arguments: Any, **options: Any) -> Snapshot:
        listed.append(arguments)
        return take_snapshot(*arguments, **options)

    monkeypatch.setattr("hindex.api.table.take_snapshot", counted)
    # none is started: nothing of these is about time
    monkeypatch.setattr(connection, "_has_user_session", is_asked_for)
    of = f"FROM '{table.name}' WHERE a = 3"
    for text, count in (
        (f"SELECT s {of}", 1),
        # the schema is known by then; whether a session's rows are the same depends on the files
        (f"SELECT COUNT(*) {of}", int(is_asked_for)),
        (f"EXPLAIN SELECT s {of}", 1),
        (f"EXPLAIN SELECT COUNT(*) {of}", 1),
    ):
        listed.clear()
        connection.sql(text)
        assert (text, len(listed)) == (text, count)


def test_names_are_written_as_in_sql(connection: LocalConnection, tmp_path: Path) -> None:
    """Text for people can be pasted into a statement; programs get the bare names."""
    columns = {"a b": pa.array([1, 2, 2]), "order": pa.array([{"x y": 4}] * 3), "c": pa.array([7, 8, 9])}
    write_columns(tmp_path / "odd" / "0.orc", columns)
    table = connection.table(str(tmp_path / "odd"))
    explained = table.scan("`a b` = 2 AND `order`.`x y` = 4", ["a b", ("order", "x y"), "c"]).explain()
    assert explained.columns == ("a b", "order.x y", "c")
    assert {note["subject"] for note in explained.to_json()["notes"]} == {"a b", "order.x y"}
    for shown in (explained.to_text(), explained.to_html()):
        assert "`a b`, `order`.`x y`, c" in shown
    assert "\n  NO_INDEX: 2 columns, e.g. `a b` (no index on this column)\n" in explained.to_text()
    assert "NO_INDEX: 2 columns, e.g. `a b` (" in explained.to_html()
    grouped: Any = connection.sql(
        f"EXPLAIN SELECT `a b` AS `n m`, COUNT(*) FROM '{table.name}' GROUP BY `a b` ORDER BY `n m`"
    )
    assert dict(grouped.header())["columns"] == "`n m`, count(1)"
    assert dict(grouped.header())["group by"] == "`a b`"
    assert grouped.columns == ("n m", "count(1)")
    table.create_index("i", "a b")
    messages = table.scan("`a b` = 2", ["a b"]).explain()
    assert messages.fixed == ("a b",)
    assert messages.columns_not_read == ["not read (constant under the predicate): `a b`"]


def test_a_table_without_files_is_explained(connection: LocalConnection, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    explained: Any = connection.sql(f"EXPLAIN SELECT * FROM '{tmp_path}/empty'")
    assert explained.path is ReadPath.NOTHING
    assert "\n  nothing: the table has no ORC files\n" in explained.to_text()
    assert "nothing: the table has no ORC files" in explained.to_html()
    (tmp_path / "empty" / "x.orc").touch()
    assert "no ORC files" in connection.table(str(tmp_path / "empty")).scan().explain().reading

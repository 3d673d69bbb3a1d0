"""A notebook shows the first rows of a scan, for any content."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest

import hindex
from hindex.api.scan import Scan
from hindex.api.value_formatting import format_values
from hindex.orc import OrcReader
from hindex.plan.modes import Mode
from tests.support.small import write_columns, write_rows

_NULL = '<span class="why">NULL</span>'


def cells(html: str) -> list[list[str]]:
    """The texts of the table, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def extent(html: str) -> str:
    return str(re.findall(r"<div>(.*?)</div>", html)[-1])


def shown(scan: Scan) -> str:
    return scan._repr_html_()


def test_the_first_rows_and_no_more_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in range(3):
        write_rows(tmp_path / f"{name}.orc", name * 50, list(range(50)))
    scan = hindex.connect().table(tmp_path).scan("id >= 7")
    opened: list[str] = []
    real = OrcReader.__init__

    def counting(self: OrcReader, *argument: object, **options: object) -> None:
        opened.append(str(argument[0]))
        real(self, *argument, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(OrcReader, "__init__", counting)
    assert repr(scan) == f"Scan(SELECT * FROM {str(tmp_path)!r} WHERE id >= 7)"
    assert opened == []
    html = shown(scan)
    assert len(opened) == 1
    assert cells(html) == [["id", "a", "s"], *([str(i), str(i), f"s{i}"] for i in range(7, 17))]
    assert extent(html) == "first 10 rows, 3 columns"
    assert f"<code>{repr(scan).replace('>', '&gt;').replace(chr(39), '&#x27;')}</code>" in html


@pytest.mark.parametrize(
    ("rows", "message"), [(0, "0 rows"), (1, "1 row"), (9, "9 rows"), (10, "10 rows"), (11, "first 10 rows")]
)
def test_how_much_of_it_is_shown(tmp_path: Path, rows: int, message: str) -> None:
    write_rows(tmp_path / "x.orc", 0, list(range(30)))
    table = hindex.connect().table(tmp_path)
    for scan in (table.scan(f"id < {rows}", ["id"]), table.scan(columns=["id"], limit=rows)):
        html = shown(scan)
        assert extent(html) == f"{message}, 1 column"
        assert cells(html) == [["id"], *([str(i)] for i in range(min(rows, 10)))]
    order = table.scan(f"id < {rows}", ["id"]).order_by("id", descending=True)
    assert cells(shown(order)) == [["id"], *([str(i)] for i in range(rows)[::-1][:10])]


def test_many_columns_and_long_values(tmp_path: Path) -> None:
    columns = {f"c{i}": pa.array(["x" * (99 + i)]) for i in range(23)}
    write_columns(tmp_path / "x.orc", columns)
    html = shown(hindex.connect().table(tmp_path).scan())
    assert extent(html) == "1 row, first 20 of 23 columns"
    head, row = cells(html)
    assert head == [f"c{i}" for i in range(20)]
    assert row == ["x" * 99, "x" * 100, *["x" * 99 + "…"] * 18]


def test_values_are_escaped_and_of_every_kind(tmp_path: Path) -> None:
    values = {
        "<b>&": pa.array(["<script>alert('x')</script>", None]),
        "n": pa.array([None, [1, None]], pa.list_(pa.int64())),
        "b": pa.array([b"\x00\xff", None], pa.binary()),
        "f": pa.array([float("nan"), -0.5]),
    }
    write_columns(tmp_path / "x.orc", values)
    html = shown(hindex.connect().table(tmp_path).scan())
    assert "<script>" not in html
    assert "<th>&lt;b&gt;&amp;</th>" in html
    assert cells(html)[1:] == [
        ["<script>alert('x')</script>", _NULL, "00FF", "NaN"],
        [_NULL, "[1, null]", _NULL, "-0.5"],
    ]


def test_errors_are_shown(tmp_path: Path) -> None:
    table = hindex.connect().table(tmp_path / "none")
    assert "TableNotFoundError: Table &#x27;" in extent(shown(table.unchecked_scan()))
    write_rows(tmp_path / "none" / "x.orc", 0, [1])
    assert extent(shown(table.unchecked_scan(columns=["<p>"]))).startswith(
        "ColumnError: Column &#x27;&lt;p&gt;&#x27; cannot be"
    )
    assert extent(shown(table.unchecked_scan("a = 1", mode=Mode.STRICT))).startswith(
        "FallbackError: Strict mode: no index covers this query"
    )
    surrogate = shown(table.unchecked_scan(hindex.col("s") == "\ud800"))
    assert "PredicateError" in extent(surrogate)
    assert surrogate.encode()


def test_a_look_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in range(3):
        write_rows(tmp_path / f"{name}.orc", name * 50, list(range(50)))
    table = hindex.connect().table(tmp_path)

    def no_proof(_: object) -> None:
        raise AssertionError("proved")

    monkeypatch.setattr("hindex.maintain.verification.prove_scan", no_proof)
    for scan in (table.scan("a > 3", mode=Mode.PROVE), table.scan("a > 3", mode=Mode.PROVE).order_by("id")):
        html = shown(scan)
        assert extent(html) == "first 10 rows, 3 columns, not proved"
        assert cells(html)[1:] == [[str(i), str(i), f"s{i}"] for i in range(4, 14)]
        assert (scan.mode, scan.proof) == (Mode.PROVE, None)
    assert extent(shown(table.scan("a > 3"))) == "first 10 rows, 3 columns"


def test_characters_that_turn_the_page_are_escaped(tmp_path: Path) -> None:
    odd = "\u202e\x00\x1b<\n"
    write_columns(tmp_path / "x.orc", {odd: pa.array([odd, odd * 30]), "n": pa.array([[odd], None])})
    html = shown(hindex.connect().table(tmp_path).scan(hindex.col(odd) >= ""))
    assert all(line.isprintable() for line in html.split("\n"))
    name, first = r"\u202e\x00\x1b<\n", r"\u202e\x00\x1b<\n"
    assert cells(html)[0] == [name, "n"]
    assert cells(html)[1][0] == first
    assert cells(html)[2][0].endswith("…")
    failed = shown(hindex.connect().table(f"{tmp_path}/\u202e").unchecked_scan())
    assert "Error" in extent(failed)
    assert all(line.isprintable() for line in failed.split("\n"))


def test_long_values_are_cut_before_they_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 100_000
    values = {
        "b": pa.array([b"\xab" * size, b"", None]),
        "s": pa.array(["ä" * size, "ä" * 100, "ä" * 101]),
        "l": pa.array([[1] * size, [1] * 33, None]),
        "m": pa.array([{"x": ["y" * size] * 3}, {"x": []}, None]),
    }
    write_columns(tmp_path / "x.orc", values)
    made: list[int] = []

    def counted(column: pa.Array) -> list[str | None]:
        result = format_values(column)
        made.extend(len(text) for text in result if text is not None)
        return result

    monkeypatch.setattr("hindex.api.rows_html.format_values", counted)
    html = shown(hindex.connect().table(tmp_path).scan())
    assert len(made) < 100
    assert max(made) < 2000
    assert cells(html)[1:] == [
        ["AB" * 49 + "A…", "ä" * 99 + "…", ("[" + "1, " * 40)[:99] + "…", '{"x": ["' + "y" * 91 + "…"],
        ["", "ä" * 100, str([1] * 33), '{"x": []}'],
        [_NULL, "ä" * 99 + "…", _NULL, _NULL],
    ]

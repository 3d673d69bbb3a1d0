"""The magic of notebooks, and the notebook of the documentation, run cell by cell."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

import hindex
from hindex.errors import OrcError, StatementError
from hindex.explanations.explanation import Explanation
from hindex.notebook import magic
from tests.support.cases import sampled
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def run(shell: Any, text: str) -> Any:
    result = shell.run_cell(text, store_history=False)
    result.raise_error()
    return result.result


def test_the_notebook_of_the_documentation(shell: InteractiveShell, spark: SparkSession) -> None:
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    results = [run(shell, "".join(cell["source"])) for cell in cells]
    output, rows, explained, kept, counted, number = results[2:]
    assert output["name"].tolist() == ["by_age"]
    assert rows["id"].tolist() == [2, 62, 122]
    assert isinstance(explained, Explanation)
    assert explained.exact
    assert kept is None
    ages = [i for i in range(5000) if i % 60 == 2] + [i for i in range(5000, 10_000) if i % 60 == 2]
    expected = {"F": [i for i in ages if i % 2 == 0], "M": [i for i in ages if i % 2]}
    assert {row["gender"]: (row["n"], row["latest"]) for _, row in counted.iterrows()} == {
        gender: (len(some), max(some)) for gender, some in expected.items() if some
    }
    assert number == len(ages)


def test_lines_and_cells(shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "t" / "x.orc", 0, list(range(50))).parent
    run(shell, "%load_ext hindex")
    monkeypatch.setattr(magic, "SHOWN_ROWS", 3)
    assert run(shell, f"%hindex SELECT id FROM '{path}'")["id"].tolist() == [0, 1, 2]
    assert isinstance(shell.user_ns["hx"], hindex.Connection)
    assert run(shell, f"%hindex SELECT id FROM '{path}' WHERE id < 0").empty
    (tmp_path / "store").mkdir()
    kept = run(
        shell, f"%%hindex --into rows --store {tmp_path / 'store'}\nSHOW INDEXES;\nSELECT a FROM '{path}'"
    )
    assert kept is None
    assert isinstance(shell.user_ns["rows"], hindex.QueryResult)
    assert isinstance(run(shell, "%hindex SHOW INDEXES"), pd.DataFrame)
    # a name with a value in braces is that value
    shell.user_ns["where"] = path
    assert len(run(shell, "%hindex SELECT id FROM '{where}' WHERE a = 7")) == 1
    assert len(run(shell, "%%hindex\nSELECT id FROM '{where}' WHERE a = 7 OR s = '{nothing}'")) == 1


def test_values_reach_the_statement_as_they_are(shell: InteractiveShell, tmp_path: Path) -> None:
    names = ["O'Brien", 'say "hi"', "a\\\\b%", "{w}", "[0-9]{3}", "x''y", "line\nline", "`tick`", "\\d{2}"]
    path = write_rows(tmp_path / "it's" / "x.orc", 0, list(range(len(names))), names).parent
    run(shell, "%load_ext hindex")
    shell.user_ns["t"] = path
    for at, name in enumerate(names):
        shell.user_ns |= {"name": name, "number": -at, "some": [name, None]}
        for quoted in ("{name}", "'{name}'", '"{name}"', "'' '{name}'"):
            for magic_text in ("%hindex ", "%%hindex\n"):
                statement = f"SELECT id FROM {{t}} WHERE s={quoted} AND a+{{number}}=0 AND s IN {{some}}"
                assert run(shell, magic_text + statement)["id"].tolist() == [at], (name, quoted)
    # what only looks like a variable is text; IPython would take {3} for the number
    shell.user_ns["escaped"] = {"root": path}
    for magic_text in ("%hindex ", "%%hindex\n"):
        assert run(shell, magic_text + "SELECT id FROM '{t}' WHERE s = '{w}'")["id"].tolist() == [3]
        assert run(shell, magic_text + "SELECT id FROM '{t}' WHERE s = '[0-9]{3}'")["id"].tolist() == [4]
        assert run(shell, magic_text + "SELECT id FROM '{escaped[root]}' -- {w}")["id"].size == len(names)
    # a condition is no text
    shell.user_ns |= {"keep": (hindex.col("a") > 2) | (hindex.col("a") == 0), "text": "a > 2 AND a < 5"}
    assert run(shell, "%hindex SELECT id FROM {t} WHERE {keep} AND a < 4")["id"].tolist() == [0, 3]
    assert run(shell, "%hindex SELECT id FROM {t} WHERE {text!s}")["id"].tolist() == [3, 4]


def test_variables_of_a_function(shell: InteractiveShell, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t" / "x.orc", 0, list(range(50))).parent
    run(shell, "%load_ext hindex")
    shell.user_ns["wanted"] = 1
    statement = f"SELECT id FROM '{path}' WHERE a = {{wanted}}"
    cell = f'def ask(wanted):\n    return get_ipython().run_line_magic("hindex", "{statement}")'
    run(shell, cell)
    assert run(shell, "ask(7)")["id"].tolist() == [7]
    shell.user_ns["store"] = tmp_path / "a store"
    run(shell, f"%%hindex --store '{{store}}'\nSELECT id FROM '{path}'")
    assert f"store='{tmp_path / 'a store'}'" in repr(shell.user_ns["hx"])


@sampled(9)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%hindex SELECT a FROM 't' WHERE a = {w}", "there is no variable 'w': {w} stands for its value"),
        ("%%hindex\nSELECT a FROM 't' WHERE a = {w}", "there is no variable 'w': {w} stands for its value"),
        (
            "%hindex SELECT a FROM 't' WHERE a = {1 + 1}",
            r"\{1 \+ 1\} is not the name of a variable in braces",
        ),
        ("%hindex SELECT a FROM 't' WHERE a IN {nothing}", "value of {nothing} cannot be put .* it is empty"),
        (
            "%hindex SELECT a FROM 't' WHERE a = {object_}",
            "value of {object_} cannot be put .* not a value of SQL",
        ),
        ("%hindex SELECT a FROM 't' WHERE a = {nothing.b}", "{nothing.b} has no value: AttributeError"),
        ("%hindex SELECT a FROM 't' WHERE a = r'{quoted}'", "the quote ', which r'...' cannot hold"),
        ("%hindex SELECT a FROM 't' WHERE a = '{quoted}", "the quote ' is not closed"),
        ("%%hindex nope\nSHOW INDEXES", "expected %%hindex .*found 'nope'"),
        ("%%hindex --into\nSHOW INDEXES", "found '--into'"),
        ("%%hindex --into 1a\nSHOW INDEXES", "name of a variable after --into, found '1a'"),
        ("%hindex SELEC 1", "unknown statement"),
        ("%hindex", "there is no statement: try CREATE INDEX, "),
        ("%hindex ;", "there is no statement: try CREATE INDEX, "),
        ("%%hindex --into 'a\nSHOW INDEXES", "expected %%hindex .*: no closing quotation"),
        (
            "%hindex --into rows SELECT a FROM 't'",
            "there is no statement; options are those of a cell, %%hindex",
        ),
        ("%%hindex\n-- nothing", "there is no statement"),
    ],
)
def test_mistakes(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    run(shell, "%load_ext hindex")
    shell.user_ns |= {"nothing": [], "object_": object(), "quoted": "it's"}
    capsys.readouterr()
    with pytest.raises(hindex.HindexError, match=message) as caught:
        run(shell, text)
    # no traceback: the message is all that is shown, on one line but for what marks the place
    output = "".join(capsys.readouterr()).strip()
    assert output == f"StatementError: {caught.value}"


def test_the_traceback_of_an_error_can_be_had(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.orc").write_bytes(b"ORC" + bytes(100))
    run(shell, "%load_ext hindex")
    capsys.readouterr()
    with pytest.raises(OrcError) as caught:
        run(shell, f"%hindex SELECT * FROM '{tmp_path}'")
    assert "".join(capsys.readouterr()).strip() == f"OrcError: {caught.value}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    run(shell, "%tb")
    assert "Traceback" in "".join(capsys.readouterr())
    with pytest.raises(StatementError) as mistake:
        run(shell, "%hindex SELEC")
    assert str(pickle.loads(pickle.dumps(mistake.value))) == str(mistake.value)


def test_which_statement_of_a_cell_failed(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "t" / "x.orc", 0, list(range(50))).parent
    run(shell, "%load_ext hindex")
    capsys.readouterr()
    with pytest.raises(hindex.HindexError):
        run(shell, f"%%hindex\nSELECT id FROM '{path}';\nSELECT nope FROM '{path}';\nSELECT id FROM '{path}'")
    output = "".join(capsys.readouterr()).strip().splitlines()
    assert output[0].startswith("ColumnError: Column 'nope'")
    assert output[-1] == "in statement 2 of 3 of the cell"

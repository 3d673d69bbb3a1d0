from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support import messages
from tests.support.messages import TABLE, finish, raises, read_table, save

TESTS = Path(__file__).parent
MADE = "tests/made/test_made.py::test_made[a b]"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table without entries, and a running test whose errors belong there."""
    folder = tmp_path / "tests" / "made"
    folder.mkdir(parents=True)
    monkeypatch.setattr(messages, "CHECKOUT", tmp_path)
    monkeypatch.setattr(messages, "_running", {})
    monkeypatch.delenv("HINDEX_UPDATE_GOLDEN", raising=False)
    return folder / TABLE


def fail(message: str) -> None:
    raise ValueError(message)


def run(monkeypatch: pytest.MonkeyPatch, *errors: str, test: str = MADE, records: bool = False) -> None:
    """Run a test that raises errors with these messages."""
    messages._recorded.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(messages, "_running", {})
        patch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
        if records:
            patch.setenv("HINDEX_UPDATE_GOLDEN", "1")
        for error in errors:
            with raises(ValueError) as caught:
                fail(error)
            assert str(caught.value) == error
        finish(test)
        save()


def test_recorded_messages_are_expected(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = (
        "one: do this",
        "a query:\n\n    SELECT\n    ^\n",
        "",
        "NUL \0, a surrogate \udcff",
        f"{table.parent}",
    )
    run(monkeypatch, *errors, records=True)
    run(monkeypatch, *errors)
    assert table.read_text("utf-8") == (
        "test_made.py::test_made[a b]\n"
        "  ValueError: one: do this\n"
        "  ValueError: a query:\n\n        SELECT\n        ^\n\n"
        "  ValueError:\n"
        "  ValueError: NUL \\x00, a surrogate \\udcff\n"
        "  ValueError: <tmp>/tests/made\n"
    )


def test_recording_replaces_the_messages_of_tests_that_run(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, "first", test="tests/made/test_b.py::test_b", records=True)
    run(monkeypatch, "second", "third", test="tests/made/test_a.py::test_a", records=True)
    run(monkeypatch, "fourth", "fifth", test="tests/made/test_a.py::test_a", records=True)
    assert table.read_text("utf-8") == (
        "test_a.py::test_a\n  ValueError: fourth\n  ValueError: fifth\ntest_b.py::test_b\n  ValueError: first\n"
    )
    run(monkeypatch, test="tests/made/test_a.py::test_a", records=True)
    assert read_table(table) == {"test_b.py::test_b": ["  ValueError: first"]}


@pytest.mark.parametrize(
    ("errors", "problem"),
    [
        (["one", "other"], "another message"),
        (["one", "two", "three"], "another message"),
        (["one"], "fewer messages"),
        ([], "fewer messages"),
    ],
)
def test_other_messages_fail(
    table: Path, monkeypatch: pytest.MonkeyPatch, errors: list[str], problem: str
) -> None:
    run(monkeypatch, "one", "two", records=True)
    with pytest.raises(AssertionError, match=problem) as caught:
        run(monkeypatch, *errors)
    shown = str(caught.value)
    assert "than recorded in tests/made/messages.txt" in shown
    assert "HINDEX_UPDATE_GOLDEN=1 python -m pytest 'tests/made/test_made.py::test_made[a b]'" in shown
    assert "  nothing" in shown or ("  ValueError: two" in shown and "  ValueError: other" in shown)


def test_errors_of_other_types_pass_through(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError), raises(ValueError):
        raise KeyError("k")
    with pytest.raises(pytest.fail.Exception), raises(ValueError):
        pass
    assert not table.exists()


def test_tables_have_messages_of_existing_tests_only() -> None:
    tables = list(TESTS.rglob(TABLE))
    assert tables
    for path in tables:
        for file, names in _names_by_file(path).items():
            tree = ast.parse((path.parent / file).read_text("utf-8"))
            assert names <= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_tables_have_no_paths_of_a_machine() -> None:
    for path in TESTS.rglob(TABLE):
        assert not re.search(r"pytest-of-|popen-gw", path.read_text("utf-8"))


def _names_by_file(path: Path) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for test in read_table(path):
        file, *_, name = test.partition("[")[0].split("::")
        names.setdefault(file, set()).add(name)
    return names

"""The pages' lists are complete: reasons, states, functions, errors, options, properties, names, links."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from itertools import product, takewhile
from pathlib import Path

import click
import pytest

import hindex
import hindex.orc
from hindex import errors
from hindex.api.connection import STORE_VARIABLE
from hindex.api.data_source import _OPTIONS
from hindex.cli.main import _run, cli
from hindex.errors import HindexError, StatementError
from hindex.explanations.explanation import Explanation, ReadPath
from hindex.index.index_type import index_type, index_type_names
from hindex.index.page_cache import VARIABLE as CACHE_VARIABLE
from hindex.maintain.results import IndexState
from hindex.orc.reader.file_cache import VARIABLE as ORC_CACHE_VARIABLE
from hindex.plan.modes import Mode
from hindex.plan.reasons import Reason
from hindex.sql import parse, parse_predicate, split
from hindex.sql.functions import CASTS, NAMES

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
#: What users read.
GUIDE = "\n".join(
    text
    for name, text in PAGES.items()
    if name not in ("CONTRIBUTING.md", "docs/benchmarks.md", "docs/benchmark-tables.md")
)

#: Functions that are casts, which the page describes by their types.
CAST_FUNCTIONS = CASTS.keys() - {"to_date"}
_CODE = re.compile(r"`` (.+?) ``|``(.+?)``|`(.+?)`")


def table(page: str, first: str) -> list[list[str]]:
    """The cells of the rows of a table, by the heading of its first column."""
    lines = PAGES[page].splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = takewhile(lambda line: line.startswith("|"), lines[at + 2 :])
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows]


def codes(text: str) -> list[str]:
    """Return the strings in backquotes."""
    return ["".join(filter(None, match)) for match in _CODE.findall(text)]


def section(page: str, title: str) -> str:
    """A page from a heading to the next one."""
    return re.split(r"(?m)^#+ ", PAGES[page].split(f"# {title}\n", 1)[1])[0]


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a language, by page."""
    for page, text in PAGES.items():
        for documented in re.findall(rf"(?ms)^```{language}\n(.*?)^```$", text):
            yield page, documented


def test_reasons() -> None:
    documented = {
        code: "rejected" in row[-1] for row in table("docs/explain.md", "code") for code in codes(row[0])
    }
    assert documented == {reason.name: reason.is_fallback for reason in Reason}


def test_states_of_indexes() -> None:
    documented = {codes(row[0])[0].partition(":")[0] for row in table("docs/sql-indexes.md", "status")}
    assert documented == {state.value for state in IndexState}


def test_modes() -> None:
    for mode in Mode:
        assert f"`{mode.value}`" in PAGES["docs/modes.md"] or f"# {mode.value}\n" in PAGES["docs/modes.md"]


def test_functions() -> None:
    words = {code for code in codes(section("docs/sql-predicates.md", "Expressions")) if code.isidentifier()}
    assert set(NAMES) - CAST_FUNCTIONS <= words
    # types of casts and settings are no functions
    assert {word for word in words if word.islower()} - set(NAMES) <= {"lower", "upper"}


def test_errors() -> None:
    documented = [code for row in table("docs/errors.md", "error") for code in codes(row[0])]
    there = [
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, HindexError) and kind is not HindexError
    ]
    assert sorted(documented) == sorted(there)


def variants(written: str) -> Iterator[str]:
    """A text without and with each of its parts in brackets."""
    parts = re.split(r"\[([^\]]*)\]", written)
    for chosen in product((False, True), repeat=len(parts) // 2):
        yield "".join(part for at, part in enumerate(parts) if at % 2 == 0 or chosen[at // 2])


@pytest.mark.parametrize(("title", "least"), [("Predicates", 20), ("Expressions that indexes answer", 8)])
def test_conditions_can_be_written_so(title: str, least: int) -> None:
    written = [code for cell in first_cells(title, "written") for code in codes(cell)]
    for text in [variant for code in written for variant in variants(code)]:
        parse_predicate(text)
    assert len(written) >= least


def test_literals_can_be_written_so() -> None:
    literals = [code for cell in first_cells("Literals", "written") for code in codes(cell)]
    for literal in literals:
        parse_predicate(f"x = {literal}")
    assert len(literals) > 15


def first_cells(title: str, heading: str) -> list[str]:
    """The first cells of the table that begins with a heading, in a section on predicates."""
    lines = section("docs/sql-predicates.md", title).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    return [
        line.strip("|").split(" | ")[0] for line in takewhile(lambda line: line[:1] == "|", lines[at + 2 :])
    ]


def test_statements_can_be_written_so() -> None:
    documented = 0
    for _, block in blocks("sql"):
        for text in split(block):
            if re.search(r"[\[\]|…]|\.\.\.", text) is None:
                parse(text)
                documented += 1
    assert documented > 10


def test_an_error_is_shown_so() -> None:
    (output,) = (block for page, block in blocks("text") if page == "docs/sql.md")
    with pytest.raises(StatementError) as caught:
        parse(output.splitlines()[1].strip())
    assert str(caught.value) == output.rstrip("\n")


def test_commands_can_be_written_so(capsys: pytest.CaptureFixture[str]) -> None:
    documented = 0
    for page, block in blocks("console"):
        for line in re.findall(r"(?m)^\$ hindex (.*)$", block):
            words = shlex.split(line, comments=True)
            assert _run([*words, "--help"]) == 0, f"{page}: {line}: {capsys.readouterr().err}"
            for word in words:
                if re.match(r"(CREATE|SELECT) ", word) and "…" not in word:
                    for statement in split(word):
                        parse(statement)
            documented += 1
    assert documented > 10
    capsys.readouterr()


def commands() -> list[click.Command]:
    return [cli, *cli.commands.values()]


@pytest.mark.parametrize("command", commands(), ids=lambda command: str(command.name))
def test_options_of_the_command_line(command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name != "version":
            documented = GUIDE + PAGES["docs/benchmarks.md"]
            assert any(re.search(rf"{option}\b", documented) for option in parameter.opts), parameter.opts


def test_options_of_the_source() -> None:
    assert {codes(row[0])[0] for row in table("docs/spark-dataframes.md", "option")} == set(_OPTIONS)


def test_properties_of_index_types() -> None:
    documented = {codes(row[0])[0]: row for row in table("docs/index-types.md", "property")}
    kinds = {name: index_type(name) for name in index_type_names()}
    there = {item.name: item for kind in kinds.values() for item in kind.properties}
    assert documented.keys() == {*there, "level"}
    for name, item in there.items():
        source = {kind.name for kind in kinds.values() if any(one.name == name for one in kind.properties)}
        assert set(codes(documented[name][1])) == source
        assert documented[name][2] == item.default
    for kind in kinds.values():
        levels = {level.name for level in kind.levels}
        assert levels == ({"PARTITION", "TABLE"} if kind.name == "BTREE" else {"STRIPE"})


def test_keys_of_an_explanation() -> None:
    documented = {code for row in table("docs/explain.md", "key") for code in codes(row[0])}
    source = inspect.getsource(Explanation.to_json)
    assert documented | {"version"} == set(re.findall(r'(?m)^            "(\w+)":', source))
    assert {path.name for path in ReadPath} <= set(codes(section("docs/explain.md", "JSON")))


def test_public_names() -> None:
    for name in set(hindex.__all__) - {"__version__", "Expr"}:
        assert re.search(rf"\b{name}\b", GUIDE), name
    for variable in (STORE_VARIABLE, CACHE_VARIABLE, ORC_CACHE_VARIABLE):
        assert f"`{variable}`" in PAGES["docs/python.md"]


def test_packages_of_contributing() -> None:
    listed = set(codes(PAGES["CONTRIBUTING.md"].split("## The flows")[0]))
    for path in (ROOT / "hindex").iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            assert f"{path.name}/" in listed
        elif path.suffix == ".py" and path.name != "__init__.py":
            assert path.stem in listed


def test_links_between_pages_resolve() -> None:
    anchors = {name: set(map(slug, re.findall(r"(?m)^#+ (.*)$", text))) for name, text in PAGES.items()}
    for name, text in PAGES.items():
        here = (ROOT / name).parent
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("http"):
                continue
            path, _, anchor = target.partition("#")
            place = (here / path).resolve() if path else ROOT / name
            assert place.exists(), f"{name}: {target}"
            if anchor:
                assert anchor in anchors[str(place.relative_to(ROOT))], f"{name}: {target}"


def slug(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")

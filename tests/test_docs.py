"""Links, anchors and snippets of the documents, and the places of generated tables."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from hindex.sql import parse, split
from tests.bench.report import DOCS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

_FENCE = re.compile(r"(?ms)^( *)```(\w*)[^\n]*\n(.*?)^ *```$")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"(?m)^#{1,6} +(.+?) *$")
#: Syntax summaries, which name optional and alternative parts.
_GRAMMAR = re.compile(r"[\[\]|…]|\.\.\.")

page_cases = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """Return the text of a page without its fenced blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def snippets(page: Path, language: str) -> Iterator[str]:
    """Yield the fenced blocks of a language."""
    for _, name, text in _FENCE.findall(page.read_text("utf-8")):
        if name == language:
            yield text


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@page_cases
def test_relative_links_resolve(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / unquote(path)).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


@page_cases
def test_every_page_has_one_title(page: Path) -> None:
    titles = re.findall(r"(?m)^# ", prose(page))
    assert len(titles) == 1


@page_cases
def test_python_snippets_parse(page: Path) -> None:
    for snippet in snippets(page, "python"):
        # those of list items are indented
        ast.parse(textwrap.dedent(snippet))


@page_cases
def test_sql_snippets_parse(page: Path) -> None:
    for snippet in snippets(page, "sql"):
        for statement in split(snippet):
            if not _GRAMMAR.search(statement):
                parse(statement)


def test_readme_links_every_page() -> None:
    links = set(_LINK.findall((ROOT / "README.md").read_text("utf-8")))
    pages = {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"} - {
        "docs/benchmark-tables.md",
        "docs/index.md",
    }
    assert pages <= links


def test_every_benchmark_section_has_a_place() -> None:
    text = (ROOT / DOCS).read_text("utf-8")
    blocks = re.findall(r"(?s)<!-- measured: ([\w-]+) -->\n(.*?)<!-- end -->", text)
    assert {name for name, _ in blocks} == {
        "accelerate",
        "build",
        "command-line",
        "engines",
        "key-lists",
        "layouts",
        "lookup-joins",
        "needles",
        "planning",
        "queries",
        "reader",
        "s3",
        "scales",
        "selectivity",
        "substrings",
        "included",
        "included-costs",
        "expressions",
        "to-spark",
        "tpch",
    }
    assert all("python -m tests.bench" in body for _, body in blocks)
    assert "<!-- measured" not in (ROOT / "docs" / "benchmarks.md").read_text("utf-8")

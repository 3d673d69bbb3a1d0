"""Golden output: HINDEX_UPDATE_GOLDEN=1 writes the files anew, to be read before they are kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hindex.domain import Domain
from hindex.explanations.explanation import (
    MAX_CELLS,
    MAX_STRIPES,
    Analyzed,
    Explanation,
    FileMap,
    LeafExplanation,
    ReadPath,
    RowCount,
    StripeMap,
    explain_filter,
    table_map,
)
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import ALWAYS, NEVER, AllOf, AnyOf, Filter, Leaf
from hindex.plan.reasons import Note, Reason
from hindex.queries.decisions import LookupJoin, QueryExplanation, TableDecision

FIXTURES = Path(__file__).parent / "fixtures"


def one(text: str, column: str) -> Leaf:
    return Leaf(column, OrcType(Kind.INT), Domain.points([1]), text)


def full() -> Explanation:
    gender, age, city, day = (
        one("gender = 'F'", "gender"),
        one("age >= 20 AND age <= 25", "age"),
        one(f"city IN ({', '.join(map(repr, 'abcdefgh'))}, … 12 more)", "city"),
        one("day = '2020-01-01'", "day"),
    )
    return Explanation(
        table="'data/users'",
        predicate="gender = 'F' AND (age BETWEEN 20 AND 25 OR city IN ('a', 'b', 'c')) AND day = '2020-01-01'",
        tree=explain_filter(
            AllOf((gender, AnyOf((age, city, one("late = 1", "late"))), day)),
            {
                gender: LeafExplanation("g", "BITMAP", exact=True, rows=5012),
                age: LeafExplanation(reason=Reason.NO_INDEX),
                city: LeafExplanation("city_idx", "BITMAP", rows=1, reason=Reason.STALE_FILE),
                day: LeafExplanation(None, "PARTITION", exact=True),
            },
        ),
        path=ReadPath.SELECTED_ROWS,
        files=RowCount(3, 10),
        stripes=RowCount(5, 31),
        row_groups=RowCount(40, 310),
        rows=RowCount(5012, 3_100_000),
        bytes=RowCount(None, 1 << 30),
        columns=tuple(f"column_{i}" for i in range(12)),
        notes=(
            Note(Reason.STALE_FILE, "day=2020-01-01/part-00000.zstd.orc", "length 1,048,576 -> 1,048,600"),
            Note(Reason.STALE_FILE, "day=2020-01-01/part-00001.zstd.orc", "mtime 10:00:00 -> 10:00:01"),
            Note(Reason.NO_INDEX, "age"),
        ),
    )


def minimal(root: Filter = ALWAYS) -> Explanation:
    return Explanation(
        table="t",
        predicate="",
        tree=explain_filter(root),
        path=ReadPath.FULL_SCAN if root == ALWAYS else ReadPath.NOTHING,
        files=RowCount(2, 2),
        stripes=RowCount(0, 0),
        exact=True,
    )


def analyzed() -> Explanation:
    """A query that was run, in an order and with a map."""
    cells = ["....ss..", "wwww", "", ".i"]
    files = [
        FileMap("p=1/a.orc", tuple(StripeMap(at, text) for at, text in enumerate(cells))),
        FileMap("p=1/<b> & c.orc", is_skipped=True),
        FileMap("p=2/empty.orc"),
    ]
    return replace(
        minimal(),
        order="age DESC: walks the index by_age",
        limit=10,
        columns=("id",),
        path=ReadPath.SELECTED_ROWS,
        stripes=RowCount(3, 4),
        table_map=replace(table_map(files), more_files=2, more_stripes=1000),
        analyzed=Analyzed(
            rows=10,
            seconds=1.25,
            steps=(("listing and manifest", 0.001), ("planning", 0.0), ("index lookups", 1.2)),
            ranges=3,
            bytes_fetched=12_345,
            chunks=4,
            bytes_decompressed=1 << 20,
            row_groups=2,
            whole_columns=1,
            index_pages=7,
            index_bytes=4096,
            cache_hits=1,
            cache_misses=9,
        ),
    )


def grouped() -> Explanation:
    return replace(
        minimal(),
        path=ReadPath.INDEX_ONLY,
        group="city",
        columns=("city", "count(1)"),
        bytes=RowCount(0, 5000),
    )


CASES = {
    "full": full(),
    "minimal": minimal(),
    "nothing": minimal(NEVER),
    "analyzed": analyzed(),
    "grouped": grouped(),
}


def check_golden(name: str, text: str) -> None:
    path = FIXTURES / name
    if os.environ.get("HINDEX_UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    text = str(CASES[name])
    check_golden(f"explain_{name}.txt", text + "\n")
    assert max(map(len, text.split("\n"))) <= 100
    assert text == CASES[name].to_text()
    assert not any(line != line.rstrip() for line in text.split("\n"))
    assert text.isprintable() or {c for c in text if not c.isprintable()} == {"\n"}


@pytest.mark.parametrize("name", CASES)
def test_json(name: str) -> None:
    check_golden(
        f"explain_{name}.json", json.dumps(CASES[name].to_json(), indent=2, ensure_ascii=False) + "\n"
    )


@pytest.mark.parametrize("name", CASES)
def test_html(name: str) -> None:
    html = CASES[name].to_html()
    check_golden(f"explain_{name}.html", html)
    assert CASES[name]._repr_html_() == html
    # well formed, nothing fetched, nothing run
    root = ElementTree.fromstring(html.replace("&ensp;", " "))
    assert root.tag == "div"
    assert {"script", "link", "img", "iframe"}.isdisjoint(item.tag for item in root.iter())
    assert "http" not in html
    assert not any(name.startswith("on") for item in root.iter() for name in item.attrib)


def test_explanation_of_a_query_that_spark_runs() -> None:
    """Text, JSON and HTML have the same tables and reasons; HTML has the text's facts, escaped, in its order."""
    scan = CASES["analyzed"]
    keys = LookupJoin("o.c", "customer.id", 3)
    explained = QueryExplanation(
        (
            TableDecision(
                "orders", "d = '<b>' & 1", rows=RowCount(3, 700), explanation=scan, lookups=(keys,)
            ),
            TableDecision("parts", None, Reason.NO_INDEX, "it has no index", unused=("f(x) = 1",)),
            TableDecision("customer", None, rows=RowCount(3, 40), is_counted=True, gives_keys=True),
        ),
        problem="<it is nested>",
        cause="JOIN",
    )
    html = explained.to_html()
    assert explained._repr_html_() == html
    root = ElementTree.fromstring(html.replace("&ensp;", " "))
    shown = [" ".join(item.itertext()) for item in root if item.tag != "style"]
    assert shown[:4] == [
        "Query run by Spark: JOIN",
        "  no table is read through indexes: <it is nested>",
        "Table orders: through its indexes",
        "where d = '<b>' & 1 lookup o.c by 3 keys of customer.id rows about 3 of 700",
    ]
    assert scan.to_html() in html
    assert shown[5:] == [
        "Table parts: by Spark alone",
        "unused f(x) = 1 because NO_INDEX: it has no index",
        "Table customer: once, and before the query",
        "rows 3 of 40",
    ]
    text = explained.to_text()
    assert [line for line in text.splitlines() if line.startswith("Table ")] == [
        line for line in shown if line.startswith("Table ")
    ]
    assert "\n  because    NO_INDEX: it has no index\n" in text
    tables: Any = explained.to_json()["tables"]
    first, second, third = tables
    assert (first["accelerated"], first["scan"]) == (True, scan.to_json())
    assert (second["reason"], second["detail"]) == ("NO_INDEX", "it has no index")
    assert (third["gives_keys"], third["reason"], third["detail"]) == (True, None, "")


def test_html_shows_row_groups_and_says_what_is_left_out() -> None:
    html = CASES["analyzed"].to_html()
    assert html.count('<i class="s"></i>') == 2 + 1  # one more in the legend
    assert html.count('<i class="w"></i>') == 4 + 1
    assert html.count('<i class="i"></i>') == 1 + 1
    assert html.count("<i></i>") == 7 + 1
    assert "p=1/&lt;b&gt; &amp; c.orc" in html
    assert "not shown: 2 files, 1,000 stripes" in html


def test_a_map_is_cut() -> None:
    stripes = tuple(StripeMap(at, "w" * 100) for at in range(250))
    result = table_map([FileMap("a", stripes), FileMap("b", stripes), FileMap("c", is_skipped=True)])
    assert [len(file.stripes) for file in result.files] == [200, 0]
    assert (result.more_files, result.more_stripes, result.more_groups) == (1, 50 + 250, 300 * 100)
    assert sum(len(stripe.cells) for file in result.files for stripe in file.stripes) == MAX_CELLS
    wide = table_map([FileMap("a", (StripeMap(0, "s" * (MAX_CELLS + 7)), StripeMap(1, "s")))])
    assert [stripe.cells for stripe in wide.files[0].stripes] == ["s" * MAX_CELLS]
    assert (wide.more_files, wide.more_stripes, wide.more_groups) == (0, 1, 8)
    many = table_map(FileMap(str(at), (StripeMap(0, "."),)) for at in range(MAX_STRIPES + 5))
    assert (len(many.files), many.more_files, many.more_stripes) == (MAX_STRIPES, 5, 5)
    assert str(many) == "not shown: 5 files, 5 stripes, 5 row groups"
    assert str(table_map([FileMap("a", (StripeMap(0, "."),))])) == ""


def test_shares() -> None:
    assert RowCount(1, 4).share == 0.25
    assert RowCount(0, 0).share is None
    assert RowCount(None, 4).share is None
    assert str(RowCount(None, None)) == "? of ?"

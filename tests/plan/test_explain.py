"""Golden output: HINDEX_UPDATE_GOLDEN=1 writes the files anew, to be read before they are kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hindex.domain import Domain
from hindex.orc.types import Kind, OrcType
from hindex.plan.explain import (
    Explanation,
    Kept,
    LeafAnswer,
    ReadPath,
    explain_filter,
)
from hindex.plan.filter import ALWAYS, NEVER, AllOf, AnyOf, Filter, Leaf
from hindex.plan.reasons import Note, Reason

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
                gender: LeafAnswer("g", "BITMAP", exact=True, rows=5012),
                age: LeafAnswer(reason=Reason.NO_INDEX),
                city: LeafAnswer("city_idx", "BITMAP", rows=1, reason=Reason.STALE_FILE),
                day: LeafAnswer(None, "PARTITION", exact=True),
            },
        ),
        path=ReadPath.MIXED,
        files=Kept(3, 10),
        stripes=Kept(5, 31),
        row_groups=Kept(40, 310),
        rows=Kept(5012, 3_100_000),
        bytes=Kept(None, 1 << 30),
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
        files=Kept(2, 2),
        stripes=Kept(0, 0),
        exact=True,
    )


CASES = {"full": full(), "minimal": minimal(), "nothing": minimal(NEVER)}


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


def test_shares() -> None:
    assert Kept(1, 4).share == 0.25
    assert Kept(0, 0).share is None
    assert Kept(None, 4).share is None
    assert str(Kept(None, None)) == "? of ?"

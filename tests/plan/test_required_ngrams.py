"""N-grams that conditions need: every string for which a condition is TRUE has those of an alternative."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hindex.domain import Domain, Range
from hindex.expr.patterns import java_regex, like_parts, like_regex, required_texts
from hindex.index.character_ngrams import ngrams
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import AllOf, AnyOf, Filter, Leaf, Ngrams, Residual, indexable
from hindex.plan.filter_evaluation import mask
from hindex.plan.normalize import normalize
from hindex.plan.required_ngrams import with_ngrams
from hindex.sql import parse_predicate
from hindex.table.schema import TableColumn, TableSchema

STRING = OrcType(Kind.STRING)
SCHEMA = TableSchema(
    (
        TableColumn("s", STRING),
        TableColumn("v", OrcType(Kind.VARCHAR, max_length=30)),
        TableColumn("c", OrcType(Kind.CHAR, max_length=30)),
        TableColumn("n", OrcType(Kind.INT)),
    )
)


def planned(where: str, *, others: bool = False) -> Filter:
    columns = dict.fromkeys(("s", "v", "c", "n"), others)
    return with_ngrams(normalize(parse_predicate(where), SCHEMA), columns)


def texts_of(root: Filter) -> list[tuple[str, list[str]]]:
    """Return the column of each part with n-grams, and its alternatives as texts."""
    required = []
    for item in indexable(root):
        if item.ngrams is not None:
            domains = item.ngrams.alternatives
            keys = [[bytes(part.low).decode("latin-1") for part in domain.ranges] for domain in domains]  # type: ignore[arg-type]
            required.append((item.ngrams.column, [" ".join(part) for part in keys]))
    return required


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s LIKE '%Abcd%'", [("s", ["abc bcd"])]),
        ("v LIKE '%abc'", [("v", ["abc"])]),
        ("s LIKE 'ab_cde%fgh'", [("s", ["cde fgh"])]),
        ("s ILIKE '%ABC%'", [("s", ["abc"])]),
        ("contains(trim(s), 'abc')", [("s", ["abc"])]),
        ("instr(s, 'abc') > 0", [("s", ["abc"])]),
        ("0 < locate('abc', lower(s))", [("s", ["abc"])]),
        ("instr(s, 'abc') >= 0", []),
        ("instr(s, 'abc') > 1", []),
        ("lower(s) = 'abcd'", [("s", ["abc bcd"])]),
        ("lower(s) IN ('abc', 'xyz', NULL)", [("s", ["abc", "xyz"])]),
        ("s RLIKE 'abc|x.y.zuv'", [("s", ["abc", "zuv"])]),
        ("s = 'abc'", [("s", ["abc"])]),
        ("s LIKE 'abc%'", [("s", ["abc"])]),
        ("s IN ('abc', 'def')", [("s", ["abc", "def"])]),
        ("s BETWEEN 'abcde' AND 'abcfg'", [("s", ["abc"])]),
        ("NOT s NOT LIKE '%abc%'", [("s", ["abc"])]),
        ("s LIKE '%abc%' AND n = 5 OR v RLIKE 'xyz'", [("s", ["abc"]), ("v", ["xyz"])]),
        # too short, or not certain
        ("s LIKE '%ab%'", []),
        ("s LIKE '%a%b%c%'", []),
        ("s NOT LIKE '%abc%'", []),
        ("s <> 'abc'", []),
        ("NOT contains(s, 'abc')", []),
        ("s > 'abc'", []),
        ("s RLIKE 'abc|d'", []),
        ("s RLIKE 'abc?'", []),
        ("s RLIKE '(abc)*'", []),
        ("s IN ('abc', 'd')", []),
        ("lower(s) IN ('abc', v)", []),
        ("contains(s, 'a\ua7dcb')", []),
        ("s = 'abc' OR s IS NULL", []),
        ("upper(s) = 'ABC'", []),
        ("concat(s, 'x') = 'abcx'", []),
        ("coalesce(s, 'abc') = 'abc'", []),
        ("replace(s, 'b', 'abc') = 'abc'", []),
        ("length(s) = 3", []),
        ("contains(s, v)", []),
        # CHAR is filled with blanks, and a number has no n-grams
        ("c LIKE '%abc%'", []),
        ("c = 'abc'", []),
        ("n = 123", []),
    ],
)
def test_conditions(where: str, expected: list[tuple[str, list[str]]]) -> None:
    assert texts_of(planned(where)) == expected


def test_sets_of_values_are_for_indexes_on_values() -> None:
    assert texts_of(planned("s LIKE 'abc%' AND s LIKE '%xyz%'", others=True)) == [("s", ["xyz"])]
    assert texts_of(with_ngrams(planned("s = 'abc'"), {})) == [("s", ["abc"])]
    root = normalize(parse_predicate("s = 'abc'"), SCHEMA)
    assert with_ngrams(root, {}) is root
    assert texts_of(with_ngrams(root, {"v": False})) == []


def test_many_alternatives_are_none() -> None:
    listed = ", ".join(f"'abc{number}'" for number in range(17))
    assert texts_of(planned(f"lower(s) IN ({listed})")) == []
    assert texts_of(planned(f"s IN ({listed})")) == []
    assert len(texts_of(planned(f"s IN ({listed.partition(', ')[2]})"))[0][1]) == 16


def test_ranges_within_a_character() -> None:
    """Bytes of a common prefix that end within a character are left out."""
    domain = Domain((Range("abé".encode(), "abê".encode()),))
    root = with_ngrams(Leaf("s", STRING, domain), {"s": False})
    assert texts_of(root) == []
    root = with_ngrams(Leaf("s", STRING, Domain((Range("abcé".encode(), "abcê".encode()),))), {"s": False})
    assert texts_of(root) == [("s", ["abc"])]


PIECES = [
    "abc",
    "Bcd",
    "x",
    "é",
    ".",
    "[ab]",
    "\\.",
    "(?:ab|c)",
    "(xy)",
    "a?",
    "b+",
    "c*",
    "d{2}",
    "e{0,3}",
    "\\d",
    "-",
]


def test_every_match_of_a_pattern_has_the_texts_of_an_alternative(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    texts = 0
    for _ in range(1500):
        pattern = "|".join(
            "".join(chance.choices(PIECES, k=chance.randint(1, 4))) for _ in range(chance.randint(1, 2))
        )
        if chance.random() < 0.2:
            pattern = f"({pattern})"
        if chance.random() < 0.2:
            pattern = f"^{pattern}" if "|" not in pattern or pattern[0] == "(" else pattern
        (regex, *_) = java_regex(pattern)
        alternatives = required_texts(regex)
        texts += sum(map(len, alternatives))
        strings = ["".join(chance.choices("abcBdxé.y-e1", k=chance.randint(0, 12))) for _ in range(30)]
        matches = pc.match_substring_regex(pa.array(strings), regex).to_pylist()
        for string, is_match in zip(strings, matches, strict=True):
            if is_match:
                assert any(all(text in string for text in alternative) for alternative in alternatives), (
                    pattern,
                    string,
                    alternatives,
                )
    assert texts > 500


def test_every_match_of_a_like_pattern_has_its_texts(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(1000):
        pattern = "".join(chance.choices(["%", "_", "a", "b", "\\%", "(", "|", "é", "[", "\\"], k=6))
        try:
            regex = like_regex(like_parts(pattern, "\\"))
        except Exception:  # noqa: BLE001 a wrong escape
            continue
        (texts,) = required_texts(regex)
        assert "".join(texts) == re.sub(r"(?<!\\)[%_]", "", pattern).replace("\\%", "%").replace(
            "\\_", "_"
        ) or ("\\" in pattern)
        strings = ["".join(chance.choices("ab%(|é[", k=chance.randint(0, 8))) for _ in range(30)]
        for string, is_match in zip(
            strings, pc.match_substring_regex(pa.array(strings), regex).to_pylist(), strict=True
        ):
            assert not is_match or all(text in string for text in texts)


CONDITIONS = [
    "s LIKE '%{}%'", "s ILIKE '%{}%'", "s RLIKE '{}'", "contains(s, '{}')", "startswith(lower(s), '{}')",
    "endswith(s, '{}')", "lower(s) = '{}'", "s = '{}'", "s LIKE '{}%'", "trim(s) IN ('{}', 'abcd')",
    "left(s, 4) = '{}'", "s BETWEEN '{}' AND '{}'",
]  # fmt: skip


def test_random_conditions_keep_no_row_without_the_ngrams(rng: np.random.Generator) -> None:
    """Rows for which the condition is TRUE, by its own evaluation, against the n-grams of their strings."""
    chance = random.Random(int(rng.integers(1 << 32)))
    used = matched = 0
    for _ in range(600):
        strings = [
            None if chance.random() < 0.1 else "".join(chance.choices("abAB xc", k=chance.randint(0, 9)))
            for _ in range(40)
        ]
        source, start = chance.choice(strings) or "", chance.choice([0, 0, 1, 2])
        part = source[start : start + chance.randint(2, 5)] or "abc"
        template = chance.choice(CONDITIONS)
        values = [part.lower() if "lower" in template else part, part + "b"]
        root = planned(template.format(*values))
        is_true = mask(root, {"s": pa.array(strings, pa.string())}, len(strings))
        for item in indexable(root):
            if item.ngrams is None:
                continue
            used += 1
            for string, matches in zip(strings, is_true, strict=True):
                if matches:
                    assert string is not None
                    matched += 1
                    assert has_ngrams(string, item.ngrams), (root, string)
    assert used > 200
    assert matched > 100


def has_ngrams(string: str, needed: Ngrams) -> bool:
    own = set(ngrams(string))
    return any({item.low for item in domain.ranges} <= own for domain in needed.alternatives)


def test_groups_keep_their_ngrams() -> None:
    root = planned("(s LIKE '%abc%' OR s LIKE '%def%') AND s LIKE '%xyz%'")
    assert isinstance(root, AllOf)
    assert isinstance(root.children[0], AnyOf)
    assert all(isinstance(item, Residual) and item.ngrams for item in indexable(root))

"""Values of variables in statements: what the parser reads is the value again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hindex
from hindex.errors import StatementError
from hindex.magic_values import filled, inserted
from hindex.sql import parse_predicate
from hindex.sql.predicate import Comparison, In, Literal, LiteralKind

NEW_YEAR = datetime.date(2024, 1, 1)
_CHARACTERS = "ab\\'\"`%_{}\n\t\0\x1aé\U0001f44d;-/* $"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-5, "-5"),
        (True, "TRUE"),
        (None, "NULL"),
        (1.5, "1.5D"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (Decimal("1.50"), "1.50"),
        (Decimal(3), "3BD"),
        ("O'Brien", r"'O\'Brien'"),
        ("", "''"),
        (b"\x00\xff", "X'00FF'"),
        (NEW_YEAR, "DATE '2024-01-01'"),
        (datetime.datetime(2024, 1, 1, 2, 3, 4, 5), "TIMESTAMP '2024-01-01 02:03:04.000005'"),
        (pd.Timestamp("2024-01-01"), "TIMESTAMP '2024-01-01 00:00:00'"),
        (np.int32(7), "7"),
        ([1, 2], "(1, 2)"),
        (("a", None), "('a', NULL)"),
        (range(3), "(0, 1, 2)"),
        ({7}, "(7)"),
        (np.array([1, 2]), "(1, 2)"),
        (np.array(["2024-01-01"], "datetime64[D]"), "(DATE '2024-01-01')"),
        (pd.Series(["a", "b"]), "('a', 'b')"),
        (pa.array([1, None]), "(1, NULL)"),
        (pa.chunked_array([["x"], ["y"]]), "('x', 'y')"),
        (Path("a/it's"), r"'a/it\'s'"),
        (hindex.col("a") > 1, "(a > 1)"),
        ((hindex.col("a") > 1).predicate, "(a > 1)"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert filled("(a = {x})", {"x": value}).replace("TIMESTAMP_NTZ", "TIMESTAMP") == f"(a = {text})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a value never becomes one word with what is beside it, and no comment
        ("a -{n} > 0", "a - -5 > 0"),
        ("a = {n}{n}", "a = -5  -5 "),
        ("a = 'x'{s}", "a = 'x' 'it\\'s' "),
        ("a = {s}'x'", "a = 'it\\'s' 'x'"),
        ("f({n},{n})", "f(-5,-5)"),
        ("a = '{s}'", "a = 'it\\'s'"),
        ('a = "{q}"', 'a = "say \\"hi\\""'),
        ("`{s}{t}` = 1", "`it's``` = 1"),
        ("a = r'{q}'", "a = r'say \"hi\"'"),
        ("a = '{n}{w}{ n }{1}'", "a = '-5{w}{ n }{1}'"),
        ("a = '{d.year} {m[k]} {l[0]}'", "a = '2024 v 9'"),
        ("{d.year} {m[k]} {l[0]}", " 2024 'v' 9 "),
        ("-- {w} '{n}\n/* {n} */ {n}", "-- {w} '{n}\n/* {n} */ -5 "),
        ("a = {s!s} '{s!s}'", "a = it's 'it's'"),
        ("a = '{w", "a = '{w"),
        ("a = {n} 'open {n}", "a = -5 'open {n}"),
    ],
)
def test_places(text: str, expected: str) -> None:
    known = {"n": -5, "s": "it's", "q": 'say "hi"', "t": "`", "d": NEW_YEAR, "m": {"k": "v"}, "l": [9]}
    assert filled(text, known) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "it is empty"),
        (object(), "is not a value of SQL"),
        ([[1]], "is not a value of SQL"),
        ({"a": 1}, "is not a value of SQL"),
        (pd.DataFrame({"a": [1]}), "is not a value of SQL"),
        (pa.table({"a": [1]}), "is not a value of SQL"),
    ],
)
def test_values_that_sql_does_not_have(value: object, message: str) -> None:
    with pytest.raises(
        StatementError, match=rf"(?s)the value of {{x}} cannot be put into a statement: .*{message}"
    ):
        filled("a = {x}", {"x": value})


def test_texts_are_read_back_as_they_are(rng: np.random.Generator) -> None:
    for _ in range(500):
        text = "".join(rng.choice(list(_CHARACTERS), rng.integers(12)))
        known: dict[str, Any] = {"x": text, "some": [text, None, 3]}
        expected = Literal(text, LiteralKind.STRING)
        for written in ("a = {x}", "a = '{x}'", 'a = "{x}"', "a = '' '{x}' ''"):
            found = parse_predicate(filled(written, known))
            assert isinstance(found, Comparison)
            assert found.literal == expected, (text, written)
        listed = parse_predicate(filled("a IN {some}", known))
        assert isinstance(listed, In)
        assert listed.literals[0] == expected
        around = parse_predicate(filled("a = 'b{x}c'", known))
        assert isinstance(around, Comparison)
        assert around.literal.value == f"b{text}c"


def test_options_take_texts() -> None:
    assert inserted("{a}/x{b}", {"a": "it's"}) == "it's/x{b}"


def test_raw_strings_refuse_their_quote() -> None:
    with pytest.raises(StatementError, match=r"the quote ', which r'...' cannot hold"):
        filled("a = r'{x}'", {"x": "it's"})

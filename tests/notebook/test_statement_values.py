"""Values of variables in statements: what the parser reads is the value again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hindex
from hindex.errors import StatementError
from hindex.notebook.statement_values import substitute, substitute_text
from hindex.sql import parse_predicate
from hindex.sql.lexer import unescape
from hindex.sql.predicate import And, Comparison, In, Literal, LiteralKind
from tests.support.messages import raises

NEW_YEAR = datetime.date(2024, 1, 1)
_CHARACTERS = "ab\\'\"`%_{}\n\t\0\x1aé\U0001f44d;-/* $0127uU#r"


class Colour(str, Enum):  # noqa: UP042 (str() of it is not its value)
    RED = "it's red"


class Size(int, Enum):
    LARGE = 7


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
        ("\x0012", r"'\u000012'"),
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
        # missing texts, days and times; a missing number of numpy is NaN
        (pd.Series(["a", None]), "('a', NULL)"),
        (pd.Series(["a", float("nan")], dtype=object), "('a', NULL)"),
        (pd.Series(["a", None], dtype="string"), "('a', NULL)"),
        (pd.Series([True, None, np.nan], dtype=object), "(TRUE, NULL, NULL)"),
        (pd.Series([1, None], dtype="Int64"), "(1, NULL)"),
        (pd.Series(pd.to_datetime(["2024-01-01", None])), "(TIMESTAMP '2024-01-01 00:00:00', NULL)"),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), "(DATE '2024-01-01', NULL)"),
        (np.array([1.5, np.nan]), "(1.5D, CAST('NaN' AS DOUBLE))"),
        ([1, None, float("nan")], "(1, NULL, CAST('NaN' AS DOUBLE))"),
        (np.array(5), "5"),
        (Colour.RED, r"'it\'s red'"),
        ([Colour.RED, Size.LARGE], r"('it\'s red', 7)"),
        (pa.array([1, None]), "(1, NULL)"),
        (pa.chunked_array([["x"], ["y"]]), "('x', 'y')"),
        (Path("a/it's"), r"'a/it\'s'"),
        (hindex.col("a") > 1, "(a > 1)"),
        ((hindex.col("a") > 1).predicate, "(a > 1)"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert substitute("(a = {x})", {"x": value}).replace("TIMESTAMP_NTZ", "TIMESTAMP") == f"(a = {text})"


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
        # a list in parentheses of its own
        ("a IN ({l}) AND b in(\n{l} )", "a IN (9) AND b in(\n9 )"),
        ("a IN ({n}) OR a IN ({l}, 1)", "a IN (-5) OR a IN ((9), 1)"),
        ("a = ({l}) AND ({c})", "a = ((9)) AND ((a > 1))"),
        ("a IN ({c})", "a IN ((a > 1))"),
        # a backslash that is complete
        (r"a = '\\{s}' '\u0041{s}' '\U00000041{s}' '\101{s}' '\n{s}'", None),
        (r"a = '\{w}{n!s}\{n!s}' `\{s}` r'\{n}' r'\u{n}'", r"a = '\{w}-5\-5' `\it's` r'\-5' r'\u-5'"),
        # comments nest, and a line ends with either of its characters
        ("/* /* {n} */ {n} */ {n}", "/* /* {n} */ {n} */ -5 "),
        ("-- {n}\r{n}", "-- {n}\r-5 "),
        ("a = '{e}{f}' {e} {f}", "a = 'it\\'s red7' 'it\\'s red' 7 "),
        ("a = '{w", "a = '{w"),
        ("a = {n} 'open {n}", "a = -5 'open {n}"),
    ],
)
def test_places(text: str, expected: str | None) -> None:
    variables = {
        "n": -5,
        "s": "it's",
        "q": 'say "hi"',
        "t": "`",
        "d": NEW_YEAR,
        "m": {"k": "v"},
        "l": [9],
    }
    more = {"e": Colour.RED, "f": Size.LARGE, "c": hindex.col("a") > 1}
    if expected is None:
        expected = text.replace("{s}", r"it\'s")
    assert substitute(text, {**variables, **more}) == expected


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(
    "escape",
    ["\\", "\\\\\\", "\\n\\", r"\u", r"\u004", r"\U", r"\U0000004", r"\0", r"\1", r"\17", r"{x}\u00"],
)
def test_no_backslash_takes_a_part_of_a_value(quote: str, escape: str) -> None:
    text = f"b = 1 AND\na = {quote}{escape}{{x}}{quote}"
    with raises(StatementError):
        substitute(text, {"x": "1"})


def test_keys_within_braces_have_no_quotes() -> None:
    variables = {"m": {"k": "v", "n": {"k": 1}}}
    with raises(StatementError):
        substitute("a = {m['k']}", variables)
    with raises(StatementError):
        substitute('a = {m[n]["k"]}', variables)
    with pytest.raises(StatementError, match=r"KeyError: .*; a key within braces has no quotes"):
        substitute("""a = '{m["k"]}'""", variables)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "it is empty"),
        (object(), "is not a value of SQL"),
        ([[1]], "is not a value of SQL"),
        ({"a": 1}, "is not a value of SQL"),
        (pd.DataFrame({"a": [1]}), "is not a value of SQL"),
        (pa.table({"a": [1]}), "is not a value of SQL"),
        (np.array([[1]]), "an array of 2 dimensions is not a value of SQL"),
        ([np.array([1])], "an array of 1 dimensions is not a value of SQL"),
        (pd.NA, "is not a value of SQL"),
        (pd.NaT, "is not a value of SQL"),
    ],
)
def test_values_that_sql_does_not_have(value: object, message: str) -> None:
    with pytest.raises(
        StatementError, match=rf"(?s)the value of {{x}} cannot be put into a statement: .*{message}"
    ):
        substitute("a = {x}", {"x": value})


def test_texts_are_read_back_as_they_are(rng: np.random.Generator) -> None:
    for _ in range(500):
        text = "".join(rng.choice(list(_CHARACTERS), rng.integers(12)))
        variables: dict[str, Any] = {"x": text, "some": [text, None, 3]}
        expected = Literal(text, LiteralKind.STRING)
        for written in ("a = {x}", "a = '{x}'", 'a = "{x}"', "a = '' '{x}' ''"):
            result = parse_predicate(substitute(written, variables))
            assert isinstance(result, Comparison)
            assert result.right == expected, (text, written)
        listed = parse_predicate(substitute("a IN {some}", variables))
        assert isinstance(listed, In)
        assert listed.items[0] == expected
        around = parse_predicate(substitute("a = 'b{x}7'", variables))
        assert isinstance(around, Comparison)
        assert around.right == Literal(f"b{text}7", LiteralKind.STRING)
        assert parse_predicate(str(around)) == around


def test_no_value_ends_its_quotes(rng: np.random.Generator) -> None:
    """Whatever stands around it: a value changes the text that it is in, and nothing behind that."""
    refused = 0
    for _ in range(500):
        before, text = ("".join(rng.choice(list("\\uU0147ab"), rng.integers(6))) for _ in range(2))
        value = "".join(rng.choice(list("\\'\"01a-"), rng.integers(6)))
        try:
            written = substitute(f"a = '{before}{{x}}{text}' AND b = 2", {"x": value})
        except StatementError as error:
            assert "the backslash before {x}" in str(error)  # noqa: PT017
            refused += 1
            continue
        try:
            expected = unescape(before) + value + unescape(text)
            result = parse_predicate(written)
        except StatementError:
            # the text behind the value takes the quote
            assert (len(text) - len(text.rstrip("\\"))) % 2
            continue
        assert isinstance(result, And)
        assert result.children[1] == parse_predicate("b = 2")
        assert isinstance(result.children[0], Comparison)
        assert result.children[0].right == Literal(expected, LiteralKind.STRING), (before, value, text)
    assert 20 < refused < 400


def test_options_take_texts() -> None:
    assert substitute_text("{a}/x{b}", {"a": "it's"}) == "it's/x{b}"


def test_raw_strings_refuse_their_quote() -> None:
    with raises(StatementError):
        substitute("a = r'{x}'", {"x": "it's"})

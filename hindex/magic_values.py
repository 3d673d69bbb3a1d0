"""``{name}`` in the statements of notebooks: the values of variables, written so that the parser reads them back."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from hindex.builder import Expr, literal
from hindex.errors import StatementError
from hindex.sql.predicate import Predicate, quote_string

# a variable, or what `str.format` reaches from it; !s: its text as it is
_NAME = re.compile(r"\{(?P<field>(?P<root>[^\W\d]\w*)(?:\.[^\W\d]\w*|\[[^\][{}]+\])*)(?P<raw>!s)?\}")
_BRACED = re.compile(r"\{[^{}]*\}")
_LISTS = (list, tuple, set, frozenset, range)
_CONDITIONS = (Expr, *get_args(Predicate))

#: What may stand beside a value without becoming one word with it, or a comment. At the ends there may be quotes.
_APART = tuple(" \t\r\n(),;=<>")


def filled(text: str, known: Mapping[str, Any]) -> str:
    """Statements with the values of variables in place of their names in braces.

    Outside of quotes a value becomes its literal: text in quotes, None NULL, a list ``(a, b)``; a condition made with
    :func:`hindex.col` goes in as it is, in parentheses. Within quotes its text is inserted, with what would end the
    quotes escaped; braces around anything but a variable stay. ``{name!s}`` is the value's text as it is, wherever it
    stands. Comments stay.

    :raises StatementError: outside of quotes, if there is no such variable, or its value is none of SQL's.
    """
    from hindex.sql.lexer import PIECES

    parts = []
    position = 0
    for piece in PIECES.finditer(text):
        parts.append(_with_literals(text[position : piece.start()], known))
        position = piece.end()
        if piece["open"]:  # the rest is within quotes that are not closed: parsing says so
            position = piece.start()
            break
        parts.append(_within_quotes(piece[0], known) if piece["quoted"] else piece[0])
    else:
        return "".join([*parts, _with_literals(text[position:], known)])
    return "".join([*parts, text[position:]])


def inserted(text: str, known: Mapping[str, Any]) -> str:
    """A text with the texts of variables in place of their names in braces; other braces stay."""
    return _NAME.sub(lambda name: str(_value(name, known)) if name["root"] in known else name[0], text)


def _with_literals(text: str, known: Mapping[str, Any]) -> str:
    def replaced(braces: re.Match[str]) -> str:
        name = _NAME.fullmatch(braces[0])
        if name is None:
            raise StatementError(
                f"{braces[0]} is not the name of a variable in braces: write {{name}}, or {{name!s}} for its text"
            )
        if name["root"] not in known:
            raise StatementError(f"there is no variable {name['root']!r}: {name[0]} stands for its value")
        value = _value(name, known)
        if name["raw"]:
            return str(value)
        try:
            found = sql_text(value)
        except (TypeError, ValueError) as error:
            raise StatementError(f"the value of {name[0]} cannot be put into a statement: {error}") from error
        before, after = text[: braces.start()][-1:], text[braces.end() :][:1]
        return " " * (before not in _APART) + found + " " * (after not in _APART)

    return _BRACED.sub(replaced, text)


def _within_quotes(quoted: str, known: Mapping[str, Any]) -> str:
    is_raw, quote = quoted[0] in "rR", quoted[-1]

    def replaced(name: re.Match[str]) -> str:
        if name["root"] not in known:
            return name[0]
        text = str(_value(name, known))
        if name["raw"]:
            return text
        if quote == "`":
            return text.replace("`", "``")
        if not is_raw:
            return quote_string(text)[1:-1].replace('"', '\\"')
        if quote in text:
            raise StatementError(
                f"the value of {name[0]} has the quote {quote}, which r{quote}...{quote} cannot hold"
            )
        return text

    return _NAME.sub(replaced, quoted)


def _value(name: re.Match[str], known: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        value, _ = string.Formatter().get_field(name["field"], (), known)
    except (AttributeError, LookupError, TypeError) as error:
        raise StatementError(f"{name[0]} has no value: {type(error).__name__}: {error}") from error
    return value


def sql_text(value: object) -> str:
    """A value as SQL: a literal, literals in parentheses for a list, or a condition.

    :raises TypeError: for a value of a type that SQL has no literals of.
    :raises ValueError: for a number that is too long, and an empty list.
    """
    if isinstance(value, _CONDITIONS):
        return f"({value})"
    if isinstance(value, os.PathLike):
        return quote_string(os.fsdecode(value))
    if isinstance(value, _LISTS) or getattr(value, "ndim", None) == 1:
        return _listed(value)  # type: ignore[arg-type]
    if hasattr(value, "to_pylist"):
        return _listed(value.to_pylist())
    return str(literal(value))


def _listed(values: Iterable[object]) -> str:
    items = [str(literal(value)) for value in values]
    if not items:
        raise ValueError("it is empty, and SQL has no list of nothing")
    return f"({', '.join(items)})"

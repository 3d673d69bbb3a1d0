"""Substitute the values of variables for ``{name}`` in the statements of notebooks."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, get_args

from hindex.api.conditions import Expr, literal
from hindex.errors import StatementError
from hindex.sql.predicate import NULL, Literal, LiteralKind, Predicate, quote_string, within_quotes

# a variable, or an attribute or item of it; !s inserts the string unquoted
_NAME = re.compile(r"\{(?P<field>(?P<root>[^\W\d]\w*)(?:\.[^\W\d]\w*|\[[^\][{}]+\])*)(?P<raw>!s)?\}")
_BRACED = re.compile(r"\{[^{}]*\}")
_LISTS = (list, tuple, set, frozenset, range)
_CONDITIONS = (Expr, *get_args(Predicate))
_NUMBERS = (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE)

#: The beginning of a list that has its own parentheses.
_IN = re.compile(r"\bIN\s*\(\s*\Z", re.IGNORECASE)
_CLOSED = re.compile(r"\s*\)")
#: The part of ``{x['k']}`` before the quote.
_KEY = re.compile(r"\{(?P<root>[^\W\d]\w*)[^{}]*\[\Z")
#: The escapes of a string; the last one may be incomplete.
_ESCAPES = re.compile(
    r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[01][0-7]{2}"
    r"|(?P<begun>(?:u[0-9A-Fa-f]*|U[0-9A-Fa-f]*|[01][0-7]?)?\Z)|.)",
    re.DOTALL,
)

#: Characters beside a value that do not join it to a word or a comment.
_APART = tuple(" \t\r\n(),;=<>")


def substitute(text: str, variables: Mapping[str, Any]) -> str:
    """Statements with the values of variables in place of their names in braces.

    Outside of quotes a value becomes its literal: a string in quotes, None NULL, a list ``(a, b)``; a condition made
    with `hindex.col` is inserted in parentheses. Within quotes the value is inserted as a string, with the
    characters escaped that would end the quotes; braces around anything but a variable stay. ``{name!s}`` inserts the
    value as a string without quotes, anywhere. Comments stay.

    Raises:
        StatementError: outside of quotes, if there is no such variable, or its value is none of SQL's; within quotes,
            if a backslash before the braces would take a part of the value for its own.
    """
    from hindex.sql.lexer import PIECES, SqlText

    parts = []
    position = 0
    for piece in PIECES.finditer(text):
        between = text[position : piece.start()]
        key = _KEY.search(between) if piece["quoted"] else None
        if key is not None and key["root"] in variables:
            plain = f"{key[0]}{piece[0][1:-1]}]}}"
            raise SqlText(text).error(f"a key within braces has no quotes: write {plain}", piece.start())
        parts.append(_with_literals(between, variables))
        position = piece.end()
        if piece["open"]:  # the rest is within quotes that are not closed: parsing says so
            position = piece.start()
            break
        parts.append(_within_quotes(text, piece, variables) if piece["quoted"] else piece[0])
    else:
        return "".join([*parts, _with_literals(text[position:], variables)])
    return "".join([*parts, text[position:]])


def substitute_text(text: str, variables: Mapping[str, Any]) -> str:
    """Substitute variables as unquoted strings; other braces stay."""
    return _NAME.sub(
        lambda name: _text(_value(name, variables)) if name["root"] in variables else name[0], text
    )


def _with_literals(text: str, variables: Mapping[str, Any]) -> str:
    def replaced(braces: re.Match[str]) -> str:
        name = _NAME.fullmatch(braces[0])
        if name is None:
            raise StatementError(
                f"{braces[0]} is not the name of a variable in braces: write {{name}}, or {{name!s}} for its text"
            )
        if name["root"] not in variables:
            raise StatementError(f"there is no variable {name['root']!r}: {name[0]} stands for its value")
        value = _value(name, variables)
        if name["raw"]:
            return _text(value)
        before, after = text[: braces.start()], text[braces.end() :]
        try:
            sql = sql_text(value)
        except (TypeError, ValueError) as error:
            raise StatementError(f"the value of {name[0]} cannot be put into a statement: {error}") from error
        if _items(value) is not None and _IN.search(before) and _CLOSED.match(after):
            sql = sql[1:-1]
        return " " * (before[-1:] not in _APART) + sql + " " * (after[:1] not in _APART)

    return _BRACED.sub(replaced, text)


def _within_quotes(statements: str, piece: re.Match[str], variables: Mapping[str, Any]) -> str:
    from hindex.sql.lexer import SqlText

    quoted = piece[0]
    is_raw, quote = quoted[0] in "rR", quoted[-1]
    written, position = "", 0
    for name in _NAME.finditer(quoted):
        if name["root"] not in variables:
            continue
        written += quoted[position : name.start()]
        position = name.end()
        text = _text(_value(name, variables))
        if name["raw"]:
            written += text
        elif quote == "`":
            written += text.replace("`", "``")
        elif not is_raw:
            if any(escape["begun"] is not None for escape in _ESCAPES.finditer(written, 1)):
                raise SqlText(statements).error(
                    f"the backslash before {name[0]} would take the value's first characters for its own: "
                    f"double the backslash, or write a raw string r{quote}...{quote}",
                    piece.start() + name.start(),
                )
            written += within_quotes(text)
        elif quote in text:
            raise StatementError(
                f"the value of {name[0]} has the quote {quote}, which r{quote}...{quote} cannot hold"
            )
        else:
            written += text
    return written + quoted[position:]


def _value(name: re.Match[str], variables: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        value, _ = string.Formatter().get_field(name["field"], (), variables)
    except (AttributeError, LookupError, TypeError) as error:
        quotes = "; a key within braces has no quotes" if "['" in name[0] or '["' in name[0] else ""
        raise StatementError(f"{name[0]} has no value: {type(error).__name__}: {error}{quotes}") from error
    return value


def _text(value: object) -> str:
    """Return a value as a string; a string or number enum as its value."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    return str(value.value if isinstance(value, Enum) and isinstance(value, str | int | float) else value)


def sql_text(value: object) -> str:
    """Return a value as SQL: a literal, literals in parentheses for a list, or a condition.

    Raises:
        TypeError: for a value of a type that SQL has no literals of.
        ValueError: for a number that is too long, and an empty list.
    """
    if isinstance(value, _CONDITIONS):
        return f"({value})"
    if isinstance(value, os.PathLike):
        return quote_string(os.fsdecode(value))
    items = _items(value)
    return str(_literal(value)) if items is None else _sql_list(items)


def _items(value: object) -> Iterable[object] | None:
    """Return the items of a list-like value; None for other values."""
    if isinstance(value, _LISTS) or getattr(value, "ndim", None) == 1:
        return value  # type: ignore[return-value]
    return value.to_pylist() if hasattr(value, "to_pylist") else None


def _literal(value: object) -> Literal:
    if getattr(value, "ndim", 0):
        raise TypeError(f"an array of {value.ndim} dimensions is not a value of SQL")  # type: ignore[attr-defined]
    return literal(value)


def _sql_list(values: Iterable[object]) -> str:
    items = [_literal(None if _is_missing(value) else value) for value in values]
    if not items:
        raise ValueError("it is empty, and SQL has no list of nothing")
    if any(item.kind not in _NUMBERS and item != NULL for item in items):
        # pandas' missing text or boolean is NaN
        items = [NULL if item.value != item.value else item for item in items]
    return f"({', '.join(map(str, items))})"


def _is_missing(value: object) -> bool:
    """Return True if a value is a missing value of pandas or numpy, but not a number."""
    name = type(value).__name__
    return name in ("NAType", "NaTType") or (name == "datetime64" and value != value)

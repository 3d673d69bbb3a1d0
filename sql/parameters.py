"""Parameters of a query, ``:name`` and ``?``, as literals in its tokens: only for finding out what it asks for."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import Token, TokenType

from hindex.sql.dialect import Hindex
from hindex.sql.expression import quote_string

Args = Mapping[str, Any] | Sequence[Any]

#: What an operand ends with: a colon behind one goes into a value, and is no parameter's.
_OPERAND_ENDS = frozenset(
    {
        *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER),
        *(TokenType.R_PAREN, TokenType.R_BRACKET),
    }
)


class UnboundParameterError(ValueError):
    """A parameter's value is not of a type that has a literal here."""


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise UnboundParameterError
    return f"{value!r}" if "e" in repr(value) else f"{value!r}E0"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise UnboundParameterError
    text = format(value, "f")
    return text if "." in text else f"{text}."


_LITERALS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: str(value).upper(),
    int: str,
    float: _float,
    str: quote_string,
    Decimal: _decimal,
    type(None): lambda _: "NULL",
    datetime.date: lambda value: f"DATE '{value.isoformat()}'",
    bytes: lambda value: f"X'{value.hex()}'",
}


def literal_text(value: object) -> str:
    """Write a parameter's value as a literal; a negative number is in parentheses.

    :raises UnboundParameterError: for a value of another type.
    """
    write = _LITERALS.get(type(value))
    if write is None:
        raise UnboundParameterError
    text = write(value)
    return f"({text})" if text.startswith("-") else text


def bind_parameters(tokens: Sequence[Token], args: Args | None) -> list[Token]:
    """Replace parameters by the tokens of literals, at the same places of the text.

    Parameters without a value stay: Spark reports them.

    :raises UnboundParameterError: if a parameter's value has no literal here.
    """
    if not args:
        return list(tokens)
    is_named = isinstance(args, Mapping)
    bound: list[Token] = []
    position = at = 0
    while at < len(tokens):
        token = tokens[at]
        width, value, has_value = 1, None, False
        if is_named and _is_named_parameter(tokens, at):
            name = tokens[at + 1].text
            has_value, width = name in args, 2
            value = args[name] if has_value and isinstance(args, Mapping) else None
        elif not is_named and token.token_type is TokenType.PLACEHOLDER:
            has_value = position < len(args)
            value = args[position] if has_value and not isinstance(args, Mapping) else None
            position += 1
        if has_value:
            bound += _tokens_at(literal_text(value), token.start, tokens[at + width - 1].end)
        else:
            bound += tokens[at : at + width]
        at += width
    return bound


def count_positional(tokens: Sequence[Token]) -> int:
    """Count the parameters that are written ``?``."""
    return sum(token.token_type is TokenType.PLACEHOLDER for token in tokens)


def _is_named_parameter(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].token_type is not TokenType.COLON or at + 1 == len(tokens):
        return False
    name = tokens[at + 1]
    is_name = name.token_type is not TokenType.STRING and name.text.isidentifier()
    follows_operand = at > 0 and tokens[at - 1].token_type in _OPERAND_ENDS
    return is_name and name.start == tokens[at].end + 1 and not follows_operand


def _tokens_at(text: str, start: int, end: int) -> list[Token]:
    return [
        Token(token.token_type, token.text, token.line, token.col, start, end)
        for token in Hindex().tokenize(text)
    ]

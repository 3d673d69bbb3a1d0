"""Parameters of statements, ``:name`` and ``?``, and the arguments that are bound to them as literals.

Arguments are bound to tokens: a parameter within a string or a comment is none, and no argument is read as SQL.

Source: Spark SQL reference, "Parameterized queries".
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import Token, TokenType

from hindex.errors import ArgumentError, ArgumentTypeError
from hindex.sql.dialect import Hindex
from hindex.sql.lexer import SqlText
from hindex.sql.literals import LiteralError, of_value
from hindex.sql.predicate import Literal, LiteralKind

#: Arguments by name, or in the order of the parameters.
Args = Mapping[str, Any] | Sequence[Any]

#: What an operand ends with: a colon behind one goes into a value, and is no parameter's.
_OPERAND_ENDS = frozenset(
    {
        *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER),
        *(TokenType.R_PAREN, TokenType.R_BRACKET),
    }
)
#: The types of arguments whose literals mean to Spark what they mean to PySpark.
_PYSPARK_TYPES = (type(None), bool, int, float, str, Decimal, bytes, datetime.date, datetime.datetime)
_NUMBERS = (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.DOUBLE)
#: So much of an argument is shown in a message.
_SHOWN = 60


class UnboundParameterError(ValueError):
    """An argument has no literal; the message says why."""


def check_args(args: object) -> dict[str, Any] | list[Any]:
    """Check arguments; return them as ``spark.sql`` takes them.

    Raises:
        ArgumentTypeError: for anything but a dict by names or a list.
    """
    if isinstance(args, Mapping):
        for name in args:
            if not isinstance(name, str):
                raise ArgumentTypeError(
                    f"args has the name {name!r}: names are strings, such as {{'id': 7}} for :id"
                )
        return dict(args)
    if isinstance(args, Sequence) and not isinstance(args, str | bytes | bytearray):
        return list(args)
    raise ArgumentTypeError(
        f"args is {args!r}: pass a dict, such as {{'id': 7}} for :id, or a list of values, one for each ?"
    )


def bind_parameters(tokens: Sequence[Token], args: Args | None, *, for_spark: bool = True) -> list[Token]:
    """Replace parameters by the tokens of literals, at the same places of the text.

    Parameters without an argument stay.

    Args:
        for_spark: bind only what surely means the same to PySpark: there, a datetime without a zone is an instant by
            the zone of this machine. Else it is what a clock shows.

    Raises:
        UnboundParameterError: if an argument has no literal here.
    """
    if not args:
        return list(tokens)
    bound: list[Token] = []
    at = position = 0
    while at < len(tokens):
        parameter, width = _parameter(tokens, at, position)
        position += parameter == position
        if parameter is not None and _has_argument(parameter, args):
            first, last = tokens[at], tokens[at + width - 1]
            literal = _literal(parameter, args[parameter], for_spark)  # type: ignore[index]
            bound += _tokens_at(_literal_text(literal), first.start, last.end)
        else:
            bound += tokens[at : at + width]
        at += width
    return bound


def check_parameters(tokens: Sequence[Token], args: Args, text: str) -> None:
    """Refuse parameters without an argument, and arguments without a parameter.

    Raises:
        ArgumentError: naming it, and marking a parameter in the text.
    """
    parameters: list[int | str] = []
    at = 0
    while at < len(tokens):
        count = sum(isinstance(parameter, int) for parameter in parameters)
        parameter, width = _parameter(tokens, at, count)
        if parameter is not None:
            if not _has_argument(parameter, args):
                message = f"the parameter {_spelled(parameter)} {_remedy(parameter, args)}"
                raise ArgumentError(str(SqlText(text).error(message, tokens[at].start)))
            parameters.append(parameter)
        at += width
    unused = [name for name in _keys(args) if name not in parameters]
    if unused:
        listed = ", ".join(map(_spelled, dict.fromkeys(parameters))) or "none"
        argument = repr(unused[0]) if isinstance(unused[0], str) else f"{len(args)} values"
        raise ArgumentError(
            f"args has {argument}, and the statement has no parameter {_spelled(unused[0])} (its parameters: {listed})"
        )


def _parameter(tokens: Sequence[Token], at: int, position: int) -> tuple[int | str | None, int]:
    """Return the parameter that begins at a token, by name or position, or None; and its number of tokens."""
    token = tokens[at]
    if token.token_type is TokenType.PLACEHOLDER:
        return position, 1
    if token.token_type is not TokenType.COLON or at + 1 == len(tokens):
        return None, 1
    name = tokens[at + 1]
    is_name = name.token_type is TokenType.IDENTIFIER or name.text.isidentifier()
    follows_operand = at > 0 and tokens[at - 1].token_type in _OPERAND_ENDS
    if not is_name or name.token_type is TokenType.STRING or name.start > token.end + 1 or follows_operand:
        return None, 1
    return name.text, 2


def _keys(args: Args) -> list[int | str]:
    return list(args) if isinstance(args, Mapping) else list(range(len(args)))


def _has_argument(parameter: int | str, args: Args) -> bool:
    if isinstance(args, Mapping):
        return parameter in args
    return isinstance(parameter, int) and parameter < len(args)


def _spelled(parameter: int | str) -> str:
    return f":{parameter}" if isinstance(parameter, str) else f"? number {parameter + 1}"


def _remedy(parameter: int | str, args: Args) -> str:
    if isinstance(parameter, str) != isinstance(args, Mapping):
        expected = "a dict, args={'name': value}" if isinstance(parameter, str) else "a list, args=[value]"
        return f"takes its argument from {expected}"
    listed = ", ".join(map(repr, args)) or "none" if isinstance(args, Mapping) else len(args)
    return f"has no argument: args has {listed}"


def _literal(parameter: int | str, value: Any, for_spark: bool) -> Literal:  # noqa: ANN401
    """Return the literal of an argument.

    Raises:
        UnboundParameterError: if there is none.
    """
    problem = "use None, bool, int, float, Decimal, str, bytes, date or datetime"
    try:
        literal = None
        if not for_spark:
            literal = of_value(value)
        elif type(value) in _PYSPARK_TYPES:
            is_local = isinstance(value, datetime.datetime) and value.tzinfo is None
            literal = of_value(_instant(value) if is_local else value)
    except LiteralError as error:
        literal, problem = None, str(error)
    if literal is not None:
        return literal
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    raise UnboundParameterError(
        f"the argument of {_spelled(parameter)} is {shown}, of type {type(value).__name__}: {problem}"
    )


def _instant(value: datetime.datetime) -> datetime.datetime:
    """Return a local time of this machine with its offset.

    Raises:
        LiteralError: for one that occurs twice or not at all.
    """
    instant = value.astimezone()
    if instant.utcoffset() != value.replace(fold=1 - value.fold).astimezone().utcoffset():
        raise LiteralError(
            f"{value} is not one instant in the zone of this machine; use a datetime with a zone"
        )
    return instant


def _literal_text(literal: Literal) -> str:
    """Return the SQL of a literal, in parentheses unless it is an unsigned number: adjacent strings would be joined."""
    text = str(literal)
    return text if literal.kind in _NUMBERS and text[0].isdigit() else f"({text})"


def _tokens_at(text: str, start: int, end: int) -> list[Token]:
    return [
        Token(token.token_type, token.text, token.line, token.col, start, end)
        for token in Hindex().tokenize(text)
    ]

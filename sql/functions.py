"""The functions of SQL that predicates may use, by name and number of arguments.

Functions that are written with others here (``nvl``, ``if``, ``mod``) become those, so that there is less to evaluate.
What types they take, and how they are evaluated, is the business of :mod:`hindex.expr`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from hindex.errors import ArgumentError
from hindex.sql.predicate import (
    NULL,
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Cast,
    ComparisonOp,
    Expression,
    Literal,
    Not,
    RLike,
    as_predicate,
    compare,
    is_null,
    without_padding,
)

#: Functions that are evaluated as they are: the least and greatest number of arguments, None for any number.
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1),
    "ceil": (1, 1),
    "coalesce": (1, None),
    "concat": (1, None),
    "contains": (2, 2),
    "date_add": (2, 2),
    "date_sub": (2, 2),
    "datediff": (2, 2),
    "day": (1, 1),
    "dayofweek": (1, 1),
    "dayofyear": (1, 1),
    "endswith": (2, 2),
    "floor": (1, 1),
    "greatest": (2, None),
    "hour": (1, 1),
    "isnan": (1, 1),
    "last_day": (1, 1),
    "least": (2, None),
    "left": (2, 2),
    "length": (1, 1),
    "lower": (1, 1),
    "ltrim": (1, 1),
    "minute": (1, 1),
    "month": (1, 1),
    "negative": (1, 1),
    "quarter": (1, 1),
    "replace": (2, 3),
    "right": (2, 2),
    "round": (1, 2),
    "rtrim": (1, 1),
    "second": (1, 1),
    "startswith": (2, 2),
    "substring": (2, 3),
    "trim": (1, 1),
    "upper": (1, 1),
    "weekday": (1, 1),
    "weekofyear": (1, 1),
    "year": (1, 1),
}

_OTHER_NAMES = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "date_diff": "datediff",
    "dayofmonth": "day",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "nvl": "coalesce",
    "substr": "substring",
    "ucase": "upper",
}

_CASTS = {
    "bigint": "BIGINT",
    "binary": "BINARY",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "double": "DOUBLE",
    "float": "FLOAT",
    "int": "INT",
    "smallint": "SMALLINT",
    "string": "STRING",
    "timestamp": "TIMESTAMP",
    "tinyint": "TINYINT",
    "to_date": "DATE",
}


def _regexp(args: Sequence[Expression]) -> Expression:
    value, pattern = args
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise ArgumentError("the pattern of a regular expression is a literal in quotes")
    return RLike(value, pattern.value)


_WRITTEN: dict[str, tuple[int, Callable[[Sequence[Expression]], Expression]]] = {
    "equal_null": (2, lambda a: compare(ComparisonOp.NULL_SAFE_EQ, a[0], a[1])),
    "if": (3, lambda a: Case(((as_predicate(a[0]), a[1]),), a[2])),
    "isnotnull": (1, lambda a: Not(is_null(a[0]))),
    "isnull": (1, lambda a: is_null(a[0])),
    "mod": (2, lambda a: Arithmetic(ArithmeticOp.REMAINDER, a[0], a[1])),
    "nullif": (2, lambda a: Case(((without_padding(compare(ComparisonOp.EQ, a[0], a[1])), NULL),), a[0])),
    "nvl2": (3, lambda a: Case(((Not(is_null(a[0])), a[1]),), a[2])),
    "regexp": (2, _regexp),
    "regexp_like": (2, _regexp),
    "rlike": (2, _regexp),
}

#: Everything that may be written.
NAMES = tuple(sorted({*FUNCTIONS, *_OTHER_NAMES, *_CASTS, *_WRITTEN} - {"negative"}))


class FunctionError(ArgumentError):
    """A function that is not known, or not with so many arguments."""


def call(name: str, args: Sequence[Expression]) -> Expression:
    """A function of its arguments.

    >>> str(call("NVL", [NULL, NULL]))
    'coalesce(NULL, NULL)'

    :raises FunctionError: naming the function; the message names those that are spelled alike.
    """
    lower = name.lower()
    given = len(args)
    least: int
    most: int | None
    if lower in _CASTS:
        least = most = 1
    elif lower in _WRITTEN:
        least = most = _WRITTEN[lower][0]
    elif lower in ("ifnull", "nvl"):
        least = most = 2
    else:
        known = FUNCTIONS.get(_OTHER_NAMES.get(lower, lower))
        if known is None:
            close = get_close_matches(lower, NAMES, n=2, cutoff=0.8)
            meant = f"did you mean {' or '.join(close)}? " if close else ""
            raise FunctionError(f"function {name}; {meant}those evaluated here are in docs/sql.md")
        least, most = known
    if given < least or (most is not None and given > most):
        wanted = str(least) if least == most else f"{least} to {most}" if most else f"{least} or more"
        raise FunctionError(f"function {name} of {given} arguments, it takes {wanted}")
    if lower in _CASTS:
        return Cast(args[0], _CASTS[lower])
    if lower in _WRITTEN:
        return _WRITTEN[lower][1](args)
    return Call(_OTHER_NAMES.get(lower, lower), tuple(args))

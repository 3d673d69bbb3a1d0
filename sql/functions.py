"""The functions of SQL that expressions may use, by name, with their numbers of arguments.

Functions that other expressions can replace (``nvl``, ``if``, ``mod``) are rewritten to those. `hindex.expr`
types and evaluates the others.
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
    LiteralKind,
    Not,
    RLike,
    as_predicate,
    compare,
    is_null,
    without_padding,
)
from hindex.value_class import value_class

Builder = Callable[[Sequence[Expression]], Expression]


@value_class
class Function:
    """A function of SQL: its least and greatest number of arguments (None: any number), and its expression."""

    min_args: int
    max_args: int | None
    build: Builder


#: Functions with types and values in `hindex.expr.functions`: the least and greatest number of arguments.
EVALUATED: dict[str, tuple[int, int | None]] = {
    "[]": (2, 2),
    "[*]": (1, 1),
    "[*].": (2, 2),
    "abs": (1, 1),
    "add_months": (2, 2),
    "array": (1, None),
    "array_contains": (2, 2),
    "arrays_overlap": (2, 2),
    "ceil": (1, 1),
    "coalesce": (1, None),
    "concat": (1, None),
    "contains": (2, 2),
    "date_add": (2, 2),
    "date_sub": (2, 2),
    "date_trunc": (2, 2),
    "datediff": (2, 2),
    "day": (1, 1),
    "dayofweek": (1, 1),
    "dayofyear": (1, 1),
    "endswith": (2, 2),
    "floor": (1, 1),
    "get_json_object": (2, 2),
    "greatest": (2, None),
    "hour": (1, 1),
    "instr": (2, 2),
    "isnan": (1, 1),
    "last_day": (1, 1),
    "least": (2, None),
    "left": (2, 2),
    "length": (1, 1),
    "lower": (1, 1),
    "ltrim": (1, 1),
    "map_keys": (1, 1),
    "map_values": (1, 1),
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
    "trunc": (2, 2),
    "upper": (1, 1),
    "weekday": (1, 1),
    "weekofyear": (1, 1),
    "year": (1, 1),
}

#: Functions of the time at which a query is planned, which `hindex.expr.constant_times` replaces by literals.
CLOCK_FUNCTIONS = frozenset({"current_date", "current_timestamp", "localtimestamp"})

_ALIASES = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "date_diff": "datediff",
    "dayofmonth": "day",
    "lcase": "lower",
    "len": "length",
    "substr": "substring",
    "ucase": "upper",
}

CASTS = {
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


def _call(name: str) -> Builder:
    return lambda args: Call(name, tuple(args))


def _cast(to: str) -> Builder:
    return lambda args: Cast(args[0], to)


def _regexp(args: Sequence[Expression]) -> Expression:
    value, pattern = args
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise ArgumentError("the pattern of a regular expression is a literal in quotes")
    return RLike(value, pattern.value)


#: Every function by its name in lower case.
FUNCTIONS: dict[str, Function] = {
    **{name: Function(*counts, _call(name)) for name, counts in EVALUATED.items()},
    **{alias: Function(*EVALUATED[name], _call(name)) for alias, name in _ALIASES.items()},
    **{name: Function(0, 0, _call(name)) for name in CLOCK_FUNCTIONS},
    **{name: Function(1, 1, _cast(to)) for name, to in CASTS.items()},
    "curdate": Function(0, 0, _call("current_date")),
    "element_at": Function(2, 2, _call("[]")),
    "equal_null": Function(2, 2, lambda a: compare(ComparisonOp.NULL_SAFE_EQ, a[0], a[1])),
    "if": Function(3, 3, lambda a: Case(((as_predicate(a[0]), a[1]),), a[2])),
    "ifnull": Function(2, 2, _call("coalesce")),
    "locate": Function(2, 2, lambda a: Call("instr", (a[1], a[0]))),
    "isnotnull": Function(1, 1, lambda a: Not(is_null(a[0]))),
    "isnull": Function(1, 1, lambda a: is_null(a[0])),
    "map_contains_key": Function(2, 2, lambda a: Call("array_contains", (Call("map_keys", (a[0],)), a[1]))),
    "mod": Function(2, 2, lambda a: Arithmetic(ArithmeticOp.REMAINDER, a[0], a[1])),
    "now": Function(0, 0, _call("current_timestamp")),
    "nullif": Function(
        2, 2, lambda a: Case(((without_padding(compare(ComparisonOp.EQ, a[0], a[1])), NULL),), a[0])
    ),
    "nvl": Function(2, 2, _call("coalesce")),
    "nvl2": Function(3, 3, lambda a: Case(((Not(is_null(a[0])), a[1]),), a[2])),
    "regexp": Function(2, 2, _regexp),
    "regexp_like": Function(2, 2, _regexp),
    "rlike": Function(2, 2, _regexp),
}

#: The names that SQL text may use.
NAMES = tuple(sorted(FUNCTIONS.keys() - {"negative", "[]", "[*]", "[*]."}))


class FunctionError(ArgumentError):
    """An unknown function, or a wrong number of arguments."""


def call(name: str, args: Sequence[Expression]) -> Expression:
    """Return the expression of a function call.

    >>> str(call("NVL", [NULL, NULL]))
    'coalesce(NULL, NULL)'

    Raises:
        FunctionError: naming the function, and names that are spelled alike.
    """
    lower = name.lower()
    function = FUNCTIONS.get(lower)
    if function is None:
        close = get_close_matches(lower, NAMES, n=2, cutoff=0.8)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        raise FunctionError(f"function {name}; {meant}those evaluated here are in docs/sql-predicates.md")
    low, high = function.min_args, function.max_args
    if len(args) < low or (high is not None and len(args) > high):
        expected = str(low) if low == high else f"{low} to {high}" if high else f"{low} or more"
        raise FunctionError(f"function {name} of {len(args)} arguments, it takes {expected}")
    return function.build(args)


def contains_any(array: Expression, values: Sequence[Expression]) -> Expression:
    """Return the test whether an array contains one of some values."""
    if len(values) == 1:
        return Call("array_contains", (array, *values))
    return Call("arrays_overlap", (array, Call("array", tuple(values))))


def element_field(array: Expression, name: str) -> Expression:
    """Return the array of a field of the elements of an array."""
    return Call("[*].", (array, Literal(name, LiteralKind.STRING)))

"""Conditions in Python: ``hindex.col("age").between(20, 25) & hindex.col("name").startswith("A")``.

They build the same nodes as the SQL parser.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from hindex.domain import MANY_RANGES
from hindex.errors import ArgumentError, ArgumentTypeError, UnknownNameError
from hindex.sql.functions import NAMES, FunctionError
from hindex.sql.functions import call as sql_call
from hindex.sql.literals import of_value
from hindex.sql.predicate import (
    And,
    Arithmetic,
    ArithmeticOp,
    Call,
    Cast,
    ColumnRef,
    ComparisonOp,
    Expression,
    In,
    Like,
    Literal,
    LiteralArray,
    LiteralKind,
    Not,
    Predicate,
    RLike,
    TruthValue,
    all_of,
    any_of,
    as_predicate,
    as_value,
    compare,
    is_null,
)
from hindex.validation import collection_items, short_repr, suggestion

Value: TypeAlias = (
    "Expr | bool | int | float | str | bytes | Decimal | datetime.date | datetime.datetime | None"
)

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_TYPE_NAMES = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
}
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


class Expr:
    """A value or a condition on the columns of a table. Make one with `col`, `lit` or `call`.

    Operators and methods give new ones; every function of SQL that `hindex.sql.functions.NAMES` lists is a method
    too: ``col("s").lower()``. ``str()`` of it is SQL.

    >>> str((col("a") + 1 > col("b")) & ~col("s").is_null())
    'a + 1 > b AND s IS NOT NULL'
    """

    __slots__ = ("_node",)

    #: numpy defers to the operators of an expression, instead of applying its own to it.
    __array_ufunc__ = None

    def __init__(self, node: Expression) -> None:
        self._node = node

    @property
    def node(self) -> Expression:
        """The value: what SQL text of it would be parsed to."""
        return self._node

    @property
    def predicate(self) -> Predicate:
        """The condition.

        Raises:
            ArgumentError: for a literal that is no boolean.
        """
        return as_predicate(self._node)

    def __str__(self) -> str:
        return str(self._node)

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __bool__(self) -> bool:
        raise ArgumentTypeError(
            f"{self} is a condition, neither true nor false in Python: write & for `and`, | for `or` and ~ for `not`, "
            "each side in parentheses; and .between(low, high) for a < b < c"
        )

    __hash__ = None  # type: ignore[assignment]

    # Comparisons

    def __eq__(self, other: Value) -> Expr:  # type: ignore[override]
        return _comparison(ComparisonOp.EQ, self, other)

    def __ne__(self, other: Value) -> Expr:  # type: ignore[override]
        return _comparison(ComparisonOp.NE, self, other)

    def __lt__(self, other: Value) -> Expr:
        return _comparison(ComparisonOp.LT, self, other)

    def __le__(self, other: Value) -> Expr:
        return _comparison(ComparisonOp.LE, self, other)

    def __gt__(self, other: Value) -> Expr:
        return _comparison(ComparisonOp.GT, self, other)

    def __ge__(self, other: Value) -> Expr:
        return _comparison(ComparisonOp.GE, self, other)

    def eq_null_safe(self, other: Value) -> Expr:
        """Return SQL's ``<=>``: NULL equals NULL, and the result is never NULL."""
        return _comparison(ComparisonOp.NULL_SAFE_EQ, self, other)

    def between(self, low: Value, high: Value) -> Expr:
        """Return a condition: between two values, both included.

        As in SQL, no row satisfies it if an end is None, but the other end may still exclude rows:
        ``~col("a").between(None, 3)`` is ``a > 3``.
        """
        return (self >= _expr(low)) & (self <= _expr(high))

    def isin(self, *values: Value | Iterable[Value]) -> Expr:
        """Return a condition: equal to one of the values, passed one by one or as a list or array.

        No row is in an empty list, and every row is outside of it.

        Raises:
            ArgumentTypeError: for a table.
            ArgumentError: without an argument.
        """
        if not values:
            raise ArgumentError(f"isin of {self} needs at least one value")
        if len(values) == 1 and hasattr(type(values[0]), "columns"):
            raise ArgumentTypeError(
                f"isin of {self} takes values, a list or an array, not a {type(values[0]).__name__}: pass one "
                "column of it"
            )
        elements = collection_items(values[0]) if len(values) == 1 else None
        arguments: Sequence[Any] = values if elements is None else elements
        if not arguments:
            # the column is checked, too
            return _condition(And((TruthValue(False), is_null(self._node))))
        items = _literal_array(arguments) or tuple(_node(value) for value in arguments)
        return _condition(In(self._node, items))

    def is_null(self) -> Expr:
        return _condition(is_null(self._node))

    def is_not_null(self) -> Expr:
        return ~self.is_null()

    def like(self, pattern: str, escape: str = "\\") -> Expr:
        """Match a pattern: ``%`` is any string, ``_`` one character; ``escape`` makes them literal."""
        return _condition(
            Like(self._node, _check_string(pattern, "like"), _check_string(escape, "the escape of like"))
        )

    def rlike(self, pattern: str) -> Expr:
        """Match a regular expression of Java anywhere in the value."""
        return _condition(RLike(self._node, _check_string(pattern, "rlike")))

    # Connectives

    def __and__(self, other: Value) -> Expr:
        return _condition(all_of([_operand(self), _operand(_expr(other))]))

    def __rand__(self, other: Value) -> Expr:
        return _expr(other) & self

    def __or__(self, other: Value) -> Expr:
        return _condition(any_of([_operand(self), _operand(_expr(other))]))

    def __ror__(self, other: Value) -> Expr:
        return _expr(other) | self

    def __invert__(self) -> Expr:
        return _condition(Not(_operand(self)))

    # Arithmetic

    def __add__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.ADD, self, other)

    def __radd__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.ADD, other, self)

    def __sub__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.SUBTRACT, self, other)

    def __rsub__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.SUBTRACT, other, self)

    def __mul__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.MULTIPLY, self, other)

    def __rmul__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.MULTIPLY, other, self)

    def __truediv__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.DIVIDE, self, other)

    def __rtruediv__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.DIVIDE, other, self)

    def __mod__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.REMAINDER, self, other)

    def __rmod__(self, other: Value) -> Expr:
        return _arithmetic(ArithmeticOp.REMAINDER, other, self)

    def __neg__(self) -> Expr:
        return Expr(Call("negative", (self._node,)))

    def __abs__(self) -> Expr:
        return call("abs", self)

    # Types and functions

    def cast(self, to: str) -> Expr:
        """Cast the value to another type, such as ``bigint`` or ``decimal(10, 2)``; an impossible cast is an error."""
        return Expr(Cast(self._node, _type_name(to)))

    def try_cast(self, to: str) -> Expr:
        """Cast the value to another type as `cast` does; an impossible cast gives NULL."""
        return Expr(Cast(self._node, _type_name(to), is_try=True))

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("_") or name not in NAMES:
            public = [method for method in dir(type(self)) if not method.startswith("_")]
            hint = "" if name.startswith("_") else suggestion(name, [*public, *NAMES])
            raise UnknownNameError(
                f"an expression has no method {name!r}; {hint}functions that are methods are {', '.join(NAMES)}"
            )
        return lambda *args: call(name, self, *args)


def col(name: str, *fields: str) -> Expr:
    """Return a column by its name; ``address.city`` and ``col("address", "city")`` are fields of structs.

    Quote a name with dots in backquotes, as in SQL.
    """
    parts = [*_steps(_check_string(name, "col")), *(_check_string(field, "col") for field in fields)]
    return Expr(ColumnRef(tuple(parts)))


def lit(value: Value) -> Expr:
    """Return a literal of a Python value; methods take plain values too.

    Raises:
        ArgumentTypeError: for a value of another type.
    """
    return _expr(value)


def call(name: str, *args: Value) -> Expr:
    """Return a function of SQL by its name: ``call("lower", col("s"))``, ``call("if", col("a") > 1, "x", "y")``.

    Raises:
        ArgumentError: for an unknown function, and a wrong number of arguments.
    """
    nodes = [_node(arg) for arg in args]
    try:
        return Expr(sql_call(_check_string(name, "call"), nodes))
    except FunctionError as error:
        raise ArgumentError(f"unsupported {error}") from None


def literal(value: object) -> Literal:
    """Return the literal of a Python value.

    Raises:
        ArgumentTypeError: for a value of a type that SQL has no literals of.
        ArgumentError: for a number that is too long.
    """
    direct = of_value(value)
    if direct is not None:
        return direct
    if isinstance(value, Decimal):
        raise ArgumentTypeError(f"{value} is not a decimal of SQL; use a float")
    raise ArgumentTypeError(
        f"{short_repr(value)} of type {type(value).__name__} is not a value of SQL: use None, bool, int, float, "
        "Decimal, str, bytes, date or datetime"
    )


def _expr(value: Value) -> Expr:
    return value if isinstance(value, Expr) else Expr(literal(value))


def _node(value: Value) -> Expression:
    return value.node if isinstance(value, Expr) else literal(value)


def _literal_array(values: Sequence[Any]) -> LiteralArray | None:
    """Return many integers of 64 bits, strings or dates, and None among them, as one array; otherwise None."""
    types = set(map(type, values)) if len(values) >= MANY_RANGES else set()
    value_types = types - {type(None)}
    if value_types == {str}:
        kind, data_type = LiteralKind.STRING, pa.large_string()
    elif value_types == {datetime.date}:
        kind, data_type = LiteralKind.DATE, pa.date32()
    # durations of numpy are integers to it
    elif value_types and all(
        issubclass(item, int | np.integer) and not issubclass(item, bool | np.timedelta64)
        for item in value_types
    ):
        kind, data_type = LiteralKind.INTEGER, pa.int64()
    else:
        return None
    has_null = len(value_types) < len(types)
    present = [value for value in values if value is not None] if has_null else values
    try:
        return LiteralArray(kind, pa.array(present, data_type), has_null)
    except (OverflowError, UnicodeError, pa.ArrowInvalid):
        # beyond 64 bits, or no Unicode text
        return None


def _condition(predicate: Predicate) -> Expr:
    return Expr(as_value(predicate))


def _operand(operand: Expr) -> Predicate:
    """Return an operand of AND, OR or NOT as a predicate.

    Raises:
        ArgumentError: for a literal: the connective binds more tightly than the comparison beside it.
    """
    try:
        return operand.predicate
    except ValueError as error:
        raise ArgumentError(
            f"{error}: & | ~ bind more tightly than == and < in Python, so each condition needs its own parentheses: "
            '(col("a") == 1) & (col("b") < 2)'
        ) from None


def _comparison(op: ComparisonOp, left: Expr, right: Value) -> Expr:
    if right is None and op is not ComparisonOp.NULL_SAFE_EQ:
        test = "is_not_null()" if op is ComparisonOp.NE else "is_null()"
        raise ArgumentError(
            f"{left} {op.value} None is true of no row, as NULL is in SQL: write .{test}, .eq_null_safe(value) where a "
            "value may be None, or lit(None) for that NULL"
        )
    return _condition(compare(op, left.node, _node(right)))


def _arithmetic(op: ArithmeticOp, left: Value, right: Value) -> Expr:
    return Expr(Arithmetic(op, _node(left), _node(right)))


def _check_string(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} takes a string, not {short_repr(value)}")
    return value


def _steps(name: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while match := _PART.match(name, at):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end()
        if at == len(name):
            return parts
        if name[at] != ".":
            break
        at += 1
    raise ArgumentError(
        f"{name!r} is not the name of a column; put a step with dots or backquotes in it into backquotes"
    )


def _type_name(to: str) -> str:
    name = _check_string(to, "cast").strip().upper()
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        return f"DECIMAL({match[1] or 10}, {match[2] or 0})"
    return _TYPE_NAMES.get(name, name)

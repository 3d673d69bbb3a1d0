"""Values: columns, literals, and expressions over them, independent of the SQL parser.

Every node's ``str()`` is SQL that parses back to an equal node. Nothing is typed here: types are Spark's, and
:mod:`hindex.expr.typing` gives them. A predicate may stand for a value too, a boolean.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from hindex.errors import ArgumentError, ArgumentTypeError
from hindex.sql.dates import format_date
from hindex.sql.words import KEYWORDS

if TYPE_CHECKING:
    from hindex.sql.predicate import Predicate

LiteralValue = bool | int | Decimal | float | str | datetime.date | bytes | None


class LiteralKind(enum.Enum):
    """The syntax of a literal; the comments name the Python type of its value."""

    NULL = "NULL"  #: (None)
    BOOLEAN = "BOOLEAN"  #: (bool)
    INTEGER = "INTEGER"  #: (int) of any size; ``5``, ``5L``
    DECIMAL = "DECIMAL"  #: (Decimal) scale >= 0, at most 38 digits; ``1.5``, ``5BD``
    DOUBLE = "DOUBLE"  #: (float) ``1e3``, ``1.5D``; a ``1.5F`` is rounded to 32 bits first
    STRING = "STRING"  #: (str) with the escapes resolved
    DATE = "DATE"  #: (datetime.date, or int days since 1970-01-01 for years that it cannot hold)
    TIMESTAMP = "TIMESTAMP"  #: (str) the text as written
    BINARY = "BINARY"  #: (bytes) ``X'1F'``


_VALUE_TYPES: dict[LiteralKind, tuple[type, ...]] = {
    LiteralKind.NULL: (type(None),),
    LiteralKind.BOOLEAN: (bool,),
    LiteralKind.INTEGER: (int,),
    LiteralKind.DECIMAL: (Decimal,),
    LiteralKind.DOUBLE: (float,),
    LiteralKind.STRING: (str,),
    LiteralKind.DATE: (datetime.date, int),
    LiteralKind.TIMESTAMP: (str,),
    LiteralKind.BINARY: (bytes,),
}

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    # not \0, which is one octal escape with digits behind it
    "\0": "\\u0000",
    "\b": "\\b",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\x1a": "\\Z",
}
_ESCAPED = re.compile("[\\\\'\0\b\n\r\t\x1a]")


def quote_string(text: str) -> str:
    """A Spark string literal in single quotes, on one line."""
    return "'" + _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text) + "'"


def within_quotes(text: str) -> str:
    """A text as it is written between quotes, single or double ones."""
    return quote_string(text)[1:-1].replace('"', '\\"')


def quote_name(name: str) -> str:
    """An identifier, in backquotes where it could not be read without."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column by name: ``parts`` are the dotted steps, outermost first, in the case as written."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(self.parts):
            raise ArgumentError(f"a column needs one or more non-empty names, not {self.parts!r}")

    @property
    def name(self) -> str:
        """The steps joined by dots, not quoted: for messages and for lookups of plain columns."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return ".".join(map(quote_name, self.parts))


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: ``value`` has the Python type that :class:`LiteralKind` names.

    Equality is of spelling, not of SQL: NaN equals NaN, 1.0 differs from 1.00 and 0.0 from -0.0. A text that was
    written ``is_double_quoted``, as other databases write names, equals one in single quotes.
    """

    value: LiteralValue
    kind: LiteralKind
    is_double_quoted: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, _VALUE_TYPES[self.kind]) or (
            isinstance(self.value, bool) and self.kind is not LiteralKind.BOOLEAN
        ):
            raise ArgumentTypeError(f"a {self.kind.value} literal cannot hold {self.value!r}")
        if isinstance(self.value, Decimal):
            # Spark's literals have a scale of at least 0 and no negative zero.
            exponent = self.value.as_tuple().exponent
            if not isinstance(exponent, int):
                raise ArgumentTypeError(f"a DECIMAL literal cannot hold {self.value!r}")
            if exponent > 0 or self.value.is_zero():
                sign, digits, _ = self.value.as_tuple()
                plain = Decimal(
                    (0 if self.value.is_zero() else sign, digits + (0,) * max(exponent, 0), min(exponent, 0))
                )
                object.__setattr__(self, "value", plain)

    def _identity(self) -> tuple[LiteralKind, object]:
        if self.kind is LiteralKind.DECIMAL or self.kind is LiteralKind.DOUBLE:
            return self.kind, str(self.value)
        return self.kind, self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        match self.value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if self.value else "FALSE"
            case Decimal():
                text = f"{self.value:f}"
                return text if "." in text else f"{text}BD"
            case float():
                if math.isfinite(self.value):
                    return f"{self.value!r}D"
                name = "NaN" if math.isnan(self.value) else "Infinity" if self.value > 0 else "-Infinity"
                return f"CAST('{name}' AS DOUBLE)"
            case datetime.date():
                return f"DATE '{format_date(self.value)}'"
            case int():
                return (
                    f"DATE '{format_date(self.value)}'" if self.kind is LiteralKind.DATE else str(self.value)
                )
            case bytes():
                return f"X'{self.value.hex().upper()}'"
            case str():
                prefix = "TIMESTAMP " if self.kind is LiteralKind.TIMESTAMP else ""
                return prefix + quote_string(self.value)


NULL = Literal(None, LiteralKind.NULL)


class ComparisonOp(enum.Enum):
    """The comparison operators, by their SQL spelling."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    NULL_SAFE_EQ = "<=>"

    @property
    def flipped(self) -> ComparisonOp:
        """The operator that says the same with both sides exchanged."""
        return _FLIPPED.get(self, self)


_FLIPPED = {
    ComparisonOp.LT: ComparisonOp.GT,
    ComparisonOp.LE: ComparisonOp.GE,
    ComparisonOp.GT: ComparisonOp.LT,
    ComparisonOp.GE: ComparisonOp.LE,
}


class ArithmeticOp(enum.Enum):
    """The operators of two numbers, by their SQL spelling."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"
    DIV = "DIV"

    @property
    def binds_tighter(self) -> bool:
        """Return True if the operator binds tighter than + and -."""
        return self not in (ArithmeticOp.ADD, ArithmeticOp.SUBTRACT)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right``."""

    op: ArithmeticOp
    left: Expression
    right: Expression

    def _binds(self, side: Expression, more: int = 0) -> bool:
        """Return True if an operand needs no parentheses: on the right side it must bind tighter."""
        return isinstance(side, Arithmetic) and side.op.binds_tighter >= self.op.binds_tighter + more

    def __str__(self) -> str:
        left, right = (
            str(side) if binds else operand(side)
            for side, binds in ((self.left, self._binds(self.left)), (self.right, self._binds(self.right, 1)))
        )
        return f"{left} {self.op.value} {right}"


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in lower case, of its arguments. ``negative`` is the minus sign."""

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        if self.name == "negative":
            text = operand(self.args[0])
            is_number = isinstance(self.args[0], Literal) or text[:1] in "-.0123456789"
            return f"-({text})" if is_number else f"-{text}"
        return f"{self.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(child AS to)``; where ``is_try``, what cannot be cast is NULL.

    ``to`` is a type as :data:`CAST_TYPES` spells it, or ``DECIMAL(p, s)``. Where ``is_literal``, it was written as a
    number with the letter of that type, ``5L`` or ``5S``, which Spark types by its digits beside a decimal.
    """

    child: Expression
    to: str
    is_try: bool = False
    is_literal: bool = False

    def __post_init__(self) -> None:
        if self.to in CAST_TYPES:
            return
        match = _DECIMAL_TYPE.fullmatch(self.to)
        if match is None:
            raise ArgumentError(
                f"{self.to!r} is not a type to cast to: {', '.join(CAST_TYPES)} or DECIMAL(p, s)"
            )
        precision, scale = int(match[1]), int(match[2])
        if not 0 <= scale <= precision <= 38 or not precision:
            raise ArgumentError(
                f"{self.to} is not a type: a decimal has 1 to 38 digits, and no more of them are fraction digits"
            )

    def __str__(self) -> str:
        if self.is_literal:
            return f"{self.child}{self.to[0]}".replace("B", "L")
        return f"{'TRY_CAST' if self.is_try else 'CAST'}({self.child} AS {self.to})"


CAST_TYPES = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
)
_DECIMAL_TYPE = re.compile(r"DECIMAL\((\d{1,4}), (\d{1,4})\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN condition THEN value ... ELSE otherwise END``: the value of the first condition that is TRUE."""

    whens: tuple[tuple[Predicate, Expression], ...]
    otherwise: Expression | None = None

    def __post_init__(self) -> None:
        if not self.whens:
            raise ValueError("CASE needs at least one WHEN")

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.whens)
        otherwise = "" if self.otherwise is None else f" ELSE {self.otherwise}"
        return f"CASE {whens}{otherwise} END"


Expression: TypeAlias = "ColumnRef | Literal | Arithmetic | Call | Cast | Case | Predicate"


def operand(node: Expression) -> str:
    """The text of an expression beside an operator: in parentheses where it could be read otherwise."""
    return str(node) if isinstance(node, ColumnRef | Literal | Call | Cast) else f"({node})"


def compared(node: Expression) -> str:
    """The text of an expression beside an operator of comparison, which binds less than arithmetic."""
    return str(node) if isinstance(node, Arithmetic) else operand(node)


def listed(nodes: Iterable[Expression]) -> str:
    """``(a, b)``"""
    return f"({', '.join(map(str, nodes))})"

"""Predicates: the one immutable representation of a WHERE clause, independent of the SQL parser.

Every node's ``str()`` is SQL that :func:`hindex.sql.parse_predicate` reads back as an equal node.
The nodes say what was written, nothing is typed yet: a literal has the kind that Spark gives its spelling.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from hindex.sql.dates import format_date
from hindex.sql.words import KEYWORDS

LiteralValue = bool | int | Decimal | float | str | datetime.date | bytes | None


class LiteralKind(enum.Enum):
    """What a literal was written as; in brackets the Python type of its value."""

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
    "\0": "\\0",
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
            raise ValueError(f"a column needs one or more non-empty names, not {self.parts!r}")

    @property
    def name(self) -> str:
        """The steps joined by dots, not quoted: for messages and for lookups of plain columns."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return ".".join(map(quote_name, self.parts))


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: ``value`` has the Python type that :class:`LiteralKind` names.

    Equality is of spelling, not of SQL: NaN equals NaN, 1.0 differs from 1.00 and 0.0 from -0.0.
    """

    value: LiteralValue
    kind: LiteralKind

    def __post_init__(self) -> None:
        if not isinstance(self.value, _VALUE_TYPES[self.kind]) or (
            isinstance(self.value, bool) and self.kind is not LiteralKind.BOOLEAN
        ):
            raise TypeError(f"a {self.kind.value} literal cannot hold {self.value!r}")
        if isinstance(self.value, Decimal):
            # Spark's literals have a scale of at least 0 and no negative zero.
            exponent = self.value.as_tuple().exponent
            if not isinstance(exponent, int):
                raise TypeError(f"a DECIMAL literal cannot hold {self.value!r}")
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column op literal``; a literal on the left has been flipped to the right."""

    op: ComparisonOp
    column: ColumnRef
    literal: Literal

    def __str__(self) -> str:
        return f"{self.column} {self.op.value} {self.literal}"


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (literals)``: one or more, in the order written; duplicates and NULL may be among them."""

    column: ColumnRef
    literals: tuple[Literal, ...]

    def __post_init__(self) -> None:
        if not self.literals:
            raise ValueError("IN needs at least one literal")

    def __str__(self) -> str:
        return f"{self.column} IN {self._list()}"

    def _list(self) -> str:
        return "(" + ", ".join(map(str, self.literals)) + ")"


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``; IS NOT NULL is its :class:`Not`."""

    column: ColumnRef

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class Like:
    """``column LIKE pattern``: ``%`` is any text, ``_`` one character, each itself after ``escape``."""

    column: ColumnRef
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if len(self.escape) != 1:
            raise ValueError(f"the escape of LIKE is one character, not {self.escape!r}")

    def __str__(self) -> str:
        return f"{self.column} LIKE {self._pattern()}"

    def _pattern(self) -> str:
        escape = "" if self.escape == "\\" else f" ESCAPE {quote_string(self.escape)}"
        return quote_string(self.pattern) + escape


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL (``None``) as a predicate."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True)
class BooleanColumn:
    """A boolean column as a predicate."""

    column: ColumnRef

    def __str__(self) -> str:
        return str(self.column)


@dataclass(frozen=True, slots=True)
class Not:
    """The negation, kept as written: NULL stays NULL."""

    child: Predicate

    def __str__(self) -> str:
        match self.child:
            case IsNull(column):
                return f"{column} IS NOT NULL"
            case In(column):
                return f"{column} NOT IN {self.child._list()}"
            case Like(column):
                return f"{column} NOT LIKE {self.child._pattern()}"
            case And() | Or() | Not():
                return f"NOT ({self.child})"
            case _:
                return f"NOT {self.child}"


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more children; an And directly below is merged into it, in order."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _merged(self.children, And))

    def __str__(self) -> str:
        return " AND ".join(f"({child})" if isinstance(child, Or) else str(child) for child in self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more children; an Or directly below is merged into it, in order."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _merged(self.children, Or))

    def __str__(self) -> str:
        return " OR ".join(map(str, self.children))


Predicate = Comparison | In | IsNull | Constant | BooleanColumn | Not | And | Or | Like


def _merged(children: Iterable[Predicate], kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    merged: list[Predicate] = []
    for child in children:
        if isinstance(child, kind):
            merged.extend(child.children)
        else:
            merged.append(child)
    if len(merged) < 2:
        raise ValueError(f"{kind.__name__} needs two or more children; use all_of() or any_of()")
    return tuple(merged)


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """The conjunction of any number of predicates; of none it is TRUE."""
    children = tuple(predicates)
    return And(children) if len(children) > 1 else children[0] if children else Constant(True)


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """The disjunction of any number of predicates; of none it is FALSE."""
    children = tuple(predicates)
    return Or(children) if len(children) > 1 else children[0] if children else Constant(False)


def leaves(predicate: Predicate) -> Iterator[Comparison | In | IsNull | Constant | BooleanColumn | Like]:
    """The leaves from left to right."""
    stack: list[Predicate] = [predicate]
    while stack:
        node = stack.pop()
        match node:
            case And(children) | Or(children):
                stack.extend(reversed(children))
            case Not(child):
                stack.append(child)
            case _:
                yield node


def columns(predicate: Predicate) -> tuple[ColumnRef, ...]:
    """The distinct columns in the order of first mention; spellings that differ in case stay apart."""
    return tuple(dict.fromkeys(leaf.column for leaf in leaves(predicate) if not isinstance(leaf, Constant)))

"""Expressions and predicates: one immutable tree, independent of the SQL parser.

A predicate is an expression with a boolean value. Every node's ``str()`` is SQL that `hindex.sql.parse_predicate`
reads back as an equal node. Nothing is typed here: a literal has the kind that Spark gives its spelling, and
`hindex.expr.typing` adds the types.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias, assert_never, overload

from hindex.errors import ArgumentError, ArgumentTypeError
from hindex.sql.string_values import format_date
from hindex.sql.words import KEYWORDS
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyarrow as pa

LiteralValue = bool | int | Decimal | float | str | datetime.date | bytes | None


class LiteralKind(enum.Enum):
    """The kinds of literals; the comments name the Python type of the value."""

    NULL = "NULL"  #: (None)
    BOOLEAN = "BOOLEAN"  #: (bool)
    INTEGER = "INTEGER"  #: (int) of any size; ``5``, ``5L``
    DECIMAL = "DECIMAL"  #: (Decimal) scale >= 0, at most 38 digits; ``1.5``, ``5BD``
    DOUBLE = "DOUBLE"  #: (float) ``1e3``, ``1.5D``; a ``1.5F`` is rounded to 32 bits first
    STRING = "STRING"  #: (str) with the escapes resolved
    DATE = "DATE"  #: (datetime.date, or int days since 1970-01-01 for years that it cannot hold)
    TIMESTAMP = "TIMESTAMP"  #: (str) the string as written
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"  #: (str) the string as written: a wall clock time without a zone
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
    LiteralKind.TIMESTAMP_NTZ: (str,),
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
    """Return a Spark string literal in single quotes, on one line."""
    return "'" + _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text) + "'"


def within_quotes(text: str) -> str:
    """Return a string as it is written between quotes, single or double ones."""
    return quote_string(text)[1:-1].replace('"', '\\"')


def quote_name(name: str) -> str:
    """Return an identifier, in backquotes where it needs them."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


@value_class
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


@value_class
class Literal:
    """A constant: ``value`` has the Python type that `LiteralKind` names.

    Equality is of spelling, not of SQL: NaN equals NaN, 1.0 differs from 1.00 and 0.0 from -0.0. A string in double
    quotes (``is_double_quoted``), as other databases write names, equals one in single quotes.
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
                prefix = "" if self.kind is LiteralKind.STRING else f"{self.kind.value} "
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
        """The operator with the same meaning when both sides are exchanged."""
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


@value_class
class Arithmetic:
    """``left op right``."""

    op: ArithmeticOp
    left: Expression
    right: Expression

    def _side(self, side: Expression, more: int = 0) -> str:
        """Return the SQL of an operand: without parentheses if it binds as tight as this one, or ``more``."""
        is_bare = isinstance(side, Arithmetic) and side.op.binds_tighter >= self.op.binds_tighter + more
        return str(side) if is_bare else _operand(side)

    def __str__(self) -> str:
        return f"{self._side(self.left)} {self.op.value} {self._side(self.right, 1)}"


@value_class
class Call:
    """A function call, with the name in lower case.

    ``negative`` is the minus sign, ``[]`` the access to an element by brackets, ``[*]`` to all of them, ``[*].`` to a
    field of all of them.
    """

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        if self.name == "negative":
            text = _operand(self.args[0])
            is_number = isinstance(self.args[0], Literal) or text[:1] in "-.0123456789"
            return f"-({text})" if is_number else f"-{text}"
        if self.name == "[*]." and isinstance(self.args[1], Literal):
            return f"{_operand(self.args[0])}[*].{quote_name(str(self.args[1].value))}"
        if self.name in ("[]", "[*]"):
            return f"{_operand(self.args[0])}[{self.args[1] if len(self.args) > 1 else '*'}]"
        return f"{self.name}({', '.join(map(str, self.args))})"


@value_class
class Cast:
    """``CAST(child AS to)``, or ``TRY_CAST`` where ``is_try``.

    ``to`` is a type of `CAST_TYPES`, or ``DECIMAL(p, s)``. Where ``is_literal``, it is a number with a type
    suffix, ``5L`` or ``5S``, which Spark types by its digits beside a decimal.
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


#: Units of intervals: each in months, or in microseconds.
_MONTHS = {"YEAR": 12, "MONTH": 1}
_MICROSECONDS = {
    "WEEK": 604_800_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1000,
    "MICROSECOND": 1,
}


@value_class
class Interval:
    """``INTERVAL '7' DAY``: a number of one unit, which is added to dates and times."""

    number: int
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in _MONTHS and self.unit not in _MICROSECONDS:
            raise ArgumentError(f"{self.unit!r} is not a unit of intervals")
        if not -(1 << 31) < self.months < 1 << 31 or not -(1 << 63) < self.micros < 1 << 63:
            raise ArgumentError(f"{self} is out of range")

    @property
    def months(self) -> int:
        """The number of months; 0 for weeks and shorter units."""
        return self.number * _MONTHS.get(self.unit, 0)

    @property
    def micros(self) -> int:
        """The number of microseconds; 0 for months and years."""
        return self.number * _MICROSECONDS.get(self.unit, 0)

    @property
    def has_days_only(self) -> bool:
        """Return True if a date remains a date: the unit is a day or longer."""
        return self.unit in ("YEAR", "MONTH", "WEEK", "DAY")

    def __str__(self) -> str:
        return f"INTERVAL '{self.number}' {self.unit}"


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


@value_class
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


@value_class
class Comparison:
    """``left op right``. `compare` makes them, with a literal beside a column on the right.

    Spark pads CHAR values and literals to one length before it compares them, except within BETWEEN, nullif and lists
    of values: ``pads_char`` is False there.
    """

    op: ComparisonOp
    left: Expression
    right: Expression
    pads_char: bool = field(default=True, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{_compared(self.left)} {self.op.value} {_compared(self.right)}"


class LiteralArray(Sequence["Literal"]):
    """Many literals of one kind as one Arrow array: a list of a million keys is one object. Immutable.

    Args:
        kind: INTEGER, STRING or DATE.
        values: int64, large string or date32, without nulls.
        has_null: NULL follows the values.
    """

    __slots__ = ("has_null", "kind", "values")

    def __init__(self, kind: LiteralKind, values: pa.Array, has_null: bool = False) -> None:
        self.kind = kind
        self.values = values
        self.has_null = has_null

    def __len__(self) -> int:
        return len(self.values) + self.has_null

    @overload
    def __getitem__(self, at: int) -> Literal: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Literal, ...]: ...

    def __getitem__(self, at: int | slice) -> Literal | tuple[Literal, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        number = range(len(self))[at]
        return NULL if number == len(self.values) else Literal(self.values[number].as_py(), self.kind)

    def __iter__(self) -> Iterator[Literal]:
        for value in self.values.to_pylist():
            yield Literal(value, self.kind)
        if self.has_null:
            yield NULL

    def __contains__(self, item: object) -> bool:
        return self.has_null if item == NULL else any(item == literal for literal in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LiteralArray):
            return NotImplemented
        return (self.kind, self.has_null) == (other.kind, other.has_null) and self.values.equals(other.values)

    def __hash__(self) -> int:
        return hash((len(self), self[0], self[-1]))


@value_class
class In:
    """``value IN (items)``: one or more items, in the order written; duplicates and NULL may be among them."""

    value: Expression
    items: tuple[Expression, ...] | LiteralArray

    def __post_init__(self) -> None:
        if not self.items:
            raise ValueError("IN needs at least one value")

    def __str__(self) -> str:
        return self.sql()

    def sql(self, negation: str = "") -> str:
        """Return the SQL, with ``NOT`` before the operator."""
        return f"{_compared(self.value)} {negation}IN ({', '.join(map(str, self.items))})"


@value_class
class IsNull:
    """``value IS NULL``; IS NOT NULL is its `Not`."""

    value: Expression

    def __str__(self) -> str:
        return self.sql()

    def sql(self, negation: str = "") -> str:
        """Return the SQL, with ``NOT`` before ``NULL``."""
        return f"{_compared(self.value)} IS {negation}NULL"


@value_class
class Like:
    """``value LIKE pattern``: ``%`` is any string, ``_`` one character, each itself after ``escape``."""

    value: Expression
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if len(self.escape) != 1:
            raise ArgumentError(f"the escape of LIKE is one character, not {self.escape!r}")

    def __str__(self) -> str:
        return self.sql()

    def sql(self, negation: str = "") -> str:
        """Return the SQL, with ``NOT`` before the operator."""
        end = "" if self.escape == "\\" else f" ESCAPE {quote_string(self.escape)}"
        return f"{_compared(self.value)} {negation}LIKE {quote_string(self.pattern)}{end}"


@value_class
class RLike:
    """``value RLIKE pattern``: a Java regular expression that matches anywhere in a value."""

    value: Expression
    pattern: str

    def __str__(self) -> str:
        return self.sql()

    def sql(self, negation: str = "") -> str:
        """Return the SQL, with ``NOT`` before the operator."""
        return f"{_compared(self.value)} {negation}RLIKE {quote_string(self.pattern)}"


@value_class
class BooleanValue:
    """A boolean column or expression as a predicate."""

    value: ColumnRef | Arithmetic | Call | Case | Cast

    def __str__(self) -> str:
        return _operand(self.value)


@value_class
class TruthValue:
    """TRUE, FALSE or NULL (``None``) as a predicate; ``source`` is the condition on literals that was written."""

    value: bool | None
    source: Comparison | IsNull | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return "NULL" if self.value is None else "TRUE" if self.value else "FALSE"


@value_class
class Not:
    """The negation, kept as written: NULL stays NULL."""

    child: Predicate

    def __str__(self) -> str:
        match self.child:
            case In() | IsNull() | Like() | RLike():
                return self.child.sql("NOT ")
            case And() | Or() | Not():
                return f"NOT ({self.child})"
            case _:
                return f"NOT {self.child}"


@value_class
class And:
    """All of two or more children; an And directly below is merged into it, in order."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _flatten(self.children, And))

    def __str__(self) -> str:
        return " AND ".join(f"({child})" if isinstance(child, Or) else str(child) for child in self.children)


@value_class
class Or:
    """Any of two or more children; an Or directly below is merged into it, in order."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", _flatten(self.children, Or))

    def __str__(self) -> str:
        return " OR ".join(map(str, self.children))


PredicateLeaf: TypeAlias = Comparison | In | IsNull | Like | RLike | BooleanValue | TruthValue
Predicate: TypeAlias = PredicateLeaf | Not | And | Or
Expression: TypeAlias = ColumnRef | Literal | Interval | Arithmetic | Call | Cast | Case | Predicate


def _operand(node: Expression) -> str:
    """Return the SQL of an operand, in parentheses where it could be read otherwise."""
    return str(node) if isinstance(node, ColumnRef | Literal | Interval | Call | Cast) else f"({node})"


def _compared(node: Expression) -> str:
    """Return the SQL of an operand of a comparison, which binds less than arithmetic."""
    return str(node) if isinstance(node, Arithmetic) else _operand(node)


def _flatten(children: Iterable[Predicate], kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    flat: list[Predicate] = []
    for child in children:
        if isinstance(child, kind):
            flat.extend(child.children)
        else:
            flat.append(child)
    if len(flat) < 2:
        raise ValueError(f"{kind.__name__} needs two or more children; use all_of() or any_of()")
    return tuple(flat)


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of any number of predicates; of none it is TRUE."""
    children = tuple(predicates)
    return And(children) if len(children) > 1 else children[0] if children else TruthValue(True)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts of a conjunction; of any other predicate, itself."""
    return predicate.children if isinstance(predicate, And) else (predicate,)


def any_of(predicates: Iterable[Predicate]) -> Predicate:
    """Return the disjunction of any number of predicates; of none it is FALSE."""
    children = tuple(predicates)
    return Or(children) if len(children) > 1 else children[0] if children else TruthValue(False)


def compare(op: ComparisonOp, left: Expression, right: Expression) -> Comparison:
    """Return a comparison of two values, with a literal beside a column on the right."""
    if isinstance(left, Literal) and isinstance(right, ColumnRef):
        return Comparison(op.flipped, right, left)
    return Comparison(op, left, right)


def without_padding(predicate: Predicate) -> Predicate:
    """Return a comparison for which Spark does not pad CHAR values; other predicates as they are."""
    return replace(predicate, pads_char=False) if isinstance(predicate, Comparison) else predicate


def is_null(value: Expression) -> Predicate:
    """Return ``value IS NULL``, which is a truth value for a literal."""
    test = IsNull(value)
    return TruthValue(value.value is None, test) if isinstance(value, Literal) else test


def as_predicate(value: Expression) -> Predicate:
    """Return a boolean value as a predicate.

    Raises:
        ArgumentError: for a literal that is not a boolean.
    """
    match value:
        case Literal(bool() | None as truth):
            return TruthValue(truth)
        case Literal() | Interval():
            raise ArgumentError(f"expected a condition, found the literal {value}")
        case ColumnRef() | Arithmetic() | Call() | Case() | Cast():
            return BooleanValue(value)
        case _:
            return value


def as_value(predicate: Predicate) -> Expression:
    """Return a predicate as a value: the inverse of `as_predicate`."""
    match predicate:
        case TruthValue(truth):
            return NULL if truth is None else Literal(truth, LiteralKind.BOOLEAN)
        case BooleanValue(value):
            return value
        case _:
            return predicate


def leaves(predicate: Predicate) -> Iterator[PredicateLeaf]:
    """Yield the leaves from left to right."""
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


def tested_column(leaf: PredicateLeaf) -> ColumnRef | None:
    """Return the column of a leaf that tests one column against literals; None for any other leaf."""
    match leaf:
        case (
            IsNull(ColumnRef() as column) | Like(ColumnRef() as column) | BooleanValue(ColumnRef() as column)
        ):
            return column
        case Comparison(_, ColumnRef() as column, Literal()):
            return column
        case In(ColumnRef() as column, items) if isinstance(items, LiteralArray) or all(
            isinstance(item, Literal) for item in items
        ):
            return column
        case _:
            return None


def literals(leaf: PredicateLeaf) -> Sequence[Literal]:
    """Return the literals among the operands of a leaf, from left to right."""
    if isinstance(leaf, In) and isinstance(leaf.items, LiteralArray) and not isinstance(leaf.value, Literal):
        return leaf.items
    return tuple(node for node in operands(leaf) if isinstance(node, Literal))


def columns(root: Expression) -> tuple[ColumnRef, ...]:
    """Return the distinct columns in the order of first mention; spellings that differ in case stay apart."""
    distinct: dict[ColumnRef, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ColumnRef):
            distinct[node] = None
        else:
            stack.extend(reversed(operands(node)))
    return tuple(distinct)


def with_columns(root: Expression, spelled: Mapping[ColumnRef, ColumnRef]) -> Expression:
    """Return an expression with other columns in the place of some."""
    if isinstance(root, ColumnRef):
        return spelled.get(root, root)
    return with_operands(root, lambda node: with_columns(node, spelled))


def operands(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node from left to right, without those of `LiteralArray`."""
    match node:
        case ColumnRef() | Literal() | Interval() | TruthValue():
            return ()
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return left, right
        case Call(_, args):
            return args
        case Cast(child) | Not(child):
            return (child,)
        case Case(whens, otherwise):
            pairs = tuple(part for pair in whens for part in pair)
            return pairs if otherwise is None else (*pairs, otherwise)
        case In(value, items):
            return (value,) if isinstance(items, LiteralArray) else (value, *items)
        case IsNull(value) | Like(value) | RLike(value) | BooleanValue(value):
            return (value,)
        case And(children) | Or(children):
            return children


def with_operands(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a node with the operands of `operands` changed."""
    match node:
        case Arithmetic(_, left, right):
            return replace(node, left=change(left), right=change(right))
        case Comparison(op, left, right):
            return replace(compare(op, change(left), change(right)), pads_char=node.pads_char)
        case Call(_, args):
            return replace(node, args=tuple(map(change, args)))
        case Cast(child):
            return replace(node, child=change(child))
        case Not(child):
            return replace(node, child=as_predicate(change(child)))
        case Case(whens, otherwise):
            pairs = tuple((as_predicate(change(when)), change(value)) for when, value in whens)
            return Case(pairs, None if otherwise is None else change(otherwise))
        case In(value, items):
            changed = items if isinstance(items, LiteralArray) else tuple(map(change, items))
            return In(change(value), changed)
        case IsNull(value) | Like(value) | RLike(value):
            return replace(node, value=change(value))
        case BooleanValue(value):
            return as_predicate(change(value))
        case And(children) | Or(children):
            return replace(node, children=tuple(as_predicate(change(child)) for child in children))
        case ColumnRef() | Literal() | Interval() | TruthValue():
            return node
        case _:
            assert_never(node)

"""Predicates: the one immutable representation of a WHERE clause, independent of the SQL parser.

Every node's ``str()`` is SQL that :func:`hindex.sql.parse_predicate` reads back as an equal node.
The nodes say what was written, nothing is typed yet: a literal has the kind that Spark gives its spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hindex.errors import ArgumentError
from hindex.sql.expression import (
    NULL,
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Cast,
    ColumnRef,
    ComparisonOp,
    Expression,
    Literal,
    LiteralKind,
    LiteralValue,
    compared,
    listed,
    operand,
    quote_name,
    quote_string,
)

__all__ = [
    "NULL",
    "And",
    "Arithmetic",
    "ArithmeticOp",
    "BooleanColumn",
    "BooleanExpression",
    "Call",
    "Case",
    "Cast",
    "ColumnRef",
    "Comparison",
    "ComparisonOp",
    "Constant",
    "Expression",
    "ExpressionComparison",
    "ExpressionIn",
    "ExpressionIsNull",
    "ExpressionLeaf",
    "ExpressionLike",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "LiteralKind",
    "LiteralValue",
    "Not",
    "Or",
    "Predicate",
    "PredicateLeaf",
    "RLike",
    "SimpleLeaf",
    "all_of",
    "any_of",
    "as_predicate",
    "as_value",
    "columns",
    "compare",
    "is_in",
    "is_like",
    "is_null",
    "leaves",
    "operands",
    "quote_name",
    "quote_string",
]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column op literal``; a literal on the left has been flipped to the right.

    Not ``is_filled`` within BETWEEN and nullif, where Spark does not fill CHAR values and literals to one length.
    """

    op: ComparisonOp
    column: ColumnRef
    literal: Literal
    is_filled: bool = field(default=True, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.column} {self.op.value} {self.literal}"


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (literals)``: one or more, in the order written; duplicates and NULL may be among them."""

    column: ColumnRef
    literals: tuple[Literal, ...]

    def __post_init__(self) -> None:
        _check_listed(self.literals)

    def __str__(self) -> str:
        return _in_text(self.column, self.literals)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``; IS NOT NULL is its :class:`Not`."""

    column: ColumnRef

    def __str__(self) -> str:
        return _null_text(self.column)


@dataclass(frozen=True, slots=True)
class Like:
    """``column LIKE pattern``: ``%`` is any text, ``_`` one character, each itself after ``escape``."""

    column: ColumnRef
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        _check_escape(self.escape)

    def __str__(self) -> str:
        return _like_text(self.column, self.pattern, self.escape)


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL (``None``) as a predicate; ``source`` is the condition on literals that was written."""

    value: bool | None
    source: ExpressionComparison | ExpressionIsNull | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return "NULL" if self.value is None else "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True)
class BooleanColumn:
    """A boolean column as a predicate."""

    column: ColumnRef

    def __str__(self) -> str:
        return str(self.column)


@dataclass(frozen=True, slots=True)
class ExpressionComparison:
    """``left op right`` of values that are not a column and a literal: those are a :class:`Comparison`.

    ``is_filled`` is as there.
    """

    op: ComparisonOp
    left: Expression
    right: Expression
    is_filled: bool = field(default=True, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{compared(self.left)} {self.op.value} {compared(self.right)}"


@dataclass(frozen=True, slots=True)
class ExpressionIn:
    """``value IN (items)``; a column among literals is an :class:`In`."""

    value: Expression
    items: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_listed(self.items)

    def __str__(self) -> str:
        return _in_text(self.value, self.items)


@dataclass(frozen=True, slots=True)
class ExpressionIsNull:
    """``value IS NULL``; that of a column is an :class:`IsNull`."""

    value: Expression

    def __str__(self) -> str:
        return _null_text(self.value)


@dataclass(frozen=True, slots=True)
class ExpressionLike:
    """``value LIKE pattern``; that of a column is a :class:`Like`."""

    value: Expression
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        _check_escape(self.escape)

    def __str__(self) -> str:
        return _like_text(self.value, self.pattern, self.escape)


@dataclass(frozen=True, slots=True)
class RLike:
    """``value RLIKE pattern``: a Java regular expression that is found anywhere in a value."""

    value: Expression
    pattern: str

    def __str__(self) -> str:
        return _rlike_text(self.value, self.pattern)


@dataclass(frozen=True, slots=True)
class BooleanExpression:
    """A boolean value as a predicate; that of a column is a :class:`BooleanColumn`."""

    value: Arithmetic | Call | Case | Cast

    def __str__(self) -> str:
        return operand(self.value)


@dataclass(frozen=True, slots=True)
class Not:
    """The negation, kept as written: NULL stays NULL."""

    child: Predicate

    def __str__(self) -> str:
        match self.child:
            case IsNull(value) | ExpressionIsNull(value):
                return _null_text(value, "NOT ")
            case In(value, items) | ExpressionIn(value, items):
                return _in_text(value, items, "NOT ")
            case Like(value, pattern, escape) | ExpressionLike(value, pattern, escape):
                return _like_text(value, pattern, escape, "NOT ")
            case RLike(value, pattern):
                return _rlike_text(value, pattern, "NOT ")
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


SimpleLeaf: TypeAlias = Comparison | In | IsNull | Constant | BooleanColumn | Like
ExpressionLeaf: TypeAlias = (
    ExpressionComparison | ExpressionIn | ExpressionIsNull | ExpressionLike | RLike | BooleanExpression
)
PredicateLeaf: TypeAlias = SimpleLeaf | ExpressionLeaf
Predicate: TypeAlias = PredicateLeaf | Not | And | Or


def _null_text(value: Expression, negated: str = "") -> str:
    return f"{compared(value)} IS {negated}NULL"


def _in_text(value: Expression, items: Sequence[Expression], negated: str = "") -> str:
    return f"{compared(value)} {negated}IN {listed(items)}"


def _like_text(value: Expression, pattern: str, escape: str, negated: str = "") -> str:
    end = "" if escape == "\\" else f" ESCAPE {quote_string(escape)}"
    return f"{compared(value)} {negated}LIKE {quote_string(pattern)}{end}"


def _rlike_text(value: Expression, pattern: str, negated: str = "") -> str:
    return f"{compared(value)} {negated}RLIKE {quote_string(pattern)}"


def _check_listed(items: Sequence[Expression]) -> None:
    if not items:
        raise ValueError("IN needs at least one value")


def _check_escape(escape: str) -> None:
    if len(escape) != 1:
        raise ArgumentError(f"the escape of LIKE is one character, not {escape!r}")


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


def compare(op: ComparisonOp, left: Expression, right: Expression) -> Predicate:
    """A comparison of any two values; a literal beside a column goes to the right."""
    if isinstance(left, ColumnRef) and isinstance(right, Literal):
        return Comparison(op, left, right)
    if isinstance(left, Literal) and isinstance(right, ColumnRef):
        return Comparison(op.flipped, right, left)
    return ExpressionComparison(op, left, right)


def unfilled(predicate: Predicate) -> Predicate:
    """A comparison for which Spark does not fill CHAR values."""
    if isinstance(predicate, Comparison | ExpressionComparison):
        return replace(predicate, is_filled=False)
    return predicate


def is_in(value: Expression, items: Iterable[Expression]) -> Predicate:
    """``value IN (items)`` of any values."""
    found = tuple(items)
    literals = tuple(item for item in found if isinstance(item, Literal))
    if isinstance(value, ColumnRef) and len(literals) == len(found):
        return In(value, literals)
    return ExpressionIn(value, found)


def is_null(value: Expression) -> Predicate:
    """``value IS NULL`` of any value."""
    if isinstance(value, Literal):
        return Constant(value.value is None, ExpressionIsNull(value))
    return IsNull(value) if isinstance(value, ColumnRef) else ExpressionIsNull(value)


def is_like(value: Expression, pattern: str, escape: str = "\\") -> Predicate:
    """``value LIKE pattern`` of any value."""
    if isinstance(value, ColumnRef):
        return Like(value, pattern, escape)
    return ExpressionLike(value, pattern, escape)


def as_predicate(value: Expression) -> Predicate:
    """A boolean value as a condition.

    :raises ArgumentError: for a literal that is not a boolean.
    """
    match value:
        case ColumnRef():
            return BooleanColumn(value)
        case Literal(bool() | None as truth):
            return Constant(truth)
        case Literal():
            raise ArgumentError(f"expected a condition, found the literal {value}")
        case Arithmetic() | Call() | Case() | Cast():
            return BooleanExpression(value)
        case _:
            return value


def as_value(predicate: Predicate) -> Expression:
    """A condition as a value: that of a boolean column is the column."""
    match predicate:
        case BooleanColumn(column):
            return column
        case Constant(truth):
            return NULL if truth is None else Literal(truth, LiteralKind.BOOLEAN)
        case BooleanExpression(value):
            return value
        case _:
            return predicate


def leaves(predicate: Predicate) -> Iterator[PredicateLeaf]:
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


def columns(root: Expression) -> tuple[ColumnRef, ...]:
    """The distinct columns in the order of first mention; spellings that differ in case stay apart."""
    found: dict[ColumnRef, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ColumnRef):
            found[node] = None
        else:
            stack.extend(reversed(operands(node)))
    return tuple(found)


def operands(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node from left to right."""
    match node:
        case ColumnRef() | Literal() | Constant():
            return ()
        case Comparison(_, column, literal):
            return column, literal
        case In(column, literals):
            return column, *literals
        case IsNull(column) | BooleanColumn(column) | Like(column):
            return (column,)
        case Arithmetic(_, left, right) | ExpressionComparison(_, left, right):
            return left, right
        case Call(_, args):
            return args
        case Cast(child) | Not(child):
            return (child,)
        case Case(whens, otherwise):
            pairs = tuple(part for pair in whens for part in pair)
            return pairs if otherwise is None else (*pairs, otherwise)
        case ExpressionIn(value, items):
            return value, *items
        case ExpressionIsNull(value) | ExpressionLike(value) | RLike(value) | BooleanExpression(value):
            return (value,)
        case And(children) | Or(children):
            return children

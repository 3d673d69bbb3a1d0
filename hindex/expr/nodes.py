"""Typed expressions: what a residual predicate is evaluated from. Plain values: frozen, hashable, picklable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import TypeAlias

from hindex.orc.metadata.types import Kind, OrcType

BOOLEAN = OrcType(Kind.BOOLEAN)
TINYINT = OrcType(Kind.BYTE)
SMALLINT = OrcType(Kind.SHORT)
INT = OrcType(Kind.INT)
BIGINT = OrcType(Kind.LONG)
FLOAT = OrcType(Kind.FLOAT)
DOUBLE = OrcType(Kind.DOUBLE)
STRING = OrcType(Kind.STRING)
BINARY = OrcType(Kind.BINARY)
DATE = OrcType(Kind.DATE)
TIMESTAMP = OrcType(Kind.TIMESTAMP)


def decimal_type(precision: int, scale: int) -> OrcType:
    return OrcType(Kind.DECIMAL, precision=precision, scale=scale)


def unscaled(value: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer."""
    return Decimal(value).scaleb(-scale, Context(prec=80))


#: A value as it is held: days of a date, microseconds of a timestamp, None for NULL.
ConstantValue: TypeAlias = bool | int | float | Decimal | str | bytes | None


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a column. Those of CHAR(n) are strings filled with blanks to n characters."""

    name: str
    column_type: OrcType

    @property
    def type(self) -> OrcType:
        of = self.column_type
        match of.kind:
            case Kind.CHAR | Kind.VARCHAR:
                return STRING
            case Kind.DECIMAL:
                return decimal_type(of.precision or 38, of.scale if of.precision else 18)
            case Kind.TIMESTAMP_NTZ:
                # expressions compute with wall clocks
                return TIMESTAMP
            case _:
                return OrcType(of.kind)


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for every row. ``type`` is None for a NULL that has no type yet.

    ``is_literal`` tells what was written as such from what was computed: Spark types the two differently.
    """

    value: ConstantValue
    type: OrcType | None
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator, or a function of :data:`hindex.expr.functions.FUNCTIONS`, applied to values.

    ``options`` are constants beside its arguments, such as a pattern.
    """

    function: str
    args: tuple[Node, ...]
    type: OrcType
    options: tuple[str, ...] = ()


Node: TypeAlias = Column | Constant | Apply


def walk(root: Node) -> Iterator[Node]:
    """Every node, from left to right."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Apply):
            stack.extend(reversed(node.args))


def columns(root: Node) -> dict[str, OrcType]:
    """The columns that are read, with their types, in the order of first mention."""
    return {node.name: node.column_type for node in walk(root) if isinstance(node, Column)}


def bind(root: Node, values: Mapping[str, Constant]) -> Node:
    """The expression with columns of known value replaced."""
    match root:
        case Column(name):
            return values.get(name, root)
        case Apply(_, args):
            return replace(root, args=tuple(bind(arg, values) for arg in args))
        case _:
            return root

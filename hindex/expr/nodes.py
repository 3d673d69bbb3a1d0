"""Typed expressions, from which residual predicates are evaluated: frozen, hashable, picklable values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from typing import TypeAlias

from hindex.orc.metadata.types import Kind, OrcType
from hindex.value_class import value_class

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


#: The function of the joined keys of several columns, which only indexes have.
COMPOSITE = "COMPOSITE"
#: The function that converts instants to local times. Its option is the time zone.
LOCAL_TIME = "LOCAL TIME"


def decimal_type(precision: int, scale: int) -> OrcType:
    return OrcType(Kind.DECIMAL, precision=precision, scale=scale)


def unscaled(value: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled integer."""
    return Decimal(value).scaleb(-scale, Context(prec=80))


#: The value of a constant: days of a date, microseconds of a timestamp, None for NULL.
ConstantValue: TypeAlias = bool | int | float | Decimal | str | bytes | None


@value_class
class Column:
    """The values of a column. CHAR(n) values are strings padded with blanks to n characters."""

    name: str
    column_type: OrcType

    @property
    def type(self) -> OrcType:
        stored = self.column_type
        match stored.kind:
            case Kind.CHAR | Kind.VARCHAR:
                return STRING
            case Kind.DECIMAL:
                return decimal_type(stored.precision or 38, stored.scale if stored.precision else 18)
            case Kind.TIMESTAMP_NTZ:
                # expressions compute with wall clocks
                return TIMESTAMP
            case Kind.LIST | Kind.MAP | Kind.STRUCT | Kind.UNION:
                return stored
            case _:
                return OrcType(stored.kind)


@value_class
class Constant:
    """One value for every row. ``type`` is None for a NULL that has no type yet.

    ``is_literal`` is False for computed constants: Spark types the two differently.
    """

    value: ConstantValue
    type: OrcType | None
    is_literal: bool = False


@value_class
class Apply:
    """An operator, or a function of `hindex.expr.functions.FUNCTIONS`, applied to values.

    ``options`` are constants beside its arguments, such as a pattern.
    """

    function: str
    args: tuple[Node, ...]
    type: OrcType
    options: tuple[str, ...] = ()


Node: TypeAlias = Column | Constant | Apply


def walk(root: Node) -> Iterator[Node]:
    """Yield every node, from left to right."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Apply):
            stack.extend(reversed(node.args))


def columns(root: Node) -> dict[str, OrcType]:
    """Return the columns of an expression with their types, in the order of first mention."""
    return {node.name: node.column_type for node in walk(root) if isinstance(node, Column)}


def bind(root: Node, values: Mapping[str, Constant]) -> Node:
    """Replace columns of known value in an expression."""
    match root:
        case Column(name):
            return values.get(name, root)
        case Apply(_, args):
            return replace(root, args=tuple(bind(arg, values) for arg in args))
        case _:
            return root


def substitute(root: Node, old: Node, new: Node) -> Node:
    """Replace a part of an expression, wherever it occurs."""
    if root == old:
        return new
    if not isinstance(root, Apply):
        return root
    return replace(root, args=tuple(substitute(arg, old, new) for arg in root.args))

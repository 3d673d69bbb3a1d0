"""What Spark goes by a time zone for: timestamps, and what it makes timestamps of to compare or take apart."""

from __future__ import annotations

from contextlib import suppress

from hindex.errors import ColumnError
from hindex.orc.types import Kind, OrcType
from hindex.sql.predicate import Call, Cast, ColumnRef, Expression, Literal, LiteralKind, operands
from hindex.sql.statements import AggregateRef
from hindex.table.schema import TableSchema

_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
#: Functions that make a timestamp of a date or a text.
_OF_CLOCKS = frozenset({"hour", "minute", "second"})


def has_time(of: OrcType) -> bool:
    """Whether there are timestamps in values of a type, at any depth."""
    return any(part.kind in _KINDS for part in of.walk())


def is_about_time(root: Expression, schema: TableSchema) -> bool:
    """Whether a value or condition may depend on a time zone.

    Besides columns, literals and casts can be timestamps: dates and texts beside these become timestamps, too.
    Aggregates are left out: their columns are the business of who computes them.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        match node:
            case AggregateRef():
                continue
            case ColumnRef():
                # keys of transactional rows are no columns of the schema
                with suppress(ColumnError):
                    if has_time(schema.resolve(node.parts).type):
                        return True
            case Literal(_, LiteralKind.TIMESTAMP) | Cast(_, "TIMESTAMP"):
                return True
            case Call(name) if name in _OF_CLOCKS:
                return True
        stack.extend(operands(node))
    return False

"""Predicates that each engine translates into its own language. No engine is imported here."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

Value = int | str | Decimal | datetime.date


@dataclass(frozen=True, slots=True)
class Compare:
    """``column operator value``; the operator is one of ``= <> < <= > >=``."""

    column: str
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends included."""

    column: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Prefix:
    """Strings that begin with a prefix without LIKE's wildcards."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: Predicate


Leaf = Compare | In | Between | Prefix | IsNull
Predicate = Leaf | And | Or | Not


def columns(root: Predicate | None) -> tuple[str, ...]:
    """Return the columns that a predicate names, each once."""
    match root:
        case None:
            return ()
        case And(children) | Or(children):
            return tuple(dict.fromkeys(name for child in children for name in columns(child)))
        case Not(child):
            return columns(child)
        case _:
            return (root.column,)


def literal(value: Value) -> str:
    """As Spark, hindex and DuckDB read it: ``0.10`` is a decimal."""
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime.date():
            return f"DATE '{value}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def cast_literal(value: Value) -> str:
    """As ClickHouse and DataFusion read it, where ``0.10`` is a double and no decimal is equal to one."""
    return f"CAST('{value:f}' AS DECIMAL(15, 2))" if isinstance(value, Decimal) else literal(value)


def sql(root: Predicate, literal: Callable[[Value], str] = literal, *, short: bool = False) -> str:
    """Format a predicate as SQL.

    Args:
        short: for people: long lists are cut.
    """

    def text(node: Predicate) -> str:
        match node:
            case Compare(column, operator, value):
                return f"{column} {operator} {literal(value)}"
            case In(column, values):
                if short and len(values) > 6:
                    return f"{column} IN ({len(values):,} values)"
                return f"{column} IN ({', '.join(map(literal, values))})"
            case Between(column, low, high):
                return f"{column} BETWEEN {literal(low)} AND {literal(high)}"
            case Prefix(column, start):
                return f"{column} LIKE {literal(start + '%')}"
            case IsNull(column):
                return f"{column} IS NULL"
            case And(children):
                return " AND ".join(f"({text(c)})" if isinstance(c, Or) else text(c) for c in children)
            case Or(children):
                return " OR ".join(f"({text(c)})" if isinstance(c, And) else text(c) for c in children)
            case Not(child):
                return f"NOT ({text(child)})"

    return text(root)


_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def arrow_mask(root: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Evaluate a predicate to true, false or null for each row, by SQL's rules."""
    match root:
        case Compare(column, operator, value):
            array = batch.column(column)
            return _COMPARE[operator](array, _scalar(value, array.type))
        case In(column, values):
            array = batch.column(column)
            value_set = pa.array([_scalar(value, array.type).as_py() for value in values], array.type)
            is_member = pc.is_in(array, value_set=value_set)
            return pc.if_else(array.is_valid(), is_member, pa.scalar(None, pa.bool_()))
        case Between(column, low, high):
            array = batch.column(column)
            return pc.and_(
                pc.greater_equal(array, _scalar(low, array.type)),
                pc.less_equal(array, _scalar(high, array.type)),
            )
        case Prefix(column, start):
            return pc.starts_with(batch.column(column), pattern=start)
        case IsNull(column):
            return batch.column(column).is_null()
        case Not(child):
            return pc.invert(arrow_mask(child, batch))
        case And(children) | Or(children):
            combine = pc.and_kleene if isinstance(root, And) else pc.or_kleene
            mask = arrow_mask(children[0], batch)
            for child in children[1:]:
                mask = combine(mask, arrow_mask(child, batch))
            return mask


def _scalar(value: Value, data_type: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(value) if pa.types.is_decimal(data_type) else value, data_type)  # type: ignore[arg-type]

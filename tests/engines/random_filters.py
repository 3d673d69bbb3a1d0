"""Random filters, each as DuckDB, Polars and PyArrow write it."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tests.support.values import Column, arrow_type, decimal_size, random_pool

_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
_POLARS: dict[str, Any] = {
    "boolean": pl.Boolean,
    "tinyint": pl.Int8,
    "smallint": pl.Int16,
    "int": pl.Int32,
    "bigint": pl.Int64,
    "float": pl.Float32,
    "double": pl.Float64,
    "string": pl.String,
    "binary": pl.Binary,
    "date": pl.Date,
    "timestamp": pl.Datetime("us"),
}
#: Types that columns are cast to: no value of theirs fails.
_CASTS = {
    "tinyint": ("int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp",),
    "string": ("binary",),
}
_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "eq": ("=", lambda a, b: a == b),
    "ne": ("<>", lambda a, b: a != b),
    "lt": ("<", lambda a, b: a < b),
    "le": ("<=", lambda a, b: a <= b),
    "gt": (">", lambda a, b: a > b),
    "ge": (">=", lambda a, b: a >= b),
}


@dataclass(frozen=True)
class Filter:
    """One filter: SQL of DuckDB with its parameters, and the expressions of Polars and PyArrow."""

    sql: str
    parameters: tuple[Any, ...]
    polars: pl.Expr
    arrow: pc.Expression


def random_filter(rng: np.random.Generator, columns: Sequence[Column], depth: int = 3) -> Filter:
    """Make a filter of up to so many levels of AND, OR and NOT."""
    kind = rng.choice(["leaf", "and", "or", "not"], p=[0.4, 0.25, 0.2, 0.15]) if depth else "leaf"
    if kind == "leaf":
        return _leaf(rng, columns[int(rng.integers(0, len(columns)))])
    left = random_filter(rng, columns, depth - 1)
    if kind == "not":
        return Filter(f"NOT ({left.sql})", left.parameters, ~left.polars, ~left.arrow)
    right = random_filter(rng, columns, depth - 1)
    parameters = (*left.parameters, *right.parameters)
    if kind == "and":
        sql = f"({left.sql}) AND ({right.sql})"
        return Filter(sql, parameters, left.polars & right.polars, left.arrow & right.arrow)
    sql = f"({left.sql}) OR ({right.sql})"
    return Filter(sql, parameters, left.polars | right.polars, left.arrow | right.arrow)


def _leaf(rng: np.random.Generator, column: Column) -> Filter:
    name, of = column.name, column.type
    polars: pl.Expr = pl.col(name)
    arrow: pc.Expression = pc.field(name)
    kind = str(rng.choice(["compare", "in", "between", "null", "cast"], p=[0.45, 0.2, 0.15, 0.1, 0.1]))
    sql = name
    if kind == "null":
        nan_is_null = bool(rng.random() < 0.3)
        if rng.random() < 0.5:
            return Filter(f"{name} IS NULL", (), polars.is_null(), arrow.is_null(nan_is_null))
        return Filter(f"{name} IS NOT NULL", (), polars.is_not_null(), arrow.is_valid())
    if kind == "in":
        values = [_value(rng, column) for _ in range(int(rng.integers(1, 6)))]
        if rng.random() < 0.2:
            values.append(None)
        listed = ", ".join(_cast("?", of) for _ in values)
        matches = pc.is_in(
            arrow,
            value_set=pa.array(values, arrow_type(of)),
            skip_nulls=bool(rng.random() < 0.3),
        )
        return Filter(
            f"{name} IN ({listed})",
            tuple(values),
            polars.is_in(pl.Series(values, dtype=_polars(of)).implode()),
            matches,
        )
    if kind == "between":
        low, high = _value(rng, column), _value(rng, column)
        return Filter(
            f"{name} BETWEEN {_cast('?', of)} AND {_cast('?', of)}",
            (low, high),
            polars.is_between(_lit(low, of), _lit(high, of)),
            (arrow >= _scalar(low, of)) & (arrow <= _scalar(high, of)),
        )
    if kind == "cast" and of in _CASTS:
        to = str(rng.choice(_CASTS[of]))
        sql, polars, arrow = _cast(name, to), polars.cast(_polars(to)), arrow.cast(arrow_type(to))
        value = _cast_value(_value(rng, column), to)
        of = to
    else:
        value = _value(rng, column)
        if rng.random() < 0.03:
            value = None
    symbol, compare = _COMPARISONS[str(rng.choice(list(_COMPARISONS)))]
    literal = _scalar(value, of)
    if value is not None and rng.random() < 0.15:
        literal = _other_literal(rng, value, of)
    reverse = rng.random() < 0.2
    return Filter(
        f"{_cast('?', of)} {symbol} {sql}" if reverse else f"{sql} {symbol} {_cast('?', of)}",
        (value,),
        compare(_lit(value, of), polars) if reverse else compare(polars, _lit(value, of)),
        compare(literal, arrow) if reverse else compare(arrow, literal),
    )


def _value(rng: np.random.Generator, column: Column) -> Any:
    """Take one of a column's values, or another one of its type."""
    pool = column.pool if rng.random() < 0.7 else random_pool(rng, column.type)
    return clean(pool[int(rng.integers(0, len(pool)))])


def clean(value: Any) -> Any:
    """Leave the fractions of times before 1970 out, which one writer cannot write."""
    if isinstance(value, datetime.datetime) and value.year < 1970:
        return value.replace(microsecond=0)
    return value


def _cast_value(value: Any, to: str) -> Any:
    match to:
        case "double":
            return float(value)
        case "timestamp":
            return datetime.datetime(value.year, value.month, value.day)
        case "binary":
            return value.encode()
        case _:
            return value


def _other_literal(rng: np.random.Generator, value: Any, of: str) -> pc.Expression:
    """Give PyArrow a literal of another type, which it casts."""
    if isinstance(value, bool):
        return _scalar(value, of)
    if isinstance(value, int):
        other: Any = rng.choice([float(value), float(value) + 0.5])
        return (
            pc.scalar(pa.scalar(float(other)))
            if rng.random() < 0.5
            else pc.scalar(pa.scalar(value, pa.int64()))
        )
    if isinstance(value, float):
        return pc.scalar(pa.scalar(value, pa.float64() if rng.random() < 0.7 else pa.float32()))
    if isinstance(value, decimal.Decimal) and abs(value) < 10**9:
        return pc.scalar(pa.scalar(float(value))) if rng.random() < 0.5 else pc.scalar(pa.scalar(int(value)))
    if isinstance(value, datetime.datetime) and 1700 < value.year < 2200:
        return pc.scalar(pa.scalar(value, pa.timestamp("ns")))
    if isinstance(value, str):
        return pc.scalar(pa.scalar(value, pa.large_string()))
    return _scalar(value, of)


def _scalar(value: Any, of: str) -> pc.Expression:
    return pc.scalar(pa.scalar(value, arrow_type(of)))


def _polars(of: str) -> Any:
    return pl.Decimal(*decimal_size(of)) if of.startswith("decimal") else _POLARS[of]


def _lit(value: Any, of: str) -> pl.Expr:
    return pl.lit(value, dtype=_polars(of))


def _cast(sql: str, of: str) -> str:
    return f"CAST({sql} AS {of.upper() if of.startswith('decimal') else _DUCKDB[of]})"

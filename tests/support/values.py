"""Random columns of every indexable type, and SQL literals that fall in, between and beside their values."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hindex.sql.predicate import Literal, LiteralKind, quote_string

Bools = np.ndarray[Any, np.dtype[np.bool_]]

#: Every type, spelled as SQL, Spark and pyorc spell it.
TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(9,2)",
    "decimal(18,5)",
    "decimal(38,10)",
    "string",
    "binary",
    "date",
    "timestamp",
)
#: Types that only some writers have, or that only tables of several kinds of columns get.
CHAR = "char(4)"
#: What files may have where the table's type is wider, by that type.
NARROWER = {
    "smallint": ("tinyint",),
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("float",),
    "decimal(18,5)": ("decimal(9,2)",),
    "decimal(38,10)": ("decimal(9,2)", "decimal(18,5)"),
}
INTEGER_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
#: Days since 1970 of the first and the last day that Python and Spark both write.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
MICROS_PER_DAY = 86_400_000_000
_GREGORIAN = -141_427
_EPOCH = datetime.datetime(1970, 1, 1)
_DECIMALS = decimal.Context(prec=60)

_TEXTS = (
    "",
    "\0",
    "a",
    "a\0",
    "a\0b",
    "A",
    "é",
    "\U0001f600",
    "\uffff",
    "a%",
    "it's",
    "\\",
    "\n",
    " a",
    "null",
)


@dataclass(frozen=True)
class Column:
    """A column of a random table; ``pool`` holds values that it may have, and more."""

    name: str
    type: str
    pool: tuple[Any, ...]


def arrow_type(of: str) -> pa.DataType:
    """The Arrow type that files of every writer are made from."""
    if of.startswith("decimal"):
        precision, scale = decimal_size(of)
        return pa.decimal128(precision, scale)
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        CHAR: pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }[of]


def decimal_size(of: str) -> tuple[int, int]:
    """Precision and scale of ``decimal(p,s)``."""
    precision, scale = of.removeprefix("decimal(").rstrip(")").split(",")
    return int(precision), int(scale)


def random_pool(rng: np.random.Generator, of: str) -> tuple[Any, ...]:
    """The values a column may take: a handful, dozens or thousands, extremes among them."""
    make = _maker(of)
    size = int(rng.choice([1, 2, 5, 20, 200, 3000]))
    return tuple(make(rng) for _ in range(size))


def random_column(rng: np.random.Generator, column: Column, rows: int, of: str | None = None) -> pa.Array:
    """``rows`` values from a column's pool, with nulls in any pattern.

    Args:
        of: a narrower type that they are written with; what does not fit is null.
    """
    pool = column.pool if of is None else tuple(_narrowed(value, of) for value in column.pool)
    shape = rng.choice(["random", "runs", "sorted", "skewed"])
    picks = rng.integers(0, len(pool), rows)
    if shape == "runs":
        picks = np.repeat(picks, rng.geometric(0.02, rows))[:rows]
    elif shape == "sorted":
        picks = np.sort(picks)
    elif shape == "skewed":
        picks = np.where(rng.random(rows) < 0.95, picks[:1], picks)
    null = _null_pattern(rng, rows)
    values = [
        None if is_null else pool[pick] for pick, is_null in zip(picks.tolist(), null.tolist(), strict=True)
    ]
    return pa.array(values, arrow_type(of or column.type))


def random_nulls(rng: np.random.Generator, array: pa.Array) -> pa.Array:
    """A struct array with nulls of its own, in any pattern."""
    gone = pa.array(_null_pattern(rng, len(array)))
    return pa.StructArray.from_arrays(array.flatten(), fields=list(array.type), mask=gone)


def _narrowed(value: Any, of: str) -> Any:
    if of in INTEGER_BITS:
        bits = INTEGER_BITS[of]
        return value if -(1 << bits) <= value < 1 << bits else None
    if of == "float":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    precision, scale = decimal_size(of)
    exact = value.quantize(decimal.Decimal(1).scaleb(-scale), context=_DECIMALS)
    return exact if abs(exact.scaleb(scale, _DECIMALS)) < 10**precision else None


def _null_pattern(rng: np.random.Generator, rows: int) -> Bools:
    shape = rng.choice(["none", "none", "some", "most", "all", "runs", "first half", "second half", "one"])
    where = np.arange(rows)
    match shape:
        case "none":
            return np.zeros(rows, np.bool_)
        case "all":
            return np.ones(rows, np.bool_)
        case "runs":
            runs: Bools = np.repeat(rng.random(rows) < 0.5, rng.geometric(0.01, rows))[:rows]
            return runs
        case "first half":
            return where < rows // 2
        case "second half":
            return where >= rows // 2
        case "one":
            one: Bools = where == rng.integers(0, max(rows, 1))
            return one
        case _:
            some: Bools = rng.random(rows) < (0.9 if shape == "most" else 0.15)
            return some


def _maker(of: str) -> Callable[[np.random.Generator], Any]:
    if of in INTEGER_BITS:
        return lambda rng: _integer(rng, INTEGER_BITS[of])
    if of.startswith("decimal"):
        precision, scale = decimal_size(of)
        return lambda rng: _decimal(_bounded(rng, 10**precision - 1), scale)
    makers: dict[str, Callable[[np.random.Generator], Any]] = {
        "boolean": lambda rng: bool(rng.integers(0, 2)),
        "float": lambda rng: float(np.float32(_floating(rng))),
        "double": _floating,
        "string": _text,
        CHAR: lambda rng: _text(rng)[:4],
        "binary": lambda rng: bytes(rng.choice([0, 1, 97, 127, 128, 255], rng.integers(0, 6)).tolist()),
        "date": lambda rng: _EPOCH.date() + datetime.timedelta(_day(rng)),
        "timestamp": _timestamp,
    }
    return makers[of]


def _integer(rng: np.random.Generator, bits: int) -> int:
    low, high = -(1 << bits), (1 << bits) - 1
    if rng.random() < 0.1:
        return int(rng.choice([low, low + 1, high - 1, high]))
    if rng.random() < 0.5:
        return int(rng.integers(-20, 20))
    return int(rng.integers(low, high, endpoint=True))


def _bounded(rng: np.random.Generator, most: int) -> int:
    """An integer within ``most`` of 0, of any number of digits."""
    if rng.random() < 0.1:
        return most if rng.random() < 0.5 else -most
    digits = int(rng.integers(1, len(str(most)) + 1))
    number = min(int("".join(map(str, rng.integers(0, 10, digits).tolist()))), most)
    return number if rng.random() < 0.5 else -number


def _decimal(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(unscaled).scaleb(-scale, _DECIMALS)


def _floating(rng: np.random.Generator) -> float:
    if rng.random() < 0.25:
        special = [math.nan, 0.0, -0.0, math.inf, -math.inf, 1.0, -1.0, 0.1, 1e-38, 3.4e38]
        return special[int(rng.integers(0, len(special)))]
    return round(float(rng.normal(0, 100)), int(rng.integers(0, 6)))


def _text(rng: np.random.Generator) -> str:
    if rng.random() < 0.2:
        return _TEXTS[int(rng.integers(0, len(_TEXTS)))]
    length = int(rng.integers(0, 300) if rng.random() < 0.03 else rng.integers(0, 8))
    return "".join(rng.choice(list("abcXYZ019 é\U0001f600"), length))


def _day(rng: np.random.Generator) -> int:
    if rng.random() < 0.25:
        near = [-1, 0, 1, _GREGORIAN, _GREGORIAN - 1, _GREGORIAN - 12, _GREGORIAN + 1, FIRST_DAY, LAST_DAY]
        return int(rng.choice(near))
    span = rng.choice(["recent", "old", "any"])
    low, high = {"recent": (10_000, 10_100), "old": (-200_000, -100_000), "any": (FIRST_DAY, LAST_DAY)}[
        str(span)
    ]
    return int(rng.integers(low, high))


def _timestamp(rng: np.random.Generator) -> datetime.datetime:
    fractions = [0, 1, 999, 1000, 1001, 500_000, 999_000, 999_999]
    micros = int(rng.choice(fractions)) + 1_000_000 * int(rng.integers(0, 86_400))
    return _EPOCH + datetime.timedelta(days=_day(rng), microseconds=micros)


def random_literal(rng: np.random.Generator, column: Column) -> str:
    """SQL text of a literal that Spark compares with the column: one of its values, near one, or far away."""
    if rng.random() < 0.03:
        return "NULL"
    value = (
        column.pool[int(rng.integers(0, len(column.pool)))]
        if rng.random() < 0.6
        else _maker(column.type)(rng)
    )
    of = column.type
    if of in INTEGER_BITS:
        return _integer_literal(rng, value, INTEGER_BITS[of])
    if of.startswith("decimal"):
        return _decimal_literal(rng, value, decimal_size(of)[1])
    if of in ("float", "double"):
        return _floating_literal(rng, value)
    if of == "date" and rng.random() < 0.2:
        return f"TIMESTAMP '{value} 00:00:00{rng.choice(['', '.000001'])}'"
    if of == "timestamp":
        if rng.random() < 0.2:
            return f"DATE '{value.date()}'"
        return f"TIMESTAMP '{value}'" if rng.random() < 0.7 else f"'{value}'"
    if of == "string":
        return quote_string(value)
    if of == CHAR:
        # blanks at the end make no difference
        return quote_string(value + " " * int(rng.choice([0, 0, 1, 6])))
    if of == "date":
        return f"DATE '{value}'" if rng.random() < 0.7 else f"'{value}'"
    if of == "boolean":
        return str(value).upper() if rng.random() < 0.8 else f"'{value}'"
    return str(Literal(value, LiteralKind.BINARY))


def _integer_literal(rng: np.random.Generator, value: int, bits: int) -> str:
    match rng.choice(
        ["plain", "near", "text", "fraction", "double", "outside"], p=[0.5, 0.15, 0.1, 0.1, 0.1, 0.05]
    ):
        case "near":
            return str(min(max(value + int(rng.integers(-1, 2)), -(1 << 63)), (1 << 63) - 1))
        case "text":
            return f"'{value}'"
        case "fraction":
            return f"{value}.{rng.choice(['0', '5', '25', '999'])}"
        case "double":
            return f"{float(value)!r}D" if abs(value) < 10**15 else f"{float(value):e}"
        case "outside":
            return str((1 << bits) * int(rng.choice([-3, -2, 2, 3])))
        case _:
            return str(value)


def _decimal_literal(rng: np.random.Generator, value: decimal.Decimal, scale: int) -> str:
    text = f"{value:f}"
    match rng.choice(["plain", "short", "longer", "whole", "double"], p=[0.55, 0.15, 0.1, 0.1, 0.1]):
        case "short":
            return f"{value.quantize(decimal.Decimal(1).scaleb(-max(scale - 1, 1)), context=_DECIMALS):f}"
        case "longer" if len(value.as_tuple().digits) < 30:
            return f"{text}{rng.choice(['0', '5'])}"
        case "whole":
            return f"{value.to_integral_value(context=_DECIMALS):f}"
        case "double":
            return f"{float(value):e}"
        case _:
            return text


def _floating_literal(rng: np.random.Generator, value: float) -> str:
    if not math.isfinite(value):
        return str(Literal(value, LiteralKind.DOUBLE))
    match rng.choice(["double", "decimal", "whole", "float"]):
        case "decimal" if 1e-10 < abs(value) < 1e10:
            return f"{decimal.Decimal(repr(value)):f}"
        case "whole" if abs(value) < 1e9:
            return str(int(value))
        case "float" if abs(value) < 1e30:
            return f"{value!r}F"
        case _:
            return f"{value!r}D"

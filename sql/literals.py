"""Literals: numbers as Spark types them, and casts of literals.

Functions return None where the text is not a literal of the kind asked for; the caller knows the position.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from hindex.errors import ArgumentError
from hindex.sql.predicate import NULL, Literal, LiteralKind
from hindex.sql.string_values import parse_date, parse_double, parse_wall_clock

MAX_DECIMAL_DIGITS = 38
# Far beyond any column's range, and below Python's limit for reading integers.
MAX_INTEGER_DIGITS = 1000

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(E[+-]?\d{1,9})?(L|S|Y|D|F|BD)?", re.ASCII | re.IGNORECASE)
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 a wall clock
_INTEGER_BITS = {"Y": 8, "S": 16, "": 32, "L": 64}


class LiteralError(ArgumentError):
    """A literal that Spark would refuse; the message says why."""


def number(text: str) -> Literal:
    """Return the literal of an unsigned number: ``5``, ``5L``, ``1.5``, ``1e3``, ``1.5D``, ``1.5BD``.

    Source: Spark's numeric literals: a fraction is DECIMAL and an exponent DOUBLE.

    Raises:
        LiteralError: if there is no such number.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise LiteralError(f"invalid number '{text}'")
    digits, exponent, suffix = match[1], match[2] or "", (match[3] or "").upper()
    if suffix in ("L", "S", "Y"):
        if not digits.isdigit() or exponent:
            raise LiteralError(f"invalid number '{text}': {suffix} follows whole numbers only")
        value = _integer(digits)
        # The most negative value is a minus sign before a number one beyond the range.
        if value > 2 ** (_INTEGER_BITS[suffix] - 1):
            raise LiteralError(f"the number '{text}' does not fit {_INTEGER_BITS[suffix]} bits")
        return Literal(value, LiteralKind.INTEGER)
    if suffix == "BD" or (not suffix and not exponent and "." in digits):
        return decimal(Decimal(digits + exponent), text)
    if suffix == "F":
        return Literal(_finite(_nearest_float32(Decimal(digits + exponent)), text), LiteralKind.DOUBLE)
    if suffix == "D" or exponent:
        return Literal(_finite(float(digits + exponent), text), LiteralKind.DOUBLE)
    return Literal(_integer(digits), LiteralKind.INTEGER)


def decimal(value: Decimal, text: str) -> Literal:
    """Return a DECIMAL literal within Spark's 38 digits.

    Raises:
        LiteralError: for more.
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) + max(exponent, 0) > MAX_DECIMAL_DIGITS or -exponent > MAX_DECIMAL_DIGITS:
        raise LiteralError(f"the decimal '{text}' has more than {MAX_DECIMAL_DIGITS} digits")
    return Literal(value, LiteralKind.DECIMAL)


def of_value(value: object) -> Literal | None:
    """Return the literal of a Python value; None for a type without literals in SQL.

    A time with a zone keeps its offset.

    Raises:
        LiteralError: for a number that is too long, and a time that is finer than microseconds.
    """
    match value:
        case None:
            return NULL
        case bool():
            return Literal(value, LiteralKind.BOOLEAN)
        case int():
            # by its bits: 10 takes more than three of them, and Python prints no longer numbers
            if value.bit_length() > 3 * MAX_INTEGER_DIGITS:
                raise LiteralError(
                    f"a whole number of {value.bit_length()} bits is too long for SQL; use a float"
                )
            return Literal(int(value), LiteralKind.INTEGER)
        case float():
            return Literal(float(value), LiteralKind.DOUBLE)
        case Decimal():
            return decimal(value, str(value)) if value.is_finite() else None
        case str():
            # the text itself, whatever a subclass, such as an enum of texts, shows
            return Literal(str.__str__(value), LiteralKind.STRING)
        case bytes() | bytearray():
            return Literal(bytes(value), LiteralKind.BINARY)
        case datetime.datetime():
            if value != value:
                # pandas' missing time equals nothing, itself included
                return None
            if getattr(value, "nanosecond", 0):
                raise LiteralError(
                    f"{value} has nanoseconds, and times of SQL have microseconds: round it first"
                )
            return Literal(value.isoformat(" "), LiteralKind.TIMESTAMP)
        case datetime.date():
            return Literal(value, LiteralKind.DATE)
    return _of_numpy(value) if type(value).__module__ == "numpy" else None


def _of_numpy(value: Any) -> Literal | None:  # noqa: ANN401 a numpy scalar
    if not hasattr(value, "item"):
        return None
    scalar = value.item()
    # item() turns times finer than microseconds into integers, and keeps long doubles
    is_time = type(value).__name__ in ("datetime64", "timedelta64")
    if str(getattr(value, "dtype", "")) == "datetime64[ns]" and isinstance(scalar, int) and not scalar % 1000:
        scalar = _EPOCH + datetime.timedelta(microseconds=scalar // 1000)
    if type(scalar) is type(value) or (is_time and not isinstance(scalar, datetime.date)):
        return None
    return of_value(scalar)


def negate(literal: Literal) -> Literal | None:
    """Negate a number; return None for any other literal."""
    match literal.kind, literal.value:
        case LiteralKind.INTEGER, int(value):
            return Literal(-value, LiteralKind.INTEGER)
        case LiteralKind.DECIMAL, Decimal() as value:
            return Literal(value.copy_negate(), LiteralKind.DECIMAL)
        case LiteralKind.DOUBLE, float(value):
            return Literal(-value, LiteralKind.DOUBLE)
        case LiteralKind.NULL, _:
            return literal
    return None


def cast(literal: Literal, to: str) -> Literal | None:
    """Cast a literal to a Spark type; return None if the pair of types is not supported.

    Args:
        to: one of DATE, TIMESTAMP, TIMESTAMP_NTZ, DOUBLE, FLOAT, STRING and BOOLEAN.

    Raises:
        LiteralError: for a value that the type cannot hold.
    """
    value = literal.value
    problem = LiteralError(f"{literal} is not a valid {to}")
    if value is None:
        return literal
    match to:
        case "STRING" if isinstance(value, str) and literal.kind is LiteralKind.STRING:
            return literal
        case "BOOLEAN" if isinstance(value, bool):
            return literal
        case "DATE" if literal.kind is LiteralKind.DATE:
            return literal
        case "DATE" if literal.kind is LiteralKind.STRING and isinstance(value, str):
            date = parse_date(value)
            if date is None:
                raise problem
            return Literal(date, LiteralKind.DATE)
        case "TIMESTAMP" if isinstance(value, str):
            return Literal(value, LiteralKind.TIMESTAMP)
        case "TIMESTAMP_NTZ" if isinstance(value, str) and literal.kind is LiteralKind.STRING:
            # Spark ignores a zone here, and takes words such as 'now' for the current time
            clock = parse_wall_clock(value)
            return (
                None if clock is None or clock.zone is not None else Literal(value, LiteralKind.TIMESTAMP_NTZ)
            )
        case "DOUBLE" | "FLOAT" if isinstance(value, str) and literal.kind is LiteralKind.STRING:
            number = parse_double(value)
            if number is None:
                raise problem
            return Literal(_string_to_float32(value, number) if to == "FLOAT" else number, LiteralKind.DOUBLE)
        case "DOUBLE" | "FLOAT" if isinstance(value, float):
            return Literal(_to_float32(value) if to == "FLOAT" else value, LiteralKind.DOUBLE)
        case "DOUBLE" | "FLOAT" if literal.kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL):
            assert isinstance(value, int | Decimal)
            exact = Decimal(value)
            return Literal(_nearest_float32(exact) if to == "FLOAT" else float(exact), LiteralKind.DOUBLE)
    return None


def _string_to_float32(text: str, number: float) -> float:
    """Return the float that a string spells; ``number`` is the double that it spells."""
    try:
        exact = Decimal(text.strip().rstrip("fFdD"))
    except InvalidOperation:
        # a hexadecimal number, or a name of infinity
        return _to_float32(number)
    if not exact.is_finite() or abs(exact.adjusted()) > MAX_INTEGER_DIGITS:
        return _to_float32(number)
    return _nearest_float32(exact)


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise LiteralError(f"a number of {len(digits)} digits is too long")
    return int(digits)


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise LiteralError(f"the number '{text}' is out of range")
    return value


def _nearest_float32(exact: Decimal) -> float:
    """Round a number once to a float: rounding to a double first could give another float."""
    near = float(exact)
    if near and math.isfinite(near):
        error = Fraction(exact) - Fraction(near)
        if error and not struct.unpack("<q", struct.pack("<d", near))[0] & 1:
            # of the doubles on both sides, that of the odd last bit is between the same floats as the number
            near = math.nextafter(near, math.inf if error > 0 else -math.inf)
    return _to_float32(near)


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)

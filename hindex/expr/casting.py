"""Casts between types with ANSI mode on: what cannot be cast is an error.

Source: Spark's ``Cast.scala``. Casts whose results depend on how Java prints or reads doubles, or on a time zone, are
refused.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pyarrow as pa

from hindex.errors import PredicateError
from hindex.expr import arithmetic
from hindex.expr.nodes import unscaled
from hindex.expr.vector import (
    CannotEvaluate,
    Errors,
    Vector,
    by_value,
    not_utf8,
    of_numbers,
    of_truth,
)
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.string_values import (
    date_from_days,
    format_date,
    format_timestamp,
    parse_bigint,
    parse_boolean,
    parse_days,
    parse_decimal,
    parse_double,
    parse_wall_clock,
    trim_blanks,
)

_FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_NUMBERS = INTEGER_KINDS | _FLOATING


def can_cast(data_type: OrcType, to: OrcType) -> bool:
    """Return True if a cast between two types is supported."""
    a, b = data_type.kind, to.kind
    if data_type == to or b is Kind.DECIMAL:
        return data_type == to or a in INTEGER_KINDS or a in (Kind.DECIMAL, Kind.STRING, Kind.BOOLEAN)
    if b in INTEGER_KINDS:
        return a in _NUMBERS or a in (Kind.BOOLEAN, Kind.DECIMAL, Kind.STRING)
    if b in _FLOATING:
        if a in (Kind.DECIMAL, Kind.STRING):
            return b is Kind.DOUBLE
        return a in _NUMBERS or a is Kind.BOOLEAN
    wanted: dict[Kind, tuple[Kind, ...]] = {
        Kind.BOOLEAN: (*_NUMBERS, Kind.DECIMAL, Kind.STRING),
        Kind.STRING: (*INTEGER_KINDS, Kind.BOOLEAN, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.BINARY),
        Kind.BINARY: (Kind.STRING,),
        Kind.DATE: (Kind.STRING, Kind.TIMESTAMP),
        Kind.TIMESTAMP: (Kind.STRING, Kind.DATE),
    }
    return a in wanted.get(b, ())


def cast(to: OrcType, value: Vector) -> Vector:
    """Cast values to another type, if `can_cast` allows it."""
    if value.type == to:
        return value
    match to.kind:
        case Kind.DECIMAL:
            return _to_decimal(to, value)
        case Kind.BOOLEAN:
            return _to_boolean(to, value)
        case Kind.STRING:
            return _to_string(to, value)
        case Kind.BINARY:
            return Vector(to, value.array.cast(pa.binary()))
        case Kind.DATE:
            return _to_date(to, value)
        case Kind.TIMESTAMP:
            return _to_timestamp(to, value)
        case _ if to.kind in INTEGER_KINDS:
            return _to_integer(to, value)
        case _:
            return _to_floating(to, value)


def _to_integer(to: OrcType, value: Vector) -> Vector:
    kind, (least, greatest) = value.type.kind, arithmetic.limits(to)
    if kind is Kind.DECIMAL:

        def whole(number: Decimal) -> int:
            integer = int(number.to_integral_value(decimal.ROUND_DOWN))
            if not least <= integer <= greatest:
                raise CannotEvaluate(f"{number:f} does not fit {to}")
            if to.kind is not Kind.LONG and int(float(number)) != integer:
                # Spark goes by way of a double, but where it holds the decimal's up to 18 digits as an integer
                raise PredicateError(
                    f"the cast of {number:f} to {to} depends on how Spark holds it; cast it to bigint first"
                )
            return integer

        return by_value(to, (value,), whole)
    if kind is Kind.STRING:

        def read(text: str) -> int:
            integer = parse_bigint(text)
            if integer is None or not least <= integer <= greatest:
                raise _unreadable(text, to)
            return integer

        return by_value(to, (value,), read)
    numbers = value.numbers
    if kind in _FLOATING:
        with np.errstate(invalid="ignore"):
            doubles = numbers.astype(np.float64)
            inside = (np.floor(doubles) <= float(greatest)) & (np.ceil(doubles) >= float(least))
        # the greatest bigint is no double, and the next one is cast to it
        top = doubles >= 2.0**63
        integers = np.where(inside & ~top, doubles, 0).astype(np.int64)
        integers = np.where(inside & top, greatest, integers)
    else:
        integers = numbers.astype(np.int64)
        inside = (integers >= least) & (integers <= greatest)
    beyond = value.valid & ~inside
    errors = Errors(beyond, f"a value does not fit {to}") if beyond.any() else None
    return of_numbers(to, np.where(inside, integers, 0), value.valid, errors)


def _to_floating(to: OrcType, value: Vector) -> Vector:
    kind = value.type.kind
    if kind is Kind.DECIMAL:
        return by_value(to, (value,), float)
    if kind is Kind.STRING:

        def read(text: str) -> float:
            number = parse_double(text)
            if number is None:
                raise _unreadable(text, to)
            return number

        return by_value(to, (value,), read)
    with np.errstate(over="ignore", invalid="ignore"):
        return of_numbers(to, value.numbers, value.valid)


def _to_decimal(to: OrcType, value: Vector) -> Vector:
    if value.type.kind is not Kind.STRING:
        return by_value(to, (value,), lambda number: arithmetic.fitted(Decimal(number), to))

    def read(text: str) -> Decimal:
        unscaled_value = parse_decimal(text, to.precision, to.scale)
        if unscaled_value is None:
            raise _unreadable(text, to)
        return unscaled(unscaled_value, to.scale)

    return by_value(to, (value,), read)


def _to_boolean(to: OrcType, value: Vector) -> Vector:
    kind = value.type.kind
    if kind is Kind.STRING:

        def read(text: str) -> bool:
            truth = parse_boolean(text)
            if truth is None:
                raise _unreadable(text, to)
            return truth

        return by_value(to, (value,), read)
    if kind is Kind.DECIMAL:
        return by_value(to, (value,), bool)
    return of_truth(value.numbers != 0, value.valid)


def _to_string(to: OrcType, value: Vector) -> Vector:
    match value.type.kind:
        case Kind.BINARY:
            try:
                return Vector(to, value.array.cast(pa.string()))
            except pa.ArrowInvalid:
                raise not_utf8() from None
        case Kind.DECIMAL:
            return by_value(to, (value,), lambda number: f"{number:f}")
        case Kind.BOOLEAN:
            return by_value(to, (value,), lambda truth: "true" if truth else "false")
        case Kind.DATE | Kind.TIMESTAMP:
            is_date = value.type.kind is Kind.DATE
            whole = Vector(value.type, value.array.cast(pa.int32() if is_date else pa.int64()))
            return by_value(to, (whole,), _format_days if is_date else format_timestamp)
        case _:
            return by_value(to, (value,), str)


def _format_days(days: int) -> str:
    return format_date(date_from_days(days))


def _to_date(to: OrcType, value: Vector) -> Vector:
    if value.type.kind is Kind.TIMESTAMP:
        return of_numbers(to, value.numbers // MICROS_PER_DAY, value.valid)

    def read(text: str) -> int:
        days = parse_days(text)
        if days is None:
            raise _unreadable(text, to)
        return days

    return _retyped(to, by_value(OrcType(Kind.INT), (value,), read))


def _to_timestamp(to: OrcType, value: Vector) -> Vector:
    if value.type.kind is Kind.DATE:
        micros = value.numbers.astype(np.int64)
        max_days = np.iinfo(np.int64).max // MICROS_PER_DAY
        beyond = value.valid & (np.abs(micros) > max_days)
        errors = Errors(beyond, f"a date does not fit {to}") if beyond.any() else None
        return of_numbers(to, np.where(beyond, 0, micros) * MICROS_PER_DAY, value.valid, errors)

    def read(text: str) -> int:
        clock = parse_wall_clock(text)
        if clock is None:
            if ":" in text or trim_blanks(text)[:1] == "T":
                raise PredicateError(
                    f"{text!r} is not read as a timestamp here; write a date and a time, or filter with Spark on "
                    "scan(...).to_spark()"
                )
            raise _unreadable(text, to)
        if clock.zone is not None:
            raise PredicateError(
                f"{text!r} names a time zone, and timestamps of the table are wall clock times without one; leave the "
                "zone out, or filter with Spark on scan(...).to_spark()"
            )
        return clock.micros

    return _retyped(to, by_value(OrcType(Kind.LONG), (value,), read))


def _retyped(to: OrcType, value: Vector) -> Vector:
    return Vector(to, value.array.cast(to.to_arrow()), value.errors)


def _unreadable(text: str, to: OrcType) -> CannotEvaluate:
    return CannotEvaluate(f"{text[:60]!r} cannot be cast to {to}")

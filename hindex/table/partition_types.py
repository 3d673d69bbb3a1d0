"""The types of partition columns, inferred from directory names as Spark infers them.

Spark tries int, bigint, decimal of scale 0, double, timestamp and date, and falls back to string; Java's
number parsers decide what a number is. Verified against Spark 4.3.
"""

from __future__ import annotations

import datetime
import re
from decimal import Context, Decimal
from typing import Any, TypeVar

import numpy as np

from hindex.domain import Key
from hindex.keys import INT64_MAX, INT64_MIN, decimal_key, float_key, key_limits, pad_char
from hindex.orc.calendars import MICROS_PER_DAY, MICROS_PER_SECOND
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.string_values import date_from_days, days_from_date

INT = OrcType(Kind.INT)
LONG = OrcType(Kind.LONG)
DOUBLE = OrcType(Kind.DOUBLE)
DATE = OrcType(Kind.DATE)
TIMESTAMP = OrcType(Kind.TIMESTAMP)
STRING = OrcType(Kind.STRING)

_T = TypeVar("_T")

_MAX_PRECISION = 38
_DECIMALS = Context(prec=2 * _MAX_PRECISION)

# Java takes the digits of any script in integers, up to U+FFFF, but only ASCII ones in doubles and dates
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?)(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d{1,10}))?")
_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_HEX_DOUBLE = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_DATE = re.compile(r"([0-9]{4}|-[0-9]{4,7}|\+[0-9]{5,7})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r" ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def infer_type(raw: str, unescaped: str) -> OrcType:
    """Infer the type of one directory value.

    Args:
        raw: the value as written.
        unescaped: the value without its escapes.
    """
    number = _integer(raw)
    if number is not None:
        if -(1 << 31) <= number < 1 << 31:
            return INT
        if INT64_MIN <= number <= INT64_MAX:
            return LONG
    unscaled = _whole_decimal(raw)
    if unscaled is not None:
        return OrcType(Kind.DECIMAL, precision=unscaled[1])
    if _double(raw) is not None:
        return DOUBLE
    if _timestamp_us(unescaped, max_digits=1) is not None:
        return TIMESTAMP
    return STRING if _date_days(raw) is None else DATE


def common_partition_type(a: OrcType | None, b: OrcType) -> OrcType:
    """Return the type of a column with values of both types; ``a`` is None for a column without values."""
    if a is None or a == b:
        return b
    kinds = {a.kind, b.kind}
    if kinds == {Kind.INT, Kind.LONG}:
        return LONG
    if kinds == {Kind.INT, Kind.DOUBLE}:
        return DOUBLE
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    if kinds <= {Kind.INT, Kind.LONG, Kind.DECIMAL}:
        return OrcType(Kind.DECIMAL, precision=max(_digits(a), _digits(b)))
    return STRING


def typed_value(raw: str, unescaped: str, data_type: OrcType) -> tuple[Any, Key]:
    """Return one value of a column of a type, and its key.

    Raises:
        ValueError: if the string is not a value of that type.
    """
    match data_type.kind:
        case Kind.STRING | Kind.VARCHAR:
            return unescaped, unescaped.encode()
        case Kind.CHAR:
            padded = pad_char(unescaped.encode(), data_type.max_length)
            return padded.decode(), padded
        case kind if kind in INTEGER_KINDS:
            number = _wanted(_integer(raw))
            limits = _wanted(key_limits(data_type))
            if not limits[0] <= number <= limits[1]:
                raise ValueError("not a value of the type")
            return number, number
        case Kind.BOOLEAN:
            truth = _wanted({"true": True, "false": False}.get(raw.lower()))
            return truth, int(truth)
        case Kind.DECIMAL:
            unscaled = _wanted(_unscaled(raw, data_type))
            return Decimal(unscaled).scaleb(-data_type.scale, _DECIMALS), decimal_key(unscaled, data_type)
        case Kind.FLOAT | Kind.DOUBLE:
            double = _wanted(_double(raw))
            if data_type.kind is Kind.FLOAT:
                double = float(np.float32(double))
            return double, float_key(double)
        case Kind.DATE:
            days = _wanted(_date_days(raw))
            return date_from_days(days), days
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            us = _timestamp_us(unescaped, max_digits=6)
            if us is None:
                us = _wanted(_date_days(raw)) * MICROS_PER_DAY
            return _python_datetime(us), us
    raise ValueError(f"no partition column has type {data_type}")


def _unscaled(text: str, data_type: OrcType) -> int | None:
    """Return the unscaled value of a decimal at the scale of a type; None if its digits do not fit."""
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > 1000 or max(text) > "\uffff":
        return None
    sign, whole, fraction, lone_fraction, exponent = match.groups()
    fraction = fraction or lone_fraction or ""
    shift = data_type.scale - len(fraction) + int(exponent or 0)
    digits = int((whole or "") + fraction)
    if not digits:
        return 0
    if abs(shift) > 1000:
        return None
    factor = int(10 ** abs(shift))
    unscaled, rest = (digits * factor, 0) if shift >= 0 else divmod(digits, factor)
    if rest or len(str(unscaled)) > data_type.precision:
        return None
    return -unscaled if sign == "-" else unscaled


def _wanted(value: _T | None) -> _T:
    if value is None:
        raise ValueError("not a value of the type")
    return value


def _digits(data_type: OrcType) -> int:
    return {Kind.INT: 10, Kind.LONG: 20}.get(data_type.kind, data_type.precision)


def _integer(text: str) -> int | None:
    if len(text) > 1000 or not _INTEGER.fullmatch(text) or max(text) > "\uffff":
        return None
    return int(text)


def _whole_decimal(text: str) -> tuple[int, int] | None:
    """Return value and precision of a decimal without fraction digits; None if it is not one, or has over 38 digits."""
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > 1000 or max(text) > "\uffff":
        return None
    sign, whole, fraction, lone_fraction, exponent = match.groups()
    fraction = fraction or lone_fraction or ""
    scale = len(fraction) - int(exponent or 0)
    unscaled = int((whole or "") + fraction)
    precision = len(str(unscaled)) - scale
    if scale > 0 or precision > _MAX_PRECISION:
        return None
    return (-1 if sign == "-" else 1) * unscaled * 10**-scale, precision


def _double(text: str) -> float | None:
    text = text.strip(_JAVA_BLANKS)
    match = _DOUBLE.fullmatch(text)
    if match is not None:
        return float(match[1])
    match = _HEX_DOUBLE.fullmatch(text)
    if match is None:
        return None
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _date_days(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    if match is None or match[1].rstrip("0") == "-":
        return None
    days = days_from_date(int(match[1]), int(match[2]), int(match[3]))
    return days if days is not None and -(1 << 31) <= days < 1 << 31 else None


def _timestamp_us(text: str, max_digits: int) -> int | None:
    """Return the microseconds of a wall clock; None if the text is no timestamp.

    Args:
        max_digits: the most digits of the fraction: 1 where Spark infers the type, 6 where the type is declared.
    """
    date, blank, _ = text.partition(" ")
    days = _date_days(date) if blank else None
    match = _TIME.fullmatch(text, len(date))
    if days is None or match is None:
        return None
    hour, minute, second = map(int, match.groups()[:3])
    fraction = match[4] or ""
    if hour > 23 or minute > 59 or second > 59 or len(fraction) > max_digits:
        return None
    us = days * MICROS_PER_DAY + ((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND
    us += int(fraction.ljust(6, "0"))
    return us if INT64_MIN <= us <= INT64_MAX else None


def _python_datetime(us: int) -> datetime.datetime | int:
    try:
        instant = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=us)
        return instant.replace(tzinfo=None)
    except OverflowError:
        return us

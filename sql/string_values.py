"""Values that Spark reads from strings with ANSI mode on, and the strings that it writes of dates and timestamps.

A ``parse_`` function returns None for a string that Spark refuses with CAST_INVALID_INPUT. Dates are proleptic
Gregorian, with years from -9999999 to 9999999. ``datetime.date`` ends at the years 1 and 9999: a date outside of them
is an int, the days since 1970-01-01.
"""

from __future__ import annotations

import datetime
import decimal
import re

from hindex.value_class import value_class

_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY = datetime.date.min.toordinal() - _EPOCH_ORDINAL
_LAST_DAY = datetime.date.max.toordinal() - _EPOCH_ORDINAL
# The Gregorian calendar repeats after so many years.
_YEARS_PER_CYCLE = 400
_DAYS_PER_CYCLE = 146_097
_MICROS_PER_SECOND = 1_000_000
_MICROS_PER_DAY = 86_400 * _MICROS_PER_SECOND

# Characters that Spark trims before a cast: white space and control characters of ASCII.
_BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
# Characters that Java trims before it reads a double or decimal: these without DEL.
_JAVA_BLANKS = "".join(map(chr, range(0x21)))

# The month and the day are optional, and a time after a blank or T is ignored.
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
# Java accepts the digits of every script in decimals, if they are one UTF-16 unit
_DECIMAL = re.compile(r"(?!.*[\U00010000-\U0010ffff])[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
# without ASCII, other letters pass for the i in any letter case
_SPECIAL_FLOAT = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})

_BIGINT_MIN, _BIGINT_MAX = -(1 << 63), (1 << 63) - 1
_DAYS_LIMIT = 1 << 31
# A zone may follow the seconds only; a date alone takes no T.
_TIMESTAMP = re.compile(
    r"([+-]?[0-9]{4,6}(?:-[0-9]{1,2}){0,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?)?",
    re.DOTALL,
)
_NAMED_TIME = re.compile(
    r"(?:epoch|now|today|yesterday|tomorrow)(?![a-z]).*", re.ASCII | re.IGNORECASE | re.DOTALL
)


def trim_blanks(text: str) -> str:
    """Return a string without the blanks around it that Spark ignores in casts."""
    return text.strip(_BLANKS)


def parse_bigint(text: str) -> int | None:
    """Parse a whole number of 64 bits."""
    text = trim_blanks(text)
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text) if len(text) < 4000 else _BIGINT_MAX + 1
    return value if _BIGINT_MIN <= value <= _BIGINT_MAX else None


def parse_double(text: str) -> float | None:
    """Parse a double in Java's notation, or a name of infinity or NaN in any letter case."""
    text = text.strip(_JAVA_BLANKS)
    if _SPECIAL_FLOAT.fullmatch(text) or text in ("+NaN", "-NaN"):
        return float(text)
    if match := _DECIMAL_FLOAT.fullmatch(text):
        return float(match[1])
    if match := _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf") if text.startswith("-") else float("inf")
    return None


def parse_decimal(text: str, precision: int, scale: int) -> int | None:
    """Parse a decimal, with or without an exponent; return its unscaled integer, rounded half up to the scale."""
    text = text.strip(_JAVA_BLANKS)
    if _DECIMAL.fullmatch(text) is None:
        return None
    with decimal.localcontext(decimal.Context(prec=decimal.MAX_PREC, rounding=decimal.ROUND_HALF_UP)):
        value = decimal.Decimal(text)
        if not value:
            return 0
        if value.adjusted() > precision:
            return None
        unscaled = int(value.scaleb(scale).to_integral_value())
    return unscaled if abs(unscaled) < 10**precision else None


def parse_boolean(text: str) -> bool | None:
    """Parse one of Spark's names of TRUE and FALSE, in any letter case."""
    word = trim_blanks(text).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def is_named_time(text: str) -> bool:
    """Return True if a string is a special name of a time, which Spark accepts in constants but not in columns."""
    return _NAMED_TIME.fullmatch(trim_blanks(text)) is not None


def is_epoch(text: str) -> bool:
    """Return True if a string is 'epoch', the only special name of a fixed time."""
    return trim_blanks(text).lower() == "epoch"


def parse_days(text: str) -> int | None:
    """Parse a date; return days since 1970-01-01."""
    date = parse_date(text)
    if date is None:
        return None
    days = date_to_days(date)
    return days if -_DAYS_LIMIT <= days < _DAYS_LIMIT else None


def date_to_days(date: datetime.date | int) -> int:
    """Return the days since 1970-01-01 of a date."""
    return date.toordinal() - _EPOCH_ORDINAL if isinstance(date, datetime.date) else date


@value_class
class WallClock:
    """A timestamp as written: microseconds since 1970-01-01 00:00:00 on its clock, and the time zone, if any."""

    micros: int
    zone: str | None = None


def parse_wall_clock(text: str) -> WallClock | None:
    """Parse a timestamp: ``[+-]yyyy[-m[-d[( |T)h[:m[:s[.fraction][zone]]]]]]``; digits beyond microseconds are cut.

    A time without a date, to which Spark adds today's, and the names of dates give None.
    """
    text = trim_blanks(text)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    date, hour, minute, second, fraction, zone = match.groups()
    if hour is not None and date.lstrip("+-").count("-") != 2:
        return None
    days = parse_days(date)
    if days is None or int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return None
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    micros = days * _MICROS_PER_DAY + seconds * _MICROS_PER_SECOND + int((fraction or "")[:6].ljust(6, "0"))
    return (
        WallClock(micros, trim_blanks(zone) if zone else None)
        if _BIGINT_MIN <= micros <= _BIGINT_MAX
        else None
    )


def date_from_days(days: int) -> datetime.date | int:
    """Return the date of days since 1970-01-01; the days themselves if ``datetime.date`` cannot hold it."""
    if _FIRST_DAY <= days <= _LAST_DAY:
        return datetime.date.fromordinal(days + _EPOCH_ORDINAL)
    return days


def days_from_date(year: int, month: int, day: int) -> int | None:
    """Count days since 1970-01-01 to a date of any year; None for no such day."""
    # a year of the same place in the cycle that datetime can hold: 2000..2399
    cycles, year_of_cycle = divmod(year - 2000, _YEARS_PER_CYCLE)
    try:
        date = datetime.date(2000 + year_of_cycle, month, day)
    except ValueError:
        return None
    return date.toordinal() - _EPOCH_ORDINAL + cycles * _DAYS_PER_CYCLE


def parse_date(text: str) -> datetime.date | int | None:
    """Parse a date.

    Source: Spark's cast of STRING to DATE: ``[+-]yyyy[-[m]m[-[d]d[( |T)...]]]`` with up to seven year digits.
    """
    match = _DATE.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    sign, digits, month, day = match.groups()
    year = -int(digits) if sign == "-" else int(digits)
    days = days_from_date(year, int(month or 1), int(day or 1))
    return None if days is None else date_from_days(days)


def format_date(value: datetime.date | int) -> str:
    """Format a date as Spark does: ``2020-02-29``, ``-0044-03-15``, ``+10000-01-01``."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    cycles, day_in_cycle = divmod(
        value + _EPOCH_ORDINAL - datetime.date(2000, 1, 1).toordinal(), _DAYS_PER_CYCLE
    )
    near = datetime.date.fromordinal(day_in_cycle + datetime.date(2000, 1, 1).toordinal())
    year = near.year + cycles * _YEARS_PER_CYCLE
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{near.month:02d}-{near.day:02d}"


def format_timestamp(micros: int) -> str:
    """Format microseconds since 1970-01-01 as Spark does: without zeros at the end of the fraction."""
    days, rest = divmod(micros, _MICROS_PER_DAY)
    seconds, fraction = divmod(rest, _MICROS_PER_SECOND)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{format_date(date_from_days(days))} {clock}" + (
        f".{fraction:06d}".rstrip("0") if fraction else ""
    )

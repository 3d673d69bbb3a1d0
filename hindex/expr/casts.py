"""Casts of strings to other types, as Spark reads them with ANSI mode on.

Every function returns None for a text that Spark refuses with CAST_INVALID_INPUT.
"""

from __future__ import annotations

import datetime
import decimal
import re
import zoneinfo
from dataclasses import dataclass

from hindex.keys import INT64_MAX, INT64_MIN
from hindex.orc.calendars import MICROS_PER_DAY, MICROS_PER_SECOND
from hindex.sql.dates import BLANKS, JAVA_BLANKS, parse_date

# Java takes the digits of every script for decimals, of those characters that are one char
_DECIMAL = re.compile(r"(?!.*[\U00010000-\U0010ffff])[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
# without ASCII, other letters pass for the i in any letter case
_SPECIAL_FLOAT = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})

_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH = datetime.date(1970, 1, 1)
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
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?")
_ZULU = frozenset({"Z", "UTC", "GMT", "UT"})


def trim(text: str) -> str:
    return text.strip(BLANKS)


def to_bigint(text: str) -> int | None:
    """A whole number of 64 bits."""
    text = trim(text)
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text) if len(text) < 4000 else INT64_MAX + 1
    return value if INT64_MIN <= value <= INT64_MAX else None


def to_double(text: str) -> float | None:
    """A double in Java's notation, or one of the names of infinity and NaN in any letter case."""
    text = text.strip(JAVA_BLANKS)
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


def to_decimal(text: str, precision: int, scale: int) -> int | None:
    """A decimal as its unscaled integer, rounded half up to the scale; exponents may be written."""
    text = text.strip(JAVA_BLANKS)
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


def to_boolean(text: str) -> bool | None:
    word = trim(text).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def is_named_time(text: str) -> bool:
    """Return True if a string is a special name of a time, which Spark accepts in constants but not in columns."""
    return _NAMED_TIME.fullmatch(trim(text)) is not None


def is_epoch(text: str) -> bool:
    """Return True if a string is 'epoch', the only special name of a fixed time."""
    return trim(text).lower() == "epoch"


def to_days(text: str) -> int | None:
    """A date as days since 1970-01-01."""
    text = trim(text)
    found = parse_date(text)
    if found is None:
        return None
    days = days_of(found)
    return days if -_DAYS_LIMIT <= days < _DAYS_LIMIT else None


def days_of(date: datetime.date | int) -> int:
    """Days since 1970-01-01 of a date, which may be given as such."""
    return (date - _EPOCH).days if isinstance(date, datetime.date) else date


@dataclass(frozen=True, slots=True)
class WallClock:
    """A timestamp as written: microseconds since 1970-01-01 00:00:00 on its clock, and any zone's text."""

    micros: int
    zone: str | None = None


def to_wall_clock(text: str) -> WallClock | None:
    """A timestamp: ``[+-]yyyy[-m[-d[( |T)h[:m[:s[.fraction][zone]]]]]]``; digits beyond microseconds are cut.

    A text without a date, which Spark completes with today's, and the names of dates are not read.
    """
    text = trim(text)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    date, hour, minute, second, fraction, zone = match.groups()
    if hour is not None and date.lstrip("+-").count("-") != 2:
        return None
    days = to_days(date)
    if days is None or int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return None
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    micros = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + int((fraction or "")[:6].ljust(6, "0"))
    return WallClock(micros, trim(zone) if zone else None) if INT64_MIN <= micros <= INT64_MAX else None


def zone_of(text: str) -> datetime.tzinfo | None:
    """The zone of a timestamp's text: ``Z``, an offset like ``+01:30`` or ``UTC+1``, or a region's name."""
    if text in _ZULU:
        return datetime.UTC
    if match := _OFFSET.fullmatch(text):
        sign, hours, minutes, seconds = match.groups()
        offset = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > datetime.timedelta(hours=18):
            return None
        return datetime.timezone(-offset if sign == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(text)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None


def has_midnight(wall_clock: int, zone: datetime.tzinfo) -> bool:
    """True if a zone's clock shows a midnight, or goes on with a later time in that moment.

    A gap that begins earlier makes a day begin in its end for Spark, and its midnight later than that.
    """
    instant = to_instant(wall_clock, zone)
    if zone is datetime.UTC or instant is None:
        return True
    try:
        moments = [_UTC_EPOCH + datetime.timedelta(microseconds=instant - back) for back in (0, 1)]
        now, before = (moment.astimezone(zone).utcoffset() for moment in moments)
    except OverflowError:
        return True
    assert now is not None
    return instant + now // datetime.timedelta(microseconds=1) == wall_clock or now != before


def to_instant(wall_clock: int, zone: datetime.tzinfo) -> int | None:
    """Microseconds of UTC at which a zone's clock shows a time; None where its rules are not known then.

    A time that the clock skips counts from the offset before the gap, one that it shows twice is the earlier:
    both as Java resolves them.
    """
    if zone is datetime.UTC:
        return wall_clock
    try:
        shown = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=wall_clock)
        offset = shown.utcoffset()
    except OverflowError:
        # beyond the years 1 to 9999 only a fixed offset is known
        offset = zone.utcoffset(None)
    if offset is None:
        return None
    return wall_clock - offset // datetime.timedelta(microseconds=1)

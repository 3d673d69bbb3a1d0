"""Times that a session's clock shows, as instants: what Spark casts a literal to beside a column of instants."""

from __future__ import annotations

import datetime
import re
import zoneinfo

from hindex.errors import PredicateError
from hindex.expr.coerce import REMEDY, literal_constant
from hindex.expr.nodes import Constant
from hindex.keys import INT64_MAX, INT64_MIN
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import Kind, OrcType
from hindex.sql.predicate import Literal
from hindex.sql.string_values import WallClock, date_to_days, is_epoch, is_named_time, parse_wall_clock

_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?|([0-9]{2})([0-9]{2})([0-9]{2})?)"
)
_ZULU = frozenset({"Z", "UTC", "GMT", "UT"})
_INSTANT = OrcType(Kind.TIMESTAMP_INSTANT)


def instant_constant(literal: Literal, zone: datetime.tzinfo) -> Constant:
    """Return the instant of a STRING, DATE or TIMESTAMP literal.

    Args:
        zone: the session's clock, which shows times that are written without a zone.

    Raises:
        PredicateError: if it is no time that Spark can cast, or cannot be placed.
    """
    value = literal.value
    if isinstance(value, str):
        if is_epoch(value):
            # an instant in Spark, whatever the session's time zone
            return literal_constant(0, _INSTANT)
        clock = parse_wall_clock(value)
        if clock is None and (is_named_time(value) or ":" in value):
            raise PredicateError(
                f"the literal {literal!s:.60} is not read as a time here; write a date and a time, or {REMEDY}"
            )
        if clock is None:
            raise PredicateError(
                f"the literal {literal!s:.60} cannot be cast to timestamp, as Spark would to compare it with a column "
                "of that type; write a date and a time"
            )
    else:
        assert isinstance(value, int | datetime.date)
        clock = WallClock(date_to_days(value) * MICROS_PER_DAY)
        if not INT64_MIN <= clock.micros <= INT64_MAX:
            raise PredicateError(
                f"the literal {literal} does not fit timestamp, as Spark would cast it to compare it with a column of "
                "that type; write an earlier date"
            )
        if not has_midnight(clock.micros, zone):
            raise PredicateError(
                f"the day of the literal {literal} does not begin at midnight in the time zone {str(zone)!r}; write a "
                "timestamp literal"
            )
    written = zone if clock.zone is None else parse_time_zone(clock.zone)
    instant = None if written is None else to_instant(clock.micros, written)
    if instant is None:
        raise PredicateError(
            f"the time zone {clock.zone or str(zone)!r} of the literal {literal!s:.60} is not known for that time; "
            "write an offset such as +01:00"
        )
    return literal_constant(instant, _INSTANT)


def parse_time_zone(text: str) -> datetime.tzinfo | None:
    """Parse a time zone: ``Z``, an offset like ``+01:30``, ``+0130`` or ``UTC+1``, or the name of a region.

    Return None for an unknown one.
    """
    if text in _ZULU:
        return datetime.UTC
    if match := _OFFSET.fullmatch(text):
        sign, *numbers = match.groups()
        # with colons, or without
        hours, minutes, seconds = (int(a or b or 0) for a, b in zip(numbers[:3], numbers[3:], strict=True))
        offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if offset > datetime.timedelta(hours=18):
            return None
        return datetime.timezone(-offset if sign == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(text)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None


def has_midnight(wall_clock: int, zone: datetime.tzinfo) -> bool:
    """Return True if a zone's clock shows a midnight, or skips it at that moment.

    After a gap that begins before midnight, Spark begins the day at the end of the gap, and midnight is later.
    """
    instant = to_instant(wall_clock, zone)
    if zone is datetime.UTC or instant is None:
        return True
    shown = to_wall_clock(instant, zone)
    before = to_wall_clock(instant - 1, zone)
    return shown is None or before is None or shown == wall_clock or shown != before + 1


def to_wall_clock(instant: int, zone: datetime.tzinfo) -> int | None:
    """Return what a zone's clock shows at an instant, the inverse of `to_instant`."""
    if zone is datetime.UTC:
        return instant
    try:
        offset = (_UTC_EPOCH + datetime.timedelta(microseconds=instant)).astimezone(zone).utcoffset()
    except OverflowError:
        # beyond the years 1 to 9999 only a fixed offset is known
        offset = zone.utcoffset(None)
    return None if offset is None else instant + offset // _MICROSECOND


def to_instant(wall_clock: int, zone: datetime.tzinfo, offset: int | None = None) -> int | None:
    """Return the microseconds of UTC at which a zone's clock shows a time; None if its rules are unknown for that time.

    As in Java, a time that the clock skips has the offset before the gap, and of two equal times the earlier counts.

    Args:
        offset: that of the clock from UTC, in microseconds, if it is possible at that time.
    """
    if zone is datetime.UTC:
        return wall_clock
    if offset is not None and to_wall_clock(wall_clock - offset, zone) == wall_clock:
        return wall_clock - offset
    return _instant(wall_clock, zone, fold=0)


def _instant(wall_clock: int, zone: datetime.tzinfo, fold: int) -> int | None:
    """Return the instant at which a clock shows a time, the ``fold``-th of two; None if its rules are unknown."""
    try:
        shown = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=wall_clock)
        delta = shown.replace(fold=fold).utcoffset()
    except OverflowError:
        # beyond the years 1 to 9999 only a fixed offset is known
        delta = zone.utcoffset(None)
    return None if delta is None else wall_clock - delta // _MICROSECOND


def first_instant(wall_clock: int, zone: datetime.tzinfo) -> int | None:
    """Return the instant from which on a zone's clock shows a time or later ones; before, it shows earlier ones.

    None if there is none, as the clock is put back from a later time to an earlier one, or its rules are unknown.
    """
    instant = to_instant(wall_clock, zone)
    if instant is None or zone is datetime.UTC:
        return instant
    shown_before, shown = to_wall_clock(instant - 1, zone), to_wall_clock(instant, zone)
    if shown_before is None or shown is None or not shown_before < wall_clock <= shown:
        return None
    again = _instant(wall_clock, zone, fold=1)
    if again is None or again <= instant:
        return instant
    # the clock shows the time twice: it was put back to this very time, or from a later to an earlier one
    shown_before = to_wall_clock(again - 1, zone)
    return instant if shown_before is not None and shown_before >= wall_clock else None


def is_shown_once(wall_clock: int, zone: datetime.tzinfo) -> bool:
    """Return True if a zone's clock shows a time once, and the time just before it just before."""
    instant = to_instant(wall_clock, zone)
    if instant is None or _instant(wall_clock, zone, fold=1) != instant:
        return False
    return to_wall_clock(instant, zone) == wall_clock and to_wall_clock(instant - 1, zone) == wall_clock - 1

"""The offsets of time zones to UTC as in Java: of writers' wall clocks, and of readers' instants.

Source: ORC specification v1, "Timestamp Columns". The Java writer and reader, and so Spark, use
``java.util.TimeZone``: before 1900 a zone has the standard offset of its last rule, and from 2038 on only that
rule applies. pyarrow has local mean time before 1900, and no daylight saving time from 2038 on.

Java's edition of the time zone database has other Saturdays than this one for the last rule of Asia/Gaza and
Asia/Hebron: from 2038 on these may be an hour apart for a week or two of a year.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.calendars import DAYS_PER_CYCLE, MICROS_PER_SECOND, SECONDS_PER_DAY

Ints = npt.NDArray[np.int64]

#: The names of zones that are UTC itself.
UTC_NAMES = frozenset(
    {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "Zulu", "Universal", "Etc/Universal", "Etc/Zulu"}
)


@lru_cache(maxsize=64)
def base_seconds(zone: str) -> int:
    """Return 2015-01-01 00:00:00 in a zone, in seconds since 1970: ORC counts timestamps from this time."""
    if zone in UTC_NAMES:
        return 1_420_070_400
    return int(datetime.datetime(2015, 1, 1, tzinfo=_clock(zone)).timestamp())


def check_zone(name: str) -> None:
    """Refuse an unknown time zone.

    Args:
        name: the name of the zone in Java.

    Raises:
        OrcError: if it is unknown.
    """
    base_seconds(normalize_zone(name))


_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_CUSTOM = re.compile(r"GMT([+-])(\d\d?)(?::?([0-5]\d))?", re.ASCII)

#: Names that only Java has, or that the time zone database has dropped.
_JAVA_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "US/Pacific-New": "America/Los_Angeles",
}


def normalize_zone(name: str) -> str:
    """Convert Java's name of a zone to its name in the time zone database, or to an offset such as ``+08:00``.

    Java writes offsets as ``GMT+08:00``.
    """
    custom = _CUSTOM.fullmatch(name)
    if custom is None:
        return _JAVA_ZONES.get(name, name)
    return f"{custom[1]}{int(custom[2]):02}:{custom[3] or '00'}"


#: 1900-01-01 and 2038-01-01 in UTC, in seconds since 1970.
_FIRST, _LAST = -2_208_988_800, 2_145_916_800

#: Before this instant, in microseconds since 1970, Java's older calendar has a single offset to UTC for each zone.
FIRST_TRANSITIONS = _FIRST * MICROS_PER_SECOND

#: 1800-01-01 in UTC, before any zone had a transition, in seconds since 1970.
_BEGINNING = -5_364_662_400

#: The seconds after which the calendar repeats, and with it a zone's last rule.
_CYCLE = DAYS_PER_CYCLE * SECONDS_PER_DAY
#: The start of a cycle without single transitions in any edition of the time zone database, in seconds since 1970.
_CYCLE_START = 430 * 31_556_952

#: Standard offsets to UTC, in seconds, of zones for which Java does not use the lesser one of the last rule.
_STANDARD = {"Africa/Casablanca": 0, "Africa/El_Aaiun": 0, "Africa/Windhoek": 3600}

#: The instant from which Java has a constant offset, and that offset, if the last rule differs; in seconds.
_FOR_GOOD = {"Africa/Windhoek": (2_114_377_200, 3600)}

#: No zone has had two transitions within this many seconds that cancel each other.
_STEP = 7 * SECONDS_PER_DAY


@dataclass(frozen=True, slots=True, eq=False)
class _Offsets:
    """The offsets of a zone to UTC: ``values[i]`` applies from ``starts[i]`` on; both in seconds."""

    starts: Ints
    values: Ints

    def at(self, seconds: Ints) -> Ints:
        offsets: Ints = self.values[self.starts.searchsorted(seconds, "right") - 1]
        return offsets


def to_wall_clock(micros: Ints, zone: str) -> Ints:
    """Convert UTC instants to the wall clock of ``zone``, both in microseconds since 1970.

    Raises:
        OrcError: if the zone is unknown.
    """
    seconds = micros // MICROS_PER_SECOND
    offsets = _offsets(zone, _FIRST, _LAST).at(seconds)
    early, late = seconds < _FIRST, seconds >= _LAST
    if early.any() or late.any():
        rule = _offsets(zone, _CYCLE_START, _CYCLE_START + _CYCLE)
        offsets[early] = _standard(zone)
        offsets[late] = rule.at(_CYCLE_START + (seconds[late] - _CYCLE_START) % _CYCLE)
    if zone in _FOR_GOOD:
        start, offset = _FOR_GOOD[zone]
        offsets[seconds >= start] = offset
    return micros + offsets * MICROS_PER_SECOND


def to_local_time(instants: Ints, zone: str) -> Ints:
    """Convert UTC instants to local times as ``java.time`` does: before a zone's first rule, by local mean time.

    Args:
        instants: int64[N], microseconds since 1970 UTC.
        zone: its name in the time zone database, or an offset such as ``+08:00``.

    Returns:
        int64[N], microseconds of local time since 1970; beyond 64 bits they wrap around.

    Raises:
        OrcError: if the zone is unknown.
    """
    if zone in UTC_NAMES:
        return instants
    return instants + _true_offsets(instants // MICROS_PER_SECOND, zone) * MICROS_PER_SECOND


def to_instants(clocks: Ints, stored: Ints, zone: str) -> Ints:
    """Convert wall clocks of a writer to the instants that a Java reader in ``zone`` returns for them.

    If the writer's zone is the reader's, the result is ``stored``, so that a repeated hour stays distinct.

    Source: ``SerializationUtils.convertBetweenTimezones`` of ORC's Java library, and Spark's
    ``rebaseJulianToGregorianMicros``, which replaces Java's older calendar of a zone by ``java.time``'s.

    Args:
        clocks: int64[N], microseconds since 1970 on the writer's clock.
        stored: int64[N], the writer's instants in microseconds since 1970 UTC.
        zone: the reader's zone, as Java names it.

    Returns:
        int64[N], microseconds since 1970 UTC.

    Raises:
        OrcError: if the zone is unknown.
    """
    zone = normalize_zone(zone)
    if zone in UTC_NAMES:
        return clocks
    seconds = clocks // MICROS_PER_SECOND
    offsets = _true_offsets(seconds - _true_offsets(stored // MICROS_PER_SECOND, zone), zone)
    early = seconds - _standard(zone) < _FIRST
    if early.any():
        # only the wall clock matters: the older calendar has one offset before 1900
        old = seconds[early]
        after = _true_offsets(old + SECONDS_PER_DAY, zone)
        is_after = _true_offsets(old - after, zone) == after
        offsets[early] = np.where(is_after, after, _true_offsets(old - SECONDS_PER_DAY, zone))
    return clocks - offsets * MICROS_PER_SECOND


#: The seconds around an instant within which a reader's offsets matter for it: zones are at most 26 hours apart,
#: and local mean times 32.
_MARGIN = 3 * SECONDS_PER_DAY
_AROUND: Ints = np.arange(-_MARGIN, _MARGIN + 1, 3600, dtype=np.int64)


def instant_shifts(micros: Ints, zone: str, *, is_instant: bool) -> tuple[Ints, Ints]:
    """Return the least and greatest difference of stored timestamps to the instants that a reader returns.

    Both are equal unless a transition of the reader's zone is near. See `to_instants`.

    Args:
        micros: int64[N], instants in microseconds since 1970 UTC.
        zone: the reader's zone, as Java names it.
        is_instant: True if the file stores instants, False if it stores wall clocks.

    Returns:
        two int64[N], in microseconds.

    Raises:
        OrcError: if the zone is unknown.
    """
    shifts = _shifts(micros, normalize_zone(zone), is_instant=is_instant)
    return shifts.min(axis=1), shifts.max(axis=1)


def possible_shifts(micros: int, zone: str, *, is_instant: bool) -> list[int]:
    """List the offsets (stored timestamp minus instant) that one instant may have, see `instant_shifts`."""
    shifts: list[int] = np.unique(
        _shifts(np.array([micros], np.int64), normalize_zone(zone), is_instant=is_instant)
    ).tolist()
    return shifts


def _shifts(micros: Ints, zone: str, *, is_instant: bool) -> Ints:
    if zone in UTC_NAMES:
        return np.zeros((len(micros), 1), np.int64)
    seconds = (micros // MICROS_PER_SECOND)[:, None] + _AROUND
    offsets = _true_offsets(seconds, zone)
    if is_instant:
        # Java's older calendar has one offset before 1900, and java.time's from then on
        old = seconds < _FIRST + _MARGIN
        offsets = np.where(old, offsets - _standard(zone), 0)
        offsets[:, 0] = np.where(old.any(axis=1), 0, offsets[:, 0])
    return offsets * MICROS_PER_SECOND


def _standard(zone: str) -> int:
    """Return the offset before 1900 in Java's older calendar."""
    rule = _offsets(zone, _CYCLE_START, _CYCLE_START + _CYCLE)
    return _STANDARD.get(zone, int(rule.values.min()))


def _true_offsets(seconds: Ints, zone: str) -> Ints:
    """Return a zone's offsets at instants of UTC as ``java.time`` has them, with local mean time."""
    late = seconds >= _CYCLE_START
    if late.any():
        seconds = np.where(late, _CYCLE_START + (seconds - _CYCLE_START) % _CYCLE, seconds)
    offsets = _offsets(zone, _BEGINNING, _LAST).at(np.maximum(seconds, _BEGINNING))
    after = seconds >= _LAST
    if after.any():
        offsets[after] = _offsets(zone, _LAST, _CYCLE_START + _CYCLE).at(seconds[after])
    return offsets


# large enough for all zones: a hostile file may alternate between them
@lru_cache(maxsize=2048)
def _offsets(zone: str, start: int, end: int) -> _Offsets:
    """Find the offsets of a zone between two instants."""
    clock = _clock(zone)
    if isinstance(clock, datetime.timezone):
        return _Offsets(np.array([start], np.int64), np.array([_offset(clock, start)], np.int64))
    starts, values = [start], [_offset(clock, start)]
    for last in range(start + _STEP, end + _STEP, _STEP):
        offset = _offset(clock, last)
        if offset == values[-1]:
            continue
        low, high = last - _STEP, last
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(clock, middle) == values[-1]:
                low = middle
            else:
                high = middle
        starts.append(high)
        values.append(offset)
    return _Offsets(np.array(starts, np.int64), np.array(values, np.int64))


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _offset(clock: datetime.tzinfo, seconds: int) -> int:
    offset = (_EPOCH + datetime.timedelta(seconds=seconds)).astimezone(clock).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def _clock(zone: str) -> datetime.tzinfo:
    offset = _OFFSET.fullmatch(zone)
    try:
        if offset is None:
            return zoneinfo.ZoneInfo(zone)
        size = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3]), seconds=int(offset[4] or 0))
        return datetime.timezone(-size if offset[1] == "-" else size)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OrcError(
            f"unknown time zone {zone[:80]!r}: install the tzdata package or correct the system's"
        ) from error

"""Time zones of queries: timestamps of ORC files as instants, and the keys of instants in indexes and statistics.

An ORC ``timestamp`` column stores the writer's wall clock, and so do its indexes. A reader such as Spark converts
it to an instant in its own time zone. So a condition on instants is equivalent to a condition on stored wall
clocks, unless a transition of the reader's zone is near a bound of the condition. Then the condition on stored
wall clocks is an upper bound, and rows are compared as instants.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from hindex.domain import MAX_KEY, MIN_KEY, Domain, Range
from hindex.errors import ColumnError, OrcError, PredicateError
from hindex.expr.instants import parse_time_zone, to_instant
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.time_zones import UTC_NAMES, base_seconds, instant_shifts, normalize_zone, possible_shifts
from hindex.plan.filter import Filter, Leaf
from hindex.plan.rules import transform
from hindex.sql.functions import CLOCK_FUNCTIONS
from hindex.sql.predicate import Call, Cast, ColumnRef, Expression, Interval, Literal, LiteralKind, operands
from hindex.value_class import value_class

#: Kinds of timestamps.
TIMESTAMP_KINDS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})
#: Functions that convert a date or a string to a timestamp, or depend on the session's time zone.
_TIME_FUNCTIONS = CLOCK_FUNCTIONS | {"hour", "minute", "second", "date_trunc"}
_UTC = frozenset({*UTC_NAMES, "+00:00", "UCT", "Etc/UCT", "GMT0", "Etc/GMT0", "Greenwich", "Etc/Greenwich"})


@value_class
class TimeZones:
    """The time zones of a query.

    Attributes:
        reader: the zone that converts ORC's wall clocks to instants: the default time zone of Spark's Java.
        session: the zone of literals, strings, dates and partition values: ``spark.sql.session.timeZone``.
    """

    reader: str
    session: str

    @property
    def recorded(self) -> str:
        """The reader's zone, a blank and the session's, as manifests record them."""
        return f"{canonical_zone(self.reader)} {canonical_zone(self.session)}"

    @classmethod
    def parse(cls, recorded: str) -> TimeZones:
        """Parse the zones of a manifest.

        Raises:
            ValueError: if there are not exactly two.
        """
        reader, session = recorded.split(" ")
        return cls(reader, session)

    def __str__(self) -> str:
        return f"{self.session}, Java in {self.reader}"

    @property
    def is_reader_utc(self) -> bool:
        """True if instants equal the stored wall clocks."""
        return canonical_zone(self.reader) == "UTC"

    @property
    def is_session_utc(self) -> bool:
        """True if dates, and parts of a time, are those of UTC."""
        return canonical_zone(self.session) == "UTC"

    @property
    def is_utc(self) -> bool:
        """True if parts of timestamps are those of the stored wall clocks."""
        return self.is_reader_utc and self.is_session_utc

    @property
    def clock(self) -> datetime.tzinfo:
        """The session's time zone.

        Raises:
            PredicateError: if the zone is unknown.
        """
        if self.is_session_utc:
            return datetime.UTC
        name = normalize_zone(self.session)
        zone = parse_time_zone(name)
        if zone is None:
            raise PredicateError(
                f"the session's time zone {name!r} is unknown here: install the tzdata package, or set "
                "spark.sql.session.timeZone to an offset such as +01:00"
            )
        return zone

    def check_reader(self) -> None:
        """Check the reader's zone.

        Raises:
            PredicateError: if it is unknown.
        """
        try:
            base_seconds(normalize_zone(self.reader))
        except OrcError:
            raise PredicateError(
                f"the time zone of Spark's Java, {self.reader!r}, is unknown here: install the tzdata package"
            ) from None

    def instant(self, wall_clock: int) -> int:
        """Convert a wall clock of the session to an instant, both in microseconds since 1970.

        Raises:
            PredicateError: if the zone's rules are unknown for that time, outside the years 1 to 9999.
        """
        instant = to_instant(wall_clock, self.clock)
        if instant is None:
            raise PredicateError(f"a time outside the years 1 to 9999 cannot be read in {self.session}")
        return instant

    def are_index_keys(self, data_type: OrcType) -> bool:
        """Return True if the query compares and orders a column's values by their stored keys."""
        return self.is_reader_utc or not has_time(data_type)


@lru_cache(maxsize=256)
def canonical_zone(zone: str) -> str:
    """Return one spelling of a time zone: ``UTC``, an offset such as ``+08:00``, or the name of a region."""
    if zone in _UTC:
        return "UTC"
    name = normalize_zone(zone)
    clock = parse_time_zone(name)
    return (str(clock).removeprefix("UTC") or "UTC") if isinstance(clock, datetime.timezone) else name


#: Returns the time zones of a query; None if wall clocks are compared.
ZonesOf: TypeAlias = Callable[[], TimeZones | None]


def no_zones() -> None:
    """Return no time zones, so that wall clocks are compared."""


def has_time(data_type: OrcType) -> bool:
    """Return True if a type is or contains a timestamp."""
    return any(part.kind in TIMESTAMP_KINDS for part in data_type.walk())


def is_about_time(root: Expression, resolve: Callable[[tuple[str, ...]], OrcType]) -> bool:
    """Return True if a value or condition may depend on a time zone.

    Columns, literals and casts can be timestamps; dates and strings compared with these become timestamps, too.

    Args:
        resolve: returns a column's type; columns for which it raises a ColumnError do not count.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        match node:
            case ColumnRef():
                with suppress(ColumnError):
                    if has_time(resolve(node.parts)):
                        return True
            case _ if is_time(node):
                return True
        stack.extend(operands(node))
    return False


def makes_times(root: Expression) -> bool:
    """Return True if an expression converts dates, strings or literals to timestamps."""
    stack = [root]
    while stack:
        node = stack.pop()
        if is_time(node):
            return True
        stack.extend(operands(node))
    return False


def is_time(node: Expression) -> bool:
    """Return True if a node itself, without its operands, converts other values to a timestamp."""
    match node:
        case Literal(_, LiteralKind.TIMESTAMP) | Cast(_, "TIMESTAMP"):
            return True
        case Call(name):
            return name in _TIME_FUNCTIONS
        case Interval():
            return not node.has_days_only
    return False


def keyed_by_wall_clocks(root: Filter, zones: TimeZones) -> Filter:
    """Give each leaf on instants the domain of keys that its column stores.

    Raises:
        PredicateError: if the reader's time zone is unknown.
    """
    zones.check_reader()
    if zones.is_reader_utc:
        return root

    def atom(node: Filter) -> Filter:
        if not isinstance(node, Leaf) or node.type.kind not in TIMESTAMP_KINDS:
            return node
        keys, is_exact = _stored_keys(node.domain, node.type.kind, zones.reader)
        return replace(node, domain=keys, values=node.domain, is_superset=not is_exact)

    return transform(root, atom)


def _stored_keys(domain: Domain, kind: Kind, reader: str) -> tuple[Domain, bool]:
    """Map instants to the stored keys that a reader converts to them; return True if these are no superset."""
    lows = np.array([MIN_KEY if item.low is None else item.low for item in domain.ranges], np.int64)
    highs = np.array([MAX_KEY if item.high is None else item.high for item in domain.ranges], np.int64)
    is_instant = kind is Kind.TIMESTAMP_INSTANT
    min_at_low, max_at_low = instant_shifts(lows, reader, is_instant=is_instant)
    min_at_high, max_at_high = instant_shifts(highs, reader, is_instant=is_instant)
    ranges: list[Range] = []
    is_exact = True
    shifts = (min_at_low.tolist(), max_at_low.tolist(), min_at_high.tolist(), max_at_high.tolist())
    for item, low_by, low_to, high_from, high_by in zip(domain.ranges, *shifts, strict=True):
        if item.is_point and low_by != high_by:
            # an index looks up points faster than a range
            assert isinstance(item.low, int)
            is_exact = False
            ranges += _points(item.low, possible_shifts(item.low, reader, is_instant=is_instant))
            continue
        is_exact &= (item.low is None or low_by == low_to) and (item.high is None or high_from == high_by)
        ranges.append(Range(_moved(item.low, low_by), _moved(item.high, high_by)))
    return Domain.from_ranges(ranges, null_allowed=domain.null_allowed), is_exact


def _points(key: int, shifts: Sequence[int]) -> list[Range]:
    moved = [min(max(key + shift, MIN_KEY), MAX_KEY) for shift in shifts]
    return [Range(one, one) for one in moved]


def _moved(key: object, shift: int) -> int | None:
    """Shift a bound of a range; return None, no bound, if it leaves 64 bits."""
    if key is None:
        return None
    assert isinstance(key, int)
    shifted = key + shift
    return shifted if MIN_KEY <= shifted <= MAX_KEY else None

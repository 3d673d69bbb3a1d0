"""The time zones of a session: ORC's timestamps are read by one of them, and the text of a query by the other."""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hindex.spark.session import check_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = frozenset({"UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "+00:00", "UCT", "ETC/UCT", "ZULU"})
#: How far from a zone's transitions a clock is certainly before or after what a reader makes of those near them: zones
#: are no more than 26 hours apart, and no transition is of more than 24.
_MARGIN = datetime.timedelta(days=3)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

#: The default zones of sessions' Java sides, by the session.
_java_zones: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Zones:
    """``java`` is the default one of the Java side, by which ORC's timestamps are read. ``session`` is that of texts.

    Values of partitions, which are texts, are read by ``session``.
    """

    java: str
    session: str

    @property
    def are_utc(self) -> bool:
        """Whether Spark takes the wall clocks of ORC files for what they show, all of them."""
        return self.java.upper() in _UTC and self.session.upper() in _UTC

    @property
    def are_one(self) -> bool:
        """Whether Spark shows the wall clocks of ORC files as they are, but near a transition of the zone."""
        return self.java == self.session

    def is_steady(self, micros: int) -> bool:
        """Whether clocks before and after a reading, in microseconds since 1970, are instants before and after its own.

        So it is where the zones are one and no transition of it is near.
        """
        if not self.are_one:
            return False
        try:
            clock = zoneinfo.ZoneInfo(self.java)
            shown = _EPOCH + datetime.timedelta(microseconds=micros)
            around = {(shown + margin).replace(tzinfo=clock).utcoffset() for margin in (-_MARGIN, _MARGIN)}
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
            return False
        # before, Java's two calendars of a zone are not one
        return len(around) == 1 and shown.year > 1900


def zones(spark: SparkSession) -> Zones:
    """The zones of a session; that of its Java side is asked for once, in a statement.

    :raises HindexError: if the session was stopped.
    """
    check_running(spark)
    java = _java_zones.get(spark)
    if java is None:
        java = str(spark.sql("SELECT reflect('java.time.ZoneId', 'systemDefault')").collect()[0][0])
        _java_zones[spark] = java
    return Zones(java, str(spark.conf.get("spark.sql.session.timeZone")))

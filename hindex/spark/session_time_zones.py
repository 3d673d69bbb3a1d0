"""The time zones of a session: Java's, by which ORC's timestamps are read, and the session's own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hindex.plan.time_zones import TimeZones
from hindex.spark.jobs import described
from hindex.spark.session import check_running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The default zones of sessions' Java sides, by the session.
_java_zones: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def zones(spark: SparkSession) -> TimeZones:
    """Give the time zones of a session; that of its Java side is asked for once, in a statement.

    :raises HindexError: if the session was stopped.
    """
    check_running(spark)
    java = _java_zones.get(spark)
    if java is None:
        with described(spark, "ask for the time zone of Java"):
            java = str(spark.sql("SELECT reflect('java.time.ZoneId', 'systemDefault')").collect()[0][0])
        _java_zones[spark] = java
    return TimeZones(java, str(spark.conf.get("spark.sql.session.timeZone")))

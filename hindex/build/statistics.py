"""MINMAX without reading data: the extents of row groups from an ORC file's own statistics, where these are exact."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from decimal import Decimal

from hindex.domain import Key
from hindex.index.column_stats import ColumnStats
from hindex.keys import decimal_key, float_key
from hindex.orc import OrcReader
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls, Value, value_range
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.reader.file_indexes import FileIndexes

#: Types whose bounds are widened, because writers disagree about zones, fractions and blanks: their values are read.
_WIDENED = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.CHAR, Kind.BINARY})


class StatisticsExtents:
    """The extents that a file's row index tells, for its columns that are not within others."""

    def __init__(self, reader: OrcReader) -> None:
        self._reader = reader
        self._built_in = FileIndexes(reader)

    def extents(self, stripe: int, data_type: OrcType) -> list[ColumnStats] | None:
        """The extent of each row group of a stripe; None where the file does not tell all of them surely."""
        if data_type.kind in _WIDENED or data_type.column in self._reader.tail.encrypted_columns:
            return None
        statistics = self._built_in.group_statistics(stripe, data_type.column)
        if not isinstance(statistics, list):
            return None
        return self._all(statistics, self._built_in.group_rows(stripe), data_type)

    def _all(
        self, statistics: Sequence[ColumnStatistics], rows: Sequence[int], data_type: OrcType
    ) -> list[ColumnStats] | None:
        found = []
        for item, count in zip(statistics, rows, strict=True):
            extent = self._one(item, count, data_type)
            if extent is None:
                return None
            found.append(extent)
        return found

    def _one(self, statistics: ColumnStatistics, rows: int, data_type: OrcType) -> ColumnStats | None:
        nulls = statistics.nulls(rows)
        if nulls is Nulls.UNKNOWN or statistics.number_of_values is None:
            return None
        if nulls is Nulls.ALL:
            return ColumnStats(rows, rows, None, None)
        values = value_range(statistics, data_type, self._reader.tail)
        if isinstance(values, Distrust) or values.low is None or values.high is None:
            return None
        low, high = _key(values.low, data_type), _key(values.high, data_type)
        if low is None or high is None:
            return None
        if values.high_is_prefix:
            # a maximum is cut by a character more than a minimum, and may be a prefix of that
            low = min(low, high)
        return ColumnStats(rows, rows - statistics.number_of_values, low, high, values.high_is_prefix)


def _key(value: Value, data_type: OrcType) -> Key | None:
    """The key of a value; None where the column's type cannot hold it."""
    if isinstance(value, float):
        return float_key(value)
    if isinstance(value, Decimal):
        with decimal.localcontext(decimal.Context(prec=200)):
            unscaled = value.scaleb(data_type.scale if data_type.precision else 18)
            if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10 ** (data_type.precision or 38):
                return None
            return decimal_key(int(unscaled), data_type)
    return value

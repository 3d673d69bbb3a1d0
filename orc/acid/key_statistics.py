"""Key ranges of ACID files from their statistics, to skip irrelevant files and stripes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hindex.errors import OrcError
from hindex.orc.acid.row_keys import KeyRange, bucket_code
from hindex.orc.acid.schema import AcidColumns
from hindex.orc.metadata.statistics import ColumnStatistics, Nulls
from hindex.orc.metadata.statistics_validity import Distrust, ValueRange, value_range
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.orc.reader.orc_reader import OrcReader

Range = tuple[int | None, int | None]
_Found = ColumnStatistics | Distrust | None

_OPEN: Range = (None, None)


class KeyStatistics:
    """The ranges of keys, and of current transactions, that a file's statistics tell; open where they do not."""

    def __init__(self, reader: OrcReader, columns: AcidColumns) -> None:
        self._tail = reader.tail
        self._built_in = FileIndexes(reader)
        self._names = columns.key
        self._key = [reader.column_type(name) for name in columns.key]
        self._current = reader.column_type(columns.current_transaction)

    def file(self) -> KeyRange:
        """The keys of the whole file."""
        return self._key_range([self._built_in.file_statistics(of.column) for of in self._key])

    def stripe(self, stripe: int) -> KeyRange:
        """The keys of one stripe."""
        return self._key_range([self._built_in.stripe_statistics(stripe, of.column) for of in self._key])

    def constants(self, stripe: int) -> dict[str, int]:
        """The columns of the key, but for the row id, that have one value in all rows of a stripe; and that value."""
        rows = self._tail.stripes[stripe].num_rows
        found: dict[str, int] = {}
        for at, name in enumerate(self._names[:2]):
            statistics = self._built_in.stripe_statistics(stripe, self._key[at].column)
            low, high = self._range(statistics, at)
            has_all = isinstance(statistics, ColumnStatistics) and statistics.nulls(rows) is Nulls.NONE
            if has_all and low is not None and low == high:
                found[name] = low
        return found

    def groups(self, stripe: int) -> Iterator[tuple[int, int, KeyRange]]:
        """First row, number of rows and keys of each row group; nothing where the stripe tells of none."""
        rows = self._built_in.group_rows(stripe)
        found = [self._built_in.group_statistics(stripe, of.column) for of in self._key]
        first = 0
        for number, count in enumerate(rows):
            ranges = [item[number] if isinstance(item, list) else None for item in found]
            yield first, count, self._key_range(ranges)
            first += count

    def current_transactions(self, stripe: int | None = None) -> Range:
        """The current transactions of a stripe, or of the whole file."""
        column = self._current.column
        if stripe is None:
            return self._range(self._built_in.file_statistics(column), 3)
        return self._range(self._built_in.stripe_statistics(stripe, column), 3)

    def _key_range(self, found: Sequence[_Found]) -> KeyRange:
        write_ids, buckets, row_ids = (self._range(item, at) for at, item in enumerate(found))
        return KeyRange(write_ids, _codes(buckets), row_ids)

    def _range(self, found: _Found, at: int) -> Range:
        if not isinstance(found, ColumnStatistics):
            return _OPEN
        values = value_range(found, (*self._key, self._current)[at], self._tail)
        if not isinstance(values, ValueRange):
            return _OPEN
        low, high = values.low, values.high
        return (low if isinstance(low, int) else None), (high if isinstance(high, int) else None)


def _codes(properties: Range) -> Range:
    """The range of codes of a range of bucket properties: they ascend together within a version only."""
    low, high = properties
    if low is None or high is None or low >> 29 != high >> 29:
        return _OPEN
    try:
        return bucket_code(low), bucket_code(high)
    except OrcError:
        # reading the rows tells whether one of them has such a property
        return _OPEN

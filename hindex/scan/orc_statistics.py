"""Answer a leaf from an ORC file's own statistics and bloom filters, with one verdict for each row group.

They are used where no index answers exactly. The order is: statistics of the file, of the stripe, of the row
groups, then bloom filters. Each is read only if rows are still undecided.
"""

from __future__ import annotations

import decimal
import enum
from collections.abc import Iterable, Sequence
from decimal import Decimal

from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.index.column_stats import ColumnStats
from hindex.index.index_type import Bounds, MinMax, enumerable
from hindex.keys import (
    INT64_MAX,
    INT64_MIN,
    KeyKind,
    decimal_key,
    float_key,
    key_decimal,
    key_float,
    key_kind,
    key_limits,
    same_keys,
)
from hindex.orc import OrcReader
from hindex.orc.metadata.bloom_filters import value_hashes
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls, Value, ValueRange, value_range
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.plan.filter import Leaf
from hindex.plan.reasons import Note, Reason
from hindex.value_class import value_class

#: The number of values of a leaf up to which bloom filters are tested.
MAX_FILTER_VALUES = 4096


#: Testing a byte of filters is a few times quicker than decoding a row: filters with more bytes for each row that
#: they may rule out do not pay.
_FILTER_BYTES_PER_ROW = 4


#: Answers of statistics that are kept.
_MAX_RECENT = 64


#: Types whose minimum and maximum no writer cuts, rounds or widens.
_EXACT_KINDS = INTEGER_KINDS | {Kind.DATE, Kind.BOOLEAN}


class StatisticsSource(enum.Enum):
    """The source of an answer; the value is shown to users."""

    STATISTICS = "ORC statistics"
    BLOOM_FILTER = "ORC bloom filter"
    #: The path of a flat file of a transactional table, and the number of rows before it: they give row keys.
    PLACE = "path and row position"
    #: The default of a column that the file lacks.
    DEFAULT = "the column's default"


class Verdict(enum.Enum):
    """The verdict about all rows of a row group, a stripe or a file."""

    NO_ROW_MATCHES = "no row matches"
    ROWS_MIGHT_MATCH = "rows might match"
    EVERY_ROW_MATCHES = "every row matches"


@value_class
class StatisticsResult:
    """The answer of one source to one leaf for one stripe.

    Of the ``groups`` row groups that were tested, ``kept`` may have rows that match. A stripe without row index
    counts as one row group.
    """

    source: StatisticsSource
    bounds: Bounds
    kept: int
    groups: int


class OrcStatistics:
    """The answers of one data file's statistics and bloom filters to leaves.

    Args:
        path: the file's path in its table, for notes.
        notes: receives one note for each kind of statistics that are not relied on.
    """

    def __init__(self, reader: OrcReader, path: str, notes: list[Note]) -> None:
        self._tail = reader.tail
        self._file_indexes = FileIndexes(reader)
        self._path = path
        self._notes = notes
        self._noted: set[tuple[str, Distrust]] = set()
        self._file_verdicts: dict[tuple[int, Domain], Verdict] = {}
        # of a few stripes: a lookup may need them twice, first to estimate whether an index rules out more rows
        self._recent: dict[tuple[int, Leaf], tuple[BitMap, StatisticsResult | None]] = {}

    def file_result(self, stripe: int, leaf: Leaf, data_type: OrcType) -> StatisticsResult | None:
        """Return the answer of the file-level statistics for a stripe; None if there is none. Reads nothing.

        Args:
            data_type: the type of the leaf's column in the file.
        """
        if not _is_comparable(data_type, leaf.type):
            return None
        return self._stripe_result(
            stripe, self._judge_file(_Column(leaf.column, data_type, leaf.type), leaf.domain)
        )

    def statistics(
        self, stripe: int, leaf: Leaf, data_type: OrcType, candidates: BitMap
    ) -> StatisticsResult | None:
        """Return the answer of the stripe's and row groups' statistics; None if there is none.

        Args:
            data_type: the type of the leaf's column in the file.
            candidates: the rows that are still undecided; row groups without one are not tested.
        """
        key = stripe, leaf
        # another thread may begin a new dictionary at any time
        recent = self._recent
        if key in recent:
            tested, result = recent[key]
            if candidates.issubset(tested):
                return result
        result = self._statistics(stripe, leaf, data_type, candidates)
        if len(recent) >= _MAX_RECENT:
            self._recent = recent = {}
        recent[key] = candidates, result
        return result

    def _statistics(
        self, stripe: int, leaf: Leaf, data_type: OrcType, candidates: BitMap
    ) -> StatisticsResult | None:
        if not _is_comparable(data_type, leaf.type):
            return None
        column, domain = _Column(leaf.column, data_type, leaf.type), leaf.domain
        verdict = self._judge_file(column, domain)
        if verdict is Verdict.ROWS_MIGHT_MATCH:
            verdict = self._judge_stripe(stripe, column, domain)
        decided = self._stripe_result(stripe, verdict)
        if decided is not None:
            return decided
        verdicts = self._judge_groups(stripe, column, domain, candidates)
        return self._group_result(stripe, verdicts) if verdicts else None

    def filters(
        self, stripe: int, leaf: Leaf, data_type: OrcType, candidates: BitMap
    ) -> StatisticsResult | None:
        """Return the answer of the bloom filters; None if there is none, or if reading them does not pay.

        Args:
            candidates: the rows that are still undecided.
        """
        domain = leaf.domain
        # a filter answers neither for nulls nor for ranges whose values cannot be listed
        if domain.null_allowed or not domain.ranges or not enumerable(domain):
            return None
        sizes = self._file_indexes.group_rows(stripe)
        if not sizes or not _is_comparable(data_type, leaf.type):
            return None
        column = _Column(leaf.column, data_type, leaf.type)
        stream = self._file_indexes.bloom_stream(stripe, data_type)
        if isinstance(stream, Distrust):
            self._note(column, stream)
        if not isinstance(stream, tuple) or stream[1] > _FILTER_BYTES_PER_ROW * len(candidates):
            return None
        hashes = self._hashes(column, domain)
        if hashes is None:
            return None
        filters = self._file_indexes.bloom_filters(stripe, data_type.column, stream[0])
        if isinstance(filters, Distrust):
            self._note(column, filters)
            return None
        if filters.bad:
            self._note(column, Distrust.BAD_FILTER)
        upper = BitMap()
        kept_groups = tested_groups = start = 0
        for size, might in zip(sizes, filters.might_contain_any(hashes).tolist(), strict=True):
            is_candidate = candidates.range_cardinality(start, start + size) > 0
            tested_groups += is_candidate
            if might:
                upper.add_range(start, start + size)
                kept_groups += is_candidate
            start += size
        bounds = Bounds(BitMap(), upper) if len(upper) else Bounds.none()
        return StatisticsResult(StatisticsSource.BLOOM_FILTER, bounds, kept_groups, tested_groups)

    def min_max(self, stripe: int, data_type: OrcType, table_type: OrcType) -> MinMax | None:
        """Return a stripe's minimum and maximum from its statistics; None if the number of nulls is not recorded.

        They have keys only for types whose statistics are exact values with every writer.
        """
        statistics = self._file_indexes.stripe_statistics(stripe, data_type.column)
        rows = self._tail.stripes[stripe].num_rows
        if not isinstance(statistics, ColumnStatistics) or data_type.column in self._tail.encrypted_columns:
            return None
        if statistics.nulls(rows) is Nulls.UNKNOWN or statistics.number_of_values is None:
            return None
        null_count = rows - statistics.number_of_values
        key_range = value_range(statistics, data_type, self._tail) if data_type.kind in _EXACT_KINDS else None
        if not isinstance(key_range, ValueRange) or not same_keys(data_type, table_type):
            return MinMax(null_count, None, None)
        low, high = key_range.low, key_range.high
        if not isinstance(low, int) or not isinstance(high, int):
            return MinMax(null_count, None, None)
        return MinMax(null_count, low, high)

    def _stripe_result(self, stripe: int, verdict: Verdict) -> StatisticsResult | None:
        """Return a verdict on a whole stripe as an answer; None if rows might match."""
        if verdict is Verdict.ROWS_MIGHT_MATCH:
            return None
        groups = len(self._file_indexes.group_rows(stripe)) or 1
        if verdict is Verdict.NO_ROW_MATCHES:
            return StatisticsResult(StatisticsSource.STATISTICS, Bounds.none(), 0, groups)
        rows = self._tail.stripes[stripe].num_rows
        return StatisticsResult(StatisticsSource.STATISTICS, Bounds.all(rows), groups, groups)

    def _group_result(self, stripe: int, verdicts: Sequence[Verdict | None]) -> StatisticsResult:
        lower, upper = BitMap(), BitMap()
        start = 0
        for size, verdict in zip(self._file_indexes.group_rows(stripe), verdicts, strict=True):
            if verdict is not Verdict.NO_ROW_MATCHES:
                upper.add_range(start, start + size)
                if verdict is Verdict.EVERY_ROW_MATCHES:
                    lower.add_range(start, start + size)
            start += size
        tested = [verdict for verdict in verdicts if verdict is not None]
        kept = sum(verdict is not Verdict.NO_ROW_MATCHES for verdict in tested)
        bounds = Bounds.exactly(lower) if len(lower) == len(upper) else Bounds(lower, upper)
        return StatisticsResult(StatisticsSource.STATISTICS, bounds, kept, len(tested))

    def _judge_file(self, column: _Column, domain: Domain) -> Verdict:
        key = (column.file_type.column, domain)
        if key not in self._file_verdicts:
            statistics = self._file_indexes.file_statistics(column.file_type.column)
            self._file_verdicts[key] = self._judge_statistics(statistics, column, domain, self._tail.num_rows)
        return self._file_verdicts[key]

    def _judge_stripe(self, stripe: int, column: _Column, domain: Domain) -> Verdict:
        statistics = self._file_indexes.stripe_statistics(stripe, column.file_type.column)
        return self._judge_statistics(statistics, column, domain, self._tail.stripes[stripe].num_rows)

    def _judge_groups(
        self, stripe: int, column: _Column, domain: Domain, candidates: BitMap
    ) -> list[Verdict | None]:
        """Return a verdict for each row group, None where it has no candidate; [] without a usable row index."""
        statistics = self._file_indexes.group_statistics(stripe, column.file_type.column)
        if not isinstance(statistics, list):
            if statistics is not None:
                self._note(column, statistics)
            return []
        zone = self._file_indexes.writer_timezone(stripe) if column.file_type.kind == Kind.TIMESTAMP else None
        verdicts: list[Verdict | None] = []
        start = 0
        for item, rows in zip(statistics, self._file_indexes.group_rows(stripe), strict=True):
            is_candidate = candidates.range_cardinality(start, start + rows) > 0
            verdicts.append(
                self._judge_statistics(item, column, domain, rows, zone) if is_candidate else None
            )
            start += rows
        return verdicts

    def _judge_statistics(
        self,
        statistics: ColumnStatistics | Distrust | None,
        column: _Column,
        domain: Domain,
        rows: int,
        zone: str | None = None,
    ) -> Verdict:
        if statistics is None:
            return Verdict.ROWS_MIGHT_MATCH
        if isinstance(statistics, Distrust):
            self._note(column, statistics)
            return Verdict.ROWS_MIGHT_MATCH
        nulls = statistics.nulls(rows)
        if column.file_type.column in self._tail.encrypted_columns:
            nulls = Nulls.UNKNOWN
        bounds = value_range(statistics, column.file_type, self._tail, zone=zone)
        if isinstance(bounds, Distrust):
            self._note(column, bounds)
            bounds = ValueRange(None, None)
        return judge(domain, column.stats(bounds, nulls, rows))

    def _hashes(self, column: _Column, domain: Domain) -> list[int] | None:
        """Return the hashes of a domain's values; None if there are too many, or if one has no hash."""
        all_hashes: list[int] = []
        for count, key in enumerate(_members(domain)):
            if count >= MAX_FILTER_VALUES:
                return None
            hashes = value_hashes(column.value(key), column.file_type, self._tail)
            if hashes is None:
                return None
            all_hashes += hashes
        return all_hashes

    def _note(self, column: _Column, distrust: Distrust) -> None:
        if distrust.is_fault and (column.name, distrust) not in self._noted:
            self._noted.add((column.name, distrust))
            subject = f"{column.name} in {self._path}"
            self._notes.append(Note(Reason.UNRELIABLE_STATISTICS, subject, distrust.value))


def judge(domain: Domain, stats: ColumnStats) -> Verdict:
    """Return the verdict about rows whose keys lie within statistics."""
    if not stats.can_match(domain):
        return Verdict.NO_ROW_MATCHES
    return Verdict.EVERY_ROW_MATCHES if stats.all_match(domain) else Verdict.ROWS_MIGHT_MATCH


def _is_comparable(data_type: OrcType, table_type: OrcType) -> bool:
    """Return True if values of the file's type have keys of the kind that the table's type needs."""
    kind = key_kind(table_type)
    if kind is None or key_kind(data_type) is None:
        return False
    if Kind.CHAR in (data_type.kind, table_type.kind) and not data_type.same_as(table_type):
        # keys of CHAR are padded with blanks to the type's length, and the file's statistics are not
        return False
    return data_type.kind == Kind.DECIMAL if table_type.kind == Kind.DECIMAL else key_kind(data_type) is kind


def _members(domain: Domain) -> Iterable[Key]:
    for item in domain.ranges:
        if isinstance(item.low, int) and isinstance(item.high, int):
            yield from range(item.low, item.high + 1)
        elif item.low is not None:
            yield item.low


@value_class
class _Column:
    """A column of a file, and the type that the table gives it."""

    name: str
    file_type: OrcType
    table_type: OrcType

    def stats(self, bounds: ValueRange, nulls: Nulls, rows: int) -> ColumnStats:
        """Return the extent of the keys of ``rows`` rows. An unknown number of nulls counts as one."""
        if nulls is Nulls.ALL:
            return ColumnStats(rows, rows, None, None)
        null_count = 0 if nulls is Nulls.NONE else 1
        low = None if bounds.low is None else self._key(bounds.low, decimal.ROUND_FLOOR)
        high = None if bounds.high is None else self._key(bounds.high, decimal.ROUND_CEILING)
        if key_kind(self.table_type) is KeyKind.INT64:
            type_min, type_max = key_limits(self.table_type) or (INT64_MIN, INT64_MAX)
            return ColumnStats(
                rows, null_count, type_min if low is None else low, type_max if high is None else high
            )
        if high is None:
            # every key begins with nothing
            return ColumnStats(rows, null_count, b"" if low is None else low, b"", max_is_prefix=True)
        return ColumnStats(rows, null_count, b"" if low is None else low, high, bounds.high_is_prefix)

    def value(self, key: Key) -> Value:
        """Return the value of a key as ORC's bloom filters hash it."""
        if self.table_type.kind in (Kind.FLOAT, Kind.DOUBLE):
            assert isinstance(key, int)
            return key_float(key)
        if self.table_type.kind == Kind.DECIMAL:
            with decimal.localcontext(_DECIMALS):
                return Decimal(key_decimal(key)).scaleb(-_scale(self.table_type))
        return key

    def _key(self, value: Value, rounding: str) -> Key | None:
        """Return the key of a bound; None if it is out of the range of keys."""
        if isinstance(value, float):
            return float_key(value)
        if isinstance(value, bytes):
            return value
        if isinstance(value, Decimal):
            with decimal.localcontext(_DECIMALS):
                value = int(value.scaleb(_scale(self.table_type)).to_integral_value(rounding))
            if key_kind(self.table_type) is KeyKind.BYTES:
                return decimal_key(value, self.table_type) if abs(value) < _MAX_UNSCALED else None
        return value if INT64_MIN <= value <= INT64_MAX else None


_DECIMALS = decimal.Context(prec=400)


_MAX_UNSCALED = 1 << 127


def _scale(data_type: OrcType) -> int:
    return data_type.scale if data_type.precision else 18

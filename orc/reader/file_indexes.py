"""The indexes within ORC files: statistics of the file, its stripes and row groups, and bloom filters.

Each is read once, when it is first needed, and counted in the reader's `hindex.orc.io.metrics.ReadCounts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hindex.errors import OrcError
from hindex.orc.metadata.bloom_filters import BloomFilters, usable_filters
from hindex.orc.metadata.projection import misplacing_ancestors
from hindex.orc.metadata.sections import parse_section
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls
from hindex.orc.metadata.stripe import StreamKind, read_row_indexes
from hindex.orc.metadata.types import OrcType
from hindex.orc.reader.orc_reader import OrcReader
from hindex.orc.reader.stripe_reader import MAX_GROUPS
from hindex.proto import orc_metadata_pb2 as pb

Section = TypeVar("Section", pb.Metadata, pb.BloomFilterIndex)

#: The most row groups for each compressed byte of a stripe's indexes.
_GROUPS_PER_BYTE = 64


class FileIndexes:
    """The statistics and bloom filters of one file, by column number.

    Statistics are `Distrust.CORRUPT` if they cannot be read, and None if the file has none.

    Args:
        as_stored: return statistics even if they do not fit the values.
    """

    def __init__(self, reader: OrcReader, *, as_stored: bool = False) -> None:
        self._as_stored = as_stored
        self._file = reader._file
        self._tail = reader.tail
        self._metadata: Sequence[pb.StripeStatistics] | Distrust | None = None
        self._misplaced: dict[int, bool] = {}
        self._groups: dict[tuple[int, int], list[ColumnStatistics] | Distrust | None] = {}

    def file_statistics(self, column: int) -> ColumnStatistics | Distrust | None:
        """Return a column's statistics of the whole file."""
        if self._is_misplaced(column):
            return Distrust.MISPLACED
        return self._stored_file_statistics(column)

    def _stored_file_statistics(self, column: int) -> ColumnStatistics | None:
        statistics = self._tail.footer.statistics
        return ColumnStatistics.of(statistics[column]) if column < len(statistics) else None

    def stripe_statistics(self, stripe: int, column: int) -> ColumnStatistics | Distrust | None:
        """Return a column's statistics of one stripe, from the file's tail."""
        if self._is_misplaced(column):
            return Distrust.MISPLACED
        if self._metadata is None:
            # statistics may compress to very little, but a file has some bytes for each column of each stripe
            data, fields = memoryview(self._tail.metadata), self._tail.file_length
            message = self._parse(pb.Metadata, data, min_fields=fields)
            self._metadata = Distrust.CORRUPT if message is None else message.stripe_stats
        if isinstance(self._metadata, Distrust):
            return self._metadata
        # tools that concatenate files may omit the statistics of some stripes
        if len(self._metadata) != len(self._tail.stripes):
            return None
        statistics = self._metadata[stripe].col_stats
        return ColumnStatistics.of(statistics[column]) if column < len(statistics) else None

    def group_statistics(self, stripe: int, column: int) -> list[ColumnStatistics] | Distrust | None:
        """Return a column's statistics of each row group of a stripe, from the row index."""
        if self._is_misplaced(column):
            return Distrust.MISPLACED
        key = (stripe, column)
        if key not in self._groups:
            self._groups[key] = self._read_groups(stripe, column)
        return self._groups[key]

    def writer_timezone(self, stripe: int) -> str:
        """Return the time zone in which a stripe's timestamps were written."""
        return self._file.stripe(stripe).writer_timezone

    def bloom_stream(self, stripe: int, data_type: OrcType) -> tuple[StreamKind, int] | Distrust | None:
        """Find a column's stream of reliable filters and its length in bytes.

        Returns:
            the kind and length; the reason to distrust the filters if none are reliable; None if there are none.
        """
        if self._is_misplaced(data_type.column):
            return Distrust.MISPLACED
        footer = self._file.stripe(stripe)
        encodings = footer.bloom_encodings
        kind = usable_filters(
            [kind for kind in StreamKind if (data_type.column, kind) in footer.streams],
            data_type,
            self._tail,
            encoding=encodings[data_type.column] if data_type.column < len(encodings) else 0,
            zone=footer.writer_timezone,
        )
        if isinstance(kind, StreamKind):
            return kind, footer.streams[data_type.column, kind].length
        return kind

    def bloom_filters(self, stripe: int, column: int, kind: StreamKind) -> BloomFilters | Distrust:
        """Read the filters of one stream, one for each row group."""
        statistics = self.group_statistics(stripe, column)
        rows = self.group_rows(stripe)
        if not isinstance(statistics, list):
            return Distrust.CORRUPT
        stream = self._file.stripe(stripe).streams[column, kind]
        (data,) = self._file.source.read([(stream.offset, stream.length)])
        message = self._parse(pb.BloomFilterIndex, data)
        if message is None or len(message.bloom_filter) != len(rows):
            return Distrust.BAD_FILTER
        nulls = [item.nulls(count) for item, count in zip(statistics, rows, strict=True)]
        filters = BloomFilters.of(message, nulls)
        return filters if filters.blocks else Distrust.BAD_FILTER

    def group_rows(self, stripe: int) -> list[int]:
        """Return the number of rows of each row group; [] without row index, or if it is too short for so many."""
        information, stride = self._tail.stripes[stripe], self._tail.row_index_stride
        rows = information.num_rows
        # a corrupt file may claim any number of rows
        if not stride or rows > stride * min(MAX_GROUPS, _GROUPS_PER_BYTE * information.index_length):
            return []
        return [min(stride, rows - start) for start in range(0, rows, stride)]

    def _is_misplaced(self, column: int) -> bool:
        """Return True if the statistics may not describe the values of the rows.

        See `hindex.orc.metadata.projection`.
        """
        if self._as_stored or self._tail.is_by_java:
            return False
        if column not in self._misplaced:
            rows, ancestors = self._tail.num_rows, misplacing_ancestors(self._tail.schema, column)
            statistics = [self._stored_file_statistics(node.column) for node in ancestors]
            self._misplaced[column] = any(
                item is None or item.nulls(rows) is not Nulls.NONE for item in statistics
            )
        return self._misplaced[column]

    def _read_groups(self, stripe: int, column: int) -> list[ColumnStatistics] | Distrust | None:
        try:
            footer = self._file.stripe(stripe)
            stream = footer.streams.get((column, StreamKind.ROW_INDEX))
            if stream is None or not self._tail.row_index_stride:
                return None
            if column not in footer.row_entries:
                read_row_indexes(self._file.source, footer, [column], self._tail.decompressor())
        except OrcError:
            return Distrust.CORRUPT
        entries = footer.row_entries[column]
        if len(entries) != len(self.group_rows(stripe)):
            return Distrust.CORRUPT
        return [ColumnStatistics.of(entry.statistics) for entry in entries]

    def _parse(self, section: type[Section], data: memoryview, *, min_fields: int = 0) -> Section | None:
        """Parse a section of the file; return None if it is corrupt."""
        decompressor = self._tail.decompressor()
        try:
            return parse_section(section, data, decompressor, section.__name__, min_fields=min_fields)[0]
        except OrcError:
            return None

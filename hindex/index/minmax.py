"""The MINMAX index type: the least and greatest key of every row group and stripe, and their null counts.

A lookup answers for the whole stripe if the stripe's statistics decide, else row group by row group.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.errors import BuildError
from hindex.index.column_stats import ColumnStats, array_stats, compare_integers, merge_stats
from hindex.index.file_builder import FileBuilder
from hindex.index.index_file import (
    BinarySink,
    Buffer,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRef,
    byte_width,
    join_bytes,
    page_message,
    page_ref,
    split_bytes,
)
from hindex.index.index_type import (
    Bounds,
    IndexFileSummary,
    Level,
    MinMax,
    Operator,
    StripeSummary,
)
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.roaring import MAX_ROWS, from_groups, group_count
from hindex.keys import KeyKind, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb
from hindex.value_class import value_class

#: The header of a page: groups, groups with keys, widths of four arrays, two numbers that depend on the key kind.
GROUP_HEADER = struct.Struct("<IIBBBBqq")

Mask = npt.NDArray[np.bool_]


@value_class
class _Stripe:
    stats: ColumnStats
    groups: PageRef | None


@value_class
class _Groups:
    """The statistics of row groups: plain integer keys as arrays, all others one by one."""

    rows: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    lows: npt.NDArray[np.int64]
    highs: npt.NDArray[np.int64]
    objects: tuple[ColumnStats, ...] | None

    @property
    def nbytes(self) -> int:
        return 32 * len(self.rows) + 256 * len(self.objects or ())

    def matches(self, domain: Domain) -> tuple[Mask, Mask]:
        """Return a mask of the groups with only matching rows, and one of the groups that may have a match."""
        if self.objects is not None:
            every = [item.all_match(domain) for item in self.objects]
            some = [item.can_match(domain) for item in self.objects]
            return np.array(every, np.bool_), np.array(some, np.bool_)
        filled = self.nulls < self.rows
        inside, overlap = compare_integers(domain.ranges, self.lows, self.highs)
        some_nulls = self.nulls > 0
        if domain.null_allowed:
            return inside | ~filled, (overlap & filled) | some_nulls
        return inside & ~some_nulls, overlap & filled


class MinMaxReader:
    """A reader of a MINMAX index file. Threads may share it.

    Raises:
        IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        self._kind = file.footer.key_kind
        try:
            body = pb.MinMaxBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._group_rows = body.row_group_rows
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.MinMaxStripe) -> _Stripe:
        context = f"the directory of stripe {number}:"
        message = item.extent
        low: Key | None
        high: Key | None
        if self._kind is KeyKind.INT64:
            low = message.int_min if message.HasField("int_min") else None
            high = message.int_max if message.HasField("int_max") else None
        else:
            low = message.byte_min if message.HasField("byte_min") else None
            high = message.byte_max if message.HasField("byte_max") else None
        if item.rows > MAX_ROWS or message.null_count > item.rows:
            raise self.file.error(f"{context} it counts {item.rows} rows and {message.null_count} null ones")
        filled = message.null_count < item.rows
        if filled != (low is not None) or filled != (high is not None):
            raise self.file.error(f"{context} keys and null rows disagree")
        if filled and low > high:  # type: ignore[operator]
            raise self.file.error(f"{context} its least key is above its greatest")
        if message.max_is_prefix and self._kind is KeyKind.INT64:
            raise self.file.error(f"{context} an integer key is cut")
        if item.HasField("groups") != (group_count(self._group_rows, item.rows) > 1):
            raise self.file.error(f"{context} its row groups are not where they should be")
        stats = ColumnStats(item.rows, message.null_count, low, high, message.max_is_prefix)
        return _Stripe(stats, page_ref(item.groups) if item.HasField("groups") else None)

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe."""
        return tuple(stripe.stats.rows for stripe in self._stripes)

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Look up the row groups in which every row is a member, and those in which some row may be.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        directory = self._stripes[stripe]
        rows = directory.stats.rows
        if not directory.stats.can_match(domain):
            return Bounds.none()
        if directory.stats.all_match(domain):
            return Bounds.all(rows)
        if directory.groups is None:
            return Bounds.unknown(rows)
        all_match, can_match = self._groups(directory).matches(domain)
        lower = from_groups(all_match, self._group_rows, rows) if all_match.any() else BitMap()
        return Bounds(lower, from_groups(can_match, self._group_rows, rows))

    def min_max(self, stripe: int) -> MinMax:
        """Implement `hindex.index.index_type.MinMaxSource`.

        Keys of bytes are None, because they may be truncated.
        """
        stats = self._stripes[stripe].stats
        if self._kind is KeyKind.BYTES:
            return MinMax(stats.null_count, None, None)
        return MinMax(stats.null_count, stats.min_key, stats.max_key)

    def close(self) -> None:
        self.file.close()

    def _groups(self, directory: _Stripe) -> _Groups:
        assert directory.groups is not None
        pages = self.file.decode_pages(
            [directory.groups], lambda _, page: self._decode(page, directory.stats), _size
        )
        return next(pages)

    def _decode(self, page: Page, whole: ColumnStats) -> _Groups:
        count, filled, *widths, first, second = GROUP_HEADER.unpack(page.block(0, GROUP_HEADER.size))
        if count != group_count(self._group_rows, whole.rows) or filled > count:
            raise page.error(f"it claims {count} row groups, {filled} of them with keys")
        if max(widths) > 8:
            raise page.error("an integer wider than its field is promised")
        if len(page) != 1 + sum(widths) + (2 if filled and self._kind is KeyKind.BYTES else 0):
            raise page.error(f"it has {len(page)} blocks")
        at = 1
        arrays = []
        for width, length in zip(widths, (count, filled, filled, filled), strict=True):
            parts = [page.block(at + plane, length) for plane in range(width)]
            arrays.append(join_bytes(parts, length, np.uint64))
            at += width
        nulls, lows, highs, prefixes = arrays
        rows = np.full(count, self._group_rows, np.int64)
        rows[-1] = whole.rows - self._group_rows * (count - 1)
        if bool((nulls > rows.view(np.uint64)).any()) or int(nulls.sum()) != whole.null_count:
            raise page.error("its null rows do not add up")
        has_keys = nulls < rows.view(np.uint64)
        if int(np.count_nonzero(has_keys)) != filled:
            raise page.error("keys and null rows disagree")
        if self._kind is KeyKind.BYTES:
            low_keys = _cut_up(page, at, lows, first) if filled else []
            high_keys = _cut_up(page, at + 1, highs, second) if filled else []
            if any(low > high for low, high in zip(low_keys, high_keys, strict=True)):
                raise page.error("a least key is above the greatest")
            objects = _group_stats(rows, nulls, has_keys, low_keys, high_keys, prefixes)
            empty = np.zeros(0, np.int64)
            return _Groups(rows, nulls.astype(np.int64), empty, empty, objects)
        low_array, high_array = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        low_array[has_keys] = lows + np.array(first, np.int64).view(np.uint64)
        high_array[has_keys] = low_array[has_keys] + highs
        groups = _Groups(
            rows, nulls.astype(np.int64), low_array.view(np.int64), high_array.view(np.int64), None
        )
        if bool((groups.lows > groups.highs).any()):
            raise page.error("a least key is above the greatest")
        return groups


def _size(groups: _Groups) -> int:
    return groups.nbytes


def _cut_up(page: Page, number: int, lengths: npt.NDArray[np.uint64], total: int) -> list[bytes]:
    if total < 0 or int(lengths.max()) > total or int(lengths.sum()) != total:
        raise page.error("its key lengths do not add up")
    data = bytes(page.block(number, total))
    ends = np.cumsum(lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _group_stats(
    rows: npt.NDArray[np.int64],
    nulls: npt.NDArray[np.uint64],
    has_keys: Mask,
    lows: list[bytes],
    highs: list[bytes],
    prefixes: npt.NDArray[np.uint64],
) -> tuple[ColumnStats, ...]:
    keys = iter(zip(lows, highs, prefixes.tolist(), strict=True))
    stats = []
    for count, missing, filled in zip(rows.tolist(), nulls.tolist(), has_keys.tolist(), strict=True):
        low, high, prefix = next(keys) if filled else (None, None, 0)
        stats.append(ColumnStats(count, missing, low, high, bool(prefix)))
    return tuple(stats)


#: The most bytes of a stored key; longer keys are truncated to safe bounds.
LONG_KEY = 1024


class MinMaxBuilder(FileBuilder):
    """A builder of a MINMAX index file; see `hindex.index.file_builder.FileBuilder` for the other parameters.

    Args:
        row_group_rows: the rows of the data file's row groups; 0 if it has none.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> None:
        super().__init__(MINMAX, sink, data_type, column=column, properties=properties, metadata=metadata)
        self._group_rows = row_group_rows
        self._body = pb.MinMaxBody(row_group_rows=row_group_rows)

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type ``data_type.to_arrow()``.

        Raises:
            BuildError: if the array is of another type.
        """
        array = self._one_array(array)
        size = self._group_rows or max(len(array), 1)
        self.add_stats(
            len(array),
            [array_stats(self._type, array.slice(at, size)) for at in range(0, len(array), size)],
        )

    def add_stats(self, rows: int, groups: Sequence[ColumnStats]) -> None:
        """Index the next stripe, given the statistics of its row groups.

        Raises:
            BuildError: if they do not match the stripe's row groups.
        """
        if len(groups) != group_count(self._group_rows, rows) or sum(item.rows for item in groups) != rows:
            raise BuildError(
                f"statistics of {len(groups)} row groups do not describe a stripe of {rows} rows in groups of "
                f"{self._group_rows}"
            )
        whole = merge_stats(groups)
        stripe = self._body.stripes.add(rows=rows, extent=_message(whole.truncate(LONG_KEY)))
        if len(groups) > 1:
            page = self._writer.write_page(_blocks([item.truncate(LONG_KEY) for item in groups]))
            stripe.groups.CopyFrom(page_message(page))
        self._stripes.append(StripeSummary(whole))

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        return self._finish(self._body.SerializeToString(deterministic=True))


class MinMaxIndex:
    """The MINMAX type, as `hindex.index.index_type.FileIndexType` describes it."""

    name = "MINMAX"
    order = 10
    levels = frozenset({Level.STRIPE})
    operators = frozenset(Operator)
    summarizes = True
    properties = ()

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> MinMaxBuilder:
        return MinMaxBuilder(
            sink, data_type, properties, column=column, metadata=metadata, row_group_rows=row_group_rows
        )

    def reader(self, file: IndexFileReader) -> MinMaxReader:
        return MinMaxReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        body = pb.MinMaxBody()
        for part in parts:
            part_body = directory(part, pb.MinMaxBody)
            move_pages(part_body.stripes, ("groups",), copy_pages(writer, part))
            body.MergeFrom(part_body)
        return body.SerializeToString(deterministic=True)


MINMAX = MinMaxIndex()


def _message(stats: ColumnStats) -> pb.Extent:
    message = pb.Extent(null_count=stats.null_count, max_is_prefix=stats.max_is_prefix)
    if isinstance(stats.min_key, int) and isinstance(stats.max_key, int):
        message.int_min, message.int_max = stats.min_key, stats.max_key
    elif isinstance(stats.min_key, bytes) and isinstance(stats.max_key, bytes):
        message.byte_min, message.byte_max = stats.min_key, stats.max_key
    return message


def _blocks(groups: Sequence[ColumnStats]) -> list[Buffer]:
    """Encode the statistics of row groups as blocks of a page."""
    nulls = np.array([item.null_count for item in groups], np.uint64)
    filled = [item for item in groups if item.has_values]
    lows, highs = [item.min_key for item in filled], [item.max_key for item in filled]
    prefixes = np.array([item.max_is_prefix for item in filled], np.uint64)
    first = second = 0
    data: list[Buffer] = []
    if filled and isinstance(lows[0], bytes):
        low_numbers = np.array([len(key) for key in lows], np.uint64)  # type: ignore[arg-type]
        high_numbers = np.array([len(key) for key in highs], np.uint64)  # type: ignore[arg-type]
        data = [b"".join(lows), b"".join(highs)]  # type: ignore[arg-type]
        first, second = len(data[0]), len(data[1])
    else:
        low_keys, high_keys = (np.array(keys, np.int64).view(np.uint64) for keys in (lows, highs))
        first = min((key for key in lows if isinstance(key, int)), default=0)
        # differences that overflow wrap around to the right value
        low_numbers = low_keys - np.array(first, np.int64).view(np.uint64)
        high_numbers = high_keys - low_keys
    arrays = [nulls, low_numbers, high_numbers, prefixes]
    widths = [byte_width(array) for array in arrays]
    header = GROUP_HEADER.pack(len(groups), len(filled), *widths, first, second)
    blocks: list[Buffer] = [header]
    for array, width in zip(arrays, widths, strict=True):
        blocks += split_bytes(array, width)
    return [*blocks, *data]

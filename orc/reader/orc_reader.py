"""The reader of columns and rows of an ORC file as Arrow data.

>>> from hindex.orc import OrcReader
>>> reader = OrcReader("users.orc")                       # doctest: +SKIP
>>> reader.read(columns=["id", "name"], rows=[3, 70_000])  # doctest: +SKIP
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from hindex.errors import ArgumentError, OrcError
from hindex.orc.io.file_system import Location, open_source
from hindex.orc.io.metrics import CountedSource, ReadCounts
from hindex.orc.io.source import ByteSource
from hindex.orc.io.thread_pool import SERIAL, ThreadPool, processors
from hindex.orc.metadata.file_tail import FileTail, StripeInformation
from hindex.orc.metadata.projection import Projection, project, project_all
from hindex.orc.metadata.stripe import Stripe
from hindex.orc.metadata.types import OrcType, arrow_field
from hindex.orc.reader.file_cache import FILE_CACHE, FileCache
from hindex.orc.reader.row_selection import RowSelection, as_rows
from hindex.orc.reader.stripe_reader import ArrayChunks, FileContext, StripeReader
from hindex.orc.time_zones import check_zone

Rows: TypeAlias = (
    BitMap | BitMap64 | np.ndarray[Any, Any] | pa.Array | Iterable[int] | Mapping[int, BitMap | Iterable[int]]
)

#: A stripe's number and the selection of its rows.
StripeSelection: TypeAlias = tuple[int, RowSelection]

#: The default number of rows of a batch.
BATCH_SIZE = 65_536

#: The approximate decompressed bytes that `OrcReader.batches` decodes at once.
_PIECE_BYTES = 32 << 20

#: The number of stripes of a remote file that are fetched and decoded at once.
_REMOTE_STRIPES = 8


class OrcReader:
    """A reader of selected rows and columns of a file, which counts its work.

    Threads may share a reader.

    *Columns* are names of top-level columns, or dotted paths to fields within structs, such as ``address.city``: a
    null struct makes its fields null. A name that contains dots has precedence over a path. The content of lists, maps
    and unions cannot be read without the whole column.

    *Rows* are row numbers in the file, from 0: a roaring bitmap, an array or other integers, or a mapping from
    stripes to the row numbers within them. Order and repetition do not matter: each row is read once, in the
    file's order. Boolean masks are refused.

    Args:
        source: a local path; a URI that pyarrow or fsspec supports; a pair of a pyarrow or fsspec file system and
            a path in it; or a `hindex.orc.io.source.ByteSource`.
        cache: the cache of metadata for later readers; by default, that of the process.
        timezone: the reader's time zone, as Java names it. With it, ``timestamp`` columns are instants, as Spark reads
            them if Java's default time zone is this one. Without it, they are wall clocks without a zone.

    Raises:
        OrcError: if the file is not a readable ORC file, or the time zone is unknown.
        ArgumentTypeError: for another source.
    """

    def __init__(
        self,
        source: Location | ByteSource,
        *,
        cache: FileCache = FILE_CACHE,
        timezone: str | None = None,
    ) -> None:
        if timezone is not None:
            check_zone(timezone)
        # isinstance() with the protocol takes longer than opening a file
        self._source = cast("ByteSource", source) if hasattr(source, "requests") else open_source(source)
        self._cache = cache
        self.counts = ReadCounts()
        counted = CountedSource(self._source, self.counts)
        self._file = FileContext(counted, cache.open(counted), self.counts, timezone)
        self.tail: FileTail = self._file.tail
        self._root = self.tail.schema if timezone is None else self.tail.schema.with_instants()

    def __repr__(self) -> str:
        return f"OrcReader({self.path!r}, {self.num_rows} rows)"

    def __enter__(self) -> OrcReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def in_time_zone(self, timezone: str | None) -> OrcReader:
        """Return a reader of the same open file for another time zone, see `OrcReader`.

        Raises:
            OrcError: if the time zone is unknown.
        """
        if timezone == self._file.timezone:
            return self
        if timezone is not None:
            check_zone(timezone)
        reader = copy.copy(self)
        reader._file = replace(self._file, timezone=timezone)
        reader._root = self.tail.schema if timezone is None else self.tail.schema.with_instants()
        return reader

    def close(self) -> None:
        self._cache.weigh(self._file.metadata)
        self._source.close()

    @property
    def path(self) -> str:
        return self.tail.path

    def has_other_mtime(self, mtime_ns: int) -> bool:
        """Return True if the modification time is not the listed one, in nanoseconds since 1970.

        Return False if the source has no times.
        """
        return self._source.has_other_mtime(mtime_ns)

    @property
    def num_rows(self) -> int:
        return self.tail.num_rows

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        return self.tail.stripes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level columns."""
        return self.tail.schema.field_names

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema(self._resolve(None))

    def column_type(self, name: str) -> OrcType:
        """Return the type of a column, by its exact name or, within structs, its dotted path.

        Raises:
            ColumnError: if there is no such column.
        """
        return project(self._root, name, self.path).data_type

    def read(
        self, columns: Sequence[str] | None = None, rows: Rows | None = None, *, threads: int | None = None
    ) -> pa.Table:
        """Read rows of the file in order.

        Args:
            columns: names or dotted paths, see `OrcReader`; all top-level columns if None.
            rows: see `OrcReader`; all rows if None.
            threads: the number of threads; the number of processors if None. Up to eight stripes of a remote file are
                fetched at once in any case.

        Raises:
            ColumnError: for an unknown column.
            ArgumentError: for rows that are outside the file or not integers.
            OrcError: if the file is corrupt where it is read.
        """
        wanted = self._resolve(columns)
        selections = [
            (stripe, selection) for stripe, selection in enumerate(self.select(rows)) if len(selection)
        ]
        schema = self._schema(wanted)
        if not selections:
            return pa.Table.from_batches([], schema)
        if not wanted:
            return pa.Table.from_batches([_no_columns(len(selection)) for _, selection in selections])
        with ThreadPool((threads or processors()) - 1) as pool:
            stripes = self._read(wanted, selections, pool)
        # many readers read only once and are never closed
        self._cache.weigh(self._file.metadata)
        columns = [
            pa.chunked_array(list(chain.from_iterable(parts)), field.type)
            for parts, field in zip(zip(*stripes, strict=True), schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        rows: Rows | None = None,
        *,
        batch_size: int = BATCH_SIZE,
    ) -> Iterator[pa.RecordBatch]:
        """Read the same rows as `read` in batches of at most ``batch_size`` rows, each from one stripe.

        Batches are slices of row groups that are decoded together: up to about 32 MiB and, unless ``batch_size``
        is greater, up to 65,536 selected rows. If only some rows are selected, columns without a row index are
        decoded one stripe at a time. The selected bytes of a stripe of a remote file are fetched together.

        Args:
            columns: as for `read`.
            rows: as for `read`.

        Raises:
            ArgumentError: if ``batch_size`` is not positive. Other errors are those of `read`, some of them raised
                during the iteration.
        """
        if batch_size < 1:
            raise ArgumentError(f"a batch has at least 1 row, not {batch_size}")
        return self._batches(self._resolve(columns), self.select(rows), batch_size)

    def _batches(
        self, columns: Sequence[Projection], selections: Sequence[RowSelection], batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        schema = self._schema(columns)
        for stripe, selection in enumerate(selections):
            if not len(selection):
                continue
            if not columns:
                for first in range(0, len(selection), batch_size):
                    yield _no_columns(min(batch_size, len(selection) - first))
                continue
            reader = StripeReader(self._file, stripe, columns, selection)
            # smaller batches would decompress the same chunks too often
            for arrays in reader.iter_batches(_PIECE_BYTES, max(batch_size, BATCH_SIZE)):
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                del arrays
                for first in range(0, batch.num_rows, batch_size):
                    yield batch.slice(first, batch_size)
                del batch

    def _read(
        self, columns: Sequence[Projection], selections: Sequence[StripeSelection], pool: ThreadPool
    ) -> list[list[ArrayChunks]]:
        """Decode columns of stripes into the parts of each stripe and column."""
        if self._file.source.is_remote:
            # the bytes of a stripe are fetched together
            def read_stripe(item: StripeSelection) -> list[ArrayChunks]:
                return StripeReader(self._file, item[0], columns, item[1]).read()

            if pool is not SERIAL and pool.size < _REMOTE_STRIPES:
                with ThreadPool(min(_REMOTE_STRIPES, len(selections)) - 1) as wider:
                    return wider.map(read_stripe, selections)
            return pool.map(read_stripe, selections)
        stripes = [StripeReader(self._file, stripe, columns, selection) for stripe, selection in selections]
        readers = [column for stripe in stripes for column in stripe.readers()]
        # the largest column first, so that the threads finish together
        order = sorted(range(len(readers)), key=lambda index: -readers[index].stored_bytes)
        parts = dict(zip(order, pool.map(lambda index: readers[index].read(), order), strict=True))
        return [
            [parts[index] for index in range(first, first + len(columns))]
            for first in range(0, len(readers), len(columns))
        ]

    def read_stripe(
        self,
        stripe: int,
        columns: Sequence[str] | None = None,
        rows: Rows | RowSelection | None = None,
        pool: ThreadPool = SERIAL,
    ) -> pa.RecordBatch:
        """Read rows of one stripe, numbered within it; all if None.

        Args:
            pool: its idle threads also decode columns.

        Raises:
            ColumnError: for an unknown column.
            ArgumentError: if the file has no such stripe.
            OrcError: if the file is corrupt where it is read.
        """
        count = self.tail.stripes[self._checked(stripe)].num_rows
        if not isinstance(rows, RowSelection):
            rows = RowSelection(count) if rows is None else RowSelection.of(rows, count)
        wanted = self._resolve(columns)
        if not wanted:
            return _no_columns(len(rows))
        schema = self._schema(wanted)
        if not len(rows):
            return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        (parts,) = self._read(wanted, [(stripe, rows)], pool)
        arrays = [_join(item, column) for item, column in zip(parts, wanted, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def bytes_to_read(self, stripe: int, columns: Sequence[str], rows: RowSelection) -> int:
        """Return the stored bytes of columns in the row groups of a stripe with selected rows.

        This reads row indexes, and no data. The ends of some compressed chunks are guessed.

        Raises:
            ColumnError: for an unknown column.
            OrcError: if the stripe's footer or row index is corrupt.
        """
        return StripeReader(self._file, self._checked(stripe), self._resolve(columns), rows).bytes_to_read()

    def stripe(self, index: int) -> Stripe:
        """Return the footer of a stripe: its streams and encodings.

        Raises:
            OrcError: if the footer is corrupt.
            ArgumentError: if the file has no such stripe.
        """
        return self._file.stripe(self._checked(index))

    def _checked(self, stripe: int) -> int:
        count = len(self.tail.stripes)
        if not 0 <= stripe < count:
            stripes = f"the stripes are 0 to {count - 1}" if count else "it has no stripes"
            raise ArgumentError(f"{self.path!r} has no stripe {stripe!r}: {stripes}")
        return stripe

    def select(self, rows: Rows | None) -> list[RowSelection]:
        """Split a selection of rows of the file by stripe."""
        counts = [stripe.num_rows for stripe in self.tail.stripes]
        if rows is None:
            return [RowSelection(count) for count in counts]
        if isinstance(rows, Mapping):
            unknown = [stripe for stripe in rows if not 0 <= stripe < len(counts)]
            if unknown:
                raise ArgumentError(f"stripe {unknown[0]} is outside the file's {len(counts)} stripes")
            return [RowSelection.of(rows.get(i, ()), count) for i, count in enumerate(counts)]
        numbers = as_rows(rows)
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= self.num_rows):
            outside = numbers[0] if numbers[0] < 0 else numbers[-1]
            raise ArgumentError(f"row {outside} is outside the file's {self.num_rows} rows")
        firsts = np.array([stripe.first_row for stripe in self.tail.stripes] + [self.num_rows], np.int64)
        cuts = np.searchsorted(numbers, firsts)
        return [
            RowSelection.of(numbers[cuts[i] : cuts[i + 1]] - firsts[i], count)
            for i, count in enumerate(counts)
        ]

    def _resolve(self, columns: Sequence[str] | None) -> list[Projection]:
        return project_all(self._root, columns, self.path)

    def _schema(self, columns: Sequence[Projection]) -> pa.Schema:
        try:
            return pa.schema([arrow_field(column.name, column.data_type) for column in columns])
        except OrcError as error:
            raise error.at(path=self.path) from error


def _join(parts: ArrayChunks, column: Projection) -> pa.Array:
    """Concatenate the parts of a column.

    Raises:
        OrcError: if they are too large for one array.
    """
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowException as error:
        raise OrcError(
            f"the selected values do not fit one array: select fewer rows ({error})", column=column.name
        ) from error


def _no_columns(rows: int) -> pa.RecordBatch:
    """Make a batch without columns, which still has a number of rows."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], children=[]))

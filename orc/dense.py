"""The dense path: pyarrow decodes a whole column of a stripe, and the wanted rows are taken.

Only columns whose values pyarrow gives as Spark does come here: its reader overflows on timestamps outside 64-bit
nanoseconds and has no unions. CHAR values are filled with blanks here. Of structs, lists and maps all leaves must be
such. Fields of structs come where no struct above is null in the stripe: they are decoded as columns at the top are.

Much that is unsound in a stripe makes its reader end the process or take memory without bound, where an error would
be in place: null keys of maps, lengths of strings and lists that are negative or very great, dictionaries that do not
fit their bytes. So :mod:`hindex.orc.vetting` must have looked at a column before it comes here.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.orc

from hindex.errors import OrcError
from hindex.orc.columns.arrays import filled
from hindex.orc.columns.temporal import rebased_dates
from hindex.orc.counts import CountedSource
from hindex.orc.elements import text_bytes, value_counts
from hindex.orc.handover import SHORT_PRECISION
from hindex.orc.held import HeldFile
from hindex.orc.leaving_out import without_others
from hindex.orc.selection import RowSelection
from hindex.orc.stripe import StreamInformation, Stripe
from hindex.orc.tail import TAIL_GUESS, FileTail
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType

#: Bytes of columns that are decoded by one call; one alone may take more.
_TOGETHER = 32 << 20

#: Bytes that threads may take at once for values that are not wanted: for each processor what one call takes, and some
#: more, as one column of texts often takes more than several of numbers may together.
_BUDGET = 3 * _TOGETHER * max(2, os.cpu_count() or 1)

#: What was decoded and is not wanted is given back where it is so many bytes, of which at most one row in so many is
#: wanted: then other columns mostly need little memory, and it would be held for nothing. It takes about a millisecond,
#: and whatever is decoded next the same way must ask the system for its memory again.
_GIVEN_BACK = 8 << 20
_RARE = 256

#: Values that may be decoded for each wanted one and do not count: they follow the size of the result.
_FREE = 4

#: About what pyarrow holds for each value while it decodes a column, by kind.
_VALUE_BYTES = {Kind.BOOLEAN: 1, Kind.BYTE: 2, Kind.SHORT: 4, Kind.INT: 8, Kind.FLOAT: 8, Kind.DATE: 8}
_WIDE_BYTES = 16
#: Of a text at least, and of one besides its own bytes.
_TEXT_BYTES = 64
_PLACE_BYTES = 24

_DENSE_KINDS = (
    INTEGER_KINDS
    | STRING_KINDS
    | {
        Kind.BOOLEAN,
        Kind.FLOAT,
        Kind.DOUBLE,
        Kind.BINARY,
        Kind.DATE,
        Kind.DECIMAL,
    }
)
#: Within composite columns there is nothing done to what pyarrow gives, and it pads these.
_LEAF_KINDS = _DENSE_KINDS - {Kind.CHAR}
_NESTED_KINDS = frozenset({Kind.STRUCT, Kind.LIST, Kind.MAP})


@dataclass(slots=True)
class _Opened:
    """A file as pyarrow reads it, for one thread at a time; of a remote one there is held what that thread decodes."""

    file: pyarrow.orc.ORCFile | None = None
    held: HeldFile | None = None


class DenseReader:
    """Reads columns of one file through pyarrow; safe to share between threads."""

    def __init__(self, source: CountedSource, tail: FileTail) -> None:
        self._source = source
        self._tail = tail
        # none may stay with a thread: those of an engine that pulls a stream are new ones to Python each time, and with
        # such a thread Python 3.11 cannot free what takes its lock, as pyarrow's files do: the process ends (gh-119585)
        self._idle: list[_Opened] = []
        self._fetched: dict[int, _Opened] = {}

    def can_read(self, name: str) -> bool:
        return name in self._readable

    @cached_property
    def _readable(self) -> frozenset[str]:
        if self._tail.encrypted_columns or self._tail.version not in ((0, 11), (0, 12)):
            return frozenset()
        return frozenset(_readable(self._tail))

    def read(
        self, stripe: Stripe, columns: Sequence[tuple[str, OrcType]], selection: RowSelection
    ) -> list[pa.Array]:
        """The wanted rows of columns, decoded together as far as memory allows.

        :raises OrcError: if pyarrow cannot decode one of them.
        """
        sizes = [self._decoded_bytes(stripe, of) for _, of in columns]
        unwanted = max(0, selection.num_rows - _FREE * len(selection))
        found: list[pa.Array] = []
        while len(found) < len(columns):
            begin = len(found)
            end = begin + 1
            while end < len(columns) and sum(sizes[begin : end + 1]) <= _TOGETHER:
                end += 1
            size = sum(sizes[begin:end]) * unwanted // max(selection.num_rows, 1)
            found += self._together(stripe.information.index, columns[begin:end], selection, size)
        return found

    @contextmanager
    def stored(self, stripe: Stripe, streams: Sequence[StreamInformation]) -> Iterator[list[memoryview]]:
        """The bytes of streams of a stripe. Those of a remote file are fetched together, with all that decoding them
        takes, and what is decoded meanwhile by this thread asks for no more.
        """
        ranges = [(stream.offset, stream.length) for stream in streams]
        if not self._source.is_remote:
            yield [self._source.peek(*item)[0][1] for item in ranges]
            return
        of = stripe.information
        wanted = [*ranges, (of.offset + of.index_length + of.data_length, of.footer_length)]
        thread = threading.get_ident()
        with self._opened() as opened:
            # what was opened outside of here asks its store for every piece
            if opened.held is None:
                opened.file, opened.held = None, HeldFile(self._source)
            if opened.file is None:
                size = max(self._tail.length, TAIL_GUESS)
                wanted.append((max(self._tail.file_length - size, 0), min(size, self._tail.file_length)))
            self._fetched[thread] = opened
            try:
                yield opened.held.hold(wanted)[: len(ranges)]
            finally:
                del self._fetched[thread]
                opened.held.let_go()

    @contextmanager
    def _opened(self) -> Iterator[_Opened]:
        """A file that no other thread uses: the one this thread has fetched for, or any that is idle."""
        fetched = self._fetched.get(threading.get_ident())
        if fetched is not None:
            yield fetched
            return
        try:
            opened = self._idle.pop()
        except IndexError:
            opened = _Opened()
        try:
            yield opened
        finally:
            self._idle.append(opened)

    def _decoded_bytes(self, stripe: Stripe, of: OrcType) -> int:
        """About what pyarrow holds of a column of a stripe while it decodes it."""
        counts = value_counts(self._tail, stripe, of)
        return sum(counts[node.column] * self._value_bytes(node) for node in of.walk())

    def _value_bytes(self, of: OrcType) -> int:
        if not _is_text(of):
            return _VALUE_BYTES.get(of.kind, _WIDE_BYTES)
        # the bytes of a text are held twice: as they were read, and as an array
        return max(_TEXT_BYTES, _PLACE_BYTES + 2 * text_bytes(self._tail, of))

    def _together(
        self, stripe: int, columns: Sequence[tuple[str, OrcType]], selection: RowSelection, size: int
    ) -> list[pa.Array]:
        with _budget.taking(size):
            arrays = self._decode(stripe, [name for name, _ in columns], selection.num_rows)
            if not selection.is_all:
                for at, array in enumerate(arrays):
                    # each decoded column goes before the next one is copied, which then takes its memory
                    arrays[at] = _taken(array, selection)
                del array
                if size >= _GIVEN_BACK and len(selection) * _RARE <= selection.num_rows:
                    pa.default_memory_pool().release_unused()
        return [self._as(of, array) for (_, of), array in zip(columns, arrays, strict=True)]

    def _as(self, of: OrcType, array: pa.Array) -> pa.Array:
        if array.type != of.to_arrow():
            if not of.is_primitive:
                raise OrcError(f"pyarrow's type {array.type} is not that of {of}", path=self._tail.path)
            array = array.cast(of.to_arrow())
        if of.kind == Kind.DATE and not self._tail.is_proleptic:
            array = rebased_dates(array)
        elif of.kind == Kind.CHAR:
            array = filled(array, of.max_length)
        return array

    def _decode(self, stripe: int, names: Sequence[str], rows: int) -> list[pa.Array]:
        told = ", ".join(names)
        try:
            self._source.read([])  # a local file that was cut short is noticed here
            with self._opened() as opened:
                if opened.file is None:
                    of = opened.held
                    opened.file = pyarrow.orc.ORCFile(
                        self._source.open_arrow() if of is None else pa.PythonFile(of, mode="r")
                    )
                batch = opened.file.read_stripe(stripe, columns=list(names))
        except (pa.ArrowException, OSError) as error:
            raise OrcError(
                f"the column cannot be decoded: {error}", path=self._tail.path, stripe=stripe, column=told
            ) from error
        if batch.num_rows != rows:
            raise OrcError(
                f"the stripe should have {rows} rows but the column has {batch.num_rows}",
                path=self._tail.path,
                stripe=stripe,
                column=told,
            )
        return [_field(batch, name) for name in names]


def _taken(array: pa.Array, selection: RowSelection) -> pa.Array:
    """The wanted values; where they are nearly all, the long runs between the others are copied at once."""
    if selection.span is not None:
        # the most of an array may as well be kept with the rest of it: taking the rows took longer than decoding all
        whole = 2 * len(selection) >= len(array)
        return array.slice(*selection.span) if whole else array.filter(selection.mask)
    return without_others(array, selection) if selection.is_nearly_all else array.take(selection.to_indices())


class _Budget:
    """Memory that threads take from for a while; they wait where it is not enough."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        with self._changed:
            # the first comer is served however much it takes, and who takes nothing whatever others have
            self._changed.wait_for(lambda: not size or not self._taken or self._taken + size <= self._size)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


_budget = _Budget(_BUDGET)


def _field(batch: pa.RecordBatch, name: str) -> pa.Array:
    top, *below = name.split(".")
    array = batch.column(top)
    for part in below:
        array = array.field(part)
    return array


def _is_text(of: OrcType) -> bool:
    return of.kind in STRING_KINDS or of.kind == Kind.BINARY


def _paths(struct: OrcType, prefix: str = "") -> Iterator[tuple[str, OrcType, bool]]:
    """The dotted paths of all fields of structs, and whether each name on the way is the only one of its struct and
    without a dot of its own.
    """
    times = Counter(struct.field_names)
    for name, of in zip(struct.field_names, struct.children, strict=True):
        plain = "." not in name and times[name] == 1
        yield prefix + name, of, plain
        if of.kind == Kind.STRUCT:
            yield from ((path, field, plain and rest) for path, field, rest in _paths(of, f"{prefix}{name}."))


def _readable(tail: FileTail) -> Iterator[str]:
    """The columns that pyarrow may decode, and fields of structs by their dotted paths."""
    found = list(_paths(tail.schema))
    times = Counter(path for path, _, _ in found)
    for path, of, plain in found:
        # pyarrow takes a dot for a nested path, and cannot tell equal names apart
        if plain and times[path] == 1 and _is_dense(of, tail):
            yield path


def _is_dense(of: OrcType, tail: FileTail) -> bool:
    """Whether pyarrow gives the values of a column as they should be."""
    kinds = _DENSE_KINDS
    if not of.is_primitive:
        kinds = _LEAF_KINDS if tail.is_proleptic else _LEAF_KINDS - {Kind.DATE}
    # a decimal without a precision is of Hive 0.11, with a scale of its own for each value; scales of long ones must be
    # looked at before pyarrow gets them
    return all(
        (
            node.kind in _NESTED_KINDS
            or (node.kind in kinds and (node.kind != Kind.DECIMAL or 0 < node.precision <= SHORT_PRECISION))
        )
        for node in of.walk()
    ) and (tail.has_fitting_scales or all(node.kind != Kind.DECIMAL for node in of.walk()))

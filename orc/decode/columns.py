"""Decoders of columns of any type at selected rows.

A child has values only if its parents are not null, and its row index counts only these. So, level by level, the
selected rows of a row group are converted to selected values of the same row group in the child's own numbering.
Source: ORC specification v1, "Column Encodings" and the sections on the types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc import kernel
from hindex.orc.decode.arrow_arrays import (
    MAX_ARRAY_BYTES,
    allocate,
    bool_array,
    check_size,
    fixed_array,
    pad_strings,
    scatter_valid,
    validity,
    with_nulls,
)
from hindex.orc.decode.positions import has_present
from hindex.orc.decode.streams import Segments, StreamReader, max_run_bytes
from hindex.orc.decode.timestamps import date_array, timestamp_array
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.stripe import StreamKind, Stripe, is_decimal64
from hindex.orc.metadata.types import BINARY_KINDS, STRING_KINDS, Kind, OrcType

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_MAX_INT32 = (1 << 31) - 1

#: All strings are shorter than this, as they fit into one array. So the sum of the lengths of a stripe's rows,
#: fewer than 2^31, is below 2^62.
_MAX_LENGTH = MAX_ARRAY_BYTES + 1

#: No stream has a value at this position; eight times as much fits into 64 bits.
_MAX_POSITION = 1 << 56

#: If lists claim more elements than this, and more per stored byte than this, the last element is decoded first.
_UNCHECKED_VALUES = 1 << 20
_VALUES_PER_BYTE = 64

_INTEGER_DTYPES = {Kind.SHORT: np.int16, Kind.INT: np.int32, Kind.LONG: np.int64}

_NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ValueSelection:
    """The selected values of a node of the type tree, without the nulls of its parents.

    They are split into segments of consecutive row groups, ``begins[s]`` to ``ends[s]``, each with at least one
    value. Segment s has the values ``bounds[s]`` to ``bounds[s + 1]``. ``positions`` are their numbers within the
    segment, ascending; None if the values are consecutive from the segment's first value on.
    """

    begins: Ints
    ends: Ints
    bounds: Ints
    positions: Ints | None

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @property
    def counts(self) -> Ints:
        """int64[S], the number of selected values of each segment."""
        return self.bounds[1:] - self.bounds[:-1]

    @property
    def values_needed(self) -> Ints:
        """int64[S], the number of values of each segment up to its last selected one."""
        return self.counts if self.positions is None else self.positions[self.bounds[1:] - 1] + 1

    def below(self, bounds: Ints, positions: Ints | None) -> ValueSelection:
        """Select values of a child in the same segments, without the empty segments."""
        kept = bounds[1:] > bounds[:-1]
        if kept.all():
            return ValueSelection(self.begins, self.ends, bounds, positions)
        return ValueSelection(
            self.begins[kept], self.ends[kept], np.append(bounds[:-1][kept], bounds[-1]), positions
        )


class ColumnDecoder:
    """A decoder of columns of one stripe with the same top-level column. Only one thread at a time may use it.

    Args:
        readers: returns the reader of a stream.
        timezone: the reader's time zone, see `hindex.orc.OrcReader`.
    """

    def __init__(
        self,
        tail: FileTail,
        stripe: Stripe,
        readers: Callable[[int, StreamKind], StreamReader],
        timezone: str | None = None,
    ) -> None:
        self._tail = tail
        self._stripe = stripe
        self._readers = readers
        self._timezone = timezone
        self._dictionaries: dict[int, tuple[Ints, Ints, Bytes | None]] = {}
        # True while a value is decoded only to check that it exists: readers do not advance
        self._is_probing = False

    def decode(self, data_type: OrcType, parents: Sequence[OrcType], selection: ValueSelection) -> pa.Array:
        """Decode a column at selected rows, which are rows of the first parent.

        Raises:
            OrcError: if the file is corrupt there.
        """
        slots: Bytes | None = None
        for parent in parents:
            if len(selection):
                valid, selection = self._present(parent, selection)
                slots = _within(valid, slots)
        return self._array(data_type, selection, slots)

    def _array(self, node: OrcType, rows: ValueSelection, slots: Bytes | None = None) -> pa.Array:
        """Decode the values of a node.

        Args:
            slots: 1 for each row in which the node's parent is not null, 0 for others, which get nulls; None if no
                parent is null.
        """
        count = len(rows) if slots is None else len(slots)
        if not len(rows):
            return pa.nulls(count, node.to_arrow())
        valid, selection = self._present(node, rows)
        valid = _within(valid, slots)
        match node.kind:
            case Kind.STRUCT:
                children = [self._array(child, selection, valid) for child in node.children]
                return pa.Array.from_buffers(node.to_arrow(), count, [validity(valid)], children=children)
            case Kind.LIST | Kind.MAP:
                return self._list(node, count, valid, selection)
            case Kind.UNION:
                return self._union(node, valid, selection)
        if not len(selection):
            return pa.nulls(count, node.to_arrow())
        return self._primitive(node, valid, selection)

    # --- streams ---

    def _read(
        self,
        node: OrcType,
        kind: StreamKind,
        selection: ValueSelection,
        decode: Callable[[Segments, Ints], int],
        max_bytes: Ints | None = None,
        *,
        fresh: bool = False,
    ) -> Segments:
        """Load the content of a stream and decode it.

        Args:
            max_bytes: int64[S], the most bytes needed of each segment; the maximum of runs if None.
            decode: receives the content, and int64[S, 2] to fill with the stops; returns a status of the kernel.
        """
        reader = self._readers(node.column, kind)
        stops = np.empty((len(selection.begins), 2), np.int64)
        try:
            if max_bytes is None:
                max_bytes = max_run_bytes(selection.values_needed)
            content = reader.segments(selection.begins, selection.ends, max_bytes, fresh=fresh)
            while True:
                status = decode(content, stops)
                more = reader.extend(content) if status & 255 == kernel.STREAM_ENDS else None
                if more is None:
                    break
                content = more
        except OrcError as error:
            raise error.at(stream=kind.name) from error
        _check(status, kind)
        if not self._is_probing:
            reader.advance(stops)
        return content

    def _decode(
        self,
        node: OrcType,
        kind: StreamKind,
        selection: ValueSelection,
        function: Callable[..., int],
        *arguments: object,
    ) -> None:
        """Decode a stream by a function of the kernel, which receives the arguments between skips and stops."""

        def decode(content: Segments, stops: Ints) -> int:
            return function(content.data, content.starts, content.limits, content.skips, *arguments, stops)

        self._read(node, kind, selection, decode)

    def _present(self, node: OrcType, rows: ValueSelection) -> tuple[Bytes | None, ValueSelection]:
        """Find the rows that are not null (uint8[N]; None if all are not), and select their values."""
        if not has_present(self._stripe, node.column):
            return None, rows
        bits, ranks, bounds = self._bits(node, StreamKind.PRESENT, rows, ranked=rows.positions is not None)
        valid = None if int(bounds[-1]) == len(rows) else bits
        return valid, rows.below(bounds, None if ranks is None else ranks[: int(bounds[-1])])

    def _bits(
        self, node: OrcType, kind: StreamKind, selection: ValueSelection, *, ranked: bool = False
    ) -> tuple[Bytes, Ints | None, Ints]:
        """Decode booleans; also return the ranks of set ones in their segment, and the bounds of set ones."""
        bits = allocate(len(selection), np.uint8)
        ranks = allocate(len(selection), np.int64) if ranked else None
        set_bounds = np.empty(len(selection.bounds), np.int64)
        arguments = selection.bounds, selection.positions, bits, ranks, set_bounds
        self._decode(node, kind, selection, kernel.decode_bits, *arguments)
        return bits, ranks, set_bounds

    def _integers(
        self, node: OrcType, kind: StreamKind, selection: ValueSelection, *, is_signed: bool
    ) -> Ints:
        values = allocate(len(selection), np.int64)
        is_v2 = self._stripe.encodings[node.column].is_v2
        arguments = selection.bounds, selection.positions, values, is_v2, is_signed
        self._decode(node, kind, selection, kernel.decode_integers, *arguments)
        return values

    def _lengths(self, node: OrcType, selection: ValueSelection) -> tuple[Ints, Ints]:
        """Decode the starts of the selected values within their segment's values, and their lengths."""
        begins, lengths = allocate(len(selection), np.int64), allocate(len(selection), np.int64)
        is_v2 = self._stripe.encodings[node.column].is_v2
        arguments = selection.bounds, selection.positions, begins, lengths, _MAX_LENGTH, is_v2
        self._decode(node, StreamKind.LENGTH, selection, kernel.decode_lengths, *arguments)
        return begins, lengths

    def _bytes(
        self, node: OrcType, kind: StreamKind, selection: ValueSelection, bounds: Ints, positions: Ints | None
    ) -> Bytes:
        values = allocate(int(bounds[-1]), np.uint8)
        self._decode(node, kind, selection, kernel.decode_bytes, bounds, positions, values)
        return values

    def _slices(self, node: OrcType, kind: StreamKind, selection: ValueSelection, sizes: Ints) -> Bytes:
        """Read the first ``sizes[s]`` bytes of each segment."""

        def decode(content: Segments, stops: Ints) -> int:
            stops[:, 0], stops[:, 1] = content.starts + sizes, 0
            return kernel.STREAM_ENDS if (stops[:, 0] > content.limits).any() else 0

        content = self._read(node, kind, selection, decode, sizes, fresh=True)
        slices = [
            content.data[begin : begin + size]
            for begin, size in zip(content.starts.tolist(), sizes.tolist(), strict=True)
        ]
        if len(slices) == 1:
            return slices[0] if content.is_owned else slices[0].copy()
        return np.concatenate(slices)

    # --- primitive types ---

    def _primitive(self, node: OrcType, valid: Bytes | None, selection: ValueSelection) -> pa.Array:
        kind, arrow = node.kind, node.to_arrow()
        if kind in _INTEGER_DTYPES:
            values = self._integers(node, StreamKind.DATA, selection, is_signed=True)
            return fixed_array(arrow, values.astype(_INTEGER_DTYPES[kind], copy=False), valid)
        if kind in STRING_KINDS or kind in BINARY_KINDS:
            is_dictionary = self._stripe.encodings[node.column].is_dictionary
            strings = (self._dictionary if is_dictionary else self._strings)(node, valid, selection)
            return pad_strings(strings, node.max_length) if kind is Kind.CHAR else strings
        match kind:
            case Kind.FLOAT | Kind.DOUBLE:
                return fixed_array(arrow, self._floats(node, selection), valid)
            case Kind.DECIMAL:
                return fixed_array(arrow, self._decimals(node, selection, arrow), valid)
            case Kind.DATE:
                days = self._integers(node, StreamKind.DATA, selection, is_signed=True)
                return date_array(days, valid, is_proleptic=self._tail.is_proleptic)
            case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
                return timestamp_array(
                    arrow,
                    self._integers(node, StreamKind.DATA, selection, is_signed=True),
                    self._integers(node, StreamKind.SECONDARY, selection, is_signed=False),
                    valid,
                    kind=Kind(self._tail.footer.types[node.column].kind),
                    writer=self._stripe.writer_timezone,
                    reader=self._timezone,
                    is_proleptic=self._tail.is_proleptic,
                )
            case Kind.BOOLEAN:
                bits, _, _ = self._bits(node, StreamKind.DATA, selection)
                return bool_array(bits, valid)
            case Kind.BYTE:
                octets = self._bytes(node, StreamKind.DATA, selection, selection.bounds, selection.positions)
                return fixed_array(arrow, octets.view(np.int8), valid)
        raise OrcError(f"type {node} is not a primitive")

    def _floats(self, node: OrcType, selection: ValueSelection) -> npt.NDArray[np.void]:
        """Gather values of a fixed width, as records of that width in bytes."""
        width = 4 if node.kind == Kind.FLOAT else 8
        if selection.positions is None:
            return self._slices(node, StreamKind.DATA, selection, selection.counts * width).view(f"V{width}")
        # a hostile file's positions may be beyond any stream
        lows = np.minimum(selection.positions, _MAX_POSITION) * width
        sizes = np.full(len(lows), width)
        data, begins = self._values(node, StreamKind.DATA, selection, lows, sizes)
        values = allocate(len(lows) * width, np.uint8)
        _check(kernel.copy_values(data, begins, sizes, values), StreamKind.DATA)
        return values.view(f"V{width}")

    def _values(
        self, node: OrcType, kind: StreamKind, selection: ValueSelection, lows: Ints, sizes: Ints
    ) -> tuple[Bytes, Ints]:
        try:
            return self._readers(node.column, kind).values(
                selection.begins, selection.ends, selection.bounds, lows, sizes
            )
        except OrcError as error:
            raise error.at(stream=kind.name) from error

    def _strings(self, node: OrcType, valid: Bytes | None, selection: ValueSelection) -> pa.Array:
        if selection.positions is None:
            lengths = self._integers(node, StreamKind.LENGTH, selection, is_signed=False)
            _check_lengths(lengths)
            ends = _starts(lengths)
            check_size(int(ends[-1]))
            text = self._slices(node, StreamKind.DATA, selection, np.diff(ends[selection.bounds]))
            return _string_array(node, lengths, ends, valid, text)
        lows, sizes = self._lengths(node, selection)
        return self._gather(node, StreamKind.DATA, selection, lows, sizes, valid)

    def _gather(
        self,
        node: OrcType,
        kind: StreamKind,
        selection: ValueSelection,
        lows: Ints,
        sizes: Ints,
        valid: Bytes | None,
        text: Bytes | None = None,
    ) -> pa.Array:
        """Build strings of ``sizes[k]`` bytes from byte ``lows[k]`` on, of ``text`` or of a stream's segments."""
        ends = _starts(sizes)
        check_size(int(ends[-1]))
        if text is None:
            text, lows = self._values(node, kind, selection, lows, sizes)
        gathered = allocate(int(ends[-1]), np.uint8)
        _check(kernel.copy_values(text, lows, sizes, gathered), kind)
        return _string_array(node, sizes, ends, valid, gathered)

    def _dictionary(self, node: OrcType, valid: Bytes | None, selection: ValueSelection) -> pa.Array:
        codes = self._integers(node, StreamKind.DATA, selection, is_signed=False)
        ends, lengths, entries = self._entries(node, len(codes))
        # as unsigned numbers: the codes of a corrupt file may be negative
        code = int(codes.view(np.uint64).max())
        if code >= len(lengths):
            raise OrcError(f"a value is entry {code} of a dictionary of {len(lengths)}", stream="DATA")
        # the codes are checked; in the mode "clip", NumPy does not check them again
        lows, sizes = ends.take(codes, mode="clip"), lengths.take(codes, mode="clip")
        whole = ValueSelection(_ZERO, _ONE, np.array([0, len(codes)]), None)
        return self._gather(node, StreamKind.DICTIONARY_DATA, whole, lows, sizes, valid, entries)

    def _entries(self, node: OrcType, values: int) -> tuple[Ints, Ints, Bytes | None]:
        """Read a dictionary: the bounds of its entries, their lengths, and their bytes.

        Args:
            values: the number of values to look up. A few values are fetched one by one from a large dictionary;
                then the bytes are None.
        """
        dictionary = self._dictionaries.get(node.column)
        is_first = dictionary is None
        if dictionary is None:
            count = self._stripe.dictionary_sizes[node.column]
            if count > max(_UNCHECKED_VALUES, _VALUES_PER_BYTE * self._stripe.data_length(node.column)):
                raise OrcError(
                    f"there should be {count} entries of a dictionary and its column has "
                    f"{self._stripe.data_length(node.column)} bytes: the file is corrupt"
                )
            lengths = _NONE
            if count:
                whole = ValueSelection(_ZERO, _ONE, np.array([0, count]), None)
                lengths = self._integers(node, StreamKind.LENGTH, whole, is_signed=False)
                _check_lengths(lengths)
            dictionary = _starts(lengths), lengths, None
        ends, lengths, entries = dictionary
        total = int(ends[-1])
        if entries is None and (total <= _SMALL_DICTIONARY or values >= len(ends) or not is_first):
            whole = ValueSelection(_ZERO, _ONE, np.array([0, 1]), None)
            entries = self._slices(node, StreamKind.DICTIONARY_DATA, whole, ends[-1:])
        self._dictionaries[node.column] = dictionary = ends, lengths, entries
        return dictionary

    def _decimals(self, node: OrcType, selection: ValueSelection, arrow: pa.DataType) -> npt.NDArray[np.void]:
        """Decode decimals of the column's scale, as records of 16 bytes."""
        words = allocate(2 * len(selection), np.int64).reshape(-1, 2)
        if is_decimal64(node, self._tail.version):
            words[:, 0] = self._integers(node, StreamKind.DATA, selection, is_signed=True)
            words[:, 1] = words[:, 0] >> 63
            return words.view("V16").ravel()
        arguments = selection.bounds, selection.positions, words
        self._decode(node, StreamKind.DATA, selection, kernel.decode_decimals, *arguments)
        scales = self._integers(node, StreamKind.SECONDARY, selection, is_signed=True)
        rest = allocate(len(scales), np.int64)
        for index in rest[: kernel.rescale(words, scales, arrow.scale, rest)].tolist():
            value = int(words[index, 1]) << 64 | int(words[index, 0]) & (1 << 64) - 1
            value = _rescale(value, arrow.scale - int(scales[index]), arrow.scale)
            low = value & (1 << 64) - 1
            words[index] = low - (1 << 64 if low >> 63 else 0), value >> 64
        return words.view("V16").ravel()

    # --- composite types ---

    def _list(self, node: OrcType, rows: int, valid: Bytes | None, selection: ValueSelection) -> pa.Array:
        sizes, below = _NONE, selection
        if len(selection):
            sizes, below = self._elements(node, selection)
        offsets = _starts(scatter_valid(sizes, valid)).astype(np.int32)
        buffers, arrow = [validity(valid), pa.py_buffer(offsets)], node.to_arrow()
        children = [self._array(child, below) for child in node.children]
        if node.kind is Kind.LIST:
            return pa.Array.from_buffers(arrow, rows, buffers, children=children)
        keys, values = children
        if keys.null_count:
            # pyarrow ends the process on a null key. Spark's reader returns any number for it, or fails, unless
            # only map_keys reads it
            raise OrcError(
                "a map of the selected rows has a null key, which Arrow cannot hold: leave out these rows or the "
                "column, or read the keys by Spark's map_keys"
            )
        entries = pa.StructArray.from_arrays([keys, values], fields=[arrow.key_field, arrow.item_field])
        return pa.Array.from_buffers(arrow, rows, buffers, children=[entries])

    def _elements(self, node: OrcType, selection: ValueSelection) -> tuple[Ints, ValueSelection]:
        """Decode the number of elements of each selected list, and select the elements."""
        if selection.positions is None:
            lengths = self._integers(node, StreamKind.LENGTH, selection, is_signed=False)
            _check_lengths(lengths)
            ends = _starts(lengths)
            self._check_elements(node, selection, int(ends[-1]), np.diff(ends[selection.bounds]))
            return lengths, selection.below(ends[selection.bounds], None)
        lows, sizes = self._lengths(node, selection)
        ends = _starts(sizes)
        last = selection.bounds[1:] - 1
        self._check_elements(node, selection, int(ends[-1]), lows[last] + sizes[last])
        positions = None
        if any(self._stored_bytes(child) for child in node.children):
            # element numbers: consecutive within a list
            positions = np.repeat(lows - ends[:-1], sizes)
            positions += np.arange(len(positions))
        return sizes, selection.below(ends[selection.bounds], positions)

    def _check_elements(
        self, node: OrcType, selection: ValueSelection, elements: int, values_needed: Ints
    ) -> None:
        """Refuse lists that claim more elements than the file has, before allocating memory for them.

        Args:
            elements: the number of elements of all selected lists.
            values_needed: int64[S], the elements of each segment's lists up to its last selected list.
        """
        if elements > _MAX_INT32:
            raise OrcError(
                f"the selected lists have {elements} elements, more than one array holds: select fewer rows",
                stream="LENGTH",
            )
        if elements <= _UNCHECKED_VALUES:
            return
        for child in node.children:
            stored = self._stored_bytes(child)
            if not stored:
                if all(item.kind is Kind.STRUCT for item in child.walk()):
                    # structs without fields and nulls need neither streams nor memory
                    continue
                raise OrcError(
                    f"there should be {elements} values and there is no stream of them: the file is corrupt"
                )
            if elements > _VALUES_PER_BYTE * stored:
                segment = int(np.argmax(values_needed))
                part = slice(segment, segment + 1)
                last = ValueSelection(
                    selection.begins[part], selection.ends[part], np.array([0, 1]), values_needed[part] - 1
                )
                self._is_probing = True
                self._probe(child, last)
                self._is_probing = False

    def _stored_bytes(self, node: OrcType) -> int:
        return sum(self._stripe.data_length(item.column) for item in node.walk())

    def _probe(self, node: OrcType, value: ValueSelection) -> None:
        """Check that one value exists by decoding it; of a list, decode only the last element.

        Decoding whole lists would check their elements in turn, and the work would double with each level.
        """
        _, value = self._present(node, value)
        if not len(value):
            return
        match node.kind:
            case Kind.STRUCT:
                for child in node.children:
                    self._probe(child, value)
            case Kind.LIST | Kind.MAP:
                lows, sizes = self._lengths(node, value)
                if int(sizes[0]):
                    for child in node.children:
                        self._probe(child, value.below(value.bounds, lows + sizes - 1))
            case Kind.UNION:
                for child, item in zip(node.children, self._variants(node, value)[1], strict=True):
                    if len(item):
                        self._probe(child, item)
            case _:
                self._primitive(node, None, value)

    def _union(self, node: OrcType, valid: Bytes | None, selection: ValueSelection) -> pa.Array:
        variants = node.children
        tags, children = np.zeros(0, np.uint8), list[pa.Array]()
        selections = [selection] * len(variants)
        if len(selection):
            tags, selections = self._variants(node, selection)
        children = [self._array(child, item) for child, item in zip(variants, selections, strict=True)]
        offsets = np.zeros(len(tags), np.int32)
        for tag in range(len(variants)):
            chosen = np.flatnonzero(tags == tag)
            offsets[chosen] = np.arange(len(chosen))
        if valid is not None:
            # Arrow's unions have no own nulls: a null is a null of the first child
            tags, offsets = scatter_valid(tags, valid), scatter_valid(offsets, valid)
            first = tags == 0
            children[0] = with_nulls(children[0], valid[first])
            offsets[first] = np.arange(len(children[0]))
        names = [f"_union_{i}" for i in range(len(children))]
        return pa.UnionArray.from_dense(
            fixed_array(pa.int8(), tags.astype(np.int8), None),
            fixed_array(pa.int32(), offsets, None),
            children,
            names,
        )

    def _variants(self, node: OrcType, selection: ValueSelection) -> tuple[Bytes, list[ValueSelection]]:
        """Decode the tags of selected values, and select the values of each variant."""
        tags, ranks = allocate(len(selection), np.uint8), allocate(len(selection), np.int64)
        arguments = selection.bounds, selection.positions, tags, ranks
        self._decode(node, StreamKind.DATA, selection, kernel.decode_tags, *arguments)
        if int(tags.max()) >= len(node.children):
            raise OrcError(
                f"a union's tag is {int(tags.max())} of {len(node.children)} children", stream="DATA"
            )
        selections = []
        for tag in range(len(node.children)):
            chosen = tags == tag
            child_bounds = _starts(chosen)[selection.bounds]
            positions = None if selection.positions is None else ranks[chosen]
            selections.append(selection.below(child_bounds, positions))
        return tags, selections


#: Dictionaries of at most this many bytes, about two chunks, are always read whole.
_SMALL_DICTIONARY = 1 << 19

_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)


def _within(valid: Bytes | None, slots: Bytes | None) -> Bytes | None:
    """Combine a mask of slots with a non-null parent and a mask of the non-null values among these."""
    if slots is None or valid is None:
        return valid if slots is None else slots
    return scatter_valid(valid, slots)


def _starts(sizes: npt.NDArray[np.generic]) -> Ints:
    """Return the starts of values of the given sizes, and the end of the last one: int64[N + 1]."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def _check(status: int, kind: StreamKind) -> None:
    """Raise the error of a kernel's status, if there is one."""
    if status:
        raise OrcError(kernel.ERRORS[status & 255], stream=kind.name)


def _check_lengths(lengths: Ints) -> None:
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) >= _MAX_LENGTH):
        raise OrcError("a length is negative or above 2^31 - 1", stream="LENGTH")


def _string_array(node: OrcType, lengths: Ints, ends: Ints, valid: Bytes | None, text: Bytes) -> pa.Array:
    if valid is not None:
        ends = _starts(scatter_valid(lengths, valid))
    buffers = [validity(valid), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(text)]
    return pa.Array.from_buffers(node.to_arrow(), len(ends) - 1, buffers)


def _rescale(value: int, shift: int, scale: int) -> int:
    """Scale a value by ``shift`` digits after the point, rounding half away from zero if digits are dropped."""
    if abs(shift) > 76:
        raise OrcError(f"a decimal of scale {scale - shift} exceeds the format's limits")
    if shift >= 0:
        value *= 10**shift
    else:
        unit = 10**-shift
        value = (abs(value) + unit // 2) // unit * (1 if value >= 0 else -1)
    if abs(value) >= 10**38:
        raise OrcError(f"a decimal does not fit precision 38 at scale {scale}")
    return value

"""Arrow arrays from decoded values and a null mask, without a copy where there are no nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import OrcError
from hindex.orc.claims import MOST_BYTES

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

#: Below this many values a Python join of slices beats a gather of single bytes.
_JOIN_BELOW = 4096


def validity(valid: Bools | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def spread(values: npt.NDArray[Any], valid: Bools | None) -> npt.NDArray[Any]:
    """Values at the slots that are not null, zeros at the others."""
    if valid is None:
        return values
    full = np.zeros(len(valid), values.dtype)
    full[valid] = values
    return full


def fixed_array(of: pa.DataType, values: npt.NDArray[Any], valid: Bools | None) -> pa.Array:
    """An array of a fixed-width type; ``values`` are those that are not null, in its physical dtype."""
    full = np.ascontiguousarray(spread(values, valid))
    return pa.Array.from_buffers(of, len(full), [validity(valid), pa.py_buffer(full)])


def bool_array(values: Bools, valid: Bools | None) -> pa.Array:
    full = spread(values, valid)
    return pa.Array.from_buffers(
        pa.bool_(), len(full), [validity(valid), pa.py_buffer(np.packbits(full, bitorder="little"))]
    )


def bytes_array(
    of: pa.DataType,
    data: Bytes,
    begins: Ints,
    lengths: Ints,
    valid: Bools | None,
    *,
    sizes: Ints | None = None,
) -> pa.Array:
    """An array of strings or binary from slices of a buffer.

    :param sizes: of the slices, where they hold many values each; otherwise each is one of ``lengths``.
    """
    total = int(lengths.sum())
    check_size(total)
    full = spread(lengths, valid)
    offsets = np.zeros(len(full) + 1, np.int32)
    np.cumsum(full, out=offsets[1:])
    return pa.Array.from_buffers(
        of,
        len(full),
        [
            validity(valid),
            pa.py_buffer(offsets),
            slices(data, begins, lengths if sizes is None else sizes, total),
        ],
    )


def check_size(total: int) -> None:
    """Refuse strings of so many bytes in one array."""
    if total > MOST_BYTES:
        raise OrcError(
            f"the selected values take {total} bytes, more than one array holds: select fewer rows"
        )


def slices(data: Bytes, begins: Ints, lengths: Ints, total: int) -> pa.Buffer:
    """The slices of a buffer, one after another."""
    if not total:
        return pa.py_buffer(b"")
    ends = begins + lengths
    # slices that follow each other in the buffer are copied as one
    breaks = np.flatnonzero(begins[1:] != ends[:-1])
    begins, ends = begins[np.concatenate(([0], breaks + 1))], ends[np.append(breaks, -1)]
    if len(begins) == 1:
        return pa.py_buffer(data[int(begins[0]) : int(ends[0])])
    if len(begins) < _JOIN_BELOW or total > 256 * len(begins):
        view = data.data
        return pa.py_buffer(
            b"".join([view[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)])
        )
    lengths = ends - begins
    moved = np.cumsum(lengths) - lengths
    at = np.repeat(begins - moved, lengths)
    at += np.arange(total)
    return pa.py_buffer(data[at])


def filled(array: pa.Array, length: int) -> pa.Array:
    """CHAR values with blanks at their end, up to so many characters: writers may leave these out, or count bytes.

    :raises OrcError: if that is more than one array holds.
    """
    characters = pc.utf8_length(array)
    least = pc.min(characters).as_py()
    if least is None or least >= length:
        return array
    # pyarrow goes by what it would be if none of them had a character
    if array.get_total_buffer_size() + len(array) * length <= MOST_BYTES:
        return pc.utf8_rpad(array, width=length, padding=" ")
    blanks = pc.max_element_wise(pc.subtract(length, characters.cast(pa.int64())), 0)
    held = pc.binary_length(array).cast(pa.int64())
    check_size(pc.sum(held).as_py() + pc.sum(blanks).as_py())
    return pc.utf8_rpad(array.cast(pa.large_utf8()), width=length, padding=" ").cast(pa.utf8())

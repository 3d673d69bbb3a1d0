"""Make Arrow arrays from decoded values and a null mask, without a copy if there are no nulls."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import OrcError
from hindex.orc import kernel

Bytes = npt.NDArray[np.uint8]

Scalar = TypeVar("Scalar", bound=np.generic)

#: The most bytes of all strings of an array.
MAX_ARRAY_BYTES = (1 << 31) - 1


def allocate(size: int, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Allocate an array of ``size`` values; a corrupt file may claim any number.

    Raises:
        OrcError: if there is not enough memory.
    """
    try:
        return np.empty(size, dtype)
    except (MemoryError, ValueError) as error:
        raise OrcError(f"there should be {size} values, more than fit in memory") from error


def validity(valid: npt.NDArray[Any] | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def scatter_valid(values: npt.NDArray[Any], valid: Bytes | None) -> npt.NDArray[Any]:
    """Return an array with values in the non-null slots, and zeros in the others.

    Args:
        valid: uint8[N], 1 for each slot that is not null; None if none is.
    """
    if valid is None:
        return values
    full = np.empty(len(valid), values.dtype)
    if len(full):
        width = values.dtype.itemsize
        source = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width)
        kernel.scatter(source, valid, full.view(np.uint8).reshape(len(full), width))
    return full


def fixed_array(data_type: pa.DataType, values: npt.NDArray[Any], valid: Bytes | None) -> pa.Array:
    """Build a fixed-width array from its non-null values, in the type's physical dtype."""
    full = np.ascontiguousarray(scatter_valid(values, valid))
    return pa.Array.from_buffers(data_type, len(full), [validity(valid), pa.py_buffer(full)])


def bool_array(values: npt.NDArray[Any], valid: Bytes | None) -> pa.Array:
    full = scatter_valid(values, valid)
    return pa.Array.from_buffers(
        pa.bool_(), len(full), [validity(valid), pa.py_buffer(np.packbits(full, bitorder="little"))]
    )


def with_nulls(array: pa.Array, valid: Bytes | None) -> pa.Array:
    """Return an array with the values in the valid slots, and nulls in the others."""
    if valid is None:
        return array
    return array.take(fixed_array(pa.int64(), np.arange(len(array)), valid))


def check_size(total: int) -> None:
    """Refuse more bytes of strings than fit into one array."""
    if total > MAX_ARRAY_BYTES:
        raise OrcError("the selected values are more than one array holds: select fewer rows")


def pad_strings(array: pa.Array, length: int) -> pa.Array:
    """Pad CHAR values with spaces to ``length`` characters: writers may omit the spaces, or count bytes.

    Raises:
        OrcError: if the result exceeds one array.
    """
    characters = pc.utf8_length(array)
    shortest = pc.min(characters).as_py()
    if shortest is None or shortest >= length:
        return array
    # pyarrow's limit counts padding as if all values were empty, with characters of four bytes
    if array.get_total_buffer_size() + 4 * len(array) * length <= MAX_ARRAY_BYTES:
        return pc.utf8_rpad(array, width=length, padding=" ")
    blanks = pc.max_element_wise(pc.subtract(length, characters.cast(pa.int64())), 0)
    stored = pc.binary_length(array).cast(pa.int64())
    check_size(pc.sum(stored).as_py() + pc.sum(blanks).as_py())
    return pc.utf8_rpad(array.cast(pa.large_utf8()), width=length, padding=" ").cast(pa.utf8())

"""A column without a few of its rows: what lies between them is copied in long runs.

A filter copies texts one by one. Where few are left out, most of the others lie in runs of many, whose bytes follow
each other: each run is moved at once, and what is done for each text is to count its place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.orc.selection import RowSelection

#: Bytes of a run, on average, from which on moving runs is quicker than a filter.
_RUN_BYTES = 512


def without_others(array: pa.Array, selection: RowSelection) -> pa.Array:
    """The wanted values of an array, which are nearly all."""
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        _, buffer, data = array.buffers()
        if data is not None and len(array):
            places: npt.NDArray[np.int32] = np.frombuffer(buffer, np.int32, len(array) + 1, 4 * array.offset)
            runs = len(array) - len(selection) + 1
            if places[-1] - places[0] >= _RUN_BYTES * runs:
                return _texts(array, places, selection)
    return array.filter(selection.mask)


def _texts(array: pa.Array, places: npt.NDArray[np.int32], selection: RowSelection) -> pa.Array:
    """The wanted texts, run by run.

    :param places: int32[N + 1], where each text begins in the array's bytes, and where the last one ends.
    """
    validity, _, data = array.buffers()
    others = selection.to_others()
    # the bytes before each row that is left out, and its own, in turn; at last those of the last run, and none
    edges = np.empty(2 * len(others) + 3, np.int64)
    edges[0], edges[1:-2:2], edges[2:-2:2], edges[-2:] = 0, others, others + 1, len(array)
    begins = places[edges]
    parts = pa.Array.from_buffers(pa.binary(), len(begins) - 1, [None, pa.py_buffer(begins), data])
    # Arrow makes room for as many parts of the average size as are taken: with the empty one in the place of each that
    # is left out, for all bytes at once
    wanted = np.full(len(begins) - 1, len(begins) - 2)
    wanted[: len(others) + 1] = np.arange(0, len(begins) - 1, 2)
    moved = parts.take(_indices(wanted))
    sizes = begins[1::2] - begins[:-1:2]
    ends = np.cumsum(sizes, dtype=np.int32)
    # how far each run moves, for each of its texts; the last one's end is the end of all
    counts = edges[1::2] - edges[:-1:2]
    counts[-1] += 1
    found = np.repeat(begins[:-1:2] - (ends - sizes), counts)
    kept = pa.Array.from_buffers(pa.int32(), len(array), [None, pa.py_buffer(places)]).filter(selection.mask)
    np.subtract(np.frombuffer(kept.buffers()[1], np.int32, len(selection)), found[:-1], out=found[:-1])
    found[-1] = ends[-1]
    if array.null_count:
        flags = pa.Array.from_buffers(pa.bool_(), len(array), [None, validity], offset=array.offset)
        validity = flags.filter(selection.mask).buffers()[1]
    else:
        validity = None
    return pa.Array.from_buffers(
        array.type, len(selection), [validity, pa.py_buffer(found), moved.buffers()[2]]
    )


def _indices(rows: npt.NDArray[np.int64]) -> pa.Array:
    """Row numbers as an Arrow array: from its buffer, as ``pyarrow.array`` would import pandas."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Bytes: TypeAlias = NDArray[np.uint8]
_Ints: TypeAlias = NDArray[np.int64]
#: Arrays of two dimensions: byte planes.
_Planes: TypeAlias = NDArray[np.uint8]

STREAM_ENDS: int
LONG_VARINT: int
BAD_PATCHES: int
BAD_SEGMENT: int
BAD_LENGTH: int
BAD_ENTRY: int
BAD_CHUNK: int
BAD_FRAME: int
BAD_ORDER: int
BAD_ROW: int

ERRORS: dict[int, str]

def decode_integers(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints | None,
    out: _Ints,
    is_v2: bool,
    is_signed: bool,
    stops: _Ints | None = None,
) -> int: ...
def decode_bytes(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints | None,
    out: _Bytes,
    stops: _Ints | None = None,
) -> int: ...
def select_bits(
    packed: _Bytes,
    firsts: _Ints,
    bounds: _Ints,
    positions: _Ints | None,
    bits: _Bytes,
    ranks: _Ints | None,
    set_bounds: _Ints,
) -> None: ...
def decode_decimals(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    bounds: _Ints,
    positions: _Ints | None,
    out: _Ints,
    stops: _Ints | None = None,
) -> int: ...
def sum_lengths(
    lengths: _Ints,
    firsts: _Ints,
    bounds: _Ints,
    positions: _Ints,
    begins: _Ints,
    selected: _Ints,
    longest: int,
) -> int: ...
def copy_values(data: _Bytes, begins: _Ints, lengths: _Ints, out: _Bytes) -> int: ...
def measure_entries(ends: _Ints, codes: _Ints, valid: _Bytes | None, offsets: NDArray[np.int32]) -> int: ...
def copy_entries(data: _Bytes, ends: _Ints, codes: _Ints, out: _Bytes) -> int: ...
def scatter(values: _Bytes, valid: _Bytes, out: _Bytes) -> None: ...
def list_chunks(
    data: _Bytes,
    begins: _Ints,
    ends: _Ints,
    extras: _Ints,
    offsets: _Ints,
    lengths: _Ints,
    originals: _Bytes,
) -> int: ...
def measure_frames(data: _Bytes, offsets: _Ints, lengths: _Ints, originals: _Bytes, sizes: _Ints) -> int: ...
def rescale(words: _Ints, scales: _Ints, scale: int, rest: _Ints) -> int: ...
def sum_planes(planes: _Planes, before: int, out: _Ints) -> int: ...
def unpack_rows(
    firsts: _Planes,
    gaps: _Planes,
    starts: NDArray[np.int32],
    outside: _Ints,
    numbers: _Ints,
    is_delta: bool,
    total: int,
    out: NDArray[np.uint32],
) -> int: ...

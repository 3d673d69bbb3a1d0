from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Bytes: TypeAlias = NDArray[np.uint8]
_Ints: TypeAlias = NDArray[np.int64]

STREAM_ENDS: int
LONG_VARINT: int
BAD_PATCHES: int
BAD_SEGMENT: int
BAD_LENGTH: int
BAD_CHUNK: int
BAD_FRAME: int
BAD_ORDER: int
BAD_ROW: int
BAD_BLOCK: int
BAD_LEAF: int
BAD_KEYS: int
BAD_COUNTS: int
BAD_POINTERS: int
BAD_CONTENT: int
SHORT_CONTENT: int
BAD_BLOCK_SIZE: int
INSIDE_CHUNK: int
BEYOND_CHUNK: int
SNAPPY: int
ZSTD: int

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
def decode_bits(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints | None,
    bits: _Bytes,
    ranks: _Ints | None,
    set_bounds: _Ints,
    stops: _Ints | None = None,
) -> int: ...
def decode_tags(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints | None,
    tags: _Bytes,
    ranks: _Ints,
    stops: _Ints | None = None,
) -> int: ...
def decode_decimals(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints | None,
    out: _Ints,
    stops: _Ints | None = None,
) -> int: ...
def decode_lengths(
    data: _Bytes,
    starts: _Ints,
    limits: _Ints,
    skips: _Ints | None,
    bounds: _Ints,
    positions: _Ints,
    begins: _Ints,
    selected: _Ints,
    longest: int,
    is_v2: bool,
    stops: _Ints | None = None,
) -> int: ...
def copy_values(data: _Bytes, begins: _Ints, lengths: _Ints, out: _Bytes) -> int: ...
def scatter(values: _Bytes, valid: _Bytes, out: _Bytes) -> None: ...
def list_chunks(
    data: _Bytes,
    begins: _Ints,
    ends: _Ints,
    extras: _Ints,
    codec: int,
    zstd: NDArray[np.uint64] | None,
    offsets: _Ints,
    lengths: _Ints,
    originals: _Bytes,
    sizes: _Ints,
) -> int: ...
def count_fields(data: _Bytes, kinds: _Ints, limit: int) -> int: ...
def select_chunks(
    offsets: _Ints,
    sizes: _Ints,
    begins: _Ints,
    inners: _Ints,
    ends: _Ints,
    end_inners: _Ints,
    has_tails: _Bytes,
    max_bytes: _Ints,
    extras: int,
    max_tail: int,
    block_size: int,
    firsts: _Ints,
    lasts: _Ints,
    wanted: _Ints,
    needed: _Ints,
) -> int: ...
def select_values(
    offsets: _Ints,
    edges: _Ints,
    begins: _Ints,
    inners: _Ints,
    ends: _Ints,
    bounds: _Ints,
    lows: _Ints,
    lengths: _Ints,
    wanted: _Ints,
    heads: _Ints,
    chunk_offsets: _Ints,
) -> int: ...
def decompress_chunks(
    data: _Bytes,
    offsets: _Ints,
    lengths: _Ints,
    originals: _Bytes,
    sizes: _Ints,
    wanted: _Ints,
    needed: _Ints,
    zstd: NDArray[np.uint64] | None,
    decompress: Callable[[int, int, int], int] | None,
    out: _Bytes,
    begins: _Ints,
    loaded: _Ints,
    counts: _Ints,
) -> int: ...
def rescale(words: _Ints, scales: _Ints, scale: int, rest: _Ints) -> int: ...
def list_leaf_blocks(data: _Bytes, ends: _Ints, has_bytes: bool, heads: _Ints, blocks: _Ints) -> int: ...
def find_rows(
    data: _Bytes,
    contents: _Bytes,
    heads: _Ints,
    blocks: _Ints,
    total: int,
    begins: _Ints,
    ends: _Ints,
    lows: _Ints,
    highs: _Ints | None,
    low_bytes: _Bytes | None,
    high_bytes: _Bytes | None,
    open_range: int,
    scratch: _Ints,
    keys: _Ints,
    key_bytes: _Bytes | None,
    counts: _Ints,
    rows: NDArray[np.uint32] | None,
    outside: _Ints,
    sizes: _Ints,
) -> int: ...
def mark_ngrams(
    characters: _Bytes,
    ends: _Ints,
    block_rows: int,
    first_block: int,
    ranks: _Bytes,
    bits: int,
    low: int,
    last_blocks: NDArray[np.uint32],
    positions: NDArray[np.uint32],
    blocks: NDArray[np.uint32] | None,
) -> None: ...

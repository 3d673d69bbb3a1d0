"""The n-grams of strings: all sequences of three characters, each folded to a byte.

Letters are folded to lower case, and characters outside ASCII to 128 classes. Each character is folded
independently of its context. So a string that contains a substring, in any letter case, has all n-grams of that
substring.

>>> ngrams("Smith")
[b'ith', b'mit', b'smi']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.index.leaf_page import ByteKeys
from hindex.orc import kernel
from hindex.value_class import value_class

#: The number of characters of an n-gram.
SIZE = 3

#: About how many characters are folded at once.
_CHUNK_CHARACTERS = 1 << 22
#: N-grams are sorted if there are fewer characters than one per so many possible n-grams: counting takes longer.
_FEW_CHARACTERS = 16
#: The most pairs of an n-gram and a block that are listed at once, four bytes each.
_MAX_PAIRS = 1 << 25

#: Bytes from here on are classes of characters.
_CLASSES = 0x80
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += ord("a") - ord("A")
#: The only character whose lower case is two characters, in UTF-8.
_DOTTED_I = "İ".encode()
#: From this code point on, only characters without case are stable in all versions of Unicode; below, nearly all.
_LAST_CASED = 0x0530
_NEWLY_CASED = frozenset("ƛɤ")
#: Stands for bytes that are not UTF-8: decoders write different numbers of it.
_REPLACEMENT = "\ufffd"

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
UInt32s = npt.NDArray[np.uint32]


def ngrams(text: str) -> list[bytes]:
    """Return the sorted n-grams that every string containing ``text`` has; [] if it is too short.

    N-grams with letters whose lower case depends on the version of Unicode are left out: the writer of an index,
    its reader and Spark may use different versions.
    """
    characters = _lower(text)
    is_usable = [character != _REPLACEMENT and has_stable_case(character) for character in characters]
    folded = _fold(characters).tobytes()
    starts = range(len(folded) - SIZE + 1)
    return sorted({folded[at : at + SIZE] for at in starts if all(is_usable[at : at + SIZE])})


def has_stable_case(character: str) -> bool:
    """Return True if the lower and upper case of a character are the same in all versions of Unicode."""
    code, category = ord(character), unicodedata.category(character)
    if code < _LAST_CASED:
        return category != "Cn" and character not in _NEWLY_CASED
    has_case = character.lower() != character or character.upper() != character
    return not has_case and (category not in ("Ll", "Lu", "Lt", "Lm", "Cn") or _is_noncharacter(code))


def _is_noncharacter(code: int) -> bool:
    """Return True if Unicode will never assign a code point."""
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _lower(text: str) -> str:
    # the lower case of a capital sigma depends on its context
    return text.lower().replace("ς", "σ")


def _fold(lower: str) -> Bytes:
    """Return the byte of each character of a lower-case string."""
    characters = np.frombuffer(lower.encode("utf-32-le", "surrogatepass"), "<u4")
    return np.where(characters < _CLASSES, characters, _CLASSES | (characters % _CLASSES)).astype(np.uint8)


@value_class
class NgramBlocks:
    """Some n-grams, ascending, each with the blocks of rows that have it.

    Attributes:
        starts: int64, one more than n-grams: the blocks of n-gram ``i`` are ``blocks[starts[i]:starts[i + 1]]``.
        blocks: uint32, ascending for each n-gram.
    """

    keys: ByteKeys
    starts: Int64s
    blocks: UInt32s


def block_ngrams(array: pa.Array, block_rows: int) -> Iterator[NgramBlocks]:
    """Yield the n-grams of a stripe's strings with their blocks, in one or more pieces of ascending n-grams.

    Args:
        array: strings; bytes that are not UTF-8 match no character of `ngrams`.
        block_rows: the rows of a block.
    """
    strings = _Strings(array, block_rows)
    byte_counts = np.zeros(256, np.int64)
    for characters, _, _ in strings.chunks():
        byte_counts += np.bincount(characters, minlength=256)
    alphabet = np.unique(_LOWER[np.flatnonzero(byte_counts)])
    # n-grams are numbered by the used characters only, so that their counts stay in the processor's cache
    bits = max((len(alphabet) - 1).bit_length(), 1)
    ranks = np.zeros(256, np.uint8)
    ranks[alphabet] = np.arange(len(alphabet))
    # capital letters have the numbers of small ones
    ranks = ranks[_LOWER]
    if byte_counts.sum() < (1 << (SIZE * bits)) // _FEW_CHARACTERS:
        numbers, starts, blocks = strings.sorted_blocks(ranks, bits)
        yield NgramBlocks(_keys(numbers, alphabet, bits), starts, blocks)
        return
    counts = np.zeros(1 << (SIZE * bits), np.uint32)
    strings.mark(ranks, bits, 0, counts, None)
    numbers = np.flatnonzero(counts)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[numbers], dtype=np.int64)])
    start = 0
    while start < len(numbers):
        end = max(int(np.searchsorted(ends, ends[start] + _MAX_PAIRS, "right")) - 1, start + 1)
        part, starts = numbers[start:end], ends[start : end + 1] - ends[start]
        low = int(part[0])
        positions = np.zeros(int(part[-1]) - low + 1, np.uint32)
        positions[part - low] = starts[:-1]
        blocks = np.empty(int(starts[-1]), np.uint32)
        strings.mark(ranks, bits, low, positions, blocks)
        yield NgramBlocks(_keys(part, alphabet, bits), starts, blocks)
        start = end


def _keys(numbers: Int64s, alphabet: Bytes, bits: int) -> ByteKeys:
    """Return the n-grams of some numbers."""
    ranks = np.stack([(numbers >> (bits * at)) & ((1 << bits) - 1) for at in reversed(range(SIZE))], axis=1)
    return ByteKeys(np.arange(len(numbers) + 1) * SIZE, alphabet[ranks].tobytes())


class _Strings:
    """The strings of a stripe, which are folded chunk by chunk."""

    def __init__(self, array: pa.Array, block_rows: int) -> None:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if array.null_count:
            array = array.fill_null("")
        array = array.cast(pa.large_binary())
        self._block_rows = block_rows
        _, offsets, data = array.buffers()
        self._offsets = np.frombuffer(offsets, np.int64, count=len(array) + 1, offset=8 * array.offset)
        self._data = np.frombuffer(data if data is not None else b"", np.uint8)

    def chunks(self) -> Iterator[tuple[Bytes, Int64s, int]]:
        """Yield all strings in chunks of whole blocks: their bytes, the end of each, and the first block's number.

        Strings are folded, except for ASCII capital letters.
        """
        rows = len(self._offsets) - 1
        start = 0
        while start < rows:
            full = int(np.searchsorted(self._offsets, self._offsets[start] + _CHUNK_CHARACTERS, "right")) - 1
            end = min(start + max((full - start) // self._block_rows, 1) * self._block_rows, rows)
            yield (*self._folded(start, end), start // self._block_rows)
            start = end

    def mark(self, ranks: Bytes, bits: int, low: int, positions: UInt32s, blocks: UInt32s | None) -> None:
        """Count the blocks of the n-grams from ``low`` on in ``positions``, or list them.

        Args:
            positions: for each n-gram, the number of its blocks so far, or the position of the next block.
            blocks: receives the blocks; None to count them.
        """
        last_blocks = np.zeros(len(positions), np.uint32)
        for characters, ends, first in self.chunks():
            kernel.mark_ngrams(
                characters, ends, self._block_rows, first, ranks, bits, low, last_blocks, positions, blocks
            )

    def sorted_blocks(self, ranks: Bytes, bits: int) -> tuple[Int64s, Int64s, UInt32s]:
        """List the blocks by sorting; return the n-grams' numbers, the starts of their blocks, and the blocks."""
        pairs = [np.zeros(0, np.int64)]
        for characters, ends, first in self.chunks():
            if len(characters) < SIZE:
                continue
            ranked = ranks[characters].astype(np.int64)
            numbers = (ranked[:-2] << (2 * bits)) | (ranked[1:-1] << bits) | ranked[2:]
            lengths = np.diff(ends, prepend=0)
            rows = np.repeat(np.arange(len(ends)), lengths)
            is_within = rows[: len(numbers)] == rows[SIZE - 1 :]
            blocks = first + rows[: len(numbers)] // self._block_rows
            pairs.append((numbers << 32 | blocks)[is_within])
        distinct = np.unique(np.concatenate(pairs))
        numbers, counts = np.unique(distinct >> 32, return_counts=True)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return numbers, starts, (distinct & 0xFFFFFFFF).astype(np.uint32)

    def _folded(self, start: int, end: int) -> tuple[Bytes, Int64s]:
        """Return the bytes of some strings, and the end of each."""
        offsets = self._offsets[start : end + 1] - self._offsets[start]
        data = self._data[self._offsets[start] : self._offsets[end]]
        if not len(data) or int(data.max()) < _CLASSES:
            return data, offsets[1:]
        is_first = data & 0xC0 != 0x80
        content = data.tobytes()
        # a string that begins within a character would complete one of the string before
        if is_first[offsets[:-1][np.diff(offsets) > 0]].all() and _DOTTED_I not in content:
            try:
                text = content.decode()
            except UnicodeDecodeError:
                pass
            else:
                return _fold(_lower(text)), np.cumsum(is_first)[offsets[1:] - 1] * (offsets[1:] > 0)
        texts = [
            _lower(content[low:high].decode(errors="replace")) for low, high in pairwise(offsets.tolist())
        ]
        return _fold("".join(texts)), np.cumsum([len(text) for text in texts])

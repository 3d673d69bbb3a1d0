"""The chunks of a stream of which something is wanted, decompressed all at once, and none further than is wanted."""

from __future__ import annotations

import numpy as np

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Chunk, Decompressor, chunk_end
from hindex.orc.encoding.buffers import PADDING
from hindex.orc.fetched import Fetched
from hindex.orc.places import Bytes, Ints

#: Bytes after a chunk's header that tell the length of its content, for codecs that do.
SIZE_BYTES = 18

#: Where chunks do not tell their size, those that would be packed tighter than this are looked at first.
_LIKELY_RATIO = 64


class WantedChunks:
    """Chunks by ordinals, which are given as they are asked for."""

    def __init__(self, fetched: Fetched, decompressor: Decompressor) -> None:
        self._fetched = fetched
        self._decompressor = decompressor
        self._chunks: list[Chunk] = []
        self._wanted: list[int] = []
        self._by_offset: dict[int, int] = {}
        self._whole: dict[int, Bytes] = {}

    def __getitem__(self, ordinal: int) -> Chunk:
        return self._chunks[ordinal]

    def known(self, offset: int) -> int:
        """The ordinal of the chunk whose header is at ``offset``; -1 if nobody has asked for it."""
        return self._by_offset.get(offset, -1)

    def at(self, offset: int) -> int:
        """The ordinal of the chunk whose header is at ``offset``."""
        found = self._by_offset.get(offset)
        if found is None:
            chunk = self._fetched.chunk(offset, self._decompressor)
            found = self._by_offset[offset] = len(self._chunks)
            self._chunks.append(chunk)
            self._wanted.append(0)
        return found

    def want(self, ordinal: int, until: int) -> None:
        if until > self._wanted[ordinal]:
            self._wanted[ordinal] = until

    def size(self, ordinal: int) -> int:
        """A chunk's content length, decompressing it where nothing else tells."""
        chunk = self._chunks[ordinal]
        if chunk.size is not None:
            return chunk.size
        return len(self.content(ordinal))

    def content(self, ordinal: int) -> Bytes:
        """All of a chunk's content; it is not decompressed again when it is loaded."""
        whole = self._whole.get(ordinal)
        if whole is None:
            chunk = self._chunks[ordinal]
            out = np.empty(self._decompressor.block_size if chunk.size is None else chunk.size, np.uint8)
            whole = out[: self._decompressor.into(chunk, out)]
            if len(whole) < len(out) // 2:
                whole = whole.copy()  # so that what was not filled can be freed
            self._whole[ordinal] = whole
        return whole

    def outline(self, offset: int) -> tuple[int, int]:
        """A chunk's content length, and where it ends; its body is not asked for where its head tells."""
        ordinal = self._by_offset.get(offset)
        if ordinal is None:
            fetched = self._fetched
            head = fetched.outline(offset, HEADER_LENGTH + SIZE_BYTES)
            size = self._decompressor.size_of(head)
            if size is not None:
                return size, chunk_end(head, offset, fetched.length)
            ordinal = self.at(offset)
        return self.size(ordinal), self._chunks[ordinal].end

    def _most(self, ordinal: int) -> int:
        """A bound of a chunk's content, which memory is set aside for."""
        chunk = self._chunks[ordinal]
        if chunk.size is not None:
            return chunk.size
        if ordinal in self._whole or len(chunk.body) * _LIKELY_RATIO < self._decompressor.block_size:
            return self.size(ordinal)
        return self._decompressor.block_size

    def load(self) -> tuple[Bytes, Ints, Ints]:
        """Decompress the wanted chunks into one buffer; where each begins there, and how much of it there is."""
        sizes = [
            min(wanted, self._most(ordinal)) if wanted else 0 for ordinal, wanted in enumerate(self._wanted)
        ]
        bases = np.zeros(len(sizes), np.int64)
        lengths = np.zeros(len(sizes), np.int64)
        # in the stream's order, as a span may go on from one chunk to the next
        ordinals = sorted(range(len(sizes)), key=lambda i: self._chunks[i].offset)
        joined = None
        if not self._whole:
            joined = self._decompressor.together(
                [self._chunks[i] for i in ordinals], [sizes[i] for i in ordinals]
            )
        if joined is not None:
            buffer, begins = joined
            bases[ordinals] = begins
            lengths[ordinals] = [sizes[i] for i in ordinals]
            return buffer, bases, lengths
        buffer, at = np.empty(sum(sizes) + PADDING, np.uint8), 0
        for ordinal in ordinals:
            bases[ordinal] = at
            if sizes[ordinal]:
                lengths[ordinal] = self._put(ordinal, buffer[at : at + sizes[ordinal]])
                at += int(lengths[ordinal])
        buffer[at : at + PADDING] = 0
        return buffer[: at + PADDING], bases, lengths

    def _put(self, ordinal: int, out: Bytes) -> int:
        """Fill ``out`` with the beginning of a chunk's content; the bytes written."""
        whole = self._whole.get(ordinal)
        if whole is not None:
            count = min(len(out), len(whole))
            out[:count] = whole[:count]
            return count
        chunk = self._chunks[ordinal]
        count = self._decompressor.into(chunk, out)
        if count < len(out) and chunk.size is not None:
            raise OrcError(
                f"the chunk at byte {chunk.offset} ends after {count} bytes and claims {chunk.size}"
            )
        return count

"""The bytes of a stream that have been fetched, and the rest that can be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Chunk, Decompressor, chunk_end
from hindex.orc.runs import Runs

Range = tuple[int, int]


class Fetched:
    """The bytes of one stream that have been fetched, and a way to more.

    :param length: of the stream; offsets are counted from its start.
    :param load: reads ranges of the stream; None if there are no bytes to read.
    :param bounds: where chunks are known to begin, ascending.
    :param is_dense: whether ``bounds`` are taken for all chunks of the stream. Where that is wrong, more is
        fetched than is needed.
    :param is_remote: whether it pays to know early, and together, what will be wanted.
    :param runs: how its runs are encoded, if it has any.
    :param mapped: the whole stream, in pieces and where each begins, where reading a byte costs nothing before it is
        used; it is counted then. No chunk goes from one piece to the next.
    :param count: is told how many bytes of ``mapped`` are used.
    """

    __slots__ = (
        "_begins",
        "_count",
        "_counted",
        "_load",
        "_offsets",
        "_views",
        "bounds",
        "heads",
        "is_dense",
        "is_mapped",
        "is_remote",
        "length",
        "runs",
    )

    def __init__(
        self,
        length: int,
        load: Callable[[Sequence[Range]], Sequence[memoryview]] | None = None,
        *,
        bounds: Sequence[int] = (),
        is_dense: bool = False,
        is_remote: bool = False,
        runs: Runs = Runs.INTEGERS_V2,
        mapped: Sequence[tuple[int, memoryview]] = (),
        count: Callable[[int], None] | None = None,
    ) -> None:
        self.length = length
        self.bounds = bounds
        self.is_dense = is_dense
        self.is_remote = is_remote
        self.is_mapped = bool(mapped)
        self.runs = runs
        #: The first bytes of chunks that were looked at before they were fetched.
        self.heads: dict[int, memoryview] = {}
        self._load = load
        self._count = count
        self._counted: set[int] = set()
        self._offsets = [offset for offset, _ in mapped]
        self._views = [view for _, view in mapped]
        self._begins = self._offsets[1:]

    def use(self, offset: int, length: int) -> None:
        """Count bytes that are used, those from one offset on once."""
        if self._count is not None and offset not in self._counted:
            self._counted.add(offset)
            self._count(length)

    def bound(self, offset: int, block_size: int) -> int:
        """Where the chunk at an offset ends at the latest."""
        at = bisect_right(self.bounds, offset)
        known = self.bounds[at] if at < len(self.bounds) else self.length
        return min(known, offset + HEADER_LENGTH + block_size, self.length)

    def end(self, offset: int) -> int:
        """Where the piece ends at the latest that has the byte at an offset."""
        if not self._begins:
            return self.length
        at = bisect_right(self._begins, offset)
        return self._begins[at] if at < len(self._begins) else self.length

    def missing(self, ranges: Iterable[Range]) -> list[Range]:
        """The ranges, or what is left of them, that have not been fetched."""
        found = []
        for offset, length in ranges:
            end = min(offset + length, self.length)
            while offset < end:
                at = bisect_right(self._offsets, offset)
                held = self._offsets[at - 1] + len(self._views[at - 1]) if at else 0
                if held > offset:
                    offset = held
                    continue
                until = min(end, self._offsets[at]) if at < len(self._offsets) else end
                found.append((offset, until - offset))
                offset = until
        return found

    def put(self, offset: int, view: memoryview) -> None:
        """Keep the bytes of a range that was missing."""
        at = bisect_right(self._offsets, offset)
        self._offsets.insert(at, offset)
        self._views.insert(at, view)

    def ensure(self, ranges: Iterable[Range]) -> None:
        """Fetch, together, what is missing of some ranges."""
        wanted = self.missing(ranges)
        if wanted:
            for (offset, _), view in zip(wanted, self.read(wanted), strict=True):
                self.put(offset, view)

    def look_at(self, offsets: Sequence[int], length: int) -> None:
        """Fetch, together, the first ``length`` bytes of chunks, or all of shorter ones, that are not there."""
        wanted = sorted({at for at in offsets if at not in self.heads and self.missing([(at, length)])})
        if wanted:
            ranges = [(at, min(length, self.length - at)) for at in wanted]
            self.heads.update(zip(wanted, self.read(ranges), strict=True))

    def read(self, ranges: Sequence[Range]) -> Sequence[memoryview]:
        """Ranges of the stream, read and not kept."""
        if self._load is None:
            raise OrcError(
                f"a position points to byte {ranges[0][0]} of a stream that the stripe does not have"
            )
        return self._load(ranges)

    def forget(self, before: int) -> None:
        """Drop the pieces that end before an offset."""
        kept = [i for i, at in enumerate(self._offsets) if at + len(self._views[i]) > before]
        self._offsets = [self._offsets[i] for i in kept]
        self._views = [self._views[i] for i in kept]
        self.heads.clear()

    def bytes(self, offset: int, length: int) -> memoryview:
        """Some bytes, fetched if they are not there."""
        if offset < 0 or offset + length > self.length:
            raise OrcError(
                f"bytes {offset} to {offset + length} are wanted of a stream of {self.length} bytes"
            )
        view = self._piece(offset)
        if len(view) >= length:
            return view[:length]
        self.ensure([(offset, length)])
        view = self._piece(offset)
        if len(view) >= length:
            return view[:length]
        pieces = []
        while length:
            view = self._piece(offset)[:length]
            pieces.append(view)
            offset, length = offset + len(view), length - len(view)
        return memoryview(b"".join(pieces))

    def _piece(self, offset: int) -> memoryview:
        """What is there from an offset on, without a break."""
        at = bisect_right(self._offsets, offset) - 1
        return self._views[at][offset - self._offsets[at] :] if at >= 0 else memoryview(b"")

    def head(self, offset: int) -> memoryview:
        """The first bytes of the chunk at an offset: its header, and more where that costs nothing."""
        if offset < 0 or offset >= self.length:
            raise OrcError(f"a position points to byte {offset}, outside the stream's {self.length} bytes")
        view = self._piece(offset)
        if len(view) < HEADER_LENGTH:
            view = self.heads.get(offset, view)
        return (
            view
            if len(view) >= HEADER_LENGTH
            else self.bytes(offset, min(HEADER_LENGTH, self.length - offset))
        )

    def outline(self, offset: int, length: int) -> memoryview:
        """The first ``length`` bytes of the chunk at an offset, or as many as there are; its body is not fetched."""
        view = self._piece(offset)
        if len(view) >= length:
            return view
        self.look_at([offset], length)
        head = self.heads.get(offset)
        # what is there of it may be in several pieces
        return self.bytes(offset, min(length, self.end(offset) - offset)) if head is None else head

    def chunk(self, offset: int, decompressor: Decompressor) -> Chunk:
        """The chunk whose header is at an offset."""
        view = self._piece(offset)
        if self.is_dense and not len(view):
            self.ensure([(offset, self.bound(offset, decompressor.block_size) - offset)])
        elif len(view) >= HEADER_LENGTH:
            # mostly all of it is there, in one piece
            length = chunk_end(view, offset, self.end(offset)) - offset
            if length <= len(view):
                self.use(offset, length)
                return decompressor.chunk(view[:length], offset)
        end = chunk_end(self.head(offset), offset, self.end(offset))
        self.use(offset, end - offset)
        return decompressor.chunk(self.bytes(offset, end - offset), offset)

"""An ORC file as the messages and plain streams that it is made of, and back again in any codec and chunk size.

What is changed in between is encoded anew with all lengths, offsets and positions in agreement, so that a damage
reaches the code behind the first checks. `Hooks` may damage what is about to be written, after that.
"""

from __future__ import annotations

import copy
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import cramjam
import lzallright
import zstandard
from google.protobuf.message import Message

from hindex.orc.decode.positions import stream_layout
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.file_tail import read_tail
from hindex.orc.metadata.stripe import EncodingKind, StreamKind
from hindex.orc.metadata.types import OrcType
from hindex.proto import orc_metadata_pb2 as pb

MAGIC = b"ORC"


@dataclass(slots=True)
class StripeParts:
    """A stripe's footer and the plain content of its streams, in the footer's order."""

    footer: pb.StripeFooter
    streams: list[bytes]
    num_rows: int


@dataclass(slots=True)
class FileParts:
    """The messages and stripes of a file that was written without compression."""

    postscript: pb.PostScript
    footer: pb.Footer
    metadata: pb.Metadata
    stripes: list[StripeParts]
    schema: OrcType

    def copy(self) -> FileParts:
        return FileParts(
            *copy.deepcopy((self.postscript, self.footer, self.metadata, self.stripes)), self.schema
        )


@dataclass(slots=True)
class Hooks:
    """Functions that damage a file as it is written.

    ``message`` gets each message, named, right before it is encoded; ``chunk`` a stored chunk with its header, and
    gives what is written instead. ``cut`` gets a stream's plain content and the block size, and gives the content of
    its chunks and whether each is stored as it is, or None for what a writer does.
    """

    message: Callable[[str, Message], None] = lambda name, message: None
    chunk: Callable[[bytes], bytes] = lambda chunk: chunk
    cut: Callable[[bytes, int], Sequence[tuple[bytes, bool | None]]] | None = None


def take_apart(data: bytes) -> FileParts:
    """The parts of a file without compression."""
    tail = read_tail(BytesSource(data))
    assert tail.codec is None, "only positions of uncompressed files can be recounted"
    length = data[-1]
    postscript = pb.PostScript.FromString(data[-1 - length : -1])
    metadata = pb.Metadata.FromString(tail.metadata)
    stripes = []
    for stripe in tail.stripes:
        at = stripe.offset
        end = at + stripe.index_length + stripe.data_length
        footer = pb.StripeFooter.FromString(data[end : end + stripe.footer_length])
        streams = []
        for stream in footer.streams:
            streams.append(data[at : at + stream.length])
            at += stream.length
        stripes.append(StripeParts(footer, streams, stripe.num_rows))
    return FileParts(postscript, tail.footer, metadata, stripes, tail.schema)


def joined(files: Sequence[FileParts]) -> FileParts:
    """The stripes of files of one schema, one after the other."""
    result = files[0].copy()
    for part in files[1:]:
        result.stripes += part.copy().stripes
        result.metadata.stripe_stats.extend(part.metadata.stripe_stats)
    return result


def put_together(
    parts: FileParts, codec: int = 0, block_size: int = 1 << 16, hooks: Hooks | None = None
) -> bytes:
    """A file of these parts, its lengths and offsets made to fit.

    Args:
        codec: the number of a ``CompressionKind``.
    """
    return _Writer(codec, block_size, hooks or Hooks()).file(parts)


@dataclass(slots=True)
class _Stored:
    """A stream as it is stored, where its chunks begin, and where their content does, its end behind them."""

    data: bytes
    starts: list[int] = field(default_factory=list)
    contents: list[int] = field(default_factory=list)


class _Writer:
    def __init__(self, codec: int, block_size: int, hooks: Hooks) -> None:
        self._codec = codec
        self._block_size = block_size
        self._hooks = hooks

    def file(self, parts: FileParts) -> bytes:
        content = bytearray(MAGIC)
        footer = pb.Footer()
        footer.CopyFrom(parts.footer)
        del footer.stripes[:]
        for stripe in parts.stripes:
            self._stripe(stripe, parts, content, footer)
        footer.header_length, footer.content_length = len(MAGIC), len(content)
        footer.number_of_rows = sum(stripe.num_rows for stripe in parts.stripes)
        # hooks change what they get
        statistics = pb.Metadata()
        statistics.CopyFrom(parts.metadata)
        metadata = self._section("metadata", statistics)
        tail = self._section("footer", footer)
        postscript = pb.PostScript()
        postscript.CopyFrom(parts.postscript)
        postscript.footer_length, postscript.metadata_length = len(tail), len(metadata)
        postscript.compression, postscript.compression_block_size = self._codec, self._block_size
        self._hooks.message("postscript", postscript)
        end = postscript.SerializeToString()[:255]
        return bytes(content) + metadata + tail + end + bytes([len(end)])

    def _stripe(self, stripe: StripeParts, parts: FileParts, out: bytearray, footer: pb.Footer) -> None:
        items = zip(stripe.footer.streams, stripe.streams, strict=True)
        stored = {
            (s.column, s.kind): self._stored(data) for s, data in items if s.kind < StreamKind.ROW_INDEX
        }
        mine, begin = pb.StripeFooter(), len(out)
        mine.CopyFrom(stripe.footer)
        index_length = 0
        for stream, data in zip(mine.streams, stripe.streams, strict=True):
            change = stored.get((stream.column, stream.kind))
            if change is not None:
                content = change.data
            elif stream.kind == StreamKind.ROW_INDEX:
                index = pb.RowIndex.FromString(data)
                self._recount(index, stream.column, stripe, parts, stored)
                content = self._section("row index", index)
            elif stream.kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8):
                content = self._section("bloom filters", pb.BloomFilterIndex.FromString(data))
            else:
                content = self._stored(data).data
            if change is None:
                index_length += len(content)
            stream.length = len(content)
            out += content
        data_length = len(out) - begin - index_length
        end = self._section("stripe footer", mine)
        out += end
        footer.stripes.add(
            offset=begin,
            index_length=index_length,
            data_length=data_length,
            footer_length=len(end),
            number_of_rows=stripe.num_rows,
        )

    def _section(self, name: str, message: Message) -> bytes:
        self._hooks.message(name, message)
        return self._stored(message.SerializePartialToString()).data

    def _stored(self, data: bytes) -> _Stored:
        if not self._codec:
            return _Stored(data)
        stored, starts, contents = bytearray(), [], [0]
        for content, is_original in self._cut(data):
            starts.append(len(stored))
            contents.append(contents[-1] + len(content))
            stored += self._hooks.chunk(_chunk(self._codec, content, is_original=is_original))
        return _Stored(bytes(stored), starts, contents)

    def _cut(self, data: bytes) -> Iterator[tuple[bytes, bool | None]]:
        if self._hooks.cut is not None:
            yield from self._hooks.cut(data, self._block_size)
            return
        for at in range(0, len(data), self._block_size):
            yield data[at : at + self._block_size], None

    def _recount(
        self,
        index: pb.RowIndex,
        column: int,
        stripe: StripeParts,
        parts: FileParts,
        stored: dict[tuple[int, int], _Stored],
    ) -> None:
        """Change the positions of an uncompressed file into those of chunks."""
        if not self._codec:
            return
        data_type = next(node for node in parts.schema.walk() if node.column == column)
        encoding = EncodingKind(stripe.footer.columns[column].kind)
        layout = list(stream_layout(data_type, encoding, (0, 12)))
        if (column, StreamKind.PRESENT) in stored:
            layout.insert(0, (StreamKind.PRESENT, 2))
        length = sum(1 + extra for _, extra in layout)
        for entry in index.entry:
            # a writer that drops a PRESENT stream may leave its numbers
            plain = list(entry.positions)[max(len(entry.positions) - length, 0) :]
            entries = []
            for kind, extra in layout:
                if not plain:
                    break
                entries += self._place(stored.get((column, kind)), plain[0]) + plain[1 : 1 + extra]
                plain = plain[1 + extra :]
            entry.positions[:] = entries

    def _place(self, stream: _Stored | None, at: int) -> list[int]:
        if stream is None or at >= stream.contents[-1]:
            return [0 if stream is None else len(stream.data), 0]
        number = bisect_right(stream.contents, at) - 1
        return [stream.starts[number], at - stream.contents[number]]


def _chunk(codec: int, content: bytes, *, is_original: bool | None) -> bytes:
    """Encode a chunk with its header, uncompressed if that is shorter, unless the caller chooses."""
    packed = compressed(codec, content)
    if is_original is None:
        is_original = len(packed) >= len(content)
    body = content if is_original else packed
    return (len(body) << 1 | is_original).to_bytes(3, "little") + body


def compressed(codec: int, content: bytes) -> bytes:
    """One chunk's content by a codec's number."""
    match codec:
        case 1:
            deflate = zlib.compressobj(wbits=-15)
            return deflate.compress(content) + deflate.flush()
        case 2:
            return bytes(cramjam.snappy.compress_raw(content))
        case 3:
            return bytes(lzallright.LZOCompressor().compress(content))
        case 4:
            return bytes(cramjam.lz4.compress_block(content, store_size=False))
        case 6:
            return bytes(cramjam.brotli.compress(content, level=1))
        case _:
            return zstandard.ZstdCompressor().compress(content)

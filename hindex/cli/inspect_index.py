"""Inspect an index file: its footer, its directory, and its pages with their codecs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hindex.cli.inspect_text import Document, columns
from hindex.index.index_file import CODEC_NONE, VERSION, IndexFileReader, PageRef
from hindex.keys import key_value
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb
from hindex.table.type_text import parse_type

_BODIES: dict[str, type[Message]] = {
    "BITMAP": pb.BitmapBody,
    "MINMAX": pb.MinMaxBody,
    "BLOOM": pb.BloomBody,
    "BTREE": pb.BTreeBody,
}
#: Lists with a number for each of many things are shown as their sum.
_SUMMED = ("leaf_keys", "leaf_rows", "group_nulls", "group_bits")
_LEFT_OUT = (
    "leaf_length",
    "leaf_crc32c",
    "leaf_offset",
    "int_bounds",
    "byte_bounds",
    "runs",
    "location_pages",
)


def document(source: ByteSource) -> Document:
    """Everything that the file says of itself. All pages are read, and their checksums looked at.

    :raises IndexFileError: if it is corrupt.
    """
    file = IndexFileReader(source)
    footer = file.footer
    body = _body(file)
    refs = [] if body is None else list(_pages(body))
    stripes = getattr(body, "stripes", ())
    of = parse_type(footer.column_type)
    return {
        "kind": "INDEX",
        "file": source.path,
        "bytes": file.length,
        "format_version": VERSION,
        "index_type": footer.index_type,
        "column": {"name": footer.column, "type": footer.column_type, "keys": footer.key_kind.value},
        "properties": dict(footer.properties),
        "metadata": dict(footer.metadata),
        "writer": footer.writer or None,
        "checksum": {"algorithm": "crc32c", "of": "footer", "value": f"{file.footer_crc32c:08x}"},
        "footer_bytes": file.length - file.pages_end,
        "pages": _page_sums(file, refs),
        "directory": {} if body is None else _shown(body, of),
        "stripes": [_shown(stripe, of) for stripe in stripes],
    }


def _body(file: IndexFileReader) -> Message | None:
    of = _BODIES.get(file.footer.index_type)
    if of is None:
        return None
    try:
        return of.FromString(file.footer.body)
    except DecodeError as error:
        raise file.error(f"its directory cannot be parsed ({error})") from error


def _pages(message: Message) -> Iterator[PageRef]:
    """All pages that a message points to; leaves lie one behind the other and are told by their lengths."""
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for item in (value,) if isinstance(value, Message) else value:
            if isinstance(item, pb.PageRef):
                yield PageRef(item.offset, item.length, item.crc32c)
            else:
                yield from _pages(item)
    if isinstance(message, pb.BitmapStripe):
        yield from _leaves(message.leaf_offset, message.leaf_length, message.leaf_crc32c)
    elif isinstance(message, pb.BTreeBody):
        start = 0
        for run in message.runs:
            end = start + run.leaves
            yield from _leaves(run.offset, message.leaf_length[start:end], message.leaf_crc32c[start:end])
            start = end


def _leaves(offset: int, lengths: Sequence[int], checksums: Sequence[int]) -> Iterator[PageRef]:
    starts = accumulate(lengths, initial=offset)
    for start, length, checksum in zip(starts, lengths, checksums, strict=False):
        yield PageRef(start, length, checksum)


def _page_sums(file: IndexFileReader, refs: list[PageRef]) -> Document:
    """Count pages and blocks, and sum the bytes of the blocks by codec."""
    blocks = {"none": 0, "zstd": 0}
    stored = raw = 0
    for ref in refs:
        for codec, size, unpacked in file.read_pages([ref])[0].sizes:
            blocks["none" if codec == CODEC_NONE else "zstd"] += 1
            stored += size
            raw += unpacked
    return {
        "count": len(refs),
        "bytes": sum(ref.length for ref in refs),
        "blocks": blocks,
        "stored_bytes": stored,
        "raw_bytes": raw,
    }


def _shown(message: Message, data_type: OrcType) -> Document:
    """A message's plain fields; pages are told by their lengths, lists of numbers by their sums, keys as values."""
    found: Document = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.name == "leaf_length":
            found |= {"leaves": len(value), "leaf_bytes": sum(value)}
        elif field.name in _SUMMED:
            found[field.name] = sum(value)
        elif field.name in _LEFT_OUT or field.name == "stripes":
            continue
        elif isinstance(value, pb.PageRef):
            found[f"{field.name}_bytes"] = value.length if message.HasField(field.name) else 0
        elif isinstance(value, pb.Extent):
            found |= _extent(value, data_type)
        else:
            found[field.name] = value
    return found


def _extent(value: pb.Extent, data_type: OrcType) -> Document:
    has_ints, has_bytes = value.HasField("int_min"), value.HasField("byte_min")
    low = value.int_min if has_ints else value.byte_min if has_bytes else None
    high = value.int_max if has_ints else value.byte_max if has_bytes else None
    return {
        "null_count": value.null_count,
        "minimum": None if low is None else _text_of(low, data_type),
        "maximum": None if high is None else _text_of(high, data_type) + "…" * value.max_is_prefix,
    }


def _text_of(key: int | bytes, data_type: OrcType) -> str:
    value = key_value(data_type, key)
    shown = value.hex() if isinstance(value, bytes) else str(value)
    return shown.encode(errors="backslashreplace").decode()


def text(found: Document) -> str:
    """A document as lines for people."""
    column, pages = found["column"], found["pages"]
    blocks = ", ".join(f"{count:,} {codec}" for codec, count in pages["blocks"].items() if count)
    head = [
        ("file", found["file"]),
        ("bytes", f"{found['bytes']:,}"),
        ("format", f"hindex index file {found['format_version']}"),
        ("writer", found["writer"] or "not recorded"),
        ("index type", found["index_type"]),
        ("column", f"{column['name']} {column['type']}, keys of {column['keys']}"),
        ("checksum", f"crc32c {found['checksum']['value']} of the footer of {found['footer_bytes']:,} bytes"),
        ("pages", f"{pages['count']:,} of {pages['bytes']:,} bytes"),
        ("blocks", f"{blocks or 'none'}; {pages['stored_bytes']:,} bytes hold {pages['raw_bytes']:,}"),
    ]
    lines = columns([(name, str(value)) for name, value in head], indent="")
    for title in ("properties", "metadata", "directory"):
        if found[title]:
            lines += ["", title.capitalize()]
            lines += columns([(name.replace("_", " "), _cell(value)) for name, value in found[title].items()])
    if found["stripes"]:
        names = list(found["stripes"][0])
        lines += ["", "Stripes"]
        rows = [("", *(name.replace("_", " ") for name in names))]
        rows += [
            (str(i), *(_cell(stripe[name]) for name in names)) for i, stripe in enumerate(found["stripes"])
        ]
        lines += columns(rows)
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)

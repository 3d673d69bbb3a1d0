"""Inspect an index file: its footer, its directory, and its pages with their codecs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hindex.cli.inspect_document import Document, columns
from hindex.index.bundle import BUNDLE, Bundle
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
    "NGRAM": pb.NgramBody,
    "ROWS": pb.RowsBody,
}
#: Lists of numbers that are shown as their sums.
_SUMMED = ("leaf_keys", "leaf_rows", "group_nulls", "group_bits")
_OMITTED = (
    "leaf_length",
    "leaf_crc32c",
    "leaf_offset",
    "int_bounds",
    "byte_bounds",
    "runs",
    "location_pages",
    "offset",
)


def document(source: ByteSource) -> Document:
    """Return the content of an index file. All pages are read, and their checksums verified.

    Raises:
        IndexFileError: if it is corrupt.
    """
    file = IndexFileReader(source)
    footer = file.footer
    # those of a bundle
    files = [document(item) for item in Bundle(file)] if footer.index_type == BUNDLE else []
    body = _body(file)
    refs = [] if body is None else list(_pages(body))
    stripes = getattr(body, "stripes", ())
    data_type = parse_type(footer.column_type) if footer.column_type else None
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
        "pages": _file_sums(files) if files else _page_sums(file, refs),
        "directory": {} if body is None or data_type is None else _message_fields(body, data_type),
        "stripes": [] if data_type is None else [_message_fields(stripe, data_type) for stripe in stripes],
        "index_files": files,
    }


def _body(file: IndexFileReader) -> Message | None:
    message_class = _BODIES.get(file.footer.index_type)
    if message_class is None:
        return None
    try:
        return message_class.FromString(file.footer.body)
    except DecodeError as error:
        raise file.error(f"its directory cannot be parsed ({error})") from error


def _pages(message: Message) -> Iterator[PageRef]:
    """Yield all pages that a message refers to; leaves are contiguous and have only lengths."""
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


def _file_sums(files: Sequence[Document]) -> Document:
    """Return the sums of a bundle, whose pages are the index files, and whose blocks are theirs."""
    pages = [item["pages"] for item in files]
    return {
        "count": len(files),
        "bytes": sum(item["bytes"] for item in files),
        "blocks": {codec: sum(item["blocks"][codec] for item in pages) for codec in ("none", "zstd")},
        "stored_bytes": sum(item["stored_bytes"] for item in pages),
        "raw_bytes": sum(item["raw_bytes"] for item in pages),
    }


def _message_fields(message: Message, data_type: OrcType) -> Document:
    """Return the fields of a message, with the lengths of pages, sums of number lists, and keys as values."""
    fields: Document = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.name == "leaf_length":
            fields |= {"leaves": len(value), "leaf_bytes": sum(value)}
        elif field.name in _SUMMED:
            fields[field.name] = sum(value)
        elif field.name in _OMITTED or field.name == "stripes":
            continue
        elif isinstance(value, pb.BitmapStripe):
            # of n-grams: its rows are blocks, and none is null
            tree = _message_fields(value, data_type)
            fields |= {"blocks": tree["rows"], "ngrams": tree["key_count"]}
            fields |= {name: tree[name] for name in ("leaves", "leaf_bytes", "leaf_rows")}
        elif isinstance(value, pb.PageRef):
            fields[f"{field.name}_bytes"] = value.length if message.HasField(field.name) else 0
        elif isinstance(value, pb.Extent):
            fields |= _extent(value, data_type)
        else:
            fields[field.name] = value
    return fields


def _extent(value: pb.Extent, data_type: OrcType) -> Document:
    has_ints, has_bytes = value.HasField("int_min"), value.HasField("byte_min")
    low = value.int_min if has_ints else value.byte_min if has_bytes else None
    high = value.int_max if has_ints else value.byte_max if has_bytes else None
    return {
        "null_count": value.null_count,
        "minimum": None if low is None else _key_text(low, data_type),
        "maximum": None if high is None else _key_text(high, data_type) + "…" * value.max_is_prefix,
    }


def _key_text(key: int | bytes, data_type: OrcType) -> str:
    value = key_value(data_type, key)
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text.encode(errors="backslashreplace").decode()


def text(document: Document) -> str:
    """Render the document as text."""
    column, pages = document["column"], document["pages"]
    blocks = ", ".join(f"{count:,} {codec}" for codec, count in pages["blocks"].items() if count)
    head = [
        ("file", document["file"]),
        ("bytes", f"{document['bytes']:,}"),
        ("format", f"hindex index file {document['format_version']}"),
        ("writer", document["writer"] or "not recorded"),
        ("index type", document["index_type"]),
        (
            "column",
            f"{column['name']} {column['type']}, keys of {column['keys']}"
            if column["type"]
            else column["name"],
        ),
        (
            "checksum",
            f"crc32c {document['checksum']['value']} of the footer of {document['footer_bytes']:,} bytes",
        ),
        ("pages", f"{pages['count']:,} of {pages['bytes']:,} bytes"),
        ("blocks", f"{blocks or 'none'}; {pages['stored_bytes']:,} bytes hold {pages['raw_bytes']:,}"),
    ]
    lines = columns([(name, str(value)) for name, value in head], indent="")
    for title in ("properties", "metadata", "directory"):
        if document[title]:
            lines += ["", title.capitalize()]
            lines += columns(
                [(name.replace("_", " "), _cell(value)) for name, value in document[title].items()]
            )
    if document["stripes"]:
        names = list(document["stripes"][0])
        lines += ["", "Stripes"]
        rows = [("", *(name.replace("_", " ") for name in names))]
        rows += [
            (str(i), *(_cell(stripe[name]) for name in names)) for i, stripe in enumerate(document["stripes"])
        ]
        lines += columns(rows)
    if document["index_files"]:
        lines += ["", "Index files"]
        rows = [("", "data file", "type", "bytes", "stripes")]
        rows += [
            (
                str(i),
                _cell(item["metadata"].get("data_file")),
                item["index_type"],
                _cell(item["bytes"]),
                _cell(len(item["stripes"])),
            )
            for i, item in enumerate(document["index_files"])
        ]
        lines += columns(rows)
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)

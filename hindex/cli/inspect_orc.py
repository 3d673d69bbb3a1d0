"""Inspect an ORC file, as ``orc-metadata`` and ``orc-statistics`` do."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hindex.api.value_formatting import printable
from hindex.cli.inspect_document import Document, columns
from hindex.orc import Kind, OrcReader, OrcType
from hindex.orc.calendars import julian_to_gregorian
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.bloom_filters import BloomFilters
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.statistics import (
    ColumnStatistics,
    Distrust,
    field_value,
    value_range,
)
from hindex.orc.metadata.stripe import StreamKind, Stripe
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.proto import orc_metadata_pb2 as pb
from hindex.sql.string_values import format_date

_WRITERS = {0: "ORC Java", 1: "ORC C++", 2: "Presto", 3: "Scritchley Go", 4: "Trino", 5: "cuDF"}
#: The latest fix in each version of the Java writer.
_JAVA_VERSIONS = (
    "original",
    "HIVE-8732",
    "HIVE-4243",
    "HIVE-12055",
    "HIVE-13083",
    "ORC-101",
    "ORC-135",
    "ORC-517",
    "ORC-203",
    "ORC-14",
)
_CALENDARS: dict[int, str] = {
    pb.CalendarKind.JULIAN_GREGORIAN: "Julian before 1582-10-15, Gregorian after",
    pb.CalendarKind.PROLEPTIC_GREGORIAN: "proleptic Gregorian",
}
_UNKNOWN_CALENDAR = "not recorded, so read as Julian before 1582-10-15"
_MILLIS_PER_DAY = 86_400_000


def document(source: ByteSource, *, row_groups: bool) -> Document:
    """Return the content of an ORC file.

    Raises:
        OrcError: if it is not an ORC file, or corrupt.
    """
    reader = OrcReader(source)
    tail, footer = reader.tail, reader.tail.footer
    indexes = FileIndexes(reader, as_stored=True)
    nodes = list(_named(tail.schema, ""))
    whole = [indexes.file_statistics(data_type.column) for _, data_type in nodes]
    writer = footer.writer if footer.HasField("writer") else None
    return {
        "kind": "ORC",
        "file": source.path,
        "bytes": tail.file_length,
        "format_version": ".".join(map(str, tail.version)),
        "writer": {
            "id": writer,
            "name": "not recorded" if writer is None else _WRITERS.get(writer, f"unknown ({writer})"),
            "version": tail.writer_version,
            "version_name": _version_name(tail.writer_version) if writer in (None, 0) else None,
            "software_version": footer.software_version or None,
        },
        "compression": {
            "codec": tail.compression,
            "block_size": tail.block_size if tail.codec is not None else None,
        },
        "rows": tail.num_rows,
        "row_index_stride": tail.row_index_stride or None,
        "calendar": _CALENDARS.get(footer.calendar, _UNKNOWN_CALENDAR),
        "checksum": {"algorithm": "crc32c", "of": "tail", "value": f"{tail.checksum:08x}"},
        "schema": str(tail.schema),
        "user_metadata": {item.name: _printable(item.value) for item in footer.metadata},
        "columns": [
            {
                "id": data_type.column,
                "name": name,
                "type": str(data_type),
                "encrypted": data_type.column in tail.encrypted_columns,
                "statistics": _statistics(statistics, data_type, tail)
                if isinstance(statistics, ColumnStatistics)
                else None,
            }
            for (name, data_type), statistics in zip(nodes, whole, strict=True)
        ],
        "stripes": [
            _stripe(reader, indexes, index, nodes, row_groups=row_groups)
            for index in range(len(tail.stripes))
        ],
    }


def _stripe(
    reader: OrcReader,
    indexes: FileIndexes,
    index: int,
    nodes: list[tuple[str, OrcType]],
    *,
    row_groups: bool,
) -> Document:
    information = reader.stripes[index]
    stripe = reader.stripe(index)
    names = {data_type.column: name for name, data_type in nodes}
    return {
        "index": index,
        "offset": information.offset,
        "index_bytes": information.index_length,
        "data_bytes": information.data_length,
        "footer_bytes": information.footer_length,
        "first_row": information.first_row,
        "rows": information.num_rows,
        "row_groups": len(indexes.group_rows(index)) or None,
        "time_zone": stripe.writer_timezone or None,
        "streams": [
            {
                "column": stream.column,
                "name": names.get(stream.column),
                "kind": stream.kind.name,
                "offset": stream.offset,
                "bytes": stream.length,
            }
            for stream in stripe.streams.values()
        ],
        "columns": [
            _stripe_column(reader.tail, indexes, stripe, index, name, data_type, row_groups=row_groups)
            for name, data_type in nodes
            if data_type.column < len(stripe.encodings)
        ],
    }


def _stripe_column(
    tail: FileTail,
    indexes: FileIndexes,
    stripe: Stripe,
    index: int,
    name: str,
    data_type: OrcType,
    *,
    row_groups: bool,
) -> Document:
    encoding = stripe.encodings[data_type.column]
    statistics = indexes.stripe_statistics(index, data_type.column)
    column: Document = {
        "id": data_type.column,
        "name": name,
        "encoding": encoding.name,
        "dictionary_size": stripe.dictionary_sizes[data_type.column] if encoding.is_dictionary else None,
        "statistics": _statistics(statistics, data_type, tail, stripe.writer_timezone)
        if isinstance(statistics, ColumnStatistics)
        else None,
        "bloom_filters": _bloom_filters(indexes, stripe, index, data_type),
    }
    if row_groups:
        groups = indexes.group_statistics(index, data_type.column)
        column["row_groups"] = [
            {"rows": rows, "statistics": _statistics(item, data_type, tail, stripe.writer_timezone)}
            for rows, item in zip(
                indexes.group_rows(index) if isinstance(groups, list) else [],
                groups if isinstance(groups, list) else [],
                strict=True,
            )
        ]
    return column


def _bloom_filters(
    indexes: FileIndexes, stripe: Stripe, index: int, data_type: OrcType
) -> list[Document] | None:
    documents = []
    usable = indexes.bloom_stream(index, data_type)
    for kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8):
        stream = stripe.streams.get((data_type.column, kind))
        if stream is None:
            continue
        filters = indexes.bloom_filters(index, data_type.column, kind)
        well_formed = filters if isinstance(filters, BloomFilters) else None
        ignored = (
            filters if isinstance(filters, Distrust) else usable if isinstance(usable, Distrust) else None
        )
        documents.append(
            {
                "kind": kind.name,
                "bytes": stream.length,
                "filters": None if well_formed is None else well_formed.count,
                "bad": None if well_formed is None else well_formed.bad,
                "filter_bytes": None if well_formed is None else well_formed.size_bytes,
                "hash_functions": None
                if well_formed is None
                else max(block.functions for block in well_formed.blocks),
                "ignored": None if ignored is None else ignored.value,
            }
        )
    return documents or None


def _named(data_type: OrcType, path: str) -> Iterator[tuple[str, OrcType]]:
    """Yield the nodes of the type tree with their dotted paths; the root's is empty."""
    yield path, data_type
    names = {
        Kind.STRUCT: data_type.field_names,
        Kind.LIST: ("item",),
        Kind.MAP: ("key", "value"),
        Kind.UNION: tuple(map(str, range(len(data_type.children)))),
    }.get(data_type.kind, ())
    for name, child in zip(names, data_type.children, strict=True):
        yield from _named(child, f"{path}.{name}" if path else name)


def _statistics(
    statistics: ColumnStatistics, data_type: OrcType, tail: FileTail, zone: str | None = None
) -> Document:
    """Return the writer's statistics, and the reason if their range is ignored."""
    document: Document = {
        "values": statistics.number_of_values,
        "has_null": statistics.has_null,
        "bytes_on_disk": statistics.bytes_on_disk,
    }
    detail = statistics.detail
    if isinstance(detail, pb.TimestampStatistics):
        utc = detail.HasField("minimum_utc")
        for name in ("minimum", "maximum"):
            millis = field_value(detail, f"{name}_utc" if utc else name)
            document[name] = None if millis is None else _timestamp(millis, tail)
        document["in_writers_zone"] = not utc
    elif isinstance(detail, pb.DateStatistics):
        for name in ("minimum", "maximum"):
            days = field_value(detail, name)
            document[name] = None if days is None else format_date(_recounted(days, tail))
    elif isinstance(detail, pb.BucketStatistics):
        true = document["true_count"] = detail.count[0] if detail.count else None
        if true is not None and statistics.number_of_values is not None:
            document["false_count"] = statistics.number_of_values - true
    elif detail is not None:
        has_length = isinstance(detail, pb.StringStatistics | pb.BinaryStatistics)
        for field in detail.DESCRIPTOR.fields:
            name = "total_length" if has_length and field.name == "sum" else field.name
            document[name] = _value(field_value(detail, field.name))
    reason = value_range(statistics, data_type, tail, zone=zone)
    document["ignored"] = reason.value if isinstance(reason, Distrust) and reason.is_fault else None
    return document


def _value(value: object) -> object:
    if isinstance(value, bytes):
        return _printable(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _printable(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _timestamp(millis: int, tail: FileTail) -> str:
    days, rest = divmod(millis, _MILLIS_PER_DAY)
    seconds, milli = divmod(rest, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{format_date(_recounted(days, tail))} {clock}" + (f".{milli:03}" if milli else "")


def _recounted(days: int, tail: FileTail) -> int:
    return days if tail.is_proleptic else int(julian_to_gregorian(np.array([days], np.int64))[0])


def _version_name(version: int) -> str:
    return _JAVA_VERSIONS[version] if version < len(_JAVA_VERSIONS) else "newer"


#: Longer strings are truncated.
_MAX_CHARACTERS = 40


def text(document: Document) -> str:
    """Render the document as text."""
    writer, compression = document["writer"], document["compression"]
    version = f"version {writer['version']}"
    if writer["version_name"]:
        version += f" ({writer['version_name']})"
    if writer["software_version"]:
        version += f", software {writer['software_version']}"
    block = compression["block_size"]
    zones = sorted({stripe["time_zone"] for stripe in document["stripes"] if stripe["time_zone"]})
    head = [
        ("file", document["file"]),
        ("bytes", f"{document['bytes']:,}"),
        ("format", f"ORC {document['format_version']}"),
        ("writer", f"{writer['name']}, {version}"),
        ("compression", compression["codec"] + (f", blocks of {block:,} bytes" if block else "")),
        ("rows", f"{document['rows']:,}"),
        ("row groups", _stride(document["row_index_stride"])),
        ("calendar", document["calendar"]),
        ("time zone", ", ".join(zones) or "not recorded"),
        ("checksum", f"crc32c {document['checksum']['value']} of the tail"),
        *(("user data", f"{name} = {_cut(value)}") for name, value in document["user_metadata"].items()),
    ]
    lines = columns([(name, str(value)) for name, value in head], indent="")
    lines += ["", "Columns"]
    lines += columns(
        [
            (
                str(column["id"]),
                column["name"] or "(root)",
                column["type"] + " (encrypted)" * column["encrypted"],
            )
            for column in document["columns"]
        ]
    )
    lines += ["", "Statistics of the file"]
    lines += _statistics_lines([(column["name"], column["statistics"]) for column in document["columns"]])
    for stripe in document["stripes"]:
        lines += ["", *_stripe_lines(stripe)]
    return "\n".join(lines)


def _stride(stride: int | None) -> str:
    return "none: there is no row index" if stride is None else f"of {stride:,} rows"


def _stripe_lines(stripe: Document) -> list[str]:
    first, rows, groups = stripe["first_row"], stripe["rows"], stripe["row_groups"]
    title = f"Stripe {stripe['index']}: {rows:,} rows ({first:,} to {first + rows - 1:,})"
    parts = ", ".join(f"{stripe[f'{part}_bytes']:,} of {part}" for part in ("index", "data", "footer"))
    lines = [
        title + (f" in {groups:,} row group{'s' * (groups != 1)}" if groups else ""),
        f"  at byte {stripe['offset']:,}: {parts}",
    ]
    if stripe["streams"]:
        lines.append("  streams")
        lines += columns(
            [
                (s["name"] or "(root)", s["kind"], f"at {s['offset']:,}", f"{s['bytes']:,} bytes")
                for s in stripe["streams"]
            ],
            indent="    ",
        )
    lines.append("  encodings")
    lines += columns(
        [
            (
                column["name"] or "(root)",
                column["encoding"],
                "" if column["dictionary_size"] is None else f"{column['dictionary_size']:,} entries",
            )
            for column in stripe["columns"]
        ],
        indent="    ",
    )
    filters = [
        (column["name"], item["kind"], f"{item['bytes']:,} bytes", _filter_text(item))
        for column in stripe["columns"]
        for item in column["bloom_filters"] or ()
    ]
    if filters:
        lines += ["  bloom filters", *columns(filters, indent="    ")]
    lines.append("  statistics")
    lines += _statistics_lines([(c["name"], c["statistics"]) for c in stripe["columns"]], indent="    ")
    for column in stripe["columns"]:
        if column.get("row_groups"):
            lines.append(f"  row groups of {printable(column['name']) or '(root)'}")
            rows = [(str(i), item["statistics"]) for i, item in enumerate(column["row_groups"])]
            lines += _statistics_lines(rows, indent="    ")
    return lines


def _filter_text(item: Document) -> str:
    if item["filters"] is None:
        return f"ignored: {item['ignored']}"
    text = f"{item['filters']:,} of {item['hash_functions']} hash functions"
    return text + (f", ignored: {item['ignored']}" if item["ignored"] else "")


def _statistics_lines(rows: list[tuple[str, Document | None]], indent: str = "  ") -> list[str]:
    return columns(
        [(name or "(root)", "none" if item is None else _statistics_text(item)) for name, item in rows],
        indent=indent,
    )


#: Words for keys of the document.
_WORDS = {"has_null": "nulls", "true_count": "true", "false_count": "false", "total_length": "length"}
_NULLS = {True: "yes", False: "no", None: "unknown"}


def _statistics_text(statistics: Document) -> str:
    parts = []
    for name, value in statistics.items():
        if name == "has_null":
            parts.append(f"nulls {_NULLS[value]}")
        elif name == "ignored":
            parts += [f"(not relied on: {value})"] if value else []
        elif name == "in_writers_zone":
            parts += ["in the writer's zone"] if value else []
        elif value is not None:
            parts.append(f"{_WORDS.get(name, name).replace('_', ' ')} {_cut(value)}")
    return "  ".join(parts)


def _cut(value: object) -> str:
    if not isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if not value:
        return '""'
    text = printable(value)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"

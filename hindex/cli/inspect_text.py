"""Inspections as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hindex.api.value_formatting import printable

#: What is in a file, as values for JSON.
Document = dict[str, Any]

#: Texts longer than this are cut for people.
_TEXT_SHOWN = 40


def columns(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> list[str]:
    """Lines of left-aligned columns; what would steer a terminal is escaped."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def orc_text(found: Document) -> str:
    """The document of an ORC file as lines for people."""
    writer, compression = found["writer"], found["compression"]
    version = f"version {writer['version']}"
    if writer["version_name"]:
        version += f" ({writer['version_name']})"
    if writer["software_version"]:
        version += f", software {writer['software_version']}"
    block = compression["block_size"]
    zones = sorted({stripe["time_zone"] for stripe in found["stripes"] if stripe["time_zone"]})
    head = [
        ("file", found["file"]),
        ("bytes", f"{found['bytes']:,}"),
        ("format", f"ORC {found['format_version']}"),
        ("writer", f"{writer['name']}, {version}"),
        ("compression", compression["codec"] + (f", blocks of {block:,} bytes" if block else "")),
        ("rows", f"{found['rows']:,}"),
        ("row groups", _stride(found["row_index_stride"])),
        ("calendar", found["calendar"]),
        ("time zone", ", ".join(zones) or "not recorded"),
        ("checksum", f"crc32c {found['checksum']['value']} of the tail"),
        *(("user data", f"{name} = {_cut(value)}") for name, value in found["user_metadata"].items()),
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
            for column in found["columns"]
        ]
    )
    lines += ["", "Statistics of the file"]
    lines += _statistics_lines([(column["name"], column["statistics"]) for column in found["columns"]])
    for stripe in found["stripes"]:
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
    shown = f"{item['filters']:,} of {item['hash_functions']} hash functions"
    return shown + (f", ignored: {item['ignored']}" if item["ignored"] else "")


def _statistics_lines(rows: list[tuple[str, Document | None]], indent: str = "  ") -> list[str]:
    return columns(
        [(name or "(root)", "none" if found is None else _statistics_text(found)) for name, found in rows],
        indent=indent,
    )


#: What is said of statistics by other words than the keys of the document.
_WORDS = {"has_null": "nulls", "true_count": "true", "false_count": "false", "total_length": "length"}
_NULLS = {True: "yes", False: "no", None: "unknown"}


def _statistics_text(found: Document) -> str:
    parts = []
    for name, value in found.items():
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
    shown = printable(value)
    return shown if len(shown) <= _TEXT_SHOWN else f"{shown[: _TEXT_SHOWN - 1]}…"

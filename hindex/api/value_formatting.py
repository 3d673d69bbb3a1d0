"""Format Arrow columns and instants as strings.

Timestamps have no trailing zeros, and end in ``Z`` if they are instants; binary values are hexadecimal, nested
values are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: In milliseconds since 1970.
_YEAR_10000 = 253_402_300_800_000

#: The least width of a column in a grid, and the end of a truncated value.
_LEAST_WIDTH, _ELLIPSIS = 3, "..."

#: Greatest length of a character in UTF-8, in bytes.
_CHARACTER_BYTES = 4
#: Least number of characters of a list element, as in ``1, 2``.
_ELEMENT_CHARACTERS = 3

_DOUBLES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def format_values(column: pa.Array, encoding: str | None = None) -> list[str | None]:
    """Format each value as a string, None for null.

    Args:
        encoding: the encoding of the output; nested values escape the characters that it lacks, as JSON does.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(column)
    if pa.types.is_floating(kind):
        return [
            text if text is None else _DOUBLES.get(text, text)
            for text in pc.cast(column, pa.string()).to_pylist()
        ]
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [value if value is None else value.hex().upper() for value in column.to_pylist()]
    if pa.types.is_decimal(kind):
        # Arrow's own text goes to an exponent for small values
        return [value if value is None else format(value, "f") for value in column.to_pylist()]
    if pa.types.is_nested(kind):
        texts = [None if text == "null" else text for text in format_json(column, ascii_only=False)]
        return [text if text is None or _has(encoding, text) else _escaped(text) for text in texts]
    return _plain(pc.cast(column, pa.string()))


def _has(encoding: str | None, text: str) -> bool:
    """Return True if an encoding, None for any, has all characters of a string."""
    if encoding is None or text.isascii():
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str) -> str:
    """Escape the other characters of JSON, which occur only in its strings, to ASCII."""
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """Escape the characters that could move a terminal's cursor or reorder a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(column: pa.Array) -> list[str | None]:
    values: list[str | None] = column.to_pylist()
    return values


def _strings(column: pa.Array) -> list[str | None]:
    try:
        return _plain(column)
    except UnicodeDecodeError:  # ORC writers do not check their strings
        raw = column.cast(pa.large_binary()).to_pylist()
        return [value if value is None else value.decode(errors="backslashreplace") for value in raw]


def _timestamps(column: pa.Array) -> list[str | None]:
    zone = "Z" if column.type.tz else ""
    # the digits of an instant are those of UTC
    naive = column.view(pa.timestamp(column.type.unit))
    short = pc.replace_substring_regex(naive.cast(pa.string()), r"(\.\d*?)0+$", r"\1")
    return [text if text is None else text.removesuffix(".") + zone for text in short.to_pylist()]


def format_json(column: pa.Array, *, ascii_only: bool = True) -> list[str]:
    """Format each value as JSON: exact numbers, booleans, and strings for everything else.

    Args:
        ascii_only: escape all characters outside ASCII.
    """
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested(column, ascii_only)
    encode: Callable[[str], str] = partial(json.dumps, ensure_ascii=ascii_only)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        encode = str
    elif pa.types.is_floating(kind):
        # JSON has no NaN and no infinity
        encode = _json_double
    return ["null" if text is None else encode(text) for text in format_values(column)]


def _nested(column: pa.Array, ascii_only: bool) -> list[str]:
    """Format structs as objects, lists as arrays, maps as arrays of pairs."""
    kind = column.type
    format_elements = partial(format_json, ascii_only=ascii_only)
    if pa.types.is_union(kind):
        return [
            "null" if not value.is_valid else format_elements(pa.array([value.as_py()], value.value.type))[0]
            for value in column
        ]
    valid = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        names = [json.dumps(field.name, ensure_ascii=ascii_only) for field in kind]
        fields = [format_elements(column.field(at)) for at in range(kind.num_fields)]
        rows = (", ".join(map(": ".join, zip(names, row, strict=True))) for row in _rows(fields, len(column)))
        return [f"{{{row}}}" if ok else "null" for row, ok in zip(rows, valid, strict=True)]
    offsets = column.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]  # a slice keeps the values of the whole array
    if pa.types.is_map(kind):
        keys, items = column.keys.slice(first, count), column.items.slice(first, count)
        elements = [
            f"[{key}, {item}]"
            for key, item in zip(format_elements(keys), format_elements(items), strict=True)
        ]
    else:
        elements = format_elements(column.values.slice(first, count))
    return [
        f"[{', '.join(elements[start - first : end - first])}]" if ok else "null"
        for (start, end), ok in zip(pairwise(offsets), valid, strict=True)
    ]


def _rows(columns: list[list[str]], count: int) -> Iterable[tuple[str, ...]]:
    """Return the values of the columns row by row; empty rows if there are no columns."""
    return zip(*columns, strict=True) if columns else [()] * count


def _json_double(text: str) -> str:
    return json.dumps(text) if text in _DOUBLES.values() else text


def text_grid(rows: pa.Table, max_characters: int | None) -> str:
    """Format rows in a grid as Spark's ``show()`` does.

    Args:
        max_characters: truncate values to this length, and align them right; None keeps them whole, aligned left.
    """
    columns = [
        [
            printable(name),
            *(
                _cut("NULL" if text is None else text, max_characters)
                for chunk in column.chunks
                for text in format_values(chunk)
            ),
        ]
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    widths = [max(_LEAST_WIDTH, *map(text_width, cells)) for cells in columns]
    line = f"+{'+'.join('-' * width for width in widths)}+"
    lines = []
    for row in zip(*columns, strict=True):
        blanks = [" " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True)]
        pairs = zip(row, blanks, strict=True)
        lines.append(
            f"|{'|'.join(cell + blank if max_characters is None else blank + cell for cell, blank in pairs)}|"
        )
    head, *body = lines or ["||"]
    return "\n".join([line, head, line, *body, line])


def text_width(text: str) -> int:
    """Return the number of terminal columns of a string."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cut(text: str, max_characters: int | None) -> str:
    text = printable(text)
    if max_characters is None or len(text) <= max_characters:
        return text
    return (
        text[:max_characters]
        if max_characters <= len(_ELLIPSIS)
        else text[: max_characters - len(_ELLIPSIS)] + _ELLIPSIS
    )


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def instant_text(milliseconds: int, unit: Literal["s", "ms"] = "ms") -> str:
    """Format an instant in milliseconds since 1970; outside the years 1970 to 9999 as a number."""
    if not 0 <= milliseconds < _YEAR_10000:
        return f"{milliseconds} ms since 1970"
    return str(np.datetime64(milliseconds, "ms").astype(f"datetime64[{unit}]")).replace("T", " ") + "Z"


def truncate_values(column: pa.Array, characters: int) -> pa.Array:
    """Truncate values that are displayed with at most so many characters.

    Strings and binary values keep their beginning, lists and maps their first elements.
    """
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [truncate_values(column.field(at), characters) for at in range(kind.num_fields)]
        named = [field.with_type(array.type) for field, array in zip(kind, fields, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=named, mask=column.is_null())
    if pa.types.is_map(kind):
        offsets, (keys, items) = _elements(column, [column.keys, column.items], characters)
        return pa.MapArray.from_arrays(offsets, keys, items)
    if pa.types.is_list(kind):
        offsets, (values,) = _elements(column, [column.values], characters)
        return pa.ListArray.from_arrays(offsets, values)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return column
    raw = [value.as_buffer()[: characters * _CHARACTER_BYTES] if value.is_valid else None for value in column]
    cut = pa.array([value if value is None else value.to_pybytes() for value in raw], pa.binary())
    # the last character may be incomplete, which is beyond the limit
    return cut.view(pa.string()) if is_text else cut


def _elements(column: pa.Array, parts: list[pa.Array], characters: int) -> tuple[pa.Array, list[pa.Array]]:
    """Return the offsets of truncated lists, NULL for a NULL list, and the elements of each part."""
    max_elements = characters // _ELEMENT_CHARACTERS + 1
    spans = [
        (start, min(end - start, max_elements)) if ok else None
        for (start, end), ok in zip(
            pairwise(column.offsets.to_pylist()), column.is_valid().to_pylist(), strict=True
        )
    ]
    offsets: list[int | None] = []
    total = 0
    for span in spans:
        offsets.append(None if span is None else total)
        total += 0 if span is None else span[1]
    shortened = [
        pa.concat_arrays(
            [truncate_values(part.slice(*span), characters) for span in [(0, 0), *filter(None, spans)]]
        )
        for part in parts
    ]
    return pa.array([*offsets, total], pa.int32()), shortened

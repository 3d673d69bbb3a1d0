"""Values as text: those of Arrow's columns, a column at a time, and moments.

Timestamps lose trailing zeros and those that are instants end in ``Z``; binary values are hexadecimal, nested
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

#: The least width of a column in a grid, and what stands for the rest of a value that is cut.
_LEAST_WIDTH, _ELLIPSIS = 3, "..."

_DOUBLES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def format_values(column: pa.Array, encoding: str | None = None) -> list[str | None]:
    """Each value as text, None for null.

    :param encoding: of what the text goes to; nested values with a character that it lacks have escapes, as JSON has.
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
        found = [None if text == "null" else text for text in format_json(column, ascii_only=False)]
        return [text if text is None or _has(encoding, text) else _escaped(text) for text in found]
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
    """JSON in ASCII: all else is within its strings."""
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)


def printable(text: str) -> str:
    """The text with everything that could move a terminal's cursor, or turn the order of a line, as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(column: pa.Array) -> list[str | None]:
    found: list[str | None] = column.to_pylist()
    return found


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
    """Each value as JSON: numbers and booleans as such with all their digits, all else as strings.

    :param ascii_only: whether other characters are written as escapes, which any output can take.
    """
    kind = column.type
    if pa.types.is_nested(kind):
        return _nested(column, ascii_only)
    encode: Callable[[str], str] = partial(json.dumps, ensure_ascii=ascii_only)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        encode = str
    elif pa.types.is_floating(kind):
        # JSON knows no NaN and no infinity
        encode = _json_double
    return ["null" if text is None else encode(text) for text in format_values(column)]


def _nested(column: pa.Array, ascii_only: bool) -> list[str]:
    """Structs as objects, lists as arrays, maps as arrays of pairs; what they hold as :func:`format_json`."""
    kind = column.type
    held_texts = partial(format_json, ascii_only=ascii_only)
    if pa.types.is_union(kind):
        return [
            "null" if not value.is_valid else held_texts(pa.array([value.as_py()], value.value.type))[0]
            for value in column
        ]
    valid = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        names = [json.dumps(field.name, ensure_ascii=ascii_only) for field in kind]
        fields = [held_texts(column.field(at)) for at in range(kind.num_fields)]
        rows = (", ".join(map(": ".join, zip(names, row, strict=True))) for row in _rows(fields, len(column)))
        return [f"{{{row}}}" if ok else "null" for row, ok in zip(rows, valid, strict=True)]
    offsets = column.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]  # a slice keeps the values of the whole array
    if pa.types.is_map(kind):
        keys, items = column.keys.slice(first, count), column.items.slice(first, count)
        held = [f"[{key}, {item}]" for key, item in zip(held_texts(keys), held_texts(items), strict=True)]
    else:
        held = held_texts(column.values.slice(first, count))
    return [
        f"[{', '.join(held[start - first : end - first])}]" if ok else "null"
        for (start, end), ok in zip(pairwise(offsets), valid, strict=True)
    ]


def _rows(columns: list[list[str]], count: int) -> Iterable[tuple[str, ...]]:
    """The columns' values row by row, also where there are no columns."""
    return zip(*columns, strict=True) if columns else [()] * count


def _json_double(text: str) -> str:
    return json.dumps(text) if text in _DOUBLES.values() else text


def text_grid(rows: pa.Table, most: int | None) -> str:
    """Rows in a grid of ``+``, ``-`` and ``|``, as Spark shows them; NULL is a word.

    :param most: the greatest number of characters of a value; values are aligned right then, and left if it is None,
        which cuts none.
    """
    columns = [
        [
            printable(name),
            *(
                _cut("NULL" if text is None else text, most)
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
        lines.append(f"|{'|'.join(cell + blank if most is None else blank + cell for cell, blank in pairs)}|")
    head, *body = lines or ["||"]
    return "\n".join([line, head, line, *body, line])


def text_width(text: str) -> int:
    """Terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cut(text: str, most: int | None) -> str:
    text = printable(text)
    if most is None or len(text) <= most:
        return text
    return text[:most] if most <= len(_ELLIPSIS) else text[: most - len(_ELLIPSIS)] + _ELLIPSIS


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def instant_text(milliseconds: int, unit: Literal["s", "ms"] = "ms") -> str:
    """A moment in milliseconds since 1970, to the unit; as such where it is none that a clock shows."""
    if not 0 <= milliseconds < _YEAR_10000:
        return f"{milliseconds} ms since 1970"
    return str(np.datetime64(milliseconds, "ms").astype(f"datetime64[{unit}]")).replace("T", " ") + "Z"

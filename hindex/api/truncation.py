"""The beginnings of values, for who shows no more of their text: long ones are cut before they become text."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

#: Bytes that a character of UTF-8 takes at most.
_CHARACTER_BYTES = 4
#: Characters that an element of a list takes at least, as in ``1, 2``.
_ELEMENT_CHARACTERS = 3


def truncate_values(column: pa.Array, characters: int) -> pa.Array:
    """Values whose texts begin with the same characters, at least so many where there are so many.

    Strings and binary values lose what is behind them, lists and maps the elements.
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
    # the last character may be half of one, which is behind those that count
    return cut.view(pa.string()) if is_text else cut


def _elements(column: pa.Array, parts: list[pa.Array], characters: int) -> tuple[pa.Array, list[pa.Array]]:
    """The offsets of shortened lists, NULL where a list is, and their elements, part by part."""
    most = characters // _ELEMENT_CHARACTERS + 1
    spans = [
        (start, min(end - start, most)) if ok else None
        for (start, end), ok in zip(
            pairwise(column.offsets.to_pylist()), column.is_valid().to_pylist(), strict=True
        )
    ]
    offsets: list[int | None] = []
    total = 0
    for span in spans:
        offsets.append(None if span is None else total)
        total += 0 if span is None else span[1]
    found = [
        pa.concat_arrays(
            [truncate_values(part.slice(*span), characters) for span in [(0, 0), *filter(None, spans)]]
        )
        for part in parts
    ]
    return pa.array([*offsets, total], pa.int32()), found

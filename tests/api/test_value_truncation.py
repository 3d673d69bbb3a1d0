"""Beginnings of values against the values: texts begin with the same characters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.value_formatting import format_values, truncate_values

CHARACTERS = 'aä東😀"\n\\'


def random_value(rng: np.random.Generator, kind: pa.DataType) -> object:
    if rng.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: random_value(rng, field.type) for field in kind}
    if pa.types.is_map(kind):
        return [
            ("k" * int(rng.integers(30)), random_value(rng, kind.item_type))
            for _ in range(int(rng.integers(9)))
        ]
    if pa.types.is_list(kind):
        return [random_value(rng, kind.value_type) for _ in range(int(rng.integers(30)))]
    if pa.types.is_integer(kind):
        return int(rng.integers(10 ** int(rng.integers(1, 9))))
    text = "".join(CHARACTERS[int(rng.integers(len(CHARACTERS)))] for _ in range(int(rng.integers(60))))
    return text.encode() if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else text


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.int64(),
        pa.list_(pa.int32()),
        pa.list_(pa.list_(pa.int32())),
        pa.list_(pa.string()),
        pa.struct([("a", pa.string()), ("b", pa.int64()), ("c", pa.list_(pa.binary()))]),
        pa.struct([]),
        pa.map_(pa.string(), pa.struct([("x", pa.string())])),
        pa.list_(pa.map_(pa.string(), pa.string())),
    ],
    ids=str,
)
def test_beginnings_of_values_have_their_first_characters(
    kind: pa.DataType, rng: np.random.Generator
) -> None:
    column = pa.array([random_value(rng, kind) for _ in range(20)], kind)
    for part in (column, column[3:17], column[:0]):
        for characters in (1, 7, 40, 10_000):
            result = truncate_values(part, characters)
            assert [text and text[:characters] for text in format_values(result)] == [
                text and text[:characters] for text in format_values(part)
            ]
        assert format_values(truncate_values(part, 10_000)) == format_values(part)


def test_beginnings_are_no_longer_than_wanted() -> None:
    strings = truncate_values(pa.array(["x" * 1_000_000]), 10)
    assert strings.nbytes <= 10 * 4 + 16
    assert len(truncate_values(pa.array([[[1] * 1000] * 1000]), 12).flatten().flatten()) == 25
    odd = pa.array([b"\xff" * 100], pa.binary()).view(pa.string())
    assert format_values(truncate_values(odd, 5))[0][:8] == r"\xff\xff"  # type: ignore[index]

"""Blanks at the end of CHAR values, which may be more than one array holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyorc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.decode import arrow_arrays
from tests.support.messages import raises

LENGTH = 7


def values(rng: np.random.Generator, count: int) -> list[str | None]:
    letters = ["a", "é", "日", "🙂"]
    return [
        None if rng.random() < 0.2 else "".join(rng.choice(letters, rng.integers(0, LENGTH + 2)))
        for _ in range(count)
    ]


@pytest.mark.parametrize(("max_bytes", "is_large"), [((1 << 31) - 1, False), (2000, True)])
def test_short_values_are_filled_with_blanks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, max_bytes: int, is_large: bool
) -> None:
    padded_types: list[pa.DataType] = []
    pad = pc.utf8_rpad

    def watched_pad(array: pa.Array, **options: Any) -> pa.Array:
        padded_types.append(array.type)
        return pad(array, **options)

    monkeypatch.setattr(arrow_arrays, "MAX_ARRAY_BYTES", max_bytes)
    monkeypatch.setattr(pc, "utf8_rpad", watched_pad)
    for strings in ([], ["a"], [None], values(rng, 70)):
        padded = arrow_arrays.pad_strings(pa.array(strings, pa.utf8()), LENGTH)
        assert padded.type == pa.utf8()
        assert padded.to_pylist() == [None if value is None else value.ljust(LENGTH) for value in strings]
    # the bound is on the most that 70 values could take, not on what these take
    assert padded_types == [pa.utf8(), pa.large_utf8() if is_large else pa.utf8()]


@pytest.mark.parametrize("bound", ["what there is", "one byte less"])
def test_as_much_as_an_array_holds(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    strings = [*values(rng, 100), "a"]
    expected = [None if value is None else value.ljust(LENGTH) for value in strings]
    total = sum(len((value or "").encode()) for value in expected)
    if bound == "what there is":
        monkeypatch.setattr(arrow_arrays, "MAX_ARRAY_BYTES", total)
        assert arrow_arrays.pad_strings(pa.array(strings, pa.utf8()), LENGTH).to_pylist() == expected
    else:
        monkeypatch.setattr(arrow_arrays, "MAX_ARRAY_BYTES", total - 1)
        with raises(OrcError):
            arrow_arrays.pad_strings(pa.array(strings, pa.utf8()), LENGTH)


def test_values_that_arrow_refuses_to_pad(monkeypatch: pytest.MonkeyPatch) -> None:
    # pyarrow's limit, which it checks before it allocates
    width = 1 << 29
    with pytest.raises(pa.ArrowCapacityError):
        pc.utf8_rpad(pa.array(["a"]), width=width, padding=" ")
    pad = pc.utf8_rpad

    def limited_pad(array: pa.Array, *, width: int, padding: str) -> pa.Array:
        is_large = pa.types.is_large_string(array.type)
        if not is_large and array.get_total_buffer_size() + 4 * len(array) * width > 2000:
            raise pa.ArrowCapacityError("too large")
        return pad(array, width=width, padding=padding)

    monkeypatch.setattr(arrow_arrays, "MAX_ARRAY_BYTES", 2000)
    monkeypatch.setattr(pc, "utf8_rpad", limited_pad)
    for count in range(0, 280, 7):
        padded = arrow_arrays.pad_strings(pa.array(["a"] * count, pa.utf8()), LENGTH)
        assert padded.to_pylist() == ["a".ljust(LENGTH)] * count


def test_a_length_that_no_memory_has() -> None:
    with raises(OrcError):
        arrow_arrays.pad_strings(pa.array(["a"] * 1000), (1 << 32) - 1)


@pytest.mark.usefixtures("windows")
def test_a_length_beyond_memory_is_an_error_with_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.orc"
    with file.open("wb") as out, pyorc.Writer(out, f"struct<i:int,c:char({LENGTH})>") as writer:
        writer.writerows([(n, "ab") for n in range(100)])
    # pyorc writes the blanks: so that there is something to fill, the file says that there are more
    schema = OrcReader(file).tail.schema
    monkeypatch.setattr(type(schema.children[1]), "max_length", 1 << 31, raising=False)
    with raises(OrcError) as caught:
        OrcReader(file).read(["c"], range(100))
    assert (caught.value.path, caught.value.stripe, caught.value.column) == (str(file), 0, "c")

"""Leaving a few rows out of a column, beside a plain list without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader, RowSelection, leaving_out

TEXTS = ["", "x", "größe", "𝄞", "\0", "a longer text than the others"]


def draw(rng: np.random.Generator, count: int, *, nulls: bool) -> list[str | None]:
    texts = [*TEXTS, *([None] * 3 if nulls else [])]
    return [texts[at] for at in rng.integers(0, len(texts), count)]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("of", [pa.string(), pa.binary()])
def test_runs_of_texts(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, of: pa.DataType, nulls: bool
) -> None:
    monkeypatch.setattr(leaving_out, "_RUN_BYTES", 0)
    for _ in range(200):
        count, before = int(rng.integers(1, 80)), int(rng.integers(0, 20))
        array = pa.array(draw(rng, before + count + 3, nulls=nulls)).cast(of).slice(before, count)
        gone = np.flatnonzero(rng.random(count) < rng.choice([0, 0.02, 0.3, 0.9, 1]))
        left = np.setdiff1d(np.arange(count), gone)
        expected = [array[int(at)].as_py() for at in left]
        for selection in (RowSelection(count, None, gone), RowSelection(count, left)):
            found = leaving_out.without_others(array, selection)
            found.validate(full=True)
            assert found.type == of
            assert found.to_pylist() == expected
            assert found.null_count == expected.count(None)
            # just the bytes that are wanted
            assert found.buffers()[2].size == sum(map(len, found.cast(pa.binary()).drop_null().to_pylist()))


@pytest.mark.parametrize(
    ("text", "step", "by_runs"), [("x" * 30, 100, True), ("x" * 30, 10, False), ("xy", 100, False)]
)
def test_long_runs_are_moved_at_once(
    monkeypatch: pytest.MonkeyPatch, text: str, step: int, by_runs: bool
) -> None:
    moved = []
    texts = leaving_out._texts

    def told(*given: object) -> pa.Array:
        moved.append(given)
        return texts(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(leaving_out, "_texts", told)
    # of a part of an array only its own bytes count
    array = pa.array([text * 50] * 400 + [f"{text}{at % 7}" for at in range(4000)]).slice(400)
    selection = RowSelection(4000, None, np.arange(0, 4000, step))
    found = leaving_out.without_others(array, selection)
    assert found.to_pylist() == [f"{text}{at % 7}" for at in range(4000) if at % step]
    assert bool(moved) == by_runs


def test_a_reader_moves_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a column that is decoded whole, the texts between rows that are not wanted; and numbers beside them."""
    moved = []
    texts = leaving_out._texts

    def told(array: pa.Array, places: npt.NDArray[np.int32], selection: RowSelection) -> pa.Array:
        moved.append((len(array), len(selection)))
        return texts(array, places, selection)

    monkeypatch.setattr(leaving_out, "_texts", told)
    count = 20_000
    # all different: no dictionary
    table = pa.table(
        {"id": range(count), "s": [None if at % 11 == 0 else f"text {at}" * 3 for at in range(count)]}
    )
    pyarrow.orc.write_table(table, str(tmp_path / "t.orc"))
    wanted = [at for at in range(count) if at % 200]
    with OrcReader(tmp_path / "t.orc") as reader:
        assert reader.read(rows=np.array(wanted)).to_pydict() == table.take(wanted).to_pydict()
        assert reader.counts.dense_columns == 2
    assert moved == [(count, len(wanted))]


def test_other_columns_are_filtered() -> None:
    selection = RowSelection(5, None, np.array([1, 4]))
    for values in (["a", None, "b", "c", "d"], [1.5, 2.5, None, 3.5, 4.5], [None] * 5):
        array = pa.array(values)
        assert leaving_out.without_others(array, selection).to_pylist() == [values[0], values[2], values[3]]

"""What pyarrow decodes of a part of a stripe equals what was written, and only where it pays."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader, cost, handover
from hindex.orc.columns import context, decimals, strings
from hindex.orc.marks import Marks

ROWS, STRIDE = 60_000, 5_000

Calls = list[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The types of what was handed over."""
    found: Calls = []

    def spying(original: Callable[..., Any]) -> Callable[..., Any]:
        def spy(of: Any, *args: Any, **options: Any) -> Any:
            found.append(str(of))
            return original(of, *args, **options)

        return spy

    for module in (handover, decimals, strings):
        monkeypatch.setattr(module, "decode_column", spying(handover.decode_column))
    return found


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over whatever can be."""
    monkeypatch.setattr(context, "LEAST_HANDED_OVER", 1)
    monkeypatch.setattr(cost, "LEAST_HANDED_OVER", 1)
    monkeypatch.setattr(context, "handover_pays", lambda *_: True)


def table(seed: int, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    nulls = rng.random(rows) < 0.3
    order = np.repeat(np.arange(rows), rng.integers(1, 8, rows))[:rows]
    cents = rng.integers(-(10**6), 10**6, rows)
    return pa.table(
        {
            "key": order,
            "key_or_null": pa.array(order, pa.int64(), mask=nulls),
            "small": pa.array(order % 1000, pa.int16()),
            "random": pa.array(rng.integers(-(1 << 62), 1 << 62, rows), mask=nulls),
            "day": pa.array((order // 5).astype(np.int32), pa.date32()),
            "price": pa.array([decimal.Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(12, 2)),
            "price_or_null": pa.array(
                [
                    None if n else decimal.Decimal(int(c) << 60).scaleb(-3)
                    for c, n in zip(cents, nulls, strict=True)
                ],
                pa.decimal128(38, 3),
            ),
            "mode": pa.array(rng.choice(["AIR", "MAIL", "", "SHIP \U0001d11e"], rows)),
            "mode_or_null": pa.array(rng.choice(["AIR", "MAIL", "TRUCK"], rows), mask=nulls),
            "late": pa.array([None] * (rows - 10) + [7] * 10, pa.int64()),
        }
    )


def write(path: Path, data: pa.Table, codec: str) -> None:
    pa.orc.write_table(
        data,
        path,
        compression=codec,
        row_index_stride=STRIDE,
        compression_block_size=65_536,
        dictionary_key_size_threshold=1.0,
    )


def groups(*numbers: int) -> list[int]:
    return [row for number in numbers for row in range(number * STRIDE, min((number + 1) * STRIDE, ROWS))]


SELECTIONS = {
    "one row group": groups(3),
    "neighbours": groups(4, 5, 6),
    "first and last": groups(0, 11),
    "some apart": groups(1, 3, 4, 9),
    "half of the rows": list(range(0, ROWS, 2)),
    "the ends of row groups": [row for n in range(12) for row in (n * STRIDE, n * STRIDE + STRIDE - 1)],
    "a few": [17, 5_001, 5_002, 31_000, 59_999],
}


def test_a_range_of_long_runs_is_handed_over_without_a_look_at_marks(
    tmp_path: Path, calls: Calls, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Walking is little there, but gathering each value takes longer than to decode them all."""
    data = pa.table({"number": rng.integers(0, 1 << 40, ROWS)})
    write(tmp_path / "t.orc", data, "zstd")
    looked: list[int] = []
    original = Marks.before

    def before(self: Marks, *args: Any) -> Any:
        looked.append(1)
        return original(self, *args)

    monkeypatch.setattr(Marks, "before", before)
    reader = OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE)
    wanted = list(range(STRIDE - 7, 6 * STRIDE + 7))
    for read in range(3):
        assert reader.read(rows=wanted).equals(data.take(wanted))
        assert (calls, looked) == (["bigint"] * (read + 1), [])
    few = list(range(3, ROWS, 1000))
    assert reader.read(rows=few).equals(data.take(few))
    assert (calls, looked) == (["bigint"] * 3, [1])


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "zstd"])
@pytest.mark.parametrize("wanted", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.usefixtures("always")
def test_values(tmp_path: Path, calls: Calls, wanted: list[int], codec: str) -> None:
    data = table(len(wanted))
    write(tmp_path / "t.orc", data, codec)
    found = OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE).read(rows=wanted)
    for name in data.column_names:
        assert found[name].equals(data[name].take(wanted)), (name, len(wanted))
    assert "bigint" in calls
    if len(wanted) >= STRIDE:
        # wide decimals are decoded here: pyarrow's reader lets them overflow
        assert {"bigint", "decimal(12,2)", "string"} == set(calls)


@pytest.mark.parametrize("name", ["decimal(9,4)", "decimal(38,10)"])
@pytest.mark.usefixtures("always")
def test_decimals_whose_zeros_the_writer_dropped(tmp_path: Path, spark: Any, calls: Calls, name: str) -> None:
    frame = spark.range(0, 30_000, 1, 1).selectExpr(
        f"cast(case when id % 3 = 0 then id / 8 when id % 7 = 0 then null else -id end as {name}) x"
    )
    frame.write.option("orc.row.index.stride", 1000).orc(str(tmp_path / "t"))
    (file,) = (tmp_path / "t").glob("*.orc")
    expected = pa.orc.read_table(file)
    for wanted in (list(range(2000, 5000)), list(range(5, 30_000, 333))):
        assert OrcReader(file, path=DecodePath.SPARSE).read(rows=wanted).equals(expected.take(wanted))
    assert set(calls) == ({"bigint", name} if name == "decimal(9,4)" else {"bigint"})


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
@pytest.mark.usefixtures("always")
def test_a_first_row_group_of_few_values_whose_last_run_is_not_wanted(
    tmp_path: Path, calls: Calls, codec: str
) -> None:
    values = pa.array(
        [(i + 3) // 5 % 900 * 7 if i >= STRIDE - 303 else None for i in range(ROWS)], pa.int64()
    )
    write(tmp_path / "t.orc", pa.table({"x": values}), codec)
    wanted = [STRIDE - 300, *range(STRIDE + 9, ROWS, STRIDE), ROWS - 1]
    found = OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE).read(rows=wanted)
    assert found["x"].to_pylist() == [values[row].as_py() for row in wanted]
    assert calls == ["bigint"]


def test_long_runs_of_few_rows_are_decoded_here(tmp_path: Path, calls: Calls) -> None:
    """And many short runs by pyarrow, whose work is then less than a walk over them."""
    data = table(1).select(["key", "random", "price", "mode"])
    write(tmp_path / "t.orc", data, "zstd")
    every_group = [n * STRIDE + STRIDE - 9 for n in range(12)]
    reader = OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE)
    for name in ("random", "price", "mode"):
        assert reader.read([name], every_group).equals(data.select([name]).take(every_group))
    assert not calls
    assert reader.read(["key"], every_group).equals(data.select(["key"]).take(every_group))
    assert calls == ["bigint"]

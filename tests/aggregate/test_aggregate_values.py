"""Aggregates of values whose comparison has a trap, or that Python cannot hold: those of Spark."""

from __future__ import annotations

import datetime
import math
import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.table import IndexSpec
from hindex.index.column_stats import SHORT_KEY
from hindex.index.minmax import LONG_KEY
from hindex.orc import OrcReader
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns
from tests.support.work import decoded
from tests.support.writers import write_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("using", [None, "bitmap"])
def test_ends_that_python_cannot_hold_are_text(
    connection: LocalConnection, tmp_path: Path, using: str | None
) -> None:
    columns = {
        "d": pa.array([-800_000, 3_000_000, 0, None], pa.int32()).view(pa.date32()),
        "t": pa.array([-70_000_000_000_000_000, 253_500_000_000_000_000, 0, None]).view(pa.timestamp("us")),
        "s": pa.array([b"a", b"\xff\xfe", None, b"b"]).view(pa.string()),
    }
    write_columns(tmp_path / "t" / "0.orc", columns)
    table = connection.table(str(tmp_path / "t"))
    if using is not None:
        table.create_indexes([IndexSpec(name, name, using) for name in columns])
    scan = table.scan()
    assert (scan.max("d"), scan.min("s"), scan.max("s")) == ("+10183-09-21", "a", "\udcff\udcfe")
    assert (scan.min("d")[:5], scan.min("t")[:5], scan.max("t")[:6]) == ("-0221", "-0249", "+10003")
    # proofs compare them, too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan(None, list(columns), mode="prove").to_arrow().num_rows == 4


@pytest.mark.parametrize("using", ["minmax", "bitmap", "btree"])
@pytest.mark.parametrize("length", [SHORT_KEY - 1, SHORT_KEY, LONG_KEY - 1, LONG_KEY, LONG_KEY + 300])
def test_ends_of_long_strings_are_whole(
    connection: LocalConnection, tmp_path: Path, using: str, length: int
) -> None:
    """Manifests and MINMAX files keep the beginnings of long keys only."""
    parts: list[list[str | None]] = [
        ["b" * length + end for end in ("d", "c", "", "\U0001f600")],
        ["b" * length + end for end in ("e", "ca")],
        [None, "b" * (length + 5)],
    ]
    for number, part in enumerate(parts):
        columns = {"id": pa.array(range(10 * number, 10 * number + len(part))), "s": pa.array(part)}
        write_columns(tmp_path / "t" / f"{number}.orc", columns, stride=2)
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_s", "s", using)
    everything = [value for part in parts for value in part if value is not None]
    for where, values in (
        (None, everything),
        (f"s > '{'b' * length}d'", [value for value in everything if value > "b" * length + "d"]),
        ("id >= 10", [value for part in parts[1:] for value in part if value is not None]),
    ):
        scan = table.scan(where)
        ordered = sorted(values, key=lambda value: value.encode())
        assert (scan.min("s"), scan.max("s")) == (ordered[0], ordered[-1])
        assert scan.count_distinct("s") == len(set(values))
        for descending, expected in ((False, ordered), (True, ordered[::-1])):
            top = table.scan(f"s IS NOT NULL AND ({where or 'id >= 0'})", ["s"], limit=2)
            assert top.order_by("s", descending=descending).to_arrow()["s"].to_pylist() == expected[:2]
    for value in everything:
        assert table.scan(f"s = '{value}'").count() == everything.count(value)


def special_values() -> dict[str, pa.Array]:
    """Values whose comparison has a trap, each several times and in several stripes."""
    nan, inf = math.nan, math.inf
    day, moment = datetime.date, datetime.datetime
    base: dict[str, tuple[pa.DataType, list[Any]]] = {
        "b": (pa.bool_(), [True, False, None]),
        "t": (pa.int8(), [-128, 127, 0, None]),
        "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, None, -1]),
        "f": (pa.float32(), [nan, -0.0, 0.0, 1.5, -inf, inf, None]),
        "d": (pa.float64(), [-0.0, 0.0, nan, 1e300, -5e-324, None]),
        "z": (pa.float64(), [nan, None]),
        "n": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("-99999999.99"), None, Decimal(0)]),
        "w": (pa.decimal128(38, 10), [Decimal("-1e27"), Decimal("0.0000000001"), Decimal("1e27"), None]),
        "s": (
            pa.string(),
            ["", "a", "a ", "\u00e9", "\U0001f600", "x" * 100 + "1", "x" * 100 + "2", "\x00", None],
        ),
        "y": (pa.binary(), [b"", b"\xff\x00", b"\xff", b"a", None]),
        "c": (pa.date32(), [day(1582, 10, 4), day(1582, 10, 15), day(1, 1, 1), day(9999, 12, 31), None]),
        "m": (
            pa.timestamp("us"),
            [moment(1969, 12, 31, 23, 59, 59, 999_999), moment(2020, 1, 1), None, moment(1900, 1, 1)],
        ),
        "e": (pa.string(), [None]),
    }
    rng = np.random.default_rng(7)
    return {
        name: pa.array([values[i] for i in rng.integers(0, len(values), 900)], of)
        for name, (of, values) in base.items()
    }


def plain(value: Any) -> Any:
    """Equal for what Spark takes for one value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


def test_special_values_as_spark(
    spark: SparkSession, connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]
) -> None:
    columns = special_values()
    for number in range(2):
        part = {name: array.slice(number * 450, 450) for name, array in columns.items()}
        write_pyarrow(tmp_path / "t" / f"{number}.orc", pa.table(part), "zlib", stripe=2000, stride=100)
    frame = spark.read.orc(str(tmp_path / "t"))
    ends = frame.selectExpr(
        *(
            f"{function}({name}) AS {function}_{name}"
            for name in columns
            for function in ("min", "max", "count")
        )
    ).toArrow()
    counted = {name: frame.groupBy(name).count().toArrow() for name in columns}
    table = connection.table(str(tmp_path / "t"))
    for indexed in (False, True):
        if indexed:
            table.create_indexes([IndexSpec(name, name) for name in columns])
        opened.clear()
        for name, array in columns.items():
            scan = table.scan()
            for function, found in (
                ("min", scan.min(name)),
                ("max", scan.max(name)),
                ("count", scan.count(name)),
            ):
                expected = ends.column(f"{function}_{name}")
                if pa.types.is_timestamp(expected.type):
                    expected = expected.cast(pa.timestamp("us"))
                assert plain(found) == plain(expected[0].as_py()), (function, name, indexed)
            got = scan.value_counts(name)
            assert got.schema.field(0).type == array.type
            values = counted[name].column(0)
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.timestamp("us"))
            expected_values = dict(
                zip(map(plain, values.to_pylist()), counted[name].column(1).to_pylist(), strict=True)
            )
            listed = list(map(plain, got.column(0).to_pylist()))
            assert dict(zip(listed, got.column(1).to_pylist(), strict=True)) == expected_values, (
                name,
                indexed,
            )
            assert len(listed) == len(expected_values), name
        assert (decoded(opened) == 0) == indexed

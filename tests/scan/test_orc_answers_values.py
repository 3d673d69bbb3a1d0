"""Tables without an index, and values that statistics and bloom filters have otherwise than Spark."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.explanations.explanation import RowCount
from hindex.plan.reasons import Reason
from tests.fuzz.parts import put_together, take_apart
from tests.support.small import ids, reasons, scan_of
from tests.support.writers import write_pyarrow, write_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_long_strings_that_the_writer_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Java's writer leaves bounds of long strings, the upper one with its last character raised."""
    values = [f"{i // 1000:04}" + "x" * 2000 + f"{i:06}" for i in range(4000)]
    table = pa.table({"id": pa.array(range(4000)), "s": pa.array(values)})
    write_spark(spark, tmp_path / "x.orc", table, stride=1000)
    for row in (0, 999, 1000, 2500, 3999):
        scan = scan_of(tmp_path, f"s = '{values[row]}'")
        assert ids(scan) == [row]
        assert scan.explain().rows == RowCount(1000, 4000)
    scan = scan_of(tmp_path, f"s > '{values[3998]}'")
    assert ids(scan) == [3999]
    assert ids(scan_of(tmp_path, f"s > '{values[3999]}'")) == []


def test_strings_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """Java's statistics have U+FFFD for bytes that are not UTF-8: it may be greater or less than these."""
    # row groups of b"a\x80" and U+1F600, of b"\xff", and of "b"
    odd = (
        "IF(id < 1000, IF(id = 7, unhex('6180'), encode('\U0001f600', 'UTF-8')), IF(id < 2000, X'FF', X'62'))"
    )
    frame = spark.range(0, 3000, 1, 1).selectExpr("id", f"CAST({odd} AS STRING) AS s")
    frame.write.option("orc.row.index.stride", "1000").orc(str(tmp_path / "t"))
    rows = spark.read.orc(str(tmp_path / "t"))
    for where, groups in (
        ("s = '\U0001f600'", 2),
        ("s > '\U0001f600'", 1),
        ("s < 'a\u0080'", 2),
        ("s < 'az'", 2),
        ("s = 'b'", 3),
        ("s < 'c'", 3),
    ):
        scan = scan_of(tmp_path / "t", where)
        assert ids(scan) == sorted(row.id for row in rows.where(where).collect()), where
        assert scan.explain().rows == RowCount(1000 * groups, 3000), where


def test_nan_is_not_lost(tmp_path: Path) -> None:
    """Writers leave NaN out of the maximum, and Spark finds it greater than all numbers."""
    x = [float(i % 10) for i in range(1000)]
    for i in (0, 150, 299, 700):
        x[i] = math.nan
    table = pa.table({"id": pa.array(range(1000)), "x": pa.array(x)})
    write_pyarrow(tmp_path / "x.orc", table, stride=100, bloom_filter_columns=[2])
    for where, expected in (
        ("x > 100", [0, 150, 299, 700]),
        ("x = CAST('NaN' AS DOUBLE)", [0, 150, 299, 700]),
        ("x >= CAST('NaN' AS DOUBLE)", [0, 150, 299, 700]),
        ("x < 1", [i for i in range(1000) if x[i] < 1]),
        ("x < 0", []),
    ):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == expected, where
        assert reasons(scan)[Reason.UNRELIABLE_STATISTICS] == ["x in x.orc"], where
    # the row groups without NaN are ruled out all the same
    assert scan_of(tmp_path, "x > 100").explain().rows == RowCount(400, 1000)


@pytest.mark.parametrize("nulls", [0.5, 0])
def test_values_under_null_structs_within_structs(tmp_path: Path, nulls: float) -> None:
    """The writer counts them, and all readers give them to later rows: pyarrow, as Spark does, in each stripe."""
    count = 4000
    mask = np.random.default_rng(3).random(count) < nulls
    inner = pa.StructArray.from_arrays([pa.array(range(count))], ["v"], mask=pa.array(mask))
    outer = pa.StructArray.from_arrays([inner], ["s"])
    table = pa.table({"id": pa.array(range(count)), "s": outer})
    path = tmp_path / "x.orc"
    write_pyarrow(path, table, stride=1000, bloom_filter_columns=[4])
    rows = pa.orc.read_table(path).to_pylist()
    # the writer's mistake: if it is mended, this is no test of anything
    assert (rows == table.to_pylist()) == (not nulls)
    values = [row["s"]["s"] and row["s"]["s"]["v"] for row in rows]
    for expected_values in (5, 1500, 2999):
        expected = [i for i in range(count) if values[i] == expected_values]
        scan = scan_of(tmp_path, f"s.s.v = {expected_values}")
        assert ids(scan) == expected
        messages = reasons(scan).get(Reason.UNRELIABLE_STATISTICS)
        assert messages == (["s.s.v in x.orc"] if nulls else None)
        assert scan.explain().rows == (RowCount(count, count) if nulls else RowCount(1000, count))
    for where in ("s.s.v IS NULL", "s.s IS NULL"):
        assert scan_of(tmp_path, where).count() == values.count(None) == mask.sum()


def test_negative_zero(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(400)), "x": pa.array([-0.0] * 200 + [0.0] * 200)})
    write_pyarrow(tmp_path / "x.orc", table, stride=100, bloom_filter_columns=[2])
    for where in ("x = 0", "x = -0.0D", "x >= 0", "x <= -0.0D", "x IN (0, 5)"):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == list(range(400)), where
        if "5" not in where:
            assert scan.explain().exact, where
    assert ids(scan_of(tmp_path, "x > -0.0D OR x < 0")) == []


def test_files_of_other_types_than_the_table(tmp_path: Path) -> None:
    """Their statistics are of their own types, the predicate of the table's."""
    narrow = {
        "id": pa.array(range(1000)),
        "n": pa.array(range(1000), pa.int16()),
        "f": pa.array([i / 4 for i in range(1000)], pa.float32()),
        "d": pa.array([Decimal(i).scaleb(-1) for i in range(1000)], pa.decimal128(5, 1)),
    }
    wide = {
        "id": pa.array(range(1000, 2000)),
        "n": pa.array([i * 10**12 for i in range(1000)], pa.int64()),
        "f": pa.array([i * 1e100 for i in range(1000)], pa.float64()),
        "d": pa.array([Decimal(i).scaleb(-4) for i in range(1000)], pa.decimal128(30, 4)),
        "later": pa.array(["x"] * 1000),
    }
    write_pyarrow(tmp_path / "1.orc", pa.table(narrow), stride=100, bloom_filter_columns=[2, 3, 4])
    write_pyarrow(tmp_path / "2.orc", pa.table(wide), stride=100, bloom_filter_columns=[2, 3, 4])
    for where, expected, most in (
        ("n = 7", [7], 200),
        ("n = 7000000000000", [1007], 100),
        ("n BETWEEN 990 AND 1000000000000", [*range(990, 1000), 1001], 200),
        ("f = 1.25", [5], 200),
        ("f > 1e99", list(range(1001, 2000)), 1000),
        ("d = 0.1", [1], 1100),
        ("d = 0.0003", [1003], 1100),
        ("d = 99.8", [998], 100),
        ("d BETWEEN 0.09 AND 0.0901", [1900, 1901], 200),
        ("later = 'x'", list(range(1000, 2000)), 1000),
        ("later IS NULL", list(range(1000)), 1000),
    ):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == expected, where
        rows = scan.explain().rows
        assert rows is not None
        assert rows.kept is not None
        assert rows.kept <= most, where


def test_decimals_of_more_digits_than_their_column(tmp_path: Path) -> None:
    """Statistics have all of them, and readers round the values half up."""
    values = [Decimal(value).scaleb(-3) for value in (1254, 1255, -1255, -1254) for _ in range(100)]
    table = pa.table({"id": pa.array(range(400)), "m": pa.array(values, pa.decimal128(9, 3))})
    write_pyarrow(tmp_path / "x.orc", table, "none", stride=100)
    parts = take_apart((tmp_path / "x.orc").read_bytes())
    parts.footer.types[2].scale = 2
    (tmp_path / "x.orc").write_bytes(put_together(parts))
    for where, expected in (
        ("m = 1.25", range(100)),
        ("m = 1.26", range(100, 200)),
        ("m > 1.25", range(100, 200)),
        ("m = -1.26", range(200, 300)),
        ("m < -1.25", range(200, 300)),
        ("m = -1.25", range(300, 400)),
    ):
        assert ids(scan_of(tmp_path, where)) == list(expected), where
    assert ids(scan_of(tmp_path, "m > 1.26")) == []


def test_char_with_and_without_blanks(tmp_path: Path) -> None:
    import pyorc

    values = [f"{i // 100}" + " " * (i % 3) for i in range(900)]
    with (tmp_path / "x.orc").open("wb") as file:
        options: dict[str, Any] = {"row_index_stride": 100, "batch_size": 100, "bloom_filter_columns": ["c"]}
        with pyorc.Writer(file, "struct<id:bigint,c:char(4)>", **options) as writer:
            writer.writerows(enumerate(values))
    for literal in ("5", "5 ", "5   "):
        scan = scan_of(tmp_path, f"c = '{literal}'")
        assert ids(scan) == list(range(500, 600)), literal
        assert scan.explain().rows == RowCount(100, 900)


def test_filters_of_char_by_writers_in_cpp_are_not_asked(tmp_path: Path) -> None:
    """They hash the value with what happens to lie behind it, in place of blanks."""
    import pyorc

    texts = ["a", "abcd", "ab", "b", "é", "abc", "x y"]
    values = [texts[i * i % len(texts)] for i in range(400)]
    with (tmp_path / "x.orc").open("wb") as file:
        options: dict[str, Any] = {"row_index_stride": 100, "batch_size": 100, "bloom_filter_columns": ["c"]}
        with pyorc.Writer(file, "struct<id:bigint,c:char(6)>", **options) as writer:
            writer.writerows(enumerate(values))
    for text in texts:
        scan = scan_of(tmp_path, f"c = '{text}'")
        assert ids(scan) == [i for i, value in enumerate(values) if value == text], text
        assert Reason.UNRELIABLE_STATISTICS in {note.reason for note in scan.explain().notes}

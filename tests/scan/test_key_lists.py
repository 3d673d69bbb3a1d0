"""Long lists of keys as Arrow arrays, against a plain set."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.errors import ArgumentTypeError
from hindex.sql.predicate import Literal, LiteralKind
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100_000
#: Beside numbers of the column: NULL, and numbers that its type does not have.
OTHERS = [None, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("using", ["bitmap", "btree"])
@pytest.mark.parametrize("count", [10, 5_000, 50_000])
@pytest.mark.parametrize("is_int32", [True, False])
def test_isin_of_an_arrow_array(
    connection: LocalConnection, tmp_path: Path, using: str, count: int, is_int32: bool
) -> None:
    rng = np.random.default_rng(count)
    values = rng.permutation(ROWS) * 3 - ROWS
    column = [None if at % 100 == 0 else int(value) for at, value in enumerate(values)]
    rows = pa.table({"k": pa.array(column, pa.int32() if is_int32 else pa.int64()), "at": np.arange(ROWS)})
    pyarrow.orc.write_table(rows, tmp_path / "f.orc")
    table = connection.table(str(tmp_path))
    table.create_index("i", column="k", using=using)
    keys = [*rng.integers(-ROWS, 2 * ROWS, count).tolist(), *OTHERS]
    condition = hindex.col("k").isin(pa.array(keys, pa.int64()))
    members = set(keys)
    expected = [at for at, value in enumerate(column) if value is not None and value in members]
    scan = table.scan(where=condition, columns=["at"])
    assert sorted(scan.to_arrow().column("at").to_pylist()) == expected
    assert scan.count() == len(expected)
    explanation = scan.explain()
    if using == "bitmap" and count == 10:
        assert explanation.exact
        assert explanation.rows is not None
        assert explanation.rows.kept == len(expected)
    # NULL in the list: NOT IN is true of no row
    assert table.scan(where=~condition).count() == 0
    without_null = hindex.col("k").isin(pa.array([key for key in keys if key is not None]))
    present = sum(value is not None for value in column)
    assert table.scan(where=~without_null).count() == present - len(expected)


class _Color(enum.IntEnum):
    RED = 7


_RANGE = list(range(0, 3 * 2_000, 3))


@pytest.mark.parametrize(
    ("keys", "is_array"),
    [
        pytest.param(_RANGE, True, id="list"),
        pytest.param(tuple(_RANGE), True, id="tuple"),
        pytest.param(np.array(_RANGE, np.uint16), True, id="numpy"),
        pytest.param(pa.chunked_array([_RANGE[:9], _RANGE[9:]]), True, id="arrow"),
        pytest.param(pd.Series(_RANGE), True, id="pandas"),
        pytest.param([_Color.RED, *_RANGE], True, id="enum"),
        pytest.param([None, *_RANGE], True, id="null"),
        pytest.param([2**63, *_RANGE], False, id="beyond 64 bits"),
        pytest.param([6.0, *_RANGE], False, id="float"),
        pytest.param(_RANGE[:100], False, id="few"),
    ],
)
def test_integers_of_every_library_are_one_array(
    connection: LocalConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: Sequence[Any],
    is_array: bool,
) -> None:
    rows = [*range(-5, 9_000), None]
    pyarrow.orc.write_table(pa.table({"k": pa.array(rows, pa.int64())}), tmp_path / "f.orc")
    table = connection.table(str(tmp_path))
    table.create_index("i", column="k")
    members = {
        int(key)
        for key in (keys.to_pylist() if isinstance(keys, pa.ChunkedArray) else keys)
        if key is not None
    }
    literals = 0
    check = Literal.__post_init__

    def count(literal: Literal) -> None:
        nonlocal literals
        literals += literal.kind is LiteralKind.INTEGER
        check(literal)

    monkeypatch.setattr(Literal, "__post_init__", count)
    scan = table.scan(where=hindex.col("k").isin(keys))
    assert scan.to_arrow()["k"].to_pylist() == [row for row in rows if row in members]
    assert (literals < 100) is is_array or len(keys) <= 100
    others = table.scan(where=~hindex.col("k").isin(keys)).to_arrow()["k"].to_pylist()
    expected = [row for row in rows if row is not None and row not in members]
    assert others == ([] if None in list(keys) else expected)


def test_a_boolean_among_many_integers_stays_a_boolean() -> None:
    assert "(TRUE, 0, 3" in str(hindex.col("k").isin([True, *_RANGE]))


@pytest.mark.parametrize("duration", [np.timedelta64(1, "s"), datetime.timedelta(1)])
def test_durations_among_many_integers_are_refused(duration: Any) -> None:
    with raises(ArgumentTypeError):
        hindex.col("k").isin([duration, *_RANGE])


_STRINGS = ["", "é😀", "k1", "k1 ", "K1", *(f"k{number}" for number in range(2, 6_000))]
_DAYS = [datetime.date(1, 1, 1), *(datetime.date(1960, 1, 1) + datetime.timedelta(n) for n in range(6_000))]


@pytest.mark.parametrize("using", ["bitmap", "btree", "bloom", None])
@pytest.mark.parametrize("values", [_STRINGS, _DAYS], ids=["strings", "dates"])
def test_isin_of_strings_and_dates(
    connection: LocalConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: list[Any],
    using: str | None,
) -> None:
    rng = np.random.default_rng(len(values))
    column = [None if rng.random() < 0.01 else values[at] for at in rng.integers(0, len(values), 20_000)]
    # with duplicates, and none of the second half
    keys = [values[at] for at in rng.integers(0, len(values) // 2, 2_000)]
    rows = pa.table({"v": column, "at": np.arange(len(column))})
    pyarrow.orc.write_table(rows, tmp_path / "f.orc")
    table = connection.table(str(tmp_path))
    if using is not None:
        table.create_index("i", column="v", using=using)
    members = set(keys)
    expected = [at for at, value in enumerate(column) if value in members]
    literals: list[object] = []
    monkeypatch.setattr(Literal, "__post_init__", lambda literal: literals.append(literal.value))
    scan = table.scan(where=hindex.col("v").isin([*keys, None]), columns=["at"])
    assert scan.to_arrow().column("at").to_pylist() == expected
    assert scan.count() == len(expected)
    # no object for each key
    assert len(literals) < 100
    if using == "bitmap":
        explanation = scan.explain()
        assert explanation.rows is not None
        assert (explanation.exact, explanation.rows.kept) == (True, len(expected))
    present = sum(value is not None for value in column)
    assert table.scan(where=~hindex.col("v").isin(pa.array(keys))).count() == present - len(expected)
    assert table.scan(where=~hindex.col("v").isin(pa.array([*keys, None]))).count() == 0


@sampled(4)
@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("c", _STRINGS),
        ("v", _STRINGS),
        ("w", _DAYS),
        ("d", list(map(str, _DAYS))),
        ("t", _DAYS),
        ("k", [str(number) for number in range(0, 9_000, 3)]),
        ("s", list(range(3_000))),
    ],
)
def test_lists_of_every_type_keep_the_rows_of_spark(
    spark: SparkSession, column: str, keys: list[Any]
) -> None:
    selected = (
        "CAST(id AS INT) k, CAST(id AS STRING) s, date_add(DATE '1960-01-01', CAST(id AS INT)) d, "
        "CAST(date_add(DATE '1960-01-01', CAST(id AS INT)) AS TIMESTAMP) t, "
        "CAST(concat('k', id) AS CHAR(5)) c, CAST(concat('k', id, left(' ', id % 2)) AS VARCHAR(9)) v, "
        "CAST(date_add(DATE '1960-01-01', CAST(id AS INT)) AS STRING) w"
    )
    spark.sql(
        "CREATE TABLE lists (k INT, s STRING, d DATE, t TIMESTAMP, c CHAR(5), v VARCHAR(9), w STRING) "
        "USING orc"
    )
    try:
        spark.sql(f"INSERT INTO lists SELECT {selected} FROM range(0, 8000, 1, 1)")
        table = hindex.connect(spark=spark).table("lists")
        table.create_index("i", column=column)
        # as SQL, the condition has a literal for each key
        condition = hindex.col(column).isin(keys)
        expected = spark.sql(f"SELECT k FROM lists WHERE {condition}").collect()
        assert len(expected) > 1_000
        scan = table.scan(where=condition, columns=["k"])
        assert sorted(scan.to_arrow().column("k").to_pylist()) == sorted(row.k for row in expected)
    finally:
        spark.sql("DROP TABLE lists")

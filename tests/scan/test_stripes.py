"""Scans of a file of many stripes: its rows, in order, and no more stripes than are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex import col
from hindex.api.table import Table
from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.scan import file_columns
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns

#: The writer looks after every so many rows whether a stripe is large enough.
STRIPE, STRIPES = 3_500, 11
ROWS = STRIPE * STRIPES
IDS = np.arange(ROWS)
#: In every stripe, in the second and the last one, and one that no index is on.
A, B, C = IDS * 7 % 500, np.where(np.isin(IDS // STRIPE, (1, 10)), IDS % 50, -1), IDS * 13 % 40


def text(i: int) -> str:
    return f"text {i * 7919 % 10007} {i} {i * 104729 % 100003}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    columns = {
        "id": pa.array(IDS),
        "a": pa.array(A),
        "b": pa.array(B),
        "c": pa.array(C),
        "s": pa.array(list(map(text, range(ROWS)))),
    }
    options = {"stripe": 1 << 12, "stride": 500, "compression_block_size": 1 << 16}
    write_columns(tmp_path / "t" / "one.orc", columns, codec="zstd", **options)
    write_columns(tmp_path / "t" / "two.orc", {name: array.slice(0, 300) for name, array in columns.items()})
    with OrcReader(tmp_path / "t" / "one.orc") as reader:
        assert [stripe.num_rows for stripe in reader.stripes] == [STRIPE] * STRIPES
    return tmp_path / "t"


@pytest.fixture
def table(connection: LocalConnection, path: Path) -> Table:
    table = connection.table(str(path))
    table.create_index("by_a", "a")
    table.create_index("by_b", "b")
    return table


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The stripe of each read."""
    result: list[int] = []
    read = OrcReader.read_stripe

    def spy(self: OrcReader, stripe: int, *given: Any) -> pa.RecordBatch:
        result.append(stripe)
        return read(self, stripe, *given)

    monkeypatch.setattr(OrcReader, "read_stripe", spy)
    return result


def wanted(condition: np.ndarray) -> list[int]:
    """The ids of both files, by a condition on the rows of the first."""
    return [*IDS[condition].tolist(), *IDS[:300][condition[:300]].tolist()]


CONDITIONS = {
    "a = 7": A == 7,
    "a = 7 AND c < 20": (A == 7) & (C < 20),
    "b = 3 OR a = 14": (B == 3) | (A == 14),
    # certain rows in some stripes, and others that must be looked at in all of them or in some
    "b = 3 OR (a = 14 AND c > 5)": (B == 3) | ((A == 14) & (C > 5)),
    "(b = 3 AND c = 1) OR (a = 14 AND b < 0)": ((B == 3) & (C == 1)) | ((A == 14) & (B < 0)),
    "c = 1 AND id > 20000": (C == 1) & (IDS > 20_000),
    "a = 7 AND c = 77": A < 0,
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_and_counts(table: Table, where: str) -> None:
    ids = wanted(CONDITIONS[where])
    scan = table.scan(where, ["id", "s", "c"])
    rows = scan.to_arrow()
    assert rows.column("id").to_pylist() == ids
    assert rows.column("s").to_pylist() == list(map(text, ids))
    assert rows.column("c").to_pylist() == C[ids].tolist()
    assert scan.count() == len(ids)
    # the same by single stripes
    by_one = list(run_units(run_lookups(scan.plan().tasks), ScanTaskReader.read))
    assert pa.Table.from_batches(by_one, rows.schema).equals(rows)
    ordered = table.scan(where, ["id"]).order_by("id", descending=True).to_arrow()
    assert ordered.column("id").to_pylist() == sorted(ids, reverse=True)


def test_a_limit_reads_one_stripe_after_the_other(table: Table, reads: list[int]) -> None:
    assert table.scan("a = 7", ["id"], 3).to_arrow().column("id").to_pylist() == wanted(A == 7)[:3]
    assert reads == [0]
    reads.clear()
    assert table.scan("b = 3", ["id"]).to_arrow().num_rows == len(wanted(B == 3))
    assert sorted(reads) == [1, 10]


def test_a_fixed_value_that_is_too_large_for_the_rows_of_one_stripe(
    connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read of all of them."""
    letters = ["x" if i >= STRIPE or i % 1000 == 0 else "y" for i in range(3 * STRIPE)]
    columns = {"s": pa.array(letters), "t": pa.array(list(map(text, range(3 * STRIPE))))}
    options = {"stripe": 1 << 12, "stride": 500, "compression_block_size": 1 << 16}
    write_columns(tmp_path / "f" / "one.orc", columns, codec="zstd", **options)
    table = connection.table(str(tmp_path / "f"))
    table.create_index("by_s", "s")
    monkeypatch.setattr(file_columns, "_MAX_BYTES", 100)
    assert table.scan("s = 'x'", ["s"]).to_arrow().column("s").to_pylist() == ["x"] * letters.count("x")


def test_damage_in_one_stripe_of_several_is_an_error(table: Table, path: Path) -> None:
    with OrcReader(path / "one.orc") as reader:
        stripe = reader.stripes[5]
        begin, end = (
            stripe.offset + stripe.index_length,
            stripe.offset + stripe.index_length + stripe.data_length,
        )
    content = bytearray((path / "one.orc").read_bytes())
    scan = table.scan("a = 7", ["id", "s"])
    plan = scan.plan()
    content[begin:end] = bytes(end - begin)
    (path / "one.orc").write_bytes(content)
    with raises(OrcError):
        list(run_units(run_lookups(plan.tasks), ScanTaskReader.read))


def test_expressions_and_python_conditions(table: Table) -> None:
    ids = wanted((A == 7) | (A == 21))
    assert table.scan(col("a").isin([7, 21]), ["id"]).to_arrow().column("id").to_pylist() == ids
    assert table.scan("a + 0 IN (7, 21)", ["id"]).to_arrow().column("id").to_pylist() == ids

"""Stripes of a file that are read together give the rows, and count the work, of each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex import col
from hindex.errors import OrcError
from hindex.index.base import Bounds
from hindex.orc import OrcReader
from hindex.orc.crew import Crew
from hindex.orc.known_files import KNOWN_FILES
from hindex.scan import fixed, running
from hindex.scan.execute import OpenTask
from hindex.scan.running import answered, lots_of, run_lots, run_units
from hindex.tables import Table
from tests.support.local_build import LocalConnection
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
    found = connection.table(str(path))
    found.create_index("by_a", "a")
    found.create_index("by_b", "b")
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The stripes of each read."""
    found: list[list[int]] = []
    read = OrcReader.read_stripes

    def spy(self: OrcReader, columns: Any, selections: Sequence[Any], *crew: Crew) -> list[pa.RecordBatch]:
        found.append([stripe for stripe, _ in selections])
        return read(self, columns, selections, *crew)

    monkeypatch.setattr(OrcReader, "read_stripes", spy)
    return found


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
    found = scan.to_arrow()
    assert found.column("id").to_pylist() == ids
    assert found.column("s").to_pylist() == list(map(text, ids))
    assert found.column("c").to_pylist() == C[ids].tolist()
    assert scan.count() == len(ids)
    # the same by single stripes
    by_one = list(run_units(answered(scan.plan().tasks), OpenTask.read))
    assert pa.Table.from_batches(by_one, found.schema).equals(found)
    ordered = table.scan(where, ["id"]).order_by("id", descending=True).to_arrow()
    assert ordered.column("id").to_pylist() == sorted(ids, reverse=True)


def test_counts_of_a_lot_that_is_decided_in_part(table: Table) -> None:
    where = "b = 3 OR (c = 1 AND b >= 0)"
    # with the second condition nowhere else, the index of b decides the other stripes
    for lot in lots_of(answered(table.scan(where).plan().tasks)):
        task, answers = lot
        undecided = [bool(answer.undecided) for answer in answers]
        assert task.count_lot(answers) == [batch.num_rows for batch in task.read_lot(answers)]
        decided = [replace(answer, bounds=Bounds.exactly(answer.bounds.upper)) for answer in answers[:1]]
        mixed = [*decided, *answers[1:]]
        expected = [len(answers[0].bounds.upper), *task.count_lot(answers)[1:]]
        assert task.count_lot(mixed) == expected
        assert any(undecided)


def test_few_rows_of_many_stripes_are_read_together(table: Table, reads: list[list[int]]) -> None:
    assert table.scan("a = 7", ["id", "s"]).to_arrow().num_rows == len(wanted(A == 7))
    assert sorted(reads) == [[0], [0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10]]
    reads.clear()
    # columns of the predicate first, then the others
    assert table.scan("a = 7 AND c < 20", ["id", "s"]).to_arrow().num_rows == len(wanted((A == 7) & (C < 20)))
    assert sorted(reads) == sorted(2 * [[0], [0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10]])
    reads.clear()
    assert table.scan("b = 3", ["id"]).to_arrow().num_rows == len(wanted(B == 3))
    assert reads == [[1, 10]]


def test_a_limit_reads_one_stripe_after_the_other(table: Table, reads: list[list[int]]) -> None:
    assert table.scan("a = 7", ["id"], 3).to_arrow().column("id").to_pylist() == wanted(A == 7)[:3]
    assert reads == [[0]]


def test_no_more_rows_than_a_bound_are_read_together(
    table: Table, reads: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_LOT_ROWS", 16)
    assert table.scan("a = 7", ["id"]).to_arrow().column("id").to_pylist() == wanted(A == 7)
    # seven rows of each
    assert sorted(reads) == [[0], [0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]


def test_no_more_bytes_than_a_bound_are_read_together(
    table: Table, path: Path, reads: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with OrcReader(path / "one.orc") as reader:
        monkeypatch.setattr(running, "_LOT_BYTES", sum(stripe.data_length for stripe in reader.stripes[:3]))
    # few rows of many stripes are few bytes
    assert table.scan("a = 7", ["id"]).to_arrow().column("id").to_pylist() == wanted(A == 7)
    assert sorted(reads) == [[0], [0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10]]
    reads.clear()
    assert table.scan(None, ["id"]).to_arrow().column("id").to_pylist() == wanted(A >= 0)
    assert max(map(len, reads)) < 5


def test_a_fixed_value_that_is_too_large_for_the_rows_of_one_stripe(
    connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read of all of them."""
    letters = ["x" if i >= STRIPE or i % 1000 == 0 else "y" for i in range(3 * STRIPE)]
    columns = {"s": pa.array(letters), "t": pa.array(list(map(text, range(3 * STRIPE))))}
    options = {"stripe": 1 << 12, "stride": 500, "compression_block_size": 1 << 16}
    write_columns(tmp_path / "f" / "one.orc", columns, codec="zstd", **options)
    found = connection.table(str(tmp_path / "f"))
    found.create_index("by_s", "s")
    monkeypatch.setattr(fixed, "_MOST_BYTES", 100)
    assert found.scan("s = 'x'", ["s"]).to_arrow().column("s").to_pylist() == ["x"] * letters.count("x")


def test_the_work_is_that_of_single_stripes(table: Table) -> None:
    plan = table.scan("a = 7 AND c < 20", ["id", "s"]).plan()
    sums: list[dict[str, int]] = []
    for alone in (False, True):
        KNOWN_FILES.clear()
        counts: dict[str, int] = {}
        opened: list[OpenTask] = []
        for task, answers in lots_of(answered(plan.tasks), alone=alone):
            task.read_lot(answers)
            opened += [] if task in opened else [task]
        for task in opened:
            for name, count in task.reader.counts.as_dict().items():
                counts[name] = counts.get(name, 0) + count
        sums.append(counts)
    together, by_one = sums
    assert together["row_groups"] == by_one["row_groups"] > STRIPES
    assert together["failed_joins"] == 0
    for name in ("chunks", "chunk_bytes", "bytes_decompressed"):
        assert 0 < together[name] <= by_one[name], name


def test_damage_in_one_stripe_of_several_is_told(table: Table, path: Path) -> None:
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
    with pytest.raises(OrcError, match=r"one\.orc, stripe 5\b"):
        list(run_lots(answered(plan.tasks), lambda task, answers, crew: task.read_lot(answers, crew=crew)))


def test_lots_are_handed_out_as_soon_as_they_are_whole(table: Table) -> None:
    taken: list[int] = []

    def units() -> Iterator[running.Unit]:
        for unit in answered(table.scan("a = 7", ["id"]).plan().tasks):
            taken.append(unit[1].stripe)
            yield unit

    lots = lots_of(units())
    for count in (8, 11, 12):
        next(lots)
        assert len(taken) == count
    assert next(lots, None) is None


def test_expressions_and_python_conditions(table: Table) -> None:
    ids = wanted((A == 7) | (A == 21))
    assert table.scan(col("a").isin([7, 21]), ["id"]).to_arrow().column("id").to_pylist() == ids
    assert table.scan("a + 0 IN (7, 21)", ["id"]).to_arrow().column("id").to_pylist() == ids

"""What is weighed to choose a way to decode a column, and what is remembered of it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import DecodePath, OrcReader, choice, cost, stripe_read, vetting
from hindex.orc.choice import Costs, PathChoice
from hindex.orc.cost import NodeData, Wanted, dense_cost, sparse_cost
from hindex.orc.known_files import KnownFile
from hindex.orc.marks import VALUES_APART
from hindex.orc.selection import RowSelection
from hindex.orc.source import BytesSource
from hindex.orc.stripe import StreamKind
from hindex.orc.stripe_read import StripeRead
from hindex.orc.types import Kind, OrcType

ROWS, STRIDE = 20_000, 1000


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pyarrow.orc.write_table(
        table,
        path,
        row_index_stride=STRIDE,
        stripe_size=1 << 28,
        dictionary_key_size_threshold=0.0,
        **options,
    )
    return path


def texts(count: int, length: int) -> list[str]:
    letters = np.random.default_rng(1).integers(97, 123, count * length, np.uint8).tobytes().decode()
    return [letters[at : at + length] for at in range(0, count * length, length)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each look at a column's content has found."""
    found: list[bool] = []
    original = vetting.may_decode

    def spy(*args: Any) -> bool:
        found.append(original(*args))
        return found[-1]

    monkeypatch.setattr(stripe_read, "may_decode", spy)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that pyarrow was asked to decode. It is not asked for those named "refused": it might crash."""
    found: list[str] = []
    original = StripeRead._by_pyarrow

    def spy(self: StripeRead, columns: Any) -> Any:
        found.extend(column.name for _, column in columns)
        assert "refused" not in found
        return original(self, columns)

    monkeypatch.setattr(StripeRead, "_by_pyarrow", spy)
    return found


@pytest.fixture
def refused(tmp_path: Path) -> tuple[Path, pa.Table]:
    """A column with a text too long for pyarrow, and one without."""
    sound = texts(ROWS, 12)
    table = pa.table({"refused": ["x" * 70_000, *sound[1:]], "sound": sound})
    return write(tmp_path / "t.orc", table), table


def test_a_refused_column_is_never_given_to_pyarrow(
    refused: tuple[Path, pa.Table], looks: list[bool], asked: list[str]
) -> None:
    path, table = refused
    rows = np.arange(0, ROWS, 5)
    for read in range(3):
        # a reader after the other: what was found is known to all
        with OrcReader(path, path=DecodePath.DENSE) as reader:
            assert reader.read(["refused", "sound"], rows).equals(table.take(pa.array(rows)))
            counts = reader.counts
            assert (counts.dense_columns, counts.whole_columns) == (1, 1)
        assert sorted(looks) == [False, True]
        assert asked == ["sound"] * (read + 1)


def test_a_refused_column_is_not_chosen_again(
    refused: tuple[Path, pa.Table], looks: list[bool], asked: list[str]
) -> None:
    path, table = refused
    rows = np.flatnonzero(np.arange(ROWS) // STRIDE % 2 == 0)[::2]
    for read, wanted in enumerate((rows, rows, None)):
        with OrcReader(path) as reader:
            expected = table["refused"] if wanted is None else table["refused"].take(pa.array(wanted))
            found = reader.read(["refused"], wanted)["refused"]
            assert found.combine_chunks().equals(expected.combine_chunks())
            counts = reader.counts
            # the first time it is decoded whole; afterwards, only what is wanted
            assert (counts.whole_columns, counts.row_groups) == (
                (1, 0) if read != 1 else (0, ROWS // STRIDE // 2)
            )
            assert counts.dense_columns == 0
    assert (looks, asked) == ([False], [])


def test_what_was_found_is_of_one_state_of_the_file(
    tmp_path: Path, looks: list[bool], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths become negative, in runs that are as well-formed as before."""
    path = write(tmp_path / "t.orc", pa.table({"text": texts(ROWS, 3)}), compression="uncompressed")
    rows = np.arange(0, ROWS, 7)
    with OrcReader(path) as reader:
        for _ in range(2):
            reader.read(["text"], rows)
        assert reader.counts.dense_columns == 2
        assert (looks, asked) == ([True], ["text"] * 2)
        at = reader.stripe(0).streams[reader.column_type("text").column, StreamKind.LENGTH].offset
        status = path.stat()
        with path.open("r+b") as file:
            file.seek(at)
            assert file.read(4) == b"\xc1\xff\x03\x00", "512 values, the first one 3, 0 between them"
            file.seek(at + 3)
            file.write(b"\x7f")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with monkeypatch.context() as patch:
            # it would read outside of its buffers
            patch.setattr(
                StripeRead, "_by_pyarrow", lambda _, columns: dict(columns and pytest.fail("asked"))
            )
            for _ in range(2):
                with pytest.raises(OrcError, match="length"):
                    reader.read(["text"], rows)
        assert looks == [True, False]
        # and what was refused may be sound again
        with path.open("r+b") as file:
            file.seek(at + 3)
            file.write(b"\x00")
        reader.read(["text"], rows)
        assert (looks, asked) == ([True, False, True], ["text"] * 3)


def costs(reader: OrcReader, name: str, rows: Any) -> Costs:
    of, stripe = reader.column_type(name), reader.stripe(0)
    selection = RowSelection.of(rows, stripe.information.num_rows)
    weighing = PathChoice(reader._file, stripe, selection, reader.tail.decompressor())
    return weighing.costs(of)


def test_lengths_that_were_looked_at_cost_less(tmp_path: Path) -> None:
    path = write(tmp_path / "t.orc", pa.table({"text": texts(ROWS, 12)}))
    with OrcReader(path) as reader:
        before = costs(reader, "text", np.arange(50))
        reader.read(["text"])
        after = costs(reader, "text", np.arange(50))
        number = reader.column_type("text").column
        runs = reader.stripe(0).runs_per_value[number]
    assert before.dense - after.dense == pytest.approx(ROWS * runs * cost.VETTING_RUN_NS)
    assert before.sparse == after.sparse


def test_what_is_remembered_of_columns_takes_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "t.orc", pa.table({"text": texts(ROWS, 12)}))
    with OrcReader(path) as reader:
        known = KnownFile(reader.tail, {0: reader.stripe(0)})
        sizes = [known.nbytes]
        costs(reader, "text", np.arange(50))
        sizes.append(known.nbytes)
        reader.read(["text"])
        sizes.append(known.nbytes)
    assert sizes[0] < sizes[1] < sizes[2]


def test_nulls_and_elements_are_told_from_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each node: places, values, and bytes without those that tell of nulls; two stripes share the statistics."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(0, 2, ROWS)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    elements = pa.array(rng.integers(0, 1 << 40, int(offsets[-1])), mask=rng.random(int(offsets[-1])) < 0.7)
    table = pa.table(
        {
            "list": pa.ListArray.from_arrays(offsets, elements),
            "some": pa.array(rng.integers(0, 1 << 40, ROWS), mask=rng.random(ROWS) < 0.4),
            "all": pa.array(rng.integers(0, 1 << 40, ROWS)),
            "none": pa.nulls(ROWS, pa.int64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pyarrow.orc.ORCWriter(sink, stripe_size=1 << 12, row_index_stride=STRIDE, batch_size=512) as writer:
        for at in range(0, ROWS, 5000):
            writer.write(table.slice(at, 5000))
    reader = OrcReader(BytesSource(sink.getvalue().to_pybytes()))
    rows = reader.stripes[0].num_rows
    assert rows < ROWS
    found: list[NodeData] = []

    def spy(of: OrcType, stored: NodeData, *args: Any, **options: Any) -> float:
        found.append(stored)
        return 1.0

    monkeypatch.setattr(choice, "sparse_cost", spy)
    stripe = reader.stripe(0)
    for name in table.column_names:
        costs(reader, name, np.arange(rows))
    lists, element, some, every, none = found
    head = table.slice(0, rows)
    inner = head["list"].combine_chunks().flatten()
    assert (lists.places, lists.values) == (rows, rows)
    assert element.places == pytest.approx(len(inner), rel=0.75)
    assert element.values == pytest.approx(len(inner) - inner.null_count, rel=0.2)
    assert some.places == every.places == every.values == none.places == rows
    assert some.values == pytest.approx(rows - head["some"].null_count, rel=0.15)
    assert none.values == 0
    for name, stored in (("some", some), ("all", every), ("none", none)):
        number = reader.column_type(name).column
        lengths = {
            kind: stream.length
            for (column, kind), stream in stripe.streams.items()
            if column == number and kind in (StreamKind.PRESENT, StreamKind.DATA)
        }
        assert stored.present_bytes == lengths.get(StreamKind.PRESENT, 0)
        assert stored.data_bytes == lengths.get(StreamKind.DATA, 0)
    assert some.present_bytes
    assert not every.present_bytes


LONG, TEXT, LIST = OrcType(Kind.LONG), OrcType(Kind.STRING), OrcType(Kind.LIST)
MONEY, REAL = OrcType(Kind.DECIMAL), OrcType(Kind.DOUBLE)
#: A thousand of a million rows, of each hundredth row group.
FEW = Wanted(groups=10, all_groups=1000, rows=1000, stripe_rows=1_000_000)
DATA = NodeData(
    places=1_000_000,
    values=1_000_000,
    data_bytes=1_000_000,
    present_bytes=0,
    is_dictionary=False,
    is_vetted=True,
    can_hand_over=False,
)
#: Values of the touched row groups, and of them those up to the last wanted one of each.
TOUCHED = 10_000
WALKED = TOUCHED * 100 / 101
WALK_NS = cost.RUN_NS + cost.STEP_NS


def sparse(
    of: OrcType, runs: float = 0.0, *, marked: bool = False, wanted: Wanted = FEW, **data: Any
) -> float:
    return sparse_cost(of, dataclasses.replace(DATA, **data), wanted, runs, marked=marked)


def dense(of: OrcType, runs: float = 0.0, *, rows: int = 0, **data: Any) -> float:
    return dense_cost(of, dataclasses.replace(DATA, **data), dataclasses.replace(FEW, rows=rows), runs)


def test_each_term_of_the_sparse_cost() -> None:
    plain = cost.NODE_NS + 10 * cost.GROUP_NS + 10_000 * cost.BYTE_NS + 1000 * cost.VALUE_NS
    assert sparse(LONG) == pytest.approx(plain)
    assert sparse(LONG, present_bytes=9) == pytest.approx(plain + TOUCHED * cost.PRESENT_NS)
    assert sparse(LONG, 0.1) == pytest.approx(plain + WALKED * 0.1 * WALK_NS)
    # half of them are null
    assert sparse(LONG, 0.1, values=500_000) == pytest.approx(
        plain + WALKED / 2 * 0.1 * WALK_NS - 500 * cost.VALUE_NS
    )
    # ten elements a row
    assert sparse(LONG, values=10_000_000) == pytest.approx(plain + 9000 * cost.ELEMENT_NS)
    assert sparse(REAL) == pytest.approx(plain + 1000 * cost.FLOATING_NS)
    assert sparse(MONEY, 0.1) == pytest.approx(
        plain + WALKED * (0.1 * WALK_NS + cost.VARINT_NS) + 1000 * cost.DECIMAL_NS
    )
    assert sparse(TEXT, 0.1) == pytest.approx(
        plain
        + 10_000 * (cost.TEXT_BYTE_NS - cost.BYTE_NS)
        + WALKED * (cost.LENGTH_NS + 0.1 * cost.LENGTH_RUN_NS)
        + 1000 * 0.9 * cost.TEXT_NS
    )
    assert sparse(LIST, 0.1) == pytest.approx(plain + WALKED * (cost.LENGTH_NS + 0.1 * cost.LENGTH_RUN_NS))
    assert sparse(TEXT, 0.1, is_dictionary=True) == pytest.approx(plain + WALKED * 0.1 * WALK_NS)


def test_walks_start_at_marks() -> None:
    """Ten values, one in each of ten row groups: each is at most half the way between two marks from one."""
    wanted = Wanted(groups=10, all_groups=1000, rows=10, stripe_rows=1_000_000)
    without = sparse(LONG, wanted=wanted)
    assert sparse(LONG, 0.1, wanted=wanted) == pytest.approx(without + TOUCHED / 2 * 0.1 * WALK_NS)
    marked = 10 * VALUES_APART / 2
    assert sparse(LONG, 0.1, wanted=wanted, marked=True) == pytest.approx(without + marked * 0.1 * WALK_NS)


def test_many_row_groups_share_the_steps_of_a_walk() -> None:
    few, many = (cost.gathering_cost(100_000, 0, groups, 0.1) for groups in (40, 400))
    assert few == pytest.approx(10_000 * (cost.RUN_NS + cost.STEP_NS))
    assert many == pytest.approx(10_000 * (cost.RUN_NS + cost.STEP_NS / 10))


def test_values_between_wanted_ones_cost_where_they_are_handed_over() -> None:
    none, half, every = (cost.handover_cost(10_000, wanted, 1, 0.1) for wanted in (0, 5000, 10_000))
    assert half - none == pytest.approx(5000 * (cost.TAKEN_NS + cost._HANDOVER_GAP_NS / 2))
    assert every - none == pytest.approx(10_000 * cost.TAKEN_NS)


@pytest.mark.parametrize("of", [LONG, MONEY, TEXT, LIST])
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_rows_of_groups_that_are_wanted_whole_cost_little(of: OrcType, is_dictionary: bool) -> None:
    whole = Wanted(groups=100, all_groups=1000, rows=100_000, stripe_rows=1_000_000)
    thinly = Wanted(groups=100, all_groups=1000, rows=10_000, stripe_rows=1_000_000)
    data = {"is_dictionary": is_dictionary, "can_hand_over": True}
    base = sparse(of, 0.1, wanted=Wanted(100, 1000, 0, 1_000_000), **data)
    each = (sparse(of, 0.1, wanted=whole, **data) - base) / whole.rows
    scattered = (sparse(of, 0.1, wanted=thinly, **data) - base) / thinly.rows
    assert each < 45 < scattered


def test_what_pyarrow_may_decode_of_row_groups_costs_no_more_than_that() -> None:
    """One in three values: pyarrow decodes the row groups; one in five of decimals: each one by itself."""
    third, fifth = (Wanted(100, 1000, rows, 1_000_000) for rows in (34_000, 20_000))
    for of, data in ((MONEY, {}), (TEXT, {"is_dictionary": True})):
        for wanted, ratio in ((third, True), (fifth, False)):
            handed, own = (sparse(of, 0.1, wanted=wanted, can_hand_over=can, **data) for can in (True, False))
            assert (handed < own) == ratio
            assert handed <= own
    for runs, pays in ((0.0, False), (0.5, True)):
        own, handed = (sparse(LONG, runs, wanted=third, can_hand_over=can) for can in (False, True))
        walked = 100_000 * 340 / 341
        assert cost.handover_pays(100_000, 34_000, 100, 91, runs, int(walked)) == pays
        assert (handed < own) == pays


def test_each_term_of_the_dense_cost() -> None:
    count = 1_000_000
    plain = count * (cost.PLAIN_NS + cost.BYTE_NS)
    assert dense(LONG) == pytest.approx(plain)
    assert dense(LONG, 0.1) == pytest.approx(plain + 0.1 * count * cost.DENSE_RUN_NS)
    assert dense(LONG, 0.1, is_vetted=False) == dense(LONG, 0.1)
    assert dense(LONG, present_bytes=7) == pytest.approx(plain + 7 * cost.NULLS_BYTE_NS)
    assert dense(TEXT, present_bytes=7) - dense(TEXT) == pytest.approx(7 * cost.TEXT_NULLS_BYTE_NS)
    for of, each in ((MONEY, 7.5), (LIST, 20.0), (OrcType(Kind.MAP), 20.0)):
        assert dense(of) == pytest.approx(count * (each + cost.BYTE_NS))
    text = count * (10.0 + cost.TEXT_BYTE_NS + cost.COPY_BYTE_NS)
    for of in (TEXT, OrcType(Kind.BINARY), OrcType(Kind.VARCHAR), OrcType(Kind.CHAR)):
        assert dense(of) == pytest.approx(text)
    assert dense(TEXT, is_dictionary=True) == pytest.approx(count * (cost.ENTRY_NS + cost.BYTE_NS))
    for data in ({}, {"is_dictionary": True}):
        taken = dense(TEXT, rows=600, values=500_000, **data) - dense(TEXT, values=500_000, **data)
        assert taken == pytest.approx(300 * cost.TAKEN_TEXT_NS)
    assert dense(LONG, rows=600) == dense(LONG)
    for of in (TEXT, LIST):
        assert dense(of, 0.1, is_vetted=False) - dense(of, 0.1) == pytest.approx(
            0.1 * count * cost.VETTING_RUN_NS
        )


@pytest.mark.parametrize(("rows", "dense"), [(3000, False), (60_000, True)])
def test_few_row_groups_are_weighed_where_many_of_their_rows_are_wanted(rows: int, dense: bool) -> None:
    """Of six of thirty row groups: pyarrow decodes the column in less than it takes to gather many values."""
    numbers = pa.array(np.arange(300_000))
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"n": numbers}), sink, stripe_size=1 << 28, compression="zstd")
    reader = OrcReader(BytesSource(sink.getvalue().to_pybytes()))
    assert len(reader.stripes) == 1
    wanted = np.arange(100_001, 160_001)[:: 60_000 // rows]
    found = reader.read(["n"], wanted)["n"].combine_chunks()
    assert found.equals(numbers.take(pa.array(wanted)))
    assert reader.counts.dense_columns == dense

"""What threads that decode whole columns take from the memory they share: values beyond those that are wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader, RowSelection, dense
from hindex.orc.source import BytesSource
from tests.fuzz.parts import put_together, take_apart

ROWS = 40_000
#: What a value of two columns of integers takes while pyarrow decodes it.
WIDTH = 2 * 16


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(8)
    table = pa.table({name: rng.integers(0, 1 << 40, ROWS) for name in "ab"})
    found = tmp_path_factory.mktemp("budget") / "t.orc"
    pyarrow.orc.write_table(table, found, compression="zstd")
    return str(found)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []

    class Told(dense._Budget):
        @contextmanager
        def taking(self, size: int) -> Iterator[None]:
            sizes.append(size)
            with super().taking(size):
                yield

    monkeypatch.setattr(dense, "_budget", Told(dense._BUDGET))
    return sizes


@pytest.mark.parametrize(
    ("wanted", "size"),
    [(ROWS, 0), (ROWS // 4, 0), (ROWS // 8, ROWS // 2 * WIDTH), (1, (ROWS - 4) * WIDTH)],
)
def test_only_values_far_beyond_the_wanted_are_counted(
    path: str, taken: list[int], wanted: int, size: int
) -> None:
    rows = np.sort(np.random.default_rng(wanted).permutation(ROWS)[:wanted])
    found = OrcReader(path, path=DecodePath.DENSE).read(["a", "b"], rows)
    assert taken == [size]
    assert found.equals(pyarrow.orc.read_table(path).take(rows))


@pytest.mark.parametrize("told", ["of elements", "of lists", "nothing"])
def test_elements_of_lists_are_counted(taken: list[int], told: str) -> None:
    """By the statistics; where there are none, by the bytes."""
    rows, outer, inner = 2000, 3, 50
    numbers = pa.array(np.random.default_rng(8).integers(0, 1 << 40, rows * outer * inner))
    nested = numbers
    for length in (inner, outer):
        nested = pa.ListArray.from_arrays(np.arange(0, len(nested) + 1, length, dtype=np.int32), nested)
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"l": nested}), sink)
    parts = take_apart(sink.getvalue().to_pybytes())
    lists, elements = rows * outer, rows * outer * inner
    if told == "of lists":
        for at, total in ((1, lists), (2, elements)):
            parts.footer.statistics[at].collection_statistics.total_children = total
            parts.footer.statistics[at + 1].ClearField("number_of_values")
    if told == "nothing":
        parts.footer.ClearField("statistics")
    reader = OrcReader(BytesSource(put_together(parts)), path=DecodePath.DENSE)
    assert reader.read(["l"], [5])["l"].to_pylist() == nested.slice(5, 1).to_pylist()
    if told == "nothing":
        elements = reader.stripe(0).data_length(3)
        lists = elements + reader.stripe(0).data_length(2)
    assert taken == [(rows + lists + elements) * 16 * (rows - 4) // rows]


@pytest.mark.parametrize(("length", "each"), [(5, 64), (20, 64), (21, 66), (3000, 6024)])
@pytest.mark.parametrize("kind", ["text", "bytes", "list"])
def test_texts_are_counted_with_their_bytes(taken: list[int], length: int, each: int, kind: str) -> None:
    rows = 2000
    texts = [f"{at:05d}" * (length // 5) + "x" * (length % 5) for at in range(rows)]
    column = pa.array(texts, pa.binary() if kind == "bytes" else pa.string())
    if kind == "list":
        column = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), column)
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"t": column}), sink)
    reader = OrcReader(BytesSource(sink.getvalue().to_pybytes()), path=DecodePath.DENSE)
    assert reader.read(["t"], [7])["t"].to_pylist() == column[7:8].to_pylist()
    size = rows * each + (rows * 16 if kind == "list" else 0)
    assert taken == [size * (rows - 4) // rows]


def test_one_call_decodes_so_many_columns_as_it_may(
    path: str, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_TOGETHER", ROWS * WIDTH - 1)
    assert (
        OrcReader(path, path=DecodePath.DENSE)
        .read(None, [5])
        .equals(pyarrow.orc.read_table(path).slice(5, 1))
    )
    assert taken == [(ROWS - 4) * WIDTH // 2] * 2


def test_all_rows_are_decoded_side_by_side_and_others_wait(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that decode what is wanted do not wait for one another, others do where memory is not enough."""
    monkeypatch.setattr(dense, "_budget", dense._Budget(1))
    both = threading.Barrier(2)

    def meets(rows: int) -> bool:
        inside: list[bool] = []
        real = dense.DenseReader._decode

        def decode(self: dense.DenseReader, *given: object) -> list[pa.Array]:
            try:
                both.wait(timeout=1 if rows < ROWS else 60)
                inside.append(True)
            except threading.BrokenBarrierError:
                inside.append(False)
            return real(self, *given)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(dense.DenseReader, "_decode", decode)

            def read() -> None:
                OrcReader(path, path=DecodePath.DENSE).read(["a"], np.arange(rows))

            threads = [threading.Thread(target=read) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return all(inside)

    assert meets(ROWS)
    assert not meets(10)


def test_who_takes_nothing_waits_for_nobody() -> None:
    """Not for one either that takes more than there is."""
    budget = dense._Budget(10)
    done = threading.Event()

    def take(size: int) -> threading.Thread:
        def run() -> None:
            with budget.taking(size):
                done.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    with budget.taking(50):
        free = take(0)
        assert done.wait(20)
        free.join()
        done.clear()
        other = take(1)
        assert not done.wait(0.2)
    assert done.wait(20)
    other.join()


@pytest.mark.parametrize(("count", "nbytes"), [(3000, 4000 * 8), (1000, 1000 * 8)])
def test_a_range_is_kept_with_the_rest_where_it_is_most_of_it(count: int, nbytes: int) -> None:
    """A slice is not copied; the few rows of another do not keep the memory of all."""
    array = pa.array(np.arange(4000))
    found = dense._taken(array, RowSelection.of(np.arange(500, 500 + count), 4000))
    assert found.equals(array.slice(500, count))
    assert found.get_total_buffer_size() == nbytes


@pytest.mark.parametrize(("wanted", "times"), [(1, 1), (ROWS // 256, 1), (ROWS // 256 + 1, 0), (ROWS, 0)])
def test_memory_of_columns_of_which_little_is_wanted_is_given_back(
    path: str, monkeypatch: pytest.MonkeyPatch, wanted: int, times: int
) -> None:
    given: list[int] = []

    class Pool:
        def release_unused(self) -> None:
            given.append(1)

    rows = np.sort(np.random.default_rng(wanted).permutation(ROWS)[:wanted])
    expected = pyarrow.orc.read_table(path).take(rows)
    monkeypatch.setattr(dense, "_GIVEN_BACK", 1 << 16)
    monkeypatch.setattr(pa, "default_memory_pool", Pool)
    reader = OrcReader(path, path=DecodePath.DENSE)
    assert reader.read(["a", "b"], rows).equals(expected)
    assert len(given) == times
    monkeypatch.setattr(dense, "_GIVEN_BACK", 1 << 30)
    assert reader.read(["a", "b"], rows).equals(expected)
    assert len(given) == times

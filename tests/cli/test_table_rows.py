"""Rows of a table are buffered for its column widths, briefly, and are never lost."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from hindex.cli import table_rows
from hindex.cli.output import output_for


@dataclass
class FakeAlarm:
    """Rings when the test says so, on the test's thread."""

    ring: Callable[[], None]
    is_set: bool = False
    is_cancelled: bool = False

    def start(self) -> None:
        assert not self.is_set
        self.is_set = True

    def cancel(self) -> None:
        self.is_cancelled = True


class FlushedStream(io.StringIO):
    """Knows what was flushed last."""

    flushed = ""

    def flush(self) -> None:
        self.flushed = self.getvalue()


class Rows:
    """A table of one column and the alarm that it sets."""

    def __init__(self, stream: io.StringIO | None = None) -> None:
        self.stream = FlushedStream() if stream is None else stream
        self._table = table_rows.TableRows(self.stream, ["s"], [False], self._alarm)

    def _alarm(self, seconds: float, ring: Callable[[], None]) -> FakeAlarm:
        assert seconds == table_rows.HEAD_SECONDS
        self.alarm = FakeAlarm(ring)
        return self.alarm

    def write(self, slices: Iterator[list[str]]) -> int:
        try:
            return self._table.write([cells] for cells in slices)
        finally:
            assert self.alarm.is_cancelled

    @property
    def lines(self) -> list[str]:
        """Return the visible output, without the header."""
        return self.stream.getvalue().splitlines()[2:]


def held_back(cells: list[str]) -> int:
    """Count the slices taken before anything is written."""
    rows, taken = Rows(), 0

    def coming() -> Iterator[list[str]]:
        nonlocal taken
        while not rows.lines and taken < 100:
            taken += 1
            yield cells

    rows.write(coming())
    return taken


def test_how_many_rows_are_held_back() -> None:
    assert held_back(["x"] * 100) == table_rows.HEAD_ROWS // 100
    assert held_back(["x" * (table_rows.HEAD_CHARACTERS // 4)]) == 4
    assert held_back(["x"]) == 100


def test_rows_that_came_are_shown_while_the_next_are_waited_for() -> None:
    rows = Rows()

    def coming() -> Iterator[list[str]]:
        waits = [rows.alarm.is_set]
        yield ["a", "bb"]
        assert [*waits, rows.alarm.is_set] == [False, True]
        assert rows.lines == []
        yield ["c"]
        assert rows.lines == []
        rows.alarm.ring()
        assert rows.lines == ["a", "bb", "c"]
        assert isinstance(rows.stream, FlushedStream)
        assert rows.stream.flushed == rows.stream.getvalue()
        yield ["d", "eee"]
        assert rows.lines == ["a", "bb", "c", "d", "eee"]
        rows.alarm.ring()

    assert rows.write(coming()) == 5
    rows.alarm.ring()
    assert rows.stream.getvalue() == "s\n──\na\nbb\nc\nd\neee\n"


def test_the_clock_shows_rows_while_the_next_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "HEAD_SECONDS", 0.001)
    output = threading.Event()

    class Stream(io.StringIO):
        def flush(self) -> None:
            output.set()

    stream, table = Stream(), pa.table({"n": [1, 2]})

    def coming() -> Iterator[pa.RecordBatch]:
        (batch,) = table.to_batches()
        yield batch.slice(0, 1)
        assert output.wait(60)
        assert stream.getvalue() == "n\n─\n1\n"
        yield batch.slice(1)

    assert output_for("table", stream).rows(table.schema, coming()) == 2
    assert stream.getvalue() == "n\n─\n1\n2\n(2 rows)\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the disk is gone"), ValueError("a bug")])
@pytest.mark.parametrize("is_late", [False, True])
def test_rows_before_an_error_are_written(error: BaseException, is_late: bool) -> None:
    rows = Rows()

    def coming() -> Iterator[list[str]]:
        yield ["a", "b"]
        if is_late:
            rows.alarm.ring()
        raise error

    with pytest.raises(type(error)) as raised:
        rows.write(coming())
    assert raised.value is error
    assert rows.lines == ["a", "b"]
    assert isinstance(rows.stream, FlushedStream)
    assert rows.stream.flushed == rows.stream.getvalue()


def test_an_error_before_the_first_row_leaves_nothing() -> None:
    def coming() -> Iterator[list[str]]:
        yield from map(int, "x")

    rows = Rows()
    with pytest.raises(ValueError, match="invalid literal"):
        rows.write(coming())
    assert rows.stream.getvalue() == ""


class Unwritable(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("has_more", [False, True])
def test_an_error_of_the_stream_is_raised_in_the_thread_of_the_rows(has_more: bool) -> None:
    rows, went_on = Rows(Unwritable()), False

    def coming() -> Iterator[list[str]]:
        nonlocal went_on
        yield ["a"]
        rows.alarm.ring()
        if has_more:
            yield ["b"]
            went_on = True

    with pytest.raises(BrokenPipeError):
        rows.write(coming())
    assert not went_on


def test_the_error_of_the_rows_comes_before_that_of_writing() -> None:
    def coming() -> Iterator[list[str]]:
        yield ["a"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Rows(Unwritable()).write(coming())


def test_one_long_value_does_not_widen_every_row() -> None:
    long = "x" * 5000
    stream, table = io.StringIO(), pa.table({"s": [long, *["y"] * 99], "n": range(100)})
    output_for("table", stream).rows(table.schema, table.to_batches())
    lines = stream.getvalue().splitlines()
    assert lines[2] == f"{long} │  0"
    assert max(len(line) for line in (*lines[:2], *lines[3:])) == table_rows.MAX_WIDTH + 5
    assert lines[3] == f"y{' ' * (table_rows.MAX_WIDTH - 1)} │  1"

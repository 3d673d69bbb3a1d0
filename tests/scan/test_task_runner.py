"""The threads on which units are processed, and the order of their results."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from pyroaring import BitMap

from hindex.index.index_type import Bounds
from hindex.scan import task_runner
from hindex.scan.scan_task import StripeResult
from hindex.scan.task_runner import run_units


@dataclass
class Task:
    is_remote: bool = False
    reader: Any = None


class Value:
    """The result of a unit: its number, and the thread that processed it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.thread = threading.get_ident()


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "processors", lambda: 2)
    # the weight of remote units
    monkeypatch.setattr(task_runner, "_stored_bytes", lambda *_: 0)


def units(rows: list[int], started: list[int] | None = None, *, is_remote: bool = False) -> Iterator[Any]:
    for number, count in enumerate(rows):
        if started is not None:
            started.append(number)
        yield Task(is_remote), StripeResult(number, 1000, Bounds.exactly(BitMap(range(count))))


def process(_: Any, result: StripeResult, __: Any) -> Value:
    return Value(result.stripe)


def slow(_: Any, result: StripeResult, __: Any) -> Value:
    time.sleep(0.02)
    return Value(result.stripe)


@pytest.mark.parametrize("cautious", [False, True])
@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("rows", [[], [3], [3] * 9, [500] * 9, [3, 500, 3, 3, 500], [500, 3, 500, 3]])
def test_results_are_in_order(rows: list[int], is_remote: bool, cautious: bool) -> None:
    results = run_units(units(rows, is_remote=is_remote), process, cautious=cautious)
    assert [item.number for item in results] == list(range(len(rows)))


@pytest.mark.parametrize(
    ("rows", "is_alone"),
    [
        pytest.param([3] * 6, [True] * 6, id="few rows"),
        pytest.param([500] * 6, [False] * 6, id="many rows"),
        pytest.param([3, 3, 500, 3, 3], [True, True, False, False, False], id="none after another thread"),
    ],
)
def test_few_rows_are_read_by_the_calling_thread(
    rows: list[int], is_alone: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "_SECONDS_ALONE", 60)
    threads = [item.thread == threading.get_ident() for item in run_units(units(rows), process)]
    assert threads == is_alone


def test_units_that_take_long_are_given_to_other_threads() -> None:
    threads = [item.thread == threading.get_ident() for item in run_units(units([3] * 6), slow)]
    assert threads == [True, False, False, False, False, False]


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_cautious_run_starts_with_one_unit(is_remote: bool) -> None:
    started: list[int] = []
    results = run_units(units([500] * 20, started, is_remote=is_remote), process, cautious=True)
    assert next(results).number == 0
    assert started == [0]
    # then more and more are processed ahead
    assert next(results).number == 1
    assert started == [0, 1, 2]
    assert [item.number for item in results] == list(range(2, 20))


def test_a_result_is_not_kept_after_its_use() -> None:
    references = []
    for item in islice(run_units(units([3] * 8), process), 5):
        references.append(weakref.ref(item))
    del item
    assert [reference() for reference in references[:-1]] == [None] * 4

"""Metrics of a scan: time by step, bytes read, cache hits."""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from hindex.orc import ReadCounts
from hindex.plan.reasons import Note


class Step(enum.Enum):
    """A part of the work; the value is shown to users."""

    LISTING = "listing and manifest"
    PLAN = "planning"
    OPEN = "opening files"
    INDEXES = "index lookups"
    PREDICATE = "predicate columns"
    COLUMNS = "other columns"


class MetricsCollector:
    """Sums of the seconds by step, over all threads, and of the counts of data files' readers."""

    def __init__(self) -> None:
        self.seconds: dict[Step, float] = {}
        self._counts: dict[int, ReadCounts] = {}
        self._notes: list[list[Note]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Add the time of a ``with`` block to a step."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - started
            with self._lock:
                self.seconds[step] = self.seconds.get(step, 0.0) + spent

    def add_reader(self, counts: ReadCounts) -> None:
        """Include the counts of a reader, which may still grow."""
        self._counts[id(counts)] = counts

    def add_notes(self, notes: list[Note]) -> None:
        """Remember what a task could not use, and is going to find."""
        self._notes.append(notes)

    def add_indexes(self, names: Iterable[str]) -> None:
        """Remember the indexes that answered."""

    def add_read(self, path: str, stripes: Iterable[int]) -> None:
        """Remember the stripes of a data file whose columns are read."""

    def notes(self) -> tuple[Note, ...]:
        """Return the fallbacks of all tasks, each once."""
        return tuple(dict.fromkeys(note for notes in self._notes for note in notes))

    def totals(self) -> dict[str, int]:
        """Return the sums over all readers, by the names of `hindex.orc.ReadCounts`."""
        sums = ReadCounts()
        for counts in self._counts.values():
            sums.add(**counts.as_dict())
        return sums.as_dict()


class NoMetrics(MetricsCollector):
    """A collector that drops everything."""

    def step(self, step: Step) -> AbstractContextManager[None]:  # type: ignore[override]
        return _NOTHING

    def add_reader(self, counts: ReadCounts) -> None:
        """Do nothing."""

    def add_notes(self, notes: list[Note]) -> None:
        """Do nothing."""

    def __reduce__(self) -> tuple[object, ...]:
        # another process collects for itself
        return type(self), ()


class QueryMetrics(NoMetrics):
    """Metrics for the log line of a query. They are cheap enough to be on for every query.

    Attributes:
        indexes: the names of the indexes that answered, in the order of their first answers.
        stripes: the stripes whose columns were read, each as the path of its data file and its number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.indexes: dict[str, None] = {}
        self.stripes: set[tuple[str, int]] = set()

    def add_notes(self, notes: list[Note]) -> None:
        """Remember what a task could not use, and is going to find."""
        self._notes.append(notes)

    def add_indexes(self, names: Iterable[str]) -> None:
        """Remember the indexes that answered."""
        for name in names:
            self.indexes.setdefault(name)

    def add_read(self, path: str, stripes: Iterable[int]) -> None:
        """Remember the stripes of a data file whose columns are read."""
        self.stripes.update((path, stripe) for stripe in stripes)


_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()
NO_METER: MetricsCollector = NoMetrics()

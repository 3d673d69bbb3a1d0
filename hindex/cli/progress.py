"""Progress on standard error: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from hindex.progress import Progress

if TYPE_CHECKING:
    import rich.progress

#: Seconds between two log lines of one piece of work.
LOG_INTERVAL = 10.0


def progress_for(stream: TextIO) -> Progress:
    """Return a bar for a terminal, log lines for other streams."""
    return BarProgress(stream) if stream.isatty() else LogProgress(stream)


class BarProgress:
    """A bar that disappears when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def start(self, total_units: int, label: str) -> None:
        import rich.console
        import rich.progress as bars

        self.finish()
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("left:"),
            bars.TimeRemainingColumn(),
            console=rich.console.Console(file=self._stream),
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total_units)
        self._bar.start()

    def advance(self, units: int = 1) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, units)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class LogProgress:
    """A log line when work begins and ends, and every ten seconds between."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._label: str | None = None
        self._total = self._done = 0
        self._started = self._logged = 0.0

    def start(self, total_units: int, label: str) -> None:
        self.finish()
        self._label, self._total, self._done = label, total_units, 0
        self._started = self._logged = time.monotonic()
        self._log(f"{label}: 0 of {total_units}")

    def advance(self, units: int = 1) -> None:
        self._done += units
        now = time.monotonic()
        if self._done < self._total and now - self._logged >= LOG_INTERVAL:
            self._logged = now
            remaining_seconds = (now - self._started) / self._done * (self._total - self._done)
            self._log(f"{self._label}: {self._done} of {self._total}, about {remaining_seconds:.0f} s left")

    def finish(self) -> None:
        if self._label is not None:
            seconds = time.monotonic() - self._started
            self._log(f"{self._label}: {self._done} of {self._total} in {seconds:.1f} s")
            self._label = None

    def _log(self, line: str) -> None:
        with suppress(OSError):  # the work goes on if the stream is closed
            print(line, file=self._stream, flush=True)

"""Progress on standard error: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from hindex.formatting import plural
from hindex.progress import LogProgress, Progress

if TYPE_CHECKING:
    import rich.progress


def progress_for(stream: TextIO) -> Progress:
    """Return a bar for a terminal, log lines for other streams."""

    def write(line: str) -> None:
        with suppress(OSError):  # the work goes on if the stream is closed
            print(line, file=stream, flush=True)

    return BarProgress(stream) if stream.isatty() else LogProgress(write)


class BarProgress:
    """A bar that disappears when the work is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def start(self, total_units: int, label: str, unit: str = "step") -> None:
        import rich.console
        import rich.progress as bars

        self.finish()
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn(plural(total_units, unit), markup=False),
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

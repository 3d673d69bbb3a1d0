"""Progress: log lines where there is no terminal, a bar that leaves nothing behind on one."""

from __future__ import annotations

import io
import logging

import pytest

import hindex
from hindex.cli.progress import BarProgress, progress_for
from hindex.progress import LogProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_stream_decides() -> None:
    assert isinstance(progress_for(io.StringIO()), LogProgress)
    assert isinstance(progress_for(Terminal()), BarProgress)


def test_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    output = progress_for(stream)
    output.start(4, "indexing t", "data file")
    for seconds in (1, 11, 12, 13):
        now[0] = seconds
        output.advance()
    output.finish()
    output.finish()
    assert stream.getvalue().splitlines() == [
        "indexing t: 0 of 4 data files",
        "indexing t: 2 of 4 data files, about 11 s left",
        "indexing t: 4 of 4 data files in 13.0 s",
    ]


def test_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    output = BarProgress(stream)
    output.start(2, "indexing [t]", "task")
    output.advance()
    output.advance()
    output.finish()
    output.finish()
    assert "indexing [t]" in stream.getvalue()
    assert "2/2" in stream.getvalue()
    assert "tasks" in stream.getvalue()
    assert "left:" in stream.getvalue()


def test_python_scripts_log_progress(caplog: pytest.LogCaptureFixture) -> None:
    progress = hindex.connect().progress
    with caplog.at_level(logging.INFO, "hindex.build"):
        progress.start(1, "building i", "task")
        progress.advance()
        progress.finish()
    assert [record.name for record in caplog.records] == ["hindex.build"] * 2
    assert caplog.messages[0] == "building i: 0 of 1 task"
    assert caplog.messages[1].startswith("building i: 1 of 1 task in ")


@pytest.mark.parametrize(
    ("is_running", "lines"), [(False, ["starting Spark: 0 of 1 session"] * 2), (True, [])]
)
def test_the_start_of_spark_is_shown(
    is_running: bool, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a start that fails, but no session that runs already."""

    def fail(*_: object) -> None:
        raise hindex.HindexError("no Java")

    monkeypatch.setattr("hindex.spark.session.running_session", lambda: object() if is_running else None)
    monkeypatch.setattr("hindex.spark.session.local_session", fail)
    stream = io.StringIO()
    with pytest.raises(hindex.HindexError, match="no Java"):
        hindex.connect(progress=progress_for(stream)).spark()
    assert [line.rpartition(" in ")[0] or line for line in stream.getvalue().splitlines()] == lines

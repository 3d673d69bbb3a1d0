"""Progress: log lines where there is no terminal, a bar that leaves nothing behind on one."""

from __future__ import annotations

import io

import pytest

from hindex.cli.progress import BarProgress, LogProgress, progress_for


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
    output = LogProgress(stream)
    output.start(4, "indexing t")
    for seconds in (1, 11, 12, 13):
        now[0] = seconds
        output.advance()
    output.finish()
    output.finish()
    assert stream.getvalue().splitlines() == [
        "indexing t: 0 of 4",
        "indexing t: 2 of 4, about 11 s left",
        "indexing t: 4 of 4 in 13.0 s",
    ]


def test_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    output = BarProgress(stream)
    output.start(2, "indexing [t]")
    output.advance()
    output.advance()
    output.finish()
    output.finish()
    assert "indexing [t]" in stream.getvalue()
    assert "2/2" in stream.getvalue()
    assert "left:" in stream.getvalue()

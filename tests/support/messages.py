"""The wording of errors: ``messages.txt`` in a folder of tests has the complete messages that its tests expect.

    with raises(TableError):
        table.snapshot()

``HINDEX_UPDATE_GOLDEN=1`` records the messages of the tests that run and pass, to be read before they are kept.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

CHECKOUT = Path(__file__).parents[2]
TABLE = "messages.txt"

#: Tests of a folder, such as ``test_a.py::test_b[c]``, with the lines of each message, indented.
Messages = dict[str, list[str]]

_E = TypeVar("_E", bound=BaseException)
#: The test that runs in this process, and its messages so far.
_running: Messages = {}
#: Tests that have finished, with the messages to record.
_unsaved: Messages = {}
#: Text that differs between runs or machines, and its form in a table.
_replacements: list[tuple[re.Pattern[str], str]] = [
    (re.compile(re.escape(str(CHECKOUT))), "<checkout>"),
    (re.compile(r" at 0x[0-9a-f]+"), " at <address>"),
    (re.compile(r"\bs3://b[0-9a-f]{12}\b"), "s3://<bucket>"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"\b[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\b"), "<id>"),
]


@contextmanager
def raises(expected: type[_E] | tuple[type[_E], ...]) -> Iterator[pytest.ExceptionInfo[_E]]:
    """Expect an error of a type, with the next of the messages that are recorded for the running test."""
    with pytest.raises(expected) as caught:
        yield caught
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
    messages = _messages_so_far(test)
    messages.append(_format(caught.value))
    if not _is_recording():
        folder, name = _locate(test)
        recorded = _recorded(folder).get(name, [])[len(messages) - 1 :][:1]
        assert recorded == messages[-1:], _explain(test, "another message", recorded, messages[-1:])


def start(test: str) -> None:
    """Begin a test. Its table is read now, as tests may replace what reads files."""
    _running.clear()
    _recorded(_locate(test)[0])


def finish(test: str) -> None:
    """Fail if more messages are recorded for a test that has passed than it raised, or keep them for `save`."""
    messages = _messages_so_far(test)
    if _is_recording():
        _unsaved[test] = messages
    else:
        folder, name = _locate(test)
        missing = _recorded(folder).get(name, [])[len(messages) :]
        assert not missing, _explain(test, "fewer messages", missing, [])


def save() -> None:
    """Write the messages of tests that have finished, if they are recorded."""
    while _unsaved:
        test, messages = _unsaved.popitem()
        _record(*_locate(test), messages)


def use_directory(base: Path) -> None:
    """Write ``<tmp>`` for this directory and the directories of tests in it."""
    _replacements.insert(0, (re.compile(re.escape(str(base)) + r"(/[\w-]+)?"), "<tmp>"))


def read_table(path: Path) -> Messages:
    """Read a table. One that does not exist is empty."""
    table: Messages = {}
    messages: list[str] = []
    for line in path.read_text("utf-8").split("\n")[:-1] if path.exists() else []:
        if re.match(r"\S", line):
            messages = table.setdefault(line, [])
        elif re.match(r"  \S", line):
            messages.append(line)
        else:
            messages[-1] += f"\n{line}"
    return table


@cache
def _recorded(folder: Path) -> Messages:
    return read_table(folder / TABLE)


def _record(folder: Path, name: str, messages: list[str]) -> None:
    # other processes record into the same table
    path = folder / TABLE
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        table = read_table(path)
        if table.get(name, []) != messages:
            entries = sorted((table | {name: messages}).items())
            lines = [line for test, recorded in entries if recorded for line in (test, *recorded)]
            new = path.with_suffix(".new")
            new.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            new.replace(path)
    finally:
        os.close(descriptor)


def _messages_so_far(test: str) -> list[str]:
    if test not in _running:
        _running.clear()
    return _running.setdefault(test, [])


def _is_recording() -> bool:
    return bool(os.environ.get("HINDEX_UPDATE_GOLDEN"))


def _locate(test: str) -> tuple[Path, str]:
    """Return the folder of a test, and its name in the table of the folder."""
    file, _, function = test.partition("::")
    path = CHECKOUT / file
    return path.parent, f"{path.name}::{function}"


def _format(error: BaseException) -> str:
    text = str(error)
    for pattern, replacement in _replacements:
        text = pattern.sub(replacement, text)
    text = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    first, *others = f"{type(error).__name__}: {text}".split("\n")
    return "\n".join([f"  {first}".rstrip(), *(f"    {line}".rstrip() for line in others)])


def _explain(test: str, problem: str, recorded: list[str], raised: list[str]) -> str:
    path = _locate(test)[0].relative_to(CHECKOUT) / TABLE
    lines = [
        f"{problem} than recorded in {path}",
        "recorded:",
        *(recorded or ["  nothing"]),
        "raised:",
        *(raised or ["  nothing"]),
        f"to record it, and read the change: HINDEX_UPDATE_GOLDEN=1 python -m pytest '{test}'",
    ]
    return "\n".join(lines)

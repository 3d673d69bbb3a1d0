"""The interactive shell: statements end with ``;`` and may take several lines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hindex.errors import HindexError

PROMPT = "hindex> "
CONTINUATION = "     -> "
HISTORY_LINES = 1000

HELP = """\
Statements end with ; and may take several lines. A table is a quoted path or URI, or a Spark catalog name.

{statements}

help STATEMENT tells more, such as: help create index
help shows this, quit (or Ctrl-D) leaves, Ctrl-C drops what is typed or stops what runs."""

_HELP = frozenset({"help", "?", r"\h"})
_LEAVE = frozenset({"quit", "exit", r"\q"})


def run_shell(execute: Callable[[str], int | None], report: Callable[[HindexError], None]) -> None:
    """Read statements from the terminal and execute them until the user leaves.

    :param execute: runs one statement and writes its result; returns the number of rows, where there are any.
    :param report: shows the error of a statement; the shell goes on after it.
    """
    from importlib.metadata import version

    _remember_lines()
    print(f"hindex {version('hindex')}: statements end with ;  help shows them, quit leaves")
    for statement in typed_statements(prompting=sys.stdin.isatty()):
        started = time.monotonic()
        try:
            count = execute(statement)
        except HindexError as error:
            report(error)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
        else:
            seconds = time.monotonic() - started
            rows = "" if count is None else f"{count} {'row' if count == 1 else 'rows'} in "
            print(f"{rows}{seconds:.2f} s", file=sys.stderr)


def help_text(words: str) -> str:
    """The help for a statement, or the list of all where there is no such statement."""
    from hindex.sql.help import statement_help

    return str(statement_help(words) or HELP.format(statements=statement_list()))


def statement_list() -> str:
    """Every statement with its purpose, a line each."""
    from hindex.sql.help import HELP as STATEMENTS

    width = max(map(len, STATEMENTS))
    return "\n".join(f"  {name:{width}}  {text.purpose}" for name, text in STATEMENTS.items())


def complete_statements(text: str) -> tuple[list[str], str]:
    """The statements of a text that have their ``;``, and what is left after the last of them.

    :raises StatementError: if the text cannot be cut into words.
    """
    from hindex.sql import split

    # a word on a new line makes one more statement exactly where the text before it is complete
    statements = split(text)
    if len(split(text + "\nx")) > len(statements):
        return statements, ""
    return statements[:-1], statements[-1] if statements else ""


def typed_statements(*, prompting: bool) -> Iterator[str]:
    """Statements as the user completes them."""
    pending = ""
    while True:
        try:
            line = input((CONTINUATION if pending else PROMPT) if prompting else "")
        except KeyboardInterrupt:
            print()
            pending = ""
            continue
        except EOFError:
            print()
            return
        word = line.strip().rstrip(";").strip().lower()
        if not pending and word in _LEAVE:
            return
        if not pending and word.split(" ")[0] in _HELP:
            print(help_text(word.partition(" ")[2]))
            continue
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip():
            pending = ""
            continue
        try:
            statements, pending = complete_statements(pending)
        except HindexError:
            # an open quote or comment: more lines may close it
            continue
        yield from statements


def history_file() -> Path:
    """Where the shell remembers the lines of earlier runs."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "hindex", "history")


def _remember_lines() -> None:
    """Line editing, with a history that lasts where it can be written."""
    import atexit

    try:
        import readline
    except ImportError:
        return
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.set_history_length(HISTORY_LINES)
        if path.exists():
            readline.read_history_file(path)
    except OSError:
        return
    atexit.register(_write_history, path)


def _write_history(path: Path) -> None:
    import contextlib
    import readline

    with contextlib.suppress(OSError):
        readline.write_history_file(path)

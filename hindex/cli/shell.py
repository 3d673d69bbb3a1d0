"""The interactive shell: statements end with ``;`` and may take several lines."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hindex.errors import HindexError

if TYPE_CHECKING:
    from hindex.cli.completion import Completer

PROMPT = "hindex> "
CONTINUATION = "     -> "
HISTORY_LINES = 1000

HELP = """\
Statements end with ; and may take several lines. A table is a quoted path or URI, or a Spark catalog name.

{statements}

help STATEMENT explains one, such as: help create index
help shows this, quit (or Ctrl-D) leaves, Ctrl-C drops what is typed or stops what runs.
\\x [on|off|auto] shows one column per line: always, never, or (auto) if a table is wider than the terminal.
TAB completes keywords, paths in quotes, and names of columns, fields and indexes."""

_HELP = frozenset({"help", "?", r"\h"})
_LEAVE = frozenset({"quit", "exit", r"\q"})


class Expansion:
    r"""The setting ``\x``: one column per line always, never, or (``auto``) if the table is wider than the terminal."""

    def __init__(self) -> None:
        self._setting = "auto"

    def change(self, setting: str) -> str:
        """Change the setting, or switch it if none is named; return a line about it."""
        setting = setting or ("off" if self._setting == "on" else "on")
        if setting not in ("on", "off", "auto"):
            return rf"\x takes on, off or auto, not {setting!r}"
        self._setting = setting
        return f"expanded display: {setting}"

    def max_width(self) -> int | None:
        """Return the width of the widest table that is not expanded; None for any."""
        if self._setting == "auto":
            return shutil.get_terminal_size().columns
        return None if self._setting == "off" else -1


def run_shell(
    execute: Callable[[str], int | None],
    report: Callable[[HindexError], None],
    completer: Completer,
    expansion: Expansion | None = None,
) -> None:
    r"""Read statements from the terminal and execute them until the user leaves.

    Args:
        execute: runs a statement and writes its result; returns the number of rows, if any.
        report: shows the error of a statement.
        completer: completes words at TAB.
        expansion: changed by ``\x``.
    """
    from hindex import __version__

    _edit_lines(completer)
    print(f"hindex {__version__}: statements end with ;  help shows them, quit leaves")
    for statement in typed_statements(completer, expansion or Expansion()):
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
        completer.forget(statement)


def help_text(words: str) -> str:
    """Return the help for a statement, or the list of all, with a remark if there is no such statement."""
    from hindex.sql.help import statement_help

    overview = HELP.format(statements=statement_list())
    if not words:
        return overview
    return statement_help(words) or f"there is no statement {words!r}\n\n{overview}"


def statement_list() -> str:
    """Return a line for each statement with its purpose."""
    from hindex.sql.help import HELP as STATEMENTS

    width = max(map(len, STATEMENTS))
    return "\n".join(f"  {name:{width}}  {text.purpose}" for name, text in STATEMENTS.items())


def complete_statements(text: str) -> tuple[list[str], str]:
    """Return the complete statements of a text, and the incomplete rest.

    Raises:
        StatementError: if the text cannot be tokenized.
    """
    from hindex.sql import split

    # a further word makes a further statement only if the text is complete
    statements = split(text)
    if len(split(text + "\nx")) > len(statements):
        return statements, ""
    return statements[:-1], statements[-1] if statements else ""


def typed_statements(completer: Completer | None = None, expansion: Expansion | None = None) -> Iterator[str]:
    """Yield statements as the user completes them."""
    pending = ""
    while True:
        if completer is not None:
            completer.earlier = pending
        try:
            line = input(CONTINUATION if pending else PROMPT)
        except KeyboardInterrupt:
            print()
            pending = ""
            continue
        except EOFError:
            print()
            return
        if not pending and _leaves(line):
            return
        if not pending and expansion is not None and _word(line).split(" ")[0] == r"\x":
            print(expansion.change(_word(line)[2:].strip()))
            continue
        if not pending and (words := _asked_help(line)) is not None:
            print(help_text(words))
            continue
        if not pending and (command := _word(line)).startswith("\\"):
            print(rf"unknown command {command}: the shell has \x, \h for help, and \q to leave")
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


def piped_statements(text: str) -> Iterator[str]:
    """Yield the statements of a text; ``help`` and ``quit`` work between them as at a terminal.

    Comments before statements are skipped. As many line breaks as precede a statement in the text stand before it, so
    that errors have the line of the text.
    """
    from hindex.sql.lexer import split_with_lines, without_leading_comments

    for line_number, statement in split_with_lines(text):
        rest = without_leading_comments(statement)
        while rest:
            line, _, following = rest.partition("\n")
            if _leaves(line):
                return
            if (words := _asked_help(line)) is None:
                skipped = statement[: len(statement) - len(rest)]
                yield "\n" * (line_number - 1 + skipped.count("\n")) + rest
                break
            print(help_text(words))
            rest = without_leading_comments(following)


def _word(line: str) -> str:
    return " ".join(line.strip().rstrip(";").lower().split())


def _leaves(line: str) -> bool:
    return _word(line) in _LEAVE


def _asked_help(line: str) -> str | None:
    """Return the topic of a line that asks for help, in lower case; None for other lines."""
    first, _, words = _word(line).partition(" ")
    return words if first in _HELP else None


def history_file() -> Path:
    """Return the path of the shell's history."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "hindex", "history")


def _edit_lines(completer: Completer) -> None:
    """Enable line editing, completion and a persistent history, if available."""
    import atexit

    try:
        import readline
    except ImportError:
        return
    from hindex.cli.completion import DELIMITERS

    readline.set_completer(completer)
    readline.set_completer_delims(DELIMITERS)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
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

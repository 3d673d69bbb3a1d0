"""The shell: statements over several lines, words without ``;``, errors that do not end it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindex.cli.completion import Completer, Names
from hindex.cli.shell import (
    CONTINUATION,
    PROMPT,
    complete_statements,
    help_text,
    piped_statements,
    run_shell,
    typed_statements,
)
from hindex.errors import HindexError, TableError
from tests.support.cases import sampled

STUB = """
import os, sys, pyarrow as pa, hindex
from hindex.cli.main import main
from hindex.errors import TableError

class Connection:
    def sql(self, text):
        if "broken" in text:
            raise TableError("Table 'broken' is invalid")
        if "slow" in text:
            import time
            print("working", flush=True)
            for _ in range(600):
                time.sleep(0.1)
        return pa.table({"text": [" ".join(text.split())]})

if sys.stdin.isatty():
    # the first terminal that a session's leader opens sends it the signals of Ctrl-C
    os.open(os.ttyname(0), os.O_RDWR)
hindex.connect = lambda **options: Connection()
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1; SELECT", ["SELECT 1"], "SELECT"),
        ("SELECT ';'", [], "SELECT ';'"),
        ("SELECT ';' ; ", ["SELECT ';'"], ""),
        ("SELECT\n1;SELECT 2;", ["SELECT\n1", "SELECT 2"], ""),
        ("", [], ""),
        (";", [], ""),
    ],
)
def test_complete_statements(text: str, statements: list[str], rest: str) -> None:
    assert complete_statements(text) == (statements, rest)


class Terminal:
    """A shell at a pseudo terminal."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.master, slave = pty.openpty()
        environment |= {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", STUB],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        os.close(slave)

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """Read until a text comes; returns all that came since the last call."""
        came = ""
        until = time.monotonic() + seconds
        while text not in came:
            ready, _, _ = select.select([self.master], [], [], max(0, until - time.monotonic()))
            assert ready, f"{text!r} did not come, but {came!r}"
            try:
                came += os.read(self.master, 4096).decode()
            except OSError:  # the other end has closed
                break
        return came


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    result = Terminal(tmp_path)
    yield result
    result.process.kill()
    result.process.wait()
    os.close(result.master)


def test_a_session(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait_for("hindex> ")
    terminal.send("SELECT 1\n")
    terminal.wait_for("-> ")
    terminal.send("FROM t;\n")
    assert "SELECT 1 FROM t" in terminal.wait_for("hindex> ")
    terminal.send("SELECT broken;\n")
    assert "Error: Table 'broken' is invalid" in terminal.wait_for("hindex> ")
    terminal.send("help\n")
    assert "help create index" in terminal.wait_for("hindex> ")
    terminal.send("help alter index;\n")
    assert "RENAME TO new_name" in terminal.wait_for("hindex> ")
    terminal.send("help foo\n")
    assert "there is no statement 'foo'" in terminal.wait_for("hindex> ")
    terminal.send("quit\n")
    assert terminal.process.wait(10) == 0
    assert "SELECT broken;" in (tmp_path / "state" / "hindex" / "history").read_text()


def test_tab_completes(terminal: Terminal, tmp_path: Path) -> None:
    pytest.importorskip("readline")
    (tmp_path / "some" / "where").mkdir(parents=True)
    terminal.wait_for("hindex> ")
    terminal.send("sel\t 1\n")
    terminal.wait_for("-> ")
    terminal.send(f"fro\t '{tmp_path}/so\twh\t';\n")
    assert f"select 1 from '{tmp_path}/some/where/'" in terminal.wait_for("hindex> ").replace("\r\n", "")


def test_the_shell_works_without_line_editing(monkeypatch: pytest.MonkeyPatch) -> None:
    from hindex.cli.completion import Completer, Names

    typed, executed = ["SELECT", "1;"], list[str]()

    def type_or_leave(prompt: str) -> str:
        if not typed:
            raise EOFError
        return typed.pop(0)

    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr("builtins.input", type_or_leave)
    run_shell(executed.append, lambda _: None, Completer(lambda _: Names()))
    assert executed == ["SELECT\n1"]


def test_backslash_x_expands(terminal: Terminal) -> None:
    terminal.wait_for("hindex> ")
    terminal.send("\\x\n")
    assert "expanded display: on" in terminal.wait_for("hindex> ")
    terminal.send("SELECT 1;\n")
    assert "text │ SELECT 1" in terminal.wait_for("hindex> ")
    terminal.send("\\x auto\nSELECT 1;\n")
    assert "────────\r\nSELECT 1" in terminal.wait_for(" row in ")
    terminal.send(f"SELECT '{'x' * 90}';\n")
    assert "text │ SELECT 'x" in terminal.wait_for(" row in ")
    terminal.send("\\x maybe\n")
    assert "takes on, off or auto" in terminal.wait_for("auto, not")


def test_ctrl_c_stops_a_statement_and_ctrl_d_leaves(terminal: Terminal) -> None:
    terminal.wait_for("hindex> ")
    terminal.send("SELECT slow;\n")
    terminal.wait_for("working")
    terminal.send("\x03")
    assert "stopped" in terminal.wait_for("hindex> ")
    terminal.send("SELECT 2;\n")
    assert "SELECT 2" in terminal.wait_for("hindex> ")
    terminal.send("\x04")
    assert terminal.process.wait(60) == 0


def test_a_terminal_without_a_character_gets_an_error_and_the_shell_goes_on(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, PYTHONIOENCODING="ascii")
    try:
        terminal.wait_for("hindex> ")
        for statement in ("SELECT 1;", "SELECT 2;"):
            terminal.send(f"{statement}\n")
            lines = terminal.wait_for("hindex> ")
            assert "Error: the output's encoding, ascii, has no '\\u2500'" in lines
        terminal.send("quit\n")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)


def test_unknown_backslash_commands_are_no_statements(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["\\d", "SELECT 1", "FROM t;", "\\q"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    assert list(typed_statements()) == ["SELECT 1\nFROM t"]
    assert "unknown command \\d: the shell has \\x, \\h for help, and \\q to leave" in capsys.readouterr().out


def test_ctrl_c_drops_the_typed_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    typed: Iterator[str | BaseException] = iter(
        ["SELECT forgotten", KeyboardInterrupt(), "SELECT 1", "FROM t;", EOFError()]
    )
    prompts = []

    def read_line(prompt: str) -> str:
        prompts.append(prompt)
        line = next(typed)
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", read_line)
    assert list(typed_statements()) == ["SELECT 1\nFROM t"]
    assert prompts == [PROMPT, CONTINUATION, PROMPT, CONTINUATION, PROMPT]


def test_names_are_read_again_after_a_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def names(table: str) -> Names:
        requests.append(table)
        return Names(("a",))

    completer = Completer(names)
    lines = ["SELECT broken;", "SELECT 1;", "SELECT 2;"]

    def read_line(prompt: str) -> str:
        assert prompt == PROMPT
        if not lines:
            raise EOFError
        for _ in range(2):
            assert completer.candidates("SELECT a FROM t WHERE ", 22)[0] == "a"
        return lines.pop(0)

    def execute(text: str) -> int | None:
        if "broken" in text:
            raise TableError("Table 'broken' is invalid")
        return None

    def reported(error: HindexError) -> None:
        assert "broken" in str(error)

    def edit_nothing(_: Completer) -> None:
        """Lines are not typed here."""

    monkeypatch.setattr("builtins.input", read_line)
    monkeypatch.setattr("hindex.cli.shell._edit_lines", edit_nothing)
    # what fails may have changed them too
    run_shell(execute, reported, completer)
    assert requests == ["t"] * 3


def pipe(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STUB, "--output", "csv"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_statements_from_a_pipe() -> None:
    ran = pipe("SELECT\n1;\nSELECT 2")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "text\nSELECT 1\ntext\nSELECT 2\n", "")


def test_help_and_quit_from_a_pipe() -> None:
    ran = pipe("help alter index\nSELECT 'help\nme'; HELP foo;\nhelp\n\nSELECT 2;quit\nSELECT broken")
    assert (ran.returncode, ran.stderr) == (0, "")
    listed = help_text("")
    lines = [
        help_text("alter index"),
        "text\nSELECT 'help me'",
        f"there is no statement 'foo'\n\n{listed}",
        listed,
    ]
    assert ran.stdout == "\n".join([*lines, "text\nSELECT 2", ""])


@sampled(2)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("-- c\nquit\n", ""),
        ("-- c\nhelp alter index;\n", help_text("alter index") + "\n"),
        ("/* c\nd */ -- e; f\n\n  \\q", ""),
        ("help alter index\n-- c\n", help_text("alter index") + "\n"),
        ("-- c\nSELECT 1 -- d\n;quit", "text\nSELECT 1 -- d\n"),
        ("SELECT 1;\n-- c\nexit;\nSELECT broken", "text\nSELECT 1\n"),
    ],
)
def test_comments_before_piped_statements(text: str, lines: str) -> None:
    ran = pipe(text)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, lines, "")


def test_comments_that_are_not_closed_are_no_comments() -> None:
    assert list(piped_statements("/* quit")) == ["/* quit"]
    assert list(piped_statements("-- c\n'--'")) == ["\n'--'"]


def test_the_first_error_of_a_pipe_ends_it() -> None:
    ran = pipe("SELECT broken; SELECT 2;")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "Error: Table 'broken' is invalid\n")


@pytest.mark.parametrize(
    ("words", "purpose"),
    [
        ("create index", "Builds an index"),
        ("CREATE", "Builds an index"),
        ("update index", "Updates an index"),
        ("refresh indexes", "Updates an index"),
        ("show formatted index", "Lists indexes"),
        ("desc index", "Describes one index"),
        ("adopt indexes", "Keeps the indexes of a table that was copied"),
        ("vacuum", "Deletes unused index files"),
        ("select", "Reads the matching rows"),
        ("create table", "there is no statement 'create table'\n\nStatements end with ;"),
        ("insert", "there is no statement 'insert'\n\nStatements end with ;"),
        ("", "Statements end with ;"),
    ],
)
def test_help_for_a_statement(words: str, purpose: str) -> None:
    assert help_text(words).startswith(purpose)


def test_every_statement_has_help() -> None:
    from hindex.sql.grammar import STATEMENTS
    from hindex.sql.help import HELP, statement_help

    assert all(map(statement_help, STATEMENTS))
    assert str(HELP["DESCRIBE TABLE"]) in (statement_help("desc") or "")
    for words, text in HELP.items():
        assert words in STATEMENTS
        assert statement_help(words) == str(text)
        assert text.syntax[0].startswith(words.split(" ")[0])

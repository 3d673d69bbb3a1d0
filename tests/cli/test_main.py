"""The command line over a connection that stands in for hindex: options, exit codes, errors in one line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hindex
from hindex.api.statement_table import RecordList
from hindex.cli import main as command
from hindex.errors import StatementError, TableError
from hindex.maintain.results import AdoptResult, CheckResult, IndexState
from tests.support import local_build
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns


@dataclass
class FakeScan:
    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()


@dataclass
class FakeConnection:
    """Returns what was put in for a statement, raises it where it is an error."""

    results: dict[str, object] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)
    start_conf: Mapping[str, str] = field(default_factory=dict)

    def sql(self, text: str) -> object:
        self.statements.append(text)
        result = self.results.get(text, FakeScan(pa.table({"a": [1]})))
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> FakeConnection:
    fake = FakeConnection()

    def connect(**options: object) -> FakeConnection:
        fake.options = options
        return fake

    monkeypatch.setattr(hindex, "connect", connect, raising=False)
    return fake


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_sql_writes_the_rows(connection: FakeConnection, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--output", "csv", "sql", "SELECT a FROM t") == 0
    assert connection.statements == ["SELECT a FROM t"]
    assert capsys.readouterr() == ("a\n1\n", "")


def test_several_statements_run_in_order(connection: FakeConnection) -> None:
    assert run("sql", "SELECT a FROM t; SELECT ';' FROM t;\n") == 0
    assert connection.statements == ["SELECT a FROM t", "SELECT ';' FROM t"]


def test_options_reach_the_connection(connection: FakeConnection) -> None:
    options = ["--store", "/s", "--master", "spark://m:7077", "--conf", "a=b=c", "--conf", "d="]
    assert run(*options, "sql", "SELECT a FROM t") == 0
    assert connection.options["store"] == "/s"
    assert connection.options["master"] == "spark://m:7077"
    assert connection.options["conf"] == {"a": "b=c", "d": ""}


def test_a_local_session_starts_quickly_by_default(connection: FakeConnection) -> None:
    run("sql", "SELECT a FROM t")
    # what nobody asked for is no wish for a session
    assert connection.options["conf"] == {}
    assert connection.start_conf == {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    run("--conf", "spark.driver.extraJavaOptions=-Dx=y", "sql", "SELECT a FROM t")
    assert connection.options["conf"] == {"spark.driver.extraJavaOptions": "-Dx=y"}
    connection.start_conf = {}
    run("--master", "spark://m:7077", "sql", "SELECT a FROM t")
    assert connection.start_conf == {}


def test_global_options_also_stand_after_the_command(
    connection: FakeConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ["--output", "json", "--store", "/first", "--conf", "a=1", "--conf", "b=1"]
    after = ["--output", "csv", "--conf", "b=2", "--mode", "strict"]
    assert run(*before, "sql", "SELECT a FROM t", *after) == 0
    assert capsys.readouterr() == ("a\n1\n", "")
    assert connection.options["store"] == "/first"
    assert connection.options["conf"] == {"a": "1", "b": "2"}
    assert connection.options["mode"] == "strict"
    assert all(
        "--output" in command.cli.commands[name].get_help(click.Context(command.cli))
        for name in ("sql", "check")
    )


def test_statements_come_from_a_file(
    connection: FakeConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "q.sql"
    file.write_text("-- first\nSELECT a FROM t;\n\n/* ; */\nDROP INDEX i ON t;\nSELECT 3", "utf-8")
    connection.results["\n\n\n\nDROP INDEX i ON t"] = TableError("Table 't' is invalid: gone")
    assert run("sql", "-f", str(file), "--output", "csv") == 2
    assert capsys.readouterr() == ("a\n1\n", "Error: line 5: Table 't' is invalid: gone\n")
    assert [text.strip() for text in connection.statements] == ["SELECT a FROM t", "DROP INDEX i ON t"]
    assert run("sql", "SELECT 1", "-f", str(file)) == 2
    assert "it takes a STATEMENT or -f FILE, not both" in capsys.readouterr().err
    assert run("sql", "-f", str(tmp_path / "none")) == 2
    assert "No such file" in capsys.readouterr().err
    file.write_bytes(b"\xff")
    assert run("sql", "-f", str(file)) == 2
    assert "must be encoded as UTF-8" in capsys.readouterr().err


def test_statements_come_from_standard_input(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1; SELECT 2"))
    assert run("sql", "-") == 0
    assert connection.statements == ["SELECT 1", "SELECT 2"]


def test_a_syntax_error_has_the_line_of_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.sql"
    file.write_text("help alter index;\n\nSELECT FROM WHERE", "utf-8")
    assert run("sql", "-f", str(file)) == 2
    assert capsys.readouterr().err.startswith("Error: syntax error at line 3, column ")


@pytest.mark.parametrize("to_file", [True, False])
def test_parquet(connection: FakeConnection, tmp_path: Path, to_file: bool) -> None:
    table = write_columns(
        tmp_path / "t" / "x.orc", {"a": pa.array([1, None]), "b": pa.array(["x", "ä"])}
    ).parent
    file = tmp_path / "rows.parquet"
    arguments = [sys.executable, "-m", "hindex", "sql", f"SELECT * FROM '{table}'", "--output", "parquet"]
    if to_file:
        subprocess.run([*arguments, "--to", str(file)], check=True)
    else:
        with file.open("wb") as stream:
            subprocess.run(arguments, stdout=stream, check=True)
    assert pq.read_table(file).to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "ä"}]


def test_parquet_needs_a_file_and_one_result(
    connection: FakeConnection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert run("sql", "SELECT 1; SELECT 2", "--output", "parquet") == 2
    assert "a Parquet file holds one result" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("sql", "SELECT 1", "--output", "parquet") == 2
    assert capsys.readouterr() == (
        "",
        "Error: Parquet is binary: write it to a file, with --to FILE or > FILE\n",
    )
    assert connection.statements == []
    missing = str(tmp_path / "none" / "rows.parquet")
    assert run("sql", "SELECT 1", "--output", "parquet", "--to", missing) == 2
    assert capsys.readouterr().err.startswith(f"Error: cannot write {missing!r}: No such file")


def test_results_go_to_a_file(
    connection: FakeConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows"
    assert run("sql", "SELECT 1; SELECT 2", "--output", "ndjson", "--to", str(file)) == 0
    assert capsys.readouterr() == ("", "")
    assert file.read_text() == '{"a": 1}\n{"a": 1}\n'


def test_an_error_leaves_the_file_of_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second statement of a script fails, and the rows of a query do after the first ones."""
    table = write_columns(
        tmp_path / "t" / "x.orc", {"a": pa.array(range(200_000)), "b": pa.array([1] * 199_999 + [0])}
    ).parent
    (tmp_path / "results").mkdir()
    file = tmp_path / "results" / "rows.csv"
    statement = f"SELECT a FROM '{table}' WHERE a / b >= 0"
    for old in (None, "old\n"):
        if old is not None:
            file.write_text(old)
            file.chmod(0o640)
        for text in (statement, f"SELECT a FROM '{table}' LIMIT 1; SELECT nope FROM '{table}'"):
            for output in ("csv", "parquet", "json"):
                assert run("sql", text, "--output", output, "--to", str(file)) == 2
                assert capsys.readouterr().err.startswith("Error: ")
                assert list(file.parent.iterdir()) == ([] if old is None else [file])
    assert file.read_text() == "old\n"
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    assert run("sql", f"SELECT a FROM '{table}' LIMIT 1", "--output", "csv", "--to", str(link)) == 0
    assert file.read_text() == "a\n0\n"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]
    assert run("sql", f"SELECT a FROM '{table}' LIMIT 1", "--output", "csv", "--to", "/dev/null") == 0
    assert not Path("/dev/null").is_file()


def test_a_report_of_damaged_indexes_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    path = write_columns(tmp_path / "t" / "x.orc", {"a": pa.array([1, 2])}).parent
    table = LocalConnection().table(str(path))
    table.create_index("i", "a")
    for index_file in (path / "_hindex").rglob("*.hidx"):
        index_file.unlink()
    assert run("check", str(path), "--output", "json", "--to", str(tmp_path / "report.json")) == 2
    (report,) = json.loads((tmp_path / "report.json").read_text())
    assert report["index"] == "i"
    assert report["problems"]


@pytest.mark.parametrize(
    ("shell", "script"), [("bash_source", "complete -o nosort -F"), ("zsh_source", "#compdef hindex")]
)
def test_shells_complete(shell: str, script: str) -> None:
    def complete(instruction: str, **words: str) -> str:
        environment = {**os.environ, "_HINDEX_COMPLETE": instruction, **words}
        arguments = [sys.executable, "-m", "hindex"]
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False).stdout

    assert script in complete(shell)
    words = {"COMP_WORDS": "hindex check --fa", "COMP_CWORD": "2"}
    assert "--fail-stale" in complete(shell.replace("source", "complete"), **words)
    words = {"COMP_WORDS": "hindex --output nd", "COMP_CWORD": "2"}
    assert "ndjson" in complete(shell.replace("source", "complete"), **words)


@pytest.mark.parametrize(
    ("state", "problems", "code", "without"),
    [
        (IndexState.FRESH, (), 0, 0),
        (IndexState.STALE, (), 1, 0),
        (IndexState.DEFERRED, (), 1, 0),
        (IndexState.STALE, ("damaged",), 2, 2),
    ],
)
def test_a_check_can_fail_on_stale_indexes(
    connection: FakeConnection, state: IndexState, problems: tuple[str, ...], code: int, without: int
) -> None:
    result = CheckResult("i", "t", state, 2, 1, 1, 0, 0, 50.0, 0, problems)
    connection.results["CHECK INDEXES ON 't'"] = RecordList("CHECK", CheckResult, [result])
    assert run("check", "t", "--fail-stale", "--output", "json") == code
    assert run("check", "t") == without


@pytest.mark.parametrize(
    ("arguments", "statement"),
    [
        (["t"], "ADOPT INDEXES ON 't'"),
        (["s3://b/it's", "--dry-run"], r"ADOPT INDEXES ON 's3://b/it\'s' DRY RUN"),
        (["db.t", "--master", "local"], "ADOPT INDEXES ON db.t"),
    ],
)
def test_adopt(
    connection: FakeConnection, capsys: pytest.CaptureFixture[str], arguments: list[str], statement: str
) -> None:
    connection.results[statement] = AdoptResult(("i",), "t", 2, 1, 0, 0, 2)
    assert run("adopt", *arguments) == 0
    assert connection.statements == [statement]
    assert capsys.readouterr().out == (
        "Index 'i' of 't': adopted 2 files (2 stripes compared with the indexes); 1 fresh already\n"
    )


@pytest.mark.parametrize("text", ["SELECT a FROM t", "EXPLAIN SELECT a FROM t", " explain SELECT a FROM t"])
def test_explain_asks_once(connection: FakeConnection, text: str) -> None:
    assert run("explain", text) == 0
    (requests,) = connection.statements
    assert requests.lower().count("explain") == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TableError("Table 't' is invalid: gone"), "Error: Table 't' is invalid: gone\n"),
        (TableError("first\n  second"), "Error: first; second\n"),
        (StatementError("Line 1: here\nSELEC\n^"), "Error: Line 1: here\nSELEC\n^\n"),
        (TableError(), "Error: TableError\n"),
    ],
)
def test_an_error_is_one_clear_line(
    connection: FakeConnection, capsys: pytest.CaptureFixture[str], error: Exception, text: str
) -> None:
    connection.results["SELECT a FROM t"] = error
    assert run("sql", "SELECT a FROM t") == 2
    assert capsys.readouterr() == ("", text)


def test_a_bug_is_reported_as_an_internal_error(
    connection: FakeConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    connection.results["SELECT a FROM t"] = KeyError("x\ny")
    assert run("sql", "SELECT a FROM t") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: internal error, KeyError: ")
    assert "--debug" in err
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(connection: FakeConnection, capsys: pytest.CaptureFixture[str]) -> None:
    connection.results["SELECT a FROM t"] = TableError("no")
    assert run("--debug", "sql", "SELECT a FROM t") == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.endswith("Error: no\n")
    connection.results["SELECT a FROM t"] = KeyError("x")
    with pytest.raises(KeyError):
        command.main(["--debug", "sql", "SELECT a FROM t"])


_NO_BAR = UnicodeEncodeError("latin-1", "a│b", 1, 2, "ordinal not in range(256)")
_BUG = "Error: internal error, UnicodeEncodeError: "


@sampled(3)
@pytest.mark.parametrize(
    ("error", "encoding", "message"),
    [
        (OSError(28, "No space left on device"), "utf-8", "Error: [Errno 28] No space left on device\n"),
        # that of a socket: the output has its reader
        (BrokenPipeError(32, "Broken pipe"), "utf-8", "Error: [Errno 32] Broken pipe\n"),
        (
            _NO_BAR,
            "latin-1",
            (
                r"Error: the output's encoding, iso8859-1, has no '\u2502': set PYTHONIOENCODING=utf-8, or use "
                "--output json, which needs ASCII only\n"
            ),
        ),
        # of some other encoding than the output's
        (_NO_BAR, "ascii", _BUG),
        (_NO_BAR, "utf-8", _BUG),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), "utf-8", _BUG),
        (UnicodeEncodeError("latin-1", "aäb", 1, 2, "made up"), "latin-1", _BUG),
    ],
)
def test_an_output_that_takes_no_more_is_no_bug(error: Exception, encoding: str, message: str) -> None:
    kind, arguments = type(error).__name__, error.args
    code = f"""
import hindex
from hindex.cli.main import main

class Connection:
    def sql(self, text):
        raise {kind}{arguments!r}

hindex.connect = lambda **options: Connection()
main(["sql", "SELECT * FROM t"])
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(message)
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_disk_is_one_line() -> None:
    code = "from hindex.cli.main import main; main(['help'])"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (2, "Error: [Errno 28] No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(
    ("streams", "code"),
    [
        ("2>/dev/full", "main(['help', 'nonsense'])"),
        ("2>/dev/full", "main(['nonsense'])"),
        (">/dev/full 2>&1", "main(['help'])"),
        # what was written before an error is still there to be written
        (">/dev/full", "print('x'); main(['help', 'nonsense'])"),
    ],
)
def test_streams_that_take_no_more_leave_the_exit_code(streams: str, code: str) -> None:
    shell = f'{sys.executable} -c "from hindex.cli.main import main; {code}" {streams}'
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run(["bash", "-c", shell], stderr=subprocess.PIPE, check=False, env=buffered)
    assert ran.returncode == 2


def test_streams_that_are_closed_are_as_the_null_device() -> None:
    for streams, expected in ((">&-", ""), ("2>&-", "Builds"), ("<&- >&- 2>&-", "")):
        shell = f"{sys.executable} -c \"from hindex.cli.main import main; main(['help', 'create index'])\" {streams}"
        ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout[:6], ran.stderr) == (0, expected, "")
    shell = f"{sys.executable} -c \"from hindex.cli.main import main; main(['help', 'nonsense'])\" 2>&-"
    assert subprocess.run(["bash", "-c", shell], check=False).returncode == 2


def test_debug_shows_where_a_character_is_lacking(connection: FakeConnection) -> None:
    connection.results["SELECT a FROM t"] = _NO_BAR
    with pytest.raises(UnicodeEncodeError):
        command.main(["--debug", "sql", "SELECT a FROM t"])


@sampled(1)
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_json_fits_into_any_encoding(encoding: str, tmp_path: Path) -> None:
    path = write_columns(tmp_path / "t" / "x.orc", {"größe": pa.array(["ä", None])}).parent
    ran = [
        subprocess.run(
            [sys.executable, "-m", "hindex.cli.main", "--output", output, *rest],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        for output, *rest in (
            ("json", "sql", f"SELECT * FROM '{path}'"),
            ("json", "inspect", str(path / "x.orc")),
            ("table", "sql", f"SELECT * FROM '{path}'"),
        )
    ]
    assert [process.returncode for process in ran] == [0, 0, 2]
    assert json.loads(ran[0].stdout) == [{"größe": "ä"}, {"größe": None}]
    assert "größe" in str(json.loads(ran[1].stdout))
    assert ran[2].stderr.startswith(b"Error: the output's encoding, ")


def test_statements_are_helped_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("help") == 0
    assert capsys.readouterr().out.startswith("  CREATE INDEX    Builds an index")
    assert run("help", "refresh", "index") == 0
    assert capsys.readouterr().out.startswith("Updates an index")
    assert run("help", "insert") == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "Error: there is no statement 'insert'; hindex help lists them\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--stor", "x", "sql", "SELECT 1"],
            "hindex has no option --stor; did you mean --store? hindex --help lists",
        ),
        (
            ["sql", "--xyz", "SELECT 1"],
            "hindex sql has no option --xyz; hindex sql --help lists those there are",
        ),
        (
            ["sql", "--outptu=json", "SELECT 1"],
            "hindex sql has no option --outptu; did you mean --output? hindex sql --help lists",
        ),
        (
            ["explain", "--analyse", "SELECT 1"],
            "hindex explain has no option --analyse; did you mean --analyze? hindex explain --help lists",
        ),
        (
            ["sql"],
            "it needs a STATEMENT, or -f FILE; a statement is one argument: put it into quotes; usage: hindex sql",
        ),
        (
            ["sql", "SELECT", "a", "FROM", "t"],
            "got unexpected extra arguments (a FROM t); a statement is one argument: put it into quotes; usage: hindex",
        ),
        (["check", "a", "b"], "got unexpected extra argument (b); usage: hindex check [OPTIONS] TABLE; see"),
        (
            ["--output", "xml", "help"],
            "invalid value for '--output': 'xml' is not one of 'table', 'json', 'ndjson', 'csv', 'parquet'; us",
        ),
        (
            ["--conf", "novalue", "help"],
            "invalid value for '--conf': 'novalue' is not KEY=VALUE; usage: hindex",
        ),
        (
            ["bench", "t", "--rounds", "0"],
            "invalid value for '--rounds': 0 is not in the range x>=1; usage: hindex",
        ),
        (["--store"], "option '--store' requires an argument; see hindex --help"),
        (
            ["chek", "t"],
            "there is no command 'chek'; did you mean 'check'? hindex --help lists them, and hindex alone",
        ),
        (["repl"], "there is no command 'repl'; hindex --help lists them, and hindex alone is a shell"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # click breaks its lines by the width of the terminal
    monkeypatch.setenv("COLUMNS", "20")
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"Error: {message}")


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["SELECT a FROM 't'"], """hindex sql "SELECT a FROM 't'\""""),
        (["create  index i", "on t"], 'hindex sql "create index i on t"'),
        (['DROP INDEX i ON "t"'], """hindex sql 'DROP INDEX i ON "t"'"""),
        (["EXPLAIN", "SELECT 1"], 'hindex sql "EXPLAIN SELECT 1"'),
    ],
)
def test_a_statement_without_its_command_gets_a_hint(
    connection: FakeConnection, arguments: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err == f"Error: a statement goes to the command sql, in quotes: {remedy}\n"
    assert connection.statements == []


def test_no_statement(connection: FakeConnection, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", " ; ") == 2
    assert "there is no statement" in capsys.readouterr().err


def test_interrupted(connection: FakeConnection, capsys: pytest.CaptureFixture[str]) -> None:
    connection.results["SELECT a FROM t"] = KeyboardInterrupt()
    assert run("sql", "SELECT a FROM t") == 130
    assert capsys.readouterr() == ("", "stopped\n")


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "Usage: hindex" in capsys.readouterr().out
    assert run("--version") == 0
    assert "hindex" in capsys.readouterr().out


def test_the_module_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hindex", "help", "create", "index"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout[:6], ran.stderr) == (0, "Builds", "")


def test_every_command_is_documented() -> None:
    for name, result in command.cli.commands.items():
        assert isinstance(result, click.Command)
        assert result.help, name


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = """
import pyarrow as pa, hindex
from hindex.cli.main import main

class Connection:
    def sql(self, text):
        return pa.table({"n": range(200_000), "s": ["x" * 50] * 200_000})

hindex.connect = lambda **options: Connection()
main(["sql", "SELECT * FROM t"])
"""
    shell = f"{sys.executable} -c '{code}' | head -n 3; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 3


def test_a_quick_command_looks_for_no_garbage(tmp_path: Path) -> None:
    """Neither among the objects of modules that it imports, nor at its end."""
    write_columns(tmp_path / "1.orc", {"a": pa.array([1, 2, 3])})
    code = f"""
import atexit, gc
atexit.register(lambda: print(gc.get_stats()[2]["collections"], gc.get_freeze_count() > 10_000))
gc.collect()
from hindex.cli.main import main
main(["sql", "SELECT count(*) FROM '{tmp_path}' WHERE a > 1", "--output", "csv"])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["count(1)", "2", "1", "True"]

"""The command ``hindex``: ``sql``, ``explain``, ``check``, ``advise``, ``inspect`` and others; or a shell."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO, cast

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from hindex.cli.streams import (
    NewFile,
    cannot_encode,
    flush_or_drop,
    has_no_reader,
    open_missing_streams,
    suppress_stderr_errors,
    write_stderr,
)
from hindex.errors import HindexError, HindexWarning, PredicateError, StatementError
from hindex.validation import suggestion

if TYPE_CHECKING:
    import pyarrow as pa

    import hindex
    from hindex.cli.inspect import Inspection
    from hindex.cli.output import Output
    from hindex.explanations.explanation import Explanation
    from hindex.maintain.results import CheckResult
    from hindex.queries.decisions import QueryExplanation

#: Exit code of ``check --fail-stale`` if an index is stale.
STALE = 1
#: Exit code of errors.
FAILURE = 2
#: Exit code after Ctrl-C, as in shells.
INTERRUPTED = 130

#: Number of new objects after which Python looks for garbage among them.
_NEW_OBJECTS = 50_000

#: The environment variable by which click's completion of bash and zsh calls the command.
_COMPLETE = "_HINDEX_COMPLETE"

#: Index builds run little Java code: a session of the command line compiles it once and fast, which halves its
#: start.
_QUICK_JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


class Connection(Protocol):
    """The part of `hindex.Connection` that the command line needs."""

    start_conf: Mapping[str, str]

    def sql(self, text: str) -> object: ...


@dataclass
class Context:
    """The global options, and their connection."""

    store: str | None = None
    output: str = "table"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    valid_write_ids: str = ""
    mode: str = "lenient"
    debug: bool = False
    #: The file of the results; standard output if None.
    to: str | None = None
    #: The width from which on tables are written one column per line; None for never.
    max_width: Callable[[], int | None] = lambda: None
    _connection: Connection | None = None
    _output: Output | None = None
    _file: NewFile | None = None

    def connection(self, *, quick_java: bool = True) -> Connection:
        """Return the connection, made on first use.

        Args:
            quick_java: a session that it starts compiles Java code once and fast.
        """
        if self._connection is None:
            import hindex
            from hindex.cli.progress import progress_for

            quick = quick_java and (self.master is None or self.master.startswith("local"))
            self._connection = hindex.connect(
                store=self.store,
                master=self.master,
                conf=self.conf,
                progress=progress_for(sys.stderr),
                valid_write_ids=self.valid_write_ids,
                mode=self.mode,
            )
            if quick:
                # unlike conf=, it does not request a session
                self._connection.start_conf = _QUICK_JAVA
        return self._connection

    def execute(self, statement: str) -> int | None:
        """Run a statement and write its result; return the number of rows if it has rows."""
        from hindex.cli.results import proof_line, quoting_note

        try:
            result = self.connection().sql(statement)
            count = self.write(result)
        except PredicateError as error:
            note = quoting_note(self.connection(), statement)
            if note is None:
                raise
            raise PredicateError(f"{error}; {note.detail}") from error
        if self.mode == "prove" and (proof := proof_line(result)) is not None:
            write_stderr(proof)
        return count

    def execute_shown(self, statement: str) -> int | None:
        """Run a statement in the shell, which continues after a character that the terminal cannot encode.

        Raises:
            HindexError: for such a character too.
        """
        try:
            return self.execute(statement)
        except UnicodeEncodeError as error:
            if cannot_encode(sys.stdout, error):
                raise HindexError(_unexpected_message(error)) from error
            raise

    def write(self, result: object) -> int | None:
        """Write a statement's result; return the number of rows if it has rows."""
        from hindex.cli.results import write_result

        if self._output is None:
            from hindex.cli.output import output_for

            self.check_output()
            stream = self.open_stream()
            if self.to is None:
                self._output = output_for(self.output, stream, max_width=self.max_width)
            else:
                self._output = output_for(self.output, stream)
        count = write_result(result, self._output)
        sys.stdout.flush()
        return count

    def check_output(self, num_results: int = 1) -> None:
        """Check that results can be written, before statements run.

        Raises:
            HindexError: for Parquet if there are several results, or if it would go to a terminal.
        """
        if self.output != "parquet":
            return
        if num_results > 1:
            raise HindexError("a Parquet file holds one result: run one statement at a time")
        if self.to is None and sys.stdout.isatty():
            raise HindexError("Parquet is binary: write it to a file, with --to FILE or > FILE")

    def open_stream(self) -> TextIO:
        """Open the file of the results; return standard output if there is none."""
        if self.to is None:
            return sys.stdout
        try:
            self._file = NewFile(self.to)
        except OSError as error:
            raise HindexError(f"cannot write {self.to!r}: {error.strerror}; name another file") from error
        return self._file.stream

    def save(self) -> None:
        """Give the file of the results its name: they are complete."""
        if self._file is not None:
            self._file.save()
            self._file = None

    @contextmanager
    def saved(self) -> Iterator[None]:
        """Save the file of the results after a command; discard it after an error."""
        try:
            yield
            self.save()
        except click.exceptions.Exit:
            self.save()
            raise
        finally:
            if self._file is not None:
                self._file.discard()


def _set_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a global option in the `Context`; one after the command overrides one before it."""
    options = context.ensure_object(Context)
    name = str(parameter.name)
    if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
        setattr(options, name, value)


def _add_conf(context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> None:
    settings = {}
    for value in values:
        key, equals, setting = value.partition("=")
        if not (key.strip() and equals):
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
        settings[key.strip()] = setting
    options = context.ensure_object(Context)
    options.conf = {**options.conf, **settings}


#: The options of every command, which may stand before the command too.
_GLOBAL_OPTIONS = [
    click.Option(
        ["--store"],
        metavar="URI",
        callback=_set_option,
        expose_value=False,
        help="Where indexes are kept. Default: HINDEX_STORE, or _hindex/ in each table.",
    ),
    click.Option(
        ["--output"],
        type=click.Choice(["table", "json", "ndjson", "csv", "parquet"]),
        callback=_set_option,
        expose_value=False,
        help="How results are written. Default: table",
    ),
    click.Option(
        ["--to"],
        type=click.Path(),
        metavar="FILE",
        callback=_set_option,
        expose_value=False,
        help="Write results to a file.",
    ),
    click.Option(
        ["--master"],
        metavar="URL",
        callback=_set_option,
        expose_value=False,
        help="Spark master for index builds. Default: a local session.",
    ),
    click.Option(
        ["--conf"],
        metavar="KEY=VALUE",
        multiple=True,
        callback=_add_conf,
        expose_value=False,
        help="A Spark setting.",
    ),
    click.Option(
        ["--valid-write-ids"],
        metavar="LIST",
        callback=_set_option,
        expose_value=False,
        help="What is seen of transactional tables, as Hive writes it: "
        "table:highWatermark:minOpen:open,...:aborted,...",
    ),
    click.Option(
        ["--mode"],
        type=click.Choice(["lenient", "strict", "prove"]),
        callback=_set_option,
        expose_value=False,
        help="strict: what no index answers is an error. prove: read everything, too, and compare.",
    ),
    click.Option(
        ["--debug"],
        is_flag=True,
        callback=_set_option,
        expose_value=False,
        help="Show the traceback of an error.",
    ),
]


class _Command(click.Command):
    """A command with the global options after its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        # the last one is --help
        *own, last = super().get_params(ctx)
        return [*own, *_GLOBAL_OPTIONS, last]


class _Commands(click.Group):
    """The commands, with hints for statements and misspelt words in their place."""

    command_class = _Command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from hindex.sql.help import HELP

        name = arguments[0]
        if self.get_command(context, name) is not None or name[:1] == "-":
            return super().resolve_command(context, arguments)
        words = name.upper().split()
        first = {statement.split()[0] for statement in HELP}
        if words and words[0] in first:
            raise HindexError(
                f"a statement goes to the command sql, in quotes: hindex sql {_quoted(arguments)}"
            )
        hint = suggestion(name, self.commands)
        raise HindexError(
            f"there is no command {name!r}; {hint}hindex --help lists them, and hindex alone is a shell"
        )


def _quoted(words: Sequence[str]) -> str:
    """Quote a statement as one argument of a shell."""
    text = " ".join(" ".join(words).split())
    return shlex.quote(text) if '"' in text or "`" in text or "$" in text else f'"{text}"'


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[*_GLOBAL_OPTIONS],
)
@click.version_option(package_name="hindex-orc")
@click.pass_context
def cli(context: click.Context) -> None:
    """Indexes for tables of ORC files: build them with Spark, read only the rows that match.

    Without a command, hindex is an interactive shell.
    """
    options = context.ensure_object(Context)
    if context.invoked_subcommand is not None:
        return
    if sys.stdin.isatty():
        from hindex.cli.completion import Completer, table_names
        from hindex.cli.shell import Expansion, run_shell

        expansion = Expansion()
        if sys.stdout.isatty():
            options.max_width = expansion.max_width
        completer = Completer(
            lambda table: table_names(cast("hindex.Connection", options.connection()), table)
        )
        run_shell(
            options.execute_shown, lambda error: report(error, debug=options.debug), completer, expansion
        )
    else:
        _execute_all(options, sys.stdin.read())


@cli.command()
@click.argument("statement", required=False)
@click.option(
    "-f",
    "--file",
    type=click.File(encoding="utf-8-sig"),
    metavar="FILE",
    help="Run the statements of a file.",
)
@click.pass_obj
def sql(context: Context, statement: str | None, file: TextIO | None) -> None:
    """Run a STATEMENT, or several with ; between them; - reads them from standard input."""
    if statement is None and file is None:
        raise click.UsageError("it needs a STATEMENT, or -f FILE")
    if statement is not None and file is not None:
        raise click.UsageError("it takes a STATEMENT or -f FILE, not both")
    if file is None:
        _execute_all(context, sys.stdin.read() if statement == "-" else str(statement))
        return
    try:
        _execute_all(context, file.read())
    except UnicodeDecodeError as error:
        raise HindexError(f"cannot read {file.name!r}: {error}; it must be encoded as UTF-8") from error


@cli.command("help")
@click.argument("statement", nargs=-1)
def show_help(statement: Sequence[str]) -> None:
    """List the statements, or explain one: hindex help create index."""
    from hindex.cli.shell import statement_list
    from hindex.sql.help import HELP, statement_help

    words = " ".join(statement)
    text = (
        statement_help(words)
        if words
        else f"{statement_list()}\n\nhindex help create index  explains one of them"
    )
    if text is None:
        hint = suggestion(words, map(str.lower, HELP))
        raise HindexError(f"there is no statement {words!r}; {hint}hindex help lists them")
    print(text)


@cli.command()
@click.argument("select")
@click.option("--analyze", is_flag=True, help="Run it, too, and show what was read and how long it took.")
@click.option("--html", type=click.Path(), metavar="FILE", help="Write it as HTML, with a map of the table.")
@click.pass_obj
def explain(context: Context, select: str, analyze: bool, html: str | None) -> None:
    """Show how a SELECT would be answered: by which indexes, and what they skip."""
    words = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
    if analyze:
        select = re.sub(r"^\s*explain\s+(analyze\s+)?", "", select, flags=re.IGNORECASE)
    is_explain = select.lstrip()[:7].lower() == "explain"
    explanation = context.connection().sql(select if is_explain else f"{words} {select}")
    if html is None:
        context.write(explanation)
        return
    try:
        Path(html).write_text(cast("Explanation | QueryExplanation", explanation).to_html(), "utf-8")
    except OSError as error:
        raise HindexError(f"cannot write {html!r}: {error.strerror}; name another file") from error


@cli.command()
@click.argument("table", type=click.Path())
@click.option("--verify", is_flag=True, help="Read a sample of stripes and compare them with the indexes.")
@click.option("--fail-stale", is_flag=True, help="Exit with 1 if an index is stale.")
@click.pass_obj
def check(context: Context, table: str, verify: bool, fail_stale: bool) -> None:
    """Report stale indexes of a TABLE; fail if one is damaged or wrong.

    A TABLE is a path or URI; with --master or --conf also a name of Spark's catalog.
    """
    from hindex.maintain.results import IndexState

    statement = f"CHECK INDEXES ON {_reference(context, table)}{' VERIFY' if verify else ''}"
    results = cast("list[CheckResult]", context.connection().sql(statement))
    context.write(results)
    damaged = [result.index for result in results if not result.ok]
    if damaged:
        context.save()
        raise HindexError(
            f"{len(damaged)} of {len(results)} indexes of {table!r} have problems: {', '.join(damaged)}"
        )
    if fail_stale and any(result.state is not IndexState.FRESH for result in results):
        raise click.exceptions.Exit(STALE)


@cli.command()
@click.argument("table", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Compare, and change nothing.")
@click.pass_obj
def adopt(context: Context, table: str, dry_run: bool) -> None:
    """Keep the indexes of a TABLE that was copied or moved with its _hindex, without a build.

    Data files whose length and ORC tail are the recorded ones count as copies if a sample of their stripes agrees with
    the indexes. A TABLE is a path or URI; with --master or --conf also a name of Spark's catalog.
    """
    context.execute(f"ADOPT INDEXES ON {_reference(context, table)}{' DRY RUN' if dry_run else ''}")


def _reference(context: Context, table: str) -> str:
    """Return a table as statements name it."""
    from hindex.spark.catalog import is_path
    from hindex.sql.predicate import quote_string

    # with a requested session, other strings than paths are names of its catalog
    is_name = bool(context.master or context.conf) and "/" not in table and not is_path(table)
    return table if is_name else quote_string(table)


@cli.command()
@click.argument("table")
@click.option("-f", "--file", "queries", metavar="FILE", required=True, help="The queries, see below.")
@click.option("--as", "alias", metavar="NAME", help="What the queries call the table, beside its own name.")
@click.pass_obj
def advise(context: Context, table: str, queries: str, alias: str | None) -> None:
    """Show which indexes on a TABLE some queries want, and which of its indexes they do not use.

    FILE has SQL queries or conditions, one on a line or with ; between them; or it is hindex's own log, or an event log
    of Spark (uncompressed JSON). A sample of the table is read, and nothing is built.
    """
    connection = cast("hindex.Connection", context.connection())
    context.write(connection.table(table).advise(queries, alias=alias))


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--row-groups", "--verbose", is_flag=True, help="Show the statistics of row groups, too.")
@click.pass_obj
def inspect(context: Context, files: Sequence[str], row_groups: bool) -> None:
    """Show the content of ORC files, index files, manifests or transactional tables, or list a directory."""
    from hindex.cli.inspect import SeveralDocuments, SeveralTexts, inspect_path

    def inspected(file: str) -> Inspection | pa.Table:
        return inspect_path(file, row_groups=row_groups, valid_write_ids=context.valid_write_ids)

    if len(files) == 1:
        context.write(inspected(files[0]))
        return
    if context.output not in ("table", "json"):
        raise HindexError(
            f"several files are no rows of one kind, as {context.output} has them: use --output json or table"
        )
    stream = context.open_stream()
    several = (SeveralDocuments if context.output == "json" else SeveralTexts)(stream)
    is_sound = True
    for file in files:
        try:
            several.add(file, inspected(file))
        except HindexError as error:
            is_sound = False
            report(error, debug=context.debug)
        stream.flush()
    several.end()
    if not is_sound:
        raise click.exceptions.Exit(FAILURE)


@cli.command()
@click.argument("table", type=click.Path())
@click.option("--where", metavar="PREDICATE", help="Which rows, in SQL. Default: all.")
@click.option("--columns", metavar="A,B,...", help="Which columns. Default: all.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, help="How often each reader is timed. Default: 5"
)
@click.option("--spark", "with_spark", is_flag=True, help="Time Spark's own ORC reader, too.")
@click.pass_obj
def bench(
    context: Context, table: str, where: str | None, columns: str | None, rounds: int, with_spark: bool
) -> None:
    """Time hindex on a TABLE beside pyarrow, which reads the same files without indexes, and compare the rows.

    A ratio above 1 says how many times longer than hindex another reader takes.
    """
    from hindex.cli.bench import bench_note, run_bench

    # timed code is compiled as in long-running processes
    connection = cast("hindex.Connection", context.connection(quick_java=False))
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    results = run_bench(connection, table, where, names, rounds=rounds, with_spark=with_spark)
    context.write(results)
    if note := bench_note(results):
        write_stderr(note)


@cli.command()
@click.option("--scale", type=click.FloatRange(min=0.001), default=1.0, help="TPC-H scale factor. Default: 1")
@click.option(
    "--dir",
    "directory",
    type=click.Path(),
    default="demo-data",
    metavar="DIR",
    help="Where the data goes. Default: demo-data",
)
@click.pass_obj
def demo(context: Context, scale: float, directory: str) -> None:
    """Index TPC-H lineitem, and query it with hindex and with Spark alone, side by side."""
    from hindex.cli.demo import run_demo

    run_demo(scale, directory, master=context.master, conf=context.conf)


def _execute_all(context: Context, text: str) -> None:
    from hindex.cli.shell import piped_statements
    from hindex.sql import split
    from hindex.sql.help import HELP

    count = len(split(text))
    if not count:
        raise StatementError(f"there is no statement: try {', '.join(HELP)}")
    context.check_output(count)
    is_script = count > 1 and "\n" in text.strip()
    for statement in piped_statements(text):
        try:
            context.execute(statement)
        except StatementError:
            raise  # it has its line
        except HindexError as error:
            if not is_script:
                raise
            line = len(statement) - len(statement.lstrip("\n")) + 1
            raise HindexError(f"line {line}: {error}") from error


def report(error: HindexError, *, debug: bool = False) -> None:
    """Show an error on standard error: one line; for a statement, also the lines that mark the position."""
    if debug:
        import traceback

        with suppress_stderr_errors():
            traceback.print_exception(error)
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if isinstance(error, StatementError):
        text = "\n".join(lines)
    else:
        text = "; ".join(line.strip() for line in lines)
    write_stderr(f"Error: {text}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, or 2 with the error in one line on standard error."""
    # what imports make lives as long as the process: to look for garbage in it takes a quarter of a count's time
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    code = _run(sys.argv[1:] if arguments is None else arguments)
    flush_or_drop(sys.stdout)
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    debug = "--debug" in arguments
    open_missing_streams()
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(cli, {}, "hindex", _COMPLETE, instruction)
    warnings.showwarning = _show_warning
    if not sys.warnoptions:
        # a statement that is repeated in a shell is noted again
        warnings.simplefilter("always", HindexWarning)
    try:
        # not cli.main(), which handles Ctrl-C and closed pipes differently
        with cli.make_context("hindex", list(arguments)) as context, context.ensure_object(Context).saved():
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except HindexError as error:
        report(error, debug=debug)
        return FAILURE
    except click.ClickException as error:
        write_stderr(f"Error: {_usage_message(error)}")
        return FAILURE
    except (KeyboardInterrupt, click.Abort):
        write_stderr("stopped")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and has_no_reader(sys.stdout):
            return 0
        if debug:
            raise
        write_stderr(f"Error: {_unexpected_message(error)}")
        return FAILURE
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    write_stderr(f"{'Note' if issubclass(category, HindexWarning) else 'Warning'}: {message}")


def _unexpected_message(error: Exception) -> str:
    """Return the message of an unexpected error."""
    if isinstance(error, UnicodeEncodeError) and cannot_encode(sys.stdout, error):
        return (
            f"the output's encoding, {sys.stdout.encoding}, has no {error.object[error.start]!a}: set "
            "PYTHONIOENCODING=utf-8, or use --output json, which needs ASCII only"
        )
    if isinstance(error, OSError):  # such as a full disk
        return str(error)
    detail = " ".join(str(error).split())
    return (
        f"internal error, {type(error).__name__}: {detail}. Please report it, with the output of the same command with "
        "--debug"
    )


def _usage_message(error: click.ClickException) -> str:
    """Return click's message in one line: the mistake, similar names, and the help command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption) and context is not None:
        return _no_option(error.option_name, context)
    message = " ".join(error.format_message().split()).rstrip(".")
    text = message[:1].lower() + message[1:]
    if context is None:
        return f"{text}; see hindex --help"
    if _takes_statement(context.command) and type(error) is click.UsageError:
        # the shell split the statement into several arguments
        text += "; a statement is one argument: put it into quotes"
    # click wraps a long usage
    usage = " ".join(context.get_usage().split())
    return f"{text}; {usage[:1].lower()}{usage[1:]}; see {context.command_path} --help"


def _no_option(name: str, context: click.Context) -> str:
    """Return the message for an unknown option."""
    hint = suggestion(name, _options(context), str)
    return f"{context.command_path} has no option {name}; {hint}{context.command_path} --help lists those there are"


def _options(context: click.Context) -> list[str]:
    """Return the names of a command's options, ``-h`` and ``--help`` among them."""
    return [name for item in context.command.get_params(context) for name in item.opts if name[:1] == "-"]


def _takes_statement(command: click.Command) -> bool:
    return any(item.name in ("statement", "select") and item.nargs == 1 for item in command.params)


if __name__ == "__main__":
    main()

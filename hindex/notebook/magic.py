"""Statements in notebooks: ``%load_ext hindex``, then ``%hindex`` for a line and ``%%hindex`` for a cell.

IPython passes its shell, so it is not imported.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hindex.api.query_result import QueryResult
from hindex.api.statement_table import StatementTable
from hindex.errors import HindexError, StatementError

if TYPE_CHECKING:
    from hindex.api.connection import Connection

#: Rows of a query that are shown.
SHOWN_ROWS = 1000

_USAGE = "%%hindex [--into NAME] [--store URI]"


class Shell(Protocol):
    """The part of IPython's shell that the magic needs."""

    user_ns: dict[str, Any]

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:  # noqa: ANN401
        """Register a function as a magic."""
        ...


def load_ipython_extension(shell: Shell) -> None:
    """Register the magic for ``%load_ext hindex``."""
    shell.register_magic_function(HindexMagic(shell).run, "line_cell", "hindex")


class HindexMagic:
    """The magic: runs statements on the connection ``hx`` of the notebook.

    Without ``hx``, it makes one, with the session ``spark`` if the notebook has it.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def run(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> object:
        """Run a line, or the statements of a cell; the last one's result is shown.

        On the first line of a cell, ``--into NAME`` assigns the result of ``hx.sql`` to a variable instead, and
        ``--store URI`` sets the store of the indexes. `hindex.notebook.statement_values.substitute` replaces
        ``{name}`` by the value of a variable.

        Args:
            local_ns: the local variables of the caller.

        Raises:
            HindexError: shown without its traceback; ``%tb`` shows that.
        """
        try:
            return self._run(line, cell, {**self._shell.user_ns, **(local_ns or {})})
        except HindexError as error:
            error._render_traceback_ = _ErrorMessage(error)  # type: ignore[attr-defined]
            raise

    # IPython's own substitution does not quote, works in lines only, and takes `[0-9]{3}` for the number 3
    run._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    run.needs_local_scope = True  # type: ignore[attr-defined]

    def _run(self, line: str, cell: str | None, variables: Mapping[str, Any]) -> object:
        from hindex.notebook.statement_values import substitute
        from hindex.sql import split
        from hindex.sql.help import HELP

        into, store = (None, None) if cell is None else _options(line, variables)
        statements = split(substitute(line if cell is None else cell, variables))
        if not statements:
            if cell is None and line.lstrip().startswith("--"):  # a comment
                raise StatementError(
                    f"there is no statement; options are those of a cell, {_USAGE}: of a line, name = %hindex SELECT "
                    "..."
                )
            raise StatementError(f"there is no statement: try {', '.join(HELP)}")
        connection = self._connection(store)
        result: object = None
        for number, statement in enumerate(statements, 1):
            try:
                result = connection.sql(statement)
            except HindexError as error:
                if len(statements) > 1:
                    error.add_note(f"in statement {number} of {len(statements)} of the cell")
                raise
        if into is not None:
            self._shell.user_ns[into] = result
            return None
        return _displayed(result)

    def _connection(self, store: str | None) -> Connection:
        from hindex.api.connection import Connection, connect
        from hindex.validation import is_session

        current = self._shell.user_ns.get("hx")
        if store is None and isinstance(current, Connection):
            return current
        session = self._shell.user_ns.get("spark")
        connection = connect(store, session if is_session(session) else None)
        self._shell.user_ns["hx"] = connection
        return connection


class _ErrorMessage:
    """Renders an error as its message instead of a traceback, once."""

    def __init__(self, error: HindexError) -> None:
        self._error = error

    def __call__(self) -> list[str]:
        """Return the lines to show."""
        del self._error._render_traceback_  # type: ignore[attr-defined]
        notes = getattr(self._error, "__notes__", [])
        return [f"{type(self._error).__name__}: {self._error}", *notes]


def _options(line: str, variables: Mapping[str, Any]) -> tuple[str | None, str | None]:
    from hindex.notebook.statement_values import substitute_text

    try:
        words = [substitute_text(word, variables) for word in shlex.split(line)]
    except ValueError as error:
        raise StatementError(f"expected {_USAGE}: {str(error).lower()} in {line!r}") from error
    options: dict[str, str] = {}
    while words:
        if words[0] not in ("--into", "--store") or len(words) < 2:
            raise StatementError(f"expected {_USAGE}, found {words[0]!r}; statements begin on the next line")
        options[words[0]] = words[1]
        words = words[2:]
    into = options.get("--into")
    if into is not None and not into.isidentifier():
        raise StatementError(f"expected the name of a variable after --into, found {into!r}")
    return into, options.get("--store")


def _displayed(result: object) -> object:
    """Return rows as a pandas DataFrame, of queries the first ones; other results unchanged."""
    if isinstance(result, QueryResult):
        result = result.head(SHOWN_ROWS)
    return result.to_pandas() if isinstance(result, pa.Table | StatementTable) else result

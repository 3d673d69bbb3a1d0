"""The statements by the words they begin with; `hindex.sql.index_grammar` has those of indexes.

To add one: write a function from the parser to a value of `hindex.sql.statements`, list it below, and
explain it in `hindex.sql.help`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hindex.sql import index_grammar as grammar
from hindex.sql.help import HELP
from hindex.sql.select_conversion import select
from hindex.sql.statements import DescribeTable, Explain, ShowColumns, Statement
from hindex.sql.words import NO_CHANGES, WITH_SPARK

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser


def statement(parser: HindexParser) -> Statement:
    """Parse the statement that begins at the current token."""
    for words, parse in STATEMENTS.items():
        if parser.accept(*words.split()):
            return parse(parser)
    if parser.at_end:
        parser.fail("expected a statement, found nothing")
    _refuse_query(parser)
    first = {words.split()[0]: words for words in STATEMENTS}
    word = parser.word()
    if word in first:
        second = list(dict.fromkeys(words.split()[1] for words in STATEMENTS if words.split()[0] == word))
        parser.accept(word)
        message = f"expected {' or '.join(second)} after {word}, found {parser.token_text()}"
        parser.fail(message + (parser.suggest(*second) or _write_hint(parser, word) or _hint(parser, word)))
    statements = ", ".join(HELP)
    if _is_write(parser):
        parser.fail(f"unknown statement {parser.token_text()}: {NO_CHANGES}")
    close = parser.closest(*first, *sorted(_WRITE_WORDS))
    if close in _WRITE_WORDS and parser.closest(close, cutoff=_WRITE_WORDS_CUTOFF):
        parser.fail(f"unknown statement {parser.token_text()}; did you mean {close}? But {NO_CHANGES}")
    if word in _OTHER_SPELLINGS and parser.following in ("INDEX", "INDEXES"):
        parser.fail(f"unknown statement {parser.token_text()}; {_OTHER_SPELLINGS[word]}")
    meant = f"; did you mean {close}?" if close in first else f"; hindex knows {statements}"
    return parser.fail(f"unknown statement {parser.token_text()}{meant}")


def _refuse_query(parser: HindexParser) -> None:
    """Refuse a query that does not begin with SELECT."""
    if parser.word() in _QUERY_WORDS:
        parser.alternative = WITH_SPARK
        parser.unsupported(f"a query that begins with {parser.word()}")


def _write_hint(parser: HindexParser, first: str) -> str:
    """Return a remark if the tokens begin a statement of Spark that changes tables."""
    changes = not parser.at_end if first == "UPDATE" else first in _CHANGING and parser.word() in _CHANGED
    return f": {NO_CHANGES}" if changes else ""


def _hint(parser: HindexParser, first: str) -> str:
    """Return the remedy for a statement of another database, by its first word."""
    if first == "SHOW" and parser.word() == "CREATE":
        return "; DESCRIBE TABLE table lists the columns of a table"
    if first == "CREATE" and parser.following == "INDEX":
        return "; the type follows the name: CREATE INDEX name USING bitmap ON table (column)"
    return ""


def _is_write(parser: HindexParser) -> bool:
    """Return True if a word comes next that begins a statement which changes tables."""
    return not _WRITE_WORDS.isdisjoint(parser.word().split()[:1])


def explain(parser: HindexParser) -> Explain:
    """Parse ``EXPLAIN [ANALYZE] SELECT ...``."""
    analyze = parser.accept("ANALYZE")
    if parser.accept("SELECT"):
        return Explain(select(parser), analyze)
    _refuse_query(parser)
    if parser.word() == "CREATE":
        parser.fail(
            "expected SELECT, found 'CREATE': CREATE INDEX ... DRY RUN estimates what would be read and written"
        )
    is_other = parser.at_end or _is_write(parser) or parser.word() in _FIRST_WORDS
    hint = ": only queries are explained" if is_other else parser.suggest("SELECT", "ANALYZE")
    return parser.fail(f"expected SELECT, found {parser.token_text()}{hint}")


def describe_table(parser: HindexParser) -> DescribeTable:
    """Parse the table of ``DESCRIBE [TABLE] table``."""
    misspelled = parser.suggest("INDEX", "TABLE") if parser.following not in ("", ".") else ""
    statement = DescribeTable(parser.table())
    if not parser.at_end:
        hint = misspelled or ": write DESCRIBE TABLE table, or DESCRIBE INDEX name ON table"
        parser.fail(f"unexpected {parser.token_text()}{hint}")
    return statement


def show_columns(parser: HindexParser) -> ShowColumns:
    """Parse the table of ``SHOW COLUMNS IN | FROM table``."""
    if not parser.accept_any("IN", "FROM"):
        parser.fail(f"expected IN, found {parser.token_text()}")
    return ShowColumns(parser.table())


STATEMENTS: dict[str, Callable[[HindexParser], Statement]] = {
    "CREATE INDEX": grammar.create_index,
    "SHOW INDEXES": grammar.show_indexes,
    "SHOW INDEX": grammar.show_indexes,
    "SHOW FORMATTED INDEXES": grammar.show_indexes,
    "SHOW FORMATTED INDEX": grammar.show_indexes,
    "DESCRIBE INDEX": grammar.describe_index,
    "DESC INDEX": grammar.describe_index,
    "DESCRIBE TABLE": describe_table,
    "DESC TABLE": describe_table,
    "DESCRIBE": describe_table,
    "DESC": describe_table,
    "SHOW COLUMNS": show_columns,
    "DROP INDEX": grammar.drop_index,
    "REFRESH INDEX": grammar.refresh_index,
    "REFRESH INDEXES": grammar.refresh_indexes,
    "UPDATE INDEX": grammar.refresh_index,
    "UPDATE INDEXES": grammar.refresh_indexes,
    "ADOPT INDEXES": grammar.adopt_indexes,
    "ADOPT INDEX": grammar.adopt_indexes,
    "ALTER INDEX": grammar.alter_index,
    "CHECK INDEXES": grammar.check_indexes,
    "CHECK INDEX": grammar.check_indexes,
    "VACUUM INDEXES": grammar.vacuum_indexes,
    "VACUUM INDEX": grammar.vacuum_indexes,
    "EXPLAIN": explain,
    "SELECT": select,
}
#: The spelling of statements that begin with another word in other databases.
_OTHER_SPELLINGS = {
    "REBUILD": "ALTER INDEX name ON table REBUILD rebuilds an index",
    "RENAME": "ALTER INDEX name ON table RENAME TO new_name renames it",
    "LIST": "SHOW INDEXES ON table lists them",
}
#: First words and signs of queries beside SELECT.
_QUERY_WORDS = ("WITH", "FROM", "VALUES", "TABLE", "(")
_FIRST_WORDS = frozenset(words.split()[0] for words in STATEMENTS)
#: First words of Spark statements that change tables or their rows; none is a misspelling of another.
_WRITE_WORDS = frozenset({"DELETE", "INSERT", "LOAD", "MERGE", "MSCK", "OPTIMIZE", "REPLACE", "TRUNCATE"})
#: How similar a misspelling must be: Spark has REPAIR beside REPLACE, and UNLOAD beside LOAD.
_WRITE_WORDS_CUTOFF = 0.81
#: First words of such statements if a word of the second list follows.
_CHANGING = frozenset({"ALTER", "CREATE", "DROP"})
_CHANGED = frozenset(
    {
        "CATALOG",
        "DATABASE",
        "EXTERNAL",
        "GLOBAL",
        "NAMESPACE",
        "OR",
        "SCHEMA",
        "TABLE",
        "TEMP",
        "TEMPORARY",
        "VIEW",
    }
)

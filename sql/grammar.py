"""The statements by the words they begin with; :mod:`hindex.sql.index_grammar` has those of indexes.

To add one: write a function from the parser to a value of :mod:`hindex.sql.statements`, list it below, and
explain it in :mod:`hindex.sql.help`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hindex.sql import index_grammar as grammar
from hindex.sql.help import HELP
from hindex.sql.select_grammar import select
from hindex.sql.statements import Explain, Statement
from hindex.sql.words import NO_CHANGES

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser


def statement(parser: HindexParser) -> Statement:
    """Parses the statement that begins at the current token."""
    for words, parse in STATEMENTS.items():
        if parser.accept(*words.split()):
            return parse(parser)
    if parser.at_end:
        parser.fail("expected a statement, found nothing")
    first = {words.split()[0]: words for words in STATEMENTS}
    word = parser.word()
    if word in first:
        second = list(dict.fromkeys(words.split()[1] for words in STATEMENTS if words.split()[0] == word))
        parser.accept(word)
        what = f"expected {' or '.join(second)} after {word}, found {parser.found()}"
        parser.fail(what + (parser.meant(*second) or _no_changes(parser, word) or _remedy(parser, word)))
    known = ", ".join(HELP)
    if _is_other(parser):
        parser.fail(f"unknown statement {parser.found()}: {NO_CHANGES}; it knows {known}")
    close = parser.closest(*first, *sorted(_OTHERS))
    if close in _OTHERS and parser.closest(close, cutoff=_OTHERS_CUTOFF):
        parser.fail(f"unknown statement {parser.found()}; did you mean {close}? {NO_CHANGES}")
    if word in _SAID_SO and parser.following in ("INDEX", "INDEXES"):
        parser.fail(f"unknown statement {parser.found()}; {_SAID_SO[word]}")
    meant = f"; did you mean {close}?" if close in first else f"; hindex knows {known}"
    return parser.fail(f"unknown statement {parser.found()}{meant}")


def _no_changes(parser: HindexParser, first: str) -> str:
    """A remark where a statement of Spark's goes on that changes tables."""
    changes = not parser.at_end if first == "UPDATE" else first in _CHANGING and parser.word() in _CHANGED
    return f": {NO_CHANGES}" if changes else ""


def _remedy(parser: HindexParser, first: str) -> str:
    """Return the remedy for a statement of another database, by its first word."""
    if first in ("DESCRIBE", "DESC") or (first == "SHOW" and parser.word() in ("COLUMNS", "CREATE")):
        return _OF_TABLES
    if first == "CREATE" and parser.following == "INDEX":
        return "; the type follows the name: CREATE INDEX name USING bitmap ON table (column)"
    return ""


def _is_other(parser: HindexParser) -> bool:
    """Return True if one of the words, or a pair of words in one or two tokens, comes next."""
    return not _OTHERS.isdisjoint(parser.word().split()[:1])


def explain(parser: HindexParser) -> Explain:
    """``EXPLAIN [ANALYZE] SELECT ...``."""
    analyze = parser.accept("ANALYZE")
    if parser.accept("SELECT"):
        return Explain(select(parser), analyze)
    if parser.word() == "CREATE":
        parser.fail(
            "expected SELECT, found 'CREATE': CREATE INDEX ... DRY RUN estimates what would be read and written"
        )
    is_other = parser.at_end or _is_other(parser) or parser.word() in _FIRST_WORDS
    hint = ": only queries are explained" if is_other else parser.meant("SELECT", "ANALYZE")
    return parser.fail(f"expected SELECT, found {parser.found()}{hint}")


STATEMENTS: dict[str, Callable[[HindexParser], Statement]] = {
    "CREATE INDEX": grammar.create_index,
    "SHOW INDEXES": grammar.show_indexes,
    "SHOW INDEX": grammar.show_indexes,
    "SHOW FORMATTED INDEXES": grammar.show_indexes,
    "SHOW FORMATTED INDEX": grammar.show_indexes,
    "DESCRIBE INDEX": grammar.describe_index,
    "DESC INDEX": grammar.describe_index,
    "DROP INDEX": grammar.drop_index,
    "REFRESH INDEX": grammar.refresh_index,
    "REFRESH INDEXES": grammar.refresh_indexes,
    "UPDATE INDEX": grammar.refresh_index,
    "UPDATE INDEXES": grammar.refresh_indexes,
    "ALTER INDEX": grammar.alter_index,
    "CHECK INDEXES": grammar.check_indexes,
    "CHECK INDEX": grammar.check_indexes,
    "VACUUM INDEXES": grammar.vacuum_indexes,
    "VACUUM INDEX": grammar.vacuum_indexes,
    "EXPLAIN": explain,
    "SELECT": select,
}
#: What helps who asks for the columns of a table.
_OF_TABLES = (
    "; SELECT * FROM table LIMIT 0 shows the columns of a table, "
    "and hx.table(...).schema in Python their types"
)
#: What is said for statements that have another first word elsewhere.
_SAID_SO = {
    "REBUILD": "ALTER INDEX name ON table REBUILD builds an index anew",
    "RENAME": "ALTER INDEX name ON table RENAME TO new_name gives it another name",
    "LIST": "SHOW INDEXES ON table lists them",
}
_FIRST_WORDS = frozenset(words.split()[0] for words in STATEMENTS)
#: Words that begin statements of Spark, which change tables or their rows: none is another one misspelt.
_OTHERS = frozenset({"DELETE", "INSERT", "LOAD", "MERGE", "MSCK", "OPTIMIZE", "REPLACE", "TRUNCATE"})
#: How alike one of them a word has to be: Spark has REPAIR beside REPLACE, and UNLOAD beside LOAD.
_OTHERS_CUTOFF = 0.81
#: Words that do so where one of the second list follows.
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

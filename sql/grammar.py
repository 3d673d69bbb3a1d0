"""The statements by the words they begin with, and SELECT; :mod:`hindex.sql.index_grammar` has those of indexes.

To add one: write a function from the parser to a value of :mod:`hindex.sql.statements`, list it below, and
explain it in :mod:`hindex.sql.help`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hindex.sql import index_grammar as grammar
from hindex.sql.help import HELP
from hindex.sql.predicate import ColumnRef
from hindex.sql.statements import Explain, Select, Statement

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser

SPARK_REMEDY = "hindex reads one table at a time here; use Spark on scan(...).to_spark() for the rest"

_ITEMS = "list columns, or * or COUNT(*) alone; use Spark on scan(...).to_spark() for the rest"

# Clauses of SELECT that are Spark's business, by the word they begin with.
_CLAUSES = {
    ",": "second table",
    "JOIN": "JOIN",
    "INNER": "JOIN",
    "LEFT": "JOIN",
    "RIGHT": "JOIN",
    "FULL": "JOIN",
    "CROSS": "JOIN",
    "NATURAL": "JOIN",
    "SEMI": "JOIN",
    "ANTI": "JOIN",
    "LATERAL": "LATERAL",
    "GROUP BY": "GROUP BY",
    "HAVING": "HAVING",
    "ORDER BY": "ORDER BY",
    "SORT BY": "SORT BY",
    "CLUSTER BY": "CLUSTER BY",
    "DISTRIBUTE BY": "DISTRIBUTE BY",
    "WINDOW": "WINDOW",
    "QUALIFY": "QUALIFY",
    "UNION": "UNION",
    "INTERSECT": "INTERSECT",
    "EXCEPT": "EXCEPT",
    "MINUS": "MINUS",
    "TABLESAMPLE": "TABLESAMPLE",
    "PIVOT": "PIVOT",
    "UNPIVOT": "UNPIVOT",
    "OFFSET": "OFFSET",
    "FOR": "FOR",
    "VERSION": "time travel",
}


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
        parser.fail(f"expected {' or '.join(second)}, found {parser.found()}{parser.meant(*second)}")
    close = parser.meant(*first)
    known = ", ".join(HELP)
    return parser.fail(f"unknown statement {parser.found()}{close or f'; hindex knows {known}'}")


def explain(parser: HindexParser) -> Explain:
    """``EXPLAIN SELECT ...``."""
    parser.expect("SELECT")
    return Explain(select(parser))


def select(parser: HindexParser) -> Select:
    """``SELECT columns | * | COUNT(*) FROM t [WHERE predicate] [LIMIT n]``."""
    columns, count = _select_items(parser)
    if not parser.accept("FROM"):
        parser.fail(f"expected , or FROM, found {parser.found()}{parser.meant('FROM')}")
    if parser.word() == "(":
        parser.unsupported(f"subquery in FROM; {SPARK_REMEDY}")
    table = parser.table()
    _no_alias(parser)
    where = parser.predicate() if parser.accept("WHERE") else None
    limit = _limit(parser) if parser.accept("LIMIT") else None
    _no_clause(parser)
    if limit is None:
        parser.end()
    return Select(table, columns, count, where, limit)


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


def _limit(parser: HindexParser) -> int | None:
    if parser.accept("ALL"):
        return None
    limit = parser.whole_number()
    if limit is None:
        parser.fail(f"expected a whole number after LIMIT, found {parser.found()}")
    return limit


def _select_items(parser: HindexParser) -> tuple[tuple[ColumnRef, ...] | None, bool]:
    """The columns, None for all of them, and whether it is COUNT(*)."""
    if parser.word() == "DISTINCT":
        parser.unsupported(f"DISTINCT; {SPARK_REMEDY}")
    start = parser.offset
    if parser.accept("COUNT", "(", "*", ")") or parser.accept("COUNT", "(", "1", ")"):
        _no_expression(parser, start)
        return None, True
    if parser.accept("*"):
        _no_expression(parser, start)
        return None, False
    columns: list[ColumnRef] = []
    while True:
        start = parser.offset
        if parser.word() in ("(", "*", "-", "CASE", "CAST") or parser.is_literal:
            parser.unsupported(f"select expression {parser.found()}; {_ITEMS}")
        columns.append(parser.column())
        if parser.accept(","):
            continue
        _no_expression(parser, start)
        return tuple(columns), False


def _no_expression(parser: HindexParser, start: int) -> None:
    """Refuses what would make a select item more than a column: an alias, a call, an operator."""
    word = parser.word()
    if word == "FROM" or parser.at_end or parser.meant("FROM"):
        return
    written = parser.text_from(start)
    if word == "AS" or parser.is_name:
        parser.unsupported(f"alias of '{written}'; {SPARK_REMEDY}")
    if word == ",":
        parser.unsupported(f"'{written}' beside other columns; {_ITEMS}")
    call = "(...)" if word == "(" else f" {word}"
    parser.unsupported(f"select expression '{written}{call}'; {_ITEMS}", start)


def _no_alias(parser: HindexParser) -> None:
    """Refuses an alias of the table, and clauses that would stand in its place."""
    if parser.word() in ("WHERE", "LIMIT") or parser.at_end or parser.meant("WHERE", "LIMIT"):
        return
    _no_clause(parser)
    if parser.word() == "AS" or parser.is_name:
        parser.unsupported(f"table alias {parser.found()}; {SPARK_REMEDY}")


def _no_clause(parser: HindexParser) -> None:
    clause = _CLAUSES.get(" ".join(parser.word().split()))
    if clause is not None:
        parser.unsupported(f"{clause}; {SPARK_REMEDY}")

"""The statements: one function each, listed by the words they begin with.

To add one: write a function from the parser to a value of :mod:`hindex.sql.statements` and list it below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hindex.sql.predicate import ColumnRef
from hindex.sql.statements import (
    CreateIndex,
    DropIndex,
    Explain,
    RefreshIndex,
    Select,
    ShowIndexes,
    Statement,
    TableRef,
)

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser

T = TypeVar("T")

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
        second = [words.split()[1] for words in STATEMENTS if words.split()[0] == word]
        parser.accept(word)
        parser.fail(f"expected {' or '.join(second)}, found {parser.found()}{parser.meant(*second)}")
    close = parser.meant(*first)
    known = ", ".join(dict.fromkeys(STATEMENTS))
    return parser.fail(f"unknown statement {parser.found()}{close or f'; hindex knows {known}'}")


def create_index(parser: HindexParser) -> CreateIndex:
    """``CREATE INDEX [IF NOT EXISTS] i USING type ON t (c, ...) [WITH (k = v, ...)] [WHERE predicate]``."""
    if_not_exists = _if(parser, "NOT", "EXISTS")
    name = parser.name("the index's name")
    parser.expect("USING")
    using = parser.name("an index type such as bitmap")
    parser.expect("ON")
    parser.accept("TABLE")
    table = parser.table()
    parser.expect("(")
    columns = _list(parser, parser.column)
    properties = _list(parser, lambda: _property(parser)) if parser.accept("WITH", "(") else ()
    where = parser.predicate() if parser.accept("WHERE") else None
    if not parser.at_end and where is None:
        options = ("WHERE",) if properties else ("WITH", "WHERE")
        if parser.accept("WITH"):
            parser.expect("(")
        parser.fail(f"unexpected {parser.found()}{parser.meant(*options)}")
    return CreateIndex(name, table, columns, using, if_not_exists, where, properties)


def show_indexes(parser: HindexParser) -> ShowIndexes:
    """``SHOW INDEX[ES] [i] [ON | FROM | IN t]``."""
    if parser.at_end:
        return ShowIndexes()
    name = None if parser.word() in ("ON", "FROM", "IN") else parser.name("an index's name or ON")
    return ShowIndexes(name, _on_table(parser, "ON", "FROM", "IN"))


def drop_index(parser: HindexParser) -> DropIndex:
    """``DROP INDEX [IF EXISTS] i [ON t]``."""
    if_exists = _if(parser, "EXISTS")
    return DropIndex(parser.name("the index's name"), _on_table(parser, "ON"), if_exists)


def refresh_index(parser: HindexParser) -> RefreshIndex:
    """``REFRESH INDEX i [ON t]``."""
    return RefreshIndex(parser.name("the index's name"), _on_table(parser, "ON"))


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
    "CREATE INDEX": create_index,
    "SHOW INDEXES": show_indexes,
    "SHOW INDEX": show_indexes,
    "DROP INDEX": drop_index,
    "REFRESH INDEX": refresh_index,
    "EXPLAIN": explain,
    "SELECT": select,
}


def _if(parser: HindexParser, *words: str) -> bool:
    """``IF [NOT] EXISTS``; an index that is named `if` is written in backquotes."""
    if not parser.accept("IF"):
        return False
    parser.expect(*words)
    return True


def _list(parser: HindexParser, item: Callable[[], T]) -> tuple[T, ...]:
    """Items separated by commas up to a closing parenthesis."""
    items = [item()]
    while not parser.accept(")"):
        if not parser.accept(","):
            parser.fail(f"expected , or ), found {parser.found()}")
        items.append(item())
    return tuple(items)


def _property(parser: HindexParser) -> tuple[str, str]:
    """``key = value``: both plain or quoted; a key may be dotted, a value may be a number."""
    key = parser.name("a property's name")
    while parser.accept("."):
        key += "." + parser.identifier("a property's name")
    parser.expect("=")
    quoted = parser.string()
    if quoted is not None:
        return key, quoted
    sign = "-" if parser.accept("-") else ""
    value = parser.number_text() or ("" if sign else parser.identifier("a property's value"))
    if not value:
        parser.fail(f"expected a number, found {parser.found()}")
    return key, sign + value


def _on_table(parser: HindexParser, *words: str) -> TableRef | None:
    if parser.at_end:
        return None
    if not parser.accept_any(*words):
        parser.fail(f"expected {words[0]}, found {parser.found()}{parser.meant(*words)}")
    parser.accept("TABLE")
    return parser.table()


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

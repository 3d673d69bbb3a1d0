"""The statements about indexes: one function each, from the parser to a value of `hindex.sql.statements`.

`hindex.sql.grammar.STATEMENTS` lists them by the words they begin with, which are consumed already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hindex.sql.predicate import ColumnRef, Comparison, ComparisonOp, Literal
from hindex.sql.statements import (
    AdoptIndexes,
    CheckIndexes,
    CreateIndex,
    DescribeIndex,
    DropIndex,
    RebuildIndex,
    RefreshIndex,
    RenameIndex,
    ShowIndexes,
    TableRef,
    VacuumIndexes,
)

if TYPE_CHECKING:
    from hindex.sql.dialect import HindexParser
    from hindex.sql.predicate import Predicate

T = TypeVar("T")

_NO_INDEX_TABLE = "leave it out: an index is files in the store, not a table (--store says where)"

# Clauses of Hive's CREATE INDEX that describe the table which an index is in Hive.
_HIVE_CLAUSES = {
    "IN TABLE": _NO_INDEX_TABLE,
    "PARTITIONED BY": "leave it out: an index follows the table's partitions, and WHERE chooses some of them",
    "ROW FORMAT": _NO_INDEX_TABLE,
    "STORED AS": _NO_INDEX_TABLE,
    "STORED BY": _NO_INDEX_TABLE,
    "LOCATION": _NO_INDEX_TABLE,
}


#: Words that may follow a table.
_AFTER_TABLE = ("VERIFY", "WHERE", "DRY", "PARTITION", "REBUILD", "RENAME")


def create_index(parser: HindexParser) -> CreateIndex:
    """Parse ``CREATE INDEX`` as openLooKeng, Spark or Hive writes it.

    The index type stands before ``ON`` (``USING type``), before the columns, or after them (Hive: ``AS 'type'``).
    """
    if_not_exists = _if(parser, "NOT", "EXISTS")
    name = parser.name("the index's name")
    using = _index_type(parser, "USING")
    parser.expect("ON" if using or parser.word() == "ON" else "USING")
    parser.accept("TABLE")
    table = parser.table()
    using = using or _index_type(parser, "USING")
    parser.expect("(")
    columns = parser.list_to_parenthesis(parser.column_or_value)
    using = using or _index_type(parser, "USING", "AS") or "bitmap"
    properties: tuple[tuple[str, str], ...] = ()
    index_properties: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    where: Predicate | None = None
    deferred = dry_run = False
    include: tuple[ColumnRef, ...] = ()
    clauses = ["INCLUDE", "WITH", "DEFERRED", "IDXPROPERTIES", "TBLPROPERTIES", "COMMENT", "WHERE", "DRY"]

    def begins(*words: str, says: str = "") -> bool:
        says = says or words[0]
        start = parser.offset
        if not parser.accept(*words):
            return False
        if says not in clauses:
            parser.fail(f"{' '.join(words).removesuffix(' (')} is given twice", start)
        clauses.remove(says)
        return True

    while not parser.at_end:
        if begins("WITH", "DEFERRED", "REBUILD", says="DEFERRED"):
            deferred = True
        elif begins("INCLUDE", "("):
            include = parser.list_to_parenthesis(lambda: _included(parser))
        elif begins("WITH", "("):
            properties = parser.list_to_parenthesis(lambda: _property(parser))
        elif begins("IDXPROPERTIES", "("):
            index_properties = parser.list_to_parenthesis(lambda: _property(parser))
        elif begins("TBLPROPERTIES", "("):
            annotations = parser.list_to_parenthesis(lambda: _property(parser))
        elif begins("COMMENT"):
            comment = parser.string()
            if comment is None:
                parser.fail(f"expected a quoted string after COMMENT, found {parser.token_text()}")
        elif begins("WHERE"):
            where = parser.predicate()
        elif begins("DRY", "RUN", says="DRY"):
            dry_run = True
        else:
            _refuse(parser, clauses, is_after_condition=where is not None)
    return CreateIndex(
        name,
        table,
        columns,
        using,
        if_not_exists,
        where,
        properties,
        annotations,
        comment,
        deferred,
        dry_run,
        index_properties,
        include,
    )


def _index_type(parser: HindexParser, *keywords: str) -> str:
    return parser.name("an index type such as bitmap") if parser.accept_any(*keywords) else ""


def _included(parser: HindexParser) -> ColumnRef:
    start = parser.offset
    column = parser.column_or_value()
    if isinstance(column, ColumnRef):
        return column
    return parser.fail(f"expected a column in INCLUDE, found '{parser.text_from(start)}'", start)


def _refuse(parser: HindexParser, clauses: list[str], *, is_after_condition: bool) -> None:
    """Refuse a token that begins no clause of CREATE INDEX."""
    for clause, remedy in _HIVE_CLAUSES.items():
        start = parser.offset
        if " ".join(parser.word().split()) == clause or parser.accept(*clause.split()):
            parser.unsupported(clause, start, remedy)
    for word in ("INCLUDE", "WITH", "IDXPROPERTIES", "TBLPROPERTIES"):
        if parser.accept(word):
            parser.expect("(")
    if parser.accept("DRY"):
        parser.expect("RUN")
    parser.fail(f"unexpected {parser.token_text()}{'' if is_after_condition else parser.suggest(*clauses)}")


def show_indexes(parser: HindexParser) -> ShowIndexes:
    """Parse ``SHOW [FORMATTED] INDEX[ES] [i] [ON | FROM | IN t]`` and ``... [FROM | IN] DATABASE d``."""
    if parser.at_end:
        return ShowIndexes()
    name = None if parser.word() in ("ON", "FROM", "IN") else parser.name("an index's name or ON")
    return ShowIndexes(name, _only_table(parser, "ON", "FROM", "IN"))


def describe_index(parser: HindexParser) -> DescribeIndex:
    """Parse ``DESCRIBE INDEX i [ON t]``."""
    return DescribeIndex(parser.name("the index's name"), _only_table(parser, "ON"))


def drop_index(parser: HindexParser) -> DropIndex:
    """Parse ``DROP INDEX [IF EXISTS] i [ON t] [WHERE predicate]``."""
    if_exists = _if(parser, "EXISTS")
    name = parser.name("the index's name")
    table, where = _on_table(parser, "WHERE"), _where(parser)
    return DropIndex(name, table, if_exists, where)


def refresh_index(parser: HindexParser) -> RefreshIndex:
    """Parse ``REFRESH INDEX i [ON t] [WHERE predicate] [DRY RUN]``."""
    name = parser.name("the index's name")
    table, where = _on_table(parser, "WHERE", "DRY"), _where(parser)
    return RefreshIndex(name, table, where, _dry_run(parser))


def refresh_indexes(parser: HindexParser) -> RefreshIndex:
    """Parse ``REFRESH INDEXES ON t [WHERE predicate] [DRY RUN]`` and ``REFRESH INDEXES IN [DATABASE] d [DRY RUN]``."""
    if parser.accept("IN"):
        return RefreshIndex(None, _database(parser), dry_run=_dry_run(parser))
    if parser.word() != "ON":
        parser.fail(
            f"expected ON table or IN database, found {parser.token_text()}{parser.suggest('ON', 'IN')}"
        )
    return RefreshIndex(None, _required_table(parser), _where(parser), _dry_run(parser))


def adopt_indexes(parser: HindexParser) -> AdoptIndexes:
    """Parse ``ADOPT INDEXES ON t [DRY RUN]``."""
    return AdoptIndexes(_required_table(parser), _dry_run(parser))


def alter_index(parser: HindexParser) -> RebuildIndex | RenameIndex:
    """Parse ``ALTER INDEX i [ON t] [PARTITION (p = v, ...)] REBUILD`` and ``ALTER INDEX i [ON t] RENAME TO j``."""
    name = parser.name("the index's name")
    table = _on_table(parser, "PARTITION", "REBUILD", "RENAME")
    if parser.accept("RENAME"):
        parser.expect("TO")
        return RenameIndex(name, parser.name("the new name"), table)
    partition: tuple[Comparison, ...] = ()
    if parser.accept("PARTITION"):
        parser.expect("(")
        partition = parser.list_to_parenthesis(lambda: _partition_value(parser))
    if not parser.accept("REBUILD"):
        words = ("REBUILD",) if partition else ("PARTITION", "REBUILD", "RENAME")
        expected = " or ".join(words).replace(" or ", ", ", len(words) - 2)
        parser.fail(f"expected {expected}, found {parser.token_text()}{parser.suggest(*words)}")
    return RebuildIndex(name, table, partition)


def check_indexes(parser: HindexParser) -> CheckIndexes:
    """Parse ``CHECK INDEX[ES] [i] [ON t | IN [DATABASE] d] [VERIFY]``."""
    named = not parser.at_end and parser.word() not in ("ON", "IN", "VERIFY")
    name = parser.name("an index's name or ON") if named else None
    table = _database(parser) if parser.accept("IN") else _on_table(parser, "VERIFY")
    return CheckIndexes(name, table, parser.accept("VERIFY"))


def vacuum_indexes(parser: HindexParser) -> VacuumIndexes:
    """Parse ``VACUUM INDEXES ON t [RETAIN n HOURS] [DRY RUN]``."""
    table = _required_table(parser)
    hours: int | None = None
    if parser.accept("RETAIN"):
        hours = parser.whole_number()
        if hours is None:
            parser.fail(f"expected a whole number of hours after RETAIN, found {parser.token_text()}")
        if not parser.accept_any("HOURS", "HOUR"):
            parser.expect("HOURS")
    return VacuumIndexes(table, hours, _dry_run(parser))


def _if(parser: HindexParser, *words: str) -> bool:
    """Parse ``IF [NOT] EXISTS``; an index that is named `if` needs backquotes."""
    if not parser.accept("IF"):
        return False
    parser.expect(*words)
    return True


def _property(parser: HindexParser) -> tuple[str, str]:
    """Parse ``key = value``: both plain or quoted; a key may be dotted, a value may be a number."""
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
        parser.fail(f"expected a number, found {parser.token_text()}")
    return key, sign + value


def _partition_value(parser: HindexParser) -> Comparison:
    start = parser.offset
    match parser.predicate():
        case Comparison(ComparisonOp.EQ, ColumnRef(), Literal()) as value:
            return value
    return parser.fail(f"expected column = value in PARTITION, found '{parser.text_from(start)}'", start)


def _only_table(parser: HindexParser, *words: str) -> TableRef | None:
    """Parse a table, or DATABASE and a database, after one of some words, unless the statement ends."""
    if parser.at_end:
        return None
    if not parser.accept_any(*words):
        parser.fail(f"expected {words[0]}, found {parser.token_text()}{parser.suggest(*words)}")
    parser.accept("TABLE")
    table = parser.table()
    is_word = table.text.upper() in ("DATABASE", "SCHEMA") and not parser.at_end
    return _database(parser) if is_word and parser.word() not in _AFTER_TABLE else table


def _database(parser: HindexParser) -> TableRef:
    """Parse a database, with or without the word DATABASE or SCHEMA before it."""
    if parser.following:
        parser.accept_any("DATABASE", "SCHEMA")
    start = parser.offset
    database = parser.table()
    if not database.parts:
        parser.fail("expected the name of a database; a table by path follows ON", start)
    return TableRef.database(*database.parts)


def _on_table(parser: HindexParser, *clauses: str) -> TableRef | None:
    """Parse ``ON t``, unless one of the clauses after it comes next."""
    return None if parser.word() in clauses else _only_table(parser, "ON")


def _required_table(parser: HindexParser) -> TableRef:
    parser.expect("ON")
    parser.accept("TABLE")
    return parser.table()


def _where(parser: HindexParser) -> Predicate | None:
    return parser.predicate() if parser.accept("WHERE") else None


def _dry_run(parser: HindexParser) -> bool:
    if not parser.accept("DRY"):
        return False
    parser.expect("RUN")
    return True

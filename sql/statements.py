"""Typed statements: what `hindex.sql.parse` returns; ``str()`` gives SQL that parses back."""

from __future__ import annotations

import enum
from typing import TypeAlias

from hindex.sql.predicate import ColumnRef, Comparison, Expression, Predicate, quote_name, quote_string
from hindex.value_class import value_class

#: Formats of Spark's, beside ORC, whose files are a table by their path.
_OTHER_FORMATS = frozenset(
    {"PARQUET", "CSV", "JSON", "TEXT", "AVRO", "XML", "BINARYFILE", "DELTA", "ICEBERG", "HUDI"}
)


class TableRefKind(enum.Enum):
    """The syntax of a table name."""

    PATH = "path"
    NAME = "name"
    DATABASE = "database"


@value_class
class TableRef:
    """A table: PATH has the path or URI in ``text``; NAME has (catalog, database,) table in ``parts``.

    DATABASE stands for all tables of a database that have indexes, with (catalog,) database in ``parts``. ``text`` is
    the parts joined by dots, for messages.
    """

    kind: TableRefKind
    text: str
    parts: tuple[str, ...] = ()

    @classmethod
    def path(cls, text: str) -> TableRef:
        return cls(TableRefKind.PATH, text)

    @classmethod
    def name(cls, *parts: str) -> TableRef:
        return cls(TableRefKind.NAME, ".".join(parts), parts)

    @classmethod
    def database(cls, *parts: str) -> TableRef:
        return cls(TableRefKind.DATABASE, ".".join(parts), parts)

    @property
    def other_format(self) -> str:
        """The format of files that Spark reads by such a name, ``parquet.`path```; "" for any other name."""
        is_format = len(self.parts) == 2 and self.parts[0].upper() in _OTHER_FORMATS
        return self.parts[0].lower() if is_format else ""

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        """The names that may stand before its columns, the longest first: none for a path."""
        return tuple(self.parts[at:] for at in range(len(self.parts)))

    def __str__(self) -> str:
        if self.kind is TableRefKind.PATH:
            return quote_string(self.text)
        return ".".join(map(quote_name, self.parts))


@value_class
class CreateIndex:
    """``CREATE INDEX``, in the spelling of openLooKeng (``USING``) or of Hive (``AS``).

    ``using`` is the index type as written, ``include`` are the columns to store in a ROWS index beside it; keys and
    values of ``properties`` (``WITH``), ``index_properties`` (``IDXPROPERTIES``) and ``annotations``
    (``TBLPROPERTIES``) are the strings as written, in order.
    """

    name: str
    table: TableRef
    columns: tuple[Expression, ...]
    using: str
    if_not_exists: bool = False
    where: Predicate | None = None
    properties: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    deferred: bool = False
    dry_run: bool = False
    index_properties: tuple[tuple[str, str], ...] = ()
    include: tuple[ColumnRef, ...] = ()

    def __str__(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        columns = ", ".join(map(str, self.columns))
        text = f"CREATE INDEX {exists}{quote_name(self.name)} USING {quote_name(self.using)}"
        text += f" ON {self.table} ({columns})"
        text += f" INCLUDE ({', '.join(map(str, self.include))})" if self.include else ""
        text += " WITH DEFERRED REBUILD" if self.deferred else ""
        text += f" WITH ({_pairs(self.properties)})" if self.properties else ""
        text += f" IDXPROPERTIES ({_pairs(self.index_properties)})" if self.index_properties else ""
        text += f" TBLPROPERTIES ({_pairs(self.annotations)})" if self.annotations else ""
        text += "" if self.comment is None else f" COMMENT {quote_string(self.comment)}"
        return text + _where(self.where) + _dry_run(self.dry_run)


@value_class
class ShowIndexes:
    """``SHOW INDEXES [name] [ON table | IN database]``: all that are not narrowed."""

    name: str | None = None
    table: TableRef | None = None

    def __str__(self) -> str:
        name = "" if self.name is None else f" {quote_name(self.name)}"
        return f"SHOW INDEXES{name}{_on(self.table)}"


@value_class
class DescribeIndex:
    """``DESCRIBE INDEX name [ON table]``."""

    name: str
    table: TableRef | None = None

    def __str__(self) -> str:
        return f"DESCRIBE INDEX {quote_name(self.name)}{_on(self.table)}"


@value_class
class DropIndex:
    """``DROP INDEX [IF EXISTS] name [ON table] [WHERE where]``: all of it, or some partitions."""

    name: str
    table: TableRef | None = None
    if_exists: bool = False
    where: Predicate | None = None

    def __str__(self) -> str:
        exists = "IF EXISTS " if self.if_exists else ""
        return f"DROP INDEX {exists}{quote_name(self.name)}{_on(self.table)}{_where(self.where)}"


@value_class
class RefreshIndex:
    """``REFRESH INDEX name [ON table] [WHERE where] [DRY RUN]``.

    Without a name, it is about all indexes of the table, or of the database.
    """

    name: str | None
    table: TableRef | None = None
    where: Predicate | None = None
    dry_run: bool = False

    def __str__(self) -> str:
        subject = "INDEXES" if self.name is None else f"INDEX {quote_name(self.name)}"
        return f"REFRESH {subject}{_on(self.table)}{_where(self.where)}{_dry_run(self.dry_run)}"


@value_class
class AdoptIndexes:
    """``ADOPT INDEXES ON table [DRY RUN]``."""

    table: TableRef
    dry_run: bool = False

    def __str__(self) -> str:
        return f"ADOPT INDEXES{_on(self.table)}{_dry_run(self.dry_run)}"


@value_class
class RebuildIndex:
    """``ALTER INDEX name [ON table] [PARTITION (column = value, ...)] REBUILD``."""

    name: str
    table: TableRef | None = None
    partition: tuple[Comparison, ...] = ()

    def __str__(self) -> str:
        values = ", ".join(map(str, self.partition))
        partition = f" PARTITION ({values})" if values else ""
        return f"ALTER INDEX {quote_name(self.name)}{_on(self.table)}{partition} REBUILD"


@value_class
class RenameIndex:
    """``ALTER INDEX name [ON table] RENAME TO new_name``."""

    name: str
    new_name: str
    table: TableRef | None = None

    def __str__(self) -> str:
        return f"ALTER INDEX {quote_name(self.name)}{_on(self.table)} RENAME TO {quote_name(self.new_name)}"


@value_class
class CheckIndexes:
    """``CHECK INDEXES [name] [ON table | IN database] [VERIFY]``: all that are not narrowed."""

    name: str | None = None
    table: TableRef | None = None
    verify: bool = False

    def __str__(self) -> str:
        name = "" if self.name is None else f" {quote_name(self.name)}"
        return f"CHECK INDEXES{name}{_on(self.table)}{' VERIFY' if self.verify else ''}"


@value_class
class VacuumIndexes:
    """``VACUUM INDEXES ON table [RETAIN n HOURS] [DRY RUN]``."""

    table: TableRef
    retain_hours: int | None = None
    dry_run: bool = False

    def __str__(self) -> str:
        retain = "" if self.retain_hours is None else f" RETAIN {self.retain_hours} HOURS"
        return f"VACUUM INDEXES{_on(self.table)}{retain}{_dry_run(self.dry_run)}"


class AggregateFunction(enum.Enum):
    """The value is how SQL spells it, in lower case."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"
    COUNT_DISTINCT = "count_distinct"


#: Those whose result is how many there are.
COUNTS = (AggregateFunction.COUNT, AggregateFunction.COUNT_DISTINCT)


@value_class
class AggregateCall:
    """``COUNT(*)``, where ``column`` is None, ``COUNT | MIN | MAX (column)``, or ``COUNT(DISTINCT column)``."""

    function: AggregateFunction
    column: ColumnRef | None = None

    @property
    def name(self) -> str:
        """Return Spark's name for a result column without an alias."""
        column = "1" if self.column is None else self.column.name
        if self.function is AggregateFunction.COUNT_DISTINCT:
            return f"count(DISTINCT {column})"
        return f"{self.function.value}({column})"

    def __str__(self) -> str:
        if self.function is AggregateFunction.COUNT_DISTINCT:
            return f"COUNT(DISTINCT {self.column})"
        return f"{self.function.name}({'*' if self.column is None else self.column})"


@value_class
class AggregateRef(ColumnRef):
    """An aggregate in a condition of groups: the column of groups that holds it, called as it is written."""

    call: AggregateCall

    def __str__(self) -> str:
        return str(self.call)


@value_class
class Having:
    """A HAVING condition; it refers to its aggregates, ``calls``, by `AggregateRef`."""

    predicate: Predicate
    calls: tuple[AggregateCall, ...] = ()

    def __str__(self) -> str:
        return str(self.predicate)


def is_same_column(a: ColumnRef, b: ColumnRef) -> bool:
    """Return True if two names are equal, ignoring case."""
    return [part.lower() for part in a.parts] == [part.lower() for part in b.parts]


def is_same_value(a: ColumnRef | AggregateCall, b: ColumnRef | AggregateCall) -> bool:
    """Return True if two selected items are equal, ignoring case."""
    if isinstance(a, AggregateCall) and isinstance(b, AggregateCall):
        if a.column is None or b.column is None:
            return a == b
        return a.function is b.function and is_same_column(a.column, b.column)
    return isinstance(a, ColumnRef) and isinstance(b, ColumnRef) and is_same_column(a, b)


@value_class
class SelectItem:
    """A column or an aggregate, and its alias, if it has one."""

    value: ColumnRef | AggregateCall
    alias: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the result column as Spark does: the alias, or the text; a field without its struct."""
        if self.alias is not None:
            return self.alias
        return self.value.parts[-1] if isinstance(self.value, ColumnRef) else self.value.name

    @property
    def output_name(self) -> str:
        """Return the name that later clauses may use, in lower case."""
        return self.name.lower()

    def __str__(self) -> str:
        return f"{self.value}" if self.alias is None else f"{self.value} AS {quote_name(self.alias)}"


@value_class
class SortItem:
    """An order of rows by one value; ``nulls_first`` is None for the default of the direction."""

    value: ColumnRef | AggregateCall
    descending: bool = False
    nulls_first: bool | None = None

    def __str__(self) -> str:
        nulls = "" if self.nulls_first is None else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.value}{' DESC' if self.descending else ''}{nulls}"


@value_class
class Select:
    """A SELECT of one table.

    ``SELECT [DISTINCT] items FROM table [WHERE ...] [GROUP BY ...] [HAVING ...] [ORDER BY ...] [LIMIT limit] [OFFSET
    offset]``. ``items`` is None for ``*``. ``SELECT DISTINCT c, d`` is the same as ``SELECT c, d ... GROUP BY c, d``,
    and is given so.
    """

    table: TableRef
    items: tuple[SelectItem, ...] | None = None
    where: Predicate | None = None
    groups: tuple[ColumnRef, ...] = ()
    orders: tuple[SortItem, ...] = ()
    limit: int | None = None
    having: Having | None = None
    offset: int = 0

    @property
    def is_aggregate(self) -> bool:
        """Return True if the result is aggregated."""
        items = self.items or ()
        return bool(self.groups) or any(isinstance(item.value, AggregateCall) for item in items)

    def __str__(self) -> str:
        items = "*" if self.items is None else ", ".join(map(str, self.items))
        group = f" GROUP BY {', '.join(map(str, self.groups))}" if self.groups else ""
        group += "" if self.having is None else f" HAVING {self.having}"
        order = f" ORDER BY {', '.join(map(str, self.orders))}" if self.orders else ""
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        limit += f" OFFSET {self.offset}" if self.offset else ""
        return f"SELECT {items} FROM {self.table}{_where(self.where)}{group}{order}{limit}"


@value_class
class SelectExists:
    """``SELECT EXISTS(select) [AS alias]``: whether there is any row of a table; the rows are not aggregated."""

    rows: Select
    alias: str | None = None

    @property
    def table(self) -> TableRef:
        return self.rows.table

    def __str__(self) -> str:
        alias = "" if self.alias is None else f" AS {quote_name(self.alias)}"
        return f"SELECT EXISTS({self.rows}){alias}"


@value_class
class Explain:
    """``EXPLAIN [ANALYZE] SELECT ...``."""

    statement: Select | SelectExists
    analyze: bool = False

    def __str__(self) -> str:
        return f"EXPLAIN {'ANALYZE ' if self.analyze else ''}{self.statement}"


@value_class
class DescribeTable:
    """``DESCRIBE [TABLE] table``."""

    table: TableRef

    def __str__(self) -> str:
        return f"DESCRIBE TABLE {self.table}"


@value_class
class ShowColumns:
    """``SHOW COLUMNS IN table``."""

    table: TableRef

    def __str__(self) -> str:
        return f"SHOW COLUMNS IN {self.table}"


IndexStatement: TypeAlias = (
    CreateIndex
    | ShowIndexes
    | DescribeIndex
    | DropIndex
    | RefreshIndex
    | AdoptIndexes
    | RebuildIndex
    | RenameIndex
    | CheckIndexes
    | VacuumIndexes
)
Statement: TypeAlias = IndexStatement | DescribeTable | ShowColumns | Select | SelectExists | Explain


def _on(table: TableRef | None) -> str:
    if table is None:
        return ""
    return f" IN DATABASE {table}" if table.kind is TableRefKind.DATABASE else f" ON {table}"


def _where(where: Predicate | None) -> str:
    return "" if where is None else f" WHERE {where}"


def _dry_run(dry_run: bool) -> str:
    return " DRY RUN" if dry_run else ""


def _pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{quote_string(key)} = {quote_string(value)}" for key, value in pairs)

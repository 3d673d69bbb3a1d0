"""Typed statements: what :func:`hindex.sql.parse` returns; ``str()`` gives SQL that parses back."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hindex.sql.predicate import ColumnRef, Predicate, quote_name, quote_string


class TableRefKind(enum.Enum):
    """How a table was named."""

    PATH = "path"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table: PATH has the path or URI in ``text``; NAME has (catalog, database,) table in ``parts``.

    ``text`` of a NAME is the parts joined by dots, for messages.
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

    def __str__(self) -> str:
        if self.kind is TableRefKind.PATH:
            return quote_string(self.text)
        return ".".join(map(quote_name, self.parts))


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """``CREATE INDEX [IF NOT EXISTS] name USING using ON table (columns) [WITH (properties)] [WHERE where]``.

    ``using`` is the index type as written; property keys and values are the strings as written, in order.
    """

    name: str
    table: TableRef
    columns: tuple[ColumnRef, ...]
    using: str
    if_not_exists: bool = False
    where: Predicate | None = None
    properties: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        columns = ", ".join(map(str, self.columns))
        text = f"CREATE INDEX {exists}{quote_name(self.name)} USING {quote_name(self.using)}"
        text += f" ON {self.table} ({columns})"
        if self.properties:
            pairs = ", ".join(
                f"{quote_string(key)} = {quote_string(value)}" for key, value in self.properties
            )
            text += f" WITH ({pairs})"
        return text if self.where is None else f"{text} WHERE {self.where}"


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """``SHOW INDEXES [name] [ON table]``: all that are not narrowed."""

    name: str | None = None
    table: TableRef | None = None

    def __str__(self) -> str:
        name = "" if self.name is None else f" {quote_name(self.name)}"
        return f"SHOW INDEXES{name}{_on(self.table)}"


@dataclass(frozen=True, slots=True)
class DropIndex:
    """``DROP INDEX [IF EXISTS] name [ON table]``."""

    name: str
    table: TableRef | None = None
    if_exists: bool = False

    def __str__(self) -> str:
        exists = "IF EXISTS " if self.if_exists else ""
        return f"DROP INDEX {exists}{quote_name(self.name)}{_on(self.table)}"


@dataclass(frozen=True, slots=True)
class RefreshIndex:
    """``REFRESH INDEX name [ON table]``."""

    name: str
    table: TableRef | None = None

    def __str__(self) -> str:
        return f"REFRESH INDEX {quote_name(self.name)}{_on(self.table)}"


@dataclass(frozen=True, slots=True)
class Select:
    """``SELECT columns | * | COUNT(*) FROM table [WHERE where] [LIMIT limit]``.

    ``columns`` is None for ``*`` and for ``COUNT(*)``; ``count`` tells them apart.
    """

    table: TableRef
    columns: tuple[ColumnRef, ...] | None = None
    count: bool = False
    where: Predicate | None = None
    limit: int | None = None

    def __str__(self) -> str:
        items = (
            "COUNT(*)" if self.count else "*" if self.columns is None else ", ".join(map(str, self.columns))
        )
        where = "" if self.where is None else f" WHERE {self.where}"
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        return f"SELECT {items} FROM {self.table}{where}{limit}"


@dataclass(frozen=True, slots=True)
class Explain:
    """``EXPLAIN SELECT ...``."""

    statement: Select

    def __str__(self) -> str:
        return f"EXPLAIN {self.statement}"


Statement = CreateIndex | ShowIndexes | DropIndex | RefreshIndex | Select | Explain


def _on(table: TableRef | None) -> str:
    return "" if table is None else f" ON {table}"

"""Queries that a table gets, read from SQL, from hindex's log, and from Spark's event logs.

Source: Apache Spark, "Monitoring and Instrumentation" (event logs); ``toString`` of ``org.apache.spark.sql.sources``.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from hindex.errors import HindexError
from hindex.formatting import counted
from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind
from hindex.sql.predicate import (
    ColumnRef,
    ComparisonOp,
    In,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    all_of,
    any_of,
    compare,
    is_null,
    quote_name,
)
from hindex.sql.statements import TableRef, TableRefKind
from hindex.table.location import normalize_uri
from hindex.table.schema import TableSchema
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

_QUERY = re.compile(r"\s*(?:EXPLAIN\s+(?:ANALYZE\s+)?)?(?:\(\s*)*(?:SELECT|WITH|FROM)\b", re.IGNORECASE)
_COUNT = re.compile(
    r"\s*SELECT\s+count\s*\(\s*(?:\*|1)\s*\)(?:\s+AS\s+\w+)?\s+FROM\b(?!.*\bGROUP\s+BY\b)",
    re.IGNORECASE | re.DOTALL,
)
#: The end of the query in a line of hindex's log, and the query, behind what the program's handler writes before it.
_LOG_RESULT = re.compile(r": [\d,]+ of [\d,]+ files?\b")
_LOG_QUERY = re.compile(
    r"SELECT (?P<columns>.+?) FROM (?P<table>.+?)(?: WHERE (?P<where>.+?))??"
    r"(?: GROUP BY .+?)?(?: ORDER BY .+?)?(?: LIMIT \d+)?$"
)
#: What an accelerated session logs of a plan: how its tables are read, and a query for each with conditions.
_LOG_PLAN = re.compile(r"\baccelerated: (?P<tables>.*?) \| (?P<queries>SELECT .*)$")
_PLAN_INDEXES = re.compile(r" through ([^;|]+)")
#: Longest beginning of a log line: the log cuts queries.
_MAX_LOG_QUERY = 1000
_THROUGH = re.compile(r" through ((?:.+? \([A-Z]+\)(?:, )?)+)")
_INDEX = re.compile(r"(?:^|, )(.+?) \([A-Z]+\)")
_SQL_START = "SparkListenerSQLExecutionStart"
_PATHS = re.compile(r"\[(.*)\]$")

_COMPARISONS = {
    "EqualTo": ComparisonOp.EQ,
    "EqualNullSafe": ComparisonOp.NULL_SAFE_EQ,
    "GreaterThan": ComparisonOp.GT,
    "GreaterThanOrEqual": ComparisonOp.GE,
    "LessThan": ComparisonOp.LT,
    "LessThanOrEqual": ComparisonOp.LE,
}


@value_class
class WorkloadQuery:
    """The condition of a query on the rows of one table.

    Attributes:
        is_count: True if it only counts the rows.
        columns: the columns whose values it returns or computes with; None where the workload does not say.
    """

    predicate: Predicate
    is_count: bool = False
    columns: tuple[str, ...] | None = None


@dataclass(slots=True)
class Workload:
    """The queries of one table.

    Attributes:
        ignored: queries that say nothing of the table's indexes, by the reason.
        used_indexes: names of indexes that answered queries, as hindex's log has it; None without such a log.
    """

    queries: list[WorkloadQuery] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    used_indexes: set[str] | None = None

    def ignore(self, reason: str) -> None:
        self.ignored[reason] = self.ignored.get(reason, 0) + 1


@value_class
class WorkloadTable:
    """The table that a workload is read for.

    Attributes:
        names: what queries may call it, beside its path, in lower case.
    """

    uri: str
    names: frozenset[str]
    schema: TableSchema

    @classmethod
    def of(cls, name: str, uri: str, schema: TableSchema, alias: str | None = None) -> WorkloadTable:
        """Make the table of a name and a URI.

        Args:
            alias: another name that queries call it.
        """
        last = uri.rstrip("/").rpartition("/")[2]
        names = {name, name.rpartition(".")[2], last, *([] if alias is None else [alias])}
        return cls(uri, frozenset(item.lower() for item in names), schema)

    def is_named(self, ref: TableRef) -> bool:
        """Return True if a query's table is this one."""
        if ref.kind is TableRefKind.PATH:
            return self.is_at(ref.text)
        return ".".join(ref.parts).lower() in self.names or ref.parts[-1].lower() in self.names

    def is_at(self, path: str) -> bool:
        """Return True if a path or URI is the table's."""
        try:
            return normalize_uri(path) == self.uri
        except HindexError:
            return False


def read_workload(text: str, table: WorkloadTable) -> Workload:
    """Read the queries of a table from a file: SQL, hindex's log, or an event log of Spark.

    SQL statements end with ``;``, have blank lines between them, or stand one on a line; a line may be a condition.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        return _read_events(lines, table)
    if any(_log_query(line) or _LOG_PLAN.search(line) for line in lines):
        return _read_log(lines, table)
    if any(";" in line for line in lines if not line.startswith("--")):
        from hindex.sql import split

        return read_statements(split(text), table)
    return read_statements(_lines_of_statements(text), table)


def _lines_of_statements(text: str) -> Iterator[str]:
    """Yield the statements of a text: the lines between blanks and comments if they are one query, or each line."""
    block: list[str] = []
    for line in (*text.splitlines(), ""):
        if line.strip() and not line.startswith("--"):
            block.append(line)
            continue
        together = "\n".join(block)
        yield from [together] if len(block) > 1 and _is_query(together) else block
        block = []


def _is_query(text: str) -> bool:
    """Return True if a text is one query."""
    from hindex.sql.queries import parse_query

    try:
        query = parse_query(text)
    except HindexError:
        return False
    return query is not None and query.is_parsed


def read_statements(statements: Iterable[str], table: WorkloadTable) -> Workload:
    """Read queries, or conditions alone, from SQL."""
    from hindex.sql import parse_predicate
    from hindex.sql.lexer import without_leading_comments

    workload = Workload()
    for statement in map(without_leading_comments, statements):
        try:
            if _QUERY.match(statement):
                _add_query(statement, table, workload)
            else:
                workload.queries.append(WorkloadQuery(parse_predicate(statement)))
        except HindexError as error:
            workload.ignore(_first_line(error))
    return workload


def _add_query(statement: str, table: WorkloadTable, workload: Workload) -> None:
    from hindex.sql.queries import parse_query

    query = parse_query(statement)
    if query is None or not query.is_parsed:
        workload.ignore("it is no query that hindex can parse")
        return
    ours = [table.is_named(item.ref) for item in query.tables]
    if not any(ours):
        workload.ignore("it is of another table")
        return
    # a name that the table has is taken for its column
    columns = [table.schema.names if is_ours else () for is_ours in ours]
    is_count = _COUNT.match(statement) is not None and len(ours) == 1
    is_empty = True
    for is_ours, conditions in zip(ours, query.conditions(columns), strict=True):
        if is_ours and conditions:
            is_empty = False
            # of several tables, a name may be a column of each
            returned = tuple(query.returned(table.schema.names)) if len(ours) == 1 else None
            workload.queries.append(WorkloadQuery(all_of(conditions), is_count, returned))
    if is_empty:
        workload.ignore("it has no condition on the table alone")


def _log_query(line: str) -> tuple[re.Match[str], str] | None:
    """Return the query of a line of hindex's log, and the text behind it; None for any other line."""
    end = _LOG_RESULT.search(line, 0, _MAX_LOG_QUERY)
    match = None if end is None else _LOG_QUERY.search(line, 0, end.start())
    return None if end is None or match is None else (match, line[end.end() :])


def _read_log(lines: Sequence[str], table: WorkloadTable) -> Workload:
    from hindex.sql import parse_predicate, split

    workload = Workload(used_indexes=set())
    assert workload.used_indexes is not None
    for line in lines:
        plan = _LOG_PLAN.search(line)
        if plan is not None:
            logged_queries = read_statements(split(plan["queries"]), table)
            workload.queries += logged_queries.queries
            for reason, times in logged_queries.ignored.items():
                workload.ignored[reason] = workload.ignored.get(reason, 0) + times
            for names in _PLAN_INDEXES.findall(plan["tables"]):
                workload.used_indexes.update(name.partition(" ")[0] for name in names.split(", "))
            continue
        logged = _log_query(line)
        if logged is None:
            continue
        match, result = logged
        if not (table.is_at(match["table"]) or match["table"].lower() in table.names):
            workload.ignore("it is of another table")
            continue
        through = _THROUGH.search(result)
        if through is not None:
            workload.used_indexes.update(_INDEX.findall(through[1]))
        if match["where"] is None:
            workload.ignore("it has no condition on the table alone")
            continue
        try:
            predicate = parse_predicate(match["where"])
        except HindexError:
            workload.ignore("the log has its condition only in part")
            continue
        columns = _selected(match["columns"], table.schema)
        workload.queries.append(WorkloadQuery(predicate, match["columns"] == "count(*)", columns))
    return workload


def _selected(text: str, schema: TableSchema) -> tuple[str, ...] | None:
    """Return the columns of a select list of names; None for any other."""
    if text == "*":
        return tuple(schema.names)
    names = {quote_name(name): name for name in schema.names}
    items = text.split(", ")
    return tuple(names[item] for item in items) if names.keys() >= set(items) else None


# Spark's event logs


def _read_events(lines: Sequence[str], table: WorkloadTable) -> Workload:
    workload = Workload()
    for line in lines:
        if _SQL_START not in line:
            continue
        try:
            event = json.loads(line)
        except ValueError:
            workload.ignore("the line is not JSON")
            continue
        if not isinstance(event, dict) or not str(event.get("Event", "")).endswith(_SQL_START):
            continue
        scans = [scan for scan in _scans(event.get("sparkPlanInfo")) if _is_scan_of(scan, table)]
        if not scans:
            workload.ignore("it is of another table")
        for scan in scans:
            filters = scan["metadata"].get("PushedFilters", "[]")
            try:
                predicates = _PushedFilters(filters, table.schema).predicates()
            except (HindexError, ValueError, InvalidOperation):
                workload.ignore("its filters cannot be read")
                continue
            if predicates:
                columns = _read_columns(scan["metadata"].get("ReadSchema"), table.schema)
                workload.queries.append(WorkloadQuery(all_of(predicates), columns=columns))
            else:
                workload.ignore("it has no condition on the table alone")
    return workload


def _scans(plan: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 JSON
    """Yield the nodes of a plan that read files."""
    stack = [plan]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            continue
        metadata = node.get("metadata")
        if isinstance(metadata, dict) and "PushedFilters" in metadata:
            yield node
        children = node.get("children")
        stack += children if isinstance(children, list) else []


def _read_columns(read_schema: object, schema: TableSchema) -> tuple[str, ...] | None:
    """Return the columns of a scan by the type of its rows; None if it is cut, or missing."""
    try:
        fields = parse_type(str(read_schema)).field_names
    except ValueError:
        return None
    names = {name.lower(): name for name in schema.names}
    return tuple(names[field.lower()] for field in fields if field.lower() in names)


def _is_scan_of(scan: dict[str, Any], table: WorkloadTable) -> bool:
    paths = _PATHS.search(str(scan["metadata"].get("Location", "")))
    if paths is not None and any(table.is_at(path.strip()) for path in paths[1].split(",")):
        return True
    name = str(scan.get("nodeName", "")).rpartition(" ")[2]
    return bool(name) and name.rpartition(".")[2].lower() in table.names


class _PushedFilters:
    """The text of filters that Spark pushes into a scan: ``[IsNotNull(a), Or(EqualTo(a,1),In(s, [x,y]))]``.

    Values are not quoted: those with commas and parentheses may be read otherwise.
    """

    def __init__(self, text: str, schema: TableSchema) -> None:
        self._text = text
        self._schema = schema

    def predicates(self) -> list[Predicate]:
        """Read the conjuncts, without those that say only that a column is not NULL.

        Raises:
            ValueError: for what cannot be read.
            HindexError: for an unknown column.
        """
        inner = self._text.strip()
        if not (inner.startswith("[") and inner.endswith("]")):
            raise ValueError(inner)
        parts = _split(inner[1:-1])
        return [self._filter(part) for part in parts if not part.startswith("IsNotNull(")]

    def _filter(self, text: str) -> Predicate:
        name, parenthesis, rest = text.strip().partition("(")
        if not parenthesis or not rest.endswith(")"):
            raise ValueError(text)
        args = rest[:-1]
        match name:
            case "And" | "Or":
                both = [self._filter(part) for part in _split(args)]
                return all_of(both) if name == "And" else any_of(both)
            case "Not":
                return Not(self._filter(args))
            case "IsNull":
                return is_null(self._column(args))
            case "IsNotNull":
                return Not(is_null(self._column(args)))
            case "In":
                attribute, _, values = args.partition(",")
                items = values.strip()[1:-1].split(",")
                return In(self._column(attribute), tuple(self._literal(attribute, item) for item in items))
            case "StringStartsWith":
                attribute, _, value = args.partition(",")
                escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
                return Like(self._column(attribute), f"{escaped}%")
            case _ if name in _COMPARISONS:
                attribute, _, value = args.partition(",")
                return compare(_COMPARISONS[name], self._column(attribute), self._literal(attribute, value))
            case _:
                raise ValueError(text)

    def _column(self, attribute: str) -> ColumnRef:
        return ColumnRef(self._schema.resolve(attribute.strip().replace("`", "")).path)

    def _literal(self, attribute: str, value: str) -> Literal:
        kind = self._schema.resolve(attribute.strip().replace("`", "")).type.kind
        if value == "null":
            return Literal(None, LiteralKind.NULL)
        if kind in INTEGER_KINDS:
            return Literal(int(value), LiteralKind.INTEGER)
        if kind in STRING_KINDS:
            return Literal(value, LiteralKind.STRING)
        match kind:
            case Kind.BOOLEAN:
                return Literal(value == "true", LiteralKind.BOOLEAN)
            case Kind.FLOAT | Kind.DOUBLE:
                return Literal(float(value), LiteralKind.DOUBLE)
            case Kind.DECIMAL:
                return Literal(Decimal(value), LiteralKind.DECIMAL)
            case Kind.DATE:
                return Literal(datetime.date.fromisoformat(value), LiteralKind.DATE)
            case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ | Kind.TIMESTAMP_INSTANT:
                # instants in UTC, beside columns that are compared as wall clocks
                return Literal(value.replace("T", " ").rstrip("Z"), LiteralKind.TIMESTAMP)
            case _:
                raise ValueError(value)


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses and brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _first_line(error: HindexError) -> str:
    return str(error).partition("\n")[0]


def ignored_text(ignored: dict[str, int]) -> str:
    """Return why queries were ignored, for people."""
    total = sum(ignored.values())
    reasons = "; ".join(
        f"{count:,}: {reason}" for reason, count in sorted(ignored.items(), key=lambda item: -item[1])
    )
    return f"{counted(total, 'query')} ignored ({reasons})"

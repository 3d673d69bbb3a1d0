"""Spark's optimized plans as Python reads them, and their typed conditions as predicates.

``OptimizerRule.java`` writes a plan as JSON: its nodes, children before parents, and their expressions as lists, a kind
and its parts. A condition becomes a predicate that is true of every row that the condition is true of. Spark's own
``Filter`` stays above the rows, so a part that is not understood is left out.

Source: Apache Spark, ``org.apache.spark.sql.catalyst.expressions`` and ``.plans.logical``.
"""

from __future__ import annotations

import datetime
import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any, TypeAlias

from hindex.errors import PredicateError
from hindex.expr.dates import is_of_days
from hindex.expr.patterns import java_regex
from hindex.spark.catalyst_values import value
from hindex.sql.functions import call, contains_any
from hindex.sql.predicate import (
    NULL,
    Arithmetic,
    BooleanValue,
    Call,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    RLike,
    TruthValue,
    all_of,
    any_of,
    as_predicate,
    columns,
    compare,
    is_null,
    operands,
    quote_name,
    quote_string,
)
from hindex.sql.string_values import format_timestamp
from hindex.value_class import value_class

#: An expression of the JSON: its kind, and its parts.
CatalystExpression: TypeAlias = list[Any]

_COMPARISONS = {
    "EqualTo": ComparisonOp.EQ,
    "EqualNullSafe": ComparisonOp.NULL_SAFE_EQ,
    "LessThan": ComparisonOp.LT,
    "LessThanOrEqual": ComparisonOp.LE,
    "GreaterThan": ComparisonOp.GT,
    "GreaterThanOrEqual": ComparisonOp.GE,
}
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
#: Operators of SQL by Spark's classes, beside comparisons.
_OPERATORS = {
    "And": "AND",
    "Or": "OR",
    "Like": "LIKE",
    "RLike": "RLIKE",
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
}
#: Functions of days by Spark's classes.
_PARTS_OF_DAYS = {
    "Month": "month",
    "Quarter": "quarter",
    "DayOfMonth": "day",
    "DayOfWeek": "dayofweek",
    "DayOfYear": "dayofyear",
    "WeekDay": "weekday",
    "WeekOfYear": "weekofyear",
}
_STRINGS = frozenset({LiteralKind.STRING, LiteralKind.NULL})
#: Conditions on parts of strings, beside those that a range of strings may satisfy.
_PARTS = frozenset({"Contains", "EndsWith", "RLike"})
#: Limits of descriptions: conditions, and characters of one.
_MAX_TEXTS, _MAX_TEXT = 3, 160
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_EPOCH = datetime.date(1970, 1, 1)


@value_class
class Attribute:
    """A column of a relation: Spark's id of it, its name, and its type as JSON.

    ``is_partition`` is True if its values are those of directories.
    """

    id: int
    name: str
    type_json: str
    is_partition: bool = False


@value_class
class Relation:
    """A relation of ORC files in a plan.

    Attributes:
        database: the current database, whose tables need no qualifier.
        node: the number of its node.
        table: its name in the catalog, in backquotes; None for files by path.
        paths: the paths or URIs that it reads; for a catalog's table, perhaps of only some partitions.
        location: the location of the catalog's table.
        has_metadata: True if the plan reads the hidden column ``_metadata``.
    """

    node: int
    table: str | None
    paths: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    location: str = ""
    is_transactional: bool = False
    has_metadata: bool = False
    database: str = ""

    @property
    def name(self) -> str:
        """The name of the table in messages: as short as the current database allows, or the path."""
        if self.table is None:
            (path,) = self.paths if len(self.paths) == 1 else self.roots[-1:] or (f"{len(self.paths)} paths",)
            return quote_string(path)
        *_, database, name = ("", *self.name_parts)
        return name if database == self.database else f"{database}.{name}"

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that may be the table's: the paths may be of partitions, or files, of a table above them."""
        if self.table is not None:
            return (self.location,)
        root = list(posixpath.commonprefix([path.rstrip("/").split("/") for path in self.paths]))
        roots = []
        # neither "/" nor a scheme is a table
        while root and root[-1] and not root[-1].endswith(":"):
            roots.append("/".join(root))
            if "=" not in root[-1] and not root[-1].endswith(".orc"):
                break
            root.pop()
        return tuple(roots)

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The parts of its name in the catalog."""
        return tuple(part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", self.table or ""))


@value_class
class PlanNode:
    """A node of a plan.

    Attributes:
        output: the ids of its columns.
        parent: the number of its parent; None for the root.
        detail: what the JSON has of nodes of its kind.
    """

    number: int
    kind: str
    children: tuple[int, ...]
    output: tuple[int, ...]
    detail: Mapping[str, Any] = field(repr=False)
    parent: int | None = None


@value_class
class CatalystPlan:
    """A plan, its nodes by number: children have lower numbers than their parents."""

    nodes: tuple[PlanNode, ...]
    relations: tuple[Relation, ...]

    @classmethod
    def parse(cls, text: str) -> CatalystPlan:
        """Read the JSON of a plan."""
        view = json.loads(text)
        items, database = view["nodes"], view["database"]
        parents = {child: number for number, item in enumerate(items) for child in item["children"]}
        nodes = tuple(
            PlanNode(
                number,
                item["kind"],
                tuple(item["children"]),
                tuple(item["output"]),
                item,
                parents.get(number),
            )
            for number, item in enumerate(items)
        )
        relations = tuple(
            _relation(node, node.detail["relation"], database) for node in nodes if "relation" in node.detail
        )
        return cls(nodes, relations)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of all nodes."""
        return frozenset(node.kind for node in self.nodes)

    def ancestors(self, number: int) -> Iterator[PlanNode]:
        """Yield the nodes above one, the nearest first."""
        parent = self.nodes[number].parent
        while parent is not None:
            yield self.nodes[parent]
            parent = self.nodes[parent].parent

    def subtree(self, number: int) -> range:
        """Return the numbers of a node and all below it."""
        first = number
        while self.nodes[first].children:
            first = self.nodes[first].children[0]
        return range(first, number + 1)


def _relation(node: PlanNode, item: Mapping[str, Any], database: str) -> Relation:
    return Relation(
        node.number,
        item["table"],
        tuple(item["paths"]),
        tuple(Attribute(*parts) for parts in item["attributes"]),
        item.get("location", ""),
        item.get("transactional", False),
        item["has_metadata"],
        database,
    )


def attribute_ids(expression: object) -> Iterator[int]:
    """Yield the ids of the columns that an expression reads."""
    stack = [expression]
    while stack:
        part = stack.pop()
        if not isinstance(part, list):
            continue
        if part[:1] == ["Attribute"]:
            yield part[1]
        else:
            stack += part


def conjuncts(expression: CatalystExpression) -> list[CatalystExpression]:
    """Return the parts of a conjunction."""
    return expression[1:] if expression[0] == "And" else [expression]


class ConditionReader:
    """Reads conditions on the columns of one relation.

    Args:
        columns: the paths of the columns, by their ids in the plan.
        is_session_utc: returns True if strings and literals of times are those of UTC.
        ngram_columns: the dotted names, in lower case, of columns with an index on n-grams: of others, conditions on
            parts of strings are not understood.
        is_indexed: returns True for an expression that an index is on, one on its n-grams if the second argument says
            so; None if no index is on an expression. Conditions on other expressions are not understood.
    """

    def __init__(
        self,
        columns: Mapping[int, tuple[str, ...]],
        is_session_utc: Callable[[], bool] = lambda: False,
        ngram_columns: Collection[str] = (),
        is_indexed: Callable[[Expression, bool], bool] | None = None,
    ) -> None:
        self._columns = columns
        self._is_session_utc = is_session_utc
        self._ngram_columns = ngram_columns
        self._is_indexed = is_indexed
        #: Columns that are compared as they are stored, without the blanks of CHAR.
        self.unpadded: set[ColumnRef] = set()

    def predicate(self, conditions: Sequence[CatalystExpression]) -> tuple[Predicate | None, bool]:
        """Return a predicate that holds for each row for which all conditions do.

        Returns:
            the predicate, None if it would hold for all rows; True if the conditions hold for each of its rows, too.
        """
        read = [item for _, item in self._read(conditions)]
        understood = _without_implied(list(dict.fromkeys(item[0] for item in read if item is not None)))
        is_exact = all(item is not None and item[1] for item in read)
        return (all_of(understood) if understood else None), is_exact

    def unread(self, conditions: Sequence[CatalystExpression]) -> tuple[str, ...]:
        """Describe the conditions that no index answers, with the remedy if there is one."""
        texts = [
            self._text(part) + self._remedy(part)
            for part, item in self._read(conditions)
            if item is None and not self._columns.keys().isdisjoint(attribute_ids(part))
        ]
        shown = list(dict.fromkeys(texts))[:_MAX_TEXTS]
        return tuple(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..." for text in shown)

    def _read(
        self, conditions: Sequence[CatalystExpression]
    ) -> list[tuple[CatalystExpression, tuple[Predicate, bool] | None]]:
        """Read the parts of a conjunction: parts of days only where another condition limits the days."""
        parts = [part for condition in conditions for part in conjuncts(condition)]
        read = [self._condition(part) for part in parts]
        compared = _compared_columns(item[0] for item in read if item is not None)
        return [
            (part, self._part_of_day(part, compared) if item is None else item)
            for part, item in zip(parts, read, strict=True)
        ]

    def _part_of_day(
        self, condition: CatalystExpression, compared: set[ColumnRef]
    ) -> tuple[Predicate, bool] | None:
        kind, *parts = condition
        if (kind not in _COMPARISONS and kind != "In") or parts[0][0] not in _PARTS_OF_DAYS:
            return None
        name, child = parts[0][0], self._date(parts[0][1])
        if isinstance(child, Cast) and not self._is_session_utc():
            return None
        if child is None or compared.isdisjoint(columns(child)):
            return None
        return self._tested(kind, call(_PARTS_OF_DAYS[name], [child]), parts[1:])

    def _remedy(self, condition: CatalystExpression) -> str:
        """Return the remedy for a column of strings that is compared with integers."""
        match condition:
            case ["EqualTo" | "In", ["Cast", child, "string", number], *constants] | [
                "EqualTo",
                *constants,
                ["Cast", child, "string", number],
            ] if self.column(child) and number in _INTEGERS:
                literals = [self._literal(item) for item in constants]
                if any(item is None or item == NULL for item in literals):
                    return ""
                strings = [["Literal", "string", str(item)] for item in literals]
                return f" (compared as a number: write {self._text([condition[0], child, *strings])})"
        return ""

    def _text(self, expression: CatalystExpression) -> str:
        """Write an expression as SQL does."""
        column = self.column(expression)
        if column is not None:
            return str(column)
        kind, *parts = expression
        match expression:
            case ["Attribute", _, name]:
                return quote_name(name)
            case ["Literal", *_]:
                return str(self._literal(expression) or parts[-1])
            case ["Cast" | "TryCast", child, _, data_type]:
                return f"CAST({self._text(child)} AS {data_type})"
            case ["Padded", child, *_]:
                return self._text(child)
            case ["Field", child, name]:
                return f"{self._text(child)}.{quote_name(name)}"
            case ["Not", child]:
                return f"NOT ({self._text(child)})"
            case ["IsNull" | "IsNotNull", child]:
                return f"{self._text(child)} IS {'NOT ' * (kind == 'IsNotNull')}NULL"
        texts = [self._text(part) for part in parts if isinstance(part, list)]
        if kind == "In":
            return f"{texts[0]} IN ({', '.join(texts[1:])})"
        operator = _COMPARISONS[kind].value if kind in _COMPARISONS else _OPERATORS.get(kind)
        if operator is not None:
            is_nested = kind in _OPERATORS
            operands = zip(parts, texts, strict=False)  # the last part of LIKE is its escape character
            return f" {operator} ".join(
                f"({text})" if is_nested and part[0] in _OPERATORS else text for part, text in operands
            )
        return f"{kind.removeprefix('String').lower()}({', '.join(texts)})"

    def column(self, expression: CatalystExpression) -> ColumnRef | None:
        """Return the column, or the field of one, that an expression is; None for others."""
        match expression:
            case ["Attribute", identity, _]:
                parts = self._columns.get(identity)
                return None if parts is None else ColumnRef(parts)
            case ["Field", child, name]:
                parent = self.column(child)
                return None if parent is None else ColumnRef((*parent.parts, name))
        return None

    def _condition(self, expression: CatalystExpression) -> tuple[Predicate, bool] | None:
        """Return a superset of a condition, and whether it is the condition itself; None if it is not understood."""
        kind, parts = expression[0], expression[1:]
        match kind:
            case "And":
                predicate, is_exact = self.predicate([expression])
                return None if predicate is None else (predicate, is_exact)
            case "Or":
                branches = [self._condition(part) for part in parts]
                understood = [branch for branch in branches if branch is not None]
                if len(understood) < len(branches):
                    return None
                return any_of(branch[0] for branch in understood), all(branch[1] for branch in understood)
            case "Not":
                child = self._condition(parts[0])
                return None if child is None or not child[1] else (Not(child[0]), True)
            case "Literal":
                return (TruthValue(parts[1] == "true"), True) if parts[0] == "boolean" else None
            case _:
                return self._leaf(kind, parts)

    def _leaf(self, kind: str, parts: list[Any]) -> tuple[Predicate, bool] | None:
        contained = _contained(kind, parts)
        if contained is not None:
            return self._leaf("Contains", contained)
        if kind in ("Attribute", "Field"):
            boolean = self.column([kind, *parts])
            return None if boolean is None else (BooleanValue(boolean), True)
        if kind in ("ArrayContains", "ArrayExists", "ArraysOverlap"):
            return self._contains([kind, *parts])
        truth = self.indexed_expression([kind, *parts])
        if truth is not None:
            return as_predicate(truth), True
        if kind == "IsNaN" or kind == "Coalesce":
            test = self._function([kind, *parts])
            return None if test is None else (as_predicate(test), True)
        subject_part, *others = parts
        if kind in _COMPARISONS and others[0][0] not in ("Literal", "Value", "Row", "Array"):
            (subject_part, *others), op = (others[0], subject_part), _COMPARISONS[kind].flipped
        else:
            op = _COMPARISONS.get(kind, ComparisonOp.EQ)
        if subject_part[0] == "CreateNamedStruct":
            return self._rows(subject_part[2::2], others) if kind in ("EqualTo", "In") else None
        expression = self.indexed_expression(subject_part, of_parts=kind in _PARTS)
        if expression is not None:
            return self._test(kind, op, expression, others, is_exact=True)
        function = self._function(subject_part)
        if function is not None:
            return self._tested(kind, function, others, op)
        is_exact = subject_part[0] != "Padded"
        is_lower = subject_part[0] == "Lower"
        column = self.column(subject_part[1] if is_lower or not is_exact else subject_part)
        if column is None:
            return None
        if kind == "IsNull" or kind == "IsNotNull":
            return self._test(kind, op, column, others, is_exact=True)
        if is_exact:
            self.unpadded.add(column)
        subject = call("lower", [column]) if is_lower else column
        is_part = is_lower or kind in _PARTS
        if is_part and ".".join(column.parts).lower() not in self._ngram_columns:
            return None
        return self._test(kind, op, subject, others, is_exact=is_exact)

    def _contains(self, expression: CatalystExpression) -> tuple[Predicate, bool] | None:
        """Return the condition that an array has one of some elements, if an index is on its elements."""
        element: CatalystExpression = ["NamedLambdaVariable"]
        match expression:
            case ["ArrayContains", array, item]:
                items = [item]
            case ["ArraysOverlap", array, ["Array", *items]] | ["ArraysOverlap", ["Array", *items], array]:
                pass
            case ["ArrayExists", array, ["LambdaFunction", ["EqualTo", ["Literal", *_] as item, element], _]]:
                items = [item]
            case ["ArrayExists", array, ["LambdaFunction", ["EqualTo" | "In", element, *items], _]]:
                pass
            case _:
                return None
        match element:
            case ["Field", ["NamedLambdaVariable"], field]:
                array = ["ElementField", array, field]
            case ["NamedLambdaVariable"]:
                pass
            case _:
                return None
        if self._is_indexed is None or not items or any(item[0] != "Literal" for item in items):
            return None
        subject, values = self._value(array), [self._value(item) for item in items]
        literals = [item for item in values if item is not None]
        if (
            subject is None
            or len(literals) < len(values)
            or not self._is_indexed(call("[*]", [subject]), False)
        ):
            return None
        return as_predicate(contains_any(subject, literals)), True

    def indexed_expression(
        self, expression: CatalystExpression, *, of_parts: bool = False
    ) -> Expression | None:
        """Return the expression that a value is, if an index is on it, or on the parts of its strings."""
        if self._is_indexed is None or expression[0] in ("Attribute", "Field", "Padded"):
            return None
        converted = self._value(expression)
        return converted if converted is not None and self._is_indexed(converted, of_parts) else None

    def _value(self, expression: CatalystExpression) -> Expression | None:
        """Return a value as SQL; None if it is not understood."""

        def leaf(part: CatalystExpression) -> Expression | None:
            return self.column(part) or self._literal(part)

        def condition(part: CatalystExpression) -> Predicate | None:
            read = self._condition(part)
            return read[0] if read is not None and read[1] else None

        return value(expression, leaf, condition)

    def _test(
        self, kind: str, op: ComparisonOp, subject: Expression, others: list[Any], *, is_exact: bool
    ) -> tuple[Predicate, bool] | None:
        """Return a condition on a column, or on an expression."""
        if kind == "IsNull" or kind == "IsNotNull":
            test = is_null(subject)
            return (test if kind == "IsNull" else Not(test)), is_exact
        if kind == "Like" or kind == "RLike":
            pattern = self._literal(others[0])
            if pattern is None or not isinstance(pattern.value, str):
                return None
            if kind == "Like":
                return Like(subject, pattern.value, others[1]), is_exact
            return (RLike(subject, pattern.value), is_exact) if _is_evaluated(pattern.value) else None
        literals = [self._literal(item) for item in others]
        values = [item for item in literals if item is not None]
        if len(values) < len(literals):
            return None
        if kind in _COMPARISONS:
            return compare(op, subject, values[0]), is_exact
        if kind == "In" and values:
            return In(subject, tuple(values)), is_exact
        if kind == "StartsWith" and isinstance(values[0].value, str):
            escaped = re.sub(r"([\\%_])", r"\\\1", values[0].value)
            return Like(subject, f"{escaped}%"), is_exact
        if kind in _PARTS and isinstance(values[0].value, str):
            return as_predicate(call(kind.lower(), [subject, values[0]])), is_exact
        return None

    def _function(self, expression: CatalystExpression) -> Expression | None:
        """Return a function of a column whose comparisons are domains of the column; None for any other expression."""
        name: str
        args: list[Expression | None]
        match expression:
            case ["IsNaN", child]:
                name, args = "isnan", [self.column(child)]
            case ["Substring", child, ["Literal", "int", "0" | "1"] as start, length]:
                name, args = "substring", [self.column(child), self._literal(start), self._literal(length)]
            case ["Year", child]:
                name, args = "year", [self._date(child)]
            case ["TruncDate", child, unit]:
                name, args = "trunc", [self._date(child), self._literal(unit)]
            case ["TruncTimestamp", ["Literal", "string", str() as name_of_unit] as unit, child] if (
                self._is_session_utc() or is_of_days(name_of_unit)
            ):
                name, args = "date_trunc", [self._literal(unit), self.column(child)]
            case ["Coalesce", child, default]:
                name, args = (
                    "coalesce",
                    [self.column(child), self._constant(default)],
                )
            case _:
                return None
        present = [arg for arg in args if arg is not None]
        return call(name, present) if len(present) == len(args) else None

    def _date(self, expression: CatalystExpression) -> Expression | None:
        """Return a column of dates, or the day of a timestamp."""
        match expression:
            case ["Cast", child, "timestamp", "date"]:
                column = self.column(child)
                return None if column is None else Cast(column, "DATE")
        return self.column(expression)

    def _constant(self, expression: CatalystExpression) -> Literal | None:
        """Return a literal beside a function of a column: expressions compute with times of UTC only."""
        literal = self._literal(expression)
        is_time = literal is not None and literal.kind is LiteralKind.TIMESTAMP
        return None if is_time and not self._is_session_utc() else literal

    def _tested(
        self, kind: str, subject: Expression, others: list[Any], op: ComparisonOp | None = None
    ) -> tuple[Predicate, bool] | None:
        """Return the comparison of a function of a column with literals."""
        is_cut = isinstance(subject, Call) and subject.name == "date_trunc"
        values = [
            item for item in map(self._literal if is_cut else self._constant, others) if item is not None
        ]
        if len(values) < len(others) or (kind not in _COMPARISONS and kind != "In"):
            return None
        if (
            isinstance(subject, Call)
            and subject.name == "substring"
            and {item.kind for item in values} - _STRINGS
        ):
            return None  # of binary values
        self.unpadded.update(columns(subject))
        if kind == "In":
            return In(subject, tuple(values)), True
        return compare(op or _COMPARISONS[kind], subject, values[0]), True

    def _rows(self, fields: list[Any], rows: list[Any]) -> tuple[Predicate, bool] | None:
        """Return the condition that columns equal one of some rows, in which NULL equals NULL."""
        refs = [column for column in map(self.column, fields) if column is not None]
        members: list[Predicate] = []
        for row in rows:
            values = (
                [item for item in map(self._literal, row[1:]) if item is not None] if row[0] == "Row" else []
            )
            if not len(fields) == len(refs) == len(values):
                return None
            pairs = zip(refs, values, strict=True)
            members.append(all_of(compare(ComparisonOp.NULL_SAFE_EQ, ref, value) for ref, value in pairs))
        self.unpadded.update(refs)
        return any_of(members), True

    def _literal(self, expression: CatalystExpression) -> Literal | None:
        if expression[0] != "Literal":
            return None
        _, data_type, text = expression
        if text is None:
            return NULL
        # the zone of the session takes calls of Java
        zone = "Z" if data_type == "timestamp" and not self._is_session_utc() else ""
        return literal(data_type, text, zone)


def _without_implied(predicates: list[Predicate]) -> list[Predicate]:
    """Leave out the ``IS NOT NULL`` of columns that another condition compares: Spark's optimizer adds them."""
    compared = _compared_columns(predicates)
    return [
        item
        for item in predicates
        if not (isinstance(item, Not) and isinstance(item.child, IsNull) and item.child.value in compared)
    ]


def _compared_columns(predicates: Iterable[Predicate]) -> set[ColumnRef]:
    """Return the columns of conditions that are not TRUE where these are NULL."""
    return {
        column
        for item in predicates
        if isinstance(item, BooleanValue | In | Like | RLike)
        or (isinstance(item, Comparison) and item.op is not ComparisonOp.NULL_SAFE_EQ)
        if all(map(_is_strict, operands(item)))
        for column in columns(item)
    }


def _is_strict(expression: Expression) -> bool:
    """Return True if a value is NULL wherever one of its columns is."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if not isinstance(node, ColumnRef | Literal | Call | Arithmetic | Cast):
            return False
        if isinstance(node, Call) and node.name in ("coalesce", "greatest", "least"):
            return False
        stack.extend(operands(node))
    return True


def _contained(kind: str, parts: list[Any]) -> list[Any] | None:
    """Return the string and its part if a condition is on the position of a part, and says that there is one."""
    if kind == "LessThan":
        kind, parts = "GreaterThan", parts[::-1]
    match kind, parts:
        case "GreaterThan", [["StringInstr", text, part], ["Literal", "int", "0"]]:
            return [text, part]
        case "GreaterThan", [["StringLocate", part, text, ["Literal", "int", "1"]], ["Literal", "int", "0"]]:
            return [text, part]
    return None


def _is_evaluated(pattern: str) -> bool:
    """Return True if a regular expression is evaluated here."""
    try:
        java_regex(pattern)
    except PredicateError:
        return False
    return True


def literal(data_type: str, text: str, zone: str = "") -> Literal | None:
    """Return the literal of a value that Spark stores; None for types without literals here.

    Args:
        data_type: Spark's name of the type.
        text: an integer, also for days and microseconds since 1970; digits; or hexadecimal digits of binary values.
        zone: the time zone that a timestamp is written with; "" for the session's.
    """
    if data_type in _INTEGERS:
        return Literal(int(text), LiteralKind.INTEGER)
    if _DECIMAL.fullmatch(data_type):
        return Literal(Decimal(text), LiteralKind.DECIMAL)
    match data_type:
        case "string":
            return Literal(text, LiteralKind.STRING)
        case "date":
            days = int(text)
            try:
                return Literal(_EPOCH + datetime.timedelta(days=days), LiteralKind.DATE)
            except OverflowError:
                return Literal(days, LiteralKind.DATE)
        case "timestamp":
            return Literal(format_timestamp(int(text)) + zone, LiteralKind.TIMESTAMP)
        case "boolean":
            return Literal(text == "true", LiteralKind.BOOLEAN)
        case "float" | "double":
            return Literal(float(text), LiteralKind.DOUBLE)
        case "binary":
            return Literal(bytes.fromhex(text), LiteralKind.BINARY)
    return None

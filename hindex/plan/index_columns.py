"""Columns and expressions that indexes cover.

The definition of an expression index is SQL text, which every user of the index parses and types. The index is
used only if the columns still have the types that they had when it was created: with other types, the expression
may have other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from hindex.errors import BuildError, ColumnError, OrcError, PredicateError, StatementError
from hindex.expr.coerce import REMEDY, type_of
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import BINARY, BOOLEAN, COMPOSITE, Apply, Column, Constant, Node, walk
from hindex.expr.nodes import columns as node_columns
from hindex.expr.typing import typed
from hindex.orc import OrcReader, RowSelection
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.time_zones import check_zone
from hindex.plan.column_domains import column_domain, like_domain
from hindex.plan.composites import Composite, with_composites
from hindex.plan.filter import Filter, Leaf, Residual
from hindex.plan.local_time import on_instants
from hindex.plan.required_ngrams import with_ngrams
from hindex.plan.rules import leaf
from hindex.plan.time_zones import TIMESTAMP_KINDS, TimeZones, ZonesOf, canonical_zone
from hindex.sql.predicate import Call, ColumnRef, Expression, Like, PredicateLeaf, as_value, with_columns
from hindex.store.manifest import IndexEntry
from hindex.table.file_schema import FilePath, bind_paths, convert_array, recorded_type
from hindex.table.schema import ResolvedColumn, TableSchema, check_path, path_name
from hindex.table.type_text import parse_type, type_text
from hindex.value_class import value_class


@value_class
class IndexColumn:
    """The values that an index has: a column of a table, an expression of columns, or several columns.

    Attributes:
        name: the column's name, the expression as SQL, or the names of the columns.
        type: the type of the values; a struct of the columns for an index of type ROWS.
        inputs: the columns that the values are computed from; for a column, itself.
        expression: None for a column, and for columns that an index stores.
        stores_columns: True if an index of type ROWS stores these columns.
        zones: the time zones of an expression's local times; None for the stored wall clocks.
    """

    name: str
    type: OrcType
    inputs: tuple[ResolvedColumn, ...]
    expression: Node | None = None
    stores_columns: bool = False
    zones: TimeZones | None = None

    @classmethod
    def of(cls, column: ResolvedColumn) -> IndexColumn:
        """Return a column of the table."""
        return cls(column.name, column.type, (column,))

    @classmethod
    def of_columns(cls, columns: Sequence[ResolvedColumn]) -> IndexColumn:
        """Return the columns of an index of type ROWS."""
        return cls(_list_text(columns), _struct(columns), tuple(columns), stores_columns=True)

    @property
    def is_column(self) -> bool:
        """True for one column of the table."""
        return self.expression is None and not self.stores_columns

    @property
    def is_composite(self) -> bool:
        """True for the combinations of values of several columns; its keys are `hindex.keys.composite_keys`."""
        return isinstance(self.expression, Apply) and self.expression.function == COMPOSITE

    @property
    def input_types(self) -> str:
        """The types of the columns of an expression or list as text; "" for a column."""
        return "" if self.is_column else type_text(_struct(self.inputs))

    @property
    def has_lists(self) -> bool:
        """True if the keys of a row are the elements of an array."""
        return self.expression is not None and type_of(self.expression).kind is Kind.LIST

    def in_zones(self, zones_of: ZonesOf) -> IndexColumn:
        """Return an expression of timestamps with the local times of a session; any other column as it is.

        Raises:
            ColumnError: if it compares or computes times, which are only evaluated in UTC.
            PredicateError: if a time zone is unknown.
        """
        zones = zones_of() if self.expression is not None and _has_time(self.expression) else None
        if zones is None or zones.is_utc or self.expression is None:
            return self
        zone = canonical_zone(zones.session)
        zones.check_reader()
        check_zone(zone)
        expression = self.expression if zone == "UTC" else on_instants(self.expression, zone)
        if expression is None:
            raise ColumnError(
                f"{self.name} cannot be indexed: it compares or computes times in the session's time zone, "
                f"{zones.session}; index a part of a timestamp column, such as its hour or its date"
            )
        return replace(self, expression=expression, zones=zones)

    @property
    def time_zones(self) -> str:
        """The text of `zones` in the manifest; "" for None."""
        return "" if self.zones is None else self.zones.recorded

    def in_file(
        self, binding: tuple[str, ...], root: OrcType, *, transactional: bool = False
    ) -> FileIndexColumn | None:
        """Bind the columns to a data file; return None if the file lacks one.

        Args:
            binding: the table's data columns.
            root: the file's type.
            transactional: see `hindex.table.file_schema.bind_paths`.
        """
        names = [item.name for item in self.inputs]
        bound = bind_paths(binding, root, names, transactional=transactional)
        if len(bound) < len(set(names)):
            return None
        return FileIndexColumn(self, tuple(bound[name] for name in names))

    def recorded_type(self, schema: str, binding: tuple[str, ...], *, transactional: bool) -> OrcType | None:
        """Return the type of the keys in a file of a recorded schema; None if the file lacks a column."""
        types = [recorded_type(schema, binding, item.name, transactional) for item in self.inputs]
        if None in types:
            return None
        return types[0] if self.is_column else self.type


def _list_text(columns: Sequence[ResolvedColumn]) -> str:
    return ", ".join(str(ColumnRef(column.path)) for column in columns)


def _struct(columns: Sequence[ResolvedColumn]) -> OrcType:
    names, types = zip(*((item.name, item.type) for item in columns), strict=True)
    return OrcType(Kind.STRUCT, children=types, field_names=names)


def _has_time(expression: Node) -> bool:
    """Return True if the values of an expression depend on time zones; the keys of several columns do not."""
    if isinstance(expression, Apply) and expression.function == COMPOSITE:
        return False
    types = (node.column_type if isinstance(node, Column) else node.type for node in walk(expression))
    return any(item is not None and item.kind in TIMESTAMP_KINDS for item in types)


@value_class
class FileIndexColumn:
    """An index's column in a data file.

    Attributes:
        paths: the columns of the file to read, in the order of ``column.inputs``.
    """

    column: IndexColumn
    paths: tuple[FilePath, ...]

    @property
    def reader_zone(self) -> str | None:
        """The time zone by which timestamps are read as instants; None for wall clocks."""
        return None if self.column.zones is None else self.column.zones.reader

    @property
    def type(self) -> OrcType:
        """The type of the values: a column's type in the file, or that of an expression or list."""
        return self.paths[0].type if self.column.is_column else self.column.type

    def read(self, reader: OrcReader, stripe: int, selection: RowSelection | None = None) -> pa.Array:
        """Read the values of a stripe. Raises the errors of `values`."""
        return self.values(self._read(reader, stripe, selection))

    def read_inputs(self, reader: OrcReader, stripe: int) -> dict[str, pa.Array]:
        """Read the columns of a stripe, in the table's types."""
        arrays = self._read(reader, stripe, None)
        return self._inputs(arrays)

    def _inputs(self, arrays: Sequence[pa.Array]) -> dict[str, pa.Array]:
        inputs = {}
        for item, path, array in zip(self.column.inputs, self.paths, arrays, strict=True):
            types = path.type, item.type
            if self.column.zones is not None:
                types = path.type.with_instants(), item.type.with_instants()
            inputs[item.name] = table_values(array, *types)
        return inputs

    def _read(self, reader: OrcReader, stripe: int, selection: RowSelection | None) -> list[pa.Array]:
        reader = reader.in_time_zone(self.reader_zone)
        paths = list(dict.fromkeys(path.path for path in self.paths))
        batch = reader.read_stripe(stripe, paths, selection)
        return [batch.column(paths.index(path.path)) for path in self.paths]

    def table_values(self, values: pa.Array) -> pa.Array:
        """Convert values of `type` to the table's type."""
        return values if self.column.has_lists else table_values(values, self.type, self.column.type)

    def values(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """Compute the values from the columns of `paths`: lists if rows have several, structs for several columns.

        Args:
            arrays: timestamps are instants if there is a `reader_zone`.

        Raises:
            BuildError: if an expression has no value in a row.
        """
        if self.column.is_column:
            return arrays[0]
        inputs = self._inputs(arrays)
        if self.column.stores_columns:
            return pa.StructArray.from_arrays(list(inputs.values()), fields=list(self.type.to_arrow()))
        return expression_values(self.column, inputs, len(arrays[0]))


def expression_values(column: IndexColumn, inputs: Mapping[str, pa.Array], n: int) -> pa.Array:
    """Evaluate the expression of an index.

    Args:
        inputs: ``n`` values of each of its columns, in the table's types.

    Raises:
        BuildError: if it has no value in a row.
    """
    assert column.expression is not None
    try:
        value = evaluate(column.expression, inputs, n)
    except PredicateError as error:
        problem = str(error).removesuffix(f"; {REMEDY}")
        raise BuildError(f"{column.name} cannot be evaluated: {problem}") from None
    if value.errors is not None:
        raise BuildError(
            f"{column.name} has no value in some row: {value.errors.problem}, which is an error in Spark too; "
            "leave such rows out by CASE, or use TRY_CAST for a cast"
        )
    arrow = type_of(column.expression).to_arrow()
    return value.array if value.array.type == arrow else value.array.cast(arrow)


def table_values(array: pa.Array, file_type: OrcType, table_type: OrcType) -> pa.Array:
    """Convert a data file's values to the table's type, as queries do.

    Raises:
        BuildError: if a value does not fit.
    """
    try:
        return convert_array(array, file_type, table_type)
    except pa.ArrowException as error:
        raise BuildError(
            f"a value of type {array.type} does not fit the table's {table_type}: {error}"
        ) from error


def index_column(entry: IndexEntry, schema: TableSchema) -> IndexColumn:
    """Return the column or expression that an index covers.

    Raises:
        ColumnError: if the table no longer has the column, or if an expression's columns have changed their types.
        UnsupportedError: if only Spark can read the column.
    """
    if not entry.inputs:
        return IndexColumn.of(schema.resolve(entry.column, is_stored=True))
    try:
        if entry.stores_columns:
            names = parse_type(entry.inputs).field_names
            column = IndexColumn.of_columns([schema.resolve(name, is_stored=True) for name in names])
        else:
            column = _on_parsed(parsed_columns(entry.column), schema)
            if entry.time_zones:
                column = column.in_zones(lambda: TimeZones.parse(entry.time_zones))
    except (StatementError, ValueError) as error:
        raise ColumnError(f"index {entry.name!r} was made by a later version: {error}") from None
    except (OrcError, PredicateError):
        raise ColumnError(
            f"index {entry.name!r} has the values of the time zones {entry.time_zones!r}, which are unknown here: "
            "install the tzdata package"
        ) from None
    if column.input_types != entry.inputs:
        raise ColumnError(
            f"index {entry.name!r} on {entry.column} was created for {entry.inputs}, and the columns are "
            f"{column.input_types} now: drop the index and create it again"
        )
    return column


def _on_parsed(parts: Sequence[Expression], schema: TableSchema) -> IndexColumn:
    if len(parts) == 1:
        return expression_column(parts[0], schema)
    names = [part.parts for part in parts if isinstance(part, ColumnRef)]
    if len(names) < len(parts):
        raise StatementError("it is on several values, not all of them columns")
    return composite_column([schema.resolve(name, is_stored=True) for name in names], schema)


@lru_cache(maxsize=256)
def parsed_columns(text: str) -> tuple[Expression, ...]:
    """Parse the definition of an index: one column or expression, or several columns."""
    from hindex.sql import parse_columns

    return parse_columns(text)


@lru_cache(maxsize=256)
def parsed(text: str) -> Expression:
    """Parse the SQL of one expression."""
    from hindex.sql import parse_predicate

    return as_value(parse_predicate(text))


def expression_column(expression: str | Expression, schema: TableSchema) -> IndexColumn:
    """Type an indexed expression or column, as SQL text or parsed.

    Raises:
        ColumnError: if it cannot be indexed: it has no column or a partition column, cannot be evaluated here, or
            its text is the name of a column.
        StatementError: if text is not SQL.
    """
    if isinstance(expression, str):
        expression = parsed(expression)
    inputs: dict[str, ResolvedColumn] = {}
    spelled: dict[ColumnRef, ColumnRef] = {}

    def resolve(parts: tuple[str, ...]) -> tuple[str, OrcType]:
        column = schema.resolve(parts)
        check_path(column, schema)
        inputs[column.name] = column
        spelled[ColumnRef(parts)] = ColumnRef(column.path)
        return column.name, column.type

    if isinstance(expression, ColumnRef):
        resolve(expression.parts)
        return IndexColumn.of(*inputs.values())
    if isinstance(expression, Call) and expression.name == "[*]" and isinstance(expression.args[0], Call):
        # a function that returns an array has one spelling
        expression = expression.args[0]
    try:
        node = typed(expression, resolve)
    except PredicateError as error:
        problem = str(error).removesuffix(f"; {REMEDY}")
        raise ColumnError(f"{expression} cannot be indexed: {problem}") from None
    text = str(with_columns(expression, spelled))
    if not inputs:
        raise ColumnError(f"{text} cannot be indexed: it names no column")
    for column in inputs.values():
        if column.is_partition:
            raise ColumnError(
                f"{text} cannot be indexed: {column.name!r} is a partition column, whose values are in the directory "
                "names"
            )
    if isinstance(node, Column) and type_of(node).kind is not Kind.LIST:
        return IndexColumn.of(*inputs.values())
    if not node_columns(node):
        raise ColumnError(f"{text} cannot be indexed: it has the same value in all rows")
    data_type = type_of(node)
    if data_type.kind is Kind.LIST:
        data_type = data_type.children[0]
    if data_type.kind in TIMESTAMP_KINDS:
        raise ColumnError(f"{text} cannot be indexed: it makes timestamps; index parts of them, or a date")
    return _named(IndexColumn(text, data_type, tuple(inputs.values()), node), schema)


def composite_column(columns: Sequence[ResolvedColumn], schema: TableSchema) -> IndexColumn:
    """Return the combinations of values of several columns.

    Raises:
        ColumnError: if their list is the name of a column.
    """
    parts = tuple(Column(column.name, column.type) for column in columns)
    return _named(
        IndexColumn(_list_text(columns), BINARY, tuple(columns), Apply(COMPOSITE, parts, BINARY)), schema
    )


def _named(column: IndexColumn, schema: TableSchema) -> IndexColumn:
    """Check that no column has the name of an expression: conditions on both would be one."""
    if schema.has_name(column.name):
        raise ColumnError(f"{column.name} cannot be indexed: the table has a column of that name")
    return column


def indexed_expression(
    expression: Expression, indexes: Iterable[IndexEntry], zones: ZonesOf
) -> IndexEntry | None:
    """Return an index on an expression, however spelled; None if there is none. This does not read the table."""
    for index in indexes:
        if not index.is_on_expression:
            continue
        inputs = parse_type(index.inputs)
        types = {
            name.lower(): (name, data_type)
            for name, data_type in zip(inputs.field_names, inputs.children, strict=True)
        }

        def resolve(
            parts: tuple[str, ...], types: Mapping[str, tuple[str, OrcType]] = types
        ) -> tuple[str, OrcType]:
            column = types.get(path_name(parts).lower())
            if column is None:
                raise ColumnError(f"{'.'.join(parts)} is no column of the index")
            return column

        with suppress(ColumnError, PredicateError, StatementError, ValueError):
            on = parsed_columns(index.column)
            if len(on) > 1:
                continue
            node = typed(on[0], resolve)
            is_same = without_literals(typed(expression, resolve)) == without_literals(node)
            if is_same and (not _has_time(node) or index.time_zones == recorded_zones(zones())):
                return index
    return None


def recorded_zones(zones: TimeZones | None) -> str:
    """Return a session's time zones as the manifest records them, for an index on an expression of timestamps."""
    return "" if zones is None or zones.is_utc else zones.recorded


def is_for_zones(index: IndexEntry, column: IndexColumn, zones: TimeZones | None) -> bool:
    """Return True if a session with these time zones may use an index; all may if it is not on timestamps."""
    is_of_time = column.expression is not None and _has_time(column.expression)
    return not is_of_time or index.time_zones == recorded_zones(zones)


class IndexedExpressions:
    """The indexed expressions of a table. They convert conditions to domains of expressions.

    Args:
        expressions: the expressions, each with the ``order`` of the best index type on it.
        columns: the columns with an index on their values, by name, with the order of its type. An index on an
            expression is used instead if its type is more precise.
        composites: the combinations of columns with an index.
        ngrams: the expressions with an index on the n-grams of their strings.
    """

    def __init__(
        self,
        expressions: Mapping[IndexColumn, int] | None = None,
        columns: Mapping[str, int] | None = None,
        composites: Sequence[Composite] = (),
        ngrams: Iterable[IndexColumn] = (),
    ) -> None:
        self._by_node: dict[Node, tuple[IndexColumn, int]] = {
            without_literals(item.expression): (item, order)
            for item, order in (expressions or {}).items()
            if item.expression is not None
        }
        self._columns = columns or {}
        self._composites = composites
        self._ngrams = {
            without_literals(item.expression): item.name for item in ngrams if item.expression is not None
        }

    def __bool__(self) -> bool:
        """Return True if there is an index on the values of an expression."""
        return bool(self._by_node)

    def with_composites(self, root: Filter) -> Filter:
        """Join the leaves of a filter that indexes on several columns answer together."""
        return with_composites(root, self._composites, self._columns)

    def with_ngrams(self, root: Filter, columns: Mapping[str, bool]) -> Filter:
        """Add the n-grams of columns and expressions to a filter, see `hindex.plan.required_ngrams.with_ngrams`."""
        return with_ngrams(root, columns, lambda node: self._ngrams.get(without_literals(node)))

    def leaf(self, written: PredicateLeaf, condition: Node, otherwise: Filter, *, negated: bool) -> Filter:
        """Return a condition as a leaf on an indexed expression; ``otherwise`` if it has none.

        Args:
            written: the condition before it was typed.
            otherwise: the equivalent filter on the table's columns.
        """
        if not isinstance(otherwise, Leaf | Residual):
            return otherwise
        least = self._columns.get(otherwise.column, 0) if isinstance(otherwise, Leaf) else 0
        condition = without_literals(condition)
        text = str(otherwise)
        match condition:
            case Apply("array_contains", (lists, *values)) if lists in self._by_node:
                return otherwise if negated else self._contains(self._by_node[lists][0], values, otherwise)
        if isinstance(written, Like) and isinstance(condition, Apply):
            column, order = self._by_node.get(condition.args[0], (None, 0))
            if column is None or order <= least:
                return otherwise
            domain, is_exact = like_domain(written.pattern, written.escape)
            if negated and is_exact:
                domain = domain.complement(null_allowed=False)
            if domain.has_every_value or (negated and not is_exact):
                return otherwise
            return Leaf(column.name, column.type, domain, text, is_superset=not is_exact, condition=otherwise)
        replaced = self._replaced(condition, least)
        answer = None if replaced is condition else column_domain(replaced, negated=negated)
        if answer is None:
            return otherwise
        subject, domain = answer
        on_expression = leaf(subject.name, subject.column_type, domain, text)
        if not isinstance(on_expression, Leaf):
            return on_expression
        return replace(on_expression, condition=otherwise)

    def _contains(self, column: IndexColumn, values: Sequence[Node], otherwise: Filter) -> Filter:
        """Return the leaf of rows whose array contains one of some values."""
        answer = column_domain(Apply("IN", (Column(column.name, column.type), *values), BOOLEAN))
        if answer is None:
            return otherwise
        return Leaf(column.name, column.type, answer[1], str(otherwise), condition=otherwise, has_lists=True)

    def _replaced(self, node: Node, least: int) -> Node:
        """Replace expressions by columns of their names, if they have an index of an order above ``least``."""
        column, order = self._by_node.get(node, (None, 0))
        if column is not None and not column.has_lists and order > least:
            return Column(column.name, column.type)
        if not isinstance(node, Apply):
            return node
        args = tuple(self._replaced(arg, least) for arg in node.args)
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            return node
        return replace(node, args=args)


def without_literals(node: Node) -> Node:
    """Return an expression without the flags of literals among its constants, which Spark's plans do not have."""
    match node:
        case Constant(is_literal=True):
            return replace(node, is_literal=False)
        case Apply(_, args):
            plain = tuple(map(without_literals, args))
            same = all(new is old for new, old in zip(plain, args, strict=True))
            return node if same else replace(node, args=plain)
    return node


NO_EXPRESSIONS = IndexedExpressions()

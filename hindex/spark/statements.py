"""Check that Spark returns the same rows for a statement that hindex can answer itself.

Timestamps are compared and shown as Spark's instants, see :mod:`hindex.plan.time_zones`. Indexes have them as wall
clocks, so rows are ordered, grouped and aggregated by them where Spark's Java is in UTC only.

Besides, Spark keeps some types as numbers, which the files alone do not tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from hindex.errors import ColumnError, OrcError, UnsupportedError
from hindex.orc import OrcReader
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.plan.time_zones import ZonesOf, has_time
from hindex.spark.settings import Setting, infers_partitions, is_ansi, is_of_one_type
from hindex.sql.predicate import ColumnRef, columns
from hindex.sql.statements import AggregateCall, AggregateFunction, Select, SelectExists
from hindex.store.snapshot import Snapshot
from hindex.table.schema import ResolvedColumn, TableSchema

#: Where Spark keeps the type of a column that ORC does not have.
_SPARK_TYPE = "spark.sql.catalyst.type"


#: All but intervals, which ORC has as numbers.
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "timestamp_ntz"})


def check_same_rows(
    zones: ZonesOf, setting: Setting, snapshot: Snapshot, select: Select | SelectExists
) -> None:
    """Refuse a statement that Spark gives other values or rows for.

    :param zones: gives the session's time zones; called where they matter.
    :param setting: whether one of its settings is on.
    :raises UnsupportedError: naming a column, or a sort of statement, and why.
    """
    if isinstance(select, SelectExists):
        select = select.rows
    schema = snapshot.schema
    _check_names(select)
    shown = _resolved(schema, _all(schema) if select.items is None else _shown(select))
    sorted_by = _resolved(schema, _sorted_by(select))
    in_where = _resolved(schema, () if select.where is None else columns(select.where))
    used = [*shown, *sorted_by, *in_where]
    if any(_has(item.type, INTEGER_KINDS) for item in used):
        other = _other_types(snapshot)
        for item in used:
            if item.path[0].lower() in other:
                raise UnsupportedError(f"Spark has the column {item.name!r} as {other[item.path[0].lower()]}")
    has_conditions = select.where is not None or select.having is not None
    if has_conditions and not is_ansi(setting) and not _is_typed(select, schema):
        raise UnsupportedError(
            "the session has spark.sql.ansi.enabled off, and compares types by other rules"
        )
    if any(item.is_partition for item in used) and not infers_partitions(setting):
        raise UnsupportedError("values of partitions are texts to the session, of whatever type they look")
    for item in sorted_by:
        if has_time(item.type):
            by = zones()
            if by is not None and not by.are_keys(item.type):
                raise UnsupportedError(
                    f"Spark orders and groups timestamps of {item.name!r} as instants of {by.reader}, and indexes have "
                    "wall clocks"
                )


def _is_typed(select: Select, schema: TableSchema) -> bool:
    """Return True if the conditions mean the same under all rules of comparing types."""
    if select.having is not None:
        return False
    try:
        return select.where is None or is_of_one_type(select.where, schema)
    except ColumnError:
        # keys of transactional rows are whole numbers; of a column that is none, the scan tells
        return True


def _check_names(select: Select) -> None:
    """Refuse a field of a struct that is called like the table: to Spark, a name before a dot is first the table's.

    :raises UnsupportedError: naming it.
    """
    refs = [*_shown(select), *_sorted_by(select), *_counted(select)]
    refs += [] if select.where is None else columns(select.where)
    for ref in refs:
        # with a database and a catalog before it
        if select.table.parts and select.table.parts[-1].lower() in map(str.lower, ref.parts[:-1][:3]):
            raise UnsupportedError(f"{ref} may be a column of the table {select.table} to Spark")


def _counted(select: Select) -> list[ColumnRef]:
    calls = [item.value for item in select.items or () if isinstance(item.value, AggregateCall)]
    calls += [] if select.having is None else select.having.calls
    return [call.column for call in calls if call.column is not None]


def _resolved(schema: TableSchema, refs: Iterable[ColumnRef]) -> list[ResolvedColumn]:
    found = []
    for ref in refs:
        # keys of transactional rows are no columns of the schema
        with suppress(ColumnError):
            found.append(schema.resolve(ref.parts))
    return found


def _all(schema: TableSchema) -> list[ColumnRef]:
    return [ColumnRef((name,)) for name in schema.names]


def _shown(select: Select) -> list[ColumnRef]:
    """The columns of the list that are not aggregated."""
    return [item.value for item in select.items or () if isinstance(item.value, ColumnRef)]


def _sorted_by(select: Select) -> list[ColumnRef]:
    """The columns whose values are compared with each other."""
    ordered = [] if select.order is None else [select.order.value]
    values = [*select.groups, *ordered, *(item.value for item in select.items or ())]
    calls = [item for item in values if isinstance(item, AggregateCall)]
    calls += [] if select.having is None else select.having.calls
    return [
        *select.groups,
        *(item for item in ordered if isinstance(item, ColumnRef)),
        *(
            call.column
            for call in calls
            if call.column is not None and call.function is not AggregateFunction.COUNT
        ),
    ]


def _has(data_type: OrcType, kinds: frozenset[Kind]) -> bool:
    return any(part.kind in kinds for part in data_type.walk())


def _other_types(snapshot: Snapshot) -> dict[str, str]:
    """The columns that Spark has as something else than ORC, by the first file: their names in lower case, and as what.

    Spark goes by one file, too.
    """
    # of a file that cannot be read, whoever needs rows of it is told
    with suppress(OrcError):
        for view in snapshot.files:
            file = view.file
            state = (file.length, file.mtime_ns, file.changed_ns)
            # of a store that tells no times, a file that was replaced may look as it was
            tells = file.is_untouched_since(file.changed_ns or 0)
            return _types_of(file.uri, state) if tells else _types_in(file.uri)
    return {}


@lru_cache(maxsize=256)
def _types_of(uri: str, _state: tuple[int, int, int | None]) -> dict[str, str]:
    """Return the types from :func:`_types_in` for a file, cached by its state."""
    return _types_in(uri)


def _types_in(uri: str) -> dict[str, str]:
    # the tail is known to the scan that follows
    with OrcReader(uri) as reader:
        tail = reader.tail
    types = tail.footer.types
    found = {}
    for name, top in zip(tail.schema.field_names, tail.schema.children, strict=True):
        for part in top.walk():
            told = {item.key: item.value for item in types[part.column].attributes}.get(_SPARK_TYPE)
            if part.kind in INTEGER_KINDS and told is not None and told not in _NUMBERS:
                found[name.lower()] = told
    return found

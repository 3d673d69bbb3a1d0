"""Expected aggregates and orders, computed by Arrow on the rows that Spark reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.api.scan import Scan
from hindex.api.table import Table
from tests.support.oracle import comparable


def check_aggregates(
    table: Table, predicate: str, rows: pa.Table, rng: np.random.Generator, context: str
) -> None:
    """Compare counts, ends, groups and the first rows of one column of a scan, and the groups of two, with its rows'.

    Args:
        rows: the rows that the predicate keeps.
    """
    columns = _columns(rows)
    name = str(rng.choice(list(columns)))
    context = f"column {name}; {context}"
    column, scan = columns[name], table.scan(predicate)
    assert scan.exists() == (rows.num_rows > 0), context
    assert scan.count(name) == len(column) - column.null_count, context
    for function, actual in (("min", scan.min(name)), ("max", scan.max(name))):
        assert _plain(actual) == _plain(_end(column, function)), f"{function} {context}"
    counted = scan.value_counts(name)
    assert _groups(counted.column(0), counted.column(1)) == _counted(column), context
    assert scan.distinct(name).equals(counted.column(0).combine_chunks()) or pa.types.is_floating(column.type)
    _check_order(scan, name, column, rng, context)
    if rng.random() < 0.5:
        _check_pairs(scan, [str(other) for other in rng.permutation(list(columns))[:2]], columns, context)


def _columns(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns, and in place of structs their fields, by dotted paths."""
    actual = {}
    for name in rows.column_names:
        column = rows.column(name)
        if not pa.types.is_struct(column.type):
            actual[name] = column
            continue
        for field in column.type:
            actual[f"{name}.{field.name}"] = pc.struct_field(column, field.name)
    return actual


def _check_pairs(scan: Scan, names: list[str], columns: dict[str, pa.ChunkedArray], context: str) -> None:
    """Groups by two columns."""
    plain = {str(at): comparable(columns[name]) for at, name in enumerate(names)}
    expected = pa.table(plain).group_by(list(plain)).aggregate([([], "count_all")])
    counted = scan.value_counts(*names)
    actual = [comparable(column).to_pylist() for column in counted.columns]
    rows = list(zip(*actual, strict=True))
    ranks = [_ranks(columns[name], plain[str(at)]) for at, name in enumerate(names)]
    listed = list(zip(*(column.to_pylist() for column in expected.columns), strict=True))
    wanted = sorted(
        listed, key=lambda row: [rank[value] for rank, value in zip(ranks, row[:-1], strict=True)]
    )
    assert rows == wanted, f"groups by {names}; {context}"


def _ranks(column: pa.ChunkedArray, plain: pa.Array) -> dict[Any, tuple[Any, ...]]:
    """Return a sort key for the values of a column, NULL first and NaN last, by their compared form."""
    values = plain.to_pylist()
    floats = pa.types.is_floating(column.type)
    ranks = [value if value is None or not floats else _rank(value) for value in column.to_pylist()]
    ordered = [value.encode() if isinstance(value, str) else value for value in (ranks if floats else values)]
    return {value: (rank is not None, rank) for value, rank in zip(values, ordered, strict=True)}


def _check_order(
    scan: Scan, name: str, column: pa.ChunkedArray, rng: np.random.Generator, context: str
) -> None:
    descending, nulls_first = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    limit = int(rng.integers(0, 40))
    wanted = scan.narrowed(scan.predicate, [name], limit)
    actual = wanted.order_by(name, descending=descending, nulls_first=nulls_first).to_arrow().column(name)
    keys = comparable(column)
    if pa.types.is_floating(column.type):
        # the bits of floats, in the order of their values, with NaN the greatest
        keys = pa.array([None if value is None else _rank(value) for value in column.to_pylist()], pa.int64())
    order = pc.array_sort_indices(
        keys,
        order="descending" if descending else "ascending",
        null_placement="at_start" if nulls_first else "at_end",
    )
    expected = comparable(column).take(order.slice(0, limit))
    assert comparable(actual).equals(expected), f"{wanted} {descending} {nulls_first}; {context}"


def _rank(value: float) -> int:
    bits = int(np.array(math.nan if math.isnan(value) else value + 0.0, np.float64).view(np.int64))
    return bits if bits >= 0 else bits ^ ((1 << 63) - 1)


def _end(column: pa.ChunkedArray, function: str) -> Any:
    values = column.drop_null()
    if not len(values):
        return None
    if pa.types.is_floating(column.type):
        numbers = [value for value in values.to_pylist() if not math.isnan(value)]
        if function == "max":
            return max(numbers) if len(numbers) == len(values) else math.nan
        return min(numbers, default=math.nan)
    return pc.min_max(values)[function].as_py()


def _counted(column: pa.ChunkedArray) -> dict[Any, int]:
    counts = pc.value_counts(comparable(column))
    return _groups(counts.field("values"), counts.field("counts"))


def _groups(values: pa.Array | pa.ChunkedArray, counts: pa.Array | pa.ChunkedArray) -> dict[Any, int]:
    listed = comparable(values) if isinstance(values, pa.ChunkedArray) else values
    actual = dict(zip(listed.to_pylist(), counts.to_pylist(), strict=True))
    assert len(actual) == len(listed), "a group occurs twice"
    return actual


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value

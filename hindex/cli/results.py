"""Write the results of :meth:`hindex.Connection.sql` to an output."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from hindex.api.index_statements import SHOWN
from hindex.cli.output import Output
from hindex.maintain.results import CheckResult, Record, records_table

if TYPE_CHECKING:
    from hindex.api.index import Index
    from hindex.api.query_result import QueryResult
    from hindex.explain.explanation import Explanation

_INDEX_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("column", pa.string()),
        ("type", pa.string()),
        ("status", pa.string()),
        ("size_bytes", pa.int64()),
    ]
)

#: The columns of SHOW INDEXES that are always shown.
_BRIEF = ("name", "table", "column", "type", "status", "size_bytes")


def _brief(indexes: pa.Table) -> list[str]:
    """The columns of SHOW INDEXES that a terminal has room for; DESCRIBE INDEX tells the others."""
    has_partitions = indexes.column("partitions").null_count < indexes.num_rows
    return [*_BRIEF, *(["partitions"] if has_partitions else [])]


def write_result(result: object, output: Output) -> int | None:
    """Write a statement's result; the number of rows, where it has rows."""
    if isinstance(result, pa.Table) and result.schema.equals(SHOWN):
        return output.listing(result, _brief(result))
    if hasattr(result, "to_batches"):
        rows = cast("QueryResult | pa.Table", result)
        return output.rows(rows.schema, rows.to_batches())
    if hasattr(result, "to_text"):
        explanation = cast("Explanation", result)
        output.explanation(explanation.to_text(), explanation.to_json())
        return None
    if isinstance(result, list):
        checked = records_table(CheckResult, result)
        return output.rows(checked.schema, checked.to_batches())
    if isinstance(result, Record):
        output.outcome(str(result), result.to_arrow())
        return None
    index = cast("Index", result)
    described = {
        "name": index.name,
        "column": index.column,
        "type": index.type,
        "status": index.status,
        "size_bytes": index.size_bytes,
    }
    return output.rows(_INDEX_SCHEMA, pa.Table.from_pylist([described], _INDEX_SCHEMA).to_batches())

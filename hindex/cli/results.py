"""What :meth:`hindex.Connection.sql` returns, handed to an output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from hindex.cli.output import Output

if TYPE_CHECKING:
    from hindex.plan.explain import Explanation
    from hindex.scan.scan import Scan
    from hindex.tables import Index

_INDEX_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("column", pa.string()),
        ("type", pa.string()),
        ("status", pa.string()),
        ("size_bytes", pa.int64()),
    ]
)


def write_result(result: object, output: Output) -> int | None:
    """Write a statement's result; the number of rows, where it has rows."""
    if result is None:
        output.done()
        return None
    if isinstance(result, pa.Table) and result.schema.names == ["count"] and result.num_rows == 1:
        output.number("count", result["count"][0].as_py())
        return None
    if hasattr(result, "to_batches"):
        rows = cast("Scan | pa.Table", result)
        return output.rows(rows.schema, rows.to_batches())
    if hasattr(result, "to_text"):
        explanation = cast("Explanation", result)
        output.explanation(explanation.to_text(), explanation.to_json())
        return None
    indexes = cast("Iterable[Index]", result if isinstance(result, Iterable) else [result])
    described = [
        {
            "name": index.name,
            "column": index.column,
            "type": index.type,
            "status": index.status,
            "size_bytes": index.size_bytes,
        }
        for index in indexes
    ]
    return output.rows(_INDEX_SCHEMA, pa.Table.from_pylist(described, _INDEX_SCHEMA).to_batches())

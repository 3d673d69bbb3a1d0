"""Write the results of `hindex.Connection.sql` to an output, with remarks on statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from hindex.api.query_result import QueryResult
from hindex.api.statement_table import RecordList, StatementTable
from hindex.cli.output import Output
from hindex.errors import HindexError

if TYPE_CHECKING:
    import hindex
    from hindex.api.index import Index
    from hindex.explanations.explanation import Explanation
    from hindex.plan.reasons import Note

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
    """Write a statement's result, and return the number of rows if it has rows."""
    if isinstance(result, StatementTable):
        return output.listing(result.to_arrow(), result.brief)
    if hasattr(result, "to_batches"):
        rows = cast("QueryResult | pa.Table", result)
        return output.rows(rows.schema, rows.to_batches())
    if hasattr(result, "to_text"):
        explanation = cast("Explanation", result)
        output.explanation(explanation.to_text(), explanation.to_json())
        return None
    from hindex.maintain.results import Record

    if isinstance(result, RecordList):
        records = result.to_arrow()
        return output.rows(records.schema, records.to_batches())
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


def proof_line(result: object) -> str | None:
    """Return the proof of a query in prove mode, or why there is none. A disagreement is a warning already."""
    if not isinstance(result, QueryResult):
        return None
    if result.proof is not None:
        return None if result.proof.disagreements else f"Proof: {result.proof}"
    from hindex.explanations.explanation import Explanation

    explanation = result.explain()
    if isinstance(explanation, Explanation):
        return None  # a query of no rows
    names = [item.table for item in explanation.tables if item.is_accelerated]
    if not names:
        return "Nothing to prove: Spark alone runs this query"
    tables = ", ".join(names)
    return (
        f"Not proved: Spark runs this query and reads {tables} through indexes; SELECT of one table is proved"
    )


def quoting_note(connection: object, statement: str) -> Note | None:
    """Return a note if a SELECT that failed compares a string literal that is the name of a column.

    Args:
        connection: the connection that ran the statement.
    """
    if '"' not in statement:
        return None
    from hindex.plan.predicate_hints import quoted_names, quoted_strings
    from hindex.sql import parse
    from hindex.sql.statements import Select, SelectExists

    try:
        parsed = parse(statement)
        select = parsed.rows if isinstance(parsed, SelectExists) else parsed
        if not isinstance(select, Select) or not any(quoted_strings(select.where)):
            return None
        # only now is the table looked up again
        table = cast("hindex.Connection", connection).resolve(select.table)
        return next(iter(quoted_names(select.where, table.columns)), None)
    except HindexError:
        return None  # Spark ran the query, or the table is gone

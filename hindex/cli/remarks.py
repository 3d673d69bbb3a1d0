"""Remarks on the result of a statement, written to standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hindex.errors import HindexError

if TYPE_CHECKING:
    import hindex
    from hindex.plan.reasons import Note


def quoting_note(connection: object, statement: str) -> Note | None:
    """That a SELECT has the name of a column as a text, and so a condition that is the same for every row.

    :param connection: the one that has run the statement.
    """
    if '"' not in statement:
        return None
    from hindex.plan.quoted_identifier_hints import quoted_names, quoted_strings
    from hindex.sql import parse
    from hindex.sql.statements import Select, SelectExists

    try:
        parsed = parse(statement)
        select = parsed.rows if isinstance(parsed, SelectExists) else parsed
        if not isinstance(select, Select) or not any(quoted_strings(select.where)):
            return None
        # so it is worth another look at the table
        table = cast("hindex.Connection", connection).resolve(select.table)
        return next(iter(quoted_names(select.where, table.columns)), None)
    except HindexError:
        return None  # of a query that Spark runs, or of a table that is gone since

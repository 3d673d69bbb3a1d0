"""The first rows of a scan or a query as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pyarrow as pa

from hindex.api.value_formatting import format_values, printable, truncate_values
from hindex.explanations.explanation import STYLE
from hindex.formatting import plural

#: Limits: rows, columns, and characters of a value.
_ROWS, _COLUMNS, _CHARACTERS = 10, 20, 100


def rows_html(title: str, preview: Callable[[int], tuple[pa.Table, str]], max_rows: int = _ROWS) -> str:
    """Return a ``div`` with its own style: a table of the first rows and their extent, or the error in their place.

    Args:
        title: the line above the rows.
        max_rows: the number of rows that are shown.
        preview: reads a number of first rows; returns them with a remark to show below.
    """
    try:
        # one row more shows if there are others
        body = _rows(*preview(max_rows + 1), max_rows)
    except Exception as error:  # noqa: BLE001 notebooks swallow errors of _repr_html_
        lines = map(printable, f"{type(error).__name__}: {error}".splitlines())
        body = f"<div>{escape(chr(10).join(lines))}</div>"
    # strings of a condition may be invalid Unicode, which cannot be sent
    heading = escape(printable(title))
    return f'<div class="hindex"><style>{STYLE}</style>\n<code>{heading}</code>\n{body}\n</div>\n'


def _rows(rows: pa.Table, remark: str, max_rows: int) -> str:
    visible = rows.slice(0, max_rows).select(range(min(_COLUMNS, rows.num_columns)))
    head = "".join(f"<th>{escape(printable(name))}</th>" for name in visible.column_names)
    columns = [
        [
            _cell(text)
            for chunk in column.chunks
            for text in format_values(truncate_values(chunk, _CHARACTERS + 1))
        ]
        for column in visible.columns
    ]
    body = [f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True)]
    extent = _extent(rows, max_rows) + (f", {remark}" if remark else "")
    return "\n".join(["<table>", f"<tr>{head}</tr>", *body, "</table>", f"<div>{extent}</div>"])


def _cell(text: str | None) -> str:
    if text is None:
        return '<td><span class="why">NULL</span></td>'
    visible = text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
    return f"<td>{escape(printable(visible))}</td>"


def _extent(table: pa.Table, max_rows: int) -> str:
    """Describe the part of the rows that is shown."""
    rows = (
        f"first {max_rows} rows"
        if table.num_rows > max_rows
        else f"{table.num_rows:,} {plural(table.num_rows, 'row')}"
    )
    first = f"first {_COLUMNS} of " if table.num_columns > _COLUMNS else ""
    return f"{rows}, {first}{table.num_columns:,} {plural(table.num_columns, 'column')}"

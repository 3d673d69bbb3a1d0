"""The first rows of a scan or a query as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pyarrow as pa

from hindex.api.truncation import truncate_values
from hindex.api.value_formatting import format_values, printable
from hindex.explain.explanation import STYLE
from hindex.formatting import plural

#: What is shown at most: rows, columns, and characters of a value.
_ROWS, _COLUMNS, _CHARACTERS = 10, 20, 100


def rows_html(title: str, preview: Callable[[int], tuple[pa.Table, str]]) -> str:
    """One ``div`` with its own style: a table of the first rows, and how much of the whole it is.

    What goes wrong is shown in their place.

    :param title: stands above the rows.
    :param preview: reads so many of the first rows, and has a remark to show beside how much is shown.
    """
    try:
        # one row more tells whether there are more
        shown = _rows(*preview(_ROWS + 1))
    except Exception as error:  # noqa: BLE001 a notebook shows nothing at all of what fails in here
        lines = map(printable, f"{type(error).__name__}: {error}".splitlines())
        shown = f"<div>{escape(chr(10).join(lines))}</div>"
    # texts of a condition may be no Unicode, which nothing could be sent with
    asked = escape(printable(title))
    return f'<div class="hindex"><style>{STYLE}</style>\n<code>{asked}</code>\n{shown}\n</div>\n'


def _rows(found: pa.Table, remark: str) -> str:
    few = found.slice(0, _ROWS).select(range(min(_COLUMNS, found.num_columns)))
    head = "".join(f"<th>{escape(printable(name))}</th>" for name in few.column_names)
    columns = [
        [
            _cell(text)
            for chunk in column.chunks
            for text in format_values(truncate_values(chunk, _CHARACTERS + 1))
        ]
        for column in few.columns
    ]
    body = [f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True)]
    extent = _extent(found) + (f", {remark}" if remark else "")
    return "\n".join(["<table>", f"<tr>{head}</tr>", *body, "</table>", f"<div>{extent}</div>"])


def _cell(text: str | None) -> str:
    if text is None:
        return '<td><span class="why">NULL</span></td>'
    shown = text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
    return f"<td>{escape(printable(shown))}</td>"


def _extent(found: pa.Table) -> str:
    """Describe the part of the rows that is shown."""
    rows = (
        f"first {_ROWS} rows"
        if found.num_rows > _ROWS
        else f"{found.num_rows:,} {plural(found.num_rows, 'row')}"
    )
    of = f"first {_COLUMNS} of " if found.num_columns > _COLUMNS else ""
    return f"{rows}, {of}{found.num_columns:,} {plural(found.num_columns, 'column')}"

"""The rows of statements that list something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hindex.api.value_formatting import text_grid


class StatementTable:
    """The rows of SHOW and DESCRIBE: an Arrow table by all its methods and attributes, which notebooks show as HTML.

    ``to_arrow()`` returns the table itself. ``brief`` are the columns that people need; ``repr()`` and notebooks show
    these.
    """

    def __init__(self, statement: str, rows: pa.Table, brief: Sequence[str] | None = None) -> None:
        self._statement = " ".join(statement.split())
        self._rows = rows
        self.brief = tuple(rows.column_names if brief is None else brief)

    def to_arrow(self) -> pa.Table:
        """Return the Arrow table."""
        return self._rows

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 an attribute of the table
        if name.startswith("__") and name != "__arrow_c_stream__":
            raise AttributeError(name)  # of a copy that has no table yet
        return getattr(self._rows, name)

    def __getitem__(self, column: str | int) -> pa.ChunkedArray:
        return self._rows[column]

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __repr__(self) -> str:
        return text_grid(self._rows.select(self.brief), None)

    def _repr_html_(self) -> str:
        """Return a row for each row of the table."""
        from hindex.api.rows_html import rows_html

        return rows_html(
            self._statement, lambda _: (self._rows.select(self.brief), ""), max_rows=self._rows.num_rows
        )

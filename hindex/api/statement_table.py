"""The rows of statements that list something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from hindex.api.value_formatting import text_grid

if TYPE_CHECKING:
    from hindex.maintain.results import Record

R = TypeVar("R", bound="Record")


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


class RecordList(list[R]):
    """Results of one kind, such as those of CHECK: a list that ``print`` and notebooks show as a table."""

    def __init__(self, statement: str, kind: type[R], records: Iterable[R]) -> None:
        super().__init__(records)
        self._statement = statement
        self._kind = kind

    def to_arrow(self) -> pa.Table:
        """Return the results as a table, a row each."""
        from hindex.maintain.results import records_table

        return records_table(self._kind, self)

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def _table(self) -> StatementTable:
        return StatementTable(self._statement, self.to_arrow())

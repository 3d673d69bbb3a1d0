"""The result of a query: rows that are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from hindex.api.result_rows import ResultRows
from hindex.api.scan import check_limit
from hindex.api.value_formatting import text_grid
from hindex.errors import ArgumentError, ArgumentTypeError, HindexError
from hindex.table.schema import ColumnName, column_names
from hindex.validation import check_session, is_whole, raise_missing_attribute

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

    from hindex.explanations.explanation import Explanation
    from hindex.maintain.verification import ProveReport
    from hindex.queries.decisions import QueryExplanation

#: Limits of ``repr()``: characters of the query, and columns.
_QUERY_CHARACTERS, _COLUMNS = 200, 20
#: Characters of a value if `QueryResult.show` truncates.
_CELL_CHARACTERS = 20


class QueryResult:
    """The rows of a query, as `Connection.sql <hindex.Connection.sql>` returns them for every SELECT.

    The call raises mistakes in the query; each method then reads the rows, from the table as it is at that moment. For
    a query that Spark runs, indexes are looked up once, at the call.

    Columns have the names of the result. Columns that share a name can be read, but not referred to by it.
    """

    def __init__(
        self, query: str, rows: ResultRows, session: Callable[[], SparkSession | None] = lambda: None
    ) -> None:
        self._query = query
        self._rows = rows
        self._session = session

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(self, name, "a query's result")

    def __repr__(self) -> str:
        schema = self.schema
        columns = [f"{field.name}: {field.type}" for field in schema][:_COLUMNS]
        if len(schema) > _COLUMNS:
            columns.append(f"... {len(schema) - _COLUMNS} more")
        query = " ".join(self._query.split())
        if len(query) > _QUERY_CHARACTERS:
            query = f"{query[: _QUERY_CHARACTERS - 3]}..."
        return f"QueryResult[{', '.join(columns)}]({query})"

    def _repr_html_(self) -> str:
        """Return the first rows for notebooks, or the error as text."""
        from hindex.api.rows_html import rows_html

        return rows_html(repr(self), self._rows.preview)

    def __iter__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a query's result is not iterated over: .to_batches() gives its rows in batches, and "
            ".to_arrow().to_pylist() all of them as dicts"
        )

    @property
    def query(self) -> str:
        """The text of the query."""
        return self._query

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows; it does not depend on the values."""
        return self._rows.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def proof(self) -> ProveReport | None:
        """The report of the last proof, if the mode is ``prove`` and hindex has read the rows."""
        return self._rows.proof

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows, batch by batch."""
        return iter(self.to_reader())

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the rows as a stream that knows its schema, for writers and engines of Arrow."""
        return self._rows.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Read the rows through Arrow's PyCapsule interface: DuckDB, Polars and pyarrow take a result as it is."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Read the rows as one table."""
        return self._rows.to_arrow()

    def to_pandas(self, **options: Any) -> pandas.DataFrame:  # noqa: ANN401 options of pyarrow's
        """Read the rows as a pandas DataFrame.

        Args:
            options: of ``pyarrow.Table.to_pandas``.
        """
        return self.to_arrow().to_pandas(**options)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame; for a query that Spark runs, its own.

        Args:
            spark: the session; that of the connection if None.

        Raises:
            HindexError: if there is no session.
            ArgumentTypeError: for another object than a session.
        """
        session = self._session() if spark is None else spark
        if session is None:
            raise HindexError(
                "there is no Spark session for the rows: give one, to_spark(spark), or hindex.connect(spark=spark)"
            )
        check_session(session)
        return self._rows.to_spark(session)

    def head(self, rows: int = 5) -> pa.Table:
        """Read the first rows as one table, with as little other data as possible.

        Raises:
            ArgumentError: if ``rows`` is not a number of rows.
        """
        check_limit(rows, "the number of rows", "to_arrow() gives them all")
        return self._rows.head(int(rows))

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first rows.

        Args:
            n: how many rows.
            truncate: cut values to so many characters; to 20 if True, not at all if False.

        Raises:
            ArgumentError: if ``n`` is not a number of rows, or ``truncate`` a negative number.
            ArgumentTypeError: if ``truncate`` is neither a boolean nor a whole number.
        """
        check_limit(n, "n", "to_arrow() gives all rows")
        if not isinstance(truncate, bool) and not is_whole(truncate):
            raise ArgumentTypeError(f"truncate is {truncate!r}: it is True, False, or a number of characters")
        if truncate < 0:
            raise ArgumentError(f"truncate is {truncate}: it cannot be negative")
        max_characters = _CELL_CHARACTERS if truncate is True else int(truncate) or None
        # one row more shows if there are others
        rows = self.head(n + 1)
        print(text_grid(rows.slice(0, n), max_characters))
        if rows.num_rows > n:
            print(f"only showing top {n} row{'' if n == 1 else 's'}")

    def count(self, column: ColumnName | None = None) -> int:
        """Count the rows, or the non-null values of a column."""
        return self._rows.count(column)

    def exists(self) -> bool:
        """Return True if there is any row."""
        return self._rows.exists()

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """Return the least non-null value of a column; None if there is none.

        Raises:
            ColumnError: for an unknown or ambiguous column, or one whose values have no order.
        """
        return self._rows.min(column)

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """Return the greatest non-null value of a column, NaN if it occurs; None if there is none."""
        return self._rows.max(column)

    def count_distinct(self, column: ColumnName) -> int:
        """Count the distinct non-null values of a column."""
        return self._rows.count_distinct(column)

    def distinct(self, column: ColumnName) -> pa.Array:
        """Return the distinct values of a column in ascending order, NULL first if it occurs."""
        return self._rows.distinct(column)

    def value_counts(self, column: ColumnName, *others: ColumnName) -> pa.Table:
        """Count the rows of each value of a column, NULL included, or of each combination of values of several.

        Returns:
            the values in ascending order, NULL first, and their ``count``.
        """
        return self._rows.value_counts(column_names((column, *others), "value_counts"))

    def order_by(
        self,
        column: ColumnName,
        *others: ColumnName,
        descending: bool | Sequence[bool] = False,
        nulls_first: bool | None = None,
    ) -> QueryResult:
        """Return the same rows sorted by one or more columns.

        Args:
            descending: for all columns, or one for each.
            nulls_first: put NULL before all values, for all columns; if None, only in ascending order.
        """
        from hindex.plan.order import column_orders

        rows = self._rows.order_by(column_orders((column, *others), descending, nulls_first))
        return QueryResult(self._query, rows, self._session)

    def explain(self, *, analyze: bool = False) -> Explanation | QueryExplanation:
        """Explain which indexes are used, and why others are not. No rows are read.

        Args:
            analyze: read the rows too, and measure it.

        Raises:
            UnsupportedError: for ``analyze``, of a query that Spark runs.
        """
        return self._rows.explain(analyze=analyze)

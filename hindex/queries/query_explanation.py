"""The result of EXPLAIN for a query that Spark runs: how each table is read, and why."""

from __future__ import annotations

from dataclasses import dataclass

from hindex.explain.explanation import Explanation, RowCount


@dataclass(frozen=True, slots=True)
class TableDecision:
    """The decision about one table of a query: a row of EXPLAIN.

    :param table: as the query names it.
    :param predicate: the conditions of the query that hold for its rows; None where there are none.
    :param reason: why Spark reads it alone; None where it is read through its indexes.
    :param rows: those that its indexes leave, about, where they were asked.
    :param explanation: of the scan, where it is read through its indexes.
    """

    table: str
    predicate: str | None
    reason: str | None = None
    rows: RowCount | None = None
    explanation: Explanation | None = None

    @property
    def is_accelerated(self) -> bool:
        """Return True if the table is read through its indexes."""
        return self.reason is None


@dataclass(frozen=True, slots=True, repr=False)
class QueryExplanation:
    """The explanation of a query: its tables in the order in which it names them.

    :param problem: why none of them is read through its indexes, if that is so.
    :param cause: why hindex does not answer the query by itself.
    """

    tables: tuple[TableDecision, ...]
    problem: str | None = None
    cause: str | None = None

    def to_text(self) -> str:
        """Plain text."""
        lines = ["Query run by Spark" + ("" if self.cause is None else f": {self.cause}")]
        if self.problem is not None:
            lines.append(f"  no table is read through indexes: {self.problem}")
        for item in self.tables:
            how = "by Spark alone" if item.reason is not None else "through its indexes"
            lines += ["", f"Table {item.table}: {how}"]
            if item.predicate is not None:
                lines.append(f"  where      {item.predicate}")
            if item.rows is not None:
                lines.append(f"  rows       about {item.rows}")
            if item.reason is not None:
                lines.append(f"  because    {item.reason}")
            if item.explanation is not None:
                lines += ["  " + line if line else "" for line in item.explanation.to_text().splitlines()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain values for ``json.dumps``."""
        return {
            "cause": self.cause,
            "problem": self.problem,
            "tables": [
                {
                    "table": item.table,
                    "predicate": item.predicate,
                    "accelerated": item.is_accelerated,
                    "reason": item.reason,
                    "rows": None if item.rows is None else {"kept": item.rows.kept, "total": item.rows.total},
                    "scan": None if item.explanation is None else item.explanation.to_json(),
                }
                for item in self.tables
            ],
        }

    def __repr__(self) -> str:
        return self.to_text()

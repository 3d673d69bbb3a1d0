"""Decisions about the tables of a query that Spark runs, and their explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape

from hindex.explanations.explanation import STYLE, Explanation, RowCount, rows_html
from hindex.plan.reasons import Reason
from hindex.value_class import value_class


@value_class
class LookupJoin:
    """A column of a table that a query restricts to keys: the values of another column.

    Args:
        column: the restricted column.
        source: the keys' column.
        keys: the number of keys; None if they are not computed.
        reason: why the table is not read by them; None if it is.
    """

    column: str
    source: str
    keys: int | None = None
    reason: str | None = None

    def __str__(self) -> str:
        keys = "keys" if self.keys is None else f"{self.keys:,} key{'s' * (self.keys != 1)}"
        text = f"{self.column} by {keys} of {self.source}"
        return text if self.reason is None else f"{text}: not used, {self.reason}"


@value_class
class TableDecision:
    """The decision about one table of a query: a row of EXPLAIN.

    Args:
        table: the name in the query.
        predicate: the conditions of the query that all its relevant rows satisfy; None if there are none.
        reason: why Spark reads it alone; None if it is read through its indexes.
        detail: the same in words.
        rows: the number of matching rows.
        is_counted: True if they are counted; otherwise they are an estimate.
        explanation: explanation of the scan, if the table is read through its indexes.
        lookups: the joins that restrict its columns to keys of other tables.
        gives_keys: True if it is read once, for its keys and for the query.
        unused: conditions that no index answers, as SQL, with the remedy if there is one.
    """

    table: str
    predicate: str | None
    reason: Reason | None = None
    detail: str = ""
    rows: RowCount | None = None
    is_counted: bool = False
    explanation: Explanation | None = None
    lookups: tuple[LookupJoin, ...] = ()
    gives_keys: bool = False
    unused: tuple[str, ...] = ()

    @property
    def is_accelerated(self) -> bool:
        """Return True if the table is read through its indexes."""
        return self.reason is None

    @property
    def because(self) -> str:
        """The reason with its detail, empty if there is none."""
        return "" if self.reason is None else f"{self.reason}: {self.detail}"

    @property
    def row_text(self) -> str:
        """The number of matching rows of all, empty if it is unknown."""
        return "" if self.rows is None else f"{'' if self.is_counted else 'about '}{self.rows}"

    @property
    def title(self) -> str:
        """The heading of the table: its name, and whether indexes are used."""
        how = "through its indexes" if self.is_accelerated else "by Spark alone"
        return f"Table {self.table}: {'once, and before the query' if self.gives_keys else how}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what is known of the reading, beside the explanation of the scan: names and values."""
        if self.predicate is not None:
            yield "where", self.predicate
        for condition in self.unused:
            yield "unused", condition
        for lookup in self.lookups:
            yield "lookup", str(lookup)
        if self.rows is not None:
            yield "rows", self.row_text
        if self.reason is not None:
            yield "because", self.because


@dataclass(frozen=True, slots=True, repr=False)
class QueryExplanation:
    """The explanation of a query: its tables, in the order of the query.

    Args:
        problem: why none of them is read through its indexes; None if some may be.
        cause: why hindex does not answer the query itself.
    """

    tables: tuple[TableDecision, ...]
    problem: str | None = None
    cause: str | None = None

    def to_text(self) -> str:
        """Return the explanation as plain text."""
        lines = ["Query run by Spark" + ("" if self.cause is None else f": {self.cause}")]
        if self.problem is not None:
            lines.append(f"  no table is read through indexes: {self.problem}")
        for item in self.tables:
            lines += ["", item.title, *(f"  {name:<10} {text}" for name, text in item.facts())]
            if item.explanation is not None:
                lines += ["  " + line if line else "" for line in item.explanation.to_text().splitlines()]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return the explanation as HTML without scripts; notebooks show it by themselves."""
        title, *others = self.to_text().split("\n\n", 1)[0].splitlines()
        parts = [f'<div class="hindex"><style>{STYLE}</style>', f"<h4>{escape(title)}</h4>"]
        parts += [f"<div>{escape(line)}</div>" for line in others]
        for item in self.tables:
            facts = [(name, f"<code>{escape(text)}</code>") for name, text in item.facts()]
            parts += [f"<h4>{escape(item.title)}</h4>", rows_html(facts)]
            if item.explanation is not None:
                parts.append(item.explanation.to_html())
        return "\n".join([*parts, "</div>"]) + "\n"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_json(self) -> dict[str, object]:
        """Return the explanation as plain values for ``json.dumps``."""
        return {
            "cause": self.cause,
            "problem": self.problem,
            "tables": [
                {
                    "table": item.table,
                    "predicate": item.predicate,
                    "accelerated": item.is_accelerated,
                    "reason": None if item.reason is None else item.reason.name,
                    "detail": item.detail,
                    "rows": None if item.rows is None else {"kept": item.rows.kept, "total": item.rows.total},
                    "counted": item.is_counted,
                    "gives_keys": item.gives_keys,
                    "unused": list(item.unused),
                    "lookups": [asdict(lookup) for lookup in item.lookups],
                    "scan": None if item.explanation is None else item.explanation.to_json(),
                }
                for item in self.tables
            ],
        }

    def __repr__(self) -> str:
        return self.to_text()

"""Names of columns that a condition has in double quotes, where Spark has texts and other databases have names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hindex.plan.reasons import Note, Reason
from hindex.sql.predicate import (
    Expression,
    Literal,
    Predicate,
    TruthValue,
    columns,
    leaves,
    operands,
    quote_name,
)


def quoted_names(where: Predicate | None, names: Iterable[str]) -> list[Note]:
    """Note the conditions that name a column in double quotes and have no other: they are the same for every row.

    Nothing is wrong with other texts that are called like a column.

    :param names: of the table's columns.
    """
    texts = list(quoted_strings(where))
    names_by_lower = {name.lower(): name for name in names} if texts else {}
    return [
        Note(
            Reason.QUOTED_NAME,
            condition,
            f"the column is written {_in_backquotes(names_by_lower[text.lower()])}",
        )
        for condition, text in texts
        if text.lower() in names_by_lower
    ]


def quoted_strings(where: Predicate | None) -> Iterator[tuple[str, str]]:
    """Yield the conditions without a column that have a string in double quotes, as SQL, and the string."""
    for leaf in () if where is None else leaves(where):
        source = leaf.source if isinstance(leaf, TruthValue) else leaf
        if source is not None and not columns(source):
            yield from ((str(source), text) for text in _double_quoted(source))


def _double_quoted(root: Expression) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Literal):
            if node.is_double_quoted and isinstance(node.value, str):
                yield node.value
        else:
            stack.extend(operands(node))


def _in_backquotes(name: str) -> str:
    quoted = quote_name(name)
    return quoted if quoted[:1] == "`" else f"`{quoted}`"

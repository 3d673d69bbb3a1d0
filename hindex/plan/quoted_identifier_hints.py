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
    """The conditions without any column that have the name of one in double quotes: they are the same for every row.

    Nothing is wrong with other texts that are called like a column.

    :param names: of the table's columns.
    """
    texts = list(quoted_strings(where))
    known = {name.lower(): name for name in names} if texts else {}
    return [
        Note(Reason.QUOTED_NAME, condition, f"the column is written {_in_backquotes(known[text.lower()])}")
        for condition, text in texts
        if text.lower() in known
    ]


def quoted_strings(where: Predicate | None) -> Iterator[tuple[str, str]]:
    """The conditions without any column that have a text in double quotes, as SQL, and the text."""
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
    found = quote_name(name)
    return found if found[:1] == "`" else f"`{found}`"

"""Notes on conditions that are valid SQL and probably not what was meant.

Double quotes make a string in Spark, and a name in other databases. Comparisons with NULL match no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hindex.plan.normalize import leaf_text
from hindex.plan.reasons import Note, Reason
from hindex.sql.predicate import (
    NULL,
    And,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    Literal,
    LiteralArray,
    Not,
    Or,
    Predicate,
    PredicateLeaf,
    TruthValue,
    columns,
    leaves,
    operands,
    quote_name,
)


def predicate_hints(where: Predicate | None, names: Iterable[str]) -> list[Note]:
    """Return the notes on a condition.

    Args:
        names: the names of the table's columns.
    """
    return [*quoted_names(where, names), *null_comparisons(where)]


def null_comparisons(where: Predicate | None) -> Iterator[Note]:
    """Note the comparisons with NULL, which match no row, negated or not."""
    stack = [] if where is None else [(where, False)]
    while stack:
        node, negated = stack.pop()
        match node:
            case And(children) | Or(children):
                stack.extend((child, negated) for child in reversed(children))
            case Not(child):
                stack.append((child, not negated))
            case _ if _compares_with_null(node, negated):
                yield Note(Reason.NULL_COMPARISON, leaf_text(node, negated))


def _compares_with_null(leaf: PredicateLeaf, negated: bool) -> bool:
    match leaf:
        case Comparison(op, left, right):
            return op is not ComparisonOp.NULL_SAFE_EQ and NULL in (left, right)
        case In(_, LiteralArray() as items):
            return items.has_null and (negated or len(items) == 1)
        case In(_, items):
            # among other values, NULL changes nothing unless the list is negated
            return any(item == NULL for item in items) if negated else all(item == NULL for item in items)
        case _:
            return False


def quoted_names(where: Predicate | None, names: Iterable[str]) -> list[Note]:
    """Note the conditions without a column that have a column's name in double quotes: they are constant.

    A condition that also has a column may well compare it with such a string.

    Args:
        names: the names of the table's columns.
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
    """Yield the conditions without a column that have a string in double quotes: their SQL, and the string."""
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

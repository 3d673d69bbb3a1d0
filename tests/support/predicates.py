"""Random predicates as SQL text that Spark accepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.expressions import random_condition
from tests.support.values import CHAR, Column, random_literal

_OPERATORS = ("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_FLIPPED = ("=", "<", "<=", ">", ">=")


def random_predicate(rng: np.random.Generator, columns: Sequence[Column], depth: int = 5) -> str:
    """A predicate over some of the columns, at most ``depth`` levels of AND, OR and NOT deep."""
    if depth == 0 or rng.random() < 0.35:
        return _leaf(rng, columns)
    if rng.random() < 0.2:
        return f"NOT ({random_predicate(rng, columns, depth - 1)})"
    word = " AND " if rng.random() < 0.5 else " OR "
    children = [random_predicate(rng, columns, depth - 1) for _ in range(int(rng.integers(2, 4)))]
    return word.join(f"({child})" for child in children)


def _leaf(rng: np.random.Generator, columns: Sequence[Column]) -> str:
    if rng.random() < 0.02:
        return str(rng.choice(["TRUE", "FALSE", "NULL"]))
    # expressions of CHAR see blanks or not as Spark's rules for it go, one by one: tests of their own compare them
    plain = [column for column in columns if column.type != CHAR]
    if plain and rng.random() < 0.25:
        return random_condition(rng, plain)
    column = columns[int(rng.integers(0, len(columns)))]
    name = column.name if rng.random() < 0.9 else column.name.upper()

    def literal() -> str:
        return random_literal(rng, column)

    kinds = [
        "compare",
        "flipped",
        *(["between"] if column.type != CHAR else []),
        "in",
        "null",
        "point",
        *(["bare"] if column.type == "boolean" else []),
    ]
    match rng.choice(kinds):
        case "point":
            return f"{name} = {literal()}"
        case "flipped":
            return f"{literal()} {rng.choice(_FLIPPED)} {name}"
        case "between":
            return f"{name} {_negation(rng)}BETWEEN {literal()} AND {literal()}"
        case "in":
            literals = [literal() for _ in range(int(rng.choice([1, 2, 3, 20])))]
            if len(literals) > 10 and column.type in ("float", "double"):
                # beside NULL in a long list, Spark's interpreter finds NaN absent, and its compiled code unknown
                literals = [text for text in literals if text != "NULL"]
            return f"{name} {_negation(rng)}IN ({', '.join(literals)})"
        case "null":
            return f"{name} IS {_negation(rng)}NULL"
        case "bare":
            return name if rng.random() < 0.5 else f"NOT {name}"
        case _:
            return f"{name} {rng.choice(_OPERATORS)} {literal()}"


def _negation(rng: np.random.Generator) -> str:
    return "NOT " if rng.random() < 0.4 else ""

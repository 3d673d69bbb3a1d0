"""Parse conditions: SQL text, predicates, Python expressions, PyArrow expressions, and PySpark columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, Union, cast, get_args

import pyarrow.compute as pc

from hindex.api.conditions import Expr
from hindex.errors import PredicateError
from hindex.sql.predicate import Predicate
from hindex.validation import short_repr

if TYPE_CHECKING:
    import pyspark.sql

    from hindex.engines.arrow_expressions import TranslatedFilter

# and PyArrow expressions: PyArrow is not typed, and a part that is Any would make the whole union Any
Where: TypeAlias = Union[str, Predicate, Expr, "pyspark.sql.Column"]

_NODES = get_args(Predicate)


def parse_condition(
    where: Where | None, translate: Callable[[pc.Expression], TranslatedFilter] | None = None
) -> Predicate | None:
    """Convert a condition to a predicate; None stays None.

    Args:
        translate: translates PyArrow expressions, which depend on the types of the columns.

    Raises:
        StatementError: for a string that is not a predicate, and an unsupported PySpark column.
        PredicateError: for anything else.
    """
    if where is None or isinstance(where, _NODES):
        return where
    if isinstance(where, str):
        from hindex.sql import parse_predicate

        return parse_predicate(where)
    if isinstance(where, Expr):
        try:
            return where.predicate
        except ValueError as error:
            raise PredicateError(f"{error}: compare it with a value") from None
    if isinstance(cast("object", where), pc.Expression):
        return _exact_predicate(where, translate)
    if type(where).__module__.startswith("pyspark.sql."):
        from hindex.api.spark_columns import column_predicate

        return column_predicate(where)
    if isinstance(cast("object", where), bool):
        raise PredicateError(
            f"{where!r} is not a condition: Python evaluates `is`, `in` and `==` between plain values; write "
            ".is_null(), .isin() and the other methods of hindex.col(...)"
        )
    raise PredicateError(
        f"{short_repr(where)} of type {type(where).__name__} is not a condition: give SQL text, hindex.col(...) with a "
        "comparison, a PyArrow expression, or a PySpark column"
    )


def _exact_predicate(
    expression: pc.Expression, translate: Callable[[pc.Expression], TranslatedFilter] | None
) -> Predicate | None:
    """Return the predicate that keeps the rows which PyArrow keeps.

    Raises:
        PredicateError: if there is none.
    """
    if translate is None:
        raise PredicateError(
            f"{short_repr(expression)} is a PyArrow expression, which only scans take: give SQL text, or "
            "hindex.col(...) with a comparison"
        )
    translated = translate(expression)
    if not translated.is_exact:
        raise PredicateError(
            f"cannot evaluate {'; '.join(translated.unsupported)} of a PyArrow expression: read the rows by "
            "table.dataset().to_table(filter=...), for which PyArrow evaluates it"
        )
    return translated.predicate

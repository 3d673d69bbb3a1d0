"""Parse conditions: SQL text, predicates, Python expressions, and PySpark columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union, cast, get_args

from hindex.api.conditions import Expr
from hindex.errors import PredicateError
from hindex.sql.predicate import Predicate
from hindex.validation import shown

if TYPE_CHECKING:
    import pyspark.sql

Where: TypeAlias = Union[str, Predicate, Expr, "pyspark.sql.Column"]

_NODES = get_args(Predicate)


def parse_condition(where: Where | None) -> Predicate | None:
    """A condition as a predicate; None stays None.

    :raises StatementError: if a text is not a predicate, or a column of PySpark is none that is evaluated here.
    :raises PredicateError: for anything else.
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
    if type(where).__module__.startswith("pyspark.sql."):
        from hindex.api.spark_columns import column_predicate

        return column_predicate(where)
    if isinstance(cast("object", where), bool):
        raise PredicateError(
            f"{where!r} is not a condition: it is what Python makes of `is`, `in` and `==` between plain values; write "
            ".is_null(), .isin() and the like of hindex.col(...)"
        )
    raise PredicateError(
        f"{shown(where)} of type {type(where).__name__} is not a condition: give SQL text, hindex.col(...) with a "
        "comparison, or a PySpark column"
    )

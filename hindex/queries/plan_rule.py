"""The rule of a session's optimizer that reads tables through their indexes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hindex.queries.plan_rewriting import PlanRewriter
from hindex.spark.optimizer_rule import OptimizerRule
from hindex.spark.session import java_session, session_time_zones

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hindex.queries.decisions import QueryExplanation
    from hindex.queries.table_resolution import TableResolver


class PlanRule:
    """The rule of one session, off until `turn` or `forced`.

    Args:
        resolver: resolves tables, and has the session.
        store: the store of the indexes; None if they are beside the tables.
    """

    def __init__(self, resolver: TableResolver, store: str | None) -> None:
        self.rewriter = PlanRewriter(resolver, store)
        self._spark = resolver.spark()
        # within a plan, an import could wait for another thread, and the time zones take a statement of their own
        import pyspark.sql.pandas.types
        import pyspark.sql.types  # noqa: F401

        session_time_zones(self._spark)
        self._rule = OptimizerRule(self._spark, self.rewriter)

    def turn(self, is_on: bool) -> None:
        """Turn the rule on or off for the session."""
        self._rule.turn(is_on)

    def forced(self, is_on: bool) -> AbstractContextManager[None]:
        """Turn the rule on or off for what this thread plans in the block."""
        return self._rule.forced(is_on)

    def explain(self, frame: DataFrame) -> QueryExplanation:
        """Explain how the tables of a DataFrame are read."""
        execution = frame._jdf.queryExecution()
        with self.forced(False):
            optimizer = java_session(self._spark).sessionState().optimizer()
            plan = optimizer.execute(execution.withCachedData().clone())
        return self.rewriter.explain(self._rule.view(plan))

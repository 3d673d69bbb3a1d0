"""hindex as a rule of Spark's optimizer, registered in a classic session.

The rule's Java class is compiled in the driver by Janino, which Spark ships, and calls back to Python through the
callback server that ``foreachBatch`` uses. No lock of Python is held while Java runs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from hindex.errors import UnsupportedError
from hindex.spark.jobs import first_line
from hindex.spark.session import java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("hindex.queries")
_CLASS = "hindex.spark.OptimizerRule"


class Rewriter(Protocol):
    """What rewrites plans."""

    def rewrite(self, view: Any, /) -> Any:  # noqa: ANN401 Java objects
        """Return the plan that stands for a plan, or None to leave it as it is."""


class _Callback:
    """A ``java.util.function.Function`` that gets a plan and returns another, or None to leave it as it is.

    Py4j keeps it as long as Java keeps the rule, and Java as long as Python keeps `OptimizerRule`: a strong reference
    to its owner would keep all of them for ever.
    """

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = ref(rewriter)

    def apply(self, view: Any) -> Any:  # noqa: ANN401 Java objects
        """Rewrite a plan; an error leaves it as it is."""
        rewriter = self._rewriter()
        try:
            return None if rewriter is None else rewriter.rewrite(view)
        except Exception as error:  # noqa: BLE001 Spark reads the tables of whatever fails here
            _LOG.warning("not accelerated: hindex failed", exc_info=error)
            return None

    class Java:
        """The interface that py4j gives the object in Java."""

        implements = ("java.util.function.Function",)


class OptimizerRule:
    """A rule of a session's optimizer; off until `turn` or `forced`.

    Args:
        rewriter: rewrites plans; the caller keeps it.

    Raises:
        UnsupportedError: over Spark Connect, which has no Java in reach, and in versions of Spark with other internals.
    """

    def __init__(self, spark: SparkSession, rewriter: Rewriter) -> None:
        from py4j.protocol import Py4JError
        from pyspark.java_gateway import ensure_callback_server_started

        session = java_session(spark)
        if session is None:
            raise UnsupportedError("Spark Connect has no rules of the optimizer in reach")
        try:
            gateway: Any = spark.sparkContext._gateway
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            self._rule = _rule_class(spark).newInstance()
            self._rule.use(session, _Callback(rewriter), gateway.java_gateway_server.getCallbackClient())
        except Py4JError as error:
            raise UnsupportedError(
                f"this version of Spark takes no rule of hindex's: {first_line(error)}"
            ) from error

    def turn(self, is_on: bool) -> None:
        """Turn the rule on or off for the session, behind the rules that it has."""
        self._rule.turn(is_on)

    @contextmanager
    def forced(self, is_on: bool) -> Iterator[None]:
        """Let this rule alone, or no rule of hindex, be on for what this thread plans in the block."""
        before = self._rule.force(is_on)
        try:
            yield
        finally:
            self._rule.restore(is_on, before)

    def view(self, plan: Any) -> Any:  # noqa: ANN401 Java objects
        """Return a view of a plan, as `rewrite` gets it."""
        return self._rule.view(plan)


def _rule_class(spark: SparkSession) -> Any:  # noqa: ANN401 a Java class
    """Return the compiled class; it is compiled once in a JVM."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    compiled = _classes.get(gateway)
    if compiled is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(java_session(spark).getClass().getClassLoader())
        compiler.cook(files("hindex.spark").joinpath("OptimizerRule.java").read_text("utf-8"))
        compiled = compiler.getClassLoader().loadClass(_CLASS)
        _classes[gateway] = compiled
    return compiled


#: The compiled class, by the gateway to its JVM.
_classes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

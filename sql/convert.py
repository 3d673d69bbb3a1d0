"""sqlglot's expressions to predicates. Strict: a node or argument that is not known here is refused by name.

Recursion goes one level per parenthesis or NOT, which the lexer bounds; chains of AND and OR take loops.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from hindex.sql.convert_values import (
    FILTER_WITH_SPARK,
    ValueConverter,
    as_written,
    chain,
    has_width,
    unwrapped,
)
from hindex.sql.predicate import (
    And,
    Call,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    Like,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
    RLike,
    TruthValue,
    as_predicate,
    compare,
    is_null,
    without_padding,
)

_COMPARISONS: dict[type[exp.Expression], ComparisonOp] = {
    exp.EQ: ComparisonOp.EQ,
    exp.NEQ: ComparisonOp.NE,
    exp.LT: ComparisonOp.LT,
    exp.LTE: ComparisonOp.LE,
    exp.GT: ComparisonOp.GT,
    exp.GTE: ComparisonOp.GE,
    exp.NullSafeEQ: ComparisonOp.NULL_SAFE_EQ,
}
_DEFAULT_ESCAPE = "\\"


def to_predicate(node: exp.Expression, sql: str, elsewhere: str = FILTER_WITH_SPARK) -> Predicate:
    """The predicate of a parsed boolean expression.

    :param elsewhere: who can do what is refused here, for messages.
    :raises SqlSyntaxError: with the offset in ``sql``.
    """
    return Converter(sql, elsewhere).predicate(node)


class Converter(ValueConverter):
    """Converts conditions."""

    def predicate(self, node: exp.Expression) -> Predicate:
        node = unwrapped(node)
        if isinstance(node, (exp.And, exp.Or)):
            kind = exp.And if isinstance(node, exp.And) else exp.Or
            children = tuple(self.predicate(child) for child in chain(node, kind))
            return And(children) if kind is exp.And else Or(children)
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            self.only(node, "this", "expression")
            return self._comparison(operator, node.this, node.expression)
        convert = _PREDICATES.get(type(node))
        if convert is not None:
            return convert(self, node)
        value = self.plain(node) or self.expression(node)
        try:
            return as_predicate(value)
        except ValueError as error:
            return self.fail(node, str(error))

    def _not(self, node: exp.Expression) -> Predicate:
        self.only(node, "this")
        return Not(self.predicate(node.this))

    def _null_safe_ne(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression")
        return Not(self._comparison(ComparisonOp.NULL_SAFE_EQ, node.this, node.expression))

    def _between(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "low", "high")
        return And(
            (
                without_padding(self._comparison(ComparisonOp.GE, node.this, node.args["low"])),
                without_padding(self._comparison(ComparisonOp.LE, node.this, node.args["high"])),
            )
        )

    def _in(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expressions")
        value = self.plain(node.this)
        if isinstance(value, ColumnRef):
            items = [None if has_width(item) else self.plain(item) for item in node.expressions]
            literals = tuple(item for item in items if isinstance(item, Literal))
            if len(literals) == len(items):
                return In(value, literals)
        return In(self.operand(node.this), tuple(self.expression(item) for item in node.expressions))

    def _is(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression", "negate")
        right = self.plain(node.expression)
        if not isinstance(right, Literal) or right.kind not in (LiteralKind.NULL, LiteralKind.BOOLEAN):
            return self.fail(node.expression, "expected NULL, TRUE or FALSE after IS")
        left = self.plain(node.this) or self._left(node.this)
        result: Predicate
        if right.value is None:
            result = is_null(left)
        elif isinstance(left, Literal):
            if left.value is not None and left.kind is not LiteralKind.BOOLEAN:
                self.fail(node, f"{left} is not a boolean")
            result = TruthValue(left.value == right.value)
        else:
            result = compare(ComparisonOp.NULL_SAFE_EQ, left, right)
        return Not(result) if node.args.get("negate") else result

    def _like(self, node: exp.Expression, escape: str = _DEFAULT_ESCAPE) -> Predicate:
        self.only(node, "this", "expression", "negate")
        if isinstance(node.expression, (exp.Any, exp.All)):
            self.unsupported(node.expression)
        pattern = self.literal(node.expression, "the pattern of LIKE is a literal")
        value = self.plain(node.this) or self.operand(node.this)
        if pattern.value is None:
            return TruthValue(None)
        if not isinstance(pattern.value, str) or pattern.kind is not LiteralKind.STRING:
            return self.fail(node.expression, f"expected a string after LIKE, found {pattern}")
        like = Like(value, pattern.value, escape)
        return Not(like) if node.args.get("negate") else like

    def _ilike(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression", "negate")
        if isinstance(node.expression, (exp.Any, exp.All)):
            self.unsupported(node.expression)
        pattern = self.literal(node.expression, "the pattern of ILIKE is a literal")
        if not isinstance(pattern.value, str) or not pattern.value.isascii():
            return self.fail(node.expression, "the pattern of ILIKE is ASCII text here", unsupported=True)
        like = Like(Call("lower", (self.operand(node.this),)), pattern.value.lower())
        return Not(like) if node.args.get("negate") else like

    def _escape(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression")
        escape = self.literal(node.expression, "the escape of LIKE is a literal")
        if not isinstance(node.this, exp.Like) or not isinstance(escape.value, str) or len(escape.value) != 1:
            return self.fail(node.expression, "expected LIKE 'pattern' ESCAPE 'one character'")
        return self._like(node.this, escape.value)

    def _rlike(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression")
        if isinstance(node.expression, (exp.Any, exp.All)):
            self.unsupported(node.expression)
        pattern = self.literal(node.expression, "the pattern of RLIKE is a literal")
        value = self.operand(node.this)
        if pattern.value is None:
            return TruthValue(None)
        if not isinstance(pattern.value, str) or pattern.kind is not LiteralKind.STRING:
            return self.fail(node.expression, f"expected a string after RLIKE, found {pattern}")
        return RLike(value, pattern.value)

    def _comparison(self, operator: ComparisonOp, left: exp.Expression, right: exp.Expression) -> Predicate:
        a, b = self.plain(left), self.plain(right)
        if isinstance(a, Literal) and isinstance(b, Literal):
            truth = _compare(operator, a, b)
            if not isinstance(truth, str):
                return TruthValue(truth, Comparison(operator, a, b))
        elif a is not None and b is not None:
            return compare(operator, a, b)
        return compare(operator, self._left(left), self.operand(right))

    def _left(self, node: exp.Expression) -> Expression:
        """Return the left side of a comparison or IS.

        A comparison there is converted first, as Spark does.
        """
        is_nested = type(node) is exp.Paren and type(as_written(node)) in _COMPARISONS
        return self.expression(node) if is_nested else self.operand(node)


def _compare(operator: ComparisonOp, a: Literal, b: Literal) -> bool | str | None:
    """The truth of a comparison of literals; a string where the kinds need Spark's types to be compared."""
    if operator is ComparisonOp.NULL_SAFE_EQ and (a.value is None or b.value is None):
        return a.value is b.value
    if a.value is None or b.value is None:
        return None
    x, y = a.value, b.value
    if isinstance(x, str) and isinstance(y, str) and a.kind is b.kind is LiteralKind.STRING:
        sign = _sign(x.encode("utf-8", "surrogatepass"), y.encode("utf-8", "surrogatepass"))
    elif isinstance(x, bool) or isinstance(y, bool):
        if not (isinstance(x, bool) and isinstance(y, bool)):
            return "kinds"
        sign = _sign(x, y)
    elif {a.kind, b.kind} <= {LiteralKind.INTEGER, LiteralKind.DECIMAL} or (
        isinstance(x, datetime.date) and isinstance(y, datetime.date)
    ):
        sign = _sign(x, y)
    else:
        return "kinds"
    return {
        ComparisonOp.EQ: sign == 0,
        ComparisonOp.NULL_SAFE_EQ: sign == 0,
        ComparisonOp.NE: sign != 0,
        ComparisonOp.LT: sign < 0,
        ComparisonOp.LE: sign <= 0,
        ComparisonOp.GT: sign > 0,
        ComparisonOp.GE: sign >= 0,
    }[operator]


def _sign(x: bytes | bool | int | Decimal | object, y: object) -> int:
    return (x > y) - (x < y)  # type: ignore[operator]


_PREDICATES: dict[type[exp.Expression], Callable[[Converter, exp.Expression], Predicate]] = {
    exp.Not: Converter._not,
    exp.NullSafeNEQ: Converter._null_safe_ne,
    exp.Between: Converter._between,
    exp.In: Converter._in,
    exp.Is: Converter._is,
    exp.Like: Converter._like,
    exp.ILike: Converter._ilike,
    exp.Escape: Converter._escape,
    exp.RegexpLike: Converter._rlike,
}
Converter.conditions = frozenset({exp.And, exp.Or, *_COMPARISONS, *_PREDICATES})

"""sqlglot's expressions to predicates. Strict: a node or argument that is not known here is refused by name.

Recursion goes one level per parenthesis or NOT, which the lexer bounds; chains of AND and OR take loops.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp

from hindex.sql import literals
from hindex.sql.lexer import SqlSyntaxError
from hindex.sql.literals import LiteralError
from hindex.sql.predicate import (
    And,
    BooleanColumn,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
)

REMEDY = "compare one column with literals here, or filter with Spark on scan(...).to_spark()"

_COMPARISONS: dict[type[exp.Expression], ComparisonOp] = {
    exp.EQ: ComparisonOp.EQ,
    exp.NEQ: ComparisonOp.NE,
    exp.LT: ComparisonOp.LT,
    exp.LTE: ComparisonOp.LE,
    exp.GT: ComparisonOp.GT,
    exp.GTE: ComparisonOp.GE,
    exp.NullSafeEQ: ComparisonOp.NULL_SAFE_EQ,
}
_ARITHMETIC: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}

# The names of sqlglot's types to Spark's.
_CAST_TYPES = {
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "DECIMAL": "DECIMAL",
    "TEXT": "STRING",
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "BIGINT": "BIGINT",
}
# What is not supported, by its name in a message; the first that fits.
_NAMES: dict[Any, str] = {
    (exp.Any, exp.All): "ANY or ALL",
    (exp.Query, exp.Exists): "subquery",
    exp.Case: "CASE",
    exp.Cast: "cast to this type or of a value that is not a literal",
    (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg): "arithmetic on anything but literals",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.DPipe: "operator ||",
    exp.Bracket: "access to an element by [...]",
    exp.Tuple: "list of values",
    exp.Placeholder: "parameter",
    exp.Interval: "INTERVAL",
    (exp.Predicate, exp.Connector, exp.Not): "condition in place of a value",
}
_WORD = re.compile(r"[^\W\d]\w*")


def to_predicate(node: exp.Expression, sql: str) -> Predicate:
    """The predicate of a parsed boolean expression. :raises SqlSyntaxError: with the offset in ``sql``."""
    return _Converter(sql).predicate(node)


class _Converter:
    def __init__(self, sql: str) -> None:
        self._sql = sql

    def predicate(self, node: exp.Expression) -> Predicate:
        node = _unwrapped(node)
        if isinstance(node, (exp.And, exp.Or)):
            kind = exp.And if isinstance(node, exp.And) else exp.Or
            children = tuple(self.predicate(child) for child in _chain(node, kind))
            return And(children) if kind is exp.And else Or(children)
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            self._only(node, "this", "expression")
            return self._comparison(operator, node.this, node.expression)
        convert = _PREDICATES.get(type(node))
        if convert is not None:
            return convert(self, node)
        value = self._value(node)
        if isinstance(value, ColumnRef):
            return BooleanColumn(value)
        if isinstance(value.value, bool) or value.value is None:
            return Constant(value.value)
        return self._fail(node, f"expected a condition, found the literal {value}")

    def _not(self, node: exp.Expression) -> Predicate:
        self._only(node, "this")
        return Not(self.predicate(node.this))

    def _null_safe_ne(self, node: exp.Expression) -> Predicate:
        self._only(node, "this", "expression")
        return Not(self._comparison(ComparisonOp.NULL_SAFE_EQ, node.this, node.expression))

    def _between(self, node: exp.Expression) -> Predicate:
        self._only(node, "this", "low", "high")
        return And(
            (
                self._comparison(ComparisonOp.GE, node.this, node.args["low"]),
                self._comparison(ComparisonOp.LE, node.this, node.args["high"]),
            )
        )

    def _in(self, node: exp.Expression) -> Predicate:
        self._only(node, "this", "expressions")
        items = tuple(self._literal(item, "a list of IN holds literals") for item in node.expressions)
        if not items:
            self._fail(node, "IN needs at least one value")
        return In(self._column(node.this, "IN"), items)

    def _is(self, node: exp.Expression) -> Predicate:
        self._only(node, "this", "expression", "negate")
        right = self._value(node.expression)
        left = self._value(node.this)
        if isinstance(right, ColumnRef) or right.kind not in (LiteralKind.NULL, LiteralKind.BOOLEAN):
            return self._fail(node.expression, "expected NULL, TRUE or FALSE after IS")
        result: Predicate
        if isinstance(left, Literal):
            if left.value is not None and (right.value is not None and left.kind is not LiteralKind.BOOLEAN):
                self._fail(node, f"{left} is not a boolean")
            result = Constant(left.value == right.value)
        elif right.value is None:
            result = IsNull(left)
        else:
            result = Comparison(ComparisonOp.NULL_SAFE_EQ, left, right)
        return Not(result) if node.args.get("negate") else result

    def _like(self, node: exp.Expression, escape: str = "\\") -> Predicate:
        self._only(node, "this", "expression", "negate")
        pattern = self._literal(node.expression, "the pattern of LIKE is a literal")
        column = self._column(node.this, "LIKE")
        if pattern.value is None:
            return Constant(None)
        if not isinstance(pattern.value, str) or pattern.kind is not LiteralKind.STRING:
            return self._fail(node.expression, f"expected a string after LIKE, found {pattern}")
        like = Like(column, pattern.value, escape)
        return Not(like) if node.args.get("negate") else like

    def _escape(self, node: exp.Expression) -> Predicate:
        self._only(node, "this", "expression")
        escape = self._literal(node.expression, "the escape of LIKE is a literal")
        if not isinstance(node.this, exp.Like) or not isinstance(escape.value, str) or len(escape.value) != 1:
            return self._fail(node.expression, "expected LIKE 'pattern' ESCAPE 'one character'")
        return self._like(node.this, escape.value)

    def _comparison(self, operator: ComparisonOp, left: exp.Expression, right: exp.Expression) -> Predicate:
        a, b = self._value(left), self._value(right)
        if isinstance(a, ColumnRef):
            if isinstance(b, ColumnRef):
                self._fail(left, f"comparison of two columns, {a} and {b}; {REMEDY}", unsupported=True)
            return Comparison(operator, a, b)
        if isinstance(b, ColumnRef):
            return Comparison(operator.flipped, b, a)
        truth = _compare(operator, a, b)
        if isinstance(truth, str):
            self._fail(left, f"comparison of two literals, {a} and {b}; {REMEDY}", unsupported=True)
        return Constant(truth)

    def _column(self, node: exp.Expression, operator: str) -> ColumnRef:
        value = self._value(node)
        if isinstance(value, Literal):
            self._fail(node, f"expected a column before {operator}, found the literal {value}")
        return value

    def _literal(self, node: exp.Expression, rule: str) -> Literal:
        value = self._value(node)
        if isinstance(value, ColumnRef):
            self._fail(node, f"{rule}, found the column {value}")
        return value

    def _value(self, node: exp.Expression) -> ColumnRef | Literal:
        node = _unwrapped(node)
        try:
            if type(node) is exp.Literal:
                return (
                    Literal(node.this, LiteralKind.STRING) if node.is_string else literals.number(node.this)
                )
            convert = _VALUES.get(type(node))
            value = None if convert is None else convert(self, node)
        except LiteralError as error:
            return self._fail(node, str(error))
        return self._unsupported(node) if value is None else value

    def _column_ref(self, node: exp.Expression) -> ColumnRef | None:
        if not isinstance(node, (exp.Column, exp.Dot)) or node.args.get("join_mark"):
            return None
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            return None
        if not all(part.name for part in parts):
            self._fail(node, "a column name is empty")
        return ColumnRef(tuple(part.name for part in parts))

    def _null(self, node: exp.Expression) -> Literal:
        return Literal(None, LiteralKind.NULL)

    def _boolean(self, node: exp.Expression) -> Literal:
        return Literal(bool(node.this), LiteralKind.BOOLEAN)

    def _binary(self, node: exp.Expression) -> Literal:
        digits = str(node.this)
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), LiteralKind.BINARY)

    def _negative(self, node: exp.Expression) -> Literal | None:
        value = self._value(node.this)
        return None if isinstance(value, ColumnRef) else literals.negate(value)

    def _arithmetic(self, node: exp.Expression) -> Literal | None:
        self._only(node, "this", "expression")
        # Loops over the left side, which is as deep as the chain is long.
        operands: list[tuple[str, exp.Expression]] = []
        first = node
        while type(first) in _ARITHMETIC:
            operands.append((_ARITHMETIC[type(first)], first.expression))
            first = first.this
        result = self._value(first)
        for operator, operand in reversed(operands):
            right = self._value(operand)
            if isinstance(result, ColumnRef) or isinstance(right, ColumnRef):
                return None
            folded = literals.fold(operator, result, right)
            if folded is None:
                return None
            result = folded
        return None if isinstance(result, ColumnRef) else result

    def _cast(self, node: exp.Expression) -> Literal | None:
        self._only(node, "this", "to", "safe", "requires_string")
        value = self._value(node.this)
        kind = node.args["to"]
        name = _CAST_TYPES.get(getattr(kind.this, "value", ""))
        if isinstance(value, ColumnRef) or name is None:
            return None
        parameters = tuple(int(parameter.name) for parameter in kind.expressions if parameter.name.isdigit())
        return literals.cast(value, name, parameters)

    def _only(self, node: exp.Expression, *known: str) -> None:
        """Refuses arguments that are set and not known: an ignored one would change the meaning."""
        for key, argument in node.args.items():
            if key not in known and argument:
                self._unsupported(node)

    def _unsupported(self, node: exp.Expression) -> NoReturn:
        self._fail(node, f"{self._describe(node)}; {REMEDY}", unsupported=True)

    def _describe(self, node: exp.Expression) -> str:
        for kind, name in _NAMES.items():
            if isinstance(node, kind):
                return name
        if isinstance(node, exp.Func):
            start = node.meta.get("start")
            written = None if start is None else _WORD.match(self._sql, start)
            return f"function {written[0] if written else type(node).__name__}"
        return f"expression of the kind {type(node).__name__}"

    def _fail(self, node: exp.Expression, message: str, *, unsupported: bool = False) -> NoReturn:
        raise SqlSyntaxError(message, _offset(node), unsupported=unsupported)


def _unwrapped(node: exp.Expression) -> exp.Expression:
    while type(node) is exp.Paren:
        node = node.this
    return node


def _chain(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of nested nodes of one kind, from left to right."""
    operands: list[exp.Expression] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is kind:
            stack.append(current.args["expression"])
            stack.append(current.args["this"])
        else:
            operands.append(current)
    return operands


def _offset(node: exp.Expression) -> int:
    """Where a node begins: the first position known of it, of what is below it, or of what is around it."""
    around: Any = node
    while around is not None:
        starts = [part.meta["start"] for part in around.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        around = around.parent
    return 0


def _compare(operator: ComparisonOp, a: Literal, b: Literal) -> bool | str | None:
    """The truth of a comparison of literals; a string where the kinds cannot be compared."""
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


_PREDICATES: dict[type[exp.Expression], Callable[[_Converter, exp.Expression], Predicate]] = {
    exp.Not: _Converter._not,
    exp.NullSafeNEQ: _Converter._null_safe_ne,
    exp.Between: _Converter._between,
    exp.In: _Converter._in,
    exp.Is: _Converter._is,
    exp.Like: _Converter._like,
    exp.Escape: _Converter._escape,
}
_VALUES: dict[type[exp.Expression], Callable[[_Converter, exp.Expression], ColumnRef | Literal | None]] = {
    exp.Column: _Converter._column_ref,
    exp.Dot: _Converter._column_ref,
    exp.Null: _Converter._null,
    exp.Boolean: _Converter._boolean,
    exp.HexString: _Converter._binary,
    exp.Neg: _Converter._negative,
    exp.Add: _Converter._arithmetic,
    exp.Sub: _Converter._arithmetic,
    exp.Mul: _Converter._arithmetic,
    exp.Cast: _Converter._cast,
    exp.TryCast: _Converter._cast,
}

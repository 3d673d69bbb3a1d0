"""Conversion of sqlglot's expressions to predicates and values; unknown nodes and arguments are refused by name.

Recursion goes one level per parenthesis or NOT, which the lexer bounds; chains of AND and OR take loops.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from hindex.sql import literals
from hindex.sql.functions import FunctionError, call, contains_any, element_field
from hindex.sql.lexer import SqlSyntaxError
from hindex.sql.literals import LiteralError
from hindex.sql.predicate import (
    NULL,
    And,
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    Interval,
    Like,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
    RLike,
    TruthValue,
    all_of,
    any_of,
    as_predicate,
    as_value,
    compare,
    is_null,
    without_padding,
)

T = TypeVar("T")

AGGREGATES = ("AVG", "COUNT", "MAX", "MIN", "SUM")

#: How to evaluate a condition that is refused here.
FILTER_WITH_SPARK = "Filter with Spark on scan(...).to_spark()"
_EVALUATED = "the conditions that are evaluated here are in docs/sql-predicates.md"

#: Where a node's ``meta`` tells that its parentheses are written.
WRITTEN = "written"

#: More operators than these in one expression without parentheses would exhaust the stack further on.
MAX_OPERATORS = 100

_ARITHMETIC: dict[type[exp.Expression], ArithmeticOp] = {
    exp.Add: ArithmeticOp.ADD,
    exp.Sub: ArithmeticOp.SUBTRACT,
    exp.Mul: ArithmeticOp.MULTIPLY,
    exp.Div: ArithmeticOp.DIVIDE,
    exp.Mod: ArithmeticOp.REMAINDER,
    exp.IntDiv: ArithmeticOp.DIV,
}
_SUM = (exp.Add, exp.Sub)

# The names of sqlglot's types to Spark's.
_CAST_TYPES = {
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "DECIMAL": "DECIMAL",
    "TEXT": "STRING",
    "BINARY": "BINARY",
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "BIGINT": "BIGINT",
}
# Casts of literals whose result is a literal of just that type.
_LITERAL_TYPES = frozenset({"BOOLEAN", "DATE", "DOUBLE", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ"})
# Beside a column, a FLOAT is compared as the DOUBLE of its value. Whole numbers and decimals do not amount to literals:
# Spark types a literal by its digits, and what is computed by its type.
_PLAIN_TYPES = _LITERAL_TYPES | {"FLOAT"}
_SUFFIX_TYPES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "F": "FLOAT"}
# What is not supported, by its name in a message; the first that fits.
_NAMES: dict[Any, str] = {
    (exp.Any, exp.All): "ANY or ALL",
    (exp.Query, exp.Exists): "subquery",
    exp.Cast: "cast to this type",
    exp.Tuple: "list of values",
    exp.Interval: "INTERVAL",
    exp.Window: "window function",
    exp.Lambda: "lambda function",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Collate: "COLLATE",
    (exp.JSONExtract, exp.JSONExtractScalar): "operator ->",
    (exp.Parameter, exp.SessionParameter): "parameter",
}
#: So much of an expression is shown in a message.
_SHOWN = 60
_WORD = re.compile(r"[^\W\d]\w*")


_COMPARISONS: dict[type[exp.Expression], ComparisonOp] = {
    exp.EQ: ComparisonOp.EQ,
    exp.NEQ: ComparisonOp.NE,
    exp.LT: ComparisonOp.LT,
    exp.LTE: ComparisonOp.LE,
    exp.GT: ComparisonOp.GT,
    exp.GTE: ComparisonOp.GE,
    exp.NullSafeEQ: ComparisonOp.NULL_SAFE_EQ,
}
#: Comparisons of lists of values.
_ROW_OPERATORS = frozenset({ComparisonOp.EQ, ComparisonOp.NE, ComparisonOp.NULL_SAFE_EQ})
_DEFAULT_ESCAPE = "\\"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")


def to_predicate(
    node: exp.Expression,
    sql: str,
    alternative: str = FILTER_WITH_SPARK,
    unqualified: Callable[[ColumnRef], ColumnRef] = lambda column: column,
) -> Predicate:
    """Return the predicate of a parsed boolean expression.

    Args:
        alternative: how to run what is refused here, for messages.
        unqualified: returns a column without the name of its table.

    Raises:
        SqlSyntaxError: with the offset in ``sql``.
    """
    return Converter(sql, alternative, unqualified).predicate(node)


class Converter:
    """Converts conditions and values.

    Values have two conversions. The plain one takes columns and what is equivalent to a literal, for the leaves that
    indexes answer; the other takes every expression, and keeps the types that Spark gives to its literals.
    """

    def __init__(
        self,
        sql: str,
        alternative: str,
        unqualified: Callable[[ColumnRef], ColumnRef] = lambda column: column,
    ) -> None:
        self._sql = sql
        self._alternative = alternative
        self._unqualified = unqualified

    def column(self, node: exp.Expression, written: ColumnRef) -> ColumnRef:
        """Resolve the name of a column."""
        return self._unqualified(written)

    def aggregate(self, node: exp.Expression) -> ColumnRef | None:
        """Return the column of an aggregate; None for any other function.

        Raises:
            SqlSyntaxError: where aggregates have no place.
        """
        name = node.name.upper()
        if name in AGGREGATES:
            self.fail(
                node,
                f"{name} is an aggregate, which neither WHERE nor an index can have; HAVING can",
            )
        return None

    # Conditions

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
        row = unwrapped(node.this)
        if type(row) is exp.Tuple:
            return self._in_rows(row, node.expressions)
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

    def _ilike(self, node: exp.Expression, escape: str = _DEFAULT_ESCAPE) -> Predicate:
        self.only(node, "this", "expression", "negate")
        if isinstance(node.expression, (exp.Any, exp.All)):
            self.unsupported(node.expression)
        pattern = self.literal(node.expression, "the pattern of ILIKE is a literal")
        if not isinstance(pattern.value, str) or not pattern.value.isascii():
            return self.fail(node.expression, "the pattern of ILIKE is ASCII text here", unsupported=True)
        # Spark lower-cases the pattern, but not the escape character
        like = Like(Call("lower", (self.operand(node.this),)), pattern.value.lower(), escape)
        return Not(like) if node.args.get("negate") else like

    def _escape(self, node: exp.Expression) -> Predicate:
        self.only(node, "this", "expression")
        escape = self.literal(node.expression, "the escape of LIKE is a literal")
        is_like = isinstance(node.this, (exp.Like, exp.ILike))
        if not is_like or not isinstance(escape.value, str) or len(escape.value) != 1:
            return self.fail(node.expression, "expected LIKE or ILIKE 'pattern' ESCAPE 'one character'")
        return (self._ilike if isinstance(node.this, exp.ILike) else self._like)(node.this, escape.value)

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
        if type(unwrapped(left)) is exp.Tuple and operator in _ROW_OPERATORS:
            equal = self._equal_rows(left, right)
            return Not(equal) if operator is ComparisonOp.NE else equal
        a, b = self.plain(left), self.plain(right)
        if isinstance(a, Literal) and isinstance(b, Literal):
            truth = _compare(operator, a, b)
            if not isinstance(truth, str):
                return TruthValue(truth, Comparison(operator, a, b))
        elif a is not None and b is not None:
            return compare(operator, a, b)
        return compare(operator, self._left(left), self.operand(right))

    def _equal_rows(self, left: exp.Expression, right: exp.Expression) -> Predicate:
        """Convert ``(a, b) = (1, 2)``: a comparison of structs, to which Spark has NULL equal to NULL."""
        return self._in_rows(unwrapped(left), [right])

    def _in_rows(self, row: exp.Expression, items: list[exp.Expression]) -> Predicate:
        values = [self.expression(column) for column in row.expressions]
        kinds: list[set[LiteralKind]] = [set() for _ in values]
        members: list[Predicate] = []
        for item in items:
            parts = unwrapped(item).expressions if type(unwrapped(item)) is exp.Tuple else []
            literals = [part for part in map(self.plain, parts) if isinstance(part, Literal) and part != NULL]
            if len(literals) != len(values):
                self.unsupported(item)
            for number, literal in enumerate(literals):
                kinds[number].add(literal.kind)
            members.append(
                all_of(
                    without_padding(compare(ComparisonOp.NULL_SAFE_EQ, value, literal))
                    for value, literal in zip(values, literals, strict=True)
                )
            )
        if any(len(kind) > 1 for kind in kinds):
            # Spark casts all members to one type
            self.unsupported(row)
        return any_of(members)

    def _left(self, node: exp.Expression) -> Expression:
        """Return the left side of a comparison or IS.

        A comparison there is converted first, as Spark does.
        """
        is_nested = type(node) is exp.Paren and type(as_written(node)) in _COMPARISONS
        return self.expression(node) if is_nested else self.operand(node)

    # Plain values

    def plain(self, node: exp.Expression) -> ColumnRef | Literal | None:
        """Return a column, or the literal that a node is equivalent to; None for any other node."""
        node = unwrapped(node)
        convert = _PLAIN.get(type(node))
        return None if convert is None else self._checked(node, lambda: convert(self, node))

    def literal(self, node: exp.Expression, rule: str) -> Literal:
        """Evaluate a constant node to a literal.

        Args:
            rule: what the message says where it does not.
        """
        value = self.plain(node) or self._joined(node)
        if not isinstance(value, Literal):
            self.fail(node, f"{rule}, found {'an expression' if value is None else f'the column {value}'}")
        return value

    def _joined(self, node: exp.Expression) -> Literal | None:
        """Return the string of ``'a' || 'b'`` and ``concat('a', 'b')``; None for any other node."""
        node = unwrapped(node)
        if not isinstance(node, (exp.DPipe, exp.Anonymous)):
            return None
        value = self.expression(node)
        if not isinstance(value, Call) or value.name != "concat":
            return None
        parts = [arg for arg in value.args if isinstance(arg, Literal) and arg.kind is LiteralKind.STRING]
        if len(parts) < len(value.args):
            return NULL if NULL in value.args else None
        return Literal("".join(str(part.value) for part in parts), LiteralKind.STRING)

    def _plain_number(self, node: exp.Expression) -> Literal | None:
        """Return a number; None for a TINYINT, which is typed as an expression."""
        return None if _suffix_type(node) == "TINYINT" else self._number(node)

    def _number(self, node: exp.Expression) -> Literal:
        if not node.is_string:
            return literals.number(node.this)
        start = node.meta.get("start")
        is_double = start is not None and self._sql[start : start + 1] == '"'
        return Literal(node.this, LiteralKind.STRING, is_double)

    def _column_ref(self, node: exp.Expression) -> ColumnRef | None:
        column = self.written(node)
        return None if column is None else self.column(node, column)

    def written(self, node: exp.Expression) -> ColumnRef | None:
        """Return the column of a name as it is written; None for any other node."""
        parts = name_parts(node)
        if parts is None:
            return None
        if not all(part.name for part in parts):
            self.fail(node, "a column name is empty")
        return ColumnRef(tuple(part.name for part in parts))

    def _null(self, node: exp.Expression) -> Literal:
        return NULL

    def _boolean(self, node: exp.Expression) -> Literal:
        return Literal(bool(node.this), LiteralKind.BOOLEAN)

    def _binary(self, node: exp.Expression) -> Literal:
        digits = str(node.this)
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), LiteralKind.BINARY)

    def _plain_negative(self, node: exp.Expression) -> Literal | None:
        """Return a negative number; before another value, the sign is an operator."""
        value = self.plain(node.this) if type(node.this) is exp.Literal else None
        return literals.negate(value) if isinstance(value, Literal) else None

    def _plain_cast(self, node: exp.Expression) -> Literal | None:
        self.only(node, "this", "to", "safe", "requires_string")
        value = self.plain(node.this)
        name, _ = _cast_type(node)
        if not isinstance(value, Literal) or name not in _PLAIN_TYPES or node.args.get("safe"):
            return None
        return None if _is_null_text(value, name) else literals.cast(value, name)

    def _plain_call(self, node: exp.Expression) -> ColumnRef | Literal | None:
        """Return the literal of a call such as ``double('nan')``, or the column of an aggregate."""
        aggregate = self.aggregate(node) if isinstance(node.this, str) else None
        if aggregate is not None:
            return aggregate
        arguments = node.expressions
        if len(arguments) != 1 or not isinstance(node.this, str):
            return None
        try:
            expression = call(node.name, [NULL])
        except (FunctionError, ValueError):
            return None
        if not isinstance(expression, Cast) or expression.to not in _PLAIN_TYPES:
            return None
        value = self.plain(arguments[0])
        if not isinstance(value, Literal) or _is_null_text(value, expression.to):
            return None
        return literals.cast(value, expression.to)

    # Expressions

    def expression(self, node: exp.Expression) -> Expression:
        """Convert any value."""
        node = unwrapped(node)
        convert = _EXPRESSIONS.get(type(node))
        if convert is None:
            if type(node) in _CONDITIONS:
                return as_value(self.predicate(node))
            self.unsupported(node)
        value = self._checked(node, lambda: convert(self, node))
        return self.unsupported(node) if value is None else value

    def operand(self, node: exp.Expression) -> Expression:
        """Convert an operand. A condition needs parentheses there: Spark and sqlglot parse it differently without."""
        if type(as_written(node)) in _CONDITIONS:
            self.fail(node, "condition in place of a value; put it into parentheses", unsupported=True)
        return self.expression(node)

    def _typed_number(self, node: exp.Expression, sign: str = "") -> Expression:
        """Return a literal; a cast if Spark does not infer the type from the value."""
        value = self._number(node)
        if sign:
            negative = literals.negate(value)
            assert negative is not None
            value = negative
        to = _suffix_type(node)
        return value if to is None else Cast(value, to, is_literal=to in ("BIGINT", "SMALLINT"))

    def _negative(self, node: exp.Expression) -> Expression:
        if type(node.this) is exp.Literal and not node.this.is_string:
            return self._typed_number(node.this, "-")
        return Call("negative", (self.operand(node.this),))

    def _arithmetic(self, node: exp.Expression) -> Expression:
        first, operands = self._operands(node)
        if len(operands) > MAX_OPERATORS:
            subject = f"an expression of more than {MAX_OPERATORS} operators"
            self.fail(node, subject, unsupported=True)
        result = self.operand(first)
        for kind, operand in operands:
            result = Arithmetic(_ARITHMETIC[kind], result, self.operand(operand))
        return result

    def _operands(
        self, node: exp.Expression
    ) -> tuple[exp.Expression, list[tuple[type[exp.Expression], exp.Expression]]]:
        """Return the first operand of a chain, and each following one with its operator."""
        operands: list[tuple[type[exp.Expression], exp.Expression]] = []
        first = node
        while type(first) in _ARITHMETIC:
            self.only(first, "this", "expression", "typed", "safe")
            operands.append((type(first), first.expression))
            first = first.this
        return first, operands[::-1]

    def _concat(self, node: exp.Expression) -> Expression:
        """Convert ``a || b``. Beside + and -, Spark parses it from left to right, unlike sqlglot."""
        parts = chain(node, exp.DPipe)
        for part in parts:
            if isinstance(part, _SUM):
                self.fail(part, "arithmetic beside ||: put it into parentheses", unsupported=True)
        return Call("concat", tuple(self.operand(part) for part in parts))

    def _cast(self, node: exp.Expression) -> Expression | None:
        self.only(node, "this", "to", "safe", "requires_string")
        name, parameters = _cast_type(node)
        if name is None:
            return None
        value, is_try = self.expression(node.this), bool(node.args.get("safe"))
        if name == "TIMESTAMP_NTZ":
            # only literals are of this type here
            return None if is_try or not isinstance(value, Literal) else literals.cast(value, name)
        return self._cast_to(value, name, parameters, is_try=is_try)

    def _cast_to(
        self, value: Expression, name: str, parameters: tuple[int, ...] = (), *, is_try: bool = False
    ) -> Expression:
        if (
            isinstance(value, Literal)
            and name in _LITERAL_TYPES
            and not is_try
            and not _is_null_text(value, name)
        ):
            result = literals.cast(value, name)
            if result is not None:
                return result
        if name == "DECIMAL":
            precision, scale = (*parameters, *(10, 0)[len(parameters) :])[:2]
            if not 0 <= scale <= precision <= literals.MAX_DECIMAL_DIGITS or not precision:
                raise LiteralError(f"DECIMAL({precision}, {scale}) is not a type")
            name = f"DECIMAL({precision}, {scale})"
        return Cast(value, name, is_try)

    def _clock(self, node: exp.Expression) -> Expression:
        self.only(node)
        return Call(_CLOCKS[type(node)], ())

    def _interval(self, node: exp.Expression) -> Expression | None:
        self.only(node, "this", "unit")
        number, unit = node.this, node.args.get("unit")
        if (
            type(number) is not exp.Literal
            or type(unit) is not exp.Var
            or not _WHOLE_NUMBER.fullmatch(number.this)
        ):
            return None
        try:
            return Interval(int(number.this), unit.name.upper().removesuffix("S"))
        except ValueError:
            return None

    def _case(self, node: exp.Expression) -> Expression:
        self.only(node, "this", "ifs", "default")
        subject = None if node.this is None else self.operand(node.this)
        whens = tuple(
            (
                self.predicate(branch.this)
                if subject is None
                else compare(ComparisonOp.EQ, subject, self.expression(branch.this)),
                self.expression(branch.args["true"]),
            )
            for branch in node.args["ifs"]
        )
        default = node.args.get("default")
        return Case(whens, None if default is None else self.expression(default))

    def _call(self, node: exp.Expression) -> Expression:
        if not isinstance(node.this, str):
            self.unsupported(node)
        if node.name.lower() == "exists":
            return self._exists(node)
        return self.aggregate(node) or self._function(node, node.name, node.expressions)

    def _exists(self, node: exp.Expression) -> Expression:
        """Convert ``exists(a, x -> x IN (1, 2))``: it is NULL where `array_contains` and `arrays_overlap` are."""
        function = node.expressions[-1]
        if len(node.expressions) != 2 or type(function) is not exp.Lambda or len(function.expressions) != 1:
            self.unsupported(node)
        test, element = unwrapped(function.this), function.expressions[0]
        sides = [test.this, *test.expressions] if type(test) is exp.In else []
        if type(test) is exp.EQ:
            sides = [test.this, test.expression]
            sides.sort(key=lambda side: _field_of(side, element) is None)
        field = _field_of(sides[0], element) if sides else None
        if field is None:
            self.fail(
                function,
                f"exists of a function other than {element.name} -> {element.name} = value, or IN; {_EVALUATED}",
                unsupported=True,
            )
        self.only(test, "this", "expression", "expressions")
        array = self.expression(node.expressions[0])
        values = [self.expression(value) for value in sides[1:]]
        return contains_any(element_field(array, field) if field else array, values)

    def _dot(self, node: exp.Expression) -> Expression | None:
        """Convert a column, or a field of all elements, ``items[*].sku``."""
        array = node.this
        if type(array) is exp.Bracket and type(array.expressions[0]) is exp.Star:
            return element_field(self.expression(array.this), node.expression.name)
        return self._column_ref(node)

    def _brackets(self, node: exp.Expression) -> Expression:
        self.only(node, "this", "expressions")
        if len(node.expressions) == 1 and type(node.expressions[0]) is exp.Star:
            return self._function(node, "[*]", [node.this])
        return self._function(node, "[]", [node.this, *node.expressions])

    def _special(self, node: exp.Expression) -> Expression:
        """Convert the functions with own nodes in sqlglot, as Spark has words between their arguments."""
        names = _SPECIAL[type(node)]
        # the parser of Spark's dialect sets zero_start, for its meaning of substring(s, 0)
        self.only(node, *names, "zero_start")
        arguments = [node.args[name] for name in names if node.args.get(name) is not None]
        return self._function(node, type(node).__name__.lower(), arguments)

    def _function(self, node: exp.Expression, name: str, arguments: list[exp.Expression]) -> Expression:
        try:
            result = call(name, [self.expression(argument) for argument in arguments])
        except FunctionError as error:
            self.fail(node, str(error), unsupported=True)
        except ValueError as error:
            self.fail(node, str(error))
        if isinstance(result, Cast):
            return self._cast_to(result.child, result.to)
        return as_value(result) if not isinstance(result, _VALUES) else result

    def _placeholder(self, node: exp.Expression) -> NoReturn:
        self.fail(
            node,
            "a parameter has no value here: write the value in its place, give it to hx.sql as args, or in Python make "
            "the condition of it, hindex.col('k') == value",
        )

    # Errors

    def _checked(self, node: exp.Expression, convert: Callable[[], T]) -> T:
        try:
            return convert()
        except LiteralError as error:
            return self.fail(node, str(error))

    def only(self, node: exp.Expression, *names: str) -> None:
        """Refuse any other argument that is set: to ignore it would change the meaning."""
        for key, argument in node.args.items():
            if key not in names and argument:
                self.unsupported(node)

    def unsupported(self, node: exp.Expression) -> NoReturn:
        self.fail(node, f"{self._describe(node)}; {_EVALUATED}", unsupported=True)

    def _describe(self, node: exp.Expression) -> str:
        for kind, name in _NAMES.items():
            if isinstance(node, kind):
                return name
        if isinstance(node, exp.Func):
            start = node.meta.get("start")
            written = None if start is None else _WORD.match(self._sql, start)
            return f"function {written[0] if written else node.sql_name().lower()}"
        text = node.sql("spark", unsupported_level=ErrorLevel.IGNORE)
        return f"expression '{shortened(text)}'"

    def fail(self, node: exp.Expression, message: str, *, unsupported: bool = False) -> NoReturn:
        """Refuse a node; what is only ``unsupported`` runs elsewhere, as the message says."""
        message = f"{message}. {self._alternative}" if unsupported else message
        raise SqlSyntaxError(message, _offset(node), unsupported=unsupported)


_VALUES = (Arithmetic, Call, Case, Cast, ColumnRef, Interval, Literal)


def shortened(text: str) -> str:
    """Return a text for a message: in one line, and cut if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def unwrapped(node: exp.Expression) -> exp.Expression:
    """Return a node without its parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node


def _field_of(node: exp.Expression, element: exp.Expression) -> str | None:
    """Return the field of an element that a node is, "" for the element itself; None for any other node."""
    node = unwrapped(node)
    is_field = type(node) is exp.Dot and node.this == element and type(node.expression) is exp.Identifier
    return node.expression.name if is_field else "" if node == element else None


def name_parts(node: exp.Expression) -> list[exp.Identifier] | None:
    """Return the parts of a name with dots; None for any other node, such as a field of a function's result.

    Of such a node, sqlglot's own ``parts`` are the names behind the function.
    """
    fields: list[Any] = []
    while isinstance(node, exp.Dot):
        fields.insert(0, node.expression)
        node = unwrapped(node.this)
    if not isinstance(node, exp.Column) or node.args.get("join_mark"):
        return None
    parts = [*node.parts, *fields]
    return parts if all(isinstance(part, exp.Identifier) for part in parts) else None


def as_written(node: exp.Expression) -> exp.Expression:
    """Return a node without the parentheses that sqlglot put around it."""
    while type(node) is exp.Paren and not node.meta.get(WRITTEN):
        node = node.this
    return node


def chain(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """Return the operands of nested nodes of one kind, from left to right."""
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


def _is_null_text(literal: Literal, name: str) -> bool:
    """Return True if a literal is NULL cast to a string, which Spark distinguishes from NULL in lists of strings."""
    return literal.value is None and name == "STRING"


def _suffix_type(node: exp.Expression) -> str | None:
    """Return the type of a number's suffix, unless Spark infers it from the value."""
    return None if node.is_string else _SUFFIX_TYPES.get(node.this[-1:].upper())


def has_width(node: exp.Expression) -> bool:
    """Return True if a node is a number with a type suffix such as ``5L``, signed or not."""
    node = unwrapped(node)
    return (
        has_width(node.this)
        if type(node) is exp.Neg
        else (type(node) is exp.Literal and _suffix_type(node) in ("BIGINT", "SMALLINT"))
    )


def _cast_type(node: exp.Expression) -> tuple[str | None, tuple[int, ...]]:
    kind = node.args["to"]
    name = _CAST_TYPES.get(getattr(kind.this, "value", ""))
    parameters = tuple(int(parameter.name) for parameter in kind.expressions if parameter.name.isdigit())
    if len(parameters) != len(kind.expressions) or (parameters and name != "DECIMAL") or len(parameters) > 2:
        return None, ()
    return name, parameters


def _offset(node: exp.Expression) -> int:
    """Return the offset of a node: the first known position of it, of its children, or of its parents."""
    ancestor: Any = node
    while ancestor is not None:
        starts = [part.meta["start"] for part in ancestor.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        ancestor = ancestor.parent
    return 0


def _compare(operator: ComparisonOp, a: Literal, b: Literal) -> bool | str | None:
    """Return the truth of a comparison of literals; the string "kinds" if that needs Spark's types."""
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


#: Functions of the clock that are written without parentheses.
_CLOCKS: dict[type[exp.Expression], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
}
_SPECIAL: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Ceil: ("this",),
    exp.Floor: ("this",),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this",),
}
_PLAIN: dict[type[exp.Expression], Callable[[Converter, exp.Expression], ColumnRef | Literal | None]] = {
    exp.Literal: Converter._plain_number,
    exp.Column: Converter._column_ref,
    exp.Dot: Converter._column_ref,
    exp.Null: Converter._null,
    exp.Boolean: Converter._boolean,
    exp.HexString: Converter._binary,
    exp.Neg: Converter._plain_negative,
    exp.Cast: Converter._plain_cast,
    exp.TryCast: Converter._plain_cast,
    exp.Anonymous: Converter._plain_call,
}
_EXPRESSIONS: dict[type[exp.Expression], Callable[[Converter, exp.Expression], Expression | None]] = {
    exp.Literal: Converter._typed_number,
    exp.Column: Converter._column_ref,
    exp.Dot: Converter._dot,
    exp.Null: Converter._null,
    exp.Boolean: Converter._boolean,
    exp.HexString: Converter._binary,
    exp.Neg: Converter._negative,
    exp.DPipe: Converter._concat,
    exp.Cast: Converter._cast,
    exp.TryCast: Converter._cast,
    exp.Case: Converter._case,
    **dict.fromkeys(_CLOCKS, Converter._clock),
    exp.Interval: Converter._interval,
    exp.Placeholder: Converter._placeholder,
    exp.Bracket: Converter._brackets,
    exp.Anonymous: Converter._call,
    **dict.fromkeys(_ARITHMETIC, Converter._arithmetic),
    **dict.fromkeys(_SPECIAL, Converter._special),
}
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
#: Nodes that are conditions.
_CONDITIONS = frozenset({exp.And, exp.Or, *_COMPARISONS, *_PREDICATES})

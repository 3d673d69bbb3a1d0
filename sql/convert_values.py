"""sqlglot's expressions to values: columns, literals, and expressions over them.

There are two ways. The plain one takes columns and what amounts to a literal, for the leaves that indexes answer;
the other takes every expression, and keeps the types that Spark gives to its literals.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from hindex.sql import literals
from hindex.sql.functions import FunctionError, call
from hindex.sql.lexer import SqlSyntaxError
from hindex.sql.literals import LiteralError
from hindex.sql.predicate import (
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Cast,
    ColumnRef,
    ComparisonOp,
    Expression,
    Literal,
    LiteralKind,
    Predicate,
    as_value,
    compare,
)

T = TypeVar("T")

_AGGREGATES = ("AVG", "COUNT", "MAX", "MIN", "SUM")

#: Who can do what a condition cannot here, where nobody else runs it.
FILTER_WITH_SPARK = "filter with Spark on scan(...).to_spark()"
_EVALUATED = "the conditions that are evaluated here are in docs/sql.md"

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
_LITERAL_TYPES = frozenset({"BOOLEAN", "DATE", "DOUBLE", "STRING", "TIMESTAMP"})
# Beside a column, a FLOAT is compared as the DOUBLE of its value. Whole numbers and decimals do not amount to literals:
# Spark types a literal by its digits, and what is computed by its type.
_PLAIN_TYPES = _LITERAL_TYPES | {"FLOAT"}
_SUFFIX_TYPES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "F": "FLOAT"}
# What is not supported, by its name in a message; the first that fits.
_NAMES: dict[Any, str] = {
    (exp.Any, exp.All): "ANY or ALL",
    (exp.Query, exp.Exists): "subquery",
    exp.Cast: "cast to this type",
    exp.Bracket: "access to an element by [...]",
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


class ValueConverter(ABC):
    """Converts what stands for a value; its subclass converts conditions, of the kinds in ``conditions``."""

    conditions: frozenset[type[exp.Expression]]

    def __init__(self, sql: str, elsewhere: str) -> None:
        self._sql = sql
        self._elsewhere = elsewhere

    @abstractmethod
    def predicate(self, node: exp.Expression) -> Predicate:
        """A condition."""

    def column(self, node: exp.Expression, written: ColumnRef) -> ColumnRef:
        """Resolve the name of a column."""
        return written

    def aggregate(self, node: exp.Expression) -> ColumnRef | None:
        """The column that an aggregate stands for; None for any other function.

        :raises SqlSyntaxError: where aggregates have no place.
        """
        name = node.name.upper()
        if name in _AGGREGATES:
            self.fail(
                node, f"{name} is an aggregate, which a condition of rows cannot have: put it into HAVING"
            )
        return None

    # The plain way

    def plain(self, node: exp.Expression) -> ColumnRef | Literal | None:
        """A column, or what amounts to a literal; None where it is neither."""
        node = unwrapped(node)
        convert = _PLAIN.get(type(node))
        return None if convert is None else self._checked(node, lambda: convert(self, node))

    def literal(self, node: exp.Expression, rule: str) -> Literal:
        """Evaluate a constant node to a literal.

        :param rule: what the message says where it does not.
        """
        value = self.plain(node)
        if not isinstance(value, Literal):
            self.fail(node, f"{rule}, found {'an expression' if value is None else f'the column {value}'}")
        return value

    def _plain_number(self, node: exp.Expression) -> Literal | None:
        """A number; a TINYINT is typed as what is computed is."""
        return None if _suffix_type(node) == "TINYINT" else self._number(node)

    def _number(self, node: exp.Expression) -> Literal:
        if not node.is_string:
            return literals.number(node.this)
        start = node.meta.get("start")
        is_double = start is not None and self._sql[start : start + 1] == '"'
        return Literal(node.this, LiteralKind.STRING, is_double)

    def _column_ref(self, node: exp.Expression) -> ColumnRef | None:
        found = self.written(node)
        return None if found is None else self.column(node, found)

    def written(self, node: exp.Expression) -> ColumnRef | None:
        """A column by the name that is written; None for anything else."""
        if not isinstance(node, (exp.Column, exp.Dot)) or node.args.get("join_mark"):
            return None
        parts = node.parts
        if not all(isinstance(part, exp.Identifier) for part in parts):
            return None
        if not all(part.name for part in parts):
            self.fail(node, "a column name is empty")
        return ColumnRef(tuple(part.name for part in parts))

    def _null(self, node: exp.Expression) -> Literal:
        return Literal(None, LiteralKind.NULL)

    def _boolean(self, node: exp.Expression) -> Literal:
        return Literal(bool(node.this), LiteralKind.BOOLEAN)

    def _binary(self, node: exp.Expression) -> Literal:
        digits = str(node.this)
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), LiteralKind.BINARY)

    def _plain_negative(self, node: exp.Expression) -> Literal | None:
        """A sign right before a number; beside another value, it is an operator."""
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
        """``double('nan')`` and the like, and aggregates."""
        found = self.aggregate(node) if isinstance(node.this, str) else None
        if found is not None:
            return found
        arguments = node.expressions
        if len(arguments) != 1 or not isinstance(node.this, str):
            return None
        try:
            made = call(node.name, [NOTHING])
        except (FunctionError, ValueError):
            return None
        if not isinstance(made, Cast) or made.to not in _PLAIN_TYPES:
            return None
        value = self.plain(arguments[0])
        if not isinstance(value, Literal) or _is_null_text(value, made.to):
            return None
        return literals.cast(value, made.to)

    # Every expression

    def expression(self, node: exp.Expression) -> Expression:
        """Any value."""
        node = unwrapped(node)
        convert = _EXPRESSIONS.get(type(node))
        if convert is None:
            if type(node) in self.conditions:
                return as_value(self.predicate(node))
            self.unsupported(node)
        value = self._checked(node, lambda: convert(self, node))
        return self.unsupported(node) if value is None else value

    def operand(self, node: exp.Expression) -> Expression:
        """A value beside an operator, where a condition needs parentheses: Spark and sqlglot read it differently."""
        if type(as_written(node)) in self.conditions:
            self.fail(node, "condition in place of a value; put it into parentheses", unsupported=True)
        return self.expression(node)

    def _typed_number(self, node: exp.Expression, sign: str = "") -> Expression:
        """A literal of a type that Spark does not tell from its value is a cast."""
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
            what = f"an expression of more than {MAX_OPERATORS} operators"
            self.fail(node, f"{what}; {self._elsewhere}", unsupported=True)
        result = self.operand(first)
        for kind, operand in operands:
            result = Arithmetic(_ARITHMETIC[kind], result, self.operand(operand))
        return result

    def _operands(
        self, node: exp.Expression
    ) -> tuple[exp.Expression, list[tuple[type[exp.Expression], exp.Expression]]]:
        """The first operand of a chain, and each following one with its operator; it loops over the left sides."""
        operands: list[tuple[type[exp.Expression], exp.Expression]] = []
        first = node
        while type(first) in _ARITHMETIC:
            self.only(first, "this", "expression", "typed", "safe")
            operands.append((type(first), first.expression))
            first = first.this
        return first, operands[::-1]

    def _concat(self, node: exp.Expression) -> Expression:
        """``a || b``, which Spark reads from left to right beside + and -, and sqlglot does not."""
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
        return self._cast_to(self.expression(node.this), name, parameters, is_try=bool(node.args.get("safe")))

    def _cast_to(
        self, value: Expression, name: str, parameters: tuple[int, ...] = (), *, is_try: bool = False
    ) -> Expression:
        if (
            isinstance(value, Literal)
            and name in _LITERAL_TYPES
            and not is_try
            and not _is_null_text(value, name)
        ):
            found = literals.cast(value, name)
            if found is not None:
                return found
        if name == "DECIMAL":
            precision, scale = (*parameters, *(10, 0)[len(parameters) :])[:2]
            if not 0 <= scale <= precision <= literals.MAX_DECIMAL_DIGITS or not precision:
                raise LiteralError(f"DECIMAL({precision}, {scale}) is not a type")
            name = f"DECIMAL({precision}, {scale})"
        return Cast(value, name, is_try)

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
        return self.aggregate(node) or self._function(node, node.name, node.expressions)

    def _special(self, node: exp.Expression) -> Expression:
        """The functions that sqlglot reads in its own way, because Spark has words between their arguments."""
        names = _SPECIAL[type(node)]
        self.only(node, *names)
        arguments = [node.args[name] for name in names if node.args.get(name) is not None]
        return self._function(node, type(node).__name__.lower(), arguments)

    def _function(self, node: exp.Expression, name: str, arguments: list[exp.Expression]) -> Expression:
        try:
            found = call(name, [self.expression(argument) for argument in arguments])
        except FunctionError as error:
            self.fail(node, f"{error}; {self._elsewhere}", unsupported=True)
        except ValueError as error:
            self.fail(node, str(error))
        if isinstance(found, Cast):
            return self._cast_to(found.child, found.to)
        return as_value(found) if not isinstance(found, _VALUES) else found

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

    def only(self, node: exp.Expression, *known: str) -> None:
        """Refuses arguments that are set and not known: an ignored one would change the meaning."""
        for key, argument in node.args.items():
            if key not in known and argument:
                self.unsupported(node)

    def unsupported(self, node: exp.Expression) -> NoReturn:
        self.fail(node, f"{self._describe(node)}; {_EVALUATED}; {self._elsewhere}", unsupported=True)

    def _describe(self, node: exp.Expression) -> str:
        for kind, name in _NAMES.items():
            if isinstance(node, kind):
                return name
        if isinstance(node, exp.Func):
            start = node.meta.get("start")
            written = None if start is None else _WORD.match(self._sql, start)
            return f"function {written[0] if written else node.sql_name().lower()}"
        text = " ".join(node.sql("spark", unsupported_level=ErrorLevel.IGNORE).split())
        return f"expression '{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}'"

    def fail(self, node: exp.Expression, message: str, *, unsupported: bool = False) -> NoReturn:
        raise SqlSyntaxError(message, _offset(node), unsupported=unsupported)


NOTHING = Literal(None, LiteralKind.NULL)
_VALUES = (Arithmetic, Call, Case, Cast, ColumnRef, Literal)


def unwrapped(node: exp.Expression) -> exp.Expression:
    """Without its parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node


def as_written(node: exp.Expression) -> exp.Expression:
    """Without the parentheses that sqlglot put around it."""
    while type(node) is exp.Paren and not node.meta.get(WRITTEN):
        node = node.this
    return node


def chain(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
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


def _is_null_text(literal: Literal, name: str) -> bool:
    """Return True if a literal is NULL cast to a string, which Spark distinguishes from NULL in lists of strings."""
    return literal.value is None and name == "STRING"


def _suffix_type(node: exp.Expression) -> str | None:
    """The type that the letter behind a number says, where Spark does not tell it from the value."""
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
    around: Any = node
    while around is not None:
        starts = [part.meta["start"] for part in around.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        around = around.parent
    return 0


_SPECIAL: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Ceil: ("this",),
    exp.Floor: ("this",),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this",),
}
_PLAIN: dict[type[exp.Expression], Callable[[ValueConverter, exp.Expression], ColumnRef | Literal | None]] = {
    exp.Literal: ValueConverter._plain_number,
    exp.Column: ValueConverter._column_ref,
    exp.Dot: ValueConverter._column_ref,
    exp.Null: ValueConverter._null,
    exp.Boolean: ValueConverter._boolean,
    exp.HexString: ValueConverter._binary,
    exp.Neg: ValueConverter._plain_negative,
    exp.Cast: ValueConverter._plain_cast,
    exp.TryCast: ValueConverter._plain_cast,
    exp.Anonymous: ValueConverter._plain_call,
}
_EXPRESSIONS: dict[type[exp.Expression], Callable[[ValueConverter, exp.Expression], Expression | None]] = {
    exp.Literal: ValueConverter._typed_number,
    exp.Column: ValueConverter._column_ref,
    exp.Dot: ValueConverter._column_ref,
    exp.Null: ValueConverter._null,
    exp.Boolean: ValueConverter._boolean,
    exp.HexString: ValueConverter._binary,
    exp.Neg: ValueConverter._negative,
    exp.DPipe: ValueConverter._concat,
    exp.Cast: ValueConverter._cast,
    exp.TryCast: ValueConverter._cast,
    exp.Case: ValueConverter._case,
    exp.Placeholder: ValueConverter._placeholder,
    exp.Anonymous: ValueConverter._call,
    **dict.fromkeys(_ARITHMETIC, ValueConverter._arithmetic),
    **dict.fromkeys(_SPECIAL, ValueConverter._special),
}

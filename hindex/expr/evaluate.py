"""Evaluating typed expressions on Arrow arrays.

Most functions are strict: NULL in gives NULL out, and arguments are evaluated from left to right until one is NULL. The
others decide here which of their arguments count, and so whose errors do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.expr import arithmetic, dates, strings
from hindex.expr.casting import cast
from hindex.expr.functions import FUNCTIONS, Evaluator
from hindex.expr.nodes import COMPOSITE, LOCAL_TIME, Apply, Column, Constant, Node
from hindex.expr.vector import (
    Errors,
    Mask,
    Vector,
    joined,
    of_constant,
    of_truth,
)
from hindex.keys import array_keys, composite_keys
from hindex.orc.decode.arrow_arrays import pad_strings
from hindex.orc.metadata.types import Kind, OrcType

Columns = Mapping[str, pa.Array]


def evaluate(node: Node, columns: Columns, n: int) -> Vector:
    """Evaluate an expression.

    Args:
        columns: an array of ``n`` values of ``column_type.to_arrow()`` for each column it names.

    Raises:
        PredicateError: for a value that is not evaluated as Spark does.
    """
    if isinstance(node, Column):
        array = columns[node.name]
        if node.column_type.kind is Kind.CHAR:
            array = pad_strings(array, node.column_type.max_length)
        return Vector(node.type, array)
    if isinstance(node, Constant):
        return of_constant(node, n)
    lazy = _LAZY.get(node.function)
    if lazy is not None:
        return lazy(node, columns, n)
    args = [evaluate(arg, columns, n) for arg in node.args]
    # the right side of a division is evaluated first
    order = reversed(args) if node.function in ("/", "DIV", "%") else args
    errors: Errors | None = None
    needed = np.ones(n, np.bool_)
    for arg in order:
        if arg.errors is not None:
            errors = joined(errors, arg.errors.among(needed))
        if node.function not in _EAGER:
            needed &= arg.valid
    evaluator = _OPERATORS.get(node.function) or FUNCTIONS[node.function].evaluator
    assert evaluator is not None
    result = evaluator(node.type, *args, *node.options)
    return _with_errors(result, joined(errors, result.errors))


def _with_errors(value: Vector, errors: Errors | None) -> Vector:
    if errors is None or errors is value.errors:
        return value
    nothing = pa.scalar(None, value.array.type)
    return Vector(value.type, pc.if_else(pa.array(errors.rows), nothing, value.array), errors)


# What is not strict


def _and(node: Apply, columns: Columns, n: int) -> Vector:
    """Evaluate AND: rows that are FALSE on the left do not need the right side."""
    return _connected(node, columns, n, decides=False)


def _or(node: Apply, columns: Columns, n: int) -> Vector:
    return _connected(node, columns, n, decides=True)


def _connected(node: Apply, columns: Columns, n: int, *, decides: bool) -> Vector:
    decided = np.zeros(n, np.bool_)
    unknown = np.zeros(n, np.bool_)
    errors: Errors | None = None
    for arg in node.args:
        failed = np.zeros(n, np.bool_) if errors is None else errors.rows
        value = evaluate(arg, columns, n)
        if value.errors is not None:
            errors = joined(errors, value.errors.among(~decided & ~failed))
        valid = value.valid
        decided |= valid & (value.numbers == decides) & ~failed
        unknown |= ~valid
    truth = decided if decides else ~decided
    return of_truth(truth, decided | ~unknown, errors)


def _not(node: Apply, columns: Columns, n: int) -> Vector:
    value = evaluate(node.args[0], columns, n)
    return of_truth(~value.numbers, value.valid, value.errors)


def _is_null(node: Apply, columns: Columns, n: int) -> Vector:
    value = evaluate(node.args[0], columns, n)
    return of_truth(~value.valid, np.ones(n, np.bool_), value.errors)


def _null_safe_equal(node: Apply, columns: Columns, n: int) -> Vector:
    left, right = (evaluate(arg, columns, n) for arg in node.args)
    equal = _sign(left, right) == 0
    truth = np.where(left.valid & right.valid, equal, left.valid == right.valid)
    return of_truth(truth, np.ones(n, np.bool_), joined(left.errors, right.errors))


def _in(node: Apply, columns: Columns, n: int) -> Vector:
    """Evaluate IN: a row does not need the items after the first equal one."""
    value = evaluate(node.args[0], columns, n)
    is_member = np.zeros(n, np.bool_)
    unknown = np.zeros(n, np.bool_)
    errors = value.errors
    for arg in node.args[1:]:
        item = evaluate(arg, columns, n)
        if item.errors is not None:
            failed = np.zeros(n, np.bool_) if errors is None else errors.rows
            errors = joined(errors, item.errors.among(value.valid & ~is_member & ~failed))
        both = value.valid & item.valid
        is_member |= both & (_sign(value, item) == 0)
        unknown |= ~item.valid
    return of_truth(is_member, value.valid & (is_member | ~unknown), errors)


def _case(node: Apply, columns: Columns, n: int) -> Vector:
    """Evaluate CASE: the arguments are conditions and values in turn, and last the value of ELSE."""
    undecided = np.ones(n, np.bool_)
    picks = np.full(n, len(node.args) // 2, np.int64)
    errors: Errors | None = None
    values: list[Vector] = []
    for at in range(0, len(node.args) - 1, 2):
        condition = evaluate(node.args[at], columns, n)
        if condition.errors is not None:
            errors = joined(errors, condition.errors.among(undecided))
            undecided = undecided & ~condition.errors.rows
        chosen = undecided & condition.valid & condition.numbers
        values.append(evaluate(node.args[at + 1], columns, n))
        errors = _chosen_errors(errors, values[-1], chosen)
        picks[chosen] = at // 2
        undecided = undecided & ~chosen
    values.append(evaluate(node.args[-1], columns, n))
    errors = _chosen_errors(errors, values[-1], undecided)
    return _picked(node.type, values, picks, errors)


def _coalesce(node: Apply, columns: Columns, n: int) -> Vector:
    undecided = np.ones(n, np.bool_)
    picks = np.zeros(n, np.int64)
    errors: Errors | None = None
    values: list[Vector] = []
    for at, arg in enumerate(node.args):
        value = evaluate(arg, columns, n)
        values.append(value)
        errors = _chosen_errors(errors, value, undecided)
        if value.errors is not None:
            undecided = undecided & ~value.errors.rows
        chosen = undecided & value.valid
        picks[chosen] = at
        undecided = undecided & ~chosen
    return _picked(node.type, values, picks, errors)


def _extreme(node: Apply, columns: Columns, n: int) -> Vector:
    """Evaluate greatest and least: NULLs are skipped."""
    sign = 1 if node.function == "greatest" else -1
    values = [evaluate(arg, columns, n) for arg in node.args]
    best = values[0]
    errors = best.errors
    for value in values[1:]:
        errors = joined(errors, value.errors)
        better = value.valid & (~best.valid | (_sign(value, best) == sign))
        best = _picked(node.type, [best, value], better.astype(np.int64), None)
    return _with_errors(best, errors)


def _composite(node: Apply, columns: Columns, n: int) -> Vector:
    """Join the keys of columns; NULL is a part of a key, too."""
    values = [evaluate(arg, columns, n) for arg in node.args]
    keys = composite_keys([(value.type, value.array) for value in values])
    return Vector(node.type, keys.cast(node.type.to_arrow()))


def _try_cast(node: Apply, columns: Columns, n: int) -> Vector:
    """Evaluate TRY_CAST: failed casts become NULL; errors of the value remain errors."""
    value = evaluate(node.args[0], columns, n)
    return Vector(node.type, cast(node.type, value).array, value.errors)


def _chosen_errors(errors: Errors | None, value: Vector, chosen: Mask) -> Errors | None:
    return errors if value.errors is None else joined(errors, value.errors.among(chosen))


def _picked(data_type: OrcType, values: Sequence[Vector], picks: np.ndarray, errors: Errors | None) -> Vector:
    array = pc.choose(pa.array(picks), *(value.array for value in values))
    return _with_errors(Vector(data_type, array), errors)


# Comparisons


def _sign(left: Vector, right: Vector) -> np.ndarray:
    """Compare values: -1, 0 or 1 where both have a value."""
    a, b = array_keys(left.type, left.array), array_keys(right.type, right.array)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (a > b).astype(np.int8) - (a < b).astype(np.int8)
    greater, less = (np.asarray(f(a, b).fill_null(False)) for f in (pc.greater, pc.less))
    return greater.astype(np.int8) - less.astype(np.int8)


def _comparison(holds: Callable[[np.ndarray], Mask]) -> Evaluator:
    def compare(_: OrcType, left: Vector, right: Vector) -> Vector:
        return of_truth(holds(_sign(left, right)), left.valid & right.valid)

    return compare


_LAZY: dict[str, Callable[[Apply, Columns, int], Vector]] = {
    "AND": _and,
    "OR": _or,
    "NOT": _not,
    "IS NULL": _is_null,
    "<=>": _null_safe_equal,
    "IN": _in,
    "CASE": _case,
    COMPOSITE: _composite,
    "coalesce": _coalesce,
    "greatest": _extreme,
    "least": _extreme,
    "TRY_CAST": _try_cast,
}
#: Functions that evaluate every argument whatever the others are.
_EAGER = frozenset({"concat", "isnan"})

_OPERATORS: dict[str, Evaluator] = {
    "=": _comparison(lambda sign: sign == 0),
    "<>": _comparison(lambda sign: sign != 0),
    "<": _comparison(lambda sign: sign < 0),
    "<=": _comparison(lambda sign: sign <= 0),
    ">": _comparison(lambda sign: sign > 0),
    ">=": _comparison(lambda sign: sign >= 0),
    "CAST": cast,
    "MATCHES": strings.matches,
    "PAD": strings.padded,
    "SHIFT": dates.shift,
    LOCAL_TIME: dates.local_time,
    "+": arithmetic.add,
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "DIV": arithmetic.divide_whole,
    "%": arithmetic.remainder,
}

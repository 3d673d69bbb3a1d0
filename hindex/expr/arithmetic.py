"""Arithmetic with ANSI mode on: what overflows and what is divided by zero is an error.

Source: Spark's ``arithmetic.scala`` and ``mathExpressions.scala``. Decimals are computed exactly, and rounded half up
to the scale of the result's type.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from hindex.expr.vector import (
    CannotEvaluate,
    Errors,
    Mask,
    Numbers,
    Vector,
    by_value,
    of_numbers,
)
from hindex.keys import INT64_MAX, INT64_MIN
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType

#: Digits enough for the exact product and quotient of two decimals of 38.
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP, Emin=-10000, Emax=10000)
#: The scale of a quotient before it is rounded to that of its type.
_QUOTIENT_SCALE = Decimal((0, (1,), -39))

_LIMITS = {
    Kind.BYTE: (-(1 << 7), (1 << 7) - 1),
    Kind.SHORT: (-(1 << 15), (1 << 15) - 1),
    Kind.INT: (-(1 << 31), (1 << 31) - 1),
    Kind.LONG: (INT64_MIN, INT64_MAX),
}
_OVERFLOW = "the result overflows {}"
BY_ZERO = "division by zero"


def limits(data_type: OrcType) -> tuple[int, int]:
    """Return the least and greatest value of an integer type."""
    return _LIMITS[data_type.kind]


def fitted(value: Decimal, data_type: OrcType) -> Decimal:
    """Round a decimal half up to a type's scale.

    Raises:
        CannotEvaluate: if it has too many digits for the type.
    """
    rounded = value.quantize(Decimal((0, (1,), -data_type.scale)), context=_EXACT)
    if rounded and rounded.adjusted() + 1 > data_type.precision - data_type.scale:
        raise CannotEvaluate(f"{value:f} does not fit {data_type}")
    return rounded


def add(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    return _arithmetic(data_type, left, right, np.add, _EXACT.add)


def subtract(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    return _arithmetic(data_type, left, right, np.subtract, _EXACT.subtract)


def multiply(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    return _arithmetic(data_type, left, right, np.multiply, _EXACT.multiply)


def divide(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    """Evaluate ``/`` of two doubles or two decimals."""
    if data_type.kind is Kind.DECIMAL:

        def quotient(a: Decimal, b: Decimal) -> Decimal:
            if not b:
                raise CannotEvaluate(BY_ZERO)
            return fitted(_EXACT.divide(a, b).quantize(_QUOTIENT_SCALE, context=_EXACT), data_type)

        return by_value(data_type, (left, right), quotient)
    valid, zeros = _divisible(left, right)
    with np.errstate(all="ignore"):
        return of_numbers(
            data_type, left.numbers / np.where(right.numbers == 0, 1, right.numbers), valid, zeros
        )


def divide_whole(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    """Evaluate ``DIV``: a bigint, rounded towards zero."""
    if left.type.kind is Kind.DECIMAL:

        def quotient(a: Decimal, b: Decimal) -> int:
            if not b:
                raise CannotEvaluate(BY_ZERO)
            whole = int(_EXACT.divide_int(a, b))
            if not INT64_MIN <= whole <= INT64_MAX:
                raise CannotEvaluate(_OVERFLOW.format("bigint"))
            return whole

        return by_value(data_type, (left, right), quotient)
    valid, errors = _divisible(left, right)
    a, b = left.numbers, np.where(right.numbers == 0, 1, right.numbers)
    overflow = (a == INT64_MIN) & (b == -1)
    b = np.where(overflow, 1, b)
    whole = a // b
    whole += (a % b != 0) & ((a < 0) != (b < 0))
    return of_numbers(data_type, whole, valid, _joined_overflow(errors, overflow & valid, data_type))


def remainder(data_type: OrcType, left: Vector, right: Vector) -> Vector:
    """Evaluate ``%``, which has the sign of the left side."""
    if data_type.kind is Kind.DECIMAL:

        def rest(a: Decimal, b: Decimal) -> Decimal:
            if not b:
                raise CannotEvaluate(BY_ZERO)
            return fitted(_EXACT.remainder(a, b), data_type)

        return by_value(data_type, (left, right), rest)
    valid, zeros = _divisible(left, right)
    divisor = np.where(right.numbers == 0, 1, right.numbers)
    if data_type.kind in INTEGER_KINDS:
        # -1 divides everything, and the least number by -1 overflows on the way
        divisor = np.where(divisor == -1, 1, divisor)
    with np.errstate(all="ignore"):
        return of_numbers(data_type, np.fmod(left.numbers, divisor), valid, zeros)


def negative(data_type: OrcType, value: Vector) -> Vector:
    if data_type.kind is Kind.DECIMAL:
        return by_value(data_type, (value,), lambda a: a.copy_negate() if a else a)
    if data_type.kind in INTEGER_KINDS:
        errors = _overflow(value.valid & (value.numbers == limits(data_type)[0]), data_type)
        with np.errstate(over="ignore"):
            return of_numbers(data_type, -value.numbers, value.valid, errors)
    return of_numbers(data_type, -value.numbers, value.valid)


def absolute(data_type: OrcType, value: Vector) -> Vector:
    if data_type.kind is Kind.DECIMAL:
        return by_value(data_type, (value,), lambda a: a.copy_abs())
    errors = None
    if data_type.kind in INTEGER_KINDS:
        errors = _overflow(value.valid & (value.numbers == limits(data_type)[0]), data_type)
    with np.errstate(over="ignore"):
        return of_numbers(data_type, np.abs(value.numbers), value.valid, errors)


def floor(data_type: OrcType, value: Vector) -> Vector:
    return _whole(data_type, value, np.floor, decimal.ROUND_FLOOR)


def ceil(data_type: OrcType, value: Vector) -> Vector:
    return _whole(data_type, value, np.ceil, decimal.ROUND_CEILING)


def round_half_up(data_type: OrcType, value: Vector) -> Vector:
    """Round a decimal to the scale of the result; return integers unchanged."""
    if data_type.kind in INTEGER_KINDS:
        return value
    return by_value(data_type, (value,), lambda a: fitted(a, data_type))


def isnan(data_type: OrcType, value: Vector) -> Vector:
    """Test for NaN; NULL gives FALSE."""
    return of_numbers(data_type, np.isnan(value.numbers) & value.valid, np.ones(len(value), np.bool_))


def _whole(data_type: OrcType, value: Vector, whole: Callable[[Numbers], Numbers], rounding: str) -> Vector:
    if data_type.kind is Kind.DECIMAL:
        return by_value(
            data_type, (value,), lambda a: fitted(a.to_integral_value(rounding, _EXACT), data_type)
        )
    if value.type.kind in INTEGER_KINDS:
        return of_numbers(data_type, value.numbers, value.valid)
    # NaN becomes 0; the greatest bigint is no double, so the bound is the next one
    rounded = np.where(np.isnan(value.numbers), 0, whole(value.numbers))
    beyond = value.valid & ~((rounded >= -(2.0**63)) & (rounded < 2.0**63))
    errors = _overflow(beyond, data_type)
    return of_numbers(data_type, np.where(beyond | ~value.valid, 0, rounded), value.valid, errors)


def _arithmetic(
    data_type: OrcType,
    left: Vector,
    right: Vector,
    function: Callable[[Numbers, Numbers], Numbers],
    exact: Callable[[Decimal, Decimal], Decimal],
) -> Vector:
    if data_type.kind is Kind.DECIMAL:
        return by_value(data_type, (left, right), lambda a, b: fitted(exact(a, b), data_type))
    valid = left.valid & right.valid
    a, b = left.numbers, right.numbers
    if data_type.kind not in INTEGER_KINDS:
        with np.errstate(all="ignore"):
            return of_numbers(data_type, function(a, b), valid)
    with np.errstate(over="ignore"):
        result = function(a.astype(np.int64), b.astype(np.int64))
    least, greatest = limits(data_type)
    overflow = (result < least) | (result > greatest)
    if data_type.kind is Kind.LONG:
        # doubles show where the result may exceed 64 bits; there it is computed exactly
        may_overflow = np.abs(function(a.astype(np.float64), b.astype(np.float64))) >= 2.0**62
        for at in np.flatnonzero(may_overflow & valid).tolist():
            whole = int(exact(Decimal(int(a[at])), Decimal(int(b[at]))))
            overflow[at] = not least <= whole <= greatest
    return of_numbers(data_type, np.where(overflow, 0, result), valid, _overflow(overflow & valid, data_type))


def _divisible(left: Vector, right: Vector) -> tuple[Mask, Errors | None]:
    valid = left.valid & right.valid
    zeros = valid & (right.numbers == 0)
    return valid, Errors(zeros, BY_ZERO) if zeros.any() else None


def _overflow(rows: Mask, data_type: OrcType) -> Errors | None:
    return Errors(rows, _OVERFLOW.format(data_type)) if rows.any() else None


def _joined_overflow(errors: Errors | None, rows: Mask, data_type: OrcType) -> Errors | None:
    if not rows.any():
        return errors
    return Errors(rows if errors is None else rows | errors.rows, _OVERFLOW.format(data_type))

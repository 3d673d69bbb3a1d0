"""The values of one expression for many rows, with the rows that have none because Spark would raise an error.

Whether an error is raised depends on the use of the value: ``b <> 0 AND a / b > 1`` raises none where b is 0. So
errors are recorded row by row, and the evaluation of a predicate raises those that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import PredicateError
from hindex.expr.nodes import BOOLEAN, Constant
from hindex.orc.metadata.types import Kind, OrcType
from hindex.value_class import value_class

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

_DTYPES: dict[Kind, str] = {
    Kind.BOOLEAN: "?",
    Kind.BYTE: "i1",
    Kind.SHORT: "i2",
    Kind.INT: "i4",
    Kind.LONG: "i8",
    Kind.FLOAT: "f4",
    Kind.DOUBLE: "f8",
    Kind.DATE: "i4",
    Kind.TIMESTAMP: "i8",
    Kind.TIMESTAMP_INSTANT: "i8",
}


@value_class
class Errors:
    """The rows without a value, and what Spark says of the first of them."""

    rows: Mask
    problem: str

    def among(self, rows: Mask) -> Errors | None:
        """Select the errors of some rows."""
        selected = self.rows & rows
        return Errors(selected, self.problem) if selected.any() else None


def joined(a: Errors | None, b: Errors | None) -> Errors | None:
    """Combine the rows of both."""
    if a is None or b is None:
        return a or b
    return Errors(a.rows | b.rows, a.problem)


@value_class
class Vector:
    """An array of ``type.to_arrow()``. Rows with an error are null in it."""

    type: OrcType
    array: pa.Array
    errors: Errors | None = None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def valid(self) -> Mask:
        """Rows that are not NULL, and have no error."""
        return np.asarray(self.array.is_valid())

    @property
    def numbers(self) -> Numbers:
        """The values of a fixed-width type other than decimal; anything where there is none."""
        dtype = np.dtype(_DTYPES[self.type.kind])
        if self.type.kind is Kind.BOOLEAN:
            return np.asarray(self.array.fill_null(False))
        buffer = self.array.buffers()[1]
        if buffer is None or not len(self.array):
            return np.zeros(len(self.array), dtype)
        return np.frombuffer(buffer, dtype, count=len(self.array), offset=self.array.offset * dtype.itemsize)

    @property
    def values(self) -> list[Any]:
        """Python values, for types that numpy does not have: str, bytes, Decimal.

        Raises:
            PredicateError: for a string that is not UTF-8.
        """
        try:
            values: list[Any] = self.array.to_pylist()
        except UnicodeDecodeError:
            raise not_utf8() from None
        return values


def of_numbers(data_type: OrcType, numbers: Numbers, valid: Mask, errors: Errors | None = None) -> Vector:
    """Make a vector of a fixed-width type."""
    if errors is not None:
        valid = valid & ~errors.rows
    plain = pa.array(np.ascontiguousarray(numbers, dtype=np.dtype(_DTYPES[data_type.kind])), mask=~valid)
    return Vector(
        data_type, plain.cast(data_type.to_arrow()) if plain.type != data_type.to_arrow() else plain, errors
    )


def of_truth(truth: Mask, valid: Mask, errors: Errors | None = None) -> Vector:
    """Make a vector of booleans."""
    return of_numbers(BOOLEAN, truth, valid, errors)


def of_values(data_type: OrcType, values: Sequence[Any], errors: Errors | None = None) -> Vector:
    """Make a vector of Python values, None for NULL."""
    return Vector(data_type, pa.array(values, data_type.to_arrow()), errors)


def of_constant(constant: Constant, n: int) -> Vector:
    """Make a vector with the same value in every row."""
    data_type = constant.type or BOOLEAN
    arrow_type = data_type.to_arrow()
    value = constant.value
    if value is not None and data_type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        single = pa.array([value], pa.int32() if data_type.kind is Kind.DATE else pa.int64()).cast(arrow_type)
    else:
        single = pa.array([value], arrow_type)
    return Vector(data_type, single if n == 1 else single.take(pa.array(np.zeros(n, np.int64))))


def not_utf8() -> PredicateError:
    """Return the error for a string that is not UTF-8."""
    return PredicateError(
        "a value is not UTF-8, and functions of strings are evaluated here only where all are; filter with Spark on "
        "scan(...).to_spark()"
    )


class CannotEvaluate(Exception):  # noqa: N818
    """One value that Spark would refuse; the message says which and why."""


def by_value(data_type: OrcType, args: Sequence[Vector], function: Callable[..., Any]) -> Vector:
    """Apply a function of Python values once to each combination; NULL in gives NULL out.

    The function raises `CannotEvaluate` where Spark raises an error.
    """
    results_by_args: dict[tuple[Any, ...], tuple[Any, str]] = {}
    results: list[Any] = []
    failed: list[int] = []
    problem = ""
    for at, row in enumerate(zip(*(arg.values for arg in args), strict=True)):
        if None in row:
            results.append(None)
            continue
        result = results_by_args.get(row)
        if result is None:
            try:
                result = function(*row), ""
            except CannotEvaluate as error:
                result = None, str(error)
            results_by_args[row] = result
        value, error_text = result
        results.append(value)
        if error_text:
            failed.append(at)
            problem = problem or error_text
    errors = None
    if failed:
        rows = np.zeros(len(results), np.bool_)
        rows[failed] = True
        errors = Errors(rows, problem)
    return of_values(data_type, results, errors)

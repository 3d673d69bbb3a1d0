"""Residuals of filters: their truth on rows, and what known values make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hindex.domain import Key
from hindex.expr import nodes
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import Column, Constant
from hindex.expr.vector import Errors, Mask
from hindex.keys import key_decimal, key_float
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import ALWAYS, NEVER, Filter, Residual

if TYPE_CHECKING:
    from hindex.expr.nodes import ConstantValue


def evaluate_truth(residual: Residual, columns: Mapping[str, pa.Array], n: int) -> tuple[Mask, Errors | None]:
    """The rows that a residual keeps, and those for which it has no value.

    :raises PredicateError: for a value that is not evaluated as Spark does.
    """
    found = evaluate(residual.expression, columns, n)
    truth = found.numbers if residual.wanted else ~found.numbers
    return np.asarray(truth & found.valid), found.errors


def evaluate_partially(residual: Residual, values: Mapping[str, Key | None] | None = None) -> Filter:
    """A residual with columns of known value bound, and decided where it has no others.

    :param values: the key, or None for NULL, of each known column.
    """
    root = residual.expression
    known = {
        name: _constant(values[name], of, Column(name, of).type)
        for name, of in nodes.columns(root).items()
        if values is not None and name in values
    }
    bound = replace(residual, expression=nodes.bind(root, known)) if known else residual
    if nodes.columns(bound.expression):
        return bound
    truth, errors = evaluate_truth(bound, {}, 1)
    if errors is not None:
        return bound
    return ALWAYS if truth[0] else NEVER


def _constant(key: Key | None, data_type: OrcType, typed: OrcType) -> Constant:
    """The value of a key. That of CHAR(n) is filled with blanks, as the key is."""
    value: ConstantValue
    if key is None:
        value = None
    elif data_type.kind is Kind.DECIMAL:
        value = nodes.unscaled(key_decimal(key), typed.scale)
    elif isinstance(key, bytes):
        value = key if data_type.kind is Kind.BINARY else key.decode("utf-8")
    elif data_type.kind in (Kind.FLOAT, Kind.DOUBLE):
        value = key_float(key)
    else:
        value = bool(key) if data_type.kind is Kind.BOOLEAN else key
    return Constant(value, typed)

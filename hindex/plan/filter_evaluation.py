"""Evaluate filters: on decoded columns, on partition values, and on the bounds of indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.domain import Domain, Key, RangeArray, concatenate_ranges, integer_arrays
from hindex.errors import PredicateError
from hindex.expr import nodes
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import Column, Constant, ConstantValue
from hindex.expr.vector import Errors, joined
from hindex.index.index_type import Bounds
from hindex.keys import KeyArray, array_keys, key_decimal, key_float
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import (
    ALWAYS,
    NEVER,
    AllOf,
    Always,
    AnyOf,
    Atom,
    Filter,
    Indexable,
    Leaf,
    Never,
    Residual,
    fold,
    leaves,
    residuals,
)
from hindex.plan.rules import transform

Mask = npt.NDArray[np.bool_]

#: Up to this many int64 ranges are tested one by one; more are searched.
_FEW_RANGES = 3
#: Up to this many ranges of bytes, without points, are tested one by one on every value.
_FEW_BYTE_RANGES = 8


def mask(root: Filter, columns: Mapping[str, pa.Array | pa.ChunkedArray], n: int) -> Mask:
    """Evaluate a filter on its decoded columns; return a mask of the rows that it keeps.

    Args:
        columns: for every column of the filter, an array of ``n`` values of ``leaf.type.to_arrow()``.

    Returns:
        ``n`` booleans.

    Raises:
        KeyError: if a column is missing.
        ValueError: if a column does not have ``n`` values.
        PredicateError: if an expression has no value in a row that no other part decides, because Spark also
            raises an error, or because it is not evaluated as Spark does.
    """
    root = on_columns(root)
    if next(residuals(root), None) is None:
        return _leaf_mask(root, columns, n, unknown=False)
    # expressions are evaluated only on the rows that the other parts of the filter do not decide
    lower = _leaf_mask(root, columns, n, unknown=False)
    undecided = np.flatnonzero(_leaf_mask(root, columns, n, unknown=True) & ~lower)
    if len(undecided):
        rows = pa.array(undecided)
        undecided_columns = {name: _one_array(array).take(rows) for name, array in columns.items()}
        lower[undecided] = _full_mask(root, undecided_columns, len(undecided))
    return lower


def on_columns(root: Filter) -> Filter:
    """Return a filter with each leaf on an expression replaced by its condition."""
    if all(leaf.condition is None for leaf in leaves(root)):
        return root
    return transform(
        root,
        lambda node: (
            on_columns(node.condition) if isinstance(node, Leaf) and node.condition is not None else node
        ),
    )


def _full_mask(root: Filter, columns: Mapping[str, pa.Array | pa.ChunkedArray], n: int) -> Mask:
    """Return a mask of the rows that a filter with expressions keeps; errors count in rows undecided otherwise."""
    nothing = np.zeros(n, np.bool_)

    def atom(node: Atom) -> tuple[Mask, Errors | None]:
        if isinstance(node, Residual):
            return evaluate_truth(node, columns, n)
        return _leaf_mask(node, columns, n, unknown=False), None

    def combine(
        group: type[AllOf] | type[AnyOf],
        so_far: tuple[Mask, Errors | None],
        next_: tuple[Mask, Errors | None],
    ) -> tuple[Mask, Errors | None]:
        (a, a_errors), (b, b_errors) = so_far, next_
        a_failed = nothing if a_errors is None else a_errors.rows
        b_failed = nothing if b_errors is None else b_errors.rows
        undecided = (a | a_failed) & (b | b_failed) if group is AllOf else ~a & ~b
        errors = joined(a_errors and a_errors.among(undecided), b_errors and b_errors.among(undecided))
        truth = a & b if group is AllOf else a | b
        return truth, errors

    truth, errors = fold(root, atom, combine, lambda *_: False)
    if errors is not None:
        raise PredicateError(
            f"cannot evaluate {str(root)[:300]}: {errors.problem}, which is an error in Spark too; leave such rows out "
            "by a condition, or use TRY_CAST"
        )
    return truth


def _leaf_mask(
    root: Filter, columns: Mapping[str, pa.Array | pa.ChunkedArray], n: int, *, unknown: bool
) -> Mask:
    """Return a mask of the rows that a filter keeps if all of its residuals have the truth value ``unknown``."""
    arrays: dict[str, tuple[pa.Array, Mask | None]] = {}
    keys: dict[str, KeyArray] = {}

    def atom(node: Atom) -> Mask:
        if not isinstance(node, Leaf):
            return np.full(n, unknown if isinstance(node, Residual) else isinstance(node, Always))
        name, domain = node.column, node.decoded
        if name not in arrays:
            array = _one_array(columns[name])
            if len(array) != n:
                raise ValueError(f"column {name!r} holds {len(array)} values, not {n}")
            arrays[name] = array, np.asarray(array.is_valid()) if array.null_count else None
        array, valid = arrays[name]
        if domain.has_every_value or not domain.ranges:
            # a test for NULL: composite types pass it too, and they have no keys
            is_member = np.full(n, domain.has_every_value)
        else:
            if name not in keys:
                keys[name] = array_keys(node.type, array)
            is_member = _members(domain, keys[name])
        if valid is None:
            return is_member
        return is_member | ~valid if domain.null_allowed else is_member & valid

    def combine(group: type[AllOf] | type[AnyOf], so_far: Mask, next_: Mask) -> Mask:
        return so_far & next_ if group is AllOf else so_far | next_

    def is_decided(group: type[AllOf] | type[AnyOf], so_far: Mask) -> bool:
        return not so_far.any() if group is AllOf else bool(so_far.all())

    return fold(root, atom, combine, is_decided)


def prune(root: Filter, values: Mapping[str, Key | None]) -> Filter:
    """Decide the parts of a filter on constant columns, such as those of a partition.

    An expression of only such columns is decided too, unless it has no value: then it is evaluated on the rows.

    Args:
        values: the key, or None for NULL, of each constant column.
    """

    def atom(node: Atom) -> Filter:
        if isinstance(node, Leaf) and node.condition is not None:
            # the file lacks a column of the expression, so an index on it has no keys of the file
            condition = prune(node.condition, values)
            return node if condition == node.condition else condition
        if isinstance(node, Leaf) and node.column in values:
            return ALWAYS if node.decoded.contains(values[node.column]) else NEVER
        return evaluate_partially(node, values) if isinstance(node, Residual) else node

    return transform(root, atom)


def evaluate_truth(residual: Residual, columns: Mapping[str, pa.Array], n: int) -> tuple[Mask, Errors | None]:
    """Return a mask of the rows that a residual keeps, and the rows with errors.

    Raises:
        PredicateError: for a value that is not evaluated as Spark does.
    """
    value = evaluate(residual.expression, columns, n)
    truth = value.numbers if residual.wanted else ~value.numbers
    return np.asarray(truth & value.valid), value.errors


def evaluate_partially(residual: Residual, values: Mapping[str, Key | None] | None = None) -> Filter:
    """Replace constant columns in a residual by their values, and decide it if it has no others.

    Args:
        values: the key, or None for NULL, of each constant column.
    """
    root = residual.expression
    constants = {
        name: _key_constant(values[name], data_type, Column(name, data_type).type)
        for name, data_type in nodes.columns(root).items()
        if values is not None and name in values
    }
    bound = replace(residual, expression=nodes.bind(root, constants)) if constants else residual
    if nodes.columns(bound.expression):
        return bound
    truth, errors = evaluate_truth(bound, {}, 1)
    if errors is not None:
        return bound
    return ALWAYS if truth[0] else NEVER


def _key_constant(key: Key | None, data_type: OrcType, typed: OrcType) -> Constant:
    """Return the value of a key. CHAR(n) values are padded with blanks, as their keys are."""
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


def bounds(root: Filter, lookup: Callable[[Indexable], Bounds | None], n: int) -> Bounds:
    """Return the rows of a stripe that a filter certainly, and possibly, keeps.

    Args:
        lookup: returns the bounds of a leaf, or of a residual with n-grams; None if there are none. It is not
            called for conditions that cannot change the result: the rest of an empty AND, or of a full OR.
        n: the number of rows of the stripe.
    """

    def atom(node: Atom) -> Bounds:
        if isinstance(node, Always):
            return Bounds.all(n)
        if isinstance(node, Never):
            return Bounds.none()
        answer = None if isinstance(node, Residual) and node.ngrams is None else lookup(node)
        if answer is None:
            answer = Bounds.unknown(n)
        elif isinstance(node, Residual) or node.is_superset:
            answer = Bounds(BitMap(), answer.upper)
        if isinstance(node, Leaf) and node.condition is not None and not answer.exact:
            answer = answer.refine(bounds(node.condition, lookup, n))
        return answer

    def combine(group: type[AllOf] | type[AnyOf], so_far: Bounds, next_: Bounds) -> Bounds:
        return so_far & next_ if group is AllOf else so_far | next_

    def is_decided(group: type[AllOf] | type[AnyOf], so_far: Bounds) -> bool:
        return not so_far.upper if group is AllOf else len(so_far.lower) == n

    return fold(root, atom, combine, is_decided)


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    combined = array.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _members(domain: Domain, keys: KeyArray) -> Mask:
    return _integer_members(domain, keys) if isinstance(keys, np.ndarray) else _bytes_members(domain, keys)


def _integer_members(domain: Domain, keys: npt.NDArray[np.int64]) -> Mask:
    lows, highs = integer_arrays(domain.ranges)
    if len(lows) > _FEW_RANGES and len(keys):
        # only ranges between the least and the greatest value can match: few, if the column is sorted
        inside = slice(highs.searchsorted(keys.min()), lows.searchsorted(keys.max(), side="right"))
        lows, highs = lows[inside], highs[inside]
    if len(lows) <= _FEW_RANGES:
        members = np.zeros(len(keys), np.bool_)
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
            members |= keys == low if low == high else (keys >= low) & (keys <= high)
        return members
    further = highs.view(np.uint64) - lows.view(np.uint64)
    if len(lows) + further.sum(dtype=np.float64) <= len(keys):
        # a hash table pays if there are more values than listed keys: binary search takes up to six times as long
        listed = concatenate_ranges(lows, further.view(np.int64) + 1)
        return _truth(pc.is_in(pa.array(keys), value_set=pa.array(listed)))
    # only the last range that starts at or before a key can contain it
    at = np.searchsorted(lows, keys, side="right") - 1
    is_member: Mask = (at >= 0) & (keys <= highs[at])
    return is_member


def _bytes_members(domain: Domain, keys: pa.LargeBinaryArray) -> Mask:
    if isinstance(domain.ranges, RangeArray) and domain.ranges.byte_keys is not None:
        return _truth(pc.is_in(keys, value_set=domain.ranges.byte_keys))
    points = [item.low for item in domain.ranges if item.is_point]
    spans = [item for item in domain.ranges if not item.is_point]
    if len(spans) > _FEW_BYTE_RANGES:
        distinct = keys.dictionary_encode()
        member_codes = np.fromiter(map(domain.contains, distinct.dictionary.to_pylist()), np.bool_)
        codes = np.asarray(distinct.indices.fill_null(0))
        return member_codes[codes] if len(member_codes) else np.zeros(len(keys), np.bool_)
    members = np.zeros(len(keys), np.bool_)
    if points:
        members |= _truth(pc.is_in(keys, value_set=pa.array(points, pa.large_binary())))
    for item in spans:
        inside = np.ones(len(keys), np.bool_)
        if item.low is not None:
            compare = pc.greater_equal if item.low_inclusive else pc.greater
            inside &= _truth(compare(keys, pa.scalar(item.low, pa.large_binary())))
        if item.high is not None:
            compare = pc.less_equal if item.high_inclusive else pc.less
            inside &= _truth(compare(keys, pa.scalar(item.high, pa.large_binary())))
        members |= inside
    return members


def _truth(answers: pa.BooleanArray) -> Mask:
    return np.asarray(answers.fill_null(False))

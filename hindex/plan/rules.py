"""Rules that bring filters to normal form, and functions that build filters with them.

A rule maps a node whose children are in normal form to an equal, simpler node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from hindex.domain import Domain
from hindex.keys import key_limits
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import ALWAYS, NEVER, AllOf, AnyOf, Atom, Filter, Leaf

N = TypeVar("N")

#: The most texts of merged leaves that are written out.
_TEXTS_SHOWN = 4


def build(
    root: N,
    group: Callable[[N], tuple[bool, Sequence[N]] | None],
    atom: Callable[[N], Filter],
    conjunction: Callable[[Sequence[Filter]], Filter] | None = None,
) -> Filter:
    """Convert a tree to a filter in normal form, without recursion.

    Args:
        group: returns True for an AND or False for an OR, and its children; None for a node without children.
        atom: returns the filter of a node without children.
        conjunction: joins the filters of an AND; `all_of` by default.
    """
    conjunction = conjunction or all_of
    # one frame for each open group: True for an AND, its children, and the filters of the visited children
    frames: list[tuple[bool, Sequence[N], list[Filter]]] = []
    node = root
    while True:
        opened = group(node)
        if opened is not None:
            frames.append((*opened, []))
            node = opened[1][0]
            continue
        value = atom(node)
        while frames:
            is_and, children, done = frames[-1]
            done.append(value)
            if len(done) < len(children):
                node = children[len(done)]
                break
            frames.pop()
            value = conjunction(done) if is_and else any_of(done)
        else:
            return value


def transform(root: Filter, atom: Callable[[Atom], Filter]) -> Filter:
    """Replace every node without children; return a tree in normal form."""

    def group(node: Filter) -> tuple[bool, Sequence[Filter]] | None:
        return (isinstance(node, AllOf), node.children) if isinstance(node, AllOf | AnyOf) else None

    return build(root, group, lambda node: node if isinstance(node, AllOf | AnyOf) else atom(node))


def all_of(children: Iterable[Filter]) -> Filter:
    """Return the conjunction of filters in normal form, itself in normal form."""
    return _simplified(AllOf(tuple(children)))


def any_of(children: Iterable[Filter]) -> Filter:
    """Return the disjunction of filters in normal form, itself in normal form."""
    return _simplified(AnyOf(tuple(children)))


def leaf(column: str, data_type: OrcType, domain: Domain, text: str = "") -> Filter:
    """Return a leaf, or the constant that is equal to it."""
    domain = open_ends(data_type, domain)
    if domain.is_none:
        return NEVER
    if domain.is_all:
        return ALWAYS
    return Leaf(column, data_type, domain, text)


def open_ends(data_type: OrcType, domain: Domain) -> Domain:
    """Remove the bounds of ranges that reach a type's least or greatest key.

    So the domain of `flag OR NOT flag` is every value. Points stay points.
    """
    limits = key_limits(data_type)
    if limits is None or not domain.ranges:
        return domain
    first, last = domain.ranges[0], domain.ranges[-1]
    opens_low = not first.is_point and first.low == limits[0]
    opens_high = not last.is_point and last.high == limits[1]
    if not opens_low and not opens_high:
        return domain
    ranges = list(domain.ranges)
    if opens_low:
        ranges[0] = replace(ranges[0], low=None)
    if opens_high:
        ranges[-1] = replace(ranges[-1], high=None)
    return Domain(tuple(ranges), domain.null_allowed)


def flatten(node: Filter) -> Filter:
    """Rewrite ``a AND (b AND c)`` to ``a AND b AND c``; likewise OR."""
    if not isinstance(node, AllOf | AnyOf) or not any(isinstance(c, type(node)) for c in node.children):
        return node
    flat: list[Filter] = []
    for child in node.children:
        if isinstance(child, AllOf | AnyOf) and type(child) is type(node):
            flat.extend(child.children)
        else:
            flat.append(child)
    return type(node)(tuple(flat))


def fold_constants(node: Filter) -> Filter:
    """Fold constants: FALSE decides an AND and is removed from an OR; TRUE the other way round."""
    if not isinstance(node, AllOf | AnyOf):
        return node
    deciding: Filter = NEVER if isinstance(node, AllOf) else ALWAYS
    neutral: Filter = ALWAYS if isinstance(node, AllOf) else NEVER
    if deciding in node.children:
        return deciding
    return type(node)(tuple(child for child in node.children if child != neutral))


def merge_columns(node: Filter) -> Filter:
    """Merge the leaves of one column in a group: AND intersects domains, OR unites them."""
    if not isinstance(node, AllOf | AnyOf):
        return node
    grouped: dict[str | int, list[Leaf]] = {}
    places: list[Filter | str] = []
    for child in node.children:
        if not isinstance(child, Leaf) or (child.has_lists and isinstance(node, AllOf)):
            # a row may have one value in each of several domains
            places.append(child)
        elif child.column in grouped:
            grouped[child.column].append(child)
        else:
            grouped[child.column] = [child]
            places.append(child.column)
    merged = tuple(
        _merge_leaves(type(node), grouped[place]) if isinstance(place, str) else place for place in places
    )
    return type(node)(merged)


def unwrap(node: Filter) -> Filter:
    """Replace a group of one child by that child, and an empty one by its neutral constant."""
    if not isinstance(node, AllOf | AnyOf) or len(node.children) > 1:
        return node
    if node.children:
        return node.children[0]
    return ALWAYS if isinstance(node, AllOf) else NEVER


#: Applied in this order to a group whose children are in normal form. Merging can make new constants.
RULES: tuple[Callable[[Filter], Filter], ...] = (
    flatten,
    fold_constants,
    merge_columns,
    fold_constants,
    unwrap,
)


def _simplified(node: Filter) -> Filter:
    for rule in RULES:
        node = rule(node)
    return node


def _merge_leaves(group: type[AllOf] | type[AnyOf], same: list[Leaf]) -> Filter:
    first = same[0]
    if len(same) == 1:
        return first
    domain = _combined(group, [one.domain for one in same])
    shown = [str(one) for one in same[:_TEXTS_SHOWN]]
    if len(same) > _TEXTS_SHOWN:
        shown.append(f"… {len(same) - _TEXTS_SHOWN:,} more")
    text = " AND ".join(shown) if group is AllOf else f"({' OR '.join(shown)})"
    conditions = [one.condition for one in same if one.condition is not None]
    if conditions:
        is_superset = any(one.is_superset for one in same)
        if domain.is_none:
            return NEVER
        if domain.is_all and not is_superset:
            return ALWAYS
        condition = _simplified(group(tuple(conditions)))
        return Leaf(
            first.column,
            first.type,
            domain,
            text,
            is_superset=is_superset,
            condition=condition,
            has_lists=first.has_lists,
        )
    if all(one.values is None for one in same):
        return leaf(first.column, first.type, domain, text)
    values = _combined(group, [one.decoded for one in same])
    if domain.is_none or values.is_none:
        return NEVER
    if values.is_all:
        return ALWAYS
    return Leaf(first.column, first.type, domain, text, values, any(one.is_superset for one in same))


def _combined(group: type[AllOf] | type[AnyOf], domains: list[Domain]) -> Domain:
    return _united(domains) if group is AnyOf else _intersected(domains)


def _united(domains: Iterable[Domain]) -> Domain:
    operands = list(domains)
    return Domain.from_ranges(
        (item for domain in operands for item in domain.ranges),
        null_allowed=any(domain.null_allowed for domain in operands),
    )


def _intersected(domains: list[Domain]) -> Domain:
    if len(domains) == 2:
        return domains[0].intersect(domains[1])
    # De Morgan: one sort of all the gaps; pairwise, `a <> 1 AND a <> 2 …` would be quadratic
    gaps = _united(domain.complement(null_allowed=not domain.null_allowed) for domain in domains)
    return gaps.complement(null_allowed=not gaps.null_allowed)

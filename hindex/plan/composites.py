"""Combine conditions on several columns into a domain of the composite keys of one index.

An index on ``(a, b)`` has the rows of each combination of values. It answers both conditions of
``a = 1 AND b > 5``, as one range of `hindex.keys.composite_keys`; of ``a > 1 AND b = 5`` only the first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from hindex.domain import Domain, Key, Range, concatenate_ranges, integer_arrays, make_range
from hindex.keys import NULL_PART, VALUE_PART, KeyKind, key_kind, key_part
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import AllOf, AnyOf, Filter, Leaf
from hindex.plan.rules import all_of, build
from hindex.value_class import value_class

#: The most combinations of values that are listed; if there are more, fewer columns are looked up.
_MAX_COMBINATIONS = 10_000


@value_class
class Composite:
    """Columns that indexes cover together.

    Attributes:
        name: the column name of the leaves on them.
        order: the order of the most precise index type.
        has_ranges: whether some index type answers ranges of keys.
    """

    name: str
    columns: tuple[str, ...]
    order: int
    has_ranges: bool


def with_composites(root: Filter, composites: Sequence[Composite], orders: Mapping[str, int]) -> Filter:
    """Join the leaves that an index on several columns answers into one leaf, with them as its condition.

    Args:
        orders: the columns with an own index that answers ranges, each with the order of the most precise one.
    """
    if not composites:
        return root

    # a filter, and True if it is part of an AND
    def group(item: tuple[Filter, bool]) -> tuple[bool, Sequence[tuple[Filter, bool]]] | None:
        node, _ = item
        is_and = isinstance(node, AllOf)
        return (
            (is_and, [(child, is_and) for child in node.children])
            if isinstance(node, AllOf | AnyOf)
            else None
        )

    def atom(item: tuple[Filter, bool]) -> Filter:
        node, is_in_and = item
        return node if is_in_and else conjunction([node])

    def conjunction(children: Sequence[Filter]) -> Filter:
        return _conjunction(children, composites, orders)

    return build((root, False), group, atom, conjunction)


def _conjunction(
    children: Sequence[Filter], composites: Sequence[Composite], orders: Mapping[str, int]
) -> Filter:
    leaves = {
        child.column: child for child in children if isinstance(child, Leaf) and child.condition is None
    }
    candidates: list[tuple[int, int, Composite, Domain]] = []
    for composite in composites:
        prefix = [leaves[name] for name in takewhile(leaves.__contains__, composite.columns)]
        if not prefix or prefix[0].domain.has_every_value:
            continue
        domain, covered = composite_domain(
            [(leaf.type, leaf.domain) for leaf in prefix], len(composite.columns)
        )
        is_useful = covered > 1 or (covered == 1 and orders.get(composite.columns[0], -1) < composite.order)
        if is_useful and (composite.has_ranges or not domain.has_spans):
            candidates.append((covered, composite.order, composite, domain))
    # indexes that answer most leaves first; another one is used if it answers a leaf that these do not
    candidates.sort(key=lambda item: item[:2], reverse=True)
    covered_columns: set[str] = set()
    composite_leaves: list[Filter] = []
    for covered, _, composite, domain in candidates:
        names = composite.columns[:covered]
        if not covered_columns.issuperset(names):
            covered_columns.update(names)
            composite_leaves.append(_leaf(composite, domain, [leaves[name] for name in names]))
    others = (
        child for child in children if not (isinstance(child, Leaf) and child.column in covered_columns)
    )
    return all_of([*composite_leaves, *others])


def _leaf(composite: Composite, domain: Domain, parts: Sequence[Leaf]) -> Leaf:
    return Leaf(
        composite.name,
        OrcType(Kind.BINARY),
        domain,
        " AND ".join(map(str, parts)),
        is_superset=any(part.is_superset for part in parts),
        condition=parts[0] if len(parts) == 1 else AllOf(tuple(parts)),
    )


def composite_domain(domains: Sequence[tuple[OrcType, Domain]], num_columns: int) -> tuple[Domain, int]:
    """Return the keys whose first parts are members of domains, and the number of leading domains that they cover.

    The last covered domain is the first with ranges, or the last that does not make too many combinations.

    Args:
        domains: types and domains of the first columns of an index.
        num_columns: the number of columns of the index.

    >>> from hindex.orc.metadata.types import Kind, OrcType
    >>> a, b = Domain.points([1, 7]), Domain.between(5, None)
    >>> domain, count = composite_domain([(OrcType(Kind.INT), a), (OrcType(Kind.INT), b)], 2)
    >>> count, [domain.contains(key_part(x) + key_part(y)) for x, y in [(1, 5), (7, 9), (1, 4), (2, 5), (1, None)]]
    (2, [True, True, False, False, False])
    """
    prefixes = [b""]
    for at, (data_type, domain) in enumerate(domains):
        if len(prefixes) * (len(domain.ranges) + domain.null_allowed) > _MAX_COMBINATIONS:
            return Domain.from_ranges(
                Range(start, _prefix_end(start), True, False) for start in prefixes if at
            ), at
        members = _members(data_type, domain) if at + 1 < len(domains) else None
        if members is None or len(prefixes) * len(members) > _MAX_COMBINATIONS:
            is_last = at + 1 == num_columns
            ranges = (
                item for start in prefixes for item in _ranges(start, data_type, domain, is_last=is_last)
            )
            return Domain.from_ranges(ranges), at + 1
        prefixes = [start + key_part(member) for start in prefixes for member in members]
    raise ValueError("there are no domains")


def _members(data_type: OrcType, domain: Domain) -> list[Key | None] | None:
    """Return the keys of a domain, with None for NULL; None if they cannot be listed or are too many."""
    nulls: list[Key | None] = [None] if domain.null_allowed else []
    if key_kind(data_type) is KeyKind.BYTES:
        return None if domain.has_spans else nulls + [item.low for item in domain.ranges]
    lows, highs = integer_arrays(domain.ranges)
    if len(lows) + (highs.astype(float) - lows).sum() > _MAX_COMBINATIONS:
        return None
    members: list[int] = concatenate_ranges(lows, highs - lows + 1).tolist()
    return nulls + members


def _ranges(start: bytes, data_type: OrcType, domain: Domain, *, is_last: bool) -> list[Range]:
    """Return the ranges of keys that begin with ``start``, followed by the part of a member of a domain."""
    parts: list[tuple[bytes, bytes]] = [(NULL_PART, NULL_PART)] if domain.null_allowed else []
    ranges: list[Range] = []
    if key_kind(data_type) is KeyKind.BYTES:
        for item in domain.ranges:
            low, high = (_bytes_part(end) for end in (item.low, item.high))
            if item.is_point:
                parts.append((low, high))
                continue
            first = start + low if item.low is None or item.low_inclusive else _prefix_end(start + low)
            end = _prefix_end(start + high) if item.high is None or item.high_inclusive else start + high
            between = make_range(first, end, high_inclusive=False)
            ranges += [] if between is None else [between]
    else:
        lows, highs = integer_arrays(domain.ranges)
        parts += [
            (key_part(low), key_part(high)) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
    for low, high in parts:
        if is_last:
            ranges.append(Range(start + low, start + high))
        else:
            ranges.append(Range(start + low, _prefix_end(start + high), True, False))
    return ranges


def _bytes_part(end: Key | None) -> bytes:
    """Return the key part of a range's bound; for no bound, the prefix of the parts of all values."""
    return VALUE_PART if end is None else key_part(end)


def _prefix_end(start: bytes) -> bytes:
    """Return the least bytes that are greater than all that begin with ``start``, whose first byte is below 255."""
    start = start.rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1])

"""Derive the n-grams that a string needs for a condition to be TRUE, so that an index on n-grams finds its rows.

The condition is then evaluated on the values, so a superset of its rows is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import takewhile

from hindex.domain import Domain, Range
from hindex.expr import nodes
from hindex.expr.coerce import type_of
from hindex.expr.nodes import Apply, Column, Constant
from hindex.expr.patterns import required_texts
from hindex.index.character_ngrams import ngrams
from hindex.orc.metadata.types import Kind
from hindex.plan.column_domains import prefix_end
from hindex.plan.filter import Atom, Filter, Leaf, Ngrams, Residual
from hindex.plan.rules import transform

#: The most alternatives, such as members of an IN list, that are looked up.
MAX_ALTERNATIVES = 16
#: Functions whose result is a part of their first argument, in upper or lower case.
_PART_OF_ARGUMENT = frozenset({"left", "lower", "ltrim", "right", "rtrim", "substring", "trim"})
_KINDS = frozenset({Kind.STRING, Kind.VARCHAR})

#: Substrings that a string must contain: all substrings of one alternative.
_Alternatives = tuple[tuple[str, ...], ...]


def with_ngrams(
    root: Filter, columns: Mapping[str, bool], name_of: Callable[[nodes.Node], str | None] = lambda _: None
) -> Filter:
    """Add the n-grams that conditions need to a filter.

    Args:
        columns: the columns with an index on n-grams, each with True if it also has an index on values, so that
            sets of values need no n-grams. Expressions count as columns.
        name_of: returns the name of an expression with an index on n-grams; None for any other.
    """

    def atom(node: Atom) -> Filter:
        required: tuple[str, _Alternatives] | None = None
        if isinstance(node, Residual) and node.wanted:
            required = _of_expression(node.expression, name_of)
        elif isinstance(node, Leaf) and not columns.get(node.column, True) and node.type.kind in _KINDS:
            required = node.column, _of_domain(node.domain)
        if required is None or required[0] not in columns or not isinstance(node, Leaf | Residual):
            return node
        column, alternatives = required
        return replace(node, ngrams=_ngrams(column, alternatives))

    return transform(root, atom) if columns else root


def _ngrams(column: str, alternatives: _Alternatives) -> Ngrams | None:
    """Return the n-grams of substrings; None if an alternative has none, or if there are too many alternatives."""
    domains = [Domain.points({part for text in texts for part in ngrams(text)}) for texts in alternatives]
    if not 0 < len(domains) <= MAX_ALTERNATIVES or any(domain.is_none for domain in domains):
        return None
    return Ngrams(column, tuple(domains))


def _of_expression(
    node: nodes.Node, name_of: Callable[[nodes.Node], str | None]
) -> tuple[str, _Alternatives] | None:
    """Return a column and the substrings that it needs for an expression to be TRUE; None if it needs none."""
    match node:
        case Apply("MATCHES", (subject,), _, (regex, *_)):
            alternatives = required_texts(regex)
        case Apply("contains" | "endswith" | "startswith" | "=" | "<=>", (subject, Constant(str() as text))):
            alternatives = ((text,),)
        case Apply(">", (Apply("instr", (subject, Constant(str() as text))), Constant(0))):
            alternatives = ((text,),)
        case Apply("<", (Constant(0), Apply("instr", (subject, Constant(str() as text))))):
            alternatives = ((text,),)
        case Apply("IN", (subject, *items)):
            texts = [item.value for item in items if isinstance(item, Constant)]
            if len(texts) < len(items):
                return None
            alternatives = tuple((text,) for text in texts if isinstance(text, str))
        case _:
            return None
    column = _source(subject, name_of)
    return None if column is None else (column, alternatives)


def _source(node: nodes.Node, name_of: Callable[[nodes.Node], str | None]) -> str | None:
    """Return the column of strings, or indexed expression, that a value is a part of in any letter case."""
    while (name := name_of(node)) is None and isinstance(node, Apply) and node.function in _PART_OF_ARGUMENT:
        node = node.args[0]
    if name is None and isinstance(node, Column) and node.column_type.kind in _KINDS:
        return node.name
    return name


def has_own_ngrams(expression: nodes.Node) -> bool:
    """Return True for a string that needs an own index on n-grams, as one from JSON; False for `lower(s)`."""
    return type_of(expression).kind in _KINDS and _source(expression, lambda _: None) is None


def _of_domain(domain: Domain) -> _Alternatives:
    """Return the prefixes of the strings of a domain."""
    if domain.null_allowed or len(domain.ranges) > MAX_ALTERNATIVES:
        return ()
    return tuple((_common_prefix(item),) for item in domain.ranges)


def _common_prefix(strings: Range) -> str:
    """Return the common prefix of all strings of a range."""
    low, high = strings.low, strings.high
    if not isinstance(low, bytes) or not isinstance(high, bytes):
        return ""
    # the strings of LIKE 'prefix%' lie below one that differs from the prefix in its last byte
    prefix = low if high == prefix_end(low) and not strings.high_inclusive else _common(low, high)
    while prefix:
        try:
            return prefix.decode()
        except UnicodeDecodeError as error:
            prefix = prefix[: error.start]
    return ""


def _common(one: bytes, other: bytes) -> bytes:
    return bytes(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

"""Filters: predicates that are typed, free of NOT, and expressed as domains of keys.

A filter is a tree of `Leaf` and `Residual` under `AllOf` and `AnyOf`. Each leaf names one column and the set of
its values (with or without NULL) for which its part of the predicate is TRUE. A residual has an expression and the
truth value that keeps a row. A row is kept exactly if the tree is true in two-valued logic. Filters are values:
frozen, hashable, picklable. `hindex.plan.rules` builds groups in normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TypeGuard, TypeVar

from hindex.domain import Domain
from hindex.expr import nodes
from hindex.orc.metadata.types import OrcType
from hindex.value_class import value_class

T = TypeVar("T")


@value_class
class Ngrams:
    """The n-grams that a string needs for a condition to be TRUE: all n-grams of one of ``alternatives``.

    Each alternative is a set of one or more n-grams (`hindex.index.character_ngrams`). For example,
    ``message RLIKE 'lost|out of'`` has two: ``los ost`` and ``out ut_ t_o _of``, where ``_`` is a blank.
    """

    column: str
    alternatives: tuple[Domain, ...]


@value_class
class Leaf:
    """Rows whose value of ``column`` is a member of ``domain``.

    A leaf may be on an expression, whose values only indexes have (`hindex.plan.index_columns`). Then ``column``
    is its SQL text, and indexes are looked up both for the leaf and for its ``condition``.

    Attributes:
        text: SQL for messages, abbreviated if long; not compared.
        values: the domain of decoded values, if these differ from the stored keys (as instants do from wall
            clocks); then ``domain`` is of the stored keys. `hindex.plan.time_zones` makes such leaves.
        is_superset: True if values outside ``values`` may have keys in ``domain``.
        ngrams: the n-grams of the domain's strings, if an index on n-grams may be used.
        condition: the filter on the table's columns that keeps the same rows as a leaf on an expression; it is
            evaluated on rows that are read.
        has_lists: True if rows have several values; a row matches if one of them is in the domain.
    """

    column: str
    type: OrcType
    domain: Domain
    text: str = field(default="", compare=False)
    values: Domain | None = None
    is_superset: bool = False
    ngrams: Ngrams | None = None
    condition: Filter | None = None
    has_lists: bool = False

    @property
    def is_on_expression(self) -> bool:
        """True if the leaf is on an expression: only indexes have its values, and files have no such column."""
        return self.condition is not None

    @property
    def decoded(self) -> Domain:
        """The domain of decoded values."""
        return self.domain if self.values is None else self.values

    def __str__(self) -> str:
        return self.text or f"{self.column} IN <{len(self.domain.ranges)} ranges>"


@value_class
class Residual:
    """Rows for which a boolean expression that has no domain of keys is ``wanted``: TRUE or FALSE.

    Attributes:
        text: SQL for messages; not compared.
        ngrams: the n-grams that a column needs for it, if an index on n-grams may be used.
    """

    expression: nodes.Node
    wanted: bool = True
    text: str = field(default="", compare=False)
    ngrams: Ngrams | None = None

    @property
    def column(self) -> str:
        """The column, or expression, whose n-grams are looked up."""
        assert self.ngrams is not None
        return self.ngrams.column

    @property
    def is_on_expression(self) -> bool:
        """True if the n-grams are of an expression: files have no such column."""
        return self.column not in nodes.columns(self.expression)

    def __str__(self) -> str:
        return self.text or ("<expression>" if self.wanted else "NOT <expression>")


@value_class
class AllOf:
    """Rows that every child keeps. In normal form: two or more children, none of them an AllOf."""

    children: tuple[Filter, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({c})" if isinstance(c, AnyOf) else str(c) for c in self.children)


@value_class
class AnyOf:
    """Rows that any child keeps. In normal form: two or more children, none of them an AnyOf."""

    children: tuple[Filter, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({c})" if isinstance(c, AllOf) else str(c) for c in self.children)


@value_class
class Always:
    """Every row."""

    def __str__(self) -> str:
        return "TRUE"


@value_class
class Never:
    """No row."""

    def __str__(self) -> str:
        return "FALSE"


#: A condition that an index may answer: a leaf, or a residual with n-grams.
Indexable = Leaf | Residual
Group = AllOf | AnyOf
Atom = Leaf | Residual | Always | Never
Filter = Atom | Group

ALWAYS = Always()
NEVER = Never()


def leaves(root: Filter) -> Iterator[Leaf]:
    """Yield the leaves from left to right."""
    return (atom for atom in atoms(root) if isinstance(atom, Leaf))


def every_leaf(root: Filter) -> Iterator[Leaf]:
    """Yield the leaves from left to right, each before those of its condition."""
    return (atom for atom in every_indexable(root) if isinstance(atom, Leaf))


def every_indexable(root: Filter) -> Iterator[Indexable]:
    """Yield the conditions that an index may answer, from left to right, a leaf before those of its condition."""
    for atom in indexable(root):
        yield atom
        if isinstance(atom, Leaf) and atom.condition is not None:
            yield from every_indexable(atom.condition)


def residuals(root: Filter) -> Iterator[Residual]:
    """Yield the residual conditions, which are evaluated on values, from left to right."""
    return (atom for atom in atoms(root) if isinstance(atom, Residual))


def indexable(root: Filter) -> Iterator[Indexable]:
    """Yield the leaves, and the residuals with n-grams, from left to right."""
    return (atom for atom in atoms(root) if is_indexable(atom))


def is_indexable(node: Filter) -> TypeGuard[Indexable]:
    """Return True if an index may answer a node."""
    return isinstance(node, Leaf) or (isinstance(node, Residual) and node.ngrams is not None)


def lookup_domains(condition: Indexable, *, on_ngrams: bool) -> tuple[Domain, ...]:
    """Return the domains to look up for a condition in an index on values or on n-grams; their rows are united.

    () if such an index does not answer the condition.
    """
    if on_ngrams:
        return () if condition.ngrams is None else condition.ngrams.alternatives
    return (condition.domain,) if isinstance(condition, Leaf) else ()


def atoms(root: Filter) -> Iterator[Atom]:
    """Yield the nodes without children, from left to right."""
    stack: list[Filter] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, AllOf | AnyOf):
            stack.extend(reversed(node.children))
        else:
            yield node


def columns(root: Filter) -> tuple[str, ...]:
    """Return the names of the columns that a filter reads, in order of first mention."""
    return tuple(column_types(root))


def column_types(root: Filter) -> dict[str, OrcType]:
    """Return the columns that a filter reads with their types, in order of first mention."""
    types: dict[str, OrcType] = {}
    for atom in atoms(root):
        if isinstance(atom, Leaf) and atom.condition is not None:
            types = column_types(atom.condition) | types
        elif isinstance(atom, Leaf):
            types.setdefault(atom.column, atom.type)
        elif isinstance(atom, Residual):
            for name, data_type in nodes.columns(atom.expression).items():
                types.setdefault(name, data_type)
    return types


def fold(
    root: Filter,
    atom: Callable[[Atom], T],
    combine: Callable[[type[AllOf] | type[AnyOf], T, T], T],
    is_decided: Callable[[type[AllOf] | type[AnyOf], T], bool],
) -> T:
    """Evaluate a tree from its leaves up, from left to right, without recursion.

    Args:
        atom: returns the result of a node without children.
        combine: combines the result of a group so far with that of its next child.
        is_decided: returns True if a group's result so far cannot change any more; its other children are skipped.
    """
    # one frame for each open group: its class, its unvisited children (last first), its result so far
    frames: list[tuple[type[AllOf] | type[AnyOf], list[Filter], list[T]]] = []
    node = root
    while True:
        if isinstance(node, AllOf | AnyOf):
            frames.append((type(node), list(reversed(node.children)), []))
            node = frames[-1][1].pop()
            continue
        value = atom(node)
        while frames:
            group, waiting, so_far = frames[-1]
            value = combine(group, so_far.pop(), value) if so_far else value
            if waiting and not is_decided(group, value):
                so_far.append(value)
                node = waiting.pop()
                break
            frames.pop()
        else:
            return value

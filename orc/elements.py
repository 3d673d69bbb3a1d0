"""About how many values the nodes of a column have in a stripe, one a row but within lists and maps one an element, and
how long their texts are.
"""

from __future__ import annotations

from hindex.orc.stripe import Stripe
from hindex.orc.tail import FileTail
from hindex.orc.types import Kind, OrcType


def value_counts(tail: FileTail, stripe: Stripe, of: OrcType) -> dict[int, int]:
    """The values of a node and of all below it, by column numbers; those of nulls count too.

    Elements are an estimate, from what the file's statistics tell of all stripes: it serves to weigh ways of reading,
    and nothing may rely on it.
    """
    counts: dict[int, int] = {}
    below = [(of, stripe.information.num_rows)]
    while below:
        node, values = below.pop()
        counts[node.column] = values
        if node.kind in (Kind.LIST, Kind.MAP):
            values = _elements(tail, stripe, node)
        below += [(child, values) for child in node.children]
    return counts


def values_held(tail: FileTail, stripe: Stripe, of: OrcType, places: int) -> int:
    """About how many of so many values of a node in a stripe are not null, by the file's statistics."""
    statistics = tail.footer.statistics
    if of.column >= len(statistics) or not statistics[of.column].HasField("number_of_values"):
        return places
    # those of structs' fields are told for all rows, and there may be more elements than rows
    told = statistics[of.column].number_of_values
    return min(places, told * stripe.information.num_rows // max(tail.num_rows, 1))


def text_bytes(tail: FileTail, of: OrcType) -> int:
    """About how many bytes a text of a node has, by the file's statistics; 0 where they tell nothing."""
    statistics = tail.footer.statistics
    if of.column >= len(statistics):
        return 0
    told = statistics[of.column]
    total = max(told.string_statistics.sum, told.binary_statistics.sum, 0)
    return total // max(told.number_of_values, 1)


def _elements(tail: FileTail, stripe: Stripe, of: OrcType) -> int:
    """Those of a stripe's lists or maps together."""
    told = _elements_told(tail, of)
    if not told:
        # no statistics: as many as a writer stores bytes for them
        return sum(stripe.data_length(node.column) for child in of.children for node in child.walk())
    return told * stripe.information.num_rows // max(tail.num_rows, 1)


def _elements_told(tail: FileTail, of: OrcType) -> int:
    """Those of the whole file, by its statistics; 0 where they tell nothing."""
    statistics = tail.footer.statistics
    if of.children[-1].column >= len(statistics):
        return 0
    # the writer in C++ leaves a sum of 0, others none; children count only what is not null
    return max(
        statistics[of.column].collection_statistics.total_children,
        *(statistics[child.column].number_of_values for child in of.children),
    )

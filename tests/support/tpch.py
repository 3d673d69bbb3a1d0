"""TPC-H: its queries, and indexes on its columns of dates, flags and keys."""

from __future__ import annotations

from pathlib import Path

#: The queries, in their order.
QUERIES = tuple(
    "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    for text in Path(__file__).with_suffix(".sql").read_text().split("\n--------\n")
)
#: The columns of each table that are indexed.
INDEXES = {
    "lineitem": ("l_shipdate", "l_receiptdate", "l_returnflag", "l_shipmode", "l_shipinstruct", "l_quantity"),
    "orders": ("o_orderdate", "o_orderstatus", "o_orderpriority"),
    "customer": ("c_mktsegment", "c_nationkey"),
    "part": ("p_brand", "p_size", "p_type", "p_container"),
    "nation": ("n_name",),
    "region": ("r_name",),
    "supplier": (),
    "partsupp": (),
}


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row whose doubles, which depend on the order of what was summed, have nine digits."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)

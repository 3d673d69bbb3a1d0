"""TPC-H: its queries, and indexes on its columns of dates, flags and keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

import hindex
from tests.support import local_build

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

#: Large enough for every query to have rows.
SCALE = "0.01"
#: By the number of a query, the tables that are read through their indexes, however many rows are left.
ACCELERATED = {
    1: ["lineitem"],
    2: ["part", "region", "region"],
    3: ["customer", "orders", "lineitem"],
    4: ["orders"],
    5: ["orders", "region"],
    6: ["lineitem"],
    7: ["lineitem", "nation", "nation"],
    8: ["part", "orders", "region"],
    9: [],
    10: ["orders", "lineitem"],
    11: ["nation", "nation"],
    12: ["lineitem"],
    13: [],
    14: ["lineitem"],
    15: ["lineitem"],
    16: ["part"],
    17: ["part"],
    18: [],
    19: ["lineitem", "part"],
    20: ["nation", "lineitem"],
    21: ["orders", "nation"],
    22: [],
}


def write_tables(root: Path, scale: str) -> None:
    """Make every table in a directory of its name: two ORC files with stripes of half a MiB."""
    program = str(Path(sys.executable).with_name("tpchgen-cli"))
    command = [program, "parquet", "-s", scale, "--output-dir", str(root)]
    subprocess.run(command, check=True, capture_output=True)
    for name in INDEXES:
        table = _plain(pa.parquet.read_table(root / f"{name}.parquet"))
        (root / name).mkdir()
        for part in range(2):
            rows = table.num_rows // 2 + 1
            path = root / name / f"{part}.orc"
            pa.orc.write_table(table.slice(part * rows, rows), path, stripe_size=1 << 19)


def write_indexed(root: Path) -> None:
    """The tables at the scale of the tests with their indexes, built without Spark."""
    write_tables(root, SCALE)
    local = local_build.LocalConnection()
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        for name, columns in INDEXES.items():
            indexes = [hindex.IndexSpec(column, column) for column in columns]
            if indexes:
                local.table(str(root / name)).create_indexes(indexes)


def _plain(table: pa.Table) -> pa.Table:
    """With strings of a type that ORC has."""
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row whose doubles, which depend on the order of what was summed, have nine digits."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)

"""A fixed table, fixed queries, and what answering them takes: counted, so that every machine finds the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import fsspec.implementations.memory
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hindex
from hindex.api.table import Table
from tests.support.local_build import LocalConnection
from tests.support.work import scan_counts
from tests.support.writers import write_pyarrow

#: What each query took when it was last accepted.
ACCEPTED = Path(__file__).with_name("counts.json")
#: The command that accepts what is found now.
COMMAND = ".venv/bin/python -m tests.guard"

#: Bytes depend a little on the versions of the compressors: so much growth is none.
BYTES_TOLERANCE = 0.03
#: The counts that are guarded; ``rows`` must be what they were.
GUARDED = (
    "ranges",
    "bytes_fetched",
    "chunks",
    "bytes_decompressed",
    "row_groups",
    "whole_columns",
    "index_files",
    "index_pages",
    "index_bytes",
)

ROWS, FILES, STRIDE, STRIPE = 60_000, 3, 1000, 1 << 16


@dataclass(frozen=True, slots=True)
class Query:
    """A predicate, the columns returned (none to count), and an Arrow expression that keeps the same rows."""

    where: str
    columns: tuple[str, ...]
    same: pc.Expression


def _field(name: str) -> pc.Expression:
    return pc.field(name)


QUERIES: dict[str, Query] = {
    "point": Query("k = 7", ("id", "price", "comment"), _field("k") == 7),
    "point, one column": Query("k = 7", ("price",), _field("k") == 7),
    "in": Query("k IN (7, 300, 499)", ("id", "price"), _field("k").isin([7, 300, 499])),
    "narrow range": Query(
        "day BETWEEN DATE '1970-01-04' AND DATE '1970-01-05'", ("id",), _field("days").isin([3, 4])
    ),
    "wide range": Query("day < DATE '1970-07-01'", ("id", "comment"), _field("days") < 181),
    "and": Query(
        "mode = 'm3' AND k < 40 AND day > DATE '1970-10-01'",
        ("id", "comment"),
        (_field("mode") == "m3") & (_field("k") < 40) & (_field("days") > 273),
    ),
    "or": Query(
        "k = 7 OR mode = 'm6' AND k = 8",
        ("id", "price"),
        (_field("k") == 7) | ((_field("mode") == "m6") & (_field("k") == 8)),
    ),
    "not": Query("NOT (k > 1 OR mode <> 'm0')", ("id",), (_field("k") <= 1) & (_field("mode") == "m0")),
    "prefix": Query(
        "mode LIKE 'm5%' AND k = 9", ("id", "mode"), (_field("mode") == "m5") & (_field("k") == 9)
    ),
    "count": Query("k = 7 AND mode = 'm1'", (), (_field("k") == 7) & (_field("mode") == "m1")),
    "min-max": Query(
        "id BETWEEN 30500 AND 30600", ("id", "comment"), (_field("id") >= 30500) & (_field("id") <= 30600)
    ),
    "btree": Query("u = 531068", ("id", "u", "comment"), _field("u") == 531068),
    "bloom": Query("w = 'w762288'", ("id", "w"), _field("w") == "w762288"),
    "no index": Query("price < 10000.00", ("id", "price"), _field("whole") < 10_000),
    "no index, with one": Query(
        "price < 500000.00 AND k = 7", ("id",), (_field("whole") < 500_000) & (_field("k") == 7)
    ),
    "no row": Query("k = 1000", ("id",), _field("k") == 1000),
    "all rows": Query("id >= 0", ("id", "k"), _field("id") >= 0),
}

_INDEXES = {"k": "bitmap", "mode": "bitmap", "day": "bitmap", "id": "minmax", "u": "btree", "w": "bloom"}


def rows() -> pa.Table:
    """All rows; ``days`` and ``whole`` are the numbers that the files hold as ``day`` and ``price``."""
    ids = np.arange(ROWS, dtype=np.int64)
    # a multiplier that scatters: no generator of random numbers is the same for ever
    scattered = (ids * 2_654_435_761) % (1 << 32)
    days, whole = (scattered // 7) % 365, (scattered // 11) % 1_000_000
    words = [f"word{number}" for number in range(997)]
    comments = [
        f"{words[a]} {words[b]} {i}"
        for i, (a, b) in enumerate(zip(scattered % 997, scattered // 997 % 991, strict=True))
    ]
    return pa.table(
        {
            "id": ids,
            "k": pa.array((scattered // 3) % 500, pa.int32()),
            "day": pa.array(days.astype(np.int32)).cast(pa.date32()),
            "mode": [f"m{value}" for value in (scattered // 13 % 7).tolist()],
            "price": pa.array(whole).cast(pa.decimal128(19, 0)).cast(pa.decimal128(15, 2)),
            "u": pa.array((ids * 7919) % 1_000_003, pa.int64()),
            "w": [f"w{value}" for value in ((ids * 104_729) % 1_299_709).tolist()],
            "comment": comments,
            "days": days,
            "whole": whole,
        }
    )


class Objects(fsspec.implementations.memory.MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory that tells when a file was written, as stores of objects do."""

    protocol = "objects"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        result: str = super()._strip_protocol(path.removeprefix("objects://"))
        return result

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = super().info(path, **options)
        return result | {"mtime": 1}

    def find(self, path: str, *arguments: Any, **options: Any) -> Any:
        return {name: self.info(name) for name in super().find(path, *arguments, **options)}


def make(directory: Path, data: pa.Table) -> dict[str, Table]:
    """Write the table and build its indexes, in this process: on local disk, and on a store of objects."""
    stored = data.drop_columns(["days", "whole"])
    fsspec.register_implementation("objects", Objects, clobber=True)
    remote = fsspec.filesystem("objects")
    for number in range(FILES):
        part = stored.slice(number * ROWS // FILES, ROWS // FILES)
        path = directory / "table" / f"part-{number}.orc"
        write_pyarrow(path, part, "zstd", stripe=STRIPE, stride=STRIDE)
        remote.pipe_file(f"/guard/part-{number}.orc", path.read_bytes())
    hx = LocalConnection(str(directory / "store"))
    tables = {"local": hx.table(str(directory / "table")), "remote": hx.table("objects://guard")}
    for table in tables.values():
        table.create_indexes([hindex.IndexSpec(column, column, using) for column, using in _INDEXES.items()])
    return tables


def count_work(tables: dict[str, Table]) -> dict[str, dict[str, int]]:
    """The rows and the guarded counts of every query, by where the table lies and the query's name."""
    measured = {}
    for place, table in tables.items():
        for name, query in QUERIES.items():
            counts = scan_counts(table.scan(query.where, query.columns))
            measured[f"{place} {name}"] = {"rows": counts["rows"]} | {
                count: counts[count] for count in GUARDED
            }
    return measured


def accepted() -> dict[str, dict[str, int]]:
    known: dict[str, dict[str, int]] = json.loads(ACCEPTED.read_text())
    return known


def growth(name: str, before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Describe the counts that grew."""
    grown = []
    for count in GUARDED:
        most = before[count] * (1 + BYTES_TOLERANCE) if "bytes" in count else before[count]
        if now[count] > most:
            share = f", {now[count] / before[count] - 1:+.0%}" if before[count] else ""
            grown.append(
                f"{name}: {count} {before[count]:,} -> {now[count]:,} ({now[count] - before[count]:+,}{share})"
            )
    return grown

"""hindex: indexes for tables of ORC files.

>>> import hindex
>>> hx = hindex.connect()
>>> users = hx.table("data/users")                                   # doctest: +SKIP
>>> users.create_index("g", column="gender", using="bitmap")         # doctest: +SKIP
>>> users.scan(where="gender = 'F'", columns=["id"]).to_arrow()      # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

if __name__ != "hindex":
    raise ImportError(f"import hindex, not {__name__}")

# a library leaves it to programs where its log goes
logging.getLogger("hindex").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from hindex import orc as orc
    from hindex import sql as sql
    from hindex.builder import Expr, call, col, lit
    from hindex.connection import Connection, connect
    from hindex.errors import HindexError
    from hindex.indexes import Index, IndexSpec
    from hindex.queries.acceleration import accelerate
    from hindex.query_result import QueryResult
    from hindex.scan.scan import Scan
    from hindex.spark.source import enable
    from hindex.tables import Table

__version__ = "0.1.0"

__all__ = [
    "Connection",
    "Expr",
    "HindexError",
    "Index",
    "IndexSpec",
    "QueryResult",
    "Scan",
    "Table",
    "__version__",
    "accelerate",
    "call",
    "col",
    "connect",
    "enable",
    "lit",
]

# executors import hindex.orc and pay for every import, so nothing is loaded before it is asked for
_HOMES = {
    "Connection": "hindex.connection",
    "Expr": "hindex.builder",
    "HindexError": "hindex.errors",
    "Index": "hindex.indexes",
    "IndexSpec": "hindex.indexes",
    "QueryResult": "hindex.query_result",
    "Scan": "hindex.scan.scan",
    "Table": "hindex.tables",
    "accelerate": "hindex.queries.acceleration",
    "call": "hindex.builder",
    "col": "hindex.builder",
    "connect": "hindex.connection",
    "enable": "hindex.spark.source",
    "lit": "hindex.builder",
    "load_ipython_extension": "hindex.magic",
}


if not TYPE_CHECKING:  # else type checkers would take every misspelt name for an object

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            found: object = getattr(importlib.import_module(_HOMES[name]), name)
            return found
        if name in ("orc", "sql"):
            return importlib.import_module(f"hindex.{name}")
        from hindex.arguments import meant

        hint = "" if name.startswith("_") else meant(name, __all__)
        raise AttributeError(
            f"module 'hindex' has no attribute {name!r}{f'; {hint}'.rstrip() if hint else ''}"
        )


def __dir__() -> list[str]:
    return sorted(__all__)

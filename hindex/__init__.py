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
    from hindex.api.acceleration import accelerate, explain
    from hindex.api.conditions import Expr, call, col, lit
    from hindex.api.connection import Connection, connect
    from hindex.api.data_source import enable
    from hindex.api.index import Index, IndexSpec
    from hindex.api.query_result import QueryResult
    from hindex.api.scan import Scan
    from hindex.api.table import Table
    from hindex.errors import HindexError, HindexWarning

__version__ = "0.1.0"

__all__ = [
    "Connection",
    "Expr",
    "HindexError",
    "HindexWarning",
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
    "explain",
    "lit",
]

# executors import hindex.orc and pay for every import, so modules are loaded at the first use of a name
_HOMES = {
    "Connection": "hindex.api.connection",
    "Expr": "hindex.api.conditions",
    "HindexError": "hindex.errors",
    "HindexWarning": "hindex.errors",
    "Index": "hindex.api.index",
    "IndexSpec": "hindex.api.index",
    "QueryResult": "hindex.api.query_result",
    "Scan": "hindex.api.scan",
    "Table": "hindex.api.table",
    "accelerate": "hindex.api.acceleration",
    "call": "hindex.api.conditions",
    "col": "hindex.api.conditions",
    "connect": "hindex.api.connection",
    "enable": "hindex.api.data_source",
    "explain": "hindex.api.acceleration",
    "lit": "hindex.api.conditions",
    "load_ipython_extension": "hindex.notebook.magic",
}


if not TYPE_CHECKING:  # else type checkers would take every misspelt name for an object

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            value: object = getattr(importlib.import_module(_HOMES[name]), name)
            return value
        if name in ("orc", "sql"):
            return importlib.import_module(f"hindex.{name}")
        from hindex.validation import suggestion

        hint = "" if name.startswith("_") else suggestion(name, __all__)
        raise AttributeError(
            f"module 'hindex' has no attribute {name!r}{f'; {hint}'.rstrip() if hint else ''}"
        )


def __dir__() -> list[str]:
    return sorted(__all__)

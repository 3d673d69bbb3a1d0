"""SQL text to typed statements and predicates; the only room that knows sqlglot.

Names load on first use, so that :mod:`hindex.sql.predicate` and :mod:`hindex.sql.statements` cost no parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if __name__ != "hindex.sql":
    # A second module name would make a second identity of every class.
    raise ImportError(f"this package is hindex.sql, not {__name__}: write `import hindex.sql`")

if TYPE_CHECKING:
    from hindex.sql.parse import parse, parse_predicate, split

__all__ = ["parse", "parse_predicate", "split"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        # Importing the submodule binds its own name here; the functions must win over the module `parse`.
        module = import_module("hindex.sql.parse")
        for public in __all__:
            globals()[public] = getattr(module, public)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

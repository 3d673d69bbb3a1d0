"""SQL text to typed statements and predicates; the only package that uses sqlglot.

Names load on first use, so that `hindex.sql.predicate` and `hindex.sql.statements` cost no parser.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

if __name__ != "hindex.sql":
    # A second module name would make a second identity of every class.
    raise ImportError(f"this package is hindex.sql, not {__name__}: write `import hindex.sql`")

if TYPE_CHECKING:
    from hindex.sql.parsing import parse, parse_columns, parse_index_statement, parse_predicate, split


class _SqlPackage(ModuleType):
    """The package, which is mistaken for a function that runs statements."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        from hindex.errors import ArgumentTypeError

        raise ArgumentTypeError(
            "hindex.sql is a package, not a function: run statements by hindex.connect().sql(...)"
        )


sys.modules[__name__].__class__ = _SqlPackage

__all__ = ["parse", "parse_columns", "parse_index_statement", "parse_predicate", "split"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        function: object = getattr(import_module("hindex.sql.parsing"), name)
        globals()[name] = function
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

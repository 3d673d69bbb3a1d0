"""The table of the scan tests."""

from tests.scan.conftest import here, indexed_tens, opened, path, table

__all__ = ["here", "indexed_tens", "opened", "path", "table"]

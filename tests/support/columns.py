"""Columns of tables as builds take them."""

from __future__ import annotations

from hindex.orc.metadata.types import OrcType
from hindex.plan.index_columns import IndexColumn
from hindex.table.schema import ResolvedColumn


def index_on(name: str, data_type: OrcType) -> IndexColumn:
    """A top-level column that an index is on."""
    return IndexColumn.of(ResolvedColumn((name,), data_type, False))

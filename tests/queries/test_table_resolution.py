"""Tables are resolved by the catalog's description, without a listing of their files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hindex.queries.table_resolution import QueryTableState
from hindex.sql.statements import TableRef


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"transactional": "true"}, True),
        ({"transactional": "TRUE"}, True),
        ({"transactional": "false", "transactional_properties": "insert_only"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_table_that_the_catalog_calls_transactional(
    properties: dict[str, str] | None, expected: bool
) -> None:
    resolver: Any = SimpleNamespace(spark=lambda: None)
    description = {"table_properties": properties}
    state = QueryTableState(resolver, TableRef.name("t"), None, description, trust_catalog=True)
    assert state.is_transactional is expected

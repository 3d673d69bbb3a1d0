"""ClickHouse in the process (chDB), on the same ORC files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.bench.engines.base import Engine
from tests.bench.predicates import cast_literal, sql
from tests.bench.queries import Mode, Query

_SETTINGS = {
    "input_format_orc_filter_push_down": 1,
    "input_format_orc_use_fast_decoder": 1,
    "output_format_arrow_string_as_string": 1,
}


class ChDb(Engine):
    name = "chdb"
    label = "chDB"
    settings = (
        "`file(…, ORC)` with the fast decoder and `input_format_orc_filter_push_down` (both are defaults)"
    )
    package = "chdb"
    in_place = True

    _session: Any

    def open(self) -> None:
        from chdb.session import Session

        self._session = Session()

    def forget(self) -> None:
        self._session.query("SYSTEM DROP MARK CACHE")

    def run(self, query: Query) -> pa.Table | int:
        columns = "*" if query.columns is None else ", ".join(query.columns)
        if query.mode is Mode.COUNT:
            columns = "count() AS count"
        elif query.mode is Mode.DISTINCT:
            columns = f"DISTINCT {columns}"
        where = "" if query.where is None else f" WHERE {sql(query.where, cast_literal)}"
        settings = ", ".join(f"{key} = {value}" for key, value in _SETTINGS.items())
        text = f"SELECT {columns} FROM file('{self.orc}/*.orc', ORC){where} SETTINGS {settings}"
        table: pa.Table = self._session.query(text, "ArrowTable")
        return int(table.column(0)[0].as_py()) if query.mode is Mode.COUNT else table

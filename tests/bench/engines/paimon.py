"""Apache Paimon's Python package, with global indexes. It pins another pyarrow, so it has an environment of its own."""

from __future__ import annotations

import shutil
import time
from typing import Any, ClassVar

import pyarrow as pa

from tests.bench.data import Distinct
from tests.bench.engines.base import Engine, orc_batches, tree_bytes
from tests.bench.predicates import (
    And,
    Between,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Prefix,
    columns,
)
from tests.bench.queries import Mode, Query

_COMPARE = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less_than",
    "<=": "less_or_equal",
    ">": "greater_than",
    ">=": "greater_or_equal",
}
_INDEX_TYPES = {Distinct.FEW: "bitmap", Distinct.MANY: "btree"}


class Paimon(Engine):
    name = "paimon"
    label = "Paimon (Python)"
    settings = "append table of ORC files, zstd; predicates pushed down with `with_filter`"
    package = "pypaimon"
    environment = "paimon-env/bin/python"

    _options: ClassVar[dict[str, str]] = {}
    _table: Any

    def _catalog(self) -> Any:
        from pypaimon import CatalogFactory

        return CatalogFactory.create({"warehouse": f"file://{self.directory.resolve()}"})

    def prepare(self) -> dict[str, float]:
        from pypaimon import Schema

        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        rows = orc_batches(self.orc)
        catalog = self._catalog()
        catalog.create_database("bench", True)
        options = {"file.format": "orc", "file.compression": "zstd", "bucket": "-1", **self._options}
        catalog.create_table("bench.rows", Schema.from_pyarrow_schema(rows.schema, options=options), False)
        table = catalog.get_table("bench.rows")
        started = time.perf_counter()
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in rows:
            write.write_arrow_batch(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        return {"convert": time.perf_counter() - started}

    def open(self) -> None:
        self._table = self._catalog().get_table("bench.rows")

    def forget(self) -> None:
        self.open()

    def run(self, query: Query) -> pa.Table | int:
        reader = self._table.new_read_builder()
        if query.where is not None:
            predicates = reader.new_predicate_builder()
            reader = reader.with_filter(_translated(query.where, predicates))
        selected = query.columns
        if selected == ():
            selected = columns(query.where)[:1]
        if selected is not None:
            reader = reader.with_projection(list(selected))
        splits = reader.new_scan().plan().splits()
        table: pa.Table = reader.new_read().to_arrow(splits)
        if query.mode is Mode.COUNT:
            return table.num_rows
        if query.mode is Mode.DISTINCT:
            return table.group_by(table.column_names).aggregate([])
        return table

    def refuses(self, query: Query) -> str | None:
        return "its predicates have no NOT" if _has_not(query.where) else None

    def sizes(self) -> dict[str, int]:
        index = sum(tree_bytes(path) for path in self.directory.rglob("index"))
        return {"data": tree_bytes(self.directory) - index, "index": index}


class PaimonIndexed(Paimon):
    name = "paimon-index"
    label = "Paimon (Python), global indexes"
    settings = (
        "as Paimon, with `row-tracking.enabled`, `data-evolution.enabled` and global indexes: bitmap on columns of few "
        "values, btree on those of many"
    )
    left_out = (
        "only if `--engines` names it: its Python reader compares every row with every range of rows that the index "
        "gives, one after the other, and is past the limits here where many rows match"
    )
    _options: ClassVar[dict[str, str]] = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "global-index.enabled": "true",
    }

    def prepare(self) -> dict[str, float]:
        converted = super().prepare()
        started = time.perf_counter()
        for column, distinct in self.dataset.indexed.items():
            self._catalog().get_table("bench.rows").create_global_index(column, _INDEX_TYPES[distinct])
        return converted | {"index": time.perf_counter() - started}


def _has_not(root: Predicate | None) -> bool:
    match root:
        case Not():
            return True
        case And(children) | Or(children):
            return any(map(_has_not, children))
        case _:
            return False


def _translated(root: Predicate, builder: Any) -> Any:
    match root:
        case Compare(column, operator, value):
            return getattr(builder, _COMPARE[operator])(column, value)
        case In(column, values):
            return builder.is_in(column, list(values))
        case Between(column, low, high):
            return builder.between(column, low, high)
        case Prefix(column, text):
            return builder.startswith(column, text)
        case IsNull(column):
            return builder.is_null(column)
        case And(children):
            return builder.and_predicates([_translated(child, builder) for child in children])
        case Or(children):
            return builder.or_predicates([_translated(child, builder) for child in children])
    raise TypeError(f"{root} has no counterpart")

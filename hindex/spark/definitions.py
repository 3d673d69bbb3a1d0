"""Definitions of indexes in the properties of a table of Spark's catalog."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hindex.errors import StoreError
from hindex.sql.predicate import quote_string
from hindex.store.definitions import MAX_LENGTH, PREFIX, decode_definition, encode_definition
from hindex.store.manifest import IndexEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("hindex")


class CatalogDefinitions:
    """Reads and writes the definitions of one table's indexes, see :class:`hindex.store.definitions.Definitions`.

    :param name: of the table, as SQL has it.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._too_long: set[str] = set()

    def read(self) -> tuple[IndexEntry, ...]:
        try:
            rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()
        except Exception as error:  # noqa: BLE001 catalogs have families of their own, and the store is there all the same
            _LOG.warning("cannot read the index definitions of %s: %s", self._name, _first_line(error))
            return ()
        definitions = []
        for key, value in rows:
            if not key.startswith(PREFIX):
                continue
            try:
                definitions.append(decode_definition(key, value))
            except StoreError as error:
                _LOG.warning("%s of %s is ignored", error, self._name)
        return tuple(sorted(definitions, key=lambda entry: (entry.created_ms, entry.name)))

    def write(self, entries: Sequence[IndexEntry], dropped: Sequence[str] = ()) -> bool:
        pairs = []
        for entry in entries:
            value = encode_definition(entry)
            if len(value) > MAX_LENGTH:
                if entry.id not in self._too_long:
                    self._too_long.add(entry.id)
                    self._warn(
                        entry.name, f"it has {len(value):,} characters, and at most {MAX_LENGTH:,} are kept"
                    )
                continue
            pairs.append(f"{quote_string(PREFIX + entry.id)} = {quote_string(value)}")
        names = ", ".join(entry.name for entry in entries)
        is_changed = False
        if pairs:
            is_changed = self._alter(names, f"SET TBLPROPERTIES ({', '.join(pairs)})")
        if dropped:
            keys = ", ".join(quote_string(PREFIX + index_id) for index_id in dropped)
            is_changed |= self._alter(names, f"UNSET TBLPROPERTIES IF EXISTS ({keys})")
        return is_changed

    def _alter(self, names: str, change: str) -> bool:
        try:
            self._spark.sql(f"ALTER TABLE {self._name} {change}").collect()
        except Exception as error:  # noqa: BLE001 as above
            self._warn(names, _first_line(error))
            return False
        return True

    def _warn(self, names: str, problem: str) -> None:
        _LOG.warning(
            "the catalog does not keep the definition of index %s on %s, so a write that deletes the index with the "
            "table's files deletes it for good: %s",
            names,
            self._name,
            problem,
        )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)

"""The engines, by name. Modules are imported by who runs them: not all are installed everywhere."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.engines.base import Engine

#: Module and class of each, in the order of reports; hindex is first, and others are compared with it.
ENGINES = {
    "hindex": ("ours", "Hindex"),
    "pyarrow": ("arrow", "PyArrow"),
    "spark": ("spark", "Spark"),
    "spark-bloom": ("spark", "SparkBloom"),
    "spark-sorted": ("spark", "SparkSorted"),
    "chdb": ("chdb_orc", "ChDb"),
    "duckdb": ("duckdb_parquet", "DuckDb"),
    "lance": ("lance_dataset", "Lance"),
    "paimon": ("paimon", "Paimon"),
    "paimon-index": ("paimon", "PaimonIndexed"),
}


def engine_class(name: str) -> type[Engine]:
    """The class of an engine; only its own module is imported, and no library before it is used."""
    module, found = ENGINES[name]
    loaded = importlib.import_module(f"tests.bench.engines.{module}")
    of: type[Engine] = getattr(loaded, found)
    return of

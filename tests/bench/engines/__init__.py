"""The engines, by name. Modules are imported at their first use, because some libraries may be missing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.engines.base import Engine

#: Module and class of each, in the order of reports; hindex is first, and others are compared with it.
ENGINES = {
    "hindex": ("ours", "Hindex"),
    "hindex-rows": ("ours", "HindexRows"),
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
    """Import and return the class of an engine; its libraries are imported at their first use."""
    module_name, class_name = ENGINES[name]
    module = importlib.import_module(f"tests.bench.engines.{module_name}")
    loaded_class: type[Engine] = getattr(module, class_name)
    return loaded_class

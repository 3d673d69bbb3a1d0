"""Random tables: directories of ORC files of every writer and codec, flat or partitioned, that then change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tests.support.values import CHAR, NARROWER, TYPES, Column, random_column, random_nulls, random_pool
from tests.support.writers import CODECS, WRITERS, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STRUCT = "nest"
#: Types of a struct's fields: those whose values are compared as they are.
_FIELDS = ("boolean", "int", "bigint", "decimal(9,2)", "string", "binary", "date")
_REGIONS = ("EU", "US", "a b", "__HIVE_DEFAULT_PARTITION__")
_NUMBERS = ("1", "2", "30", "__HIVE_DEFAULT_PARTITION__")


@dataclass
class RandomTable:
    """A table under change; every row has an ``id`` of its own.

    ``turn`` picks the writer and codec of the first file, so that a few tables go through all of them.

    Attributes:
        is_varied: whether it may have a struct, whose fields are columns by dotted paths; a CHAR column, which only one
            writer knows; and files whose columns have narrower types than the table's.
        widened: the columns that some file has with another type.
    """

    spark: SparkSession
    rng: np.random.Generator
    path: Path
    turn: int
    columns: tuple[Column, ...] = ()
    partitioning: tuple[Column, ...] = ()
    files: list[Path] = field(default_factory=list)
    description: list[str] = field(default_factory=list)
    is_varied: bool = False
    widened: set[str] = field(default_factory=set)
    _next_id: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        types = rng.permutation([*TYPES, *TYPES])[: int(rng.integers(2, 9))]
        self.columns = tuple(
            Column(f"{of.partition('(')[0][:3]}_{i}", of, random_pool(rng, of))
            for i, of in enumerate(map(str, types))
        )
        if self.is_varied:
            fields = [str(of) for of in rng.permutation(_FIELDS)[: int(rng.integers(0, 3))]]
            self.columns += tuple(
                Column(f"{_STRUCT}.{name}", of, random_pool(rng, of))
                for name, of in zip("xy", fields, strict=False)
            )
            if rng.random() < 0.3:
                self.columns += (Column("cha", CHAR, random_pool(rng, CHAR)),)
        if self.turn % 3 == 2:
            numbers = Column("part", "int", (1, 2, 30, 7))
            region = Column("region", "string", ("EU", "US", "a b", "ZZ"))
            self.partitioning = (numbers,) if rng.random() < 0.5 else (numbers, region)
        for _ in range(int(rng.integers(1, 4))):
            self.add_file()

    @property
    def schema(self) -> str:
        """The files' columns as DDL."""
        fields = [f"{c.name.partition('.')[2]}: {c.type}" for c in self.columns if "." in c.name]
        tops = [f"{column.name} {column.type}" for column in self.columns if "." not in column.name]
        return ", ".join(
            ["id bigint", *tops, *([f"{_STRUCT} struct<{', '.join(fields)}>"] if fields else [])]
        )

    @property
    def has_char(self) -> bool:
        """Return True if a column is CHAR, which Spark takes from files, and from no DDL."""
        return any(column.type == CHAR for column in self.columns)

    def add_file(self, path: Path | None = None) -> Path:
        """Write one more file, or write over one."""
        rng, number = self.rng, len(self.files)
        if path is None:
            path = self.path / self._directory() / f"file-{number:03}.orc"
            self.files.append(path)
        first = number == 0
        name = WRITERS[self.turn % len(WRITERS)] if first else str(rng.choice(WRITERS, p=[0.45, 0.45, 0.1]))
        codec = CODECS[self.turn % len(CODECS)] if first else str(rng.choice(CODECS))
        rows = int(rng.choice([0, 1, 700, 2500, 4000], p=[0.05, 0.05, 0.3, 0.3, 0.3]))
        stride = int(rng.choice([100, 1000, 10_000]))
        stripe = int(rng.choice([2_000, 20_000, 1 << 26]))
        options: dict[str, Any] = {}
        if name == "pyarrow":
            options = {"dictionary_key_size_threshold": float(rng.choice([0.0, 1.0]))}
            if rng.random() < 0.5:
                options["compression_block_size"] = 1 << 18
        elif name == "pyorc":
            options = {"dict_key_size_threshold": float(rng.choice([0.0, 1.0]))}
        data = self._data(rows, is_complete=path == self.files[0])
        if self.has_char:
            name = "pyorc"
            chars = [column.name for column in self.columns if column.type == CHAR]
            options = {"types": {column: CHAR for column in chars if column in data.column_names}}
        if name == "spark" and rows == 0:
            name = "pyarrow"
            options = {}
        writer(name, self.spark)(path, data, codec, stripe=stripe, stride=stride, **options)
        self.description.append(
            f"{path.name}: {name} {codec} {rows} rows, stride {stride}, stripe {stripe}, {options}"
        )
        return path

    def _data(self, rows: int, *, is_complete: bool) -> pa.Table:
        """Columns in any order; one of them may be missing (unless ``is_complete``), and then is null."""
        names = [column.name for column in self.columns]
        arrays: dict[str, pa.Array] = {}
        ids = pa.array(np.arange(self._next_id, self._next_id + rows), pa.int64())
        self._next_id += rows
        missing = str(self.rng.choice(names)) if not is_complete and self.rng.random() < 0.2 else ""
        for column in self.columns:
            if column.name != missing:
                arrays[column.name] = self._values(column, rows, is_complete=is_complete)
        self._nest(arrays)
        order: Sequence[str] = list(arrays)
        if len(self.files) > 1 and self.rng.random() < 0.3:
            order = [str(name) for name in self.rng.permutation(list(arrays))]
        return pa.table({"id": ids} | {name: arrays[name] for name in order})

    def _values(self, column: Column, rows: int, *, is_complete: bool) -> pa.Array:
        narrower = NARROWER.get(column.type, ())
        if not self.is_varied or is_complete or not narrower or self.rng.random() < 0.6:
            return random_column(self.rng, column, rows)
        self.widened.add(column.name)
        of = str(self.rng.choice(narrower))
        self.description.append(f"{column.name} is {of} in the next file")
        return random_column(self.rng, column, rows, of)

    def _nest(self, arrays: dict[str, pa.Array]) -> None:
        """Put the struct in place of its fields."""
        fields = [name for name in arrays if "." in name]
        if fields:
            names = [name.partition(".")[2] for name in fields]
            found = pa.StructArray.from_arrays([arrays.pop(name) for name in fields], names=names)
            arrays[_STRUCT] = random_nulls(self.rng, found)

    def _directory(self) -> str:
        parts = []
        for column in self.partitioning:
            values = _NUMBERS if column.name == "part" else _REGIONS
            # the first file has values, so that the columns' types can be told
            value = values[int(self.rng.integers(0, len(values) if self.files else 2))]
            parts.append(f"{column.name}={value}")
        return "/".join(parts)

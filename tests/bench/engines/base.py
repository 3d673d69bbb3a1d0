"""The interface of an engine. This module imports nothing of hindex: some engines need another interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from tests.bench.data import Dataset
from tests.bench.queries import Query


class Engine:
    """One way of answering queries of a table, at the best settings that its documentation gives.

    An instance lives in a worker process. `prepare` is run once, in a process of its own, and what it writes is
    kept in ``directory``; then workers `open` and `run`.
    """

    #: Its name on the command line and in reports.
    name: ClassVar[str]
    label: ClassVar[str]
    #: The settings and where they come from, in a sentence or two.
    settings: ClassVar[str]
    #: The distribution whose version is reported.
    package: ClassVar[str]
    #: Engines of the same process share a worker.
    process: ClassVar[str] = ""
    #: True if it reads the ORC files in place.
    in_place: ClassVar[bool] = False
    #: The reason to leave it out by default; empty if it takes part.
    left_out: ClassVar[str] = ""
    #: The interpreter of another environment, relative to the data's directory.
    environment: ClassVar[str | None] = None

    def __init__(self, dataset: Dataset, data: Path) -> None:
        self.dataset = dataset
        self.data = data
        self.orc = dataset.orc(data)
        self.directory = data / dataset.name / self.name

    def prepare(self) -> dict[str, float]:
        """Convert data, build indexes.

        Returns:
            The seconds of ``convert`` and ``index``, if it has these steps.
        """
        return {}

    def open(self) -> None:
        """Import what is needed, connect, start."""

    def run(self, query: Query) -> pa.Table | int:
        """Return the rows, or their number if the query counts."""
        raise NotImplementedError

    def run_here(self, query: Query) -> object:
        """Run a query in this thread alone, so that a profile sees the work."""
        return self.run(query)

    def forget(self) -> None:
        """Empty the caches: the next query runs in a warm process without data of earlier ones."""

    def refuses(self, query: Query) -> str | None:
        """Return the reason if it cannot answer a query, or None."""
        return None

    def counts(self, query: Query) -> dict[str, int]:
        """Return the work of a query, if the engine counts it: bytes, requests and the like."""
        return {}

    def sizes(self) -> dict[str, int]:
        """Bytes on disk: ``data``, and ``index`` beside it."""
        if self.in_place:
            return {"data": tree_bytes(self.orc), "index": 0}
        return {"data": tree_bytes(self.directory), "index": 0}


def tree_bytes(root: Path) -> int:
    """Sum the bytes of all files below a directory, without hidden files."""
    files = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return sum(path.stat().st_size for path in files)


def orc_batches(orc: Path, columns: list[str] | None = None) -> pa.RecordBatchReader:
    """Read all rows of a table's ORC files, a batch for each stripe."""
    import pyarrow.orc

    from tests.bench.data import data_files

    files = [pyarrow.orc.ORCFile(path) for path in data_files(orc)]
    schema = pa.schema([files[0].schema.field(name) for name in columns]) if columns else files[0].schema
    batches = (
        file.read_stripe(stripe, columns=columns).select(schema.names).cast(schema)
        for file in files
        for stripe in range(file.nstripes)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def keep(path: Path, value: Any) -> None:
    """Write a small JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")

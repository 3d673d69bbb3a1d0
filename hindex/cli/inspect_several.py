"""What ``hindex inspect`` shows of several files: each under its name."""

from __future__ import annotations

import io

import pyarrow as pa

from hindex.cli.inspect import JSON_VERSION, Inspection
from hindex.cli.inspect_text import Document
from hindex.cli.output import TableOutput


class Several:
    """Inspections in the order in which they were asked for."""

    def __init__(self) -> None:
        self._documents: list[Document] = []
        self._texts: list[str] = []

    def add(self, name: str, found: Inspection | pa.Table) -> None:
        """Add what was found under a name; of a directory, that is a table of its files."""
        if isinstance(found, Inspection):
            self._documents.append(found.to_json())
            text = found.to_text()
        else:
            self._documents.append(
                {"version": JSON_VERSION, "kind": "DIRECTORY", "directory": name, "files": found.to_pylist()}
            )
            stream = io.StringIO()
            TableOutput(stream).rows(found.schema, found.to_batches())
            text = stream.getvalue().rstrip("\n")
        self._texts.append(f"==> {name} <==\n{text}")

    def to_json(self) -> list[Document]:
        return self._documents

    def to_text(self) -> str:
        return "\n\n".join(self._texts)

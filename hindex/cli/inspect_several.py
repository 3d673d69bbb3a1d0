"""Inspect several files: print each under its name as soon as it is read."""

from __future__ import annotations

import json
import textwrap
from typing import TextIO

import pyarrow as pa

from hindex.api.value_formatting import printable
from hindex.cli.inspect import JSON_VERSION, Inspection
from hindex.cli.inspect_text import Document
from hindex.cli.output import TableOutput


class SeveralTexts:
    """Text, behind a line with the name."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._count = 0

    def add(self, name: str, found: Inspection | pa.Table) -> None:
        """Write what was found under a name; of a directory, that is a table of its files."""
        self._stream.write(f"{chr(10) if self._count else ''}==> {printable(name)} <==\n")
        self._count += 1
        if isinstance(found, Inspection):
            self._stream.write(found.to_text() + "\n")
        else:
            TableOutput(self._stream).rows(found.schema, found.to_batches())

    def end(self) -> None:
        """Nothing more is written."""


class SeveralDocuments:
    """An array of JSON documents."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._count = 0
        self._stream.write("[")

    def add(self, name: str, found: Inspection | pa.Table) -> None:
        """Write what was found under a name; of a directory, that is an object with its files."""
        document = found.to_json() if isinstance(found, Inspection) else _directory(name, found)
        element = textwrap.indent(json.dumps(document, indent=2), "  ")
        self._stream.write(f"{',' if self._count else ''}\n{element}")
        self._count += 1

    def end(self) -> None:
        """Close the array."""
        self._stream.write("\n]\n" if self._count else "]\n")


def _directory(name: str, files: pa.Table) -> Document:
    return {"version": JSON_VERSION, "kind": "DIRECTORY", "directory": name, "files": files.to_pylist()}

"""``hindex inspect``: show the content of ORC files, index files, manifests, and transactional tables.

An inspection is a JSON document, which is rendered as text for people.
"""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import Callable, Mapping
from typing import TextIO

import pyarrow as pa

from hindex.api.value_formatting import printable
from hindex.cli.inspect_document import Document
from hindex.cli.output import TableOutput
from hindex.errors import HindexError, OrcError, TableError
from hindex.formatting import counted
from hindex.index.index_file import MAGIC
from hindex.orc.acid.directory import is_acid_directory
from hindex.orc.io.file_system import file_system, open_source
from hindex.orc.io.source import ByteSource, one_line
from hindex.orc.metadata.file_tail import MAGIC as ORC_MAGIC
from hindex.store.manifest_file import MAGIC as MANIFEST_MAGIC
from hindex.table.location import is_local, join_uri
from hindex.validation import is_utf8
from hindex.value_class import value_class

#: Suffix of files with parts of a manifest.
_SEGMENT = ".segment"

#: Version of the JSON document: it grows when the meaning of a key changes, not when keys are added.
JSON_VERSION = 1

_DIRECTORY = pa.schema(
    [
        ("file", pa.string()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("stripes", pa.int64()),
        ("detail", pa.string()),
    ]
)


@value_class
class Inspection:
    """The content of one file: ``document`` has the same keys for all files of a kind, with None for missing parts."""

    document: Document
    render: Callable[[Document], str]

    def to_json(self) -> Document:
        return self.document

    def to_text(self) -> str:
        return self.render(self.document)


def inspect_path(path: str, *, row_groups: bool = False, valid_write_ids: str = "") -> Inspection | pa.Table:
    """Inspect a file or a transactional table, or list the files of a directory.

    Args:
        row_groups: include the statistics of row groups.
        valid_write_ids: the visible write ids of a transactional table.

    Raises:
        HindexError: if there is no such file, or it is corrupt or has an unknown format.
    """
    if not is_utf8(path):
        raise TableError(
            f"the name {path!a} is not UTF-8; rename it, or set PYTHONUTF8=1 if it is and the locale is not"
        )
    names = _names(path)
    if names is None:
        return _inspected(open_source(path), row_groups=row_groups)
    if any(map(_is_acid, names)):
        return _transactional(path, valid_write_ids)
    return _directory(path, names)


def _names(path: str) -> dict[str, int] | None:
    """Return the lengths of all files below a directory, by path within it; None for a file.

    Raises:
        TableError: if there is nothing, or it cannot be read.
    """
    files, inner = file_system(path)
    try:
        # an object store has files only
        with contextlib.suppress(FileNotFoundError):
            if not files.info(inner).is_directory:
                return None
        names = {info.path: info.length for info in files.entries(inner) if not info.is_directory}
    except FileNotFoundError:
        raise TableError(f"there is no file {path!r}") from None
    except OSError as error:
        raise TableError(f"{path!r} cannot be read: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path!r} has a file whose name {error.object!r} is not UTF-8; rename it"
        ) from error
    if not names and not is_local(path):
        raise TableError(f"there is no file {path!r}")
    return names


def _inspected(source: ByteSource, *, row_groups: bool = False) -> Inspection:
    from hindex.cli import inspect_index, inspect_manifest, inspect_orc

    try:
        size = source.size()
        length = min(size, len(MAGIC))
        head, end = (bytes(view) for view in source.read([(0, length), (size - length, length)]))
        # a truncated index file still begins with the magic
        if MAGIC in (head, end):
            document, render = inspect_index.document(source), inspect_index.text
        elif head == MANIFEST_MAGIC:
            document, render = inspect_manifest.document(source), inspect_manifest.text
        elif source.path.endswith(_SEGMENT):
            raise OrcError(
                "this is a segment of an index store: inspect the manifest that names it", path=source.path
            )
        elif size and end[-4:-1] != ORC_MAGIC and not head.startswith(ORC_MAGIC):
            raise OrcError(
                "unrecognized file format: expected an ORC file, an index file or a manifest",
                path=source.path,
            )
        else:
            document, render = inspect_orc.document(source, row_groups=row_groups), inspect_orc.text
    finally:
        source.close()
    return Inspection({"version": JSON_VERSION, **document}, render)


def _is_acid(path: str) -> bool:
    """Return True if a path within a directory leads through a visible base or delta directory."""
    return not _is_hidden(path) and any(is_acid_directory(part) for part in path.strip("/").split("/"))


def _is_hidden(path: str) -> bool:
    """Return True if readers of the table skip a path within a directory, such as an index store."""
    parts = path.strip("/").split("/")
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def _transactional(path: str, valid_write_ids: str) -> Inspection:
    from hindex.cli import inspect_acid

    document = inspect_acid.document(path, valid_write_ids)
    return Inspection({"version": JSON_VERSION, **document}, inspect_acid.text)


def _directory(path: str, lengths: Mapping[str, int]) -> pa.Table:
    """Return a row for each file in order of paths: data files first, then hidden ones, such as an index store."""
    rows = []
    for name in sorted(lengths, key=lambda name: (_is_hidden(name), name)):
        base_name = name.rpartition("/")[2]
        if base_name.startswith(".") or base_name == "_SUCCESS":
            continue
        row: Document = {"file": name, "kind": None, "bytes": lengths[name]}
        try:
            document = _inspected(open_source(join_uri(path, name))).document
        except HindexError as error:
            row["detail"] = error.message if isinstance(error, OrcError) else str(error)
        else:
            row |= _summary(document)
        rows.append(row)
    return pa.Table.from_pylist(rows, _DIRECTORY)


def _summary(document: Document) -> Document:
    """Summarize a file for the listing of a directory."""
    if document["kind"] == "MANIFEST":
        names = ", ".join(entry["name"] for entry in document["indexes"])
        return {"kind": "MANIFEST", "detail": f"number {document['number']}, indexes: {names or 'none'}"}
    stripes = len(document["stripes"])
    if document["kind"] == "ORC":
        detail = f"{document['compression']['codec']}, {document['writer']['name']}"
        return {"kind": "ORC", "rows": document["rows"], "stripes": stripes, "detail": detail}
    column, files = document["column"], document["index_files"]
    if files:
        stripes = sum(len(item["stripes"]) for item in files)
        return {
            "kind": document["index_type"],
            "stripes": stripes,
            "detail": f"{counted(len(files), 'index file')} on {column['name']}",
        }
    return {
        "kind": document["index_type"],
        "stripes": stripes,
        "detail": f"index on {column['name']} {column['type']}",
    }


class SeveralTexts:
    """Inspections as text, each after a line with its name."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._count = 0

    def add(self, name: str, content: Inspection | pa.Table) -> None:
        """Write an inspection, or the table of the files of a directory."""
        self._stream.write(f"{chr(10) if self._count else ''}==> {printable(name)} <==\n")
        self._count += 1
        if isinstance(content, Inspection):
            self._stream.write(content.to_text() + "\n")
        else:
            TableOutput(self._stream).rows(content.schema, content.to_batches())

    def end(self) -> None:
        """Write nothing more."""


class SeveralDocuments:
    """Inspections as an array of JSON documents."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._count = 0
        self._stream.write("[")

    def add(self, name: str, content: Inspection | pa.Table) -> None:
        """Write an inspection, or an object with the files of a directory."""
        document = (
            content.to_json() if isinstance(content, Inspection) else _directory_document(name, content)
        )
        element = textwrap.indent(json.dumps(document, indent=2), "  ")
        self._stream.write(f"{',' if self._count else ''}\n{element}")
        self._count += 1

    def end(self) -> None:
        """Close the array."""
        self._stream.write("\n]\n" if self._count else "]\n")


def _directory_document(name: str, files: pa.Table) -> Document:
    return {"version": JSON_VERSION, "kind": "DIRECTORY", "directory": name, "files": files.to_pylist()}

"""The shared parts of index file builders: type checks, the output file, the footer."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa

from hindex.errors import BuildError
from hindex.index.index_file import BinarySink, Footer, IndexFileWriter
from hindex.index.index_type import (
    IndexFileSummary,
    IndexType,
    Property,
    StripeSummary,
    check_array,
    check_column,
    resolve_properties,
)
from hindex.index.leaf_page import MAX_KEYS
from hindex.index.roaring import MAX_ROWS
from hindex.keys import KeyKind
from hindex.orc.metadata.types import OrcType
from hindex.table.type_text import type_text


def whole_number(text: str, most: int) -> str:
    """Return a property's value as digits.

    Raises:
        ValueError: if it is not a whole number from 1 to ``most``.
    """
    digits = text.strip()
    value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
    if not 1 <= value <= most:
        raise ValueError(f"a whole number from 1 to {most} is expected")
    return str(value)


def _values_per_page(text: str) -> str:
    return whole_number(text, MAX_KEYS)


#: The property of the types whose files are B+trees.
VALUES_PER_PAGE = Property("values_per_page", "4096", _values_per_page, "most distinct values of a leaf page")


class FileBuilder:
    """The base of builders. They add stripes to ``stripes`` and pages to ``writer``, and finish with a directory.

    Args:
        sink: a path that must not exist, or an output that the caller closes.
        data_type: the column's type.
        column: its dotted path, for display.
        metadata: stored in the footer unchanged, such as the data file's fingerprint.
        has_keys: False if the index stores values without keys; readers then ignore the footer's kind of keys.

    Raises:
        ColumnError: if columns of this type cannot be indexed.
        HindexError: if a property is unknown or ill-formed.
    """

    def __init__(
        self,
        index: IndexType,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        has_keys: bool = True,
    ) -> None:
        self._index = index
        self._type = data_type
        self._kind = check_column(index, column, data_type) if has_keys else KeyKind.BYTES
        self._column = column
        self._metadata = dict(metadata or {})
        self._properties = resolve_properties(index, properties)
        self._stripes: list[StripeSummary] = []
        self._writer = IndexFileWriter(sink)

    def abort(self) -> None:
        """Stop writing; remove the file if the builder opened it."""
        self._writer.abort()

    def _one_array(self, array: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the values of a stripe as one array of the right type.

        Raises:
            BuildError: if they are of another type, or more than there are row numbers.
        """
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        check_array(self._type, array.type)
        if len(array) > MAX_ROWS:
            raise BuildError(f"a stripe of {len(array)} rows cannot be indexed: the limit is {MAX_ROWS}")
        return array

    def _finish(self, body: bytes) -> IndexFileSummary:
        """Write the footer with the type's own directory; sync and close the file if the builder opened it."""
        footer = Footer(
            index_type=self._index.name,
            column=self._column,
            column_type=type_text(self._type),
            key_kind=self._kind,
            properties=self._properties,
            metadata=self._metadata,
            body=body,
            writer="hindex",
        )
        length, crc = self._writer.finish(footer)
        return IndexFileSummary(length, crc, tuple(self._stripes))

"""Files of CHAR columns, which pyarrow does not write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hindex.orc.metadata.types import Kind
from tests.fuzz.parts import put_together, take_apart
from tests.support.small import write_columns


def as_char(path: Path, values: Sequence[str | None], length: int, first: int = 0) -> None:
    """A file of a CHAR column as writers leave it that do not store the blanks at a value's end."""
    write_columns(
        path, {"id": pa.array(range(first, first + len(values))), "c": pa.array(values)}, codec="none"
    )
    parts = take_apart(path.read_bytes())
    parts.footer.types[2].kind, parts.footer.types[2].maximum_length = Kind.CHAR, length
    path.write_bytes(put_together(parts))

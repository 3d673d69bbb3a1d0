"""The ORC format: bytes to Arrow, with row selection.

>>> import hindex.orc
>>> hindex.orc.OrcReader("users.orc").read(columns=["name"], rows=[3, 70_000])  # doctest: +SKIP
"""

if __name__ != "hindex.orc":
    raise ImportError(f"import hindex.orc, not {__name__}: a second name would make second classes")

try:
    from hindex.orc import kernel as kernel
except ImportError as error:
    raise ImportError(
        f"the compiled part of hindex does not load ({error}): install hindex with pip for this Python (in a checkout: "
        "make venv); it cannot be in an archive, as those of --py-files"
    ) from None

from hindex.orc.io.file_system import open_source
from hindex.orc.io.metrics import ReadCounts
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.reader.orc_reader import OrcReader
from hindex.orc.reader.row_selection import RowSelection

__all__ = [
    "ByteSource",
    "Kind",
    "OrcReader",
    "OrcType",
    "ReadCounts",
    "RowSelection",
    "open_source",
]

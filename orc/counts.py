"""What a reader had to do: counted, so that tests and EXPLAIN can tell."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields

from hindex.orc.compression import Decompressor


@dataclass(slots=True)
class ReadCounts:
    """Sums over all reads of one reader; bytes are of the file unless they say otherwise.

    ``row_groups`` counts each touched row group once a column; ``dense_columns`` and ``whole_columns`` count
    the columns of stripes that pyarrow, or hindex's own decoders, decoded whole.
    """

    ranges: int = 0
    bytes_fetched: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    bytes_decompressed: int = 0
    row_groups: int = 0
    dense_columns: int = 0
    dense_rows: int = 0
    whole_columns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                setattr(self, name, getattr(self, name) + count)

    def add_decompressor(self, decompressor: Decompressor) -> None:
        self.add(
            chunks=decompressor.chunks,
            chunk_bytes=decompressor.bytes_in,
            bytes_decompressed=decompressor.bytes_out,
        )

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}

"""Structs, lists and maps: what is read of them, and a claimed encoding without a meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import EncodingKind
from tests.fuzz.parts import Hooks, put_together, take_apart
from tests.support.messages import raises


def test_work(tmp_path: Path) -> None:
    """All bytes of a column are read once where all row groups are touched, and fewer where few are."""
    rows, stride = 60_000, 1000
    table = pa.table(
        {
            "device": pa.array([{"os": f"os {i * 7 % 12}", "version": i % 30} for i in range(rows)]),
            "tags": pa.array([[f"tag {j * i % 50}" for j in range(i % 4)] for i in range(rows)]),
        }
    )
    path = tmp_path / "t.orc"
    pyarrow.orc.write_table(table, path, row_index_stride=stride, compression="zstd")
    quarter, few = np.arange(0, rows, 4), np.arange(30_000, 30_005)
    for name in table.column_names:
        for wanted in (None, quarter):
            reader = OrcReader(path)
            expected = table[name] if wanted is None else table[name].take(wanted)
            opened = reader.counts.bytes_fetched
            assert reader.read([name], wanted)[name].equals(expected)
            assert (reader.counts.whole_columns, reader.counts.row_groups) == (1, 0)
            stripe = reader.stripe(0)
            stored = sum(stripe.data_length(node.column) for node in reader.column_type(name).walk())
            # a stripe's footer is read once
            assert reader.counts.bytes_fetched - opened <= stored + reader.stripes[0].footer_length
        reader = OrcReader(path)
        assert reader.read([name], few)[name].equals(table[name].take(few))
        assert (reader.counts.whole_columns, reader.counts.row_groups) == (0, 1)


def test_a_list_that_says_it_has_a_dictionary() -> None:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": [[1, 2, 3]] * 500}), sink, compression="uncompressed")
    parts = take_apart(sink.getvalue().to_pybytes())
    stripe = parts.stripes[0]
    (at,) = (i for i, stream in enumerate(stripe.footer.streams) if (stream.column, stream.kind) == (1, 2))

    def claim(name: str, message: Any) -> None:
        if name == "stripe footer":
            message.columns[1].kind = EncodingKind.DICTIONARY_V2

    data = put_together(parts, 0, 1 << 18, Hooks(message=claim))
    reader = OrcReader(BytesSource(data))
    assert reader.read().column("c").to_pylist() == [[1, 2, 3]] * 500
    # lengths beyond what is stored
    stripe.streams[at] = (b"\xc1\xff" + b"\xff\xff\x03" + b"\0") * 2
    data = put_together(parts, 0, 1 << 18, Hooks(message=claim))
    reader = OrcReader(BytesSource(data))
    with raises(OrcError):
        reader.read()

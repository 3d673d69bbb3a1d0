"""The bytes that a reader says it is going to read, beside those that it reads."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.reader.row_selection import RowSelection
from tests.support.messages import raises

ROWS, BLOCK = 60_000, 1 << 16
COLUMNS = ("a", "s", "d", "l", "n")


@pytest.fixture(scope="module", params=["uncompressed", "zlib", "zstd"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = np.random.default_rng(7)
    table = pa.table(
        {
            "a": chance.integers(0, 1 << 40, ROWS),
            "s": [f"x{value}" for value in chance.random(ROWS)],
            "d": [f"k{at % 50}" for at in range(ROWS)],
            "l": [[at, at + 1] for at in range(ROWS)],
            "n": pa.array([None if at % 3 else at for at in range(ROWS)], pa.int64()),
        }
    )
    target = tmp_path_factory.mktemp("bytes") / f"{request.param}.orc"
    pyarrow.orc.write_table(
        table,
        target,
        compression=request.param,
        row_index_stride=1000,
        compression_block_size=BLOCK,
        batch_size=1000,
    )
    return target


@pytest.mark.parametrize("rows", [0, 1, 3, 30, None])
@pytest.mark.parametrize("columns", [*[(name,) for name in COLUMNS], ("a", "s", "l")])
def test_bytes_are_those_that_are_read(path: Path, columns: tuple[str, ...], rows: int | None) -> None:
    chance = random.Random(f"{columns} {rows}")
    with OrcReader(path) as reader:
        assert len(reader.stripes) == 1
        stripe = reader.stripe(0)
        wanted = None if rows is None else sorted(chance.sample(range(ROWS), rows))
        selection = RowSelection(ROWS) if wanted is None else RowSelection.of(wanted, ROWS)
        before = reader.counts.bytes_fetched
        planned = reader.bytes_to_read(0, columns, selection)
        indexed = reader.counts.bytes_fetched - before
        assert indexed <= reader.stripes[0].index_length, "no data is read for it"
        assert reader.bytes_to_read(0, columns, selection) == planned
        batch = reader.read_stripe(0, columns, selection)
        fetched = reader.counts.bytes_fetched - before - indexed
    assert batch.num_rows == (ROWS if rows is None else rows)
    nodes = [node.column for name in columns for node in reader.column_type(name).walk()]
    whole = sum(map(stripe.data_length, nodes))
    streams = sum((node, kind) in stripe.streams for node in nodes for kind in range(8))
    if rows is None:
        assert planned == fetched == whole
    elif not rows:
        assert planned == fetched == 0
    else:
        # where a chunk ends is guessed, one for each row group and stream
        slack = 0 if "uncompressed" in path.name and columns != ("n",) else 2 * BLOCK * rows * streams
        assert abs(planned - fetched) <= slack
        assert 0 < planned <= whole
        if columns == ("a",) and rows == 1:
            assert planned < whole // 4


def test_damaged_row_index_is_named(path: Path, tmp_path: Path) -> None:
    with OrcReader(path) as reader:
        at, length = reader.stripes[0].offset, reader.stripes[0].index_length
    data = bytearray(path.read_bytes())
    data[at : at + length] = b"\xff" * length
    damaged = tmp_path / "damaged.orc"
    damaged.write_bytes(data)
    with OrcReader(damaged) as reader, raises(OrcError):
        reader.bytes_to_read(0, COLUMNS, RowSelection.of([5], ROWS))

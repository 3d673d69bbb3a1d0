"""Compare rows that the reader selects with those of an oracle, and count what the reader reads for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc import OrcReader
from hindex.orc.io.metrics import ReadCounts
from hindex.orc.io.source import BytesSource

Ints = npt.NDArray[np.int64]


def selections(reader: OrcReader, rng: np.random.Generator) -> dict[str, Ints | None]:
    """Select rows by what the reader treats alike: single ones, ranges, row groups, stripes, all."""
    rows = np.arange(reader.num_rows)
    if not len(rows):
        return {"none": rows, "all": None}
    stride = reader.tail.row_index_stride or 1000
    # of each row its number within its row group, and the number of that among all of the file
    offsets = np.concatenate([np.arange(stripe.num_rows) % stride for stripe in reader.stripes])
    groups = np.cumsum(offsets == 0)
    is_last = np.append(offsets[1:] == 0, True)
    is_chosen = rng.random(int(groups[-1]) + 1)[groups] < 0.5
    begin, end = np.sort(rng.integers(0, len(rows), 2))
    stripe = reader.stripes[len(reader.stripes) // 2]
    return {
        "none": rows[:0],
        "all": None,
        "first": rows[:1],
        "last": rows[-1:],
        "one": rng.integers(0, len(rows), 1),
        "few": np.unique(rng.integers(0, len(rows), 5)),
        "every 7th": rows[::7],
        "half": rows[rng.random(len(rows)) < 0.5],
        "range": rows[begin : end + 1],
        "range but one": np.delete(rows[begin : end + 1], (end - begin) // 2),
        "all but one": np.delete(rows, rng.integers(len(rows))),
        "ends of row groups": rows[(offsets == 0) | is_last],
        "every other row group": rows[groups % 2 == 1],
        "some row groups": rows[is_chosen],
        "some rows of some row groups": rows[is_chosen & (rng.random(len(rows)) < 0.1)],
        "stripe": rows[stripe.first_row : stripe.first_row + stripe.num_rows],
    }


class Oracle:
    """The rows of a file as another reader has them.

    Args:
        table: all rows; timestamps may be of any unit and zone.
    """

    def __init__(self, table: pa.Table) -> None:
        self._columns = dict(_with_fields(table))
        self._lists = {
            name: column.to_pylist() for name, column in self._columns.items() if _has_union(column.type)
        }
        self.names = table.column_names
        #: Dotted paths of the fields within structs.
        self.paths = [name for name in self._columns if name not in self.names]

    def check(self, table: pa.Table, rows: Ints | None, label: str) -> None:
        """Assert that a table has these rows of the oracle: values, nulls, types, and signs of zeros."""
        for name, actual in zip(table.column_names, table.columns, strict=True):
            actual.validate(full=True)
            if name in self._lists:
                expected = self._lists[name]
                assert actual.to_pylist() == (
                    expected if rows is None else [expected[row] for row in rows]
                ), (label, name)
                continue
            values = self._columns[name]
            values = values if rows is None else values.take(pa.array(rows))
            if pa.types.is_timestamp(values.type):
                values = pc.floor_temporal(values, unit="microsecond").cast(actual.type)
            assert actual.equals(values), (label, name)
            if pa.types.is_floating(values.type):
                signs = [np.signbit(column.drop_null().to_numpy()) for column in (actual, values)]
                assert np.array_equal(*signs), (label, name)


def _with_fields(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the columns, and the fields within structs by their paths: null where one of the structs is."""
    queue = list(zip(table.column_names, table.columns, strict=True))
    while queue:
        name, column = queue.pop(0)
        yield name, column
        if pa.types.is_struct(column.type):
            queue += [(f"{name}.{field.name}", pc.struct_field(column, field.name)) for field in column.type]


def _has_union(data_type: pa.DataType) -> bool:
    return pa.types.is_union(data_type) or any(
        _has_union(data_type.field(i).type) for i in range(data_type.num_fields)
    )


def check_selections(
    source: Path | bytes, oracle: Oracle, rng: np.random.Generator, label: str, most: int | None = None
) -> None:
    """Assert that a file has the oracle's rows at `selections`: read at once, and for some in batches.

    Args:
        most: so many random ones of the selections; all if None.
    """
    with _open(source) as reader:
        assert list(reader.names) == oracle.names
        chosen = rng.permutation(list(selected := selections(reader, rng)))[:most].tolist()
        for name in chosen:
            rows = selected[name]
            count = reader.num_rows if rows is None else len(rows)
            table = reader.read(rows=rows, threads=int(rng.integers(1, 3)))
            assert table.num_rows == count
            oracle.check(table, rows, f"{label}, {name}")
            if oracle.paths:
                oracle.check(reader.read(oracle.paths, rows), rows, f"{label}, {name}")
            if name in chosen[:2]:
                size = int(rng.integers(1, max(count // 2, 2)))
                batches = list(reader.batches(rows=rows, batch_size=size))
                assert all(0 < batch.num_rows <= size for batch in batches)
                oracle.check(
                    pa.Table.from_batches(batches, reader.schema), rows, f"{label}, batches of {name}"
                )


def work(source: Path | bytes, rows: Ints | None) -> ReadCounts:
    """Count what a read of all columns reads, without the file's tail."""
    with _open(source) as reader:
        opened = reader.counts.bytes_fetched
        reader.read(rows=rows)
        reader.counts.bytes_fetched -= opened
        return reader.counts


def _open(source: Path | bytes) -> OrcReader:
    return OrcReader(BytesSource(source) if isinstance(source, bytes) else source)

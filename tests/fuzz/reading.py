"""Reading one file in several ways, and telling a refusal from a fault."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.reader import orc_reader, stripe_reader
from hindex.orc.reader.file_indexes import FileIndexes

#: The name that errors must tell.
PATH = "damaged.orc"

#: Complaints about values, which nothing in the format vouches for.
_DATA = ("UTF8", "does not fit in precision")


#: In so many ways each input is read: as a user would read all of it, and others that chance picks.
WAYS = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """Something other than rows or an `OrcError` that tells the place."""

    way: str
    what: str


@dataclass(slots=True)
class Outcome:
    """The outcome of one file: the number of reads that gave rows, the number refused, and the faults."""

    read: int = 0
    refused: int = 0
    with_column: int = 0
    is_open: bool = False
    faults: tuple[Fault, ...] = ()


def read_in_ways(data: bytes, rng: random.Random) -> Outcome:
    """Read a file whole, and sparsely, in batches, by fields, or its own indexes."""
    # every other file in windows of one row group, as large ones are in windows of some
    size = rng.choice((1, stripe_reader.WINDOW_BYTES))
    with (
        mock.patch.object(stripe_reader, "WINDOW_BYTES", size),
        mock.patch.object(orc_reader, "_PIECE_BYTES", size),
    ):
        return _read_in_ways(data, rng)


def _read_in_ways(data: bytes, rng: random.Random) -> Outcome:
    outcome = Outcome()
    try:
        tail = OrcReader(BytesSource(data, PATH)).tail
    except OrcError as error:
        outcome.refused += 1
        if error.path != PATH:
            outcome.faults += (Fault("open", f"the error does not name the file: {error}"),)
        return outcome
    except Exception:  # noqa: BLE001  whatever it is, it is a finding
        outcome.faults += (Fault("open", traceback.format_exc(limit=-6)),)
        return outcome
    outcome.is_open = True
    (first, *others) = _ways(data, tail.schema, [stripe.num_rows for stripe in tail.stripes], rng)
    for name, way in (first, *rng.sample(others, WAYS - 1)):
        try:
            way()
        except OrcError as error:
            outcome.refused += 1
            outcome.with_column += error.column is not None
            # a type that cannot be read is one of all stripes
            if error.path != PATH or (error.stripe is None and error.column is None):
                outcome.faults += (
                    Fault(name, f"the error does not name file, and stripe or column: {error}"),
                )
        except Exception:  # noqa: BLE001  whatever it is, it is a finding
            outcome.faults += (Fault(name, traceback.format_exc(limit=-6)),)
        else:
            outcome.read += 1
    return outcome


def _ways(
    data: bytes, schema: OrcType, stripes: list[int], rng: random.Random
) -> Iterator[tuple[str, Callable[[], None]]]:
    def reader() -> OrcReader:
        return OrcReader(BytesSource(data, PATH))

    total = sum(stripes)
    chosen = {i: sorted({rng.randrange(n) for _ in range(4)}) for i, n in enumerate(stripes) if n}
    group = {i: range(min(n, 100), min(n, 200)) for i, n in enumerate(stripes)}
    fields = sorted(_fields(schema))
    name = rng.choice(fields) if fields else None

    def rows(wanted: Any, columns: list[str] | None = None) -> Callable[[], None]:
        def read() -> None:
            table = reader().read(columns, wanted, threads=1)
            if wanted is None:
                assert table.num_rows == total, (table.num_rows, total)
            elif isinstance(wanted, dict):
                assert table.num_rows == sum(map(len, wanted.values())), table.num_rows
            _check(table)

        return read

    yield "all", rows(None)
    yield "some", rows(chosen)
    yield "row group", rows(group)
    if name is not None:
        yield "field of some", rows(chosen, [name])
        yield "field of all", rows(None, [name])

    def batches() -> None:
        for batch in reader().batches(rows=chosen, batch_size=rng.choice([1, 50])):
            _check(pa.Table.from_batches([batch]))

    yield "batches", batches
    yield "indexes", lambda: _indexes(reader(), schema)


def _fields(data_type: OrcType, prefix: str = "") -> Iterator[str]:
    """The dotted paths of a struct's fields, as far as names tell them apart."""
    for name, child in zip(data_type.field_names, data_type.children, strict=True):
        if name and "." not in name and list(data_type.field_names).count(name) == 1:
            yield prefix + name
            if child.kind == Kind.STRUCT:
                yield from _fields(child, f"{prefix}{name}.")


def _check(table: pa.Table) -> None:
    """That the arrays are well-formed, whatever their values are."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        if not any(message in str(error) for message in _DATA):
            raise


def _indexes(reader: OrcReader, schema: OrcType) -> None:
    indexes = FileIndexes(reader)
    for stripe in range(min(len(reader.stripes), 3)):
        for node in schema.walk():
            indexes.file_statistics(node.column)
            indexes.stripe_statistics(stripe, node.column)
            indexes.group_statistics(stripe, node.column)
            stream = indexes.bloom_stream(stripe, node)
            if isinstance(stream, tuple):
                filters = indexes.bloom_filters(stripe, node.column, StreamKind(stream[0]))
                if not hasattr(filters, "is_fault"):
                    filters.might_contain_any([1, 2, 3])

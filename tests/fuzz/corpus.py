"""Small sound files of all types, encodings, codecs and layouts, for the fuzz run to damage."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc

from hindex.orc.metadata.file_tail import parse_types
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind
from hindex.proto import orc_metadata_pb2 as pb
from tests.fuzz.parts import FileParts, joined, put_together, take_apart
from tests.support.writers import write_pyarrow

STRIDE = 100

#: Numbers of ``CompressionKind``.
CODECS = (0, 1, 2, 3, 4, 5, 6)

Column = tuple[pa.DataType, Any]


def _columns(rng: random.Random) -> dict[str, dict[str, Column]]:
    """Small tables by name: columns of a type, and what makes their values."""

    def words() -> str:
        return rng.choice(["", "a", "Ärger", "𝄞", "x" * rng.randrange(60), f"w{rng.randrange(20)}"])

    def moment() -> datetime.datetime:
        seconds = rng.randrange(-(10**9), 10**9)
        return datetime.datetime(1990, 1, 1) + datetime.timedelta(
            seconds=seconds,
            microseconds=rng.choice([0, 0, 500_000, rng.randrange(10**6)]) if seconds > 0 else 0,
        )

    def number() -> int:
        return rng.choice([7, 7, 7, rng.randrange(1000), rng.getrandbits(40), -(2**63), 2**63 - 1])

    pair = pa.struct([("a", pa.int64()), ("b", pa.string())])
    return {
        "integers": {
            "tiny": (pa.int8(), lambda: rng.randrange(-128, 128)),
            "small": (pa.int16(), lambda: rng.choice([7, 7, 7, rng.randrange(-(2**15), 2**15)])),
            "big": (pa.int64(), number),
        },
        "sequences": {
            "up": (pa.int32(), _counter(3)),
            "down": (pa.int64(), _counter(-1000)),
            "same": (pa.int64(), lambda: 5),
        },
        "floats": {
            "flag": (pa.bool_(), lambda: rng.random() < 0.5),
            "single": (pa.float32(), lambda: rng.choice([0.0, -0.0, 1.5, float("nan")])),
            "double": (pa.float64(), lambda: rng.gauss(0, 1)),
        },
        "strings": {
            "mode": (pa.string(), lambda: f"mode {rng.randrange(7)}"),
            "words": (pa.string(), words),
            "blob": (pa.binary(), lambda: rng.randbytes(rng.randrange(9))),
        },
        "decimals": {
            "money": (pa.decimal128(12, 2), lambda: decimal.Decimal(rng.randrange(10**9)).scaleb(-2)),
            "huge": (
                pa.decimal128(38, 10),
                lambda: decimal.Decimal(rng.randrange(-(10**37), 10**37)).scaleb(
                    -10, decimal.Context(prec=60)
                ),
            ),
        },
        "times": {
            "day": (
                pa.date32(),
                lambda: datetime.date(1700, 1, 1) + datetime.timedelta(rng.randrange(150_000)),
            ),
            "moment": (pa.timestamp("us"), moment),
        },
        "lists": {
            "list": (
                pa.list_(pa.int32()),
                lambda: [rng.choice([None, 1, 2]) for _ in range(rng.randrange(4))],
            ),
            "map": (
                pa.map_(pa.string(), pa.float64()),
                lambda: [(f"k{i}", rng.choice([None, 1.5])) for i in range(rng.randrange(3))],
            ),
        },
        "structs": {
            "pair": (pair, lambda: {"a": rng.choice([None, number()]), "b": rng.choice([None, words()])}),
            "deep": (
                pa.list_(pa.struct([("p", pair), ("l", pa.list_(pa.string()))])),
                lambda: [
                    # no null struct within a struct: pyarrow writes the children's values there as if it were not
                    {"p": {"a": rng.choice([None, 1]), "b": words()}, "l": [words()] * rng.randrange(3)}
                    for _ in range(rng.randrange(3))
                ],
            ),
        },
    }


def _counter(step: int) -> Any:
    state = iter(range(0, step * 10**6, step))
    return lambda: next(state)


def _table(columns: dict[str, Column], rows: int, nulls: float, rng: random.Random) -> pa.Table:
    arrays = {}
    for name, (data_type, make) in columns.items():
        values = [make() for _ in range(rows)]
        arrays[name] = pa.array([None if rng.random() < nulls else value for value in values], data_type)
    return pa.table(arrays)


_PYORC_SCHEMA = "struct<c:char(8),v:varchar(9),i:int,t:timestamp with local time zone,m:decimal(10,3)>"


def _pyorc_row(rng: random.Random, nulls: float) -> tuple[Any, ...]:
    when = datetime.datetime(1971, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        seconds=rng.randrange(10**9)
    )
    row = (
        f"c{rng.randrange(10):<7}",
        f"v{rng.randrange(10**6)}",
        rng.randrange(1000),
        when,
        decimal.Decimal(rng.randrange(10**9)).scaleb(-3),
    )
    return tuple(None if rng.random() < nulls else value for value in row)


def _write_pyorc(path: Path, rng: random.Random, nulls: float) -> None:
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file,
            _PYORC_SCHEMA,
            compression=pyorc.CompressionKind.NONE,
            row_index_stride=STRIDE,
            batch_size=STRIDE,
            bloom_filter_columns=["c", "i"],
        ) as writer,
    ):
        writer.writerows(_pyorc_row(rng, nulls) for _ in range(3 * STRIDE + 20))


def _union(parts: FileParts, *, present: bool) -> FileParts:
    """A struct column of two children made a union whose rows are of either child by turns.

    The children's row groups become half of the union's, which have twice as many rows.
    """
    stride = parts.footer.row_index_stride
    parts.footer.row_index_stride = 2 * stride
    union_type = parts.footer.types[1]
    union_type.kind = Kind.UNION
    del union_type.field_names[:]
    for stripe in parts.stripes:
        stripe.num_rows *= 2
        rows = range(0, stripe.num_rows, 2 * stride)
        tags = [bytes([0, 1]) * (min(2 * stride, stripe.num_rows - row) // 2) for row in rows]
        runs = [bytes([256 - len(part)]) + part for part in tags]
        bits = bytes([255]) * (-(-stripe.num_rows // 8))
        at = next(
            i for i, s in enumerate(stripe.footer.streams) if (s.column, s.kind) == (1, StreamKind.ROW_INDEX)
        )
        index = pb.RowIndex.FromString(stripe.streams[at])
        for number, (row, entry) in enumerate(zip(rows, index.entry, strict=True)):
            places = [0, row // 8, row % 8] if present else []
            entry.positions[:] = [*places, sum(map(len, runs[:number])), 0]
        stripe.streams[at] = index.SerializeToString()
        if present:
            stripe.footer.streams.add(kind=StreamKind.PRESENT, column=1)
            stripe.streams.append(bytes([256 - len(bits)]) + bits)
        stripe.footer.streams.add(kind=StreamKind.DATA, column=1)
        stripe.streams.append(b"".join(runs))
    return dataclasses.replace(
        parts, schema=parse_types(tuple(item.SerializeToString() for item in parts.footer.types))
    )


def _without_index(parts: FileParts) -> FileParts:
    """The same without row indexes and bloom filters."""
    parts.footer.row_index_stride = 0
    for stripe in parts.stripes:
        positions = [
            i for i, stream in enumerate(stripe.footer.streams) if stream.kind < StreamKind.ROW_INDEX
        ]
        streams = [stripe.footer.streams[i] for i in positions]
        stripe.streams = [stripe.streams[i] for i in positions]
        del stripe.footer.streams[:]
        stripe.footer.streams.extend(streams)
    return parts


def parts(folder: Path) -> Iterator[tuple[str, FileParts]]:
    """Files that can be put together in any codec, by name."""
    rng = random.Random(2026)
    scratch = folder / "scratch.orc"

    def written(columns: dict[str, Column], rows: int, nulls: float, **options: Any) -> FileParts:
        write_pyarrow(scratch, _table(columns, rows, nulls, rng), "none", stride=STRIDE, **options)
        return take_apart(scratch.read_bytes())

    for name, columns in _columns(rng).items():
        for nulls in (0.0, 0.3):
            for version in ("0.11", "0.12"):
                rows = rng.choice([1, 2 * STRIDE + 1, 3 * STRIDE + 40])
                options: dict[str, Any] = {
                    "file_version": version,
                    "dictionary_key_size_threshold": rng.choice([0.0, 1.0]),
                }
                if name in ("integers", "strings"):
                    options["bloom_filter_columns"] = [1]
                file_parts = written(columns, rows, nulls, **options)
                if version == "0.12":
                    file_parts = joined([file_parts, written(columns, 2 * STRIDE, nulls, **options)])
                yield f"{name}-{version}-{nulls}", file_parts
        yield f"{name}-no-index", _without_index(written(columns, 90, 0.1))
    for nulls in (0.0, 0.3):
        _write_pyorc(scratch, rng, nulls)
        yield f"pyorc-{nulls}", take_apart(scratch.read_bytes())
        pair = pa.struct([("a", pa.int64()), ("b", pa.string())])
        halves: dict[str, Column] = {
            "u": (pair, lambda: {"a": rng.getrandbits(30), "b": f"b{rng.randrange(9)}"})
        }
        write_pyarrow(scratch, _table(halves, 160, 0.0, rng), "none", stride=STRIDE // 2)
        yield f"union-{nulls}", _union(take_apart(scratch.read_bytes()), present=nulls > 0)
    # row groups so long that what is read of them may be handed over to pyarrow
    long = {"n": (pa.int64(), _counter(1)), "s": (pa.string(), lambda: f"s{rng.randrange(5)}")}
    write_pyarrow(
        scratch, _table(long, 9000, 0.0, rng), "none", stride=4500, dictionary_key_size_threshold=1.0
    )
    yield "long", take_apart(scratch.read_bytes())
    scratch.unlink()


def files(folder: Path) -> dict[str, bytes]:
    """Sound files by name: all of `parts` without compression, and each in two other codecs."""
    rng = random.Random(7)
    corpus_files = {}
    for name, part in parts(folder):
        for codec in (0, *rng.sample(CODECS[1:], 2)):
            block = rng.choice([64, 256, 1000, 1 << 16])
            corpus_files[f"{name}-{codec}-{block}"] = put_together(part, codec, block)
    return corpus_files

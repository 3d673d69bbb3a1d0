"""Rows read by hindex equal the rows that were written, whoever wrote them."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.orc import OrcReader

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
# all that pyorc can write
PYORC_CODECS = ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"]

Maker = Callable[[random.Random], Any]


def _words(rng: random.Random) -> str:
    return rng.choice(["", "a", "Ärger", "𝄞", "x" * rng.randrange(200), f"w{rng.randrange(40)}", "nul\0byte"])


MAKERS: dict[str, tuple[pa.DataType, Maker]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "tiny": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "small": (pa.int16(), lambda r: r.choice([7, 7, 7, r.randrange(-(2**15), 2**15)])),
    "int": (pa.int32(), lambda r: r.choice([0, r.randrange(100), -(2**31), 2**31 - 1])),
    "big": (pa.int64(), lambda r: r.choice([r.randrange(1000), -(2**63), 2**63 - 1, r.getrandbits(40)])),
    "float": (pa.float32(), lambda r: float(np.float32(r.choice([0.0, -0.0, np.inf, r.gauss(0, 1e9)])))),
    "double": (pa.float64(), lambda r: r.choice([0.0, -0.0, -np.inf, 5e-324, r.gauss(0, 1)])),
    "text": (pa.string(), _words),
    "unique": (pa.string(), lambda r: f"{r.getrandbits(64):x}" * r.randrange(4)),
    "blob": (pa.binary(), lambda r: r.randbytes(r.randrange(20))),
    "money": (
        pa.decimal128(12, 2),
        lambda r: decimal.Decimal(r.randrange(-(10**12) + 1, 10**12)).scaleb(-2),
    ),
    "huge": (
        pa.decimal128(38, 10),
        lambda r: decimal.Decimal(r.randrange(-(10**37), 10**37)).scaleb(-10, decimal.Context(prec=60)),
    ),
    "day": (pa.date32(), lambda r: datetime.date(1583, 1, 1) + datetime.timedelta(r.randrange(200_000))),
    "when": (
        pa.timestamp("us"),
        lambda r: (
            datetime.datetime(1980, 1, 1)
            + datetime.timedelta(
                seconds=r.randrange(10**9), microseconds=r.choice([0, 500_000, r.randrange(10**6)])
            )
        ),
    ),
    "list": (pa.list_(pa.int32()), lambda r: [r.choice([None, 1, 2]) for _ in range(r.randrange(4))]),
    "pair": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        lambda r: {"a": r.choice([None, r.randrange(9)]), "b": r.choice([None, _words(r)])},
    ),
    "map": (
        pa.map_(pa.string(), pa.float64()),
        lambda r: [(f"k{i}", r.choice([None, 1.5])) for i in range(r.randrange(3))],
    ),
}


def make_table(seed: int, rows: int) -> pa.Table:
    """Random columns of every type: some without nulls, some with runs of them, some of nothing else."""
    rng = random.Random(seed)
    columns = {}
    for name, (data_type, make) in MAKERS.items():
        mode = rng.choice(["none", "some", "runs", "all"])
        values: list[Any] = []
        while len(values) < rows:
            run = rng.choice([1, 1, 3, 50])
            value = make(rng)
            values += [make(rng) if rng.random() < 0.7 else value for _ in range(run)]
            if mode == "some" and rng.random() < 0.3:
                values[-1] = None
            elif mode == "runs" and rng.random() < 0.2:
                values += [None] * rng.randrange(300)
        columns[name] = pa.array([None] * rows if mode == "all" else values[:rows], data_type)
    return pa.table(columns)


def selections(seed: int, rows: int) -> dict[str, list[int]]:
    rng = random.Random(seed)
    start = rng.randrange(rows)
    return {
        "random": sorted(rng.sample(range(rows), rows // 20)),
        "clustered": list(range(start, min(rows, start + rows // 10))),
        "single": [rng.randrange(rows)],
        "ends": sorted({0, rows - 1}),
        "empty": [],
        "all": list(range(rows)),
    }


def same(table: pa.Table, expected: pa.Table) -> bool:
    """Equality that tells -0.0 from 0.0."""
    if not table.equals(expected):
        return False
    return all(
        np.array_equal(np.signbit(table[c].drop_null()), np.signbit(expected[c].drop_null()))
        for c in expected.column_names
        if pa.types.is_floating(expected.schema.field(c).type)
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("windows")
def test_rows_of_a_file_that_pyarrow_wrote(tmp_path: Path, codec: str, seed: int) -> None:
    rng = random.Random(seed * 7 + CODECS.index(codec))
    rows = rng.choice([1, 999, 2500])
    table = make_table(rng.randrange(2**32), rows)
    path = tmp_path / "t.orc"
    pa.orc.write_table(
        table,
        path,
        compression=codec,
        stripe_size=rng.choice([20_000, 64 * 2**20]),
        row_index_stride=rng.choice([1000, 100_000]),
        compression_block_size=65_536,
        file_version=rng.choice(["0.11", "0.12"]),
        dictionary_key_size_threshold=rng.choice([0.0, 1.0]),
        batch_size=rng.choice([10, 1024]),
    )
    reader = OrcReader(path)
    for name, wanted in selections(seed, rows).items():
        rows_read = reader.read(rows=wanted)
        expected = table.take(pa.array(wanted, pa.int64()))
        assert same(rows_read, expected), (seed, codec, name)
    assert OrcReader(path).read().equals(table)


SCHEMA = (
    "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,x:string,c:char(8),v:varchar(9),"
    "n:binary,m:decimal(10,3),h:decimal(30,5),y:date,z:timestamp,u:timestamp with local time zone>"
)


def _row(rng: random.Random, nulls: float) -> tuple[Any, ...]:
    when = datetime.datetime(1971, 1, 1) + datetime.timedelta(
        seconds=rng.randrange(10**9), microseconds=rng.choice([0, 1000, 123_456])
    )
    row = (
        rng.random() < 0.1,
        rng.randrange(-128, 128),
        rng.randrange(-(2**15), 2**15),
        rng.choice([5, rng.randrange(2**31)]),
        rng.choice([rng.randrange(50), rng.getrandbits(62), -(2**63)]),
        float(np.float32(rng.random())),
        rng.random(),
        f"name {rng.randrange(30)}",
        f"c{rng.randrange(1000):<7}",
        f"v{rng.randrange(10**6)}",
        rng.randbytes(4),
        decimal.Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-3),
        decimal.Decimal(rng.randrange(-(10**28), 10**28)).scaleb(-5, decimal.Context(prec=60)),
        datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-60_000, 60_000)),
        when,
        when.replace(tzinfo=datetime.UTC),
    )
    return tuple(None if rng.random() < nulls else value for value in row)


@pytest.mark.parametrize(
    ("kind", "nulls", "rows", "stride", "block"),
    [
        *((kind, nulls, 1500, 500, 1 << 16) for kind in PYORC_CODECS for nulls in (0.0, 0.2)),
        ("ZSTD", 0.2, 1000, 100, 1 << 17),
        ("ZLIB", 0.2, 1000, 333, 1 << 18),
        ("SNAPPY", 0.2, 1000, 10_000, 1 << 18),
    ],
)
@pytest.mark.usefixtures("windows")
def test_rows_of_a_file_that_pyorc_wrote(
    tmp_path: Path, kind: str, nulls: float, rows: int, stride: int, block: int
) -> None:
    rng = random.Random(f"{kind} {nulls}")
    written = [_row(rng, nulls) for _ in range(rows)]
    path = tmp_path / "t.orc"
    with path.open("wb") as file:
        writer = pyorc.Writer(
            file,
            SCHEMA,
            compression=pyorc.CompressionKind.__members__[kind],
            compression_block_size=block,
            row_index_stride=stride,
            stripe_size=65_536,
            batch_size=100,
        )
        writer.writerows(written)
        writer.close()
    reader = OrcReader(path)
    for name, wanted in selections(3, len(written)).items():
        rows_read = [tuple(row.values()) for row in reader.read(rows=wanted).to_pylist()]
        assert rows_read == [written[i] for i in wanted], name


def test_a_sparse_read_decompresses_only_the_chunks_that_hold_the_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows, stride = 100_000, 1000
    table = pa.table(
        {"n": rng.integers(0, 1 << 60, rows), "text": [f"{v:x}" for v in rng.integers(0, 1 << 60, rows)]}
    )
    path = tmp_path / "t.orc"
    pa.orc.write_table(
        table, path, compression="zstd", row_index_stride=stride, compression_block_size=65_536
    )
    reader = OrcReader(path)
    wanted = [5 * stride + 3, 50 * stride, 99 * stride + 999]
    assert reader.read(rows=wanted).equals(table.take(wanted))
    assert reader.counts.row_groups == 3 * 2
    # a row group's 8 kB of numbers and 16 kB of text lie in one or two chunks of 64 kB, its lengths in one
    assert 3 * 3 <= reader.counts.chunks <= 3 * 5
    whole = OrcReader(path)
    whole.read()
    assert reader.counts.chunks < whole.counts.chunks / 2
    assert reader.counts.bytes_decompressed < whole.counts.bytes_decompressed / 6


@pytest.mark.usefixtures("windows")
def test_fractions_of_seconds_before_1970_that_pyarrow_wrote(tmp_path: Path) -> None:
    # pyarrow writes negative nanoseconds there, which Spark refuses
    moments = [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000),
        datetime.datetime(1960, 1, 1, 0, 0, 0, 1),
    ]
    table = pa.table({"z": pa.array([*moments, None, datetime.datetime(1970, 1, 1)], pa.timestamp("us"))})
    path = tmp_path / "t.orc"
    pa.orc.write_table(table, path)
    assert OrcReader(path).read().equals(table)
    assert OrcReader(path).read(rows=[1]).equals(table.slice(1, 1))

"""Files of several stripes: what is damaged or other in one of them stays in it."""

from __future__ import annotations

import decimal
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from google.protobuf.message import Message

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.parts import FileParts, Hooks, put_together, take_apart
from tests.support.messages import raises

#: Stripes that are taken apart: rows, and rows of one and of a row group.
SMALL_ROWS, SMALL_STRIPE, SMALL_STRIDE = 18_000, 6000, 500
ZSTD = 5


def small_table() -> pa.Table:
    rng = np.random.default_rng(5)
    cents = rng.integers(0, 10**6, SMALL_ROWS)
    return pa.table(
        {
            "key": np.cumsum(np.repeat(rng.integers(0, 9, SMALL_ROWS), 4)[:SMALL_ROWS]),
            "price": pa.array([decimal.Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(10, 2)),
            "word": pa.array([f"w{i}" for i in np.arange(SMALL_ROWS) * 7 % 5]),
            "text": pa.array([str(c) for c in cents]),
            "when": pa.array(cents * 10**9, pa.timestamp("us")),
        }
    )


@pytest.fixture(scope="module")
def small() -> pa.Table:
    return small_table()


@pytest.fixture(scope="module")
def taken_apart(small: pa.Table) -> FileParts:
    file = io.BytesIO()
    with pa.orc.ORCWriter(
        file,
        compression="uncompressed",
        stripe_size=1000,
        batch_size=SMALL_STRIPE,
        row_index_stride=SMALL_STRIDE,
        dictionary_key_size_threshold=0.9,
    ) as writer:
        writer.write(small)
    parts = take_apart(file.getvalue())
    assert [stripe.num_rows for stripe in parts.stripes] == [SMALL_STRIPE] * 3
    return parts


@pytest.fixture
def parts(taken_apart: FileParts) -> FileParts:
    return taken_apart.copy()


def stream_of(parts: FileParts, column: int, kind: StreamKind) -> int:
    """Return the position of a stream among those of the first stripe."""
    (at,) = (i for i, s in enumerate(parts.stripes[0].footer.streams) if (s.column, s.kind) == (column, kind))
    return at


def read(data: bytes, rows: np.ndarray, columns: list[str] | None = None) -> pa.Table:
    with OrcReader(BytesSource(data)) as reader:
        return reader.read(columns, rows, threads=1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("key", StreamKind.DATA),
        ("price", StreamKind.DATA),
        ("price", StreamKind.SECONDARY),
        ("word", StreamKind.DATA),
        ("text", StreamKind.DATA),
        ("text", StreamKind.LENGTH),
        ("when", StreamKind.DATA),
        ("when", StreamKind.SECONDARY),
    ],
)
@pytest.mark.usefixtures("windows")
def test_bytes_behind_a_stripes_last_value_are_not_the_next_ones(
    small: pa.Table, parts: FileParts, name: str, kind: StreamKind
) -> None:
    column = small.column_names.index(name) + 1
    # a run of ten values; of decimals, two
    parts.stripes[0].streams[stream_of(parts, column, kind)] += b"\x3f\x07"
    data = put_together(parts, ZSTD, 65_536)
    numbers = np.arange(SMALL_ROWS)
    for rows in (numbers[numbers % 5 != 0], numbers[numbers // SMALL_STRIDE % 4 != 1]):
        assert read(data, rows, [name]).equals(small.select([name]).take(rows))


@pytest.mark.parametrize(("name", "bits"), [("price", 0x80), ("word", 0), ("key", 0)])
def test_damage_stays_in_its_stripe(
    small: pa.Table,
    parts: FileParts,
    rng: np.random.Generator,
    name: str,
    bits: int,
) -> None:
    at = stream_of(parts, small.column_names.index(name) + 1, StreamKind.DATA)
    sound = parts.stripes[0].streams[at]
    rows = np.flatnonzero(rng.random(SMALL_ROWS) < 0.8)
    others = rows[rows >= SMALL_STRIPE]
    expected = small[name].take(others)
    stripes: list[int | None] = []
    read_all_the_same = 0
    # most damage is an error, so some luck is needed for damage that is not
    for tries in range(1000):
        if tries >= 12 and read_all_the_same:
            break
        damaged = bytearray(sound)
        damaged[rng.integers(len(sound))] ^= bits or int(rng.integers(1, 256))
        parts.stripes[0].streams[at] = bytes(damaged)
        try:
            table = read(put_together(parts, ZSTD, 65_536), rows, [name])
        except OrcError as error:
            stripes.append(error.stripe)
        else:
            assert table[name].slice(len(rows) - len(others)).equals(expected)
            read_all_the_same += 1
    assert set(stripes) <= {0}
    assert read_all_the_same


@pytest.mark.parametrize("name", ["key", "text"])
def test_a_position_at_the_streams_end_is_not_the_next_stripes(
    small: pa.Table, parts: FileParts, name: str
) -> None:
    column = small.column_names.index(name) + 1
    with OrcReader(BytesSource(put_together(parts, ZSTD, 1024))) as reader:
        length = reader.stripe(0).streams[column, StreamKind.DATA].length
    seen: list[Message] = []

    def damage(part: str, message: Any) -> None:
        if part == "row index":
            seen.append(message)
            if len(seen) == column + 1:
                message.entry[-1].positions[:2] = [length, 0]

    data = put_together(parts, ZSTD, 1024, Hooks(message=damage))
    rows = np.array([5, SMALL_STRIPE - 10, SMALL_STRIPE + 7, SMALL_ROWS - 1])
    with pytest.raises(OrcError) as caught:
        read(data, rows, [name])
    assert caught.value.stripe == 0
    others = [name for name in small.column_names if name != small.column_names[column - 1]]
    assert read(data, rows, others).equals(small.select(others).take(rows))


def test_errors_name_their_own_stripe(small: pa.Table, parts: FileParts) -> None:
    rows = np.arange(0, SMALL_ROWS, 1000)
    encrypted = parts.copy()
    encrypted.footer.encryption.variants.add(root=2)
    with raises(OrcError) as caught:
        read(put_together(encrypted, ZSTD), rows)
    assert (caught.value.stripe, caught.value.column) == (0, "price")
    for stripe in range(3):
        short = parts.copy()
        seen: list[Message] = []

        def shorten(part: str, message: Any, *, at: int = stripe, seen: list[Message] = seen) -> None:
            if part == "stripe footer":
                seen.append(message)
                if len(seen) == at + 1:
                    del message.columns[3:]

        data = put_together(short, ZSTD, hooks=Hooks(message=shorten))
        with raises(OrcError) as caught:
            read(data, rows, ["word"])
        assert caught.value.stripe == stripe
        assert read(data, rows, ["price"]).equals(small.select(["price"]).take(rows))


def test_stripes_of_different_time_zones(small: pa.Table, parts: FileParts) -> None:
    rows = np.arange(0, SMALL_ROWS, 37)
    for stripe, zone in zip(parts.stripes, ("UTC", "Asia/Tokyo", "America/New_York"), strict=True):
        stripe.footer.writer_timezone = zone
    data = put_together(parts, ZSTD)
    whole = pa.orc.ORCFile(io.BytesIO(data)).read(["when"])["when"].cast(pa.timestamp("us"))
    assert not whole.equals(small["when"])
    table = read(data, rows)
    assert table["when"].equals(whole.take(rows))
    assert table.drop_columns(["when"]).equals(small.drop_columns(["when"]).take(rows))


def test_dictionaries_of_different_sizes(small: pa.Table, parts: FileParts) -> None:
    rows = np.arange(0, SMALL_ROWS, 37)
    assert read(put_together(parts, ZSTD), rows, ["word"]).equals(small.select(["word"]).take(rows))
    # the bytes are the same, but of the second stripe's only three entries count
    parts.stripes[1].footer.columns[3].dictionary_size = 3
    with raises(OrcError) as caught:
        read(put_together(parts, ZSTD), rows, ["word"])
    assert caught.value.stripe == 1

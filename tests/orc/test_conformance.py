"""The reader against an oracle: files of many writers, in every codec, at many selections, in windows of any size.

A file of another writer is a line of ``FILES``; a codec or layout is a line of ``CASES``.
"""

from __future__ import annotations

import io
import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from tests.fuzz.parts import FileParts, put_together, take_apart
from tests.orc.generated import (
    PYORC_SCHEMA,
    STRIDE,
    long_list_table,
    mixed_table,
    nested_table,
    orc_bytes,
    pyorc_row,
    union_table,
)
from tests.orc.oracle import Oracle, check_selections, work
from tests.support.cases import IS_NIGHTLY, SEED, cases, sampled
from tests.support.messages import raises

FOLDER = Path(__file__).parent / "files"

#: Codecs by their numbers in a postscript, and those that pyarrow and pyorc write.
CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")
WRITTEN = ("none", "zlib", "snappy", "lz4", "zstd")

#: Files of other writers that can be read; ``files/README.md`` describes them.
FILES = (
    "TestOrcFile.testDate1900",
    "TestOrcFile.testMemoryManagementV11",
    "TestOrcFile.testPredicatePushdown",
    "TestOrcFile.testSargSkipPickupGroupWithoutIndexJava",
    "TestOrcFile.testStripeLevelStats",
    "TestOrcFile.testUnionAndTimestamp",
    "acid5k",
    "bad_bloom_filter_1.6.11",
    "decimal",
    "decimal64_v2_cplusplus",
    "demo-12-zlib",
    "orc-file-no-double-statistic",
    "orc-file-presto-string",
    "orc_no_format",
    "orc_split_elim_cpp",
    "over1k_bloom",
)

#: Those without compression, which are read in other codecs, too.
PLAIN = (
    "TestOrcFile.testMemoryManagementV11",
    "TestOrcFile.testPredicatePushdown",
    "TestOrcFile.testUnionAndTimestamp",
    "decimal",
)

#: Those of so many rows that few selections are tried.
LARGE = ("demo-12-zlib",)

#: Files that are refused, and the reasons.
REFUSED = {
    "negative_dict_entry_lengths": "column date_string_col, stream LENGTH: a length is negative",
    "orc_corrupt_zlib": "corrupt zlib chunk at byte 0: it has more bytes than a block",
    "version1999": "ORC file version 19.99 is unknown",
}


def few(codecs: tuple[str, ...], *by_day: str) -> tuple[str, ...]:
    """Return all codecs at night."""
    return codecs if IS_NIGHTLY else by_day


#: A maker of files, a codec, and what the maker gets: a name, or the size of a block, or a seed.
Case = tuple[str, str, str | int]

CASES: list[Case] = [
    *(("file", "as written", name) for name in FILES),
    *(("recoded", codec, name) for codec in few(CODECS[1:], "lzo", "brotli") for name in PLAIN),
    *(("mixed", codec, 1000) for codec in CODECS),
    *(("mixed", codec, 257) for codec in few(CODECS, "zlib")),
    *(("mixed", codec, 64) for codec in few(CODECS, "lz4")),
    *(("mixed", codec, 1 << 16) for codec in few(CODECS, "none", "zstd")),
    *(("unions", codec, 300) for codec in few(CODECS, "zstd")),
    *(("long lists", codec, 1 << 16) for codec in few(CODECS, "none", "snappy")),
    *(("nested", WRITTEN[seed % 5], seed) for seed in range(cases(6, 100))),
    *(("pyarrow", codec, seed) for codec in WRITTEN for seed in range(cases(1, 6))),
    *(("pyorc", codec, seed) for codec in WRITTEN for seed in range(cases(1, 6))),
]

#: Files of several row groups or stripes, and the share of all bytes and chunks that one row takes at most.
NARROW: dict[Case, float] = {
    ("file", "as written", "TestOrcFile.testDate1900"): 0.25,
    ("file", "as written", "TestOrcFile.testMemoryManagementV11"): 0.05,
    ("file", "as written", "TestOrcFile.testPredicatePushdown"): 0.4,
    ("recoded", "lzo", "TestOrcFile.testPredicatePushdown"): 0.4,
    ("mixed", "none", 1000): 0.4,
    ("mixed", "zlib", 257): 0.5,
    ("mixed", "snappy", 1000): 0.6,
    ("pyorc", "none", 0): 0.1,
}


@lru_cache(maxsize=1)
def made(maker: str, codec: str, argument: str | int) -> tuple[bytes, Oracle]:
    """Return a file of ``CASES``, and its rows; one for all windows."""
    if isinstance(argument, str):
        data = (FOLDER / f"{argument}.orc").read_bytes()
        oracle = Oracle(pyarrow.orc.read_table(io.BytesIO(data)))
        return (data if maker == "file" else put_together(take_apart(data), CODECS.index(codec), 300)), oracle
    if maker in WRITERS:
        return WRITERS[maker](codec, argument)
    parts, oracle = taken_apart(maker)
    return put_together(parts, CODECS.index(codec), argument), oracle


@lru_cache(maxsize=1)
def taken_apart(maker: str) -> tuple[FileParts, Oracle]:
    """Return a file of one stripe that is put together in other codecs, and its rows."""
    stride, threshold = STRIDE, 0.3
    if maker == "mixed":
        table = mixed_table(8 * STRIDE + 50, seed=17)
    elif maker == "unions":
        table = union_table(8 * STRIDE + 50, seed=3)
        if int(pa.__version__.split(".")[0]) < 25:
            # where pyarrow reads wrong nulls in lists of unions
            table = table.select(["union"])
    else:
        # a row group has 1.1 MB of numbers
        stride, threshold = 350, 0.5
        table = long_list_table(800, length=400, seed=4)
    data = orc_bytes(table, row_index_stride=stride, dictionary_key_size_threshold=threshold)
    if maker == "unions":
        # as dense unions cannot be sliced and taken
        table = pyarrow.orc.read_table(io.BytesIO(data))
    parts = take_apart(data)
    assert len(parts.stripes) == 1
    return parts, Oracle(table)


def by_pyarrow(codec: str, seed: int) -> tuple[bytes, Oracle]:
    """Write the same columns in several stripes."""
    rng = random.Random(f"{SEED} {codec} {seed}")
    table = mixed_table(rng.choice([1, 999, 2500]) if seed else 1100, rng.randrange(1 << 32))
    data = orc_bytes(
        table,
        codec,
        stripe_size=rng.choice([20_000, 64 << 20]) if seed else 20_000,
        row_index_stride=rng.choice([1000, 100_000]) if seed else 1000,
        compression_block_size=1 << 16,
        file_version=("0.11", "0.12")[(CODECS.index(codec) + seed) % 2],
        dictionary_key_size_threshold=rng.choice([0.0, 1.0]),
        batch_size=rng.choice([10, 1024]) if seed else 100,
    )
    return data, Oracle(table)


def nested(codec: str, seed: int) -> tuple[bytes, Oracle]:
    """Write nested types; the writer misplaces values below null structs, so the rows are those that pyarrow reads."""
    rng = random.Random(f"{SEED} {seed}")
    table = nested_table(rng.choice([1, 800, 1500]) if seed > 5 else 800, rng.randrange(1 << 32))
    data = orc_bytes(
        table,
        codec,
        stripe_size=rng.choice([60_000, 64 << 20]),
        row_index_stride=(100, 300, 10_000)[seed % 3],
        compression_block_size=1 << 16,
        dictionary_key_size_threshold=rng.choice([0.0, 1.0]),
        batch_size=100,
    )
    return data, Oracle(pyarrow.orc.read_table(io.BytesIO(data)).cast(table.schema))


def by_pyorc(codec: str, seed: int) -> tuple[bytes, Oracle]:
    """Write CHAR, VARCHAR and instants, with nulls and without."""
    rng = random.Random(f"{SEED} {codec} {seed}")
    rows = [pyorc_row(rng, (0.2, 0.0)[(CODECS.index(codec) + seed) % 2]) for _ in range(1500)]
    file = io.BytesIO()
    with pyorc.Writer(
        file,
        PYORC_SCHEMA,
        compression=pyorc.CompressionKind.__members__[codec.upper()],
        compression_block_size=1 << rng.choice([16, 17, 18]),
        row_index_stride=(100, 500, 333, 10_000)[seed % 4],
        stripe_size=65_536,
        batch_size=100,
    ) as writer:
        writer.writerows(rows)
    data = file.getvalue()
    table = pyarrow.orc.read_table(io.BytesIO(data))
    # the values that were written, in the types that pyarrow has for them
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), table.schema, strict=True)
    ]
    return data, Oracle(pa.table(columns, schema=table.schema))


WRITERS = {"pyarrow": by_pyarrow, "pyorc": by_pyorc, "nested": nested}


def select_few(case: Case) -> int | None:
    """Return how many random selections to try of files that take long; None for all."""
    if IS_NIGHTLY or (case[0] in ("file", "recoded") and case[2] not in LARGE):
        return None
    return 4 if case[0] in ("file", "long lists") else 6


# the windows change first, so that they share a file
@sampled(54)
@pytest.mark.parametrize("windows", ["large", "small"], indirect=True)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_rows_of_any_selection(case: Case, windows: str, rng: np.random.Generator) -> None:
    data, oracle = made(*case)
    check_selections(data, oracle, rng, f"{windows} windows", select_few(case))


@pytest.mark.parametrize(("case", "share"), NARROW.items(), ids=["-".join(map(str, case)) for case in NARROW])
def test_narrow_selections_read_less(case: Case, share: float) -> None:
    data, _ = made(*case)
    whole = work(data, None)
    with OrcReader(BytesSource(data)) as reader:
        count, stripes = reader.num_rows, reader.stripes
    for row in (0, count // 2, count - 1):
        narrow = work(data, np.array([row]))
        assert narrow.bytes_fetched < share * whole.bytes_fetched, row
        assert narrow.chunks <= share * whole.chunks, row
        assert narrow.bytes_decompressed <= share * whole.bytes_decompressed, row
        assert case[0] != "mixed" or narrow.whole_columns == 0
    nothing = work(data, np.zeros(0, np.int64))
    assert (nothing.bytes_fetched, nothing.chunks) == (0, 0)
    for stripe in (stripes[0], stripes[-1]):
        rows = np.arange(stripe.first_row, stripe.first_row + stripe.num_rows)
        assert work(data, rows).bytes_fetched == stripe.data_length + stripe.footer_length


@pytest.mark.parametrize(("name", "message"), REFUSED.items(), ids=REFUSED)
def test_unreadable_files_are_refused_with_a_reason(name: str, message: str) -> None:
    with pytest.raises(OrcError, match=message) as caught, OrcReader(FOLDER / f"{name}.orc") as reader:
        reader.read()
    assert caught.value.path == str(FOLDER / f"{name}.orc")


def test_encrypted_columns_are_refused_by_name() -> None:
    with OrcReader(FOLDER / "sample2.orc") as reader:
        assert reader.read(["name"]).to_pydict() == {"name": ["William Hyun"]}
        for column in ("ssn", "email"):
            with raises(OrcError):
                reader.read(["name", column])


def test_each_file_is_in_the_table() -> None:
    names = {path.stem for path in FOLDER.glob("*.orc")}
    assert names == {*FILES, *REFUSED, "sample2"}
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"`{name}.orc`" in readme for name in names)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000

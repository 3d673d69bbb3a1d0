"""NGRAM: n-grams of strings against plain Python, and what lookups find by them."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import IndexFileError
from hindex.index import character_ngrams
from hindex.index.character_ngrams import SIZE, block_ngrams, ngrams
from hindex.index.index_file import Footer, IndexFileReader, IndexFileWriter
from hindex.index.merge import merge_index_files
from hindex.index.ngram import NgramReader
from hindex.keys import KeyKind
from hindex.orc import kernel
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import index_file_pb2 as pb
from tests.index.support import build, open_index
from tests.support.messages import raises

STRING = OrcType(Kind.STRING)
#: ASCII, letters whose lower case is special, and characters of two to four bytes.
ALPHABETS = ("abcABC ", "abcİΣςK", "aé€😀\ufffd", "ab")

Values = Sequence[str | bytes | None]


def fold(text: str) -> bytes:
    """Fold as the format's page says, character by character."""
    lower = text.lower().replace("ς", "σ")
    return bytes(ord(c) if ord(c) < 128 else 128 + ord(c) % 128 for c in lower)


def windows(folded: bytes) -> set[bytes]:
    return {folded[at : at + SIZE] for at in range(len(folded) - SIZE + 1)}


def strings(values: Values) -> pa.Array:
    """Return an array of strings; bytes may be invalid UTF-8."""
    as_bytes = pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(as_bytes), as_bytes.buffers())


def random_values(rng: random.Random) -> list[str | bytes | None]:
    alphabet = rng.choice(ALPHABETS)
    values: list[str | bytes | None] = []
    for _ in range(rng.randint(0, 40)):
        text = "".join(rng.choices(alphabet, k=rng.randint(0, 9)))
        # a cut may leave bytes that are not UTF-8, at the beginning or the end
        values.append(
            rng.choice([None, text, text, text, text.encode()[rng.randint(0, 2) : rng.randint(2, 9)]])
        )
    return values


def text_of(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def expected_blocks(values: Values, block_rows: int) -> dict[bytes, list[int]]:
    blocks: dict[bytes, set[int]] = {}
    for row, value in enumerate(values):
        for ngram in windows(fold(text_of(value))) if value is not None else ():
            blocks.setdefault(ngram, set()).add(row // block_rows)
    return {ngram: sorted(numbers) for ngram, numbers in sorted(blocks.items())}


def listed_blocks(array: pa.Array, block_rows: int) -> dict[bytes, list[int]]:
    listed: dict[bytes, list[int]] = {}
    for part in block_ngrams(array, block_rows):
        for at in range(len(part.keys)):
            assert part.keys[at] not in listed
            listed[part.keys[at]] = part.blocks[part.starts[at] : part.starts[at + 1]].tolist()
    assert list(listed) == sorted(listed)
    return listed


@pytest.mark.parametrize("sizes", [None, (1 << 20, 1 << 20), (1, 1), (5, 10), (50, 1000)])
def test_blocks_of_ngrams(
    sizes: tuple[int, int] | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By sorting; and by counting, with strings folded, and pairs listed, together or a few at a time."""
    if sizes is not None:
        monkeypatch.setattr(character_ngrams, "_FEW_CHARACTERS", 1 << 40)
        monkeypatch.setattr(character_ngrams, "_CHUNK_CHARACTERS", sizes[0])
        monkeypatch.setattr(character_ngrams, "_MAX_PAIRS", sizes[1])
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        values, block_rows = random_values(chance), chance.choice([1, 2, 3, 32])
        array = strings(values)
        assert listed_blocks(array, block_rows) == expected_blocks(values, block_rows)
        assert listed_blocks(array.slice(3), block_rows) == expected_blocks(values[3:], block_rows)


def test_ngrams_do_not_depend_on_the_string_type() -> None:
    values = ["abcd", None, "xyz", "abcd"]
    expected = expected_blocks(values, 2)
    for data_type in (pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        assert listed_blocks(pa.array(values, pa.string()).cast(data_type), 2) == expected


def test_every_string_that_contains_a_text_has_its_ngrams(rng: np.random.Generator) -> None:
    """Also a string whose lower case contains the text."""
    chance = random.Random(int(rng.integers(1 << 32)))
    checked = 0
    for _ in range(3000):
        alphabet = chance.choice(ALPHABETS)
        value = "".join(chance.choices(alphabet, k=chance.randint(0, 12)))
        start = chance.randint(0, 9)
        text = chance.choice([value, value.lower()])[start : start + chance.randint(0, 6)]
        checked += len(ngrams(text))
        assert set(ngrams(text)) <= windows(fold(value)), (value, text)
    assert checked > 800
    assert ngrams("ab") == ngrams("a\ufffdb") == []
    assert ngrams("aBcabC") == [b"abc", b"bca", b"cab"]


def test_letters_that_unicode_changes_are_left_out() -> None:
    """Spark's version may have another lower case of them than the one that wrote the index."""
    for letter in "\u1c89\u1c8a\ua7cb\ua7dc\u019b\u0264\U00010d50\U00016ea0\u0378":
        assert ngrams(f"a{letter}bcd") == [b"bcd"], hex(ord(letter))
    # these are the same in all
    assert len(ngrams("İΣςéЖ日😀")) == 6


def lookup(reader: NgramReader, stripe: int, texts: Iterable[bytes]) -> tuple[list[int], list[int]]:
    bounds = reader.lookup(stripe, Domain.points(set(texts)))
    return list(bounds.lower), list(bounds.upper)


@pytest.mark.parametrize("block_rows", [1, 3, 32])
def test_lookups(block_rows: int, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(40):
        stripes = [random_values(chance) for _ in range(chance.randint(1, 3))]
        data = build(STRING, [strings(values) for values in stripes], using="NGRAM", block_rows=block_rows)
        reader = open_index(data)
        assert isinstance(reader, NgramReader)
        assert reader.stripe_rows == tuple(map(len, stripes))
        for number, values in enumerate(stripes):
            blocks = expected_blocks(values, block_rows)
            for _ in range(10):
                wanted = chance.sample(sorted(blocks), min(len(blocks), chance.randint(1, 4))) or [b"abc"]
                common = set.intersection(*(set(blocks.get(ngram, ())) for ngram in wanted))
                rows = [row for row in range(len(values)) if row // block_rows in common]
                assert lookup(reader, number, wanted) == ([], rows)
                assert lookup(reader, number, [*wanted, b"\0\0\0"]) == ([], [])


def test_a_lookup_of_many_ngrams_uses_some_of_them() -> None:
    """And finds the row, whichever these are."""
    rng = random.Random(3)
    values = ["".join(rng.choices("abcdefgh", k=80)) for _ in range(500)]
    reader = open_index(build(STRING, [pa.array(values)], using="NGRAM", block_rows=1))
    assert isinstance(reader, NgramReader)
    for row in (0, 123, 499):
        assert lookup(reader, 0, ngrams(values[row])) == ([], [row])


def test_frequent_and_rare_ngrams_are_combined() -> None:
    """Blocks of frequent ones are bitmaps of their own pages."""
    values = [f"common {'x' if row % 3 else 'rare'} {row:05}" for row in range(20_000)]
    reader = open_index(build(STRING, [pa.array(values)], using="NGRAM", block_rows=2))
    assert isinstance(reader, NgramReader)
    for text in ("common", "rare", "common rare", "rare 00012", "00012", "mon x 19999"):
        blocks = {row // 2 for row, value in enumerate(values) if text in value}
        _, rows = lookup(reader, 0, ngrams(text))
        # blocks with the text, and few others
        assert {row // 2 for row in rows} >= blocks
        assert len(rows) <= 2 * len(blocks) + 200, text
    assert lookup(reader, 0, ngrams("rare x")) == ([], [])


def test_parts_of_a_data_file_make_the_same_index_file() -> None:
    rng = random.Random(5)
    stripes = [strings(random_values(rng)) for _ in range(5)]
    stripes.insert(2, strings(["ab", None]))
    parts = [build(STRING, stripes[:2], using="NGRAM"), build(STRING, stripes[2:3], using="NGRAM")]
    parts.append(build(STRING, stripes[3:], using="NGRAM"))
    sink = io.BytesIO()
    merge_index_files(sink, [IndexFileReader(BytesSource(part)) for part in parts])
    assert sink.getvalue() == build(STRING, stripes, using="NGRAM")


def open_body(body: pb.NgramBody) -> NgramReader:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    writer.finish(Footer("NGRAM", "s", "string", KeyKind.BYTES, {}, {}, body.SerializeToString(), "test"))
    return NgramReader(IndexFileReader(BytesSource(sink.getvalue())))


def test_directories_that_contradict_themselves() -> None:
    for body in (
        pb.NgramBody(block_rows=0),
        pb.NgramBody(block_rows=1 << 17),
        pb.NgramBody(block_rows=4, stripes=[pb.NgramStripe(rows=9, blocks=pb.BitmapStripe(rows=2))]),
        pb.NgramBody(
            block_rows=4, stripes=[pb.NgramStripe(rows=9, blocks=pb.BitmapStripe(rows=3, key_count=1))]
        ),
    ):
        with raises(IndexFileError):
            open_body(body)


def test_the_kernel_stays_within_its_arrays() -> None:
    ranks = np.arange(256, dtype=np.uint8)
    characters = np.frombuffer(b"abcdef", np.uint8)
    last, counts = np.zeros(1 << 24, np.uint32), np.zeros(1 << 24, np.uint32)

    def mark(ends: list[int], room: int | None = None, bits: int = 8, size: int = 1 << 24) -> None:
        blocks = None if room is None else np.zeros(room, np.uint32)
        kernel.mark_ngrams(
            characters, np.array(ends, np.int64), 1, 0, ranks, bits, 0, last[:size], counts, blocks
        )

    for ends in ([7], [-1], [4, 3]):
        with raises(ValueError):
            mark(ends)
    with raises(ValueError):
        mark([6], size=5)
    with raises(ValueError):
        mark([6], bits=9)
    last[:], counts[:] = 0, 0
    with raises(ValueError):
        # no n-gram has room for its block
        mark([6], room=0)

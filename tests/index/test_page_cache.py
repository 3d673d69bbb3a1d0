"""The cache of index files: its bound, its counts, and what keeps it right."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError
from hindex.index import page_cache as cache_module
from hindex.index.index_file import IndexFileReader
from hindex.index.page_cache import MAX_FILES, Cache, CacheCounts, parse_bytes, shared_cache
from hindex.index.reader_cache import open_index_file
from hindex.orc.io.source import BytesSource
from tests.index.support import TYPES, build
from tests.support.messages import raises


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(100)
    for name in "abc":
        cache.put(name, name, 30)
    assert cache.get("a") == "a"
    cache.put("d", "d", 30)
    assert [cache.get(name) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.counts == CacheCounts(hits=4, misses=1, bytes=90)
    cache.put("a", "new", 10)
    assert cache.get("a") == "new"
    assert cache.counts.bytes == 70
    cache.put("big", "big", 101)
    assert cache.get("big") is None
    assert cache.get("c") == "c"
    cache.resize(35)
    assert cache.counts.bytes <= 35
    assert cache.get("c") == "c"
    assert cache.counts.since(CacheCounts(4, 1, 0)) == CacheCounts(3, 1, 30)
    cache.clear()
    assert cache.counts.bytes == 0
    assert cache.get("c") is None


def test_files_are_bounded_too() -> None:
    cache = Cache(1 << 20)
    cache.put("page", "page", 1)
    for number in range(MAX_FILES + 3):
        cache.put_file(number, number, 1)
    assert [cache.get(number) for number in range(4)] == [None, None, None, 3]
    assert cache.get("page") == "page"


def test_threads_may_share_it() -> None:
    cache = Cache(50)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in range(2000):
                key = (number * seed) % 17
                value = cache.get(key)
                assert value in (None, key)
                cache.put(key, key, 7)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert cache.counts.bytes <= 50
    assert cache.counts.hits + cache.counts.misses == 8000


@pytest.mark.parametrize("text", ["many", "-1", "1.5"])
def test_a_bound_that_is_no_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(HindexError):
        parse_bytes(text)


def test_the_environment_gives_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, bound in (("1000", 1000), ("0", 0), ("", cache_module.DEFAULT_BYTES)):
        monkeypatch.setenv("HINDEX_CACHE_BYTES", text)
        assert shared_cache.__wrapped__()._limit == bound


@pytest.fixture
def index_file(tmp_path: Path) -> tuple[Path, int, int]:
    path = tmp_path / "x.hidx"
    data = build(TYPES["bigint"], [pa.array(range(100), pa.int64())])
    path.write_bytes(data)
    return path, len(data), IndexFileReader(BytesSource(data)).footer_crc32c


def test_an_open_file_is_shared(index_file: tuple[Path, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    path, length, crc = index_file
    own = Cache(1 << 20)
    monkeypatch.setattr("hindex.index.reader_cache.shared_cache", lambda: own)
    opened = open_index_file(str(path), length, crc)
    assert list(opened.reader.lookup(0, Domain.points([7])).upper) == [7]
    assert open_index_file(str(path), length, crc) is opened
    before = own.counts
    assert list(opened.reader.lookup(0, Domain.points([7])).upper) == [7]
    assert own.counts.since(before).misses == 0
    assert own.counts.since(before).hits == 1
    # another build under the same name is another file
    with raises(IndexFileError):
        open_index_file(str(path), length, crc ^ 1)
    own.resize(0)
    again = open_index_file(str(path), length, crc)
    assert again is not opened
    assert list(again.reader.lookup(0, Domain.points([7])).upper) == [7]
    assert own.counts.bytes == 0

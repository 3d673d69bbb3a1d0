"""The bounds of caches."""

from __future__ import annotations

from hindex.lru_cache import LruCache


def test_the_least_recently_used_value_goes_first() -> None:
    cache: LruCache[int, str] = LruCache(100)
    for number in range(10):
        cache.put(number, str(number), 30)
        assert cache.get(0) == "0"
    assert [cache.get(number) for number in range(10)] == ["0", *[None] * 7, "8", "9"]
    cache.put(0, "more", 90)
    assert (cache.get(0), len(cache), cache.weight) == ("more", 1, 90)


def test_a_value_beyond_the_limit_is_not_kept() -> None:
    cache: LruCache[int, str] = LruCache(100)
    cache.put(0, "zero", 90)
    cache.put(1, "one", 101)
    assert (cache.get(0), cache.get(1), cache.weight) == ("zero", None, 90)
    # nor is the value that it replaces, which is outdated
    cache.put(0, "greater", 101)
    assert (cache.get(0), len(cache), cache.weight) == (None, 0, 0)


def test_entries_are_bounded_too() -> None:
    cache: LruCache[int, str] = LruCache(100, 2)
    for number in range(3):
        cache.put(number, str(number))
    assert [cache.get(number) for number in range(3)] == [None, "1", "2"]
    cache.resize(1)
    assert [cache.get(number) for number in range(3)] == [None, None, "2"]
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)

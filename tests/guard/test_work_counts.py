"""Fixed queries take no more than they did: bytes, requests, chunks, row groups, index pages. Times are not asked."""

from __future__ import annotations

import pytest

from tests.guard.work import COMMAND, FILES, GUARDED, QUERIES, accepted, count_work, growth, make, rows
from tests.support import local_build


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        return count_work(make(tmp_path_factory.mktemp("guard"), rows()))


def test_every_query_is_accepted() -> None:
    assert list(accepted()) == [f"{place} {name}" for place in ("local", "remote") for name in QUERIES], (
        f"accept the new list of queries: {COMMAND}"
    )


def test_no_count_grows(counts: dict[str, dict[str, int]]) -> None:
    grown = [line for name, before in accepted().items() for line in growth(name, before, counts[name])]
    assert not grown, "\n".join(["queries do more than they did:", *grown, f"to accept that: {COMMAND}"])


def test_no_count_is_accepted_that_is_out_of_date(counts: dict[str, dict[str, int]]) -> None:
    """A lower count becomes the accepted one: a count far above it would guard nothing."""
    loose = [line for name, before in accepted().items() for line in growth(name, counts[name], before)]
    assert not loose, "\n".join(
        ["more is accepted than queries take:", *loose, f"to accept what is found: {COMMAND}"]
    )


def test_the_rows_are_right(counts: dict[str, dict[str, int]]) -> None:
    data = rows()
    for name, query in QUERIES.items():
        expected = data.filter(query.same).num_rows
        assert counts[f"local {name}"]["rows"] == counts[f"remote {name}"]["rows"] == expected, name


@pytest.mark.parametrize("place", ["local", "remote"])
def test_counts_tell_the_queries_apart(counts: dict[str, dict[str, int]], place: str) -> None:
    of = {name: counts[f"{place} {name}"] for name in QUERIES}
    assert 0 < of["point, one column"]["bytes_fetched"] < of["point"]["bytes_fetched"]
    assert 0 < of["point, one column"]["row_groups"] < of["point"]["row_groups"]
    assert of["count"]["chunks"] == of["no row"]["chunks"] == 0
    assert of["count"]["index_pages"] > 0
    # one row of a table of 60 row groups
    assert 0 < of["btree"]["row_groups"] <= len(QUERIES["btree"].columns)
    assert 0 < of["bloom"]["row_groups"] <= 2 * len(QUERIES["bloom"].columns)
    assert of["all rows"]["whole_columns"] >= FILES * len(QUERIES["all rows"].columns)
    assert of["all rows"]["row_groups"] == 0


@pytest.mark.parametrize("count", GUARDED)
def test_growth_is_described(count: str) -> None:
    before = dict.fromkeys(GUARDED, 1000)
    (line,) = growth("q", before, before | {count: 1100})
    assert line == f"q: {count} 1,000 -> 1,100 (+100, +10%)"
    assert growth("q", before, before | {count: 900}) == []


def test_few_more_bytes_are_another_compressor() -> None:
    before = dict.fromkeys(GUARDED, 1000)
    assert growth("q", before, before | {"bytes_fetched": 1020}) == []
    assert growth("q", before, before | {"ranges": 1001}) == ["q: ranges 1,000 -> 1,001 (+1, +0%)"]

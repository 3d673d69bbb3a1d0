"""Queries of some partitions of a table on S3 list the prefixes of these alone."""

from __future__ import annotations

from urllib.parse import parse_qs

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.api import scan
from hindex.errors import TableNotFoundError
from tests.support.local_build import LocalConnection
from tests.support.s3 import S3Server, delete_object, put_object


@pytest.mark.parametrize("has_markers", [False, True])
def test_an_object_store_lists_the_wanted_partitions(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, has_markers: bool
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    for number in range(4):
        put_rows(f"{bucket}/t/p={number}/x.orc", number)
        if has_markers:
            put_object(f"{bucket}/t/p={number}/", b"")
            put_object(f"{bucket}/t/p={number}_$folder$", b"")
    if has_markers:
        put_object(f"{bucket}/t/", b"")
    put_object(f"{bucket}/t/_temporary/p=1/x.orc", b"no file")
    table = LocalConnection().table(f"{bucket}/t")
    assert table.scan().count() == 4
    for where, expected in (("p = 2", [2]), ("p > 1 AND id < 9", [2, 3])):
        s3.answers.clear()
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == expected
        queries = [parse_qs(item.query) for item in s3.answers if "list-type" in item.query]
        of_table = [query for query in queries if "_hindex" not in query["prefix"][0]]
        assert [query["prefix"][0] for query in of_table if "delimiter" in query] == ["t/"]
        within = sorted(query["prefix"][0] for query in of_table if "delimiter" not in query)
        assert within == [f"t/p={number}/" for number in expected]


def test_a_table_that_was_deleted_does_not_exist(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"id": [1]}), sink)
    put_object(f"{bucket}/t/p=1/x.orc", sink.getvalue().to_pybytes())
    table = LocalConnection().table(f"{bucket}/t")
    assert table.scan("p = 1").count() == 1
    delete_object(f"{bucket}/t/p=1/x.orc")
    with pytest.raises(TableNotFoundError):
        table.scan("p = 1").count()


def put_rows(uri: str, *values: int) -> None:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"id": values}), sink)
    put_object(uri, sink.getvalue().to_pybytes())


def test_markers_of_directories_between_partitions_are_no_files(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    for number in range(4):
        directories = (
            f"p={number // 2}",
            f"p={number // 2}/q={number % 2}",
            f"p={number // 2}/q={number % 2}/r=7",
        )
        for directory in directories:
            put_object(f"{bucket}/t/{directory}/", b"")
        put_rows(f"{bucket}/t/{directories[-1]}/x.orc", number)
    table = LocalConnection().table(f"{bucket}/t")
    assert table.scan().count() == 4
    for where, expected in (("p = 1", [2, 3]), ("p = 1 AND q = 0", [2]), ("q = 1 AND r = 7", [1, 3])):
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == expected


def test_few_files_are_listed_in_one_request(bucket: str, s3: S3Server) -> None:
    for number in range(4):
        put_rows(f"{bucket}/t/p={number}/x.orc", number)
    table = LocalConnection().table(f"{bucket}/t")
    assert table.scan().count() == 4
    for where, expected in (("p = 2", [2]), ("p > 1", [2, 3])):
        s3.answers.clear()
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == expected
        queries = [parse_qs(item.query) for item in s3.answers if "list-type" in item.query]
        assert [query["prefix"] for query in queries if "_hindex" not in query["prefix"][0]] == [["t/"]]

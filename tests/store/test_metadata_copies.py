"""Copies of the metadata of data files on S3, hints of the latest manifest, and listings without the store."""

from __future__ import annotations

import datetime
import io
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.api.table import Table
from hindex.build.job import plan_build, run_build
from hindex.build.metadata_job import CopiedFile, run_metadata_task
from hindex.errors import BuildError, DeletedFileError, OrcError
from hindex.lru_cache import LruCache
from hindex.orc import OrcReader
from hindex.orc.io import object_store
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import BytesSource, RequestSource
from hindex.orc.metadata.file_tail import read_tail
from hindex.orc.metadata.stripe import StreamKind, read_row_indexes, read_stripe_footer
from hindex.progress import NullProgress
from hindex.proto import manifest_pb2 as pb
from hindex.scan import planning, scan_task_reader
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from hindex.spark.tasks import group_tasks, read_group
from hindex.store import metadata_copy, remote
from hindex.store.manifest import IndexEntry, MetadataCopy, new_index_id
from hindex.store.metadata_copy import (
    batches_with_copies,
    copy_metadata,
    fetch_copies,
    keep_metadata,
)
from hindex.store.store import Store
from hindex.table import listing
from tests.acid.writing import bucket_property, write_acid, write_flat
from tests.store.changes import adding, names
from tests.support import local_build
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.s3 import S3Server, delete_object, delete_objects, object_keys, put_object
from tests.support.work import forget

ROWS = 8_000
#: Of files that are so large that the copies of their metadata are read one by one.
MORE_ROWS = 30_000
FILES = 3


def values(file: int, seed: int = 0, rows: int = ROWS) -> list[int]:
    return random.Random(10 * file + seed).sample(range(1 << 40), rows)


def orc_bytes(data: pa.Table, stripe_size: int = 1 << 15) -> bytes:
    sink = io.BytesIO()
    pa.orc.write_table(data, sink, compression="uncompressed", stripe_size=stripe_size)
    return sink.getvalue()


@pytest.fixture
def table(bucket: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Table:
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    rows = getattr(request, "param", ROWS)
    for file in range(FILES):
        data = pa.table({"k": values(file, rows=rows), "v": range(rows)})
        put_object(f"{bucket}/t/{file}.orc", orc_bytes(data))
    table = LocalConnection().table(f"{bucket}/t")
    table.create_index("i", "k", "bitmap")
    forget()
    return LocalConnection().table(f"{bucket}/t")


def rows(table: Table, key: int) -> list[int]:
    numbers: list[int] = table.scan(f"k = {key}", ["v"]).to_arrow()["v"].to_pylist()
    return numbers


def copies(table: Table) -> list[MetadataCopy]:
    entries = table.snapshot().manifest.files
    store = table.snapshot().store
    return [
        replace(entry.metadata, path=store.absolute(entry.metadata.path))
        for entry in entries
        if entry.metadata is not None
    ]


def test_a_copy_serves_the_bytes_of_its_file(table: Table) -> None:
    made = copies(table)
    assert len(made) == FILES
    for file, copy in enumerate(made):
        uri = f"{table.uri}/{file}.orc"
        with OrcReader(uri) as reader:
            stripes, tail = len(reader.stripes), reader.tail
        assert stripes > 2
        source = open_source(uri, length=tail.file_length, version=copy.version)
        assert isinstance(source, RequestSource)
        keep_metadata(source, copy)
        plain = open_source(uri)
        for at in (0, stripes - 1):
            stripe = tail.stripes[at]
            footer = (stripe.offset + stripe.index_length + stripe.data_length, stripe.footer_length)
            end = (tail.file_length - tail.length, tail.length)
            for item in (end, footer, (stripe.offset, stripe.index_length)):
                assert not source.requests([item])
                assert source.read([item]) == plain.read([item])
        assert source.requests([(tail.stripes[0].offset + tail.stripes[0].index_length, 10)])


@pytest.mark.parametrize(("rows", "requests"), [(1_000, 1), (40_000, 2)])
def test_requests_of_a_copy(bucket: str, s3: S3Server, rows: int, requests: int) -> None:
    """A small object is read as a whole; of one with a stripe, the tail, then the row indexes."""
    data = orc_bytes(pa.table({"k": values(0, rows=rows)}), stripe_size=1 << 26)
    put_object(f"{bucket}/one.orc", data)
    s3.requests.clear()
    source = open_source(f"{bucket}/one.orc", length=len(data))
    assert isinstance(source, RequestSource)
    copied = copy_metadata(source)
    assert copied is not None
    assert s3.count("GET", r"one\.orc") == requests


def test_the_copies_of_a_build_are_one_file(table: Table) -> None:
    keys = object_keys(f"{table.uri}/_hindex")
    assert sum(key.startswith("metadata/") for key in keys) == 1
    assert len({copy.path for copy in copies(table)}) == 1


@pytest.mark.parametrize("table", [MORE_ROWS], indirect=True)
def test_a_data_file_that_is_replaced_is_not_read_by_the_copy_of_another(table: Table, s3: S3Server) -> None:
    before, after = (values(1, seed, MORE_ROWS) for seed in (0, 1))
    old, new = (orc_bytes(pa.table({"k": keys, "v": range(MORE_ROWS)})) for keys in (before, after))
    put_object(f"{table.uri}/1.orc", new)
    s3.requests.clear()
    assert rows(table, after[7]) == [7]
    assert rows(table, before[7]) == []
    # those of the two other files, once
    assert s3.count("GET", r"/metadata/") == 2
    put_object(f"{table.uri}/1.orc", old)
    assert rows(LocalConnection().table(table.uri), before[7]) == [7]


@pytest.mark.parametrize("ignores_conditions", [False, True])
def test_a_file_that_is_replaced_after_the_plan(
    table: Table, s3: S3Server, monkeypatch: pytest.MonkeyPatch, ignores_conditions: bool
) -> None:
    """The copy is of the planned version; the read of the rows finds out, and the query is planned anew."""
    s3.ignores_conditions = ignores_conditions
    after = values(1, seed=1)
    real = fetch_copies
    replaced: list[int] = []

    def fetch(some: list[MetadataCopy]) -> None:
        real(some)
        if not replaced:
            replaced.append(1)
            put_object(f"{table.uri}/1.orc", orc_bytes(pa.table({"k": after, "v": range(ROWS)})))

    monkeypatch.setattr("hindex.scan.task_runner.fetch_copies", fetch)
    assert rows(table, values(1)[7]) == []
    assert replaced
    assert rows(table, after[7]) == [7]


@sampled(3)
@pytest.mark.parametrize("using", ["BITMAP", "BTREE", "MINMAX"])
@pytest.mark.parametrize("ignores_conditions", [False, True])
def test_a_build_after_a_file_is_replaced(
    table: Table, s3: S3Server, using: str, ignores_conditions: bool
) -> None:
    """It reads the planned version alone: it fails, or needs the copy only and indexes what is gone."""
    s3.ignores_conditions = ignores_conditions
    level = "table" if using == "BTREE" else "stripe"
    entry = IndexEntry(new_index_id(), "w", "v", using, "bigint", level=level)
    plan = plan_build(table.snapshot(), [entry])
    put_object(f"{table.uri}/1.orc", orc_bytes(pa.table({"k": values(1, seed=1), "v": range(1, ROWS + 1)})))
    connection = LocalConnection().spark()
    if using == "MINMAX":
        checksums = {item.path: item.tail_checksum for item in table.snapshot().manifest.files}
        built = run_build(connection, plan, NullProgress())
        assert {item.path: item.tail_checksum for item in built} == checksums
        return
    with raises(BuildError):
        run_build(connection, plan, NullProgress())


def test_errors_of_files_that_change_after_the_plan(table: Table) -> None:
    """Where nothing plans anew: the rows of a copy's version are gone, as an executor or a fragment finds out."""
    uri = f"{table.uri}/1.orc"
    plan = table.scan(f"k = {values(1)[7]}", ["v"]).plan()
    (group,) = group_tasks(plan, 1)
    for change in (partial(put_object, uri, b"x" * 99), partial(delete_object, uri)):
        change()
        with raises(OrcError):
            list(run_units(run_lookups(plan.tasks), ScanTaskReader.read))
        with raises(DeletedFileError):
            list(read_group(group))


def test_an_adopted_file_keeps_its_copy_only_in_the_same_version(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes are compared with the file, and prove nothing of the row indexes of other columns."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    hx = LocalConnection()

    def put(k: list[int]) -> list[int]:
        """Write a file whose length and tail are the same in any order of row groups; return the values."""
        sink = io.BytesIO()
        data = pa.table({"a": [row % 7 for row in range(len(k))], "k": k})
        pa.orc.write_table(data, sink, compression="uncompressed", row_index_stride=1000)
        put_object(f"{bucket}/t/0.orc", sink.getvalue())
        return k

    first = put([row // 1000 * 2 for row in range(5000)])
    hx.table(f"{bucket}/t").create_index("i", "a", "bitmap")
    (copy,) = copies(hx.table(f"{bucket}/t"))
    # the server keeps whole seconds
    time.sleep(1.1)
    put(first)
    table = hx.table(f"{bucket}/t")
    assert table.adopt_indexes().files_adopted == 1
    assert [task.metadata for task in table.scan("k = 2").plan().tasks] == [copy]
    time.sleep(1.1)
    second = put(first[:1000] + first[2000:3000] + first[1000:2000] + first[3000:])
    forget()
    table = hx.table(f"{bucket}/t")
    assert table.adopt_indexes().files_adopted == 1
    assert [task.metadata for task in table.scan("k = 2").plan().tasks] == [None]
    values_of_a = table.scan("k = 2", ["a"]).to_arrow()["a"].to_pylist()
    assert values_of_a == [row % 7 for row in range(5000) if second[row] == 2]


def damage(data: bytes) -> bytes:
    return data[:10] + bytes(byte ^ 0xFF for byte in data[10:])


def flip(data: bytes) -> bytes:
    """Change one byte of the metadata of a data file, and none of the message around it."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [None, damage, flip, lambda data: data[:100]],
    ids=["gone", "damaged", "one byte", "cut"],
)
def test_copies_that_cannot_be_used(
    table: Table, change: Callable[[bytes], bytes] | None, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = {copy.path for copy in copies(table)}
    if change is None:
        delete_objects(path.rpartition("/")[0])
    else:
        put_object(path, change(read(path)))
    for file in range(FILES):
        assert rows(table, values(file)[3]) == [3]
    assert "metadata" in caplog.text
    assert not table.scan(f"k = {values(0)[3]}").explain().notes


def test_no_more_copies_are_fetched_than_are_kept(
    table: Table, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = copies(table)
    limit = sum(copy.length for copy in made) - 1
    kept: LruCache[MetadataCopy, bytes] = LruCache(limit)
    monkeypatch.setattr(metadata_copy, "_CACHE_BYTES", limit)
    monkeypatch.setattr(metadata_copy, "COPIES", kept)
    s3.answers.clear()
    fetch_copies(made)
    assert [copy for copy in made if kept.get(copy)] == made[:1]
    assert sum(item.length for item in s3.answers) == made[0].length
    # the others are fetched when their files are opened
    for file in range(FILES):
        assert rows(table, values(file)[5]) == [5]


def test_a_task_of_many_files_reads_each_once() -> None:
    files = range(2 * metadata_copy._BATCH + 1)
    assert [file for some in batches_with_copies(files, lambda _: None) for file in some] == list(files)


def test_wide_files_are_copied_within_bounds() -> None:
    columns = {f"c{at}": random.Random(at).sample(range(1 << 40), 10_000) for at in range(40)}
    wide = orc_bytes(pa.table(columns), stripe_size=1 << 18)
    source = RangesOf(wide)
    tail = read_tail(source)
    copied = copy_metadata(source)
    assert copied is not None
    message = pb.FileMetadata.FromString(copied[1])
    copied_bytes = sum(len(item.data) for item in message.ranges)
    assert copied_bytes <= max(len(wide) // 64, 1 << 14)
    indexes = sum(stripe.index_length for stripe in tail.stripes)
    footers = sum(stripe.footer_length for stripe in tail.stripes)
    # the footers come first, and some of the row indexes do not fit
    assert tail.length + footers < copied_bytes < tail.length + footers + indexes
    for item in message.ranges:
        assert wide[item.offset : item.offset + len(item.data)] == item.data


def test_bloom_filters_are_neither_copied_nor_fetched_with_the_footer() -> None:
    sink = io.BytesIO()
    data = pa.table({"k": values(0)})
    pa.orc.write_table(data, sink, compression="uncompressed", stripe_size=1 << 17, bloom_filter_columns=[0])
    source = RangesOf(sink.getvalue())
    copied = copy_metadata(RangesOf(sink.getvalue()))
    assert copied is not None
    message = pb.FileMetadata.FromString(copied[1])
    source.keep((item.offset, memoryview(item.data)) for item in message.ranges)
    tail = read_tail(source)
    stripe = read_stripe_footer(source, tail, 0, tail.decompressor())
    read_row_indexes(source, stripe, [1], tail.decompressor())
    assert stripe.row_entries[1]
    assert not any(source.fetched)
    (bloom,) = (item for item in stripe.streams.values() if item.kind is StreamKind.BLOOM_FILTER_UTF8)
    assert source.requests([(bloom.offset, bloom.length)])


def test_footers_that_do_not_fit_are_not_copied() -> None:
    sink = io.BytesIO()
    with pa.orc.ORCWriter(sink, compression="uncompressed", stripe_size=1024, batch_size=1000) as writer:
        for _ in range(300):
            writer.write(pa.table({"k": range(1000)}))
    many = sink.getvalue()
    tail = read_tail(RangesOf(many))
    assert len(tail.stripes) >= 300
    copied = copy_metadata(RangesOf(many))
    assert copied is not None
    (item,) = pb.FileMetadata.FromString(copied[1]).ranges
    assert (item.offset, len(item.data)) == (len(many) - tail.length, tail.length)


def test_a_tail_that_is_too_long_is_not_copied() -> None:
    tall = orc_bytes(pa.table({f"column_{at:0100}": [1] for at in range(400)}))
    assert copy_metadata(RangesOf(tall)) is None


class RangesOf(RequestSource):
    """Bytes in memory, as a source of ranges."""

    def __init__(self, data: bytes) -> None:
        self.path = "memory"
        self._source = BytesSource(data)
        self._size = len(data)
        self.fetched: list[object] = []

    def _fetch(self, ranges: object) -> list[bytes]:
        self.fetched.append(ranges)
        return [bytes(view) for view in self._source.read(ranges)]  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0, 1 << 20])
def test_few_rows_are_read_in_all_columns_at_once(
    table: Table, s3: S3Server, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    """Without an index on the filter's column, all rows are undecided; one matches."""
    monkeypatch.setattr(scan_task_reader, "_TOGETHER_BYTES", bound)
    at = ROWS // 2
    s3.answers.clear()
    assert table.scan(f"v % {ROWS} = {at}", ["k"]).to_arrow()["k"].to_pylist() == [
        values(file)[at] for file in range(FILES)
    ]
    fetched = sum(item.length for item in s3.answers if item.path.endswith(".orc"))
    # all values of the other column, or those of the row group with the match
    assert (fetched > FILES * ROWS * 5) == bool(bound)


def test_a_source_serves_the_blocks_that_it_keeps() -> None:
    """In whatever order they come, and only what is within one of them."""
    data = bytes(range(200))
    blocks = [(150, 20), (3, 10), (13, 0), (13, 7), (60, 40)]
    source = RangesOf(data)
    source.keep((start, memoryview(data)[start : start + length]) for start, length in blocks)
    for start in range(len(data)):
        for length in (1, 5, 15):
            item = start, min(length, len(data) - start)
            kept = any(at <= start and sum(item) <= at + size for at, size in blocks)
            assert source.requests([item]) == ([] if kept else [item])
            assert source.read([item]) == [data[start : sum(item)]]


def test_vacuum_deletes_copies_that_nothing_names(table: Table) -> None:
    def copy_files() -> set[str]:
        return {key for key in object_keys(f"{table.uri}/_hindex") if key.startswith("metadata/")}

    (first,) = copy_files()
    put_object(f"{table.uri}/1.orc", orc_bytes(pa.table({"k": values(1, seed=1), "v": range(ROWS)})))
    table.refresh_indexes()
    assert len(copy_files()) == 2
    table.vacuum(retain_hours=0)
    # two data files still have their copies in the first
    assert first in copy_files()
    assert len(copy_files()) == 2
    table.drop_index("i")
    table.vacuum(retain_hours=0)
    assert not copy_files()


def test_an_older_hint_is_not_the_latest_manifest(bucket: str) -> None:
    root = f"{bucket}/s"
    Store(root, "/t").commit(adding("a"))
    hint = read(f"{root}/manifests/latest.hint")
    Store(root, "/t").commit(adding("b"))
    put_object(f"{root}/manifests/latest.hint", hint)
    forget()
    assert names(Store(root, "/t")) == ["a", "b"]


def test_a_hint_of_another_manifest_of_that_number(bucket: str) -> None:
    """As after one was deleted to go back to the state before, and the next writer was killed before its hint."""
    root = f"{bucket}/s"
    Store(root, "/t").commit(adding("a"))
    hint = read(f"{root}/manifests/latest.hint")
    delete_objects(f"{root}/manifests")
    forget()
    Store(root, "/t").commit(adding("b"))
    put_object(f"{root}/manifests/latest.hint", hint)
    forget()
    assert names(Store(root, "/t")) == ["b"]


@pytest.mark.parametrize(
    "change", [damage, lambda data: b"", lambda data: data[:-40], lambda data: b"x" * 99]
)
def test_a_damaged_hint(bucket: str, change: Callable[[bytes], bytes]) -> None:
    root = f"{bucket}/s"
    Store(root, "/t").commit(adding("a"))
    hint = read(f"{root}/manifests/latest.hint")
    put_object(f"{root}/manifests/latest.hint", change(hint))
    forget()
    assert names(Store(root, "/t")) == ["a"]


def test_a_long_manifest_has_no_hint(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"{bucket}/s"
    Store(root, "/t").commit(adding("a"))
    hint = read(f"{root}/manifests/latest.hint")
    monkeypatch.setattr(remote, "_MAX_HINT_BYTES", len(hint) - 1)
    Store(root, "/t").commit(adding("b"))
    assert read(f"{root}/manifests/latest.hint") == hint
    forget()
    assert names(Store(root, "/t")) == ["a", "b"]


def test_a_hint_saves_a_request(bucket: str, s3: S3Server) -> None:
    root = f"{bucket}/s"
    Store(root, "/t").commit(adding("a"))
    forget()
    s3.requests.clear()
    assert names(Store(root, "/t")) == ["a"]
    assert s3.count("GET", r"/manifests/0") == 0
    assert len(s3.requests) == 2
    s3.requests.clear()
    # what this process knows already needs no hint
    assert names(Store(root, "/t")) == ["a"]
    assert len(s3.requests) == 1


@pytest.mark.parametrize(
    ("e_tag", "version"), [('"1"', '"1"'), ("1", '"1"'), ('W/"1"', None), ("", None), (None, None)]
)
def test_versions_of_objects(e_tag: str | None, version: str | None) -> None:
    """A weak one may be of other bytes, and no condition of a request fits it."""
    now = datetime.datetime.now(datetime.UTC)
    meta = {"size": 1, "last_modified": now, "e_tag": e_tag}
    assert object_store._info(meta, "a").version == version


def test_listings_without_quotes_of_versions(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of Azure: the version of a commit's response is the listed one all the same."""
    real = obstore.list_with_delimiter

    def unquoted(store: Any, prefix: str) -> Any:
        listed: Any = real(store, prefix)
        objects = [{**meta, "e_tag": meta["e_tag"].strip('"')} for meta in listed["objects"]]
        return {"objects": objects, "common_prefixes": listed["common_prefixes"]}

    monkeypatch.setattr(obstore, "list_with_delimiter", unquoted)
    Store(f"{bucket}/s", "/t").commit(adding("a"))
    forget()
    s3.requests.clear()
    assert names(Store(f"{bucket}/s", "/t")) == ["a"]
    assert s3.count("GET", r"/manifests/0") == 0


def read(uri: str) -> bytes:
    source = open_source(uri)
    try:
        return bytes(source.read([(0, source.size())])[0])
    finally:
        source.close()


def test_listings_pass_over_the_store(bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many index files there are, one page of a listing has some of them."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    monkeypatch.setattr(object_store, "_PAGE", 10)
    expected = ["A.orc", "p=1/x.orc", "p=2/y.orc", "z.orc"]
    for name in expected:
        put_object(f"{bucket}/t/{name}", b"x")
    hidden = [f"_hindex/data/{at:02}" for at in range(45)]
    hidden += [f"p=1/_temporary/0/task/{at:02}" for at in range(45)] + ["p=1/.staging/a", "p=2/_SUCCESS"]
    for name in hidden:
        put_object(f"{bucket}/t/{name}", b"x")
    s3.requests.clear()
    files, path = object_store.ObjectStore("s3", bucket.removeprefix("s3://")), "t"
    listed = [info.path for info in files.entries(path)]
    assert [name for name in listed if name in expected] == expected
    assert len(listed) == len(set(listed))
    # of the 97 objects 30 at most are listed: those up to the first hidden directory, up to the next, and the rest
    assert len(s3.requests) <= 4


HIDDEN = [f"_hindex/data/{at:02}" for at in range(45)]
EXPECTED = ["A.orc", "p=1/x.orc", "p=2/y.orc", "z.orc"]


def listed_by(
    monkeypatch: pytest.MonkeyPatch, uri: str, pages: Callable[[str], list[list[str]]]
) -> tuple[list[str], list[str]]:
    """Return the names that are listed by pages of ten, and the offsets that these were requested for."""
    offsets: list[str] = []
    now = datetime.datetime.now(datetime.UTC)

    def list_(store: object, prefix: str, *, offset: str | None, chunk_size: int) -> Iterator[object]:
        offsets.append(offset or "")
        for page in pages(offset or ""):
            yield [{"path": prefix + name, "size": 1, "last_modified": now, "e_tag": "1"} for name in page]

    monkeypatch.setattr(object_store, "_PAGE", 10)
    monkeypatch.setattr(obstore, "list", list_)
    scheme, _, head = uri.partition("://")
    listed = [info.path for info in object_store.ObjectStore(scheme, head).entries("t")]
    return [name for name in listed if not name.startswith("_")], offsets


@pytest.mark.parametrize("uri", ["s3://b--use1-az4--x-s3", "abfss://c@account.dfs.core.windows.net"])
def test_listings_that_do_not_begin_at_a_name(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    """S3's directory buckets have no order, so names before the hidden directory may follow; Azure lists all again."""
    pages = [HIDDEN[:10], ["z.orc", *HIDDEN[10:19]], [*EXPECTED[:3], *HIDDEN[19:26]]]
    listed, offsets = listed_by(monkeypatch, uri, lambda offset: pages)
    assert sorted(listed) == EXPECTED
    assert offsets == [""]


def test_listings_of_servers_that_ignore_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted([*EXPECTED, *HIDDEN])
    pages = [names[at : at + 10] for at in range(0, len(names), 10)]
    listed, offsets = listed_by(monkeypatch, "s3://b", lambda offset: pages)
    assert listed == EXPECTED
    assert offsets == ["", "t/_hindex0"]


def test_a_build_copies_only_the_listed_versions(bucket: str, s3: S3Server) -> None:
    """A refresh finds out what was replaced or deleted after the listing; other problems end the build."""
    uris = [f"{bucket}/t/{at}.orc" for at in range(3)]
    for uri in uris[:2]:
        put_object(uri, orc_bytes(pa.table({"k": range(10)})))
    listed = {info.path: info for info in object_store.ObjectStore("s3", bucket[5:]).entries("t")}
    lengths = [listed[f"{at}.orc"].length for at in range(2)]
    (version,) = {info.version for info in listed.values()}
    assert isinstance(version, str)
    files = [
        CopiedFile("0.orc", uris[0], lengths[0], '"another"'),
        CopiedFile("1.orc", uris[1], lengths[1], version),
        CopiedFile("2.orc", uris[2], lengths[0], version),
    ]
    (batch,) = run_metadata_task("b", f"{bucket}/s/metadata", files)
    assert batch.column("data_file").to_pylist() == ["1.orc"]
    assert len(object_keys(f"{bucket}/s/metadata")) == 1
    delete_objects(f"{bucket}/s")
    list(run_metadata_task("b", f"{bucket}/s/metadata", files[2:]))
    assert not object_keys(f"{bucket}/s")
    with s3.failing("GET", "1.orc", "AccessDenied"), pytest.raises(BuildError, match=r"1\.orc"):
        list(run_metadata_task("b", f"{bucket}/s/metadata", files))


def test_transactional_files_have_no_copies(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    write_flat(tmp_path / "000000_0", [(i, i % 5, "x") for i in range(100)])
    write_acid(tmp_path / "delta_1_1" / "bucket_00000", [((1, bucket_property(0), 0), 1, (100, 2, "x"))])
    for name in ("000000_0", "delta_1_1/bucket_00000"):
        put_object(f"{bucket}/t/{name}", (tmp_path / name).read_bytes())
    table = LocalConnection().table(f"{bucket}/t")
    table.create_index("i", "k", "bitmap")
    assert len(table.snapshot().manifest.files) == 2
    assert not copies(table)
    assert not any(key.startswith("metadata/") for key in object_keys(f"{bucket}/t/_hindex"))
    assert table.scan("k = 2", ["id"]).to_arrow()["id"].to_pylist() == [*range(2, 100, 5), 100]


@pytest.mark.parametrize("bound", [0, 1 << 20])
def test_few_copies_are_fetched_beside_the_lookup(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    """Before it is known which files are read; otherwise only those of these files."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    monkeypatch.setattr(planning, "_FEW_COPIES_BYTES", bound)
    for file in range(FILES):
        put_object(f"{bucket}/t/{file}.orc", orc_bytes(pa.table({"k": values(file)})))
    LocalConnection().table(f"{bucket}/t").create_index("i", "k", "btree")
    table = LocalConnection().table(f"{bucket}/t")
    made = copies(table)
    forget()
    s3.answers.clear()
    scan = table.scan(f"k = {values(1)[7]}", ["k"])
    assert scan.to_arrow()["k"].to_pylist() == [values(1)[7]]
    assert [task.path for task in scan.plan().tasks] == ["1.orc"]
    fetched = sum(item.length for item in s3.answers if "/metadata/" in item.path)
    assert fetched == (sum(copy.length for copy in made) if bound else made[1].length)

"""The requests of an answer with empty caches on S3, and how many of them wait for one another."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import cache
from urllib.parse import parse_qs

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.api.table import Table
from hindex.build import btree_task
from hindex.build.btree_task import BTreeJob, ReadTask, SortedPart, entry_chunks
from hindex.index import page_cache
from hindex.index.btree import IndexedFile
from hindex.orc import OrcReader
from hindex.plan.index_columns import IndexColumn
from hindex.scan import included_columns
from hindex.spark.tasks import group_tasks, read_group
from hindex.table import listing
from hindex.table.schema import ResolvedColumn
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.s3 import S3Server, object_keys, put_object
from tests.support.work import forget

ROWS = 20_000
#: The values of ``g`` in every file. Random ones make index files that do not come with their end, and the least ones
#: are the farthest from it.
VALUES = random.Random(0).sample(range(1 << 60), ROWS)


@cache
def ids(file: int) -> list[int]:
    return random.Random(1 + file).sample(range(1 << 60), ROWS)


_GREATEST_MINIMUM = max(min(ids(file)) for file in range(8))
#: Of file 1 alone, though it is within the range of every file.
ID = next(value for value in sorted(ids(1)) if value > _GREATEST_MINIMUM)
G = min(VALUES)
AT = VALUES.index(G)

#: Seconds for which an answer waits: requests that are sent together overlap, unless the machine has much else to do.
DELAYS = (0.1, 0.3, 0.9)


def put_files(bucket: str, files: int) -> None:
    for file in range(files):
        sink = pa.BufferOutputStream()
        pyarrow.orc.write_table(pa.table({"id": ids(file), "g": VALUES}), sink)
        put_object(f"{bucket}/t/{file}.orc", sink.getvalue().to_pybytes())


@pytest.mark.parametrize("files", [2, 8])
@pytest.mark.parametrize(
    ("using", "column", "answer", "expected", "requests", "chain", "again"),
    [
        pytest.param(
            "bitmap",
            "g",
            lambda table: table.scan(f"g = {G}").count(),
            lambda files: files,
            # its end and a page of each index file, beside the copies of the data files' metadata
            lambda files: 1 + 2 * files,
            2,
            lambda files: 0,
            id="count",
        ),
        pytest.param(
            "btree",
            "id",
            lambda table: table.scan(f"id = {ID}", ["id"]).to_arrow()["id"].to_pylist(),
            lambda files: [ID],
            # the end and a page of the index beside the copies, then the rows
            lambda files: 4,
            3,
            lambda files: 1,
            id="row",
        ),
        pytest.param(
            "bitmap",
            "g",
            lambda table: table.scan(f"g = {G}", ["id"]).to_arrow()["id"].to_pylist(),
            lambda files: [ids(file)[AT] for file in range(files)],
            # as a count, then the rows
            lambda files: 1 + 3 * files,
            3,
            lambda files: files,
            id="rows",
        ),
    ],
)
def test_requests_of_a_first_answer(
    bucket: str,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    using: str,
    column: str,
    answer: Callable[[Table], object],
    expected: Callable[[int], object],
    requests: Callable[[int], int],
    chain: int,
    again: Callable[[int], int],
    files: int,
) -> None:
    """However many files there are, their requests are made side by side.

    The listings come first, beside the latest manifest; ``requests`` follow, and of a second answer ``again``.
    """
    local_build.install(monkeypatch)
    # objects that were written just now may be replaced within the second, and are opened before they are skipped
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    put_files(bucket, files)
    LocalConnection().table(f"{bucket}/t").create_index("i", column, using)
    chains = []
    for delay in DELAYS:
        forget()
        s3.requests.clear()
        s3.answers.clear()
        with s3.failing("GET", "", delay=delay):
            assert answer(LocalConnection().table(f"{bucket}/t")) == expected(files)
        assert {method for method, _ in s3.requests} == {"GET"}
        listed = [parse_qs(item.query)["prefix"][0] for item in s3.answers if "list-type" in item.query]
        assert sorted(listed) == ["t/", "t/_hindex/manifests/"]
        assert len(s3.requests) == 3 + requests(files)
        chains.append(s3.longest_chain())
        if chains[-1] <= 1 + chain:
            break
    # requests of one step that did not overlap count as several, so that the least is right
    assert min(chains) == 1 + chain, chains
    s3.requests.clear()
    assert answer(LocalConnection().table(f"{bucket}/t")) == expected(files)
    assert len(s3.requests) == 2 + again(files)


def test_remote_index_files_take_no_descriptors(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them stay open, unlike those of a local disk."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    monkeypatch.setattr(page_cache, "MAX_FILES", 1)
    for file in range(3):
        sink = pa.BufferOutputStream()
        pyarrow.orc.write_table(pa.table({"g": VALUES}), sink)
        put_object(f"{bucket}/t/{file}.orc", sink.getvalue().to_pybytes())
    LocalConnection().table(f"{bucket}/t").create_index("i", "g")
    forget()
    for index_requests in (6, 0):
        s3.requests.clear()
        assert LocalConnection().table(f"{bucket}/t").scan(f"g = {G}").count() == 3
        assert sum("/_hindex/data/" in path for _, path in s3.requests) == index_requests


@pytest.mark.parametrize("using", ["bitmap", "btree"])
def test_small_files_of_a_build_task_are_read_side_by_side(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, using: str
) -> None:
    local_build.install(monkeypatch)
    files = 8
    for file in range(files):
        sink = pa.BufferOutputStream()
        pyarrow.orc.write_table(pa.table({"id": ids(file)}), sink)
        put_object(f"{bucket}/t/{file}.orc", sink.getvalue().to_pybytes())
    chains = []
    for number, delay in enumerate(DELAYS):
        hx = LocalConnection()
        # all files in one task
        hx.conf["spark.default.parallelism"] = "1"
        forget()
        s3.answers.clear()
        with s3.failing("GET", r"\.orc$", delay=delay):
            hx.table(f"{bucket}/t").create_index(f"by_{number}", "id", using)
        s3.answers[:] = [answer for answer in s3.answers if answer.path.endswith(".orc")]
        chains.append(s3.longest_chain())
        table = LocalConnection().table(f"{bucket}/t")
        assert table.scan(f"id = {ID}", ["id"]).to_arrow()["id"].to_pylist() == [ID]
        table.drop_index(f"by_{number}")
        if chains[-1] < 2 * files:
            break
    # one after the other, the tails and the rows alone would be so many
    assert min(chains) < 2 * files, chains


@pytest.mark.parametrize(
    ("using", "requests"),
    [("bitmap", 1), ("btree", 1), ("minmax", 0)],
)
def test_a_further_index_requests_only_rows(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, using: str, requests: int
) -> None:
    """The metadata of the data files is that of the copies, until a rebuild renews them."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    files = 4
    put_files(bucket, files)
    LocalConnection().table(f"{bucket}/t").create_index("first", "g")
    copies = object_keys(f"{bucket}/t/_hindex/metadata")
    forget()
    s3.requests.clear()
    LocalConnection().table(f"{bucket}/t").create_index("second", "id", using)
    assert sum(path.endswith(".orc") for _, path in s3.requests) == requests * files
    assert object_keys(f"{bucket}/t/_hindex/metadata") == copies
    table = LocalConnection().table(f"{bucket}/t")
    assert table.scan(f"id = {ID}", ["id"]).to_arrow()["id"].to_pylist() == [ID]
    assert [index.status for index in table.indexes()] == ["fresh", "fresh"]
    forget()
    s3.requests.clear()
    table.rebuild_index("second")
    assert sum(path.endswith(".orc") for _, path in s3.requests) > requests * files
    assert len(object_keys(f"{bucket}/t/_hindex/metadata")) == len(copies) + 1


@pytest.mark.parametrize("rows_ahead", [0, 1 << 20])
def test_a_long_remote_file_is_read_stripe_by_stripe(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, rows_ahead: int
) -> None:
    """The chunks of a BTREE build take more memory than the stored keys; only short files are read as a whole."""
    monkeypatch.setattr(btree_task, "_MAX_ROWS_AHEAD", rows_ahead)
    monkeypatch.setattr(btree_task, "_BATCH_BYTES", 1)
    sink = io.BytesIO()
    with pyarrow.orc.ORCWriter(
        sink, compression="uncompressed", stripe_size=1 << 14, batch_size=500
    ) as writer:
        writer.write(pa.table({"id": ids(0)}))
    put_object(f"{bucket}/t/0.orc", sink.getvalue())
    with OrcReader(f"{bucket}/t/0.orc") as reader:
        tail = reader.tail
    rows = tuple(stripe.num_rows for stripe in tail.stripes)
    assert len(rows) > 3
    file = IndexedFile("0.orc", len(sink.getvalue()), tail.checksum, tail.row_index_stride, rows)
    parts = (SortedPart(0, None),)
    on = IndexColumn.of(ResolvedColumn(("id",), tail.schema.children[0], False))
    job = BTreeJob("b", on, ("id",), (), (), "", "", parts, ((file,),), 1 << 20)
    s3.requests.clear()
    chunks = entry_chunks(job, [ReadTask(f"{bucket}/t/0.orc", file, 0, 0)])
    first = next(chunks)
    read = s3.count("GET", r"0\.orc")
    others = list(chunks)
    assert sum(len(batch.column("keys")[0].as_py()) for batch in [first, *others]) == 8 * ROWS
    assert (read == s3.count("GET", r"0\.orc")) is bool(rows_ahead)


@pytest.mark.parametrize("limit", [None, 2])
def test_files_of_a_scan_task_are_read_side_by_side(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """An executor reads the files of its task as the driver reads those of a query."""
    local_build.install(monkeypatch)
    files = 8
    put_files(bucket, files)
    LocalConnection().table(f"{bucket}/t").create_index("i", "g")
    chains = []
    for delay in DELAYS:
        forget()
        (group,) = group_tasks(LocalConnection().table(f"{bucket}/t").scan(f"g = {G}", ["id"]).plan(), 1)
        assert len(group) == files
        s3.answers.clear()
        with s3.failing("GET", "", delay=delay):
            numbers = [row for batch in read_group(group, limit) for row in batch.column(0).to_pylist()]
        assert numbers == [ids(file)[AT] for file in range(files)][:limit]
        chains.append(s3.longest_chain())
        if chains[-1] <= (3 if limit is None else 7):
            break
    # the ends and pages of index files beside the copies, then the rows; two rows begin with one file, then two
    assert min(chains) <= (3 if limit is None else 7), chains
    read = {item.path for item in s3.answers if item.path.endswith(".orc")}
    assert len(read) == files if limit is None else len(read) <= 3


@pytest.mark.parametrize("files", [2, 8])
def test_requests_for_included_columns(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """Rows come from blocks: a request a file, as for the data, but of few bytes."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    monkeypatch.setattr(included_columns, "block_micros", lambda *_, **__: 0.0)
    put_files(bucket, files)
    LocalConnection().table(f"{bucket}/t").create_index("i", "g", include=["id"])

    def answer() -> list[int]:
        answered: list[int] = (
            LocalConnection().table(f"{bucket}/t").scan(f"g = {G}", ["id"]).to_arrow()["id"].to_pylist()
        )
        return answered

    chains = []
    for delay in DELAYS:
        forget()
        s3.requests.clear()
        s3.answers.clear()
        with s3.failing("GET", "", delay=delay):
            assert answer() == [ids(file)[AT] for file in range(files)]
        assert not any(item.path.endswith(".orc") for item in s3.answers)
        # as without included columns, and the ends of their indexes beside each other before the blocks
        assert len(s3.requests) == 4 + 4 * files
        chains.append(s3.longest_chain())
        if chains[-1] <= 5:
            break
    assert min(chains) == 5, chains
    s3.answers.clear()
    assert answer() == [ids(file)[AT] for file in range(files)]
    assert len(s3.answers) == 2 + files
    # blocks of 64 numbers
    assert max(item.length for item in s3.answers if item.path.endswith(".hidx")) < 1000

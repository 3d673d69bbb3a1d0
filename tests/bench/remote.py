"""Run the six queries on an S3 server on loopback, and count its requests and the bytes it sends.

Times would measure the server, which belongs to the tests. It counts requests and bytes of all readers alike.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc

import hindex
from hindex.cli.progress import progress_for
from tests.bench.compare import digest
from tests.bench.data import Dataset, data_files
from tests.bench.making import ensure_table
from tests.bench.predicates import arrow_mask, cast_literal, columns, sql
from tests.bench.queries import Query, needles
from tests.bench.section import Section, SectionResult
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.s3 import ENVIRONMENT, S3Server, make_bucket, put_object, s3_server
from tests.support.work import forget

_BUCKET = "bench"
_CHDB_SETTINGS = "input_format_orc_filter_push_down = 1, output_format_arrow_string_as_string = 1"
#: The engines left out, and the reasons.
_LEFT_OUT = (
    "Spark is not among them: its distribution holds no S3 file system (hadoop-aws). Nor is DuckDB: its S3 support is "
    "an extension that is downloaded when it is first used."
)


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The requests and bytes of one query."""

    query: str
    reader: str
    rows: int
    digest: str
    requests: int
    bytes: int


def run(options: argparse.Namespace) -> SectionResult:
    dataset = Dataset("lineitem", options.scale)
    orc = ensure_table(dataset, options.data)
    progress = progress_for(sys.stderr)
    local_build.install()
    notes = [_LEFT_OUT]
    request_counts: list[RequestCounts] = []
    with s3_server() as server:
        os.environ |= ENVIRONMENT | {"AWS_ENDPOINT_URL": server.endpoint}
        remote = _upload(orc)
        readers = _readers(server, remote, dataset, notes)
        queries = needles(dataset.scale)
        progress.start(len(queries) * len(readers), "Queries on S3")
        for query in queries:
            for name, read in readers.items():
                server.requests.clear()
                server.answers.clear()
                rows = read(query)
                checksum = digest(rows)
                sent = sum(item.length for item in server.answers)
                request_counts.append(
                    RequestCounts(query.name, name, checksum.rows, str(checksum), len(server.requests), sent)
                )
                progress.advance()
        progress.finish()
    by_query: dict[str, set[str]] = {}
    for item in request_counts:
        by_query.setdefault(item.query, set()).add(item.digest)
    different = [f"{name}: {', '.join(digests)}" for name, digests in by_query.items() if len(digests) > 1]
    data = {
        "taken": [asdict(item) for item in request_counts],
        "tables": [_table(request_counts, list(readers))],
        "notes": notes,
    }
    return SectionResult(data, different)


SECTION = Section("s3", "requests and bytes on an S3 server", run, scale=0.2)


def _upload(orc: Path) -> str:
    make_bucket(f"s3://{_BUCKET}")
    for file in data_files(orc):
        put_object(f"s3://{_BUCKET}/lineitem/{file.name}", file.read_bytes())
    return f"s3://{_BUCKET}/lineitem"


def _readers(
    server: S3Server, table: str, dataset: Dataset, notes: list[str]
) -> Mapping[str, Callable[[Query], pa.Table]]:
    store = f"s3://{_BUCKET}/store"
    indexed = LocalConnection(store).table(table)
    indexed.create_indexes([hindex.IndexSpec(column, column) for column in dataset.indexed])
    remote_table = hindex.connect(store).table(table)

    def cold(query: Query) -> pa.Table:
        forget()
        return warm(query)

    def warm(query: Query) -> pa.Table:
        assert query.where is not None
        return remote_table.scan(sql(query.where), query.columns).to_arrow()

    filesystem, path = pyarrow.fs.FileSystem.from_uri(
        f"{table}?endpoint_override={server.endpoint}&scheme=http&allow_bucket_creation=false"
    )
    readers: dict[str, Callable[[Query], pa.Table]] = {
        "hindex, first": cold,
        "hindex, again": warm,
        "pyarrow": partial(_by_pyarrow, filesystem, path),
    }
    try:
        from chdb.session import Session
    except ImportError:
        notes.append("chDB did not run: chdb is not installed.")
        return readers
    return readers | {"chDB": partial(_by_chdb, Session(), f"{server.endpoint}/{_BUCKET}/lineitem/*.orc")}


def _by_pyarrow(filesystem: pyarrow.fs.FileSystem, path: str, query: Query) -> pa.Table:
    """Read the needed columns of every stripe: pyarrow skips none."""
    assert query.where is not None
    assert query.columns is not None
    needed = list(dict.fromkeys([*columns(query.where), *query.columns]))
    batches = []
    for info in filesystem.get_file_info(pyarrow.fs.FileSelector(path)):
        with filesystem.open_input_file(info.path) as opened:
            file = pyarrow.orc.ORCFile(opened)
            for stripe in range(file.nstripes):
                batch = file.read_stripe(stripe, columns=needed)
                batches.append(batch.filter(arrow_mask(query.where, batch)).select(list(query.columns)))
    return pa.Table.from_batches(batches)


def _by_chdb(session: Any, url: str, query: Query) -> pa.Table:
    assert query.where is not None
    assert query.columns is not None
    keys = f"'{ENVIRONMENT['AWS_ACCESS_KEY_ID']}', '{ENVIRONMENT['AWS_SECRET_ACCESS_KEY']}'"
    text = (
        f"SELECT {', '.join(query.columns)} FROM s3('{url}', {keys}, 'ORC') "
        f"WHERE {sql(query.where, cast_literal)} SETTINGS {_CHDB_SETTINGS}"
    )
    rows: pa.Table = session.query(text, "ArrowTable")
    return rows


def _table(request_counts: list[RequestCounts], readers: list[str]) -> dict[str, Any]:
    by_query: dict[str, dict[str, RequestCounts]] = {}
    for item in request_counts:
        by_query.setdefault(item.query, {})[item.reader] = item
    rows = []
    for name, by_reader in by_query.items():
        cells = [name, f"{by_reader[readers[0]].rows:,}"]
        for reader in readers:
            cells += [f"{by_reader[reader].requests:,}", f"{by_reader[reader].bytes / 1e6:.2f}"]
        rows.append(cells)
    headings = ["query", "rows"]
    for reader in readers:
        headings += [f"{reader}: requests", "MB"]
    return {"headings": headings, "rows": rows}

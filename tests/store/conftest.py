"""An empty store on disk; an S3 server for the tests of a session, and an empty bucket for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hindex.store import remote
from hindex.store.store import Store
from tests.support.s3 import ENVIRONMENT, S3Server, make_bucket, s3_server


@pytest.fixture(scope="session")
def s3_session() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_session: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, without faults and with what names it in the environment."""
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": s3_session.endpoint}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "_proven", set())
    s3_session.requests.clear()
    yield s3_session
    s3_session.faults.clear()
    s3_session.ignores_conditions = False


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The URI of an empty bucket."""
    uri = f"s3://b{uuid.uuid4().hex[:12]}"
    make_bucket(uri)
    return uri


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    path.mkdir()
    return path


@pytest.fixture
def store(table: Path) -> Store:
    return Store.for_table(str(table))

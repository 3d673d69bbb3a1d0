"""What the reader's tests have in common."""

from __future__ import annotations

import zlib

import pytest

from hindex.orc import compression


@pytest.fixture(autouse=True)
def chunks_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every other test small files are read as large ones are, whose chunks are decompressed together."""
    if zlib.crc32(request.node.nodeid.encode()) & 1:
        monkeypatch.setattr(compression, "LEAST_JOINED", 1)

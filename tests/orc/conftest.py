"""What the reader's tests have in common: how chunks are read, a small file taken apart, and what is watched."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest

from hindex.orc import compression, stripes_read
from hindex.orc.dense import DenseReader
from tests.fuzz.parts import FileParts, take_apart
from tests.orc.hostile import STRIDE, TABLE
from tests.support.writers import write_pyarrow


@pytest.fixture(autouse=True)
def chunks_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every other test small files are read as large ones are, whose chunks are decompressed together."""
    if zlib.crc32(request.node.nodeid.encode()) & 1:
        monkeypatch.setattr(compression, "LEAST_JOINED", 1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> FileParts:
    """The small sound file, taken apart."""
    path = tmp_path_factory.mktemp("hostile") / "t.orc"
    write_pyarrow(path, TABLE, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    return take_apart(path.read_bytes())


@pytest.fixture
def asked_pyarrow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that were given to pyarrow, which ends the process on what some of these tests read."""
    asked: list[str] = []

    def spy(reader: DenseReader, stripe: int, columns: Any, selection: Any) -> list[pa.Array]:
        asked.extend(name for name, _ in columns)
        return []

    monkeypatch.setattr(DenseReader, "read", spy)
    return asked


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What was decoded together, as ordinals of columns. An error of it fails the test: none is hidden."""

    def failed(*_: object) -> None:
        raise AssertionError("stripes could not be decoded together")

    found: list[set[int]] = []
    original = stripes_read._joined

    def spy(*args: object) -> dict[int, pa.Array]:
        arrays: dict[int, pa.Array] = original(*args)  # type: ignore[arg-type]
        if len(args[2]) > 1:  # type: ignore[arg-type]
            found.append(set(arrays))
        return arrays

    monkeypatch.setattr(stripes_read, "_joined", spy)
    monkeypatch.setattr(stripes_read, "_failed", failed)
    return found

"""Fixtures of the reader's tests: a small file taken apart."""

from __future__ import annotations

import pytest

from tests.fuzz.parts import FileParts, take_apart
from tests.orc.hostile import STRIDE, TABLE
from tests.support.writers import write_pyarrow


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> FileParts:
    """The small sound file, taken apart."""
    path = tmp_path_factory.mktemp("hostile") / "t.orc"
    write_pyarrow(path, TABLE, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    return take_apart(path.read_bytes())

"""A small part of the fuzz run, the same each time; ``python -m tests.fuzz`` is the long one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from tests.fuzz.__main__ import At, stopped
from tests.fuzz.mutate import Corpus, damaged
from tests.fuzz.worker import load, max_memory, read_measured

pytestmark = pytest.mark.slow

INPUTS, SEED = 250, 2026


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return load(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.usefixtures("windows")
def test_sound_files_are_read(corpus: Corpus) -> None:
    for name, data in corpus.files.items():
        expected = OrcReader(BytesSource(data)).read()
        rows = sorted({0, expected.num_rows // 2, expected.num_rows - 1})
        values = expected.to_pylist()
        table = OrcReader(BytesSource(data)).read(rows=rows)
        # as text, because a NaN is not equal to itself
        assert str(table.to_pylist()) == str([values[row] for row in rows]), name


def test_damaged_files_give_rows_or_an_error(corpus: Corpus) -> None:
    read = refused = opened = 0
    for number in range(INPUTS):
        change, data = damaged(corpus, SEED, number)
        outcome, _, grown = read_measured(data, number)
        assert not outcome.faults, f"seed {SEED}, input {number}, {change}: {outcome.faults}"
        assert grown <= max_memory(data), f"seed {SEED}, input {number}, {change}: {grown >> 20} MiB"
        read, refused, opened = read + outcome.read, refused + outcome.refused, opened + outcome.is_open
    # both sides of the checks are reached
    assert read > INPUTS
    assert refused > INPUTS // 2
    assert INPUTS // 2 < opened < INPUTS


def test_a_number_gives_the_same_input(corpus: Corpus, tmp_path: Path) -> None:
    again = load(tmp_path)
    assert [damaged(corpus, SEED, n) for n in range(60)] == [damaged(again, SEED, n) for n in range(60)]


def test_a_worker_that_stands_still_tells_where(tmp_path: Path) -> None:
    code = "import time\ndef standing_still():\n    print('here', flush=True)\n    time.sleep(600)\nstanding_still()"
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", code], stdout=subprocess.PIPE, stderr=file
        )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        time.sleep(0.1)
        threads = stopped(process)
    assert process.returncode < 0
    assert f"{process.pid} (" in threads
    assert ") S, " in threads
    assert "standing_still" in errors.read_text()


def test_only_a_worker_that_is_seen_at_the_same_input_all_the_time_stands_still() -> None:
    at = At()
    assert [at.seconds(7, now) for now in (100.0, 110.0, 125.0)] == [0.0, 10.0, 25.0]
    # between the old number and the new one there may be zeros
    assert [at.seconds(0, 126.0), at.seconds(9, 127.0), at.seconds(9, 158.0)] == [0.0, 0.0, 31.0]

"""Writers that race and are killed: nothing is lost, and the state is the old or the new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindex.store.local import LocalStorage
from hindex.store.store import Store

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def test_racing_writers_lose_nothing(tmp_path: Path) -> None:
    writers, changes = 8, 20
    command = [
        sys.executable,
        str(HERE / "racing_writers.py"),
        str(tmp_path / "s"),
        str(writers),
        str(changes),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    store = Store(str(tmp_path / "s"), "/t")
    latest = store.load()
    assert latest is not None
    assert latest.number == writers * changes
    assert {item.name for item in latest.indexes} == {
        f"w{w}_{c}" for w in range(writers) for c in range(changes)
    }
    assert store.garbage() == ()


@pytest.mark.parametrize("how", ["removed again", "made and removed by others", "removed above"])
def test_directories_that_others_take_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A build that ends removes the directory of notices, and the store's, while another one begins."""
    times: list[Path] = []
    mkdir = Path.mkdir

    def racing(path: Path, mode: int = 0o777) -> None:
        times.append(path)
        if path.name == "builds" and len(times) < 8:
            if how == "removed above":
                path.parent.rmdir()
            elif how == "made and removed by others":
                raise FileExistsError(path)
        mkdir(path, mode)
        if path.name == "builds" and len(times) < 8:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", racing)
    LocalStorage(str(tmp_path / "store")).write({"builds/one": b"1", "builds/two": b"2"})
    assert sorted(item.name for item in (tmp_path / "store" / "builds").iterdir()) == ["one", "two"]
    assert len(times) > 7


def test_a_file_in_place_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("store", "link"):
        with pytest.raises(NotADirectoryError):
            LocalStorage(str(tmp_path / name)).write({"builds/one": b"1"})


def test_killed_writers_leave_the_old_or_the_new_state(tmp_path: Path, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    command = [sys.executable, str(HERE / "crash_writer.py"), str(tmp_path / "s"), "60", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    # the kills did fall into commits
    assert report["acknowledged"] > 0


def torture(root: Path, processes: int, rounds: int, seed: int, kills: int) -> dict[str, Any]:
    command = [
        sys.executable,
        str(HERE / "torture.py"),
        str(root),
        *map(str, (processes, rounds, seed, kills)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["problems"] == [], done.stderr
    assert report["next_commit"] == 1
    assert report["segments"] > 1
    return report


#: Rounds of the long run, such as 50; then with sixteen processes and four kills a round.
LONG = int(os.environ.get("HINDEX_ROUNDS", "0"))


def test_many_writers_of_one_table(tmp_path: Path, rng: np.random.Generator) -> None:
    processes, rounds = (16, LONG) if LONG else (4, 4)
    report = torture(tmp_path / "s", processes, rounds, int(rng.integers(2**32)), 0)
    assert report["commits"] == processes * rounds


def test_many_writers_some_of_them_killed(tmp_path: Path, rng: np.random.Generator) -> None:
    processes, rounds, kills = (16, LONG, 4 * LONG) if LONG else (4, 6, 8)
    report = torture(tmp_path / "s", processes, rounds, int(rng.integers(2**32)), kills)
    assert report["kills"] == kills

"""Builds and scans on a cluster, some of it killed, and over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import hindex
from tests.support.small import ROWS, WHERE, expected, write_rows

ROOT = Path(__file__).parents[2]
FILES = 6
#: What Spark Connect needs beside what developing needs: its protobuf is newer than the one of grpcio-tools.
CONNECT = ("protobuf>=6.33.5", "grpcio-status", "googleapis-common-protos")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    size = 2 * ROWS // FILES
    for number in range(FILES):
        first = number * size
        write_rows(tmp_path / "t" / f"{number}.orc", first, [i % 10 for i in range(first, first + size)])
    return tmp_path / "t"


def run(kind: str, path: Path, archive: Path | None, *, packages: Path | None = None) -> dict[str, Any]:
    environment = dict(os.environ)
    if packages is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(packages), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tests.spark.remote_run", kind, str(path), str(archive or "")]
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")]
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


def check(found: dict[str, Any]) -> None:
    assert found["advanced"] == FILES
    # no index file is named twice, by a task that was run again
    assert found["indexed"] == [2 * FILES, 2 * FILES]
    assert found["exact"]
    assert found["scan"] == expected()
    assert found["query"] == [sum(i for i in range(2 * ROWS) if i % 10 == 3), True]
    assert found["source"] == 2 * ROWS // 10
    assert WHERE == "a IN (3, 4)"


@pytest.mark.slow
def test_a_cluster_some_of_which_is_killed(path: Path, tmp_path: Path) -> None:
    archive = tmp_path / "hindex.zip"
    home = Path(hindex.__file__).parent
    rooms = {"hindex": home, **{f"hindex/{room}": ROOT / room for room in ("orc", "sql", "proto")}}
    with zipfile.ZipFile(archive, "w") as target:
        for name, folder in rooms.items():
            for file in folder.rglob("*.py"):
                inner = f"{name}/{file.relative_to(folder)}"
                if inner not in target.namelist():
                    target.write(file, inner)
    found = run("cluster", path, archive)
    assert found["killed"] == [True, True]
    check(found)
    again = found["repeated"]
    # each data file was cut into parts, of two indexes; what is named is one file for each, whole
    assert again["tasks"] >= 2 * FILES
    assert again["named"] == [2 * FILES, 2 * FILES]
    # of each part, one file was of the attempt that failed and one of that which nobody heard of
    assert again["garbage"] == [4 * again["tasks"], 0]
    assert again["problems"] == []
    assert again["scan"] == [True, 2]
    ((place, loaded),) = found["executors"]
    assert "hindex.zip" in place
    assert loaded == ""


@pytest.mark.slow
@pytest.mark.network
def test_spark_connect(path: Path) -> None:
    packages = ROOT / "build" / "connect"
    if not (packages / "google").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
        subprocess.run([*install, *CONNECT], check=True, capture_output=True, timeout=200)
    found = run("connect", path, None, packages=packages)
    assert found["killed"] == [False, False]
    check(found)
    assert [loaded for _, loaded in found["executors"]] == [""]

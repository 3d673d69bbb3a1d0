"""Programs with Spark sessions of their own, which print what they found as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: For Java that runs little code, and few times: the first compiler tier alone, and one thread that collects garbage.
#: The code cache of that tier is small by default; a thread then clears it over and over.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
#: For sessions whose working directory is the checkout; it starts workers faster than Spark's own.
QUICK_WORKERS = {"spark.python.daemon.module": "tests.support.worker_daemon"}
#: What Spark Connect needs beside what developing needs: its protobuf is newer than the one of grpcio-tools.
_CONNECT = ("protobuf>=6.33.5", "grpcio-status", "googleapis-common-protos")


def found_by(module: str, *arguments: str, packages: Path | None = None) -> dict[str, Any]:
    """Run a program of the tests and return its report: the JSON behind ``FOUND`` on a line of its output.

    Args:
        packages: a folder of packages that go before those that are installed.
    """
    environment = dict(os.environ)
    if packages is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(packages), environment.get("PYTHONPATH", "")])
        # Spark Connect then takes any free port: runs side by side do not meet at the usual one
        environment["SPARK_TESTING"] = "1"
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=1200, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")]
    report: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return report


def connect_packages() -> Path:
    """Install the packages of a client and a server of Spark Connect, once, and return their folder."""
    packages = ROOT / "build" / "connect"
    if not (packages / "google").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
        subprocess.run([*install, *_CONNECT], check=True, capture_output=True, timeout=200)
    return packages

"""The demo end to end, on a lineitem of a few thousand rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hindex.cli.demo import PREDICATES
from tests.support.elsewhere import QUICK_JAVA


def test_demo(tmp_path: Path) -> None:
    conf = ["spark.driver.memory=1g", f"spark.driver.extraJavaOptions={QUICK_JAVA}"]
    options = [*(f"--conf={setting}" for setting in conf), "demo", "--scale", "0.001", "--dir", str(tmp_path)]
    command = [sys.executable, "-m", "hindex.cli.main", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for predicate in PREDICATES:
        assert predicate in ran.stdout
    assert f"all {len(PREDICATES)} queries" in ran.stdout
    assert "Traceback" not in ran.stderr

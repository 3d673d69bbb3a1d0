"""``hindex.accelerate`` over Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.elsewhere import connect_packages, found_by


@pytest.mark.slow
@pytest.mark.network
def test_spark_connect(tmp_path: Path) -> None:
    report = found_by("tests.queries.remote_run", str(tmp_path / "warehouse"), packages=connect_packages())
    assert report["different"] == []
    assert report["conditions"]
    assert report["shown"] == ["i_day", "i_shop"]
    assert report["restored"]
    lines = report["lines"]
    accelerated = [line for line in lines if line.startswith("accelerated: ")]
    # those of the script, and the one of a view
    assert len(accelerated) == 11
    assert any("SELECT * FROM kept" in line for line in accelerated)
    assert any("Spark Connect does not show what view big reads" in line for line in lines)
    assert "which it also reads" in lines[-1]

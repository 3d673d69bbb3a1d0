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
    assert report["empty"] == []
    assert report["conditions"]
    assert report["shown"] == ["i_day", "i_shop"]
    assert report["restored"]
    lines = report["lines"]
    accelerated = [line for line in lines if line.startswith("accelerated: ")]
    # those of the script, the one beside a view, and the one with conditions on both tables
    assert len(accelerated) == 10
    assert any("JOIN big" in line for line in accelerated)
    assert any("of[1]' is a pattern to Spark" in line for line in lines)
    # Spark reads views, what it writes, and tables whose conditions are those of a join
    assert not any("FROM kept" in line or "INSERT" in line or "CREATE" in line for line in accelerated)
    assert any("answered by indexes" in line and "c.city = 'Ulm'" in line for line in lines)

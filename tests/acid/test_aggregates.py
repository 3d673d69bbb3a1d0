"""Aggregates, orders and proofs of transactional tables: deleted rows count nowhere, whatever tells of the others."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import pytest

from hindex.api.table import Table
from tests.acid.writing import bucket_property, write_acid, write_flat
from tests.support import local_build
from tests.support.local_build import LocalConnection

B0 = bucket_property(0)
#: Deleted are the least and the greatest id, and all rows of k = 3.
GONE = {0, 199, *range(3, 200, 5)}
LEFT = [i for i in range(200) if i not in GONE]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Table:
    local_build.install(monkeypatch)
    root = tmp_path / "t"
    write_flat(root / "000000_0", [(i, i % 5, "x") for i in range(100)])
    write_acid(
        root / "delta_1_1" / "bucket_00000", [((1, B0, i), 1, (100 + i, i % 5, "x")) for i in range(100)]
    )
    keys = [(0, B0, i) if i < 100 else (1, B0, i - 100) for i in sorted(GONE)]
    write_acid(root / "delete_delta_2_2" / "bucket_00000", [(key, 2, None) for key in keys])
    return LocalConnection().table(str(root))


@pytest.mark.parametrize("using", [None, "bitmap", "minmax"])
def test_deleted_rows_count_nowhere(table: Table, using: str | None) -> None:
    if using is not None:
        table.create_index("by_k", "k", using)
        table.create_index("by_id", "id", using)
    scan = table.scan()
    assert (scan.count(), scan.count("k"), scan.exists()) == (len(LEFT), len(LEFT), True)
    assert (scan.min("id"), scan.max("id")) == (1, 197)
    assert scan.distinct("k").to_pylist() == [0, 1, 2, 4]
    counted = scan.value_counts("k").to_pydict()
    assert dict(zip(counted["k"], counted["count"], strict=True)) == dict(
        sorted(Counter(i % 5 for i in LEFT).items())
    )
    gone = table.scan("k = 3")
    assert (gone.count("id"), gone.exists(), gone.max("id")) == (0, False, None)
    first = table.scan(None, ["id"], 3).order_by("id", descending=True).to_arrow()
    assert first.column("id").to_pylist() == [197, 196, 195]
    by_k = table.scan(None, ["id"], 2).order_by("k", descending=True).to_arrow()
    assert by_k.column("id").to_pylist() == [4, 9]
    proved = table.scan("k >= 2", ["id"], mode="prove")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(proved.to_arrow().column("id").to_pylist()) == [i for i in LEFT if i % 5 >= 2]
    assert proved.proof is not None
    assert proved.proof.disagreements == ()

"""Long lists of keys as Arrow arrays, against a plain set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from tests.support.local_build import LocalConnection

ROWS = 100_000
#: Beside numbers of the column: NULL, and numbers that its type does not have.
OTHERS = [None, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("using", ["bitmap", "btree"])
@pytest.mark.parametrize("count", [10, 5_000, 50_000])
@pytest.mark.parametrize("is_int32", [True, False])
def test_isin_of_an_arrow_array(
    connection: LocalConnection, tmp_path: Path, using: str, count: int, is_int32: bool
) -> None:
    rng = np.random.default_rng(count)
    values = rng.permutation(ROWS) * 3 - ROWS
    column = [None if at % 100 == 0 else int(value) for at, value in enumerate(values)]
    rows = pa.table({"k": pa.array(column, pa.int32() if is_int32 else pa.int64()), "at": np.arange(ROWS)})
    pyarrow.orc.write_table(rows, tmp_path / "f.orc")
    table = connection.table(str(tmp_path))
    table.create_index("i", column="k", using=using)
    keys = [*rng.integers(-ROWS, 2 * ROWS, count).tolist(), *OTHERS]
    condition = hindex.col("k").isin(pa.array(keys, pa.int64()))
    members = set(keys)
    expected = [at for at, value in enumerate(column) if value is not None and value in members]
    scan = table.scan(where=condition, columns=["at"])
    assert sorted(scan.to_arrow().column("at").to_pylist()) == expected
    assert scan.count() == len(expected)
    explanation = scan.explain()
    if using == "bitmap" and count == 10:
        assert explanation.exact
        assert explanation.rows is not None
        assert explanation.rows.kept == len(expected)
    # NULL in the list: NOT IN is true of no row
    assert table.scan(where=~condition).count() == 0
    without_null = hindex.col("k").isin(pa.array([key for key in keys if key is not None]))
    present = sum(value is not None for value in column)
    assert table.scan(where=~without_null).count() == present - len(expected)

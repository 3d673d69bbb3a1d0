"""A transactional table on an S3 server: its layout, deletes and indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindex.plan.reasons import Reason
from tests.acid.tables import B0, delete, insert
from tests.acid.writing import write_flat, write_version_file
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.s3 import S3Server, put_object


def test_a_transactional_table(
    bucket: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_build.install(monkeypatch)
    uri = f"{bucket}/t"

    def upload() -> None:
        for path in sorted(item for item in tmp_path.rglob("*") if item.is_file()):
            put_object(f"{uri}/{path.relative_to(tmp_path)}", path.read_bytes())
            path.unlink()

    write_flat(tmp_path / "000000_0", [(i, i % 5, "x") for i in range(100)])
    insert(tmp_path / "delta_0000001_0000001_0000" / "bucket_00000", 1, range(100, 200))
    write_version_file(tmp_path / "delta_0000001_0000001_0000")
    delete(tmp_path / "delete_delta_0000002_0000002_0000" / "bucket_00000", [(0, B0, 7), (1, B0, 1)], 2)
    upload()
    connection = LocalConnection()
    table = connection.table(uri)
    remaining = [i for i in range(200) if i not in (7, 101)]
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == remaining
    assert table.scan(where="row__id.rowid = 1", columns=["id"]).to_arrow()["id"].to_pylist() == [1]

    def opened() -> list[str]:
        gets = {path for method, path in s3.requests if method == "GET" and "bucket_" in path}
        return sorted(path.rpartition("/t/")[2].partition("?")[0] for path in gets)

    table.create_index("by_id", "id", "bitmap")
    connection.built_paths.clear()
    # deletes make nothing stale, and an index leaves out what they take
    delete(tmp_path / "delete_delta_0000003_0000003_0000" / "bucket_00000", [(1, B0, 3), (0, B0, 4)], 3)
    upload()
    scan = connection.table(uri).scan(where="id IN (3, 4, 103, 104)", columns=["id"])
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [3, 104]
    assert scan.count() == 2
    explained = scan.explain()
    assert (explained.deleted, explained.notes) == (2, ())
    assert not table.refresh_indexes().changed
    # what is known of deletes is not fetched again
    s3.requests.clear()
    assert connection.table(uri).scan(where="id = 4").count() == 0
    assert not [path for path in opened() if path.startswith("delete_delta")]
    # a compaction is another file, and the only one to be read
    insert(
        tmp_path / "base_0000003_v0000009" / "bucket_00000", 1, [i for i in remaining if i not in (103, 4)]
    )
    upload()
    assert Reason.NEW_FILE in {note.reason for note in connection.table(uri).scan("id = 5").explain().notes}
    table.refresh_indexes()
    assert connection.built_paths == ["base_0000003_v0000009/bucket_00000"]
    assert connection.table(uri).scan(where="id IN (3, 4, 103, 104)").count() == 2
    # an overwrite without rows leaves the marker of a directory
    put_object(f"{uri}/base_0000010/", b"")
    assert connection.table(uri).scan().count() == 0

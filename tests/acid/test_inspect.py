"""``hindex inspect`` of a transactional table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hindex.cli import main as command
from tests.acid.writing import bucket_property, write_acid, write_flat

B0 = bucket_property(0)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert exit_.value.code == 0
    return capsys.readouterr().out


def table(path: Path) -> None:
    write_flat(path / "p=1" / "000000_0", [(i, 0, "x") for i in range(5)])
    write_acid(path / "p=1" / "delta_1_1_0000" / "bucket_00000", [((1, B0, 0), 1, (7, 0, "x"))])
    write_acid(
        path / "p=1" / "delete_delta_2_2_0000" / "bucket_00000",
        [((0, B0, 3), 2, None), ((1, B0, 0), 2, None)],
    )
    write_flat(path / "p=2" / "000000_0", [(9, 0, "x")])
    rows = [((w, B0, 0), w, (10 + w, 0, "x")) for w in (1, 2, 3)]
    write_acid(path / "p=2" / "base_3_v12" / "bucket_00000", rows)
    write_acid(path / "p=2" / "delta_2_2" / "bucket_00000", rows[1:2])


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path / "t")
    assert run(capsys, "inspect", str(tmp_path / "t")).replace(str(tmp_path), "") == TEXT


TEXT = """\
table    /t

Directory p=1
  counts
    delta_1_1_0000         delta          write id 1, statement 0
    delete_delta_2_2_0000  delete delta   write id 2, statement 0
    000000_0               original file
  does not count: nothing

Directory p=2
  counts
    base_3_v12  base  write ids up to 3
  does not count
    000000_0   HIDDEN_ORIGINAL  a base replaces the original files
    delta_2_2  COVERED          the base or another delta includes its write ids

Data files
  p=1/000000_0                     5 rows  1 deleted  0 not seen
  p=1/delta_1_1_0000/bucket_00000  1 rows  1 deleted  0 not seen
  p=2/base_3_v12/bucket_00000      3 rows  0 deleted  0 not seen
  together                         9 rows  2 deleted  0 not seen

Delete files
  /t/p=1/delete_delta_2_2_0000/bucket_00000  2 deletes
"""


def test_json_and_valid_write_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path)
    valid = "t:3:4:1:"
    report = json.loads(
        run(capsys, "--output", "json", "--valid-write-ids", valid, "inspect", str(tmp_path / "p=1"))
    )
    assert (report["kind"], report["valid_write_ids"]) == ("TRANSACTIONAL", valid)
    (directory,) = report["directories"]
    assert [item["name"] for item in directory["counts"]] == ["delete_delta_2_2_0000"]
    assert directory["obsolete"][0]["reason"] == "INVALID"
    assert report["files"] == [
        {"path": "000000_0", "bytes": report["files"][0]["bytes"], "rows": 5, "deleted": 1, "not_seen": 0}
    ]
    shown = run(capsys, "--valid-write-ids", valid, "inspect", str(tmp_path / "p=1"))
    assert f"as seen  {valid}\n" in shown
    counted = run(
        capsys,
        "--output",
        "csv",
        "--valid-write-ids",
        valid,
        "sql",
        f"SELECT COUNT(*) FROM '{tmp_path / 'p=1'}'",
    )
    assert counted.split()[-1] == "4"


def test_other_directories_are_listed_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path)
    delta = tmp_path / "p=1" / "delta_1_1_0000"
    (tmp_path / "plain" / "_tmp" / "delta_1_1").mkdir(parents=True)
    write_flat(tmp_path / "plain" / "x.orc", [(1, 0, "x")])
    assert "bucket_00000" in run(capsys, "--output", "csv", "inspect", str(delta))
    assert run(capsys, "--output", "csv", "inspect", str(tmp_path / "plain")).startswith("file,kind")

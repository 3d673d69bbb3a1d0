"""``hindex inspect`` against golden files; ``HINDEX_UPDATE_GOLDEN=1`` writes them anew.

``cpp.orc`` was written by pyarrow, ``java.orc`` by Spark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.cli import main as command
from hindex.cli.inspect import Inspection, inspect_path
from hindex.errors import TableError
from hindex.index.bundle import BUNDLE_SUFFIX, BundledFile, write_bundle
from hindex.index.index_file import IndexFileReader
from hindex.index.index_type import file_index_type
from hindex.orc import Kind, OrcReader, OrcType
from hindex.orc.io.source import LocalSource
from hindex.store.manifest import IndexEntry, Manifest
from hindex.store.manifest_file import encode
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_rows

FIXTURES = Path(__file__).parent / "fixtures"
INDEX_FIXTURES = Path(__file__).parent.parent / "index" / "fixtures"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def check_golden(name: str, text: str) -> None:
    path = FIXTURES / name
    if os.environ.get("HINDEX_UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("inspect_cpp.txt", ["inspect", "cpp.orc"]),
        ("inspect_cpp_row_groups.txt", ["inspect", "--row-groups", "cpp.orc"]),
        ("inspect_cpp.json", ["--output", "json", "inspect", "--verbose", "cpp.orc"]),
        ("inspect_java.txt", ["inspect", "java.orc"]),
        ("inspect_java.json", ["--output", "json", "inspect", "java.orc"]),
    ],
)
def test_golden(
    golden: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FIXTURES)
    assert run(*arguments) == 0
    text = capsys.readouterr().out.replace(f"{FIXTURES}/", "")
    check_golden(golden, text)
    assert not any(line != line.rstrip() for line in text.split("\n"))


def document(path: Path, *, row_groups: bool = False) -> dict[str, Any]:
    content = inspect_path(str(path), row_groups=row_groups)
    assert isinstance(content, Inspection)
    assert json.loads(json.dumps(content.to_json(), allow_nan=False)) == content.to_json()
    return content.to_json()


def test_document_of_an_orc_file() -> None:
    content = document(FIXTURES / "cpp.orc", row_groups=True)
    rows = OrcReader(FIXTURES / "cpp.orc").read()
    assert content["rows"] == rows.num_rows
    by_name = {column["name"]: column for column in content["columns"]}
    assert by_name["tags.item"]["type"] == "string"
    assert by_name["id"]["statistics"]["minimum"] == min(rows.column("id").to_pylist())
    assert by_name["day"]["statistics"]["maximum"] == str(max(rows.column("day").to_pylist()))
    assert by_name["at"]["statistics"]["maximum"] == str(max(rows.column("at").to_pylist()))[:-3]
    assert by_name["name"]["statistics"]["values"] == 30 - rows.column("name").null_count
    assert by_name["ok"]["statistics"]["true_count"] == sum(rows.column("ok").to_pylist())
    assert "NaN" in by_name["x"]["statistics"]["ignored"]
    (stripe,) = content["stripes"]
    assert (
        sum(stream["bytes"] for stream in stripe["streams"]) == stripe["index_bytes"] + stripe["data_bytes"]
    )
    ids = next(column for column in stripe["columns"] if column["name"] == "id")
    assert [group["statistics"]["minimum"] for group in ids["row_groups"]] == [0, 10, 20]
    assert ids["bloom_filters"][0]["filters"] == 3
    assert ids["bloom_filters"][0]["ignored"] is None
    assert "row_groups" not in document(FIXTURES / "cpp.orc")["stripes"][0]["columns"][0]


def write_index(path: Path, name: str) -> Path:
    """An index of a type on two stripes of whole numbers with nulls."""
    source = OrcType(Kind.LONG)
    builder = file_index_type(name).builder(
        path, source, column="n", row_group_rows=100, metadata={"uri": "x.orc"}
    )
    builder.add_stripe(pa.array([None if i % 10 == 0 else i for i in range(1000)], pa.int64()))
    builder.add_stripe(pa.array([None if i % 10 == 0 else i for i in range(1000, 1500)], pa.int64()))
    builder.finish()
    return path


@pytest.mark.parametrize("name", ["BITMAP", "MINMAX", "BLOOM"])
def test_an_index_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_index(tmp_path / "x.hidx", name)
    content = document(path)
    assert content["kind"] == "INDEX"
    assert content["index_type"] == name
    assert content["column"] == {"name": "n", "type": "bigint", "keys": "int64"}
    assert content["metadata"] == {"uri": "x.orc"}
    assert content["bytes"] == path.stat().st_size
    # the magic, the pages and the footer with its trailer are all of the file
    assert 8 + content["pages"]["bytes"] + content["footer_bytes"] == content["bytes"]
    assert [stripe["rows"] for stripe in content["stripes"]] == [1000, 500]
    if name == "BITMAP":
        assert [stripe["null_count"] for stripe in content["stripes"]] == [100, 50]
        assert [stripe["key_count"] for stripe in content["stripes"]] == [900, 450]
        assert [stripe["leaf_rows"] for stripe in content["stripes"]] == [900, 450]
    elif name == "MINMAX":
        output = [
            (stripe["null_count"], stripe["minimum"], stripe["maximum"]) for stripe in content["stripes"]
        ]
        assert output == [(100, "1", "999"), (50, "1001", "1499")]
    else:
        assert [stripe["group_nulls"] for stripe in content["stripes"]] == [100, 50]
    assert run("inspect", str(path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"index type  {name}" in lines
    assert any(line.split()[:2] == ["0", "1,000"] for line in lines)


@pytest.mark.parametrize("path", sorted(INDEX_FIXTURES.rglob("*.hidx")), ids=lambda path: path.stem)
def test_index_files_of_every_type_are_accounted_for(path: Path) -> None:
    content = document(path)
    assert content["index_type"] == path.stem.split("-")[0].upper()
    assert 8 + content["pages"]["bytes"] + content["footer_bytes"] == content["bytes"]
    assert content["directory"] or content["stripes"]


def test_a_directory_has_a_line_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "part=1").mkdir()
    shutil.copy(FIXTURES / "cpp.orc", tmp_path / "part=1" / "b.orc")
    shutil.copy(FIXTURES / "java.orc", tmp_path / "a.orc")
    write_index(tmp_path / "c.hidx", "BITMAP")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "notes.txt").write_text("not a file of ours")
    assert run("--output", "json", "inspect", str(tmp_path)) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["file"], row["kind"], row["rows"], row["stripes"]) for row in rows] == [
        ("a.orc", "ORC", 30, 1),
        ("c.hidx", "BITMAP", None, 2),
        ("notes.txt", None, None, None),
        ("part=1/b.orc", "ORC", 30, 1),
    ]
    assert rows[0]["detail"] == "zlib, ORC Java"
    assert rows[1]["detail"] == "index on n bigint"
    assert "unrecognized file format" in rows[2]["detail"]
    assert rows[3]["bytes"] == (FIXTURES / "cpp.orc").stat().st_size


def write_table(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two data files, indexed; the store's directory sorts before both."""
    local_build.install(monkeypatch)
    write_rows(path / "x.orc", 0, [1, 2, 3])
    write_rows(path / "p.orc", 3, [4, 5])
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a")
    table.create_index("by_s", "s", using="bloom")
    return path


def test_a_table_shows_its_data_files_before_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path / "t", monkeypatch)
    (path / "_more").mkdir()
    shutil.copy(FIXTURES / "cpp.orc", path / "_more" / "hidden.orc")
    content = inspect_path(str(path))
    assert isinstance(content, pa.Table)
    rows = content.to_pylist()
    assert [row["file"] for row in rows[:2]] == ["p.orc", "x.orc"]
    assert all(row["file"].startswith(("_hindex/", "_more/")) for row in rows[2:])
    assert {row["file"] for row in rows} == {
        str(file.relative_to(path)) for file in path.rglob("[!.]*") if file.is_file()
    }
    details = {row["file"]: (row["kind"], row["detail"]) for row in rows}
    assert details["_hindex/manifests/00000000000000000002.manifest"] == (
        "MANIFEST",
        "number 2, indexes: by_a, by_s",
    )


def test_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table(tmp_path / "t", monkeypatch)
    manifest = path / "_hindex" / "manifests" / "00000000000000000002.manifest"
    content = document(manifest)
    assert (content["kind"], content["number"], content["table"]) == ("MANIFEST", 2, str(path))
    assert (content["data_files"], content["segments"], content["bytes"]) == (2, [], manifest.stat().st_size)
    assert [(entry["name"], entry["type"], entry["column"]["name"]) for entry in content["indexes"]] == [
        ("by_a", "BITMAP", "a"),
        ("by_s", "BLOOM", "s"),
    ]
    for entry in content["indexes"]:
        files = (path / "_hindex" / "data" / entry["id"]).iterdir()
        assert entry["bytes"] == sum(file.stat().st_size for file in files)
        assert entry["created"].startswith("20")
    assert run("inspect", str(manifest)) == 0
    text = capsys.readouterr().out
    assert "manifest    number 2\n" in text
    assert re.search(r"(?m)^  by_a  BITMAP  a int +[\d,]+ bytes  data/[0-9a-f]{32}$", text)
    data = bytearray(manifest.read_bytes())
    data[30] ^= 1
    manifest.write_bytes(data)
    assert run("inspect", str(manifest)) == 2
    assert "its checksum does not match" in capsys.readouterr().err


def test_a_manifest_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_table(tmp_path / "t", monkeypatch)
    manifest = path / "_hindex" / "manifests" / "00000000000000000002.manifest"
    size = manifest.stat().st_size
    monkeypatch.setattr("hindex.cli.inspect_manifest.MAX_BYTES", size)
    assert run("inspect", str(manifest)) == 0
    capsys.readouterr()
    monkeypatch.setattr("hindex.cli.inspect_manifest.MAX_BYTES", size - 1)
    assert run("inspect", str(manifest)) == 2
    assert f"it has {size} bytes, more than a manifest has" in capsys.readouterr().err


def test_a_manifest_of_segments_is_shown_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hindex.store.manifest_file.INLINE_BYTES", 0)
    path = write_table(tmp_path / "t", monkeypatch)
    (segment, *_) = (path / "_hindex" / "segments").iterdir()
    assert run("inspect", str(segment)) == 2
    assert "this is a segment of an index store" in capsys.readouterr().err
    shutil.rmtree(path / "_hindex" / "segments")
    content = document(path / "_hindex" / "manifests" / "00000000000000000002.manifest")
    assert content["data_files"] == 2
    assert content["segments"][0].startswith("segments/")
    assert all(entry["bytes"] for entry in content["indexes"])


def test_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, directory = str(FIXTURES / "cpp.orc"), str(tmp_path / "x.hidx"), str(tmp_path / "d")
    write_index(tmp_path / "x.hidx", "BITMAP")
    write_index(tmp_path / "y.hidx", "BLOOM")
    (tmp_path / "d").mkdir()
    shutil.copy(FIXTURES / "java.orc", tmp_path / "d" / "j.orc")
    paths = [first, second, directory]
    alone, alone_json = [], []
    for path in paths:
        assert run("inspect", path) == 0
        alone.append(capsys.readouterr().out)
        assert run("--output", "json", "inspect", path) == 0
        alone_json.append(json.loads(capsys.readouterr().out))
    assert run("inspect", *paths) == 0
    pairs = zip(paths, alone, strict=True)
    text = "\n".join(f"==> {path} <==\n{text}" for path, text in pairs)
    assert capsys.readouterr().out == text
    assert run("--output", "json", "inspect", *paths) == 0
    files = alone_json.pop()
    alone_json.append({"version": 1, "kind": "DIRECTORY", "directory": directory, "files": files})
    assert json.loads(capsys.readouterr().out) == alone_json
    for output in ("table", "json"):
        assert run("--output", output, "--to", str(tmp_path / "out"), "inspect", *paths) == 0
        assert capsys.readouterr().out == ""
        written = (tmp_path / "out").read_text()
        assert written == text if output == "table" else json.loads(written) == alone_json
    # one that is not there hides no other
    assert run("inspect", first, str(tmp_path / "none"), second) == 2
    out, err = capsys.readouterr()
    assert out == f"==> {first} <==\n{alone[0]}\n==> {second} <==\n{alone[1]}"
    assert err == f"Error: there is no file '{tmp_path / 'none'}'\n"


def test_several_are_no_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(FIXTURES / "java.orc", tmp_path / "j.orc")
    assert run("--output", "csv", "inspect", str(tmp_path)) == 0
    assert capsys.readouterr().out.startswith("file,kind,bytes,rows,stripes,detail\nj.orc,ORC,")
    for other in (str(tmp_path), str(tmp_path / "none")):
        assert run("--output", "csv", "inspect", str(tmp_path), other) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err == (
            "Error: several files are no rows of one kind, as csv has them: use --output json or table\n"
        )


def test_several_of_which_none_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = [str(tmp_path / name) for name in "ab"]
    message = "".join(f"Error: there is no file '{path}'\n" for path in gone)
    assert run("inspect", *gone) == 2
    assert capsys.readouterr() == ("", message)
    assert run("--output", "json", "inspect", *gone) == 2
    assert capsys.readouterr() == ("[]\n", message)
    assert run("--debug", "inspect", *gone) == 2
    assert capsys.readouterr().err.count("Traceback (most recent call last)") == 2


@pytest.mark.parametrize("output", ["json", "table"])
def test_several_are_written_as_they_come(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, seen = str(FIXTURES / "cpp.orc"), []

    def inspected(path: str, **options: Any) -> Inspection | pa.Table:
        seen.append(capsys.readouterr().out)
        return inspect_path(first, **options)

    monkeypatch.setattr("hindex.cli.inspect.inspect_path", inspected)
    assert run("--output", output, "inspect", "a", "b", "c") == 0
    parts = [*seen, capsys.readouterr().out]
    assert all(FIXTURES.name in part for part in parts[1:])
    if output == "json":
        assert "".join(parts) == json.dumps([document(FIXTURES / "cpp.orc")] * 3, indent=2) + "\n"


def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / "d\x1b[2J" / "x\u202e\n.orc"
    odd.parent.mkdir()
    write_rows(odd, 0, [1])
    assert run("inspect", str(odd), str(odd.parent)) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert f"==> {tmp_path}/d\\x1b[2J/x\\u202e\\n.orc <==\n" in out
    assert rf"file         {tmp_path}/d\x1b[2J/x\u202e\n.orc" in out


def test_a_manifest_does_not_steer_the_terminal(tmp_path: Path) -> None:
    entry = IndexEntry(
        "1" * 32,
        "a\x1b[2J",
        "c\r",
        "bitmap",
        "int",
        where="x = '\x07'",
        quarantined="\u202e",
        created_ms=-(2**63),
    )
    content = replace(Manifest.empty("t\x1b]0;x"), number=1, indexes=(entry,), created_ms=2**63 - 1)
    path = tmp_path / "x.manifest"
    path.write_bytes(encode(content))
    output = inspect_path(str(path))
    assert isinstance(output, Inspection)
    text = output.to_text()
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"a\x1b[2J" in text
    assert r"WHERE x = '\x07', not used: \u202e" in text
    assert "created     9223372036854775807 ms since 1970" in text
    assert output.to_json()["indexes"][0]["created"] == "-9223372036854775808 ms since 1970"


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = write_index(tmp_path / "x.hidx", "BITMAP")
    data = bytearray(index.read_bytes())
    data[20] ^= 0xFF  # in a page
    index.write_bytes(data)
    cut_index = tmp_path / "cut.hidx"
    cut_index.write_bytes(data[:-10])
    (tmp_path / "notes.txt").write_text("not a file of ours")
    cut = tmp_path / "cut.orc"
    cut.write_bytes((FIXTURES / "cpp.orc").read_bytes()[:-10])
    (tmp_path / "empty.orc").touch()
    for path, message in (
        (tmp_path / "none.orc", "there is no file"),
        (index, "is corrupt"),
        (cut_index, "it does not end as an index file does"),
        (cut, "not an ORC file, or a truncated one"),
        (tmp_path / "notes.txt", "unrecognized file format"),
        (tmp_path / "empty.orc", "the file is empty"),
    ):
        assert run("inspect", str(path)) == 2, path
        content = capsys.readouterr()
        assert content.out == ""
        assert content.err.count("\n") == 1
        assert message in content.err


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    with raises(TableError):
        inspect_path(f"{tmp_path}/t\udcff")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/sur\xff")).mkdir()
    with raises(TableError):
        inspect_path(str(tmp_path))


def test_a_bundle_lists_its_index_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, name in enumerate(("BITMAP", "MINMAX")):
        path = write_index(tmp_path / f"{number}.hidx", name)
        files.append(BundledFile(path.read_bytes(), IndexFileReader(LocalSource(path)).footer_crc32c))
    path = tmp_path / f"x{BUNDLE_SUFFIX}"
    write_bundle(path, "n", files, lambda: None)
    content = document(path)
    assert (content["kind"], content["index_type"], content["stripes"]) == ("INDEX", "BUNDLE", [])
    assert content["column"]["name"] == "n"
    assert content["pages"]["bytes"] == sum(len(file.data) for file in files)
    assert 8 + content["pages"]["bytes"] + content["footer_bytes"] == content["bytes"] == path.stat().st_size
    for number, item in enumerate(content["index_files"]):
        alone = document(tmp_path / f"{number}.hidx")
        assert {**item, "file": alone["file"]} == {key: alone[key] for key in item}
    assert run("inspect", str(path)) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "-", "BITMAP", f"{len(files[0].data):,}", "2"] in lines
    path.write_bytes(path.read_bytes()[:30] + b"\xff" + path.read_bytes()[31:])
    assert run("inspect", str(path)) == 2

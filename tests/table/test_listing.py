"""Listings of directories, files and URIs; the rules are Spark's, checked against it where it reads them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import orc

from hindex.errors import TableError, UnsupportedError
from hindex.orc.io.adapted import AdaptedFileSystem
from hindex.orc.io.file_system import FileSystem
from hindex.table import directory_tree
from hindex.table.listing import DataFile, list_data_files
from hindex.table.location import local_path, normalize_uri
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fill(root: Path, names: list[str]) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"data")


class CachingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory that caches listings, as those of object stores do."""

    protocol = "caching"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    listings: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("caching://")))

    def find(self, path: str, **options: Any) -> Any:
        if path not in self.listings:
            self.listings[path] = super().find(path, **options)
        return self.listings[path]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listings.clear()


def paths(table: str | Path) -> list[str]:
    return [file.path for file in list_data_files(str(table)).files]


def test_a_plain_directory(tmp_path: Path) -> None:
    fill(tmp_path, ["b.orc", "a.orc", "part-0", "c.txt"])
    os.utime(tmp_path / "a.orc", ns=(1, 1_600_000_000_123_456_789))
    listing = list_data_files(str(tmp_path))
    assert not listing.is_file
    assert listing.uri == str(tmp_path)
    assert [file.path for file in listing.files] == ["a.orc", "b.orc", "c.txt", "part-0"]
    first = listing.files[0]
    assert (first.uri, first.length, first.partition) == (f"{tmp_path}/a.orc", 4, ())
    assert first.mtime_ns == 1_600_000_000_123_456_789
    assert listing.partitioning.values[first.partition] == ()


def test_listings_that_a_file_system_caches() -> None:
    fsspec.register_implementation("caching", CachingFileSystem, clobber=True)
    filesystem = fsspec.filesystem("caching")
    for state in (filesystem.store, filesystem.listings):
        state.clear()
    filesystem.pipe("/t/a.orc", b"data")
    assert paths("caching://t") == ["a.orc"]
    filesystem.pipe("/t/b.orc", b"data")
    assert "/t/b.orc" not in filesystem.find("/t")
    assert paths("caching://t") == ["a.orc", "b.orc"]


def test_hidden_names(tmp_path: Path) -> None:
    shown = ["_y=1.orc", "x.orc", "x_._orc"]
    fill(tmp_path, [*shown, "_x.orc", ".y.orc", "_SUCCESS", "_metadata", "z._COPYING_", ".x.orc.crc"])
    fill(tmp_path, ["_hindex/data/1.hidx", "_temporary/0/x.orc", ".spark/x.orc"])
    assert paths(tmp_path) == shown


@pytest.mark.parametrize("store", ["local", "memory"])
def test_markers_of_directories(tmp_path: Path, store: str) -> None:
    """Empty objects that stand for directories, as EMR leaves them on S3, take no part in partition discovery."""
    root = str(tmp_path) if store == "local" else f"memory:/{tmp_path}"
    filesystem, path = fsspec.url_to_fs(root, auto_mkdir=True)
    data = ["p=1/q=2/x.orc", "p=1/q=3/x.orc", "p=1/q=3/y_$folder$", "p=2/q=2/x_$folder$.orc"]
    filesystem.pipe({f"{path}/{name}": b"data" for name in data})
    filesystem.pipe(
        {f"{path}/{name}": b"" for name in ["p=1_$folder$", "p=1/q=2_$folder$", "p=1/q=2/z_$folder$"]}
    )
    listing = list_data_files(root)
    assert [file.path for file in listing.files] == data
    assert listing.ignored == ()


def log_batch(root: str, *paths: str, length: int = 4, action: str = "add") -> bytes:
    files = [
        {"path": f"{root}/{path}", "size": length, "isDir": path.endswith("/"), "action": action}
        for path in paths
    ]
    return "\n".join(["v1", *map(json.dumps, files)]).encode()


@pytest.mark.parametrize("store", ["local", "memory"])
def test_log_of_a_stream(tmp_path: Path, store: str) -> None:
    """The latest compacted batch and those after it name the files; others are strays."""
    root = str(tmp_path) if store == "local" else f"memory:/{tmp_path}"
    filesystem, path = fsspec.url_to_fs(root, auto_mkdir=True)
    uri = f"file://{root}" if store == "local" else root

    def write(files: dict[str, bytes]) -> None:
        filesystem.pipe({f"{path}/{name}": content for name, content in files.items()})

    write(
        {f"p=a b/{number}.orc": b"data" for number in range(7)} | {"stray.orc": b"data", "p=c/stray": b"data"}
    )
    quoted = "p=a%20b"
    write({"_spark_metadata/0": log_batch(uri, f"{quoted}/0.orc"), "_spark_metadata/.0.crc": b""})
    assert paths(root) == ["p=a b/0.orc"]
    write({"_spark_metadata/1": log_batch(uri, f"{quoted}/1.orc", "p=d/", f"{quoted}/2.orc")})
    assert paths(root) == [f"p=a b/{number}.orc" for number in range(3)]
    write(
        {"_spark_metadata/2.compact": log_batch(uri, f"{quoted}/1.orc"), "_spark_metadata/3": log_batch(uri)}
    )
    filesystem.rm(f"{path}/_spark_metadata/0")
    listing = list_data_files(root)
    assert [file.path for file in listing.files] == ["p=a b/1.orc"]
    assert listing.ignored == tuple(
        sorted([*(f"p=a b/{number}.orc" for number in (0, 2, 3, 4, 5, 6)), "stray.orc"])
    )
    # a subdirectory has no log
    assert len(paths(f"{root}/p=a b")) == 7
    for batch, message in [
        (log_batch(uri, f"{quoted}/9.orc"), "9.orc', which is missing"),
        (log_batch(uri, f"{quoted}/4.orc", length=5), "4.orc', which is of 4 bytes, not 5"),
        (log_batch(uri, f"{quoted}/4.orc", action="delete"), "has the action 'delete'"),
        (log_batch("file:///elsewhere", "4.orc"), "'file:///elsewhere/4.orc', which is elsewhere"),
        (b"v2", "batch 4 is of version 'v2'"),
        (b"", "batch 4 is of version ''"),
        (b"v1\n{", "Expecting property name"),
        (b"v1\n[]", "list indices must be integers"),
    ]:
        write({"_spark_metadata/4": batch})
        with pytest.raises(UnsupportedError, match=message):
            list_data_files(root)
    write({"_spark_metadata/6": log_batch(uri)})
    filesystem.rm(f"{path}/_spark_metadata/4")
    with raises(UnsupportedError):
        list_data_files(root)


def test_ignored_files_are_named_as_data_files(tmp_path: Path) -> None:
    fill(
        tmp_path,
        ["a=1/x.orc", "y.ORC", "000001_0", "000001_0_copy_2", "README", "notes.txt", "_old.orc", "b/_z.orc"],
    )
    (tmp_path / "empty.orc").touch()
    assert list_data_files(str(tmp_path)).ignored == ("000001_0", "000001_0_copy_2", "y.ORC")
    assert list_data_files(str(tmp_path / "a=1")).ignored == ()


def test_partitions(tmp_path: Path) -> None:
    fill(tmp_path, ["a=1/y.orc", "a=x%2Fy/sub/z.orc", "root.orc", "a=1/_h/y.orc", "a=1/.s/z.orc"])
    listing = list_data_files(str(tmp_path))
    assert [(file.path, file.partition) for file in listing.files] == [
        ("a=1/y.orc", ("1",)),
        ("a=x%2Fy/sub/z.orc", ("x%2Fy",)),
    ]
    assert [listing.partitioning.values[file.partition][0].value for file in listing.files] == ["1", "x/y"]


def test_an_underscore_partition(tmp_path: Path) -> None:
    fill(tmp_path, ["_k=1/x.orc", "_d/x.orc"])
    assert paths(tmp_path) == ["_k=1/x.orc"]


def test_empty_files_are_listed_and_flagged(tmp_path: Path) -> None:
    fill(tmp_path, ["x.orc"])
    (tmp_path / "zero.orc").touch()
    assert [(file.path, file.length == 0) for file in list_data_files(str(tmp_path)).files] == [
        ("x.orc", False),
        ("zero.orc", True),
    ]


def test_no_data_files(tmp_path: Path) -> None:
    fill(tmp_path, ["_SUCCESS"])
    (tmp_path / "sub").mkdir()
    assert list_data_files(str(tmp_path)).files == ()


@pytest.mark.parametrize("name", ["a.orc", "_hidden.orc", "a b%20#?é😀;'.orc", "k=v"])
def test_a_single_file(tmp_path: Path, name: str) -> None:
    fill(tmp_path, [name, "other.orc"])
    listing = list_data_files(str(tmp_path / name))
    assert listing.is_file
    assert [(file.path, file.uri, file.length) for file in listing.files] == [(name, f"{tmp_path}/{name}", 4)]


ODD = ["a b", "100%", "a%20b", "a#b", "a?b", "日本", "😀", "a'b", 'a"b', "a;b", "a+b", "a\\b", "a\nb", "~"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names(tmp_path: Path, name: str) -> None:
    fill(tmp_path, [f"{name}/{name}"])
    listing = list_data_files(str(tmp_path / name))
    assert [file.path for file in listing.files] == [name]
    assert Path(listing.files[0].uri).read_bytes() == b"data"
    # both kinds of file: URIs, percent-encoded as Python writes them and plain as Hadoop does
    assert paths((tmp_path / name).as_uri()) == [name]
    assert paths(f"file:{tmp_path}/{name}") == [name]
    assert paths(f"file://{tmp_path}/{name}/") == [name]


def test_all_spellings_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "t"
    fill(table, ["x.orc"])
    (tmp_path / "link").symlink_to(table)
    (tmp_path / "link2").symlink_to("link")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = [
        str(table),
        f"{table}/",
        f"{table}///",
        "t",
        "./t/",
        "t/../t",
        "link",
        "link2/",
        table.as_uri(),
        f"file:{table}",
        f"file://localhost{table}/",
        f"FILE:{table}",
    ]
    assert {normalize_uri(text) for text in spellings} == {str(table)}
    assert normalize_uri("~/t") == f"{tmp_path}/~/t"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/t", "s3://b/t"),
        ("s3a://b/t/", "s3://b/t"),
        ("S3N://b/T//", "s3://b/T"),
        ("s3://b/t/?region=x", "s3://b/t?region=x"),
        ("hdfs://host:9000/t/", "hdfs://host:9000/t"),
        ("/", "/"),
        ("file:///", "/"),
        ("/no/such/a:b", "/no/such/a:b"),
    ],
)
def test_normalize(text: str, expected: str) -> None:
    assert normalize_uri(text) == expected


@pytest.mark.parametrize("text", ["", "a\0b", "file://otherhost/t"])
def test_no_place(text: str) -> None:
    with raises(TableError):
        normalize_uri(text)


def test_local_path_keeps_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    assert local_path(f"file:{tmp_path}/link") == f"{tmp_path}/link"


SECOND = 10**9


@pytest.mark.parametrize(
    ("mtime_ns", "is_certain"),
    [
        (1000 * SECOND, True),
        # it may be replaced before its second is over, or the store's clock may be slow
        (1100 * SECOND, False),
        (1097 * SECOND, False),
        (1100 * SECOND - 1, True),
        # the store has no times
        (0, False),
    ],
)
def test_a_remote_file_that_could_be_replaced_at_the_same_time_is_not_certain(
    mtime_ns: int, is_certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindex.table.listing.time.time_ns", lambda: 1100 * SECOND)
    file = DataFile("f.orc", "s3://bucket/f.orc", 10, mtime_ns)
    assert file.is_untouched_since(file.change_to_record()) is is_certain
    monkeypatch.setattr("hindex.table.listing.time.time_ns", lambda: 2000 * SECOND)
    assert file.is_untouched_since(file.change_to_record(1100 * SECOND)) is is_certain


def test_a_local_file_is_certain_by_its_status() -> None:
    file = DataFile("f.orc", "/t/f.orc", 10, 1000 * SECOND, changed_ns=7)
    assert file.change_to_record() == 7
    assert file.is_untouched_since(7)
    assert not file.is_untouched_since(8)


def test_a_missing_path(tmp_path: Path) -> None:
    fill(tmp_path, ["x.orc"])
    for path in (tmp_path / "no", tmp_path / "x.orc" / "y"):
        with raises(TableError):
            list_data_files(str(path))


def test_neither_file_nor_directory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with raises(TableError):
        list_data_files(str(tmp_path / "pipe"))
    # within a table it is passed over
    assert paths(tmp_path) == []


def test_symbolic_links(tmp_path: Path) -> None:
    fill(tmp_path, ["t/a=1/x.orc", "elsewhere/y.orc"])
    (tmp_path / "t" / "a=2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t" / "a=1" / "l.orc").symlink_to(tmp_path / "elsewhere" / "y.orc")
    (tmp_path / "t" / "a=1" / "dangling.orc").symlink_to("/no/such/file")
    (tmp_path / "t" / "a=1" / "loop.orc").symlink_to("loop.orc")
    (tmp_path / "t" / "a=1" / "below.orc").symlink_to("x.orc/y.orc")
    assert paths(tmp_path / "t") == ["a=1/l.orc", "a=1/x.orc", "a=2/y.orc"]


def test_a_link_to_above(tmp_path: Path) -> None:
    fill(tmp_path, ["a=1/x.orc"])
    (tmp_path / "a=1" / "b=1").symlink_to(tmp_path)
    with raises(TableError):
        list_data_files(str(tmp_path))


def test_directories_nested_deeper_than_python_calls(tmp_path: Path) -> None:
    fill(tmp_path, ["x.orc"])
    deep = tmp_path
    try:
        for _ in range(1100):
            deep = deep / "d"
            deep.mkdir()
        (deep / "y.orc").write_bytes(b"ORC")
        assert paths(tmp_path) == ["x.orc"]
    finally:
        # what pytest clears away with calls that nest, too
        (deep / "y.orc").unlink(missing_ok=True)
        os.removedirs(deep)


def test_names_that_only_look_transactional(tmp_path: Path) -> None:
    fill(tmp_path, ["base_1", "delta_force.orc", "base_of/a=1/x.orc"])
    with raises(TableError):
        list_data_files(str(tmp_path))
    fill(tmp_path / "base_of", ["base_2"])
    assert paths(tmp_path / "base_of") == ["a=1/x.orc"]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.orc")).write_bytes(b"")
    with raises(TableError) as caught:
        list_data_files(str(tmp_path))
    str(caught.value).encode()


@pytest.mark.parametrize("directory", ["", "a=1", "a=2/b=1"])
def test_a_directory_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    """The table has no fewer rows because of it, wherever the directory is."""
    fill(tmp_path, ["a=1/x.orc", "a=2/b=1/x.orc", "a=2/b=2/x.orc"])
    denied = str(tmp_path / directory)
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path) == denied:
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        with pytest.raises(TableError, match=rf"cannot list {re.escape(denied)}: Permission denied$"):
            list_data_files(str(tmp_path))


def test_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a=1/x.orc", "a=2/y z%.orc", "a=1/_h/y.orc", "_hindex/data/a/1.hidx", "a=2/.hidden", "root.orc"]
    fill(tmp_path / "bucket" / "t", names)
    remote = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())

    def resolve(uri: str) -> tuple[FileSystem, str]:
        assert uri.startswith("s3://bucket/t")
        return AdaptedFileSystem(remote), uri.removeprefix("s3://")

    monkeypatch.setattr(directory_tree, "file_system", resolve)
    far, near = list_data_files("s3a://bucket/t/"), list_data_files(str(tmp_path / "bucket" / "t"))
    assert (far.uri, far.is_file, far.partitioning) == ("s3://bucket/t", False, near.partitioning)
    assert [(file.path, file.length, file.mtime_ns, file.partition) for file in far.files] == [
        (file.path, file.length, file.mtime_ns, file.partition) for file in near.files
    ]
    assert [file.path for file in far.files] == ["a=1/x.orc", "a=2/y z%.orc"]
    assert far.files[0].uri == "s3://bucket/t/a=1/x.orc"
    one = list_data_files("s3://bucket/t/root.orc")
    assert (one.is_file, one.files[0].path, one.files[0].uri) == (True, "root.orc", "s3://bucket/t/root.orc")
    with raises(TableError):
        list_data_files("s3://bucket/t/no")


@pytest.mark.parametrize("method", ["info", "find"])
def test_a_file_system_with_errors_of_its_own(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/own-errors-listed/x.orc", b"data")

    def fail(*args: object, **keywords: object) -> None:
        raise RuntimeError("the token\nexpired")

    monkeypatch.setattr(type(memory), method, fail)
    with pytest.raises(TableError, match=r"cannot list memory://own-errors-listed: the token expired$"):
        list_data_files("memory://own-errors-listed")


def test_times_that_64_bits_do_not_hold(tmp_path: Path) -> None:
    fill(tmp_path, ["x.orc"])
    os.utime(tmp_path / "x.orc", ns=(0, (1 << 63) + 5))
    if (tmp_path / "x.orc").stat().st_mtime_ns != (1 << 63) + 5:
        pytest.skip("the file system has no such times")
    assert list_data_files(str(tmp_path)).files[0].mtime_ns == 5 - (1 << 63)


def test_the_same_files_as_spark(spark: SparkSession, tmp_path: Path) -> None:
    orc.write_table(pa.table({"v": [1]}), str(tmp_path / "one.orc"))
    data = (tmp_path / "one.orc").read_bytes()
    trees = [
        ["x.orc", "a=1/y.orc"],
        ["sub/x.orc", "y.orc", "sub/below/z.orc"],
        ["a=1/sub/x.orc", "a=2/y.orc"],
        ["sub/a=1/x.orc"],
        ["a=1/m/b=2/x.orc"],
        ["_k=1/x.orc", "_d/x.orc", "_x.orc"],
        ["x.orc", "_y=1.orc", "z._COPYING_", "_metadata"],
        ["a=1/x y#.orc", "a=2/_h/y.orc", "A=3/.s/z.orc", "A=4/é%20?.orc"],
    ]
    for number, names in enumerate(trees):
        root = tmp_path / str(number)
        fill(root, names)
        for name in names:
            (root / name).write_bytes(data)
        rows = spark.read.orc(str(root)).select("_metadata.file_path").collect()
        read = sorted(unquote(row[0]).partition(f"{root}/")[2] for row in rows)
        assert paths(root) == read, names
        hidden = ("_", ".")
        plain = [
            name
            for name in names
            if name.endswith(".orc")
            and not any(part.startswith(hidden) and "=" not in part for part in name.split("/"))
        ]
        assert list(list_data_files(str(root)).ignored) == sorted(set(plain) - set(read)), names

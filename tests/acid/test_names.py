"""Names in transactional directories."""

from __future__ import annotations

import pytest

from hindex.errors import TableError
from hindex.orc.acid.directory import (
    AcidDirectory,
    DirectoryKind,
    is_acid_directory,
    parse_bucket,
    parse_directory,
)
from tests.support.messages import raises

BASE, DELTA, DELETE = DirectoryKind.BASE, DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA


@pytest.mark.parametrize(
    ("name", "kind", "low", "high", "statement", "visibility"),
    [
        ("base_0000005", BASE, 5, 5, -1, None),
        ("base_0000005_v0000017", BASE, 5, 5, -1, 17),
        ("base_-9223372036854775808", BASE, -(1 << 63), -(1 << 63), -1, None),
        ("delta_0000001_0000003", DELTA, 1, 3, -1, None),
        ("delta_0000002_0000002_0000", DELTA, 2, 2, 0, None),
        ("delta_0000002_0000002_0011", DELTA, 2, 2, 11, None),
        ("delta_0000001_0000003_v0000009", DELTA, 1, 3, -1, 9),
        ("delete_delta_0000002_0000002_0001", DELETE, 2, 2, 1, None),
        ("delete_delta_0000001_0000003_v0000009", DELETE, 1, 3, -1, 9),
        # other widths
        ("delta_1_12345678901", DELTA, 1, 12345678901, -1, None),
        ("delta_00000000001_1_7_v3", DELTA, 1, 1, 7, 3),
    ],
)
def test_directories(
    name: str, kind: DirectoryKind, low: int, high: int, statement: int, visibility: int | None
) -> None:
    assert is_acid_directory(name)
    assert parse_directory(name) == AcidDirectory(name, kind, low, high, statement, visibility)


@pytest.mark.parametrize(
    "name",
    [
        "delta_5",
        "base_1_2",
        "delta_1_2_3_4",
        "delta_9_8",
        f"delta_1_{1 << 63}",
        "delete_delta_1_v2",
        "delta_1_1_4096",
    ],
)
def test_invalid_names(name: str) -> None:
    assert is_acid_directory(name)
    with raises(TableError):
        parse_directory(name)


@pytest.mark.parametrize(
    "name", ["base", "delta_force", "base_1x", "my_delta_1_2", "delta_1_2_v", "p=delta_1_2"]
)
def test_other_names(name: str) -> None:
    assert not is_acid_directory(name)


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("bucket_00000", 0),
        ("bucket_00012_3", 12),
        ("bucket_5", 5),
        ("000000_0", 0),
        ("000003_1", 3),
        ("000003_0_copy_12", 3),
        ("bucket_00000_flush_length", None),
        # keys have twelve bits for a bucket
        ("004095_0", 4095),
        ("004096_0", None),
        ("20240101_120000", None),
        ("bucket_0_0_0", None),
        ("000000_0_copy", None),
        ("part-00000.orc", None),
    ],
)
def test_buckets(name: str, bucket: int | None) -> None:
    assert parse_bucket(name) == bucket

"""BTREE files of every released version, and the bytes that ``docs/format.md`` promises."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.index.index_file import VERSION, IndexFileReader, PageRef
from hindex.orc.io.source import BytesSource
from hindex.proto import index_file_pb2 as pb
from tests.index.btree_fixtures import files
from tests.index.btree_support import ModelFile, build, places, read
from tests.index.fixture_files import COLUMNS, DIRECTORY
from tests.index.support import TYPES, key_of

FIXTURES = sorted(DIRECTORY.glob("*/btree-*.hidx"))


def test_every_version_has_its_files() -> None:
    names = {file.relative_to(DIRECTORY).with_suffix("").as_posix() for file in FIXTURES}
    assert names == {f"v{version}/btree-{name}" for version, name in product(range(1, VERSION + 1), COLUMNS)}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_a_file_says(path: Path) -> None:
    name = path.stem.removeprefix("btree-")
    data_type, model = TYPES[name], files(name)
    reader = read(path.read_bytes())
    footer = reader.file.footer
    assert (footer.index_type, footer.column, footer.column_type) == ("BTREE", "c", str(data_type))
    assert list(reader.all_files()) == [file.indexed for file in model]

    def key(value: object) -> int | bytes | None:
        return None if value is None else key_of(data_type, value)

    values = {value for stripe in COLUMNS[name] for value in stripe if value is not None}
    distinct = sorted({key_of(data_type, value) for value in values})
    domains = [Domain.between(low, high) for low, high in product(distinct, distinct)]
    domains += [Domain.only_null(), Domain.not_null(), Domain.points(distinct[:1], null_allowed=True)]
    for domain in domains:
        locations = reader.locate(domain)
        assert locations is not None
        wanted = places(model, lambda value, domain=domain: domain.contains(key(value)))
        assert [
            (item.file.path, n) for item in reader.files(locations) for n in item.groups.tolist()
        ] == wanted


def test_the_example_of_the_page() -> None:
    model = [ModelFile("a.orc", 2, [[5, 7, None, 5]]), ModelFile("b.orc", 2, [[5], [9, 9]])]
    data, summary = build(TYPES["bigint"], model)
    file = IndexFileReader(BytesSource(data, "example"))
    body = pb.BTreeBody.FromString(file.footer.body)
    assert (body.locations, body.null_count, body.key_count) == (4, 1, 3)
    assert (list(body.leaf_rows), list(body.leaf_keys), list(body.int_bounds)) == ([5], [3], [5])
    (page,) = body.location_pages
    (listed,) = file.read_pages([PageRef(page.page.offset, page.page.length, page.page.crc32c)])
    located = pb.Locations.FromString(bytes(listed.block(0)))
    assert [(item.path, item.row_group_rows, list(item.stripe_rows)) for item in located.files] == [
        ("a.orc", 2, [4]),
        ("b.orc", 2, [1, 2]),
    ]
    reader = read(data)
    assert [reader.locate(Domain.points([key])) for key in (5, 7, 9)] == [
        BitMap([0, 1, 2]),
        BitMap([0]),
        BitMap([3]),
    ]
    assert reader.nulls() == BitMap([1])
    assert summary.stats.rows == 5

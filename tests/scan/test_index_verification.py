"""Proofs of aggregates and orders, which use what indexes know of values."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest

from hindex.api.table import Table
from hindex.maintain.results import IndexState
from hindex.maintain.verification import ProveWarning
from hindex.store.store import Store
from tests.scan.wrong_indexes import (
    TOLD,
    damage_pages,
    exchange,
)
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_rows
from tests.support.work import forget


@pytest.fixture
def few(connection: LocalConnection, tmp_path: Path) -> Table:
    """Two files of one stripe or a few, without an index."""
    for number in range(2):
        write_rows(tmp_path / "t" / f"{number}.orc", number * 300, [i % 10 for i in range(300)])
    return connection.table(str(tmp_path / "t"))


@pytest.mark.parametrize("where", [None, "a >= 0"])
def test_prove_passes_over_a_damaged_index(few: Table, where: str | None) -> None:
    few.create_index("by_a", "a")
    damage_pages(few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, (ask, right) in TOLD.items():
            forget()
            assert ask(few.scan(where, mode="prove")) == right, name


@pytest.mark.parametrize(
    ("using", "values", "asked"),
    [
        pytest.param("minmax", [i % 10 + 20 for i in range(300)], ["min", "max", "order"], id="ends"),
        pytest.param("minmax", [3 + i % 3 for i in range(300)], ["min", "max", "order"], id="narrow ends"),
        pytest.param(
            "minmax", [None if i % 3 == 0 else i % 10 for i in range(300)], ["count", "order"], id="nulls"
        ),
        pytest.param("bitmap", [(i * 7 + 3) % 10 for i in range(300)], ["order"], id="rows of keys"),
    ],
)
@pytest.mark.parametrize("extents", [True, False])
def test_prove_finds_what_aggregates_and_orders_use(
    few: Table, tmp_path: Path, using: str, values: list[int | None], asked: list[str], extents: bool
) -> None:
    few.create_index("bad", "a", using)
    few.create_index("good", "a", "bloom")
    write_rows(tmp_path / "other" / "0.orc", 0, values)
    exchange(few, tmp_path / "other", "a", extents=extents)
    store = Store.for_table(few.uri)
    loaded = store.load()
    assert loaded is not None
    indexes = loaded.indexes
    for name in asked:
        ask, right = TOLD[name]
        forget()
        with pytest.warns(ProveWarning, match="values of a differ by 'bad'"):
            assert ask(few.scan(mode="prove")) == right, name
        assert few.index("bad").state is IndexState.QUARANTINED
        assert few.index("good").state is IndexState.FRESH
        # once more
        store.commit(lambda old: dataclasses.replace(old, indexes=indexes))


@pytest.mark.parametrize(
    ("column", "using"), [("a, s", "bitmap"), ("a, s", "minmax"), ("a", "bitmap"), ("s", "bitmap")]
)
def test_prove_finds_which_index_on_the_columns_is_wrong(
    few: Table, tmp_path: Path, column: str, using: str
) -> None:
    """One on both, or one on a column, which narrows what the bloom filters on both leave."""
    few.create_index("bad", column.split(", "), using)
    few.create_index("good", ["a", "s"], "bloom")
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 + 20 for i in range(300)])
    exchange(few, tmp_path / "other", column, extents=False)
    with pytest.warns(ProveWarning, match="'bad'"):
        assert ids(few.scan("a = 3 AND s = 's3'", ["id"], mode="prove")) == list(range(3, 600, 10))
    assert few.index("bad").state is IndexState.QUARANTINED
    assert few.index("good").state is IndexState.FRESH


def test_prove_finds_an_index_that_takes_nulls_for_values(few: Table, tmp_path: Path) -> None:
    """Among some rows of a stripe, where the number of all nulls is not compared."""
    write_rows(Path(few.uri) / "0.orc", 0, [None if i % 3 == 0 else i % 10 for i in range(300)])
    few.create_index("bad", "a", "minmax")
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 for i in range(300)])
    exchange(few, tmp_path / "other", "a", extents=False)
    with pytest.warns(ProveWarning, match="values of a differ by 'bad'"):
        assert few.scan("id < 12", mode="prove").count("a") == 8


def test_prove_finds_a_manifest_that_is_wrong_alone(few: Table, tmp_path: Path) -> None:
    few.create_index("bad", "a")
    own = extents_of(few)
    write_rows(tmp_path / "other" / "0.orc", 0, [i % 10 + 20 for i in range(300)])
    exchange(few, tmp_path / "other", "a")
    wrong = extents_of(few)
    assert own != wrong
    few.rebuild_index("bad")
    set_extents(few, wrong)
    with pytest.warns(ProveWarning, match="values of a differ by 'bad'"):
        assert TOLD["order"][0](few.scan(mode="prove")) == TOLD["order"][1]


def extents_of(table: Table) -> tuple[Any, ...]:
    manifest = Store.for_table(table.uri).load()
    assert manifest is not None
    return tuple(next(file for file in manifest.files if file.path == "0.orc").index_files[0].stripe_stats)


def set_extents(table: Table, extents: tuple[Any, ...]) -> None:
    def change(old: Any) -> Any:
        files = [
            dataclasses.replace(
                file,
                index_files=tuple(
                    dataclasses.replace(item, stripe_stats=extents) for item in file.index_files
                ),
            )
            if file.path == "0.orc"
            else file
            for file in old.files
        ]
        return dataclasses.replace(old, files=files)

    Store.for_table(table.uri).commit(change)

"""Properties in CREATE INDEX: those of other systems are recorded with a note, and misspelt ones are errors."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from hindex.errors import HindexError, HindexWarning
from tests.support.local_build import LocalConnection

OPENLOOKENG = "WITH ('level'='STRIPE', 'autoload'=true, 'bloom.fpp'='0.01', 'bloom.mmapEnabled'=FALSE)"


@pytest.mark.parametrize(
    ("using", "clause", "note", "properties", "annotations"),
    [
        (
            "bloom",
            OPENLOOKENG,
            "Properties 'autoload', 'bloom.mmapEnabled' have no effect in hindex: recorded as annotations",
            {"fpp": "0.01"},
            {"autoload": "true", "bloom.mmapEnabled": "false"},
        ),
        (
            "minmax",
            "WITH (\"Bloom.MmapEnabled\" = 'true')",
            "Property 'Bloom.MmapEnabled' has no effect in hindex: recorded as an annotation",
            {},
            {"Bloom.MmapEnabled": "true"},
        ),
        (
            "compact",
            "IDXPROPERTIES ('creator'='me', 'BTREE.values_per_page'='8') TBLPROPERTIES ('owner'='ana')",
            "Property 'creator' has no effect in hindex: recorded as an annotation",
            {"values_per_page": "8"},
            {"creator": "me", "owner": "ana"},
        ),
        ("bloom", "IDXPROPERTIES (fpp = 0.5) TBLPROPERTIES (creator = me)", "", {"fpp": "0.5"}, {"creator": "me"}),
    ],
)  # fmt: skip
def test_properties_without_effect(
    hx: LocalConnection,
    path: Path,
    using: str,
    clause: str,
    note: str,
    properties: dict[str, str],
    annotations: dict[str, str],
) -> None:
    with warnings.catch_warnings(record=True, action="always") as caught:
        hx.sql(f"CREATE INDEX i ON TABLE '{path}' (a) AS '{using}' {clause} WITH DEFERRED REBUILD")
    assert [(item.category, str(item.message)) for item in caught] == (
        [(HindexWarning, note)] if note else []
    )
    index = hx.table(str(path)).index("i")
    assert (index.properties, index.annotations) == (properties, annotations)


@pytest.mark.parametrize(
    ("using", "clause", "error"),
    [
        ("bloom", "WITH ('bloom.mmapEnable'=false)", "Unknown property .* did you mean 'mmapEnabled'"),
        ("bloom", "WITH ('levl'='STRIPE')", "did you mean 'level'"),
        ("bloom", "WITH ('creator'='me')", "Unknown property 'creator' of index type BLOOM: known"),
        ("bloom", "WITH ('autoload'='maybe')", "Property 'autoload' is 'maybe': it must be true or false"),
        ("bitmap", "IDXPROPERTIES ('value_per_page'=5)", "did you mean 'values_per_page'"),
        ("bitmap", "IDXPROPERTIES ('bitmap.autolod'=true)", "did you mean 'autoload'"),
        ("nothing", "IDXPROPERTIES ('creator'='me')", "Unknown index type 'nothing'"),
    ],
)
def test_misspelt_properties(hx: LocalConnection, path: Path, using: str, clause: str, error: str) -> None:
    with pytest.raises(HindexError, match=error):
        hx.sql(f"CREATE INDEX i ON TABLE '{path}' (a) AS '{using}' {clause} WITH DEFERRED REBUILD")

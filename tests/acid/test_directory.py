"""The directories that count: one line for each rule."""

from __future__ import annotations

import random
from functools import partial

import pytest

from hindex.errors import TableError
from hindex.orc.acid.directory import AcidState, ListedDirectory, ObsoleteReason, acid_state
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from tests.support.messages import raises


def state_of(
    names: str, valid: str = "", originals: str = "", *, marked: str = "", read: list[str] | None = None
) -> AcidState:
    """Return the directories that count.

    Args:
        marked: what has a marker: that of a compaction, but where ``!`` follows.
        read: receives the names of bases whose marker is read.
    """
    read_markers = [] if read is None else read
    markers = {item.rstrip("!"): not item.endswith("!") for item in marked.split()}

    def marker(name: str) -> bool:
        read_markers.append(name)
        return markers[name]

    listed = [ListedDirectory(n, (), partial(marker, n) if n in markers else None) for n in names.split()]
    return acid_state("t", listed, originals.split(), ValidWriteIds.parse(valid))


def kept(state: AcidState) -> str:
    return " ".join(item.name for item in state.directories)


OLD, INVALID_BASE = ObsoleteReason.OLDER_BASE, ObsoleteReason.INVALID_BASE
COVERED, INVALID = ObsoleteReason.COVERED, ObsoleteReason.INVALID
MOST = 9223372036854775807


@pytest.mark.parametrize(
    ("names", "valid", "counts", "obsolete"),
    [
        # the wider delta stands for those within it; a smaller maximum that starts as early is within it
        (
            "delta_5_20 delta_5_10 delta_11_20 delta_51_60",
            "",
            "delta_5_20 delta_51_60",
            {"delta_5_10": COVERED, "delta_11_20": COVERED},
        ),
        # the greatest base, and only what is after it
        ("base_5 base_10 delta_6_6 delta_11_11", "", "base_10 delta_11_11", {"base_5": OLD, "delta_6_6": COVERED}),
        ("base_5 base_5_v3", "", "base_5_v3", {"base_5": OLD}),
        ("base_5_v3 base_5_v12", "", "base_5_v12", {"base_5_v3": OLD}),
        # a delta that begins in the base and goes on after it
        ("base_5 delta_3_9", "", "base_5 delta_3_9", {}),
        # all statements of a transaction
        ("delta_7_7_0001 delta_7_7_0000 delta_7_7_0004", "", "delta_7_7_0000 delta_7_7_0001 delta_7_7_0004", {}),
        # a compacted one of the same transaction replaces its statements
        ("delta_7_7_0000 delta_7_7", "", "delta_7_7", {"delta_7_7_0000": COVERED}),
        ("base_7 delta_7_7_0000", "", "base_7", {"delta_7_7_0000": COVERED}),
        # deletes with the inserts of the same ids
        ("delta_2_2_0000 delete_delta_2_2_0000", "", "delta_2_2_0000 delete_delta_2_2_0000", {}),
        ("delta_1_4_v9 delete_delta_1_4_v9 delete_delta_3_3_0000", "", "delta_1_4_v9 delete_delta_1_4_v9",
         {"delete_delta_3_3_0000": COVERED}),
        ("delete_delta_1_4_v9 delta_2_2_0000", "", "delete_delta_1_4_v9", {"delta_2_2_0000": COVERED}),
        # the same compaction twice, as when the first one failed
        ("delta_1_4_v9 delta_1_4_v12", "", "delta_1_4_v12", {"delta_1_4_v9": ObsoleteReason.SAME_COMPACTION}),
        # numbers are compared, not texts
        ("base_9 base_10", "", "base_10", {"base_9": OLD}),
        ("delta_10_10 delta_9_9", "", "delta_9_9 delta_10_10", {}),
        # aborted and open write ids
        ("delta_1_1 delta_2_2 delta_3_3", f"t:3:{MOST}::2", "delta_1_1 delta_3_3", {"delta_2_2": INVALID}),
        ("delta_1_1 delta_5_5", f"t:5:{MOST}::5", "delta_1_1", {"delta_5_5": INVALID}),
        ("delta_1_3", f"t:3:{MOST}::1,2", "delta_1_3", {}),
        ("delta_1_3", f"t:3:{MOST}::1,2,3", "", {"delta_1_3": INVALID}),
        ("delta_1_1 delta_4_4", f"t:3:{MOST}::", "delta_1_1", {"delta_4_4": INVALID}),
        ("delta_1_1 delta_2_9", "t:3:3:3:", "delta_1_1 delta_2_9", {}),
        # the same write ids under names of other widths, by no compaction: both are of that transaction
        ("delta_0000001_0000001 delta_1_1", "", "delta_0000001_0000001 delta_1_1", {}),
        # bases: a compaction's must not reach beyond what was open, an overwrite's must be valid itself
        ("base_5_v3 base_2", "t:9:4:4:", "base_2", {"base_5_v3": INVALID_BASE}),
        ("base_5 base_2", "t:9:4:4:", "base_5", {"base_2": OLD}),
        ("base_5 base_2", f"t:9:{MOST}::5", "base_2", {"base_5": INVALID_BASE}),
        ("base_5_v3 base_2", f"t:9:{MOST}::5", "base_5_v3", {"base_2": OLD}),
        ("base_5_v3 base_2", f"t:4:{MOST}::", "base_2", {"base_5_v3": INVALID_BASE}),
        # an overwrite that was aborted did nothing
        ("base_5 delta_1_1", f"t:9:{MOST}::5", "delta_1_1", {"base_5": INVALID_BASE}),
        ("base_5", f"t:9:{MOST}::5", "", {"base_5": INVALID_BASE}),
        ("base_5 base_3 delta_7_7", f"t:9:{MOST}::3,5", "delta_7_7", {"base_3": INVALID_BASE, "base_5": INVALID_BASE}),
        # and one that is not seen yet has done nothing, where what it is to replace is there
        ("base_5 delta_1_4", "t:9:5:5:", "delta_1_4", {"base_5": INVALID_BASE}),
        ("base_5 delete_delta_4_4", f"t:4:{MOST}::", "delete_delta_4_4", {"base_5": INVALID_BASE}),
        ("base_5 base_3 delta_4_4", "t:9:5:5:3", "delta_4_4", {"base_3": INVALID_BASE, "base_5": INVALID_BASE}),
    ],
)  # fmt: skip
def test_valid_content(names: str, valid: str, counts: str, obsolete: dict[str, ObsoleteReason]) -> None:
    state = state_of(names, valid)
    assert kept(state) == counts
    assert {item.name: item.reason for item in state.obsolete} == obsolete
    shuffled = names.split()
    random.Random(1).shuffle(shuffled)
    assert state_of(" ".join(shuffled), valid) == state


def test_a_base_with_a_marker_file_is_compacted() -> None:
    valid = "t:9:4:4:"
    assert kept(state_of("base_5 base_2", valid)) == "base_5"
    assert kept(state_of("base_5 base_2", valid, marked="base_5")) == "base_2"
    state = state_of("base_5 base_5_v3", marked="base_5")
    assert kept(state) == "base_5_v3"


def test_a_base_hides_the_originals() -> None:
    assert state_of("delta_1_1", originals="000000_0 000000_0_copy_1").originals == (
        "000000_0",
        "000000_0_copy_1",
    )
    state = state_of("base_5", originals="000000_0 000000_0_copy_1")
    assert state.originals == ()
    assert {(item.name, item.reason) for item in state.obsolete} == {
        ("000000_0", ObsoleteReason.HIDDEN_ORIGINAL),
        ("000000_0_copy_1", ObsoleteReason.HIDDEN_ORIGINAL),
    }


@pytest.mark.parametrize(
    ("names", "valid", "marked"),
    [
        ("base_5_v1", f"t:4:{MOST}::", ""),
        ("base_5_v1 delta_1_1", "t:9:5:5:", ""),
        ("base_5 delta_1_1", "t:9:5:5:", "base_5"),
        ("base_7_v1 base_5_v1 base_9", "t:8:5:5:", ""),
        # Hive goes by the oldest base, and loses rows where its cleaner left one of an aborted overwrite
        ("base_2 base_5_v1", "t:9:4:4:2", ""),
        ("base_2 base_5", "t:9:4:4:2", "base_5 base_2!"),
    ],
)
def test_not_enough_history_for_a_compaction(names: str, valid: str, marked: str) -> None:
    with raises(TableError):
        state_of(names, valid, marked=marked)


@pytest.mark.parametrize(
    ("names", "valid"),
    [
        ("base_5", f"t:4:{MOST}::"),
        ("base_5 delta_6_6", "t:9:5:5:"),
        ("base_5 base_8 delta_6_6", "t:9:5:5,8:"),
        ("base_5 base_3", "t:9:5:5:3"),
        # nothing that is seen is in it
        ("base_5 delta_4_4", "t:9:5:5:4"),
        # as open and as aborted: who knows
        ("base_5", "t:9:5:5:5"),
    ],
)
def test_not_enough_history_for_an_overwrite_that_is_not_seen(names: str, valid: str) -> None:
    """Hive's cleaner waits for its readers; a list that somebody kept may be older."""
    with raises(TableError):
        state_of(names, valid)
    assert state_of(names, valid, "000000_0").originals == ("000000_0",)


@pytest.mark.parametrize(
    ("names", "valid", "marked", "counts", "read"),
    [
        # below all that is open and aborted, or above the watermark, it is all the same who wrote it
        ("base_5", "", "base_5", "base_5", ""),
        ("base_5 delta_6_6", f"t:9:{MOST}::", "base_5", "base_5 delta_6_6", ""),
        ("base_5 base_2", "t:9:6:6:2", "base_5 base_2", "base_5", ""),
        ("base_5 base_2", f"t:4:{MOST}::", "base_5 base_2", "base_2", ""),
        # aborted, or above what is open: it is not
        ("base_5 base_2", "t:9:4:4:", "base_5 base_2", "base_2", "base_5"),
        ("base_5 base_2", "t:9:4:4:", "base_5! base_2", "base_5", "base_5"),
        ("base_5 base_2", f"t:9:{MOST}::2,5", "base_5 base_2", "base_5", "base_5"),
        # what is not chosen need not tell
        ("base_5 base_2", f"t:9:{MOST}::2", "base_5 base_2", "base_5", ""),
        ("base_5 base_5_v3", "", "base_5", "base_5_v3", ""),
        ("base_5 base_5_v3", f"t:9:{MOST}::5", "base_5", "base_5_v3", ""),
        # unless none is
        ("base_5 base_2 delta_1_1", f"t:9:{MOST}::2,5", "base_5! base_2!", "delta_1_1", "base_5 base_2"),
        ("base_5 delta_1_1", f"t:4:{MOST}::", "base_5!", "delta_1_1", "base_5"),
        # of one write id under names of other widths the compacted one
        ("base_5 base_05", "", "base_5", "base_5", "base_5"),
        ("base_5 base_05", "", "base_05", "base_05", "base_05"),
        ("base_5 base_05", "", "base_5! base_05", "base_05", "base_5 base_05"),
        # one of them, and always the same one, where both are
        ("base_5 base_05 base_005", "", "", "base_5", ""),
        ("base_5 base_05", "", "base_5 base_05", "base_5", "base_5 base_05"),
        # of those that are valid, which may be the other one
        ("base_5 base_05", "t:9:4:4:", "base_5", "base_05", "base_5"),
        ("base_5 base_05 base_4", "t:9:3:3:5", "base_5 base_05!", "base_4", ""),
        ("base_5 base_05 base_2", f"t:9:{MOST}::5", "base_05", "base_05", "base_05"),
        # a version tells a compaction whatever the width
        ("base_5 base_05_v1", "", "base_5", "base_05_v1", ""),
        # in deltas markers tell nothing
        ("delta_5_5 delete_delta_6_6", "t:9:5:5:", "delta_5_5 delete_delta_6_6", "delete_delta_6_6", ""),
    ],
)  # fmt: skip
def test_markers_that_are_read(names: str, valid: str, marked: str, counts: str, read: str) -> None:
    markers: list[str] = []
    assert kept(state_of(names, valid, marked=marked, read=markers)) == counts
    assert " ".join(markers) == read
    assert kept(state_of(" ".join(reversed(names.split())), valid, marked=marked)) == counts


@pytest.mark.parametrize(
    ("names", "valid", "counts"),
    [
        ("delta_1_1/x", "", None),
        ("delta_1_1/delta_1_1", "", None),
        ("base_2/x delta_1_1", "", None),
        ("base_2 delete_delta_3_3/x", "", None),
        # obsolete: covered, replaced, invalid, and of a compaction that ran again
        ("base_2 delta_1_1/delta_1_1", "", "base_2"),
        ("base_2 base_1/x delta_3_3", "", "base_2 delta_3_3"),
        ("delta_1_3 delta_2_2/delta_2_2", "", "delta_1_3"),
        ("delta_1_1 delta_2_2/x", f"t:2:{MOST}::2", "delta_1_1"),
        ("delta_1_4_v9/x delta_1_4_v12", "", "delta_1_4_v12"),
        # the branches of a UNION ALL, which are rows: where nothing deletes
        ("base_1/HIVE_UNION_SUBDIR_1 delta_2_2/HIVE_UNION_SUBDIR_12", "", "base_1 delta_2_2"),
        ("delta_1_1/HIVE_UNION_SUBDIR_1 delete_delta_2_2", "", None),
        ("delta_1_1/HIVE_UNION_SUBDIR_1 delete_delta_2_2", f"t:2:{MOST}::2", "delta_1_1"),
        ("delete_delta_1_1/HIVE_UNION_SUBDIR_1", "", None),
        ("delta_1_1/HIVE_UNION_SUBDIR_", "", None),
        ("delta_1_1/HIVE_UNION_SUBDIR_1/x", "", None),
    ],
)  # fmt: skip
def test_directories_inside_count_where_theirs_does(names: str, valid: str, counts: str | None) -> None:
    listed = [
        ListedDirectory(name, (inside,) if inside else ())
        for name, _, inside in (item.partition("/") for item in names.split())
    ]
    if counts is None:
        with raises(TableError):
            acid_state("t", listed, (), ValidWriteIds.parse(valid))
    else:
        assert kept(acid_state("t", listed, (), ValidWriteIds.parse(valid))) == counts


def test_an_insert_only_table_has_no_deletes() -> None:
    listed = [ListedDirectory("delta_1_1"), ListedDirectory("delete_delta_2_2")]
    assert acid_state("t", listed).delete_deltas
    assert acid_state("t", listed[:1], insert_only=True).deltas
    with raises(TableError):
        acid_state("t", listed, (), ALL_VALID, insert_only=True)

"""Lists of valid write ids, against a plain set."""

from __future__ import annotations

import numpy as np
import pytest

from hindex.errors import TableError
from hindex.orc.acid.write_ids import ALL_VALID, ValidWriteIds
from tests.support.messages import raises

MOST = 9223372036854775807


def valid_of(watermark: int, out: set[int]) -> set[int]:
    return {write_id for write_id in range(-1, 20) if write_id <= watermark and write_id not in out}


@pytest.mark.parametrize(
    ("text", "watermark", "min_open", "out"),
    [
        (f"db.t:10:{MOST}::", 10, MOST, set()),
        ("db.t:10:7:7,9:3", 10, 7, {3, 7, 9}),
        ("db.t:10:7:9,7:", 10, 7, {7, 9}),
        # not all of a list need agree: what is open is not in it, and is
        (f"db.t:{MOST}:7::", MOST, 7, set()),
        (f"db.t:10:{MOST}::4,2", 10, MOST, {2, 4}),
        # what is in it is open, whatever the least of them is said to be
        ("db.t:10::9,7:3", 10, 7, {3, 7, 9}),
        (f"db.t:10:{MOST}:7:", 10, 7, {7}),
        ("db.t:10:9:7,9", 10, 7, {7, 9}),
        ("db.t:10", 10, MOST, set()),
        ("t:0:1:1", 0, 1, {1}),
        (" t:5:5:5:1 ", 5, 5, {1, 5}),
    ],
)
def test_questions_against_a_plain_set(text: str, watermark: int, min_open: int, out: set[int]) -> None:
    ids, valid = ValidWriteIds.parse(text), valid_of(watermark, out)
    numbers = range(-1, 20)
    assert {w for w in numbers if ids.valid(w)} == valid
    assert set(np.array(numbers)[ids.valid_mask(np.array(numbers))].tolist()) == valid
    for low in numbers:
        for high in range(low, 20):
            write_ids = set(range(low, high + 1))
            assert ids.any_valid(low, high) == bool(write_ids & valid), (low, high)
            assert ids.all_valid(low, high) == (write_ids <= valid), (low, high)
            assert ids.all_decided(low, high) == (write_ids <= valid | ids.aborted and high <= watermark)
        assert ids.compacted_valid(low) == (low < min_open and low <= watermark)
    assert not ids.is_all


def test_without_a_list_all_are_valid() -> None:
    assert ValidWriteIds.parse("") == ALL_VALID == ValidWriteIds.parse("  ")
    assert ALL_VALID.is_all
    assert ALL_VALID.valid(MOST)
    assert ALL_VALID.all_valid(0, MOST)
    assert ALL_VALID.compacted_valid(MOST - 1)


def test_aborted_write_ids() -> None:
    assert ValidWriteIds.parse("db.t:10:7:7,9:3,9").aborted == {3}
    assert ValidWriteIds.parse("db.t:10:7:7,9:").aborted == set()


def test_ranges_may_be_huge() -> None:
    ids = ValidWriteIds.parse(f"t:{MOST}:{MOST}::" + ",".join(map(str, range(1, 100))))
    assert not ids.any_valid(1, 99)
    assert ids.any_valid(1, MOST)
    assert not ids.all_valid(50, MOST)


@pytest.mark.parametrize("text", ["t", "t:x:1::", "t:1:2:3:4:5", "t:1:2:a:", "t::::"])
def test_texts_that_are_no_lists(text: str) -> None:
    with raises(TableError):
        ValidWriteIds.parse(text)

from __future__ import annotations

import pytest

from hindex.plan.reasons import Note, Reason, group_notes


def test_one_group_a_reason_in_the_order_of_reasons() -> None:
    notes = [
        Note(Reason.STALE_FILE, "x.orc", "length 10 -> 20"),
        Note(Reason.NO_INDEX, "age"),
        Note(Reason.STALE_FILE, "y.orc", "mtime"),
        Note(Reason.STALE_FILE, "x.orc", "length 10 -> 20"),
        Note(Reason.CORRUPT, "a.hidx"),
        Note(Reason.CORRUPT, "b.hidx"),
        Note(Reason.NOT_SELECTIVE, "g", "91% of the rows"),
        Note(Reason.NOT_SELECTIVE, "h", "95% of the rows"),
    ]
    assert [str(group) for group in group_notes(notes)] == [
        "NO_INDEX: 1 column: age",
        "STALE_FILE: 2 files, e.g. x.orc (length 10 -> 20)",
        "CORRUPT: 2 index files, e.g. a.hidx",
        "NOT_SELECTIVE: 2 indexes, e.g. g (91% of the rows)",
    ]
    assert group_notes([]) == ()


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_every_reason_is_one_sentence(reason: Reason) -> None:
    assert reason.sentence.endswith(".")
    assert ". " not in reason.sentence
    assert reason.sentence[0].isupper()
    assert len(reason.sentence) <= 94
    assert Reason[str(reason)] is reason

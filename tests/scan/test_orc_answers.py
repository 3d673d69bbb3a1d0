"""Tables without an index: what the files' own statistics and bloom filters rule out, against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import hindex
from hindex.domain import Domain, Range
from hindex.explanations.explanation import RowCount
from hindex.index.column_stats import ColumnStats
from hindex.orc import OrcReader
from hindex.orc.metadata.stripe import StreamKind
from hindex.plan.filter import leaves
from hindex.plan.reasons import Reason
from hindex.scan import scan_task_reader
from hindex.scan.orc_statistics import OrcStatistics, Verdict, judge
from tests.support.small import ids, reasons, scan_of
from tests.support.work import decoded
from tests.support.writers import write_pyarrow, write_pyorc


def test_a_sorted_column_is_read_where_its_values_are(tmp_path: Path, opened: list[OrcReader]) -> None:
    rows = 20_000
    table = pa.table(
        {"id": pa.array(range(rows), pa.int64()), "x": pa.array([str(i % 7) for i in range(rows)])}
    )
    write_pyarrow(tmp_path / "x.orc", table, stride=1000)
    cases = [
        ("id = 5", [5], 1000, False),
        ("id BETWEEN 4500 AND 4600", range(4500, 4601), 1000, False),
        ("id >= 18500", range(18_500, rows), 2000, False),
        ("id >= 18000", range(18_000, rows), 2000, True),
        ("id < 0", [], 0, True),
        ("id = 20000", [], 0, True),
        ("id IS NULL", [], 0, True),
        ("id IS NOT NULL", range(rows), rows, True),
        ("id IN (1, 19999)", [1, 19_999], 2000, False),
        ("id <> 3", [i for i in range(rows) if i != 3], rows, False),
    ]  # fmt: skip
    for where, expected, kept, exact in cases:
        opened.clear()
        scan = scan_of(tmp_path, where)
        assert scan.count() == len(expected), where
        # nothing is read where the statistics decide, and else the row groups left open
        open_groups = {"id <> 3": 1, "id >= 18500": 1}.get(where, kept // 1000)
        assert decoded(opened) == (0 if exact else open_groups), where
        assert ids(scan) == list(expected), where
        explained = scan.explain()
        assert explained.rows == RowCount(kept, rows), where
        assert explained.row_groups == RowCount(kept // 1000, 20), where
        assert explained.exact is exact, where
        assert list(reasons(scan)) == [Reason.NO_INDEX], where
    assert "ORC statistics (rules out 19 of 20 row groups)  may match  1,000 rows" in str(
        scan_of(tmp_path, "id = 5").explain()
    )


@pytest.mark.parametrize("write", [write_pyarrow, write_pyorc])
def test_filters_rule_out_what_statistics_cannot(
    write: Callable[..., None], tmp_path: Path, opened: list[OrcReader]
) -> None:
    rows = 20_000
    mixed = [i * 7919 % 100_003 for i in range(rows)]
    table = pa.table({"id": pa.array(mixed, pa.int64()), "s": pa.array([f"text {i}" for i in mixed])})
    options: dict[str, Any] = {"bloom_filter_columns": [1, 2] if write is write_pyarrow else ["id", "s"]}
    write(tmp_path / "x.orc", table, stride=1000, **options)
    absent = next(i for i in range(50_000, 100_000) if i not in mixed)
    for where, expected, most in (
        (f"id = {mixed[7]}", [mixed[7]], 5000),
        (f"s = 'text {mixed[12_345]}'", [mixed[12_345]], 5000),
        (f"id IN ({mixed[7]}, {mixed[19_000]})", [mixed[7], mixed[19_000]], 9000),
        (f"id = {absent}", [], 4000),
        (f"s IN ('text {absent}', 'text 0x')", [], 4000),
    ):
        opened.clear()
        scan = scan_of(tmp_path, where)
        assert sorted(scan.to_arrow().column("id").to_pylist()) == sorted(expected), where
        explained = scan.explain()
        assert explained.rows is not None
        assert explained.rows.kept is not None
        assert len(expected) <= explained.rows.kept <= most, where
        assert "ORC bloom filter (rules out " in str(explained), where
        kept = explained.rows.kept // 1000
        assert opened[0].counts.row_groups <= kept * 2, where
    # of ranges and of nulls they say nothing, and nothing is read of them
    for where in ("id > 50000", f"id = {absent} OR id IS NULL", "s LIKE 'text 5%'"):
        assert "ORC bloom filter" not in str(scan_of(tmp_path, where).explain()), where
    opened.clear()
    for where in ("id > 50000", f"id = {absent}"):
        scan_of(tmp_path, where).explain()
    stripe = opened[0].stripe(0)
    filters = stripe.streams[1, StreamKind.BLOOM_FILTER_UTF8].length
    # (an explanation looks into the data, too, for what reading them would cost)
    assert opened[0].counts.bytes_fetched + filters // 2 < opened[1].counts.bytes_fetched


def test_filters_that_do_not_pay_are_not_read(tmp_path: Path, opened: list[OrcReader]) -> None:
    """Statistics leave a row group or two: reading them is cheaper than the filters of all."""
    rows = 50_000
    write_pyarrow(
        tmp_path / "x.orc", pa.table({"id": pa.array(range(0, 2 * rows, 2))}), stride=1000, bloom_filter_columns=[1]
    )  # fmt: skip
    for where, kept in (("id = 40001", 1000), ("id IN (40001, 10001)", 2000)):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == []
        assert "ORC bloom filter" not in str(scan.explain()), where
        assert scan.explain().rows == RowCount(kept, rows), where
    # for half of the row groups they pay
    assert "ORC bloom filter" in str(
        scan_of(tmp_path, f"id IN ({', '.join(map(str, range(1, rows, 99)))})").explain()
    )


def test_a_stripe_without_a_match_is_ruled_out_by_the_tail(tmp_path: Path, opened: list[OrcReader]) -> None:
    table = pa.table({"id": pa.array(range(20_000), pa.int64())})
    write_pyarrow(tmp_path / "x.orc", table, "none", stripe=20_000, stride=1000)
    stripes = len(OrcReader(tmp_path / "x.orc").stripes)
    assert stripes > 2
    for where, found, ranges in (("id = 20000", 0, 1), ("id >= 0", 20_000, 1), ("id = 5", 1, 1 + 3)):
        opened.clear()
        assert scan_of(tmp_path, where).count() == found
        # the tail; of the one stripe that is left its footer, row index and values
        assert opened[0].counts.ranges <= ranges, where


def test_what_is_corrupt_is_ignored_with_a_reason(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([i * 7919 % 10_007 for i in range(3000)])})
    write_pyarrow(tmp_path / "x.orc", rows, "none", stride=100, bloom_filter_columns=[1])
    reader = OrcReader(tmp_path / "x.orc")
    stream = reader.stripe(0).streams[1, StreamKind.BLOOM_FILTER_UTF8]
    data = bytearray((tmp_path / "x.orc").read_bytes())
    data[stream.offset : stream.offset + stream.length] = b"\xff" * stream.length
    (tmp_path / "x.orc").write_bytes(data)
    scan = scan_of(tmp_path, "id = 7919")
    assert ids(scan) == [7919]
    notes = {note.reason: note for note in scan.explain().notes}
    assert "not well-formed" in notes[Reason.UNRELIABLE_STATISTICS].detail
    assert scan.explain().rows == RowCount(3000, 3000)

    data = bytearray((tmp_path / "x.orc").read_bytes())
    at = bytes(data).rindex(reader.tail.metadata)
    data[at : at + len(reader.tail.metadata)] = b"\xff" * len(reader.tail.metadata)
    (tmp_path / "x.orc").write_bytes(data)
    scan = scan_of(tmp_path, "id > 50000 OR id = 7919")
    assert ids(scan) == [7919]
    assert any("cannot be read" in note.detail for note in scan.explain().notes)


@pytest.mark.parametrize(
    ("domain", "extent", "expected"),
    [
        (Domain.between(3, 5), ColumnStats(10, 0, 6, 9), Verdict.NO_ROW_MATCHES),
        (Domain.between(3, 5), ColumnStats(10, 0, 5, 9), Verdict.ROWS_MIGHT_MATCH),
        (Domain.between(3, 5), ColumnStats(10, 0, 3, 5), Verdict.EVERY_ROW_MATCHES),
        (Domain.between(3, 5), ColumnStats(10, 1, 3, 5), Verdict.ROWS_MIGHT_MATCH),
        (
            Domain.from_ranges([Range(3, 5)], null_allowed=True),
            ColumnStats(10, 1, 3, 5),
            Verdict.EVERY_ROW_MATCHES,
        ),
        (Domain.only_null(), ColumnStats(10, 0, 3, 5), Verdict.NO_ROW_MATCHES),
        (Domain.only_null(), ColumnStats(10, 1, 3, 5), Verdict.ROWS_MIGHT_MATCH),
        (Domain.only_null(), ColumnStats(10, 10, None, None), Verdict.EVERY_ROW_MATCHES),
        (Domain.not_null(), ColumnStats(10, 10, None, None), Verdict.NO_ROW_MATCHES),
    ],
)
def test_verdicts(domain: Domain, extent: ColumnStats, expected: Verdict) -> None:
    assert judge(domain, extent) is expected


def test_an_answer_that_another_thread_drops_is_given_all_the_same(tmp_path: Path) -> None:
    write_pyarrow(
        tmp_path / "t" / "0.orc", pa.table({"a": list(range(100))}), "none", stripe=1 << 26, stride=10
    )
    plan = hindex.connect().table(str(tmp_path / "t")).scan("a < 15").plan()
    (leaf,) = leaves(plan.filter)
    with scan_task_reader.ScanTaskReader(plan.tasks[0]) as opened:
        result = OrcStatistics(opened.reader, "0.orc", [])

        class Dropped(dict[Any, Any]):
            """Is no longer in use as soon as something was looked for, or added."""

            def __contains__(self, key: object) -> bool:
                result._recent = Dropped()
                return super().__contains__(key)

            def __setitem__(self, key: object, value: object) -> None:
                result._recent = Dropped()
                super().__setitem__(key, value)

        rows = BitMap(range(opened.reader.stripes[0].num_rows))
        for recent in (Dropped(), Dropped({(0, leaf): (rows, None)}), Dropped(dict.fromkeys(range(100)))):
            expected = None if (0, leaf) in recent else 20
            result._recent = recent
            answer = result.statistics(0, leaf, opened.reader.column_type("a"), rows)
            assert (answer and len(answer.bounds.upper)) == expected

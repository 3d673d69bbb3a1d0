"""Tables without an index: what the files' own statistics and bloom filters rule out, against plain Python."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.domain import Domain, Range
from hindex.index.extent import Extent
from hindex.orc import OrcReader
from hindex.orc.stripe import StreamKind
from hindex.plan.explain import Kept
from hindex.plan.filter import leaves
from hindex.plan.reasons import Reason
from hindex.scan import execute
from hindex.scan.orc_answers import OrcAnswers, Verdict, judge
from hindex.scan.scan import Scan
from hindex.sql.predicate import Literal, LiteralKind, quote_string
from tests.support.small import ids, reasons
from tests.support.writers import write_pyarrow, write_pyorc, write_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Test = Callable[[Any], bool]

ROWS = 3000
STRIDE = 100


@dataclass(frozen=True)
class Kind:
    """A type of column: how its values are drawn, written as SQL, and ordered."""

    name: str
    arrow: pa.DataType
    draw: Callable[[np.random.Generator], Any]
    text: Callable[[Any], str]
    order: Callable[[Any], Any] = lambda value: value
    #: Whether a row group's minimum and maximum are the statistics' own.
    is_tight: bool = True


EPOCH = datetime.datetime(1970, 1, 1)


def _double_order(value: float) -> tuple[int, float]:
    return (1, 0.0) if math.isnan(value) else (0, value)


def _double(rng: np.random.Generator) -> float:
    special = [math.nan, math.inf, -math.inf, -0.0, 0.0]
    return float(rng.choice(special)) if rng.random() < 0.05 else round(float(rng.normal(0, 50)), 1)


KINDS = (
    Kind("bigint", pa.int64(), lambda rng: int(rng.integers(-500, 500)), str),
    Kind("tinyint", pa.int8(), lambda rng: int(rng.integers(-128, 128)), str),
    Kind(
        "double",
        pa.float64(),
        _double,
        lambda value: str(Literal(value, LiteralKind.DOUBLE)),
        _double_order,
        is_tight=False,
    ),
    Kind(
        "string",
        pa.string(),
        lambda rng: "".join(rng.choice(list("abcé\0\uffff\U0001f600"), int(rng.integers(0, 5)))),
        quote_string,
        str.encode,
    ),
    Kind(
        "long strings",
        pa.string(),
        lambda rng: "é" * int(rng.integers(500, 520)) + str(rng.integers(0, 50)),
        quote_string,
        str.encode,
    ),
    Kind(
        "date",
        pa.date32(),
        # later than the turn of calendars: pyarrow and pyorc do not say which one they write
        lambda rng: EPOCH.date() + datetime.timedelta(int(rng.integers(-140_000, 20_000))),
        lambda value: f"DATE '{value}'",
    ),
    Kind(
        "timestamp",
        pa.timestamp("us"),
        lambda rng: EPOCH + datetime.timedelta(microseconds=int(rng.integers(0, 10**15))),
        lambda value: f"TIMESTAMP '{value}'",
        is_tight=False,
    ),
    Kind(
        "decimal",
        pa.decimal128(38, 3),
        lambda rng: Decimal(int(rng.integers(-(10**6), 10**6))).scaleb(-3),
        lambda value: f"{value:f}BD" if value >= 0 else f"-{abs(value):f}BD",
    ),
    Kind("boolean", pa.bool_(), lambda rng: bool(rng.integers(0, 2)), lambda value: str(value).upper()),
)


def draw_column(rng: np.random.Generator, kind: Kind) -> list[Any]:
    """Values that are sorted, clustered or mixed, with nulls here and there, and a few row groups of nothing else."""
    values = [kind.draw(rng) for _ in range(ROWS)]
    shape = rng.choice(["sorted", "clustered", "mixed"])
    if shape != "mixed":
        values.sort(key=kind.order)
    if shape == "clustered":
        pieces = [values[i : i + 170] for i in range(0, ROWS, 170)]
        values = [value for i in rng.permutation(len(pieces)).tolist() for value in pieces[i]]
    for start in range(0, ROWS, STRIDE):
        how = rng.random()
        share = 1.0 if how < 0.1 else 0.3 if how < 0.4 else 0.0
        for i in range(start, start + STRIDE):
            if rng.random() < share:
                values[i] = None
    return values


def draw_leaf(
    rng: np.random.Generator, name: str, kind: Kind, values: Sequence[Any]
) -> tuple[str, Test, Test]:
    """SQL of a leaf, whether it keeps a value, and whether some value between two bounds ``(low, high)`` is kept."""
    order = kind.order
    known = [value for value in values if value is not None] or [kind.draw(rng)]

    def pick() -> Any:
        return known[int(rng.integers(0, len(known)))] if rng.random() < 0.7 else kind.draw(rng)

    a, b = sorted((pick(), pick()), key=order)
    low, high = order(a), order(b)
    match str(rng.choice(["=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "IS NOT NULL"])):
        case "=":
            return f"{name} = {kind.text(a)}", lambda v: order(v) == low, lambda r: r[0] <= low <= r[1]
        case "<>":
            return f"{name} <> {kind.text(a)}", lambda v: order(v) != low, lambda r: not r[0] == r[1] == low
        case "<":
            return f"{name} < {kind.text(a)}", lambda v: order(v) < low, lambda r: r[0] < low
        case "<=":
            return f"{name} <= {kind.text(a)}", lambda v: order(v) <= low, lambda r: r[0] <= low
        case ">":
            return f"{name} > {kind.text(a)}", lambda v: order(v) > low, lambda r: r[1] > low
        case ">=":
            return f"{name} >= {kind.text(a)}", lambda v: order(v) >= low, lambda r: r[1] >= low
        case "BETWEEN":
            text = f"{name} BETWEEN {kind.text(a)} AND {kind.text(b)}"
            return text, lambda v: low <= order(v) <= high, lambda r: r[0] <= high and r[1] >= low
        case "IN":
            text = f"{name} IN ({kind.text(a)}, {kind.text(b)})"
            return (
                text,
                lambda v: order(v) in (low, high),
                lambda r: r[0] <= low <= r[1] or r[0] <= high <= r[1],
            )
        case "IS NULL":
            return f"{name} IS NULL", lambda v: False, lambda r: False
        case _:
            return f"{name} IS NOT NULL", lambda v: True, lambda r: True


@pytest.mark.parametrize("turn", range(4))
def test_random_tables(turn: int, rng: np.random.Generator, tmp_path: Path) -> None:
    data = {f"c{i}": draw_column(rng, kind) for i, kind in enumerate(KINDS)}
    kinds = dict(zip(data, KINDS, strict=True))
    table = pa.table(
        {"id": pa.array(range(ROWS), pa.int64())}
        | {name: pa.array(values, kinds[name].arrow) for name, values in data.items()}
    )
    path = tmp_path / "table" / "x.orc"
    # filters on half of the columns
    chosen = [i for i in range(len(KINDS)) if (i + turn) % 2]
    stripe = int(rng.choice([20_000, 1 << 26]))
    if turn % 2:
        write_pyarrow(
            path, table, "zlib", stripe=stripe, stride=STRIDE, bloom_filter_columns=[i + 2 for i in chosen]
        )
    else:
        write_pyorc(
            path, table, "none", stripe=stripe, stride=STRIDE, bloom_filter_columns=[f"c{i}" for i in chosen]
        )
    groups = [
        range(
            stripe.first_row + start,
            min(stripe.first_row + start + STRIDE, stripe.first_row + stripe.num_rows),
        )
        for stripe in OrcReader(path).stripes
        for start in range(0, stripe.num_rows, STRIDE)
    ]
    scanned = hindex.connect().table(str(path.parent))
    skipped = 0
    for _ in range(60):
        leaves = []
        for name in rng.choice(list(data), int(rng.integers(1, 4))).tolist():
            text, keep, overlaps = draw_leaf(rng, name, kinds[name], data[name])
            leaves.append((name, text, keep, overlaps))
        word = str(rng.choice(["AND", "OR"]))
        where = f" {word} ".join(text for _, text, _, _ in leaves)

        combine = all if word == "AND" else any
        expected = [
            row
            for row in range(ROWS)
            if combine(
                "IS NULL" in text if data[name][row] is None else keep(data[name][row])
                for name, text, keep, _ in leaves
            )
        ]
        scan = scanned.scan(where, ["id"])
        explained = scan.explain()
        assert ids(scan) == expected, f"{where}\n{explained}"
        assert explained.rows is not None
        assert explained.rows.kept is not None
        assert explained.rows.kept >= len(expected), where
        if explained.exact:
            assert explained.rows.kept == len(expected), where
        skipped += ROWS - explained.rows.kept
        name, text, _, overlaps = leaves[0]
        if len(leaves) == 1 and kinds[name].is_tight:
            most = sum(
                len(group)
                for group in groups
                if might_match([data[name][row] for row in group], text, kinds[name], overlaps)
            )
            assert explained.rows.kept <= most, f"{where}\n{explained}"
    assert skipped > 10 * ROWS


def might_match(values: list[Any], text: str, kind: Kind, overlaps: Test) -> bool:
    """Whether a row group's least and greatest value, and whether there are nulls, leave anything open."""
    present = sorted(kind.order(value) for value in values if value is not None)
    if "IS NULL" in text:
        return len(present) < len(values)
    return bool(present) and overlaps((present[0], present[-1]))


def columns_read(readers: Sequence[OrcReader]) -> int:
    return sum(r.counts.row_groups + r.counts.dense_columns + r.counts.whole_columns for r in readers)


def scan_of(path: Path, where: str) -> Scan:
    return hindex.connect().table(str(path)).scan(where, ["id"])


def said(scan: Scan) -> list[str]:
    """What EXPLAIN says of each leaf."""
    lines = str(scan.explain()).split("\nPredicate\n")[1].split("\n\n")[0].splitlines()
    return [line.split("  ", 2)[-1].strip() if "AND" not in line[:8] else "AND" for line in lines]


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
        assert columns_read(opened) == (0 if exact else open_groups), where
        assert ids(scan) == list(expected), where
        explained = scan.explain()
        assert explained.rows == Kept(kept, rows), where
        assert explained.row_groups == Kept(kept // 1000, 20), where
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
        assert scan.explain().rows == Kept(kept, rows), where
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


def test_long_strings_that_the_writer_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Java's writer leaves bounds of long strings, the upper one with its last character raised."""
    values = [f"{i // 1000:04}" + "x" * 2000 + f"{i:06}" for i in range(4000)]
    table = pa.table({"id": pa.array(range(4000)), "s": pa.array(values)})
    write_spark(spark, tmp_path / "x.orc", table, stride=1000)
    for row in (0, 999, 1000, 2500, 3999):
        scan = scan_of(tmp_path, f"s = '{values[row]}'")
        assert ids(scan) == [row]
        assert scan.explain().rows == Kept(1000, 4000)
    scan = scan_of(tmp_path, f"s > '{values[3998]}'")
    assert ids(scan) == [3999]
    assert ids(scan_of(tmp_path, f"s > '{values[3999]}'")) == []


def test_strings_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """Java's statistics have U+FFFD for bytes that are not UTF-8: it may be greater or less than these."""
    # row groups of b"a\x80" and U+1F600, of b"\xff", and of "b"
    odd = (
        "IF(id < 1000, IF(id = 7, unhex('6180'), encode('\U0001f600', 'UTF-8')), IF(id < 2000, X'FF', X'62'))"
    )
    frame = spark.range(0, 3000, 1, 1).selectExpr("id", f"CAST({odd} AS STRING) AS s")
    frame.write.option("orc.row.index.stride", "1000").orc(str(tmp_path / "t"))
    rows = spark.read.orc(str(tmp_path / "t"))
    for where, groups in (
        ("s = '\U0001f600'", 2),
        ("s > '\U0001f600'", 1),
        ("s < 'a\u0080'", 2),
        ("s < 'az'", 2),
        ("s = 'b'", 3),
        ("s < 'c'", 3),
    ):
        scan = scan_of(tmp_path / "t", where)
        assert ids(scan) == sorted(row.id for row in rows.where(where).collect()), where
        assert scan.explain().rows == Kept(1000 * groups, 3000), where


def test_nan_is_not_lost(tmp_path: Path) -> None:
    """Writers leave NaN out of the maximum, and Spark finds it greater than all numbers."""
    x = [float(i % 10) for i in range(1000)]
    for i in (0, 150, 299, 700):
        x[i] = math.nan
    table = pa.table({"id": pa.array(range(1000)), "x": pa.array(x)})
    write_pyarrow(tmp_path / "x.orc", table, stride=100, bloom_filter_columns=[2])
    for where, expected in (
        ("x > 100", [0, 150, 299, 700]),
        ("x = CAST('NaN' AS DOUBLE)", [0, 150, 299, 700]),
        ("x >= CAST('NaN' AS DOUBLE)", [0, 150, 299, 700]),
        ("x < 1", [i for i in range(1000) if x[i] < 1]),
        ("x < 0", []),
    ):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == expected, where
        assert reasons(scan)[Reason.UNRELIABLE_STATISTICS] == ["x in x.orc"], where
    # the row groups without NaN are ruled out all the same
    assert scan_of(tmp_path, "x > 100").explain().rows == Kept(400, 1000)


@pytest.mark.parametrize("nulls", [0.5, 0])
def test_values_under_null_structs_within_structs(tmp_path: Path, nulls: float) -> None:
    """The writer counts them, and all readers give them to later rows: pyarrow, as Spark does, in each stripe."""
    count = 4000
    mask = np.random.default_rng(3).random(count) < nulls
    inner = pa.StructArray.from_arrays([pa.array(range(count))], ["v"], mask=pa.array(mask))
    outer = pa.StructArray.from_arrays([inner], ["s"])
    table = pa.table({"id": pa.array(range(count)), "s": outer})
    path = tmp_path / "x.orc"
    write_pyarrow(path, table, stride=1000, bloom_filter_columns=[4])
    rows = pa.orc.read_table(path).to_pylist()
    # the writer's mistake: if it is mended, this is no test of anything
    assert (rows == table.to_pylist()) == (not nulls)
    values = [row["s"]["s"] and row["s"]["s"]["v"] for row in rows]
    for wanted in (5, 1500, 2999):
        expected = [i for i in range(count) if values[i] == wanted]
        scan = scan_of(tmp_path, f"s.s.v = {wanted}")
        assert ids(scan) == expected
        told = reasons(scan).get(Reason.UNRELIABLE_STATISTICS)
        assert told == (["s.s.v in x.orc"] if nulls else None)
        assert scan.explain().rows == (Kept(count, count) if nulls else Kept(1000, count))
    for where in ("s.s.v IS NULL", "s.s IS NULL"):
        assert scan_of(tmp_path, where).count() == values.count(None) == mask.sum()


def test_negative_zero(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(400)), "x": pa.array([-0.0] * 200 + [0.0] * 200)})
    write_pyarrow(tmp_path / "x.orc", table, stride=100, bloom_filter_columns=[2])
    for where in ("x = 0", "x = -0.0D", "x >= 0", "x <= -0.0D", "x IN (0, 5)"):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == list(range(400)), where
        if "5" not in where:
            assert scan.explain().exact, where
    assert ids(scan_of(tmp_path, "x > -0.0D OR x < 0")) == []


def test_files_of_other_types_than_the_table(tmp_path: Path) -> None:
    """Their statistics are of their own types, the predicate of the table's."""
    narrow = {
        "id": pa.array(range(1000)),
        "n": pa.array(range(1000), pa.int16()),
        "f": pa.array([i / 4 for i in range(1000)], pa.float32()),
        "d": pa.array([Decimal(i).scaleb(-1) for i in range(1000)], pa.decimal128(5, 1)),
    }
    wide = {
        "id": pa.array(range(1000, 2000)),
        "n": pa.array([i * 10**12 for i in range(1000)], pa.int64()),
        "f": pa.array([i * 1e100 for i in range(1000)], pa.float64()),
        "d": pa.array([Decimal(i).scaleb(-4) for i in range(1000)], pa.decimal128(30, 4)),
        "later": pa.array(["x"] * 1000),
    }
    write_pyarrow(tmp_path / "1.orc", pa.table(narrow), stride=100, bloom_filter_columns=[2, 3, 4])
    write_pyarrow(tmp_path / "2.orc", pa.table(wide), stride=100, bloom_filter_columns=[2, 3, 4])
    for where, expected, most in (
        ("n = 7", [7], 200),
        ("n = 7000000000000", [1007], 100),
        ("n BETWEEN 990 AND 1000000000000", [*range(990, 1000), 1001], 200),
        ("f = 1.25", [5], 200),
        ("f > 1e99", list(range(1001, 2000)), 1000),
        ("d = 0.1", [1], 1100),
        ("d = 0.0003", [1003], 1100),
        ("d = 99.8", [998], 100),
        ("d BETWEEN 0.09 AND 0.0901", [1900, 1901], 200),
        ("later = 'x'", list(range(1000, 2000)), 1000),
        ("later IS NULL", list(range(1000)), 1000),
    ):
        scan = scan_of(tmp_path, where)
        assert ids(scan) == expected, where
        rows = scan.explain().rows
        assert rows is not None
        assert rows.kept is not None
        assert rows.kept <= most, where


def test_char_with_and_without_blanks(tmp_path: Path) -> None:
    import pyorc

    values = [f"{i // 100}" + " " * (i % 3) for i in range(900)]
    with (tmp_path / "x.orc").open("wb") as file:
        options: dict[str, Any] = {"row_index_stride": 100, "batch_size": 100, "bloom_filter_columns": ["c"]}
        with pyorc.Writer(file, "struct<id:bigint,c:char(4)>", **options) as writer:
            writer.writerows(enumerate(values))
    for literal in ("5", "5 ", "5   "):
        scan = scan_of(tmp_path, f"c = '{literal}'")
        assert ids(scan) == list(range(500, 600)), literal
        assert scan.explain().rows == Kept(100, 900)


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
    assert scan.explain().rows == Kept(3000, 3000)

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
        (Domain.between(3, 5), Extent(10, 0, 6, 9), Verdict.NO_ROW_MATCHES),
        (Domain.between(3, 5), Extent(10, 0, 5, 9), Verdict.ROWS_MIGHT_MATCH),
        (Domain.between(3, 5), Extent(10, 0, 3, 5), Verdict.EVERY_ROW_MATCHES),
        (Domain.between(3, 5), Extent(10, 1, 3, 5), Verdict.ROWS_MIGHT_MATCH),
        (Domain.of([Range(3, 5)], null_allowed=True), Extent(10, 1, 3, 5), Verdict.EVERY_ROW_MATCHES),
        (Domain.only_null(), Extent(10, 0, 3, 5), Verdict.NO_ROW_MATCHES),
        (Domain.only_null(), Extent(10, 1, 3, 5), Verdict.ROWS_MIGHT_MATCH),
        (Domain.only_null(), Extent(10, 10, None, None), Verdict.EVERY_ROW_MATCHES),
        (Domain.not_null(), Extent(10, 10, None, None), Verdict.NO_ROW_MATCHES),
    ],
)
def test_verdicts(domain: Domain, extent: Extent, expected: Verdict) -> None:
    assert judge(domain, extent) is expected


def test_an_answer_that_another_thread_drops_is_given_all_the_same(tmp_path: Path) -> None:
    write_pyarrow(
        tmp_path / "t" / "0.orc", pa.table({"a": list(range(100))}), "none", stripe=1 << 26, stride=10
    )
    plan = hindex.connect().table(str(tmp_path / "t")).scan("a < 15").plan()
    (leaf,) = leaves(plan.filter)
    with execute.OpenTask(plan.tasks[0]) as opened:
        found = OrcAnswers(opened.reader, "0.orc", [])

        class Dropped(dict[Any, Any]):
            """Is no longer in use as soon as something was looked for, or added."""

            def __contains__(self, key: object) -> bool:
                found._recent = Dropped()
                return super().__contains__(key)

            def __setitem__(self, key: object, value: object) -> None:
                found._recent = Dropped()
                super().__setitem__(key, value)

        for recent in (Dropped(), Dropped({(0, leaf): None}), Dropped(dict.fromkeys(range(100)))):
            expected = None if (0, leaf) in recent else 20
            found._recent = recent
            answer = found.statistics(0, leaf, opened.reader.column_type("a"))
            assert (answer and len(answer.bounds.upper)) == expected

"""Random tables without an index: the rows are plain Python's, and no row group is read that could be ruled out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.orc import OrcReader
from hindex.sql.predicate import Literal, LiteralKind, quote_string
from tests.support.cases import cases
from tests.support.small import ids
from tests.support.writers import write_pyarrow, write_pyorc

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


@pytest.mark.slow
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
    for _ in range(cases(25, 60)):
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
    """Return True if a row group's minimum, maximum and null flag leave anything open."""
    present = sorted(kind.order(value) for value in values if value is not None)
    if "IS NULL" in text:
        return len(present) < len(values)
    return bool(present) and overlaps((present[0], present[-1]))

"""Conditions on expressions and elements, beside Spark and Lance: ``python -m tests.bench expressions``.

The table has addresses in mixed case, up to five of 5,000 tags a row, a map of attributes and JSON. Twenty rows, spread
evenly, have one tag more, and a country of their own. hindex and Spark read the same ORC files, by BITMAP indexes on
the expressions and without; Lance has a copy and a LABEL_LIST index on tags.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

import hindex
from hindex.cli.progress import progress_for
from hindex.maintain.results import BuildEstimate
from hindex.spark.session import local_session
from tests.bench.compare import digest
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.substrings import engine_runs, stripes_of
from tests.bench.timing import in_turn, ratios, seconds

FILE_ROWS = 500_000
#: Rows of a table at scale 1.
SCALE_ROWS = 2_000_000
TAGS, COUNTRIES, ADDRESSES = 5_000, 200, 200_000
RARE_ROWS = 20
INDEXES = {
    "email": "lower(email)",
    "month": "year(day) * 12 + month(day)",
    "tags": "tags[*]",
    "country": "attrs['country']",
    "json": "get_json_object(payload, '$.user.id')",
}
#: Conditions in the SQL of hindex and Spark, and in Lance's, which has an index for one.
CONDITIONS = {
    "lower(email) = ...": ("lower(email) = 'user123456@example.com'", None),
    "year and month": ("year(day) * 12 + month(day) = 24250", None),
    "array_contains, 20 rows": ("array_contains(tags, 'rare')", "array_contains(tags, 'rare')"),
    "array_contains, rare": ("array_contains(tags, 'tag4990')", "array_contains(tags, 'tag4990')"),
    "array_contains, frequent": ("array_contains(tags, 'tag40')", "array_contains(tags, 'tag40')"),
    "two tags": (
        "array_contains(tags, 'tag40') AND array_contains(tags, 'tag41')",
        "array_contains(tags, 'tag40') AND array_contains(tags, 'tag41')",
    ),
    "get_json_object = ...": ("get_json_object(payload, '$.user.id') = '123456'", None),
    "attrs['country'], 20 rows": ("attrs['country'] = 'rare'", None),
    "attrs['country'] = ...": ("attrs['country'] = 'C199'", None),
}


def run(options: argparse.Namespace) -> SectionResult:
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    spark = local_session("local[*]")
    path = options.data / f"expressions-{options.scale:g}"
    if not (path / "done").exists():
        write_events(path / "orc", round(SCALE_ROWS * options.scale))
        (path / "done").touch()
    shutil.rmtree(path / "store", ignore_errors=True)
    table = hindex.connect(str(path / "store"), spark).table(str(path / "orc"))
    spark.range(1).count()
    built: dict[str, tuple[float, int, int | None]] = {}
    for name, expression in INDEXES.items():
        estimate = table.create_index(name, expression, dry_run=True)
        assert isinstance(estimate, BuildEstimate)
        taken = seconds(partial(table.create_index, name, expression))
        built[f"hindex: {expression}"] = taken, table.index(name).size_bytes, estimate.index_bytes
    lance, built["Lance: LABEL_LIST of tags"] = _lance(path)
    measured: dict[str, dict[str, Any]] = {}
    different = []
    progress = progress_for(sys.stderr)
    progress.start(len(CONDITIONS), "conditions on expressions and elements")
    for name, (sql, of_lance) in CONDITIONS.items():
        runs = engine_runs(table, spark, path / "orc", lance, ["id", "email"], sql, of_lance)
        results = {engine: run() for engine, run in runs.items()}
        if len({digest(result) for result in results.values()}) > 1:
            different.append(name)
        in_turn(options.warmups, *runs.values())
        times = in_turn(options.rounds, *runs.values())
        measured[name] = {
            "rows": results["hindex"].num_rows,
            "ms": dict(zip(runs, times, strict=True)),
        }
        progress.advance()
    progress.finish()
    spark.stop()
    tables = [_build_table(built), _query_table(measured)]
    return SectionResult({"measured": measured, "built": built, "tables": tables}, different)


def write_events(directory: Path, rows: int) -> None:
    """Write the table as files of half a million rows."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = np.random.default_rng(7)
    words = pa.array([*(f"tag{tag}" for tag in range(TAGS)), "rare"])
    marked = np.arange(rows // (2 * RARE_ROWS), rows, rows // RARE_ROWS)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        count = min(FILE_ROWS, rows - start)
        people = rng.integers(0, ADDRESSES, count).tolist()
        cases = rng.integers(0, 3, count).tolist()
        names = ("user{}@example.com", "User{}@Example.com", "USER{}@EXAMPLE.COM")
        sizes = rng.integers(0, 6, count)
        # low numbers are more frequent
        tags = np.minimum((rng.random(sizes.sum()) ** 2 * TAGS).astype(np.int64), TAGS - 1)
        countries = [f"C{country}" for country in (rng.random(count) ** 3 * COUNTRIES).astype(int)]
        for row in marked[(marked >= start) & (marked < start + count)] - start:
            tags = np.insert(tags, sizes[:row].sum(), TAGS)
            sizes[row] += 1
            countries[row] = "rare"
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        attributes = [[("country", country), ("plan", f"p{len(country)}")] for country in countries]
        columns = {
            "id": pa.array(range(start, start + count), pa.int64()),
            "day": pa.array(rng.integers(18_000, 20_000, count), pa.int32()).cast(pa.date32()),
            "email": pa.array([names[case].format(one) for case, one in zip(cases, people, strict=True)]),
            "tags": pa.ListArray.from_arrays(offsets, words.take(pa.array(tags))),
            "attrs": pa.array(attributes, pa.map_(pa.string(), pa.string())),
            "payload": pa.array(map(_payload, range(start, start + count), people, sizes.tolist())),
        }
        pyarrow.orc.write_table(pa.table(columns), str(directory / f"{number:04}.orc"), compression="zstd")


def _payload(event: int, person: int, items: int) -> str:
    """Return a document of some 120 characters."""
    return json.dumps(
        {
            "event": event,
            "user": {"id": str(person), "name": f"user {person}"},
            "items": [{"sku": f"S{event % 997}-{item}", "n": item} for item in range(items % 3)],
            "total": event % 10_000 / 100,
        }
    )


def _lance(path: Path) -> tuple[Any, tuple[float, int, int | None]]:
    """Return a copy of the table in Lance's format, with the seconds to build its index, and the index's bytes."""
    import lance

    directory = path / "lance"
    shutil.rmtree(directory, ignore_errors=True)
    # Lance has no maps
    stripes = (batch.drop_columns("attrs") for batch in stripes_of(path / "orc"))
    first = next(stripes)
    dataset = lance.write_dataset(
        pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], stripes)), str(directory)
    )
    taken = seconds(lambda: dataset.create_scalar_index("tags", "LABEL_LIST"))
    (description,) = dataset.describe_indices()
    return dataset, (taken, description.total_size_bytes, None)


def _build_table(built: Mapping[str, tuple[float, int, int | None]]) -> dict[str, Any]:
    rows = [
        [name, f"{taken:,.1f}", f"{size / 1e6:,.2f}", "" if estimate is None else f"{estimate / 1e6:,.2f}"]
        for name, (taken, size, estimate) in built.items()
    ]
    return {"headings": ["index", "build s", "MB", "MB by DRY RUN"], "rows": rows, "right": 1}


def _query_table(measured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for name, item in measured.items():
        times = item["ms"]
        engines = [engine for engine in ("spark", "lance") if engine in times]
        medians = {engine: f"{statistics.median(values):,.1f}" for engine, values in times.items()}
        of = {engine: ratio_text(ratios(times[engine], times["hindex"])) for engine in engines}
        rows.append(
            [
                name,
                f"{item['rows']:,}",
                medians["hindex"],
                *(medians.get(engine, "") for engine in ("spark", "lance")),
                *(of.get(engine, "") for engine in ("spark", "lance")),
            ]
        )
    headings = ["condition", "rows", "hindex ms", "Spark ms", "Lance ms", "of Spark", "of Lance"]
    return {"headings": headings, "rows": rows, "right": 1}


SECTION = Section(
    "expressions", "expressions and elements by indexes on them, beside Spark and Lance", run, scale=1
)

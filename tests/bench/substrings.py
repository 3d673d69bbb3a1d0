"""Conditions on parts of strings, beside Spark and Lance: ``python -m tests.bench substrings``.

The table is a log: messages of some 120 characters from four templates, with numbers, addresses and a token of sixteen
hexadecimal digits. Twenty rows, spread evenly, have one token more. hindex and Spark read the same ORC files, by an
NGRAM index and without; Lance has a copy of them and its own NGRAM index.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

import hindex
from hindex.cli.progress import progress_for
from hindex.spark.session import local_session
from tests.bench.compare import digest
from tests.bench.report import ratio_text
from tests.bench.section import Section, SectionResult
from tests.bench.timing import in_turn, ratios, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS = 500_000
#: Rows of a table at scale 1.
SCALE_ROWS = 2_000_000
RARE, RARE_ROWS = "trace-7f3a9c", 20
TEMPLATES = (
    "INFO  [exec-{}] c.e.api.UserController - GET /users/{}/orders?page={} took {} ms, session={}, client=10.{}.{}.{}",
    "WARN  [pool-{}] c.e.db.Connections - connection {} returned after {} tries, {} ms, lease={} from host 10.{}.{}.{}",
    "ERROR [worker-{}] c.e.jobs.Payments - payment {} failed with code {} after {} ms: id {}, gateway 10.{}.{}.{} down",
    "DEBUG [cache-{}] c.e.cache.RedisCache - key user:{} evicted, {} entries, ttl {}, etag {}, shard 10.{}.{}.{}, done",
)
#: The bounds of the templates' numbers, but for the fifth, which is the token.
_BOUNDS = (200, 5_000_000, 40, 3000, 0, 255, 255, 255)
#: Conditions in the SQL of hindex and Spark, and in Lance's; Lance has no index for patterns with wildcards inside.
CONDITIONS = {
    "20 rows: LIKE": (f"message LIKE '%{RARE}%'", f"contains(message, '{RARE}')"),
    "20 rows: ILIKE": (f"message ILIKE '%{RARE.upper()}%'", None),
    "20 rows: RLIKE": (f"message RLIKE 'nowhere|{RARE[:8]}.{RARE[9:]}'", None),
    "20 rows: two parts": (f"message LIKE '%{RARE}%down%' OR message LIKE '%{RARE}%client=%'", None),
    "1 token": ("message LIKE '%{token}%'", "contains(message, '{token}')"),
    "no row": ("contains(message, 'no such text')", "contains(message, 'no such text')"),
    "0.2 % of the rows": (
        "contains(message, 'failed with code 17 after 1')", "contains(message, 'failed with code 17 after 1')"
    ),
}  # fmt: skip


def run(options: argparse.Namespace) -> SectionResult:
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    spark = local_session("local[*]")
    path = options.data / f"log-{options.scale:g}"
    rows = round(SCALE_ROWS * options.scale)
    if not (path / "done").exists():
        write_log(path / "orc", rows)
        (path / "done").touch()
    shutil.rmtree(path / "store", ignore_errors=True)
    table = hindex.connect(str(path / "store"), spark).table(str(path / "orc"))
    spark.range(1).count()
    built: dict[str, tuple[float, int]] = {}
    build_seconds = seconds(lambda: table.create_index("parts", "message", "ngram"))
    built["hindex"] = build_seconds, table.index("parts").size_bytes
    lance, built["Lance"] = _lance(path)
    token = table.scan(f"id = {rows // 2}", ["message"]).to_arrow()["message"][0].as_py()
    token = max(token.replace(",", " ").replace("=", " ").split(), key=lambda word: (len(word) == 16, word))
    measured: dict[str, dict[str, Any]] = {}
    different = []
    progress = progress_for(sys.stderr)
    progress.start(len(CONDITIONS), "conditions on parts of strings")
    for name, (sql, of_lance) in CONDITIONS.items():
        sql, of_lance = sql.format(token=token), of_lance and of_lance.format(token=token)
        runs = engine_runs(table, spark, path / "orc", lance, ["id", "message"], sql, of_lance)
        results = {engine: run() for engine, run in runs.items()}
        if len({digest(result) for result in results.values()}) > 1:
            different.append(name)
        in_turn(options.warmups, *runs.values())
        times = in_turn(options.rounds, *runs.values())
        kept = table.scan(sql).explain().rows
        measured[name] = {
            "rows": results["hindex"].num_rows,
            "candidates": None if kept is None else kept.kept,
            "ms": dict(zip(runs, times, strict=True)),
        }
        progress.advance()
    progress.finish()
    spark.stop()
    orc_bytes = sum(file.stat().st_size for file in (path / "orc").glob("*.orc"))
    tables = [_build_table(built, orc_bytes), _query_table(measured)]
    return SectionResult({"measured": measured, "built": built, "tables": tables}, different)


def messages(rng: np.random.Generator, rows: int) -> list[str]:
    """Return random messages."""
    chosen = rng.integers(0, len(TEMPLATES), rows).tolist()
    numbers = [rng.integers(0, bound or 1, rows).tolist() for bound in _BOUNDS]
    numbers[4] = [f"{token:016x}" for token in rng.integers(0, 1 << 62, rows).tolist()]
    return [TEMPLATES[at].format(*row) for at, row in zip(chosen, zip(*numbers, strict=True), strict=True)]


def write_log(directory: Path, rows: int) -> None:
    """Write the table as files of half a million rows."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = np.random.default_rng(7)
    marked = set(range(rows // (2 * RARE_ROWS), rows, rows // RARE_ROWS))
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        count = min(FILE_ROWS, rows - start)
        texts = messages(rng, count)
        for row in marked.intersection(range(start, start + count)):
            texts[row - start] += f" {RARE}"
        columns = {
            "id": pa.array(range(start, start + count), pa.int64()),
            "ts": pa.array(np.arange(start, start + count) * 1000, pa.timestamp("us")),
            "message": pa.array(texts),
        }
        pyarrow.orc.write_table(pa.table(columns), str(directory / f"{number:04}.orc"), compression="zstd")


def stripes_of(directory: Path) -> Iterator[pa.RecordBatch]:
    """Return the stripes of a directory's files."""
    for file in sorted(directory.glob("*.orc")):
        reader = pyarrow.orc.ORCFile(file)
        for stripe in range(reader.nstripes):
            yield reader.read_stripe(stripe)


def _lance(path: Path) -> tuple[Any, tuple[float, int]]:
    """Return a copy of the table in Lance's format, with the seconds to build its index, and the index's bytes."""
    import lance

    directory = path / "lance"
    shutil.rmtree(directory, ignore_errors=True)
    schema = pyarrow.orc.ORCFile(sorted((path / "orc").glob("*.orc"))[0]).schema
    dataset = lance.write_dataset(
        pa.RecordBatchReader.from_batches(schema, stripes_of(path / "orc")), str(directory)
    )
    build_seconds = seconds(lambda: dataset.create_scalar_index("message", "NGRAM"))
    (description,) = dataset.describe_indices()
    return dataset, (build_seconds, description.total_size_bytes)


def engine_runs(
    table: hindex.Table,
    spark: SparkSession,
    path: Path,
    lance: Any,
    columns: list[str],
    sql: str,
    of_lance: str | None,
) -> dict[str, Callable[[], pa.Table]]:
    """Return functions that read the same rows, by engine."""
    runs: dict[str, Callable[[], pa.Table]] = {
        "hindex": lambda: table.scan(sql, columns).to_arrow(),
        "spark": lambda: spark.read.orc(str(path)).where(sql).select(columns).toArrow(),
    }
    if of_lance is not None:
        runs["lance"] = lambda: lance.to_table(columns, filter=of_lance)
    return runs


def _build_table(built: Mapping[str, tuple[float, int]], orc_bytes: int) -> dict[str, Any]:
    rows = [
        [name, f"{build_seconds:,.1f}", f"{size / 1e6:,.1f}", f"{100 * size / orc_bytes:.0f} %"]
        for name, (build_seconds, size) in built.items()
    ]
    return {"headings": ["NGRAM index of", "build s", "MB", "of the ORC files"], "rows": rows, "right": 1}


def _query_table(measured: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for name, item in measured.items():
        times = item["ms"]
        others = [(f"{statistics.median(times[e]):,.0f}" if e in times else "") for e in ("spark", "lance")]
        rows.append(
            [
                name,
                f"{item['rows']:,}",
                "" if item["candidates"] is None else f"{item['candidates']:,}",
                f"{statistics.median(times['hindex']):,.1f}",
                *others,
                *(
                    ratio_text(ratios(times[engine], times["hindex"])) if engine in times else ""
                    for engine in ("spark", "lance")
                ),
            ]
        )
    headings = [
        "condition",
        "rows",
        "candidates",
        "hindex ms",
        "Spark ms",
        "Lance ms",
        "of Spark",
        "of Lance",
    ]
    return {"headings": headings, "rows": rows, "right": 1}


SECTION = Section("substrings", "parts of strings by an NGRAM index, beside Spark and Lance", run, scale=1)

"""What sections found, as Markdown: printed after a run, and written into ``docs/benchmark-tables.md``."""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.contest import COLD, FIRST, OURS, WARM
from tests.bench.data import Dataset
from tests.bench.engines import ENGINES, engine_class
from tests.bench.options import DEFAULT_DIRECTORY

DOCS = Path("docs", "benchmark-tables.md")
PLOTS = Path("docs", "plots")

#: What stands between these lines is replaced by ``report``; what stands there before is kept.
_BLOCK = r"<!-- measured: {} -->\n.*?<!-- end -->"

_PHASES = {
    WARM: "Warm: the process has answered the query before",
    FIRST: "First time in a warm process: what engines keep between queries is dropped",
    COLD: "Cold: from the start of a process to its answer",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report", help="write what was measured into docs/benchmark-tables.md, with its plots"
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_DIRECTORY, help="where results are kept")


def write(options: argparse.Namespace) -> int:
    """Put the tables of all full runs in their places in the docs, and draw the plots that they allow."""
    from tests.bench.plots import draw

    found = {}
    for path in sorted((options.data / "results").glob("*.json")):
        document = json.loads(path.read_text())
        if document.get("different"):
            print(f"{path} is left out: its rows differ")
        elif not document["quick"]:
            found[document["section"]] = document
    drawn: dict[str, list[str]] = {}
    for section, title, path in draw(found, PLOTS):
        print(f"drew {path}")
        drawn.setdefault(section, []).append(f"![{title}]({path.relative_to(DOCS.parent)})")
    page = DOCS.read_text()
    for section, document in found.items():
        body = "\n\n".join([*drawn.get(section, ()), text(document)])
        block = f"<!-- measured: {section} -->\n{body}\n<!-- end -->"
        # a backslash in a replacement would be an escape
        page, times = re.subn(_BLOCK.format(section), block.replace("\\", r"\\"), page, flags=re.DOTALL)
        print(f"{section}: {'written' if times else f'{DOCS} has no place for it'}")
    DOCS.write_text(page)
    return 0


def text(document: dict[str, Any]) -> str:
    """A section's Markdown."""
    parts = rows_part(document) if "tables" in document else contests(document)
    return "\n\n".join([*parts, _origin(document)])


def _origin(document: dict[str, Any]) -> str:
    told = document["machine"]
    versions = ", ".join(
        f"{name} {told[name]}"
        for name in ("python", "hindex-orc", "pyspark", "pyarrow", "numpy")
        if name in told
    )
    return (
        f"*{document['date']}, `{document['command']}`, {document['seconds']:,.0f} s on {told['processors']} "
        f"processors with {told['memory_gib']:g} GiB; {versions}.*"
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: int = 1) -> str:
    """A Markdown table whose source is aligned; columns from ``right`` on are numbers."""
    cells = [list(headings), *map(list, rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if at >= right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (width - 1) + ":") if at >= right else "-" * width for at, width in enumerate(widths)]
    return "\n".join([line(headings), f"| {' | '.join(rule)} |", *map(line, cells[1:])])


def ratios(result: dict[str, Any], engine: str, phase: str) -> list[float]:
    """An engine's times divided by hindex's, round by round; empty where either has none."""
    times = result["ms"].get(phase, {})
    # an engine that was too slow has fewer rounds
    return [theirs / ours for theirs, ours in zip(times.get(engine, ()), times.get(OURS, ()), strict=False)]


def ratio_text(values: Sequence[float]) -> str:
    """The median, and from the least to the greatest."""
    if not values:
        return "-"
    return f"{_short(statistics.median(values))} ({_short(min(values))} - {_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def contests(document: dict[str, Any]) -> list[str]:
    """For each table and phase the ratios of every engine, sizes and work; then who took part, and the goals."""
    parts = []
    told: set[str] = set()
    for dataset, engines in document["engines"].items():
        results = [result for result in document["results"] if result["dataset"] == dataset]
        for phase, heading in _PHASES.items():
            rows = _ratio_rows([r for r in results if phase in r["ms"]], engines, phase)
            if rows:
                shown = [engines[name]["label"] for name in _others(engines)]
                parts += [f"**{dataset}.** {heading}.", table(["query", "rows", "hindex ms", *shown], rows)]
        problems = [f"- {r['query']}, {name}: {why}" for r in results for name, why in r["problems"].items()]
        if problems:
            parts.append("Not answered:\n\n" + "\n".join(problems))
        parts.append(_engine_table(engines))
        work = _work_rows(results)
        if work:
            headings = ["query", "ranges", "MB fetched", "MB of chunks", "ratio", "row groups", "index pages"]
            parts += [
                f"What hindex reads for them, of {dataset}, with nothing in memory:",
                table(headings, work),
            ]
        queries = [f"- {r['query']}: `{r['text']}`" for r in results if r["query"] not in told]
        told.update(r["query"] for r in results)
        if queries:
            parts.append(
                "<details><summary>The queries</summary>\n\n" + "\n".join(queries) + "\n\n</details>"
            )
    return [*parts, *goals(document), _who(document["engines"].values())]


def _others(engines: dict[str, Any]) -> list[str]:
    return [name for name in ENGINES if name in engines and name != OURS and not engines[name]["unavailable"]]


def _ratio_rows(results: Sequence[dict[str, Any]], engines: dict[str, Any], phase: str) -> list[list[str]]:
    rows = []
    for result in results:
        ours = result["ms"][phase].get(OURS)
        if ours:
            cells = [ratio_text(ratios(result, name, phase)) for name in _others(engines)]
            rows.append([result["query"], f"{result['rows']:,}", f"{statistics.median(ours):,.1f}", *cells])
    return rows


def _engine_table(engines: dict[str, Any]) -> str:
    rows = []
    for found in engines.values():
        if found["unavailable"]:
            continue
        made, sizes = found["prepared"], found["sizes"]
        seconds = [f"{made[what]:.1f} {what}" for what in ("convert", "index") if what in made]
        rows.append(
            [
                f"{found['label']} {found['version']}",
                f"{sizes['data'] / 1e6:,.1f}",
                f"{sizes['index'] / 1e6:,.1f}",
                ", ".join(seconds) or "-",
                f"{made['cpu_seconds']:.1f}" if seconds else "-",
                f"{made['peak_bytes'] / 1e6:,.0f}" if seconds else "-",
            ]
        )
    return table(
        ["engine", "data MB", "index MB", "seconds to prepare", "processor seconds", "peak MB"], rows
    )


def _who(tables: Iterable[dict[str, Any]]) -> str:
    """The settings of all that took part, and why others did not, each once."""
    lines = []
    for engines in tables:
        for found in engines.values():
            if found["unavailable"]:
                lines.append(f"- **{found['label']}** did not run: {found['unavailable']}")
            else:
                lines.append(f"- **{found['label']}**: {found['settings']}")
    return "\n".join(dict.fromkeys(lines))


def _work_rows(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for result in results:
        counts = result["counts"]
        if counts:
            ratio = f"{counts['bytes_fetched'] / max(counts['chunk_bytes'], 1):.2f}"
            rows.append(
                [
                    result["query"],
                    f"{counts['ranges']:,}",
                    f"{counts['bytes_fetched'] / 1e6:,.2f}",
                    f"{counts['chunk_bytes'] / 1e6:,.2f}",
                    ratio if _sparse(result) else "-",
                    f"{counts['row_groups']:,}",
                    f"{counts['index_pages']:,}",
                ]
            )
    return rows


def _sparse(result: dict[str, Any]) -> bool:
    """True if chunks were decompressed."""
    counts = result["counts"]
    return bool(counts and counts["chunk_bytes"])


#: What hindex sets itself: queries, other engines, and at least so many times as fast as the best of these.
_GOALS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], float], ...] = (
    ("20x Spark on points", ("point-orderkey", "point-partkey"), ("spark",), 20),
    ("10x chDB on points", ("point-orderkey", "point-partkey"), ("chdb",), 10),
    ("2x Spark where few rows match in every row group", ("every-group", "and-3", "in-3"), ("spark",), 2),
    ("1x chDB there", ("every-group", "and-3", "in-3"), ("chdb",), 1),
    ("an eighth of Lance on points", ("point-orderkey", "point-partkey"), ("lance",), 1 / 8),
)
#: At any selectivity, of the best that reads the files where they are.
_IN_PLACE_GOAL = 0.9
#: Bytes fetched, by those of the chunks that hold the rows.
_BYTES_GOAL = 1.1


def goals(document: dict[str, Any]) -> list[str]:
    """Which of the goals are reached on each table of lineitem."""
    rows = [
        [dataset, *row]
        for dataset in document["engines"]
        if Dataset.parse(dataset).table == "lineitem"
        for row in _goal_rows({r["query"]: r for r in document["results"] if r["dataset"] == dataset})
    ]
    if not rows:
        return []
    return ["Goals:", table(["table", "goal", "query", "ratio", "reached"], rows, right=3)]


def _goal_rows(results: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    for goal, queries, engines, least in _GOALS:
        for query in queries:
            for engine in engines:
                values = ratios(results[query], engine, WARM) if query in results else []
                if values:
                    median = statistics.median(values)
                    yield [goal, query, _short(median), "yes" if median >= least else "missed"]
    in_place = [name for name in ENGINES if name != OURS and engine_class(name).in_place]
    standings = [
        (min(medians), query)
        for query, result in results.items()
        if (medians := [statistics.median(v) for name in in_place if (v := ratios(result, name, WARM))])
    ]
    if standings:
        worst, query = min(standings)
        reached = "yes" if worst >= _IN_PLACE_GOAL else "missed"
        yield [f"{_IN_PLACE_GOAL}x the best in place, at worst", query, _short(worst), reached]
    read = [
        (r["counts"]["bytes_fetched"] / r["counts"]["chunk_bytes"], name)
        for name, r in results.items()
        if _sparse(r)
    ]
    if read:
        most, query = max(read)
        reached = "yes" if most <= _BYTES_GOAL else "missed"
        yield [f"at most {_BYTES_GOAL}x the chunks' bytes read", query, _short(most), reached]


def rows_part(document: dict[str, Any]) -> list[str]:
    """Sections that found tables already."""
    parts = []
    for found in document["tables"]:
        if found.get("title"):
            parts.append(found["title"])
        parts.append(table(found["headings"], found["rows"], right=found.get("right", 1)))
    return [*parts, *document.get("notes", ())]

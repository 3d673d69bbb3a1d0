"""Format section results as Markdown: printed after a run, and written into ``docs/benchmark-tables.md``."""

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

#: ``report`` replaces the text between these lines, and leaves the rest of the page.
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
    """Write the tables of all whole runs into the docs, and draw the plots whose data is there."""
    from tests.bench.plots import draw

    documents = {}
    for path in sorted((options.data / "results").glob("*.json")):
        document = json.loads(path.read_text())
        if document.get("different") or document.get("failed"):
            print(f"{path} is left out: rows differ or hindex failed")
        elif path.stem == document["section"]:
            documents[document["section"]] = document
    drawn: dict[str, list[str]] = {}
    for section, title, path in draw(documents, PLOTS):
        print(f"drew {path}")
        drawn.setdefault(section, []).append(f"![{title}]({path.relative_to(DOCS.parent)})")
    page = DOCS.read_text()
    for section, document in documents.items():
        body = "\n\n".join([*drawn.get(section, ()), text(document)])
        block = f"<!-- measured: {section} -->\n{body}\n<!-- end -->"
        # a backslash in a replacement would be an escape
        page, times = re.subn(_BLOCK.format(section), block.replace("\\", r"\\"), page, flags=re.DOTALL)
        print(f"{section}: {'written' if times else f'{DOCS} has no place for it'}")
    DOCS.write_text(page)
    return 0


def text(document: dict[str, Any]) -> str:
    """Format a section as Markdown."""
    parts = rows_part(document) if "tables" in document else contests(document)
    return "\n\n".join([*parts, _origin(document)])


def _origin(document: dict[str, Any]) -> str:
    details = document["machine"]
    versions = ", ".join(
        f"{name} {details[name]}"
        for name in ("python", "hindex-orc", "pyspark", "pyarrow", "numpy")
        if name in details
    )
    return (
        f"*{document['date']}, `{document['command']}`, {document['seconds']:,.0f} s on {details['processors']} "
        f"processors with {details['memory_gib']:g} GiB; {versions}.*"
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: int = 1) -> str:
    """Format a Markdown table with an aligned source; columns from ``right`` on are numbers."""
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
    """Divide an engine's times by hindex's, round by round; empty if either has none."""
    times = result["ms"].get(phase, {})
    # an engine that was too slow has fewer rounds
    return [other / own for other, own in zip(times.get(engine, ()), times.get(OURS, ()), strict=False)]


def ratio_text(values: Sequence[float]) -> str:
    """Format the median, the least and the greatest ratio."""
    if not values:
        return "-"
    return f"{_short(statistics.median(values))} ({_short(min(values))} - {_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def contests(document: dict[str, Any]) -> list[str]:
    """Format each table's ratios by phase, sizes and work; then the goals and the participants."""
    parts = []
    listed: set[str] = set()
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
        queries = [f"- {r['query']}: `{r['text']}`" for r in results if r["query"] not in listed]
        listed.update(r["query"] for r in results)
        if queries:
            parts.append(
                "<details><summary>The queries</summary>\n\n" + "\n".join(queries) + "\n\n</details>"
            )
    return [*parts, *goals(document), _participants(document["engines"].values())]


def _others(engines: dict[str, Any]) -> list[str]:
    return [name for name in ENGINES if name in engines and name != OURS and not engines[name]["unavailable"]]


def _ratio_rows(results: Sequence[dict[str, Any]], engines: dict[str, Any], phase: str) -> list[list[str]]:
    rows = []
    for result in results:
        own_ms = result["ms"][phase].get(OURS)
        if own_ms:
            cells = [ratio_text(ratios(result, name, phase)) for name in _others(engines)]
            rows.append([result["query"], f"{result['rows']:,}", f"{statistics.median(own_ms):,.1f}", *cells])
    return rows


def _engine_table(engines: dict[str, Any]) -> str:
    rows = []
    for engine in engines.values():
        if engine["unavailable"]:
            continue
        cost, sizes = engine["prepared"], engine["sizes"]
        seconds = [f"{cost[step]:.1f} {step}" for step in ("convert", "index") if step in cost]
        rows.append(
            [
                f"{engine['label']} {engine['version']}",
                f"{sizes['data'] / 1e6:,.1f}",
                f"{sizes['index'] / 1e6:,.1f}",
                ", ".join(seconds) or "-",
                f"{cost['cpu_seconds']:.1f}" if seconds else "-",
                f"{cost['peak_bytes'] / 1e6:,.0f}" if seconds else "-",
            ]
        )
    return table(
        ["engine", "data MB", "index MB", "seconds to prepare", "processor seconds", "peak MB"], rows
    )


def _participants(tables: Iterable[dict[str, Any]]) -> str:
    """List the settings of all participants, and the reasons of the absent, each once."""
    lines = []
    for engines in tables:
        for engine in engines.values():
            if engine["unavailable"]:
                lines.append(f"- **{engine['label']}** did not run: {engine['unavailable']}")
            else:
                lines.append(f"- **{engine['label']}**: {engine['settings']}")
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
                    ratio if _has_chunks(result) else "-",
                    f"{counts['row_groups']:,}",
                    f"{counts['index_pages']:,}",
                ]
            )
    return rows


def _has_chunks(result: dict[str, Any]) -> bool:
    """Return True if chunks were decompressed."""
    counts = result["counts"]
    return bool(counts and counts["chunk_bytes"])


#: The goals of hindex: queries, other engines, and the least speed relative to each of these.
_GOALS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], float], ...] = (
    ("20x Spark on points", ("point-orderkey", "point-partkey"), ("spark",), 20),
    ("10x chDB on points", ("point-orderkey", "point-partkey"), ("chdb",), 10),
    ("2x Spark where few rows match in every row group", ("every-group", "and-3", "in-3"), ("spark",), 2),
    ("1x chDB there", ("every-group", "and-3", "in-3"), ("chdb",), 1),
    ("an eighth of Lance on points", ("point-orderkey", "point-partkey"), ("lance",), 1 / 8),
)
#: At any selectivity, the least speed relative to the best engine that reads the files in place.
_IN_PLACE_GOAL = 0.9
#: The most bytes fetched, relative to the bytes of the chunks that hold the rows.
_BYTES_GOAL = 1.1


def goals(document: dict[str, Any]) -> list[str]:
    """Format the goals, reached and missed, on each table of lineitem."""
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
    byte_ratios = [
        (r["counts"]["bytes_fetched"] / r["counts"]["chunk_bytes"], name)
        for name, r in results.items()
        if _has_chunks(r)
    ]
    if byte_ratios:
        greatest, query = max(byte_ratios)
        reached = "yes" if greatest <= _BYTES_GOAL else "missed"
        yield [f"at most {_BYTES_GOAL}x the chunks' bytes read", query, _short(greatest), reached]


def rows_part(document: dict[str, Any]) -> list[str]:
    """Format the tables and notes that a section provides."""
    parts = []
    for item in document["tables"]:
        if item.get("title"):
            parts.append(item["title"])
        parts.append(table(item["headings"], item["rows"], right=item.get("right", 1)))
    return [*parts, *document.get("notes", ())]

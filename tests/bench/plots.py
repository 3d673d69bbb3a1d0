"""Plot the results of sections as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from tests.bench.contest import OURS, WARM
from tests.bench.data import Dataset
from tests.bench.engines import ENGINES

_SIZE = (7.0, 4.2)
_COLOURS = dict(zip(ENGINES, plt.get_cmap("tab10").colors, strict=False))


def draw(documents: dict[str, dict[str, Any]], directory: Path) -> Iterator[tuple[str, str, Path]]:
    """Draw the plots of all measured sections; yield the section, the title and the path of each."""
    plt.rcParams |= {"svg.hashsalt": "hindex", "svg.fonttype": "none", "font.size": 9}
    directory.mkdir(parents=True, exist_ok=True)
    for section, name, title, plot in (
        ("queries", "sizes", "Bytes of data and indexes, and seconds to prepare", _sizes),
        ("selectivity", "selectivity", "Time against rows that match", _selectivity),
        ("selectivity", "bytes", "Bytes read against bytes needed", _bytes),
        ("scales", "scales", "Time against scale", _scales),
        ("planning", "planning", "Seconds against the files of a table", _planning),
    ):
        if section in documents:
            figure, axes = plt.subplots(figsize=_SIZE)
            plot(axes, documents[section])
            path = directory / f"{name}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
            plt.close(figure)
            # matplotlib leaves blanks at the ends of lines
            path.write_text("\n".join(map(str.rstrip, path.read_text().splitlines())) + "\n")
            yield section, title, path


def _engines(document: dict[str, Any]) -> dict[str, str]:
    """Return the labels of all engines that ran."""
    return {
        name: engine["label"]
        for engines in document["engines"].values()
        for name, engine in engines.items()
        if not engine["unavailable"]
    }


def _median(result: dict[str, Any], engine: str) -> float | None:
    times = result["ms"][WARM].get(engine)
    return statistics.median(times) if times else None


def _line(axes: Axes, points: list[tuple[float, float | None]], engine: str, label: str) -> None:
    measured = sorted((x, y) for x, y in points if y is not None)
    axes.plot(
        [x for x, _ in measured],
        [y for _, y in measured],
        marker="o",
        markersize=3,
        label=label,
        color=_COLOURS.get(engine),
        linewidth=2.2 if engine == OURS else 1.2,
    )


def _selectivity(axes: Axes, document: dict[str, Any]) -> None:
    for engine, label in _engines(document).items():
        _line(axes, [(r["rows"], _median(r, engine)) for r in document["results"]], engine, label)
    axes.set(xscale="log", yscale="log", xlabel="rows that match", ylabel="ms, warm, five columns")
    axes.legend()
    axes.grid(alpha=0.3)


def _scales(axes: Axes, document: dict[str, Any]) -> None:
    chosen = [r for r in document["results"] if r["query"] == "point-partkey"]
    for engine, label in _engines(document).items():
        points = [(Dataset.parse(r["dataset"]).scale, _median(r, engine)) for r in chosen]
        _line(axes, points, engine, label)
    axes.set(xscale="log", yscale="log", xlabel="TPC-H scale", ylabel="ms, warm, rows of one part")
    axes.legend()
    axes.grid(alpha=0.3)


def _planning(axes: Axes, document: dict[str, Any]) -> None:
    by_files = {int(files): rounds for files, rounds in document["measured"].items()}
    for name, label in (
        ("list_s", "list a local directory"),
        ("load_s", "read the manifest"),
        ("match_s", "compare a listing with it"),
        ("id_s", "plan, one file kept"),
        ("key_s", "plan, most files kept"),
        ("key_tasks_s", "make the tasks of most files"),
        ("commit_s", "commit ten changed files"),
    ):
        points = [
            (files, statistics.median(item[name] for item in rounds))
            for files, rounds in sorted(by_files.items())
            if name in rounds[0]
        ]
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="data files", ylabel="seconds")
    axes.legend()
    axes.grid(alpha=0.3)


def _sizes(axes: Axes, document: dict[str, Any]) -> None:
    """Plot bytes of data and indexes of the first table, with the seconds to prepare above each bar."""
    engines = {n: e for n, e in next(iter(document["engines"].values())).items() if not e["unavailable"]}
    names = [engine["label"].replace(", ", ",\n") for engine in engines.values()]
    data = [engine["sizes"]["data"] / 1e6 for engine in engines.values()]
    index = [engine["sizes"]["index"] / 1e6 for engine in engines.values()]
    axes.bar(names, data, label="data", color="#9ecae1")
    axes.bar(names, index, bottom=data, label="indexes", color="#e6550d")
    for at, engine in enumerate(engines.values()):
        seconds = sum(engine["prepared"].get(step, 0) for step in ("convert", "index"))
        axes.annotate(f"{seconds:.0f} s", (at, data[at] + index[at]), ha="center", va="bottom")
    axes.set(ylabel="MB; seconds to prepare above")
    axes.tick_params(axis="x", labelrotation=35)
    axes.legend()


def _bytes(axes: Axes, document: dict[str, Any]) -> None:
    counted = sorted((r["rows"], r["counts"]) for r in document["results"] if r["counts"])
    fetched = [(rows, counts["bytes_fetched"] / 1e6) for rows, counts in counted]
    needed = [(rows, counts["chunk_bytes"] / 1e6) for rows, counts in counted]
    for points, label in ((fetched, "bytes read"), (needed, "chunks that had to be read")):
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=label)
    data = next(iter(document["engines"].values()))[OURS]["sizes"]["data"] / 1e6
    axes.axhline(data, linestyle=":", color="grey", label="the files")
    axes.set(xscale="log", yscale="log", xlabel="rows that match", ylabel="MB")
    axes.legend()
    axes.grid(alpha=0.3)

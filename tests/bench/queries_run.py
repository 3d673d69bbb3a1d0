"""Sections that run contests: queries of every kind, selectivity, scales, and orders of the rows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hindex.cli.progress import progress_for
from tests.bench.contest import COLD, FIRST, OURS, Contest, Plan, Result, as_json
from tests.bench.data import Dataset, Order
from tests.bench.engines import ENGINES, engine_class
from tests.bench.making import ensure_table
from tests.bench.processes import Workers
from tests.bench.queries import SUITES, Query
from tests.bench.section import Section, SectionResult

#: ``--quick`` leaves these out: each takes longer to prepare than all the rest.
_SLOW = ("spark-bloom", "spark-sorted", "paimon", "paimon-index")
_DEFAULT = tuple(name for name in ENGINES if not engine_class(name).left_out)
_IN_PLACE = tuple(name for name in ENGINES if engine_class(name).in_place)
_QUICK_QUERIES = (
    "point-orderkey",
    "point-partkey",
    "in-3",
    "and-3",
    "every-group",
    "low-selectivity",
    "count-and",
)
#: Only these queries run in fresh processes, because a Spark session starts slowly.
_COLD_QUERIES = frozenset({"point-partkey", "every-group"})

Part = tuple[Dataset, str]


def _add_options(parser: argparse.ArgumentParser, engines: Sequence[str] = _DEFAULT) -> None:
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=list(engines), help=f"default: {' '.join(engines)}"
    )
    parser.add_argument("--queries", nargs="+", metavar="NAME", help="some of the queries, by their names")
    parser.add_argument(
        "--query-seconds",
        type=float,
        default=20,
        help="no further round of a query begins after so long (default 20); two are always run",
    )
    parser.add_argument(
        "--prepare-seconds",
        type=float,
        default=900,
        help="an engine that takes longer is left out (default 900)",
    )


def run_contests(
    options: argparse.Namespace,
    parts: Sequence[Part],
    phases: tuple[tuple[str, frozenset[str] | None], ...] = (),
) -> SectionResult:
    """Run a contest for each table and suite."""
    progress = progress_for(sys.stderr)
    plan = Plan(
        options.rounds,
        options.warmups,
        options.query_seconds,
        options.prepare_seconds,
        phases,
        options.rebuild,
    )
    results: list[Result] = []
    engines: dict[str, dict[str, Any]] = {}
    profiles: list[dict[str, str]] = []
    left_out = _left_out(options)
    chosen = [name for name in options.engines if name not in left_out]
    for dataset, suite in parts:
        ensure_table(dataset, options.data)
        queries = _queries(suite, dataset.scale, options)
        if not queries:
            continue
        # workers of one table at a time: sessions and caches of others would take memory
        with Workers(options.data) as workers:
            contest = Contest(
                workers, dataset, suite, chosen, plan, progress, partial(print, file=sys.stderr)
            )
            entered = contest.enter()
            contest_results = contest.run(queries, entered)
            if options.profile:
                for result, text in contest.profiles(contest_results, 3):
                    profiles.append({"query": result.query, "dataset": dataset.name, "text": text})
        results += contest_results
        engines[dataset.name] = {name: asdict(report) for name, report in entered.items()} | {
            name: {"label": engine_class(name).label, "settings": "", "unavailable": reason}
            for name, reason in left_out.items()
        }
    _keep_profiles(options.data / "results", profiles)
    different = [
        f"{result.query} of {result.dataset}, {engine}: {difference}"
        for result in results
        for engine, difference in result.different.items()
    ]
    failed = [
        f"{result.query} of {result.dataset}: {result.problems[OURS]}"
        for result in results
        if OURS in result.problems
    ]
    failed += [
        f"{dataset}: {reports[OURS]['unavailable']}"
        for dataset, reports in engines.items()
        if OURS in options.engines and reports[OURS]["unavailable"]
    ]
    data = {"engines": engines, "results": as_json(results), "profiles": [p["query"] for p in profiles]}
    return SectionResult(data, different, failed)


def _left_out(options: argparse.Namespace) -> dict[str, str]:
    """Return the reason of each engine that takes no part."""
    reasons = {}
    for name in ENGINES:
        if options.quick and name in _SLOW:
            reasons[name] = "left out by `--quick`"
        elif name not in options.engines:
            reasons[name] = engine_class(name).left_out or "not chosen for this section"
    return reasons


def _queries(suite: str, scale: float, options: argparse.Namespace) -> list[Query]:
    queries = SUITES[suite](scale)
    if options.queries:
        return [query for query in queries if query.name in options.queries]
    if options.quick and suite == "lineitem":
        return [query for query in queries if query.name in _QUICK_QUERIES]
    return queries


def _keep_profiles(directory: Path, profiles: Sequence[dict[str, str]]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for profile in profiles:
        (directory / f"profile-{profile['dataset']}-{profile['query']}.txt").write_text(profile["text"])


def _needles(options: argparse.Namespace) -> SectionResult:
    return run_contests(options, [(Dataset("lineitem", options.scale), "needles")])


def _all_queries(options: argparse.Namespace) -> SectionResult:
    tables = ("lineitem",) if options.quick else tuple(options.tables)
    phases = ((FIRST, None),) if options.quick else ((FIRST, None), (COLD, _COLD_QUERIES))
    return run_contests(options, [(Dataset(table, options.scale), table) for table in tables], phases)


def _all_queries_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser)
    tables = ("lineitem", "orders", "events")
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables, help="default: all three")


def _selectivity(options: argparse.Namespace) -> SectionResult:
    return run_contests(options, [(Dataset("lineitem", options.scale), "selectivity")])


def _scales(options: argparse.Namespace) -> SectionResult:
    scales = [0.02, 0.1] if options.quick else options.scales
    return run_contests(options, [(Dataset("lineitem", scale), "needles") for scale in scales])


def _scales_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser, [name for name in ENGINES if name not in _SLOW])
    parser.add_argument("--scales", nargs="+", type=float, default=[1.0, 2.0, 10.0], help="default: 1 2 10")


def _layouts(options: argparse.Namespace) -> SectionResult:
    return run_contests(options, [(Dataset("lineitem", options.scale, order), "needles") for order in Order])


def _included(options: argparse.Namespace) -> SectionResult:
    phases = ((FIRST, None), (COLD, _COLD_QUERIES))
    return run_contests(options, [(Dataset("lineitem", options.scale), "few-rows")], phases)


def _included_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser, ("hindex", "hindex-rows", "lance"))


def _in_place_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser, _IN_PLACE)


def _needles_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser, ("hindex", "pyarrow", "spark"))


SECTIONS = (
    Section(
        "needles", "six queries of lineitem beside Spark and pyarrow", _needles, _needles_options, rounds=7
    ),
    Section(
        "queries",
        "every kind of query, on three tables, by all engines",
        _all_queries,
        _all_queries_options,
        rounds=3,
    ),
    Section(
        "selectivity",
        "from one row to all rows",
        _selectivity,
        lambda parser: _add_options(parser, [name for name in ENGINES if name not in _SLOW]),
        rounds=3,
    ),
    Section("scales", "the six queries at several scales", _scales, _scales_options, rounds=3),
    Section(
        "included",
        "few scattered rows with and without included columns, beside Lance",
        _included,
        _included_options,
        rounds=7,
    ),
    Section(
        "layouts",
        "the six queries on rows sorted, clustered and shuffled",
        _layouts,
        _in_place_options,
        rounds=3,
    ),
)

"""The options that the benchmarks share."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Git-ignored; later runs use the data of earlier ones again.
DEFAULT_DIRECTORY = Path("build", "bench")

#: Scale and rounds of ``--quick``: a minute or so in all.
QUICK_SCALE, QUICK_ROUNDS = 0.1, 2


def shared_options(*, scale: float = 2, rounds: int = 5, warmups: int = 1) -> argparse.ArgumentParser:
    """Return the parent of every section's parser."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--scale", type=float, help=f"of the data, 1 is TPC-H's SF1 (default {scale:g})")
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DIRECTORY,
        help=f"where data is made and kept ({DEFAULT_DIRECTORY})",
    )
    parser.add_argument("--rounds", type=int, help=f"of each measurement (default {rounds})")
    parser.add_argument("--warmups", type=int, help=f"rounds before them (default {warmups})")
    parser.add_argument("--quick", action="store_true", help="small data and few rounds: a minute or so")
    parser.add_argument(
        "--rebuild", action="store_true", help="prepare engines anew: indexes, converted data"
    )
    parser.add_argument(
        "--profile", action="store_true", help="also profile the three worst queries of hindex"
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is random (default 1)")
    parser.set_defaults(default_scale=scale, default_rounds=rounds, default_warmups=warmups)
    return parser


def complete(options: argparse.Namespace) -> argparse.Namespace:
    """Fill in the defaults of missing options."""
    if options.scale is None:
        options.scale = QUICK_SCALE if options.quick else options.default_scale
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else options.default_rounds
    if options.warmups is None:
        options.warmups = min(1, options.default_warmups) if options.quick else options.default_warmups
    options.data = options.data.resolve()
    options.data.mkdir(parents=True, exist_ok=True)
    return options


def machine(*packages: str) -> dict[str, object]:
    """Describe the machine that times depend on: processors, memory, system, and versions."""
    details: dict[str, object] = {
        "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for name in ("hindex-orc", "numpy", "pyarrow", *packages):
        try:
            details[name] = version(name)
        except PackageNotFoundError:
            continue
    return details

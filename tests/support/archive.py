"""The package as an archive, as a wheel is one: Spark brings and unpacks it; Python loads no compiled part from it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import hindex
from hindex.orc import kernel

ROOT = Path(__file__).parents[2]


def write_archive(path: Path) -> Path:
    """Write the package's files where a path says, and give it back."""
    home = Path(hindex.__file__).parent
    folders = {"hindex": home, **{f"hindex/{name}": ROOT / name for name in ("orc", "sql", "proto")}}
    with zipfile.ZipFile(path, "w") as target:
        for name, folder in folders.items():
            for file in folder.rglob("*.py"):
                inner = f"{name}/{file.relative_to(folder)}"
                if inner not in target.namelist():
                    target.write(file, inner)
        compiled = Path(kernel.__file__)
        target.write(compiled, f"hindex/orc/{compiled.name}")
    return path

"""Print the lowest versions of dependencies that ``pyproject.toml`` allows, as constraints for pip.

    python tests/support/lowest.py > constraints.txt

``make lowest`` runs tests with these versions.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: The extras whose packages hindex imports.
EXTRAS = ("spark", "fsspec", "s3", "gcs", "azure", "hdfs")

_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)(?:,<[0-9.]+)?")


def constraints() -> list[str]:
    """Return a constraint for each dependency, such as ``numpy==2.0``.

    Raises:
        ValueError: if a dependency has no lower bound.
    """
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = []
    for requirement in (*project["dependencies"], *(line for extra in EXTRAS for line in optional[extra])):
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} has no lower bound: write name>=version")
        lines.append("==".join(match.groups()))
    return sorted(set(lines))


if __name__ == "__main__":
    print("\n".join(constraints()))

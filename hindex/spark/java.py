"""The Java runtime that Spark starts on: found, or a message that says exactly what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from hindex.errors import MissingRuntimeError

#: The oldest Java that Spark 4 runs on.
MINIMUM_JAVA = 17

INSTALL_HINT = (
    f"install Java {MINIMUM_JAVA} or later (Debian and Ubuntu: apt-get install default-jre-headless), "
    "or set JAVA_HOME to one"
)

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java() -> str:
    """The ``java`` program that Spark will use, checked to be new enough.

    :raises MissingRuntimeError: if there is none, it does not run, or it is older than :data:`MINIMUM_JAVA`.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise MissingRuntimeError(f"Spark needs Java and there is none on the PATH: {INSTALL_HINT}")
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        place = f"{java} (from JAVA_HOME)" if home else java
        raise MissingRuntimeError(
            f"Spark needs Java and {place} does not run ({error}): {INSTALL_HINT}"
        ) from error
    version = java_version(ran.stderr)
    if version is not None and version < MINIMUM_JAVA:
        raise MissingRuntimeError(
            f"Spark needs Java {MINIMUM_JAVA} or later and {java} is {version}: {INSTALL_HINT}"
        )
    return java


def java_version(output: str) -> int | None:
    """The feature version in what ``java -version`` prints, or None where it names none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_402"')
    8
    """
    found = _VERSION.search(output)
    return int(found[1]) if found else None

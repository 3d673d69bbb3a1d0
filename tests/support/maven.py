"""Jars that tests of integration run with: those of PySpark, and others that Maven fetches once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.elsewhere import ROOT

#: Seconds for which a jar is fetched.
_SECONDS = 900


class MissingPartError(Exception):
    """A part of a test of integration cannot be had: which one, and why."""


def spark_jars() -> Path:
    """Return the directory of PySpark's jars."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def hadoop_version() -> str:
    """Return the version of PySpark's Hadoop client."""
    client = next(spark_jars().glob("hadoop-client-api-*.jar"))
    return client.stem.rpartition("-")[2]


def maven_jar(artifact: str) -> Path:
    """Return a jar, which is fetched if it is not there yet.

    Args:
        artifact: group, name and version, with colons.

    Raises:
        MissingPartError: if it cannot be fetched.
    """
    _, name, version = artifact.split(":")
    jar = ROOT / "build" / "integration" / f"{name}-{version}.jar"
    if jar.exists():
        return jar
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={artifact}"]
    try:
        subprocess.run(
            [*copy, f"-DoutputDirectory={jar.parent}"],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise MissingPartError(f"{artifact} is fetched by Maven, and there is no mvn") from None
    except subprocess.TimeoutExpired:
        raise MissingPartError(f"Maven does not fetch {artifact} within {_SECONDS} seconds") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stdout + error.stderr).decode(errors="replace").strip().splitlines()
        raise MissingPartError(f"Maven cannot fetch {artifact}: {lines[0] if lines else error}") from None
    return jar

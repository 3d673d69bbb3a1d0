"""Parts that tests of integration run with: jars of PySpark, and those that package managers fetch once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.elsewhere import ROOT

#: Where fetched parts are.
_PARTS = ROOT / "build" / "integration"
#: A project of Maven that needs one artifact.
_PROJECT = (
    "<project><modelVersion>4.0.0</modelVersion>"
    "<groupId>tests</groupId><artifactId>parts</artifactId><version>1</version>"
    "<dependencies><dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "</dependency></dependencies></project>"
)
#: Seconds for which a part is fetched.
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
    jar = _PARTS / f"{name}-{version}.jar"
    if not jar.exists():
        copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={artifact}"]
        _fetch(artifact, [*copy, f"-DoutputDirectory={jar.parent}"])
    return jar


def maven_jars(artifact: str, groups: Sequence[str]) -> list[Path]:
    """Return a jar with those of some groups that it needs, which are fetched if they are not there yet.

    Args:
        artifact: group, name and version, with colons.
        groups: of the jars, its own among them.

    Raises:
        MissingPartError: if they cannot be fetched.
    """
    group, name, version = artifact.split(":")
    directory = _PARTS / f"{name}-{version}"
    if not directory.exists():
        project = _PARTS / f"{name}.xml"
        project.parent.mkdir(parents=True, exist_ok=True)
        project.write_text(_PROJECT.format(group=group, name=name, version=version))
        copy = ["mvn", "--batch-mode", "--quiet", "--file", str(project), "dependency:copy-dependencies"]
        _fetch(artifact, [*copy, f"-DoutputDirectory={directory}", f"-DincludeGroupIds={','.join(groups)}"])
    return sorted(directory.glob("*.jar"))


def npm_package(name: str, version: str) -> Path:
    """Return the directory of a package of Node.js, which is fetched with what it needs if it is not there yet.

    Raises:
        MissingPartError: if it cannot be fetched.
    """
    prefix = _PARTS / f"{name}-{version}"
    package = prefix / "node_modules" / name
    if not package.exists():
        prefix.mkdir(parents=True, exist_ok=True)
        # without a manifest, npm takes that of a directory above
        (prefix / "package.json").write_text('{"private": true}\n')
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(prefix)]
        _fetch(name, [*install, f"{name}@{version}"])
    return package


def go_program(module: str, version: str) -> Path:
    """Return a program of Go, which is fetched and compiled if it is not there yet.

    Raises:
        MissingPartError: if it cannot be fetched or compiled.
    """
    name = module.rpartition("/")[2]
    program = _PARTS / f"{name}-{version}" / name
    if not program.exists():
        environment = {"GOBIN": str(program.parent), "CGO_ENABLED": "0"}
        _fetch(name, ["go", "install", f"{module}@{version}"], environment)
    return program


def _fetch(part: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a package manager.

    Raises:
        MissingPartError: if it fails.
    """
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise MissingPartError(f"{part} is fetched by {command[0]}, which is missing") from None
    except subprocess.TimeoutExpired:
        raise MissingPartError(f"{command[0]} does not fetch {part} within {_SECONDS} seconds") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stdout + error.stderr).decode(errors="replace").strip().splitlines()
        raise MissingPartError(f"{command[0]} cannot fetch {part}: {lines[0] if lines else error}") from None

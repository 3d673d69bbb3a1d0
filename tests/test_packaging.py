"""The build configuration matches the tree: an editable install hides the difference."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.archive import write_archive
from tests.support.cases import sampled
from tests.support.lowest import EXTRAS, constraints

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, CONFIG = PYPROJECT["project"], PYPROJECT["tool"]["setuptools"]
MAPPED = {name: folder for name, folder in CONFIG["package-dir"].items() if name != "hindex"}


def packages_in_tree() -> list[str]:
    packages = []
    for package, folder in CONFIG["package-dir"].items():
        for source in (ROOT / folder).rglob("*.py"):
            inside = source.parent.relative_to(ROOT / folder)
            packages.append(".".join((package, *inside.parts)))
    return sorted(set(packages))


def test_every_package_of_the_tree_is_in_the_wheel() -> None:
    assert sorted(CONFIG["packages"]) == packages_in_tree()


def test_every_package_has_an_init() -> None:
    for package in packages_in_tree():
        folder = next((name for name in MAPPED if f"{package}.".startswith(f"{name}.")), "hindex")
        directory = Path(CONFIG["package-dir"][folder], *package.removeprefix(folder).strip(".").split("."))
        assert (ROOT / directory / "__init__.py").is_file(), directory


def test_every_package_is_typed() -> None:
    for package, folder in CONFIG["package-dir"].items():
        assert (ROOT / folder / "py.typed").is_file()
        assert "py.typed" in CONFIG["package-data"][package]


@pytest.mark.parametrize("package", MAPPED)
def test_a_package_refuses_other_names(package: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {MAPPED[package]}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"import {package}" in last


@pytest.mark.parametrize("package", MAPPED)
def test_a_package_has_one_identity_from_the_repository_root(package: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", f"import {package} as package; print(package.__name__, package.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == [package, str(ROOT / MAPPED[package] / "__init__.py")]


def test_without_the_compiled_part_one_line_says_what_to_do(tmp_path: Path) -> None:
    write_archive(tmp_path / "hindex.zip")
    # -S: the finder of an editable install would find the compiled part
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import hindex; print(hindex.__file__); import hindex.orc"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "hindex.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.startswith(str(tmp_path))
    assert ran.returncode == 1
    lines = ran.stderr.strip().splitlines()
    # Python 3.13 shows the line that raises it, too
    assert [line for line in lines if "Error" in line and not line.startswith(" ")] == [lines[-1]]
    assert lines[-1].startswith("ImportError: the compiled part of hindex does not load (")
    assert "install hindex with pip for this Python (in a checkout: make venv)" in lines[-1]


@pytest.mark.slow
@sampled(1)
@pytest.mark.network
@pytest.mark.parametrize(
    ("compiler", "problem"),
    [
        ("/nonexistent/cc", "there is no C compiler (/nonexistent/cc)"),
        ("false", "false does not find Python.h"),
    ],
)
def test_without_a_compiler_one_line_says_what_to_install(
    compiler: str, problem: str, tmp_path: Path
) -> None:
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("hindex", "orc", "proto", "sql"):
        ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert not list(tmp_path.glob("*.whl"))
    output = (ran.stdout + ran.stderr).split("[end of output]")[0]
    last = output.strip().splitlines()[-1].strip()
    assert last.startswith(
        f"a part of hindex is compiled, and {problem}: install a C compiler and Python's headers"
    )


def imported_packages() -> set[str]:
    """Top-level names that hindex imports anywhere, its own and the standard library's left out."""
    imported = set()
    for folder in CONFIG["package-dir"].values():
        for source in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add(node.module.split(".")[0])
    return imported - {"hindex"} - sys.stdlib_module_names


def test_every_import_is_a_declared_dependency() -> None:
    optional = PROJECT["optional-dependencies"]
    declared = {
        re.split(r"[^A-Za-z0-9_.-]", line)[0].lower()
        for line in (*PROJECT["dependencies"], *(line for extra in EXTRAS for line in optional[extra]))
    }
    declared.add("py4j")  # PySpark's own, and pinned by it
    distributions = packages_distributions()
    for package in sorted(imported_packages()):
        names = {name.lower() for name in distributions.get(package, [])}
        assert names & declared, f"{package} (of {names or 'nothing installed'}) is not in pyproject.toml"


def test_every_dependency_has_a_lower_bound() -> None:
    lines = constraints()
    assert "numpy==2.0" in lines
    assert len({line.split("==")[0] for line in lines}) == len(lines)


def test_spark_extra_installs_a_pandas_that_pyspark_supports() -> None:
    """PySpark's own requirement has no upper bound, but it warns of pandas 3 and `pyspark.pandas` fails with it."""
    code = "import pyspark.pandas, pyspark.sql.pandas.utils as utils; utils.require_minimum_pandas_version()"
    subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", code], check=True, timeout=300)
    (pandas,) = (line for line in PROJECT["optional-dependencies"]["spark"] if line.startswith("pandas"))
    assert pandas.endswith("<3")


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("hindex/spark/session.py", "spark"),
        ("hindex/cli/demo.py", "demo"),
        *(("orc/io/object_store.py", extra) for extra in ("s3", "gcs", "azure")),
        ("orc/io/hdfs.py", "hdfs"),
    ],
)
def test_remedies_name_what_an_extra_asks_for(module: str, extra: str) -> None:
    """The extras themselves, which also serve a checkout."""
    text = (ROOT / module).read_text()
    for wanted in PROJECT["optional-dependencies"][extra]:
        assert wanted in text or wanted.startswith("hindex-orc[")
    assert "hindex[" not in text
    assert "hindex-orc[" not in text

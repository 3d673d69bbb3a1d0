"""The order of the packages and their imports, as ``CONTRIBUTING.md`` states it."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"orc": "hindex.orc", "proto": "hindex.proto", "sql": "hindex.sql", "hindex": "hindex"}

#: The only other modules of hindex that these packages may import.
ALLOWED = {
    "hindex.proto": (),
    "hindex.orc": ("hindex.errors", "hindex.lru_cache", "hindex.proto", "hindex.value_class"),
    "hindex.sql": ("hindex.errors", "hindex.value_class"),
}
#: The packages that may import PySpark, inside functions only.
SPARK_PACKAGES = tuple(
    f"hindex.{name}" for name in ("api", "build", "cli", "maintain", "notebook", "queries", "spark")
)


def sources() -> list[tuple[str, Path]]:
    """Return the module name and the path of every source file."""
    files = []
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            files.append((name, path))
    return files


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(node: ast.AST, *, run: bool) -> Iterator[str]:
    """Yield the imported names of a file; with ``run``, only those that importing the file loads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports name the whole path"
            module = child.module or ""
            yield module
            # `from hindex import orc` is an import of hindex.orc
            yield from (f"{module}.{alias.name}" for alias in child.names)
        elif run and isinstance(child, ast.If) and is_type_checking(child):
            for other in child.orelse:
                yield from imports(other, run=run)
        elif not (run and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            yield from imports(child, run=run)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def folder_package(name: str) -> str:
    return next((package for package in FOLDERS.values() if is_within(name, package)), "")


SOURCES = sources()


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=[name for name, _ in SOURCES])
def test_imports(name: str, path: Path) -> None:
    tree = ast.parse(path.read_text())
    everywhere, loaded = set(imports(tree, run=False)), set(imports(tree, run=True))
    package = folder_package(name)
    for other in sorted(everywhere):
        assert other.split(".")[0] not in {"orc", "proto", "sql"}, (
            f"{other} is not the import name of that folder"
        )
        if is_within(other, "hindex") and package in ALLOWED:
            # `from hindex.errors import X` also yields hindex.errors.X
            allowed = (package, *ALLOWED[package])
            assert any(is_within(other, item) for item in allowed), f"{package} may not import {other}"
        if is_within(other, "sqlglot"):
            assert package == "hindex.sql", "only hindex.sql imports sqlglot"
        if is_within(other, "pyspark") and not is_only_for_types(tree, other):
            assert any(is_within(name, item) for item in SPARK_PACKAGES), f"{name} may not import PySpark"
    for other in sorted(loaded):
        assert not is_within(other, "pyspark"), (
            "import pyspark inside of functions: executors pay for every import"
        )
        assert not is_within(other, "hindex.sql.parsing"), "hindex.sql loads its parser on first use"


#: The packages, lowest first: each imports only itself and packages listed before it.
ORDER = (
    *("errors", "validation", "formatting", "progress", "lru_cache", "value_class"),
    *("proto", "orc", "sql", "domain", "keys"),
    *("table", "index", "store", "expr", "plan", "scan", "explanations", "aggregate"),
    *("spark", "build", "maintain", "queries", "engines", "api", "notebook", "cli", "__main__"),
)


#: The packages and modules of ``hindex.orc``, lowest first.
ORC_ORDER = ("kernel", "codec", "calendars", "time_zones", "io", "metadata", "decode", "reader", "acid")


def test_every_package_is_in_the_order() -> None:
    packages = {name.split(".")[1] for name, _ in SOURCES if name != "hindex"}
    assert packages == set(ORDER)


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=[name for name, _ in SOURCES])
def test_imports_follow_the_order(name: str, path: Path) -> None:
    """Imports inside functions and for type checkers count, too."""
    if name == "hindex":
        return
    position = ORDER.index(name.split(".")[1])
    for other in imports(ast.parse(path.read_text()), run=False):
        parts = other.split(".")
        # `from hindex import orc` also yields hindex, and `from hindex import Table` hindex.Table
        if parts[0] == "hindex" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= position, f"{name} may not import {other}"


def test_no_module_hides_a_public_name() -> None:
    """A submodule that is imported hides a function of the same name in its package."""
    public = importlib.import_module("hindex.sql").__all__
    assert not {path.stem for path in (ROOT / "sql").glob("*.py")} & set(public)


def is_only_for_types(tree: ast.AST, module: str) -> bool:
    """Return True if a file imports a module only under ``if TYPE_CHECKING:``."""
    typed = [child for node in ast.walk(tree) if is_type_checking(node) for child in ast.walk(node)]
    import_nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and module in set(imports(ast.Module([node], []), run=False))
    ]
    return all(node in typed for node in import_nodes)


def test_imports_within_orc_follow_its_order() -> None:
    for name, path in SOURCES:
        if not is_within(name, "hindex.orc") or name == "hindex.orc":
            continue
        position = ORC_ORDER.index(name.split(".")[2])
        for other in imports(ast.parse(path.read_text()), run=False):
            parts = other.split(".")
            if is_within(other, "hindex.orc") and len(parts) > 2:
                assert ORC_ORDER.index(parts[2]) <= position, f"{name} may not import {other}"


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("hindex", ["pyspark", "sqlglot", "pandas", "numpy", "pyarrow"]),
        ("hindex.orc", ["pyspark", "sqlglot", "pandas"]),
        ("hindex.sql", ["pyspark", "sqlglot"]),
        ("hindex.sql.predicate", ["pyspark", "sqlglot"]),
        ("hindex.spark.session", ["pyspark", "sqlglot"]),
        ("hindex.cli.main", ["pyspark", "sqlglot", "pyarrow", "rich"]),
    ],
)
def test_importing_stays_cheap(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(unwanted).isdisjoint(ran.stdout.split())


def test_the_kernel_imports_only_c() -> None:
    """The compiled module works on arrays only: no files, no schemas, no Python libraries."""
    code = (ROOT / "orc" / "kernel.pyx").read_text()
    loaded = re.findall(r"^ *(?:from|import|cimport) +([\w.]+)", code, re.MULTILINE)
    assert set(loaded) == {"libc.stdint", "libc.string"}


def test_pytest_collects_every_test_file(pytestconfig: pytest.Config) -> None:
    """By default it leaves out folders of some names, such as build; make integration names the one it runs."""
    left_out = {*pytestconfig.getini("norecursedirs")} - {"integration"}
    for path in (ROOT / "tests").rglob("test_*.py"):
        folders = path.relative_to(ROOT).parts[:-1]
        assert not any(fnmatch(folder, pattern) for folder in folders for pattern in left_out), path

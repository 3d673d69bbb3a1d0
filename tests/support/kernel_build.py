"""Special builds of the compiled kernel, and programs that use one of them in place of the installed one."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "orc" / "kernel.pyx"
NAME = "hindex.orc.kernel"


def build_kernel(folder: Path, flags: Sequence[str], source: Path = SOURCE) -> Path:
    """Compile the kernel with flags of the C compiler, into a folder of its own.

    Its lines are those of the source in what the compiler writes down: findings, and counts of what ran. A library of
    the same source and flags is used again.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    code, library = folder / "kernel.c", folder / f"kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    inputs = repr((compiler, flags, sys.version, version("cython"))).encode() + source.read_bytes()
    digest, key = hashlib.sha256(inputs).hexdigest(), folder / "kernel.sha256"
    if library.exists() and key.exists() and key.read_text() == digest:
        return library
    cython = [
        sys.executable,
        "-m",
        "cython",
        "--line-directives",
        "--module-name",
        NAME,
        str(source),
        "-o",
        str(code),
    ]
    # it advises to leave out the checks of memoryviews
    translated = subprocess.run(cython, capture_output=True, text=True, check=False, cwd=ROOT)
    if translated.returncode:
        raise RuntimeError(f"Cython failed: {translated.stderr}")
    include = sysconfig.get_path("include")
    command = [*compiler, "-shared", "-fPIC", f"-I{include}", *flags, str(code), "-o", str(library)]
    key.unlink(missing_ok=True)
    subprocess.run(command, check=True, cwd=folder)
    key.write_text(digest)
    return library


def use_kernel(library: Path) -> None:
    """Let later imports of the kernel find a special build; before anything imports hindex.orc."""
    assert "hindex.orc" not in sys.modules

    class Finder:
        @staticmethod
        def find_spec(
            name: str, path: object = None, target: ModuleType | None = None
        ) -> importlib.machinery.ModuleSpec | None:
            if name != NAME:
                return None
            return importlib.util.spec_from_file_location(name, library)

    finder: Any = Finder
    sys.meta_path.insert(0, finder)


def main() -> int:
    """Run the tests that the arguments name with the library that the first one names."""
    library, *arguments = sys.argv[1:]
    use_kernel(Path(library))
    import pytest

    return int(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main())

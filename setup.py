"""Build of the compiled part; pyproject.toml has everything else."""

import os
import subprocess

from setuptools import setup
from setuptools.command.build_ext import build_ext

# .ci/compiler makes the same check
REMEDY = (
    "a part of hindex is compiled, and {problem}: install a C compiler and Python's headers (Debian and Ubuntu: "
    "apt-get install gcc python3-dev; Fedora: dnf install gcc python3-devel; macOS: xcode-select --install)"
)


class BuildKernel(build_ext):
    """Build the extension module, and say what to install where that cannot be done."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "unix":
            folders = [f"-I{folder}" for folder in self.include_dirs]
            command = [*self.compiler.compiler_so, *folders, "-E", "-x", "c", "-o", os.devnull, "-"]
            problem = ""
            try:
                ran = subprocess.run(
                    command, input=b"#include <Python.h>\n", capture_output=True, check=False
                )
                if ran.returncode:
                    problem = f"{command[0]} does not find Python.h"
            except OSError:
                problem = f"there is no C compiler ({command[0]})"
            if problem:
                raise SystemExit(REMEDY.format(problem=problem))
        super().build_extensions()


setup(cmdclass={"build_ext": BuildKernel})

"""A small part of the kernel's fuzz run, on the installed kernel and with sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from hindex.orc import kernel
from tests.fuzz.kernel import Inputs, call, functions_of_kernel, sanitizers
from tests.support.kernel_build import ROOT


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return Inputs(2026)


def test_every_function_gets_inputs(inputs: Inputs) -> None:
    functions = {
        name for name, value in vars(kernel).items() if type(value).__name__ == "cython_function_or_method"
    }
    assert functions == set(functions_of_kernel())
    assert {name for name in functions if not hasattr(inputs, f"_{name}")} == set()


@pytest.mark.parametrize("name", functions_of_kernel())
def test_inputs_reach_values_and_errors(name: str, inputs: Inputs) -> None:
    outcomes = {call(getattr(kernel, name), inputs.make(name, number)) for number in range(300)}
    assert "done" in outcomes
    assert len(outcomes) > 1


def test_an_input_is_the_same_each_time(inputs: Inputs) -> None:
    again = Inputs(2026)
    for name in functions_of_kernel():
        for one, other in zip(inputs.make(name, 7), again.make(name, 7), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.slow
def test_sanitizers_find_nothing() -> None:
    """Building takes most of the time, once for each state of the kernel."""
    libraries = sanitizers()
    if isinstance(libraries, str):
        (pytest.fail if "CI" in os.environ else pytest.skip)(libraries)
    command = [sys.executable, "-m", "tests.fuzz.kernel", "--inputs", "500", "--seed", "2026"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-8000:]
    assert ran.stdout.count("500 inputs") == len(functions_of_kernel())

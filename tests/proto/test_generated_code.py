"""The checked-in code is what the sources make (``make proto`` makes it again)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("proto")
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", "-Ihindex/proto=proto"),
        *(f"--python_out={target}", f"--pyi_out={target}"),
        *(f"hindex/proto/{name}" for name in SOURCES),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return target / "hindex" / "proto"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="grpcio-tools 1.71 has no wheels for it")
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("suffix", [".py", ".pyi"])
def test_code_is_of_its_source(made: Path, name: str, suffix: str) -> None:
    file = name.replace(".proto", "_pb2" + suffix)
    assert (ROOT / "proto" / file).read_text() == (made / file).read_text(), "run make proto"


def test_no_code_is_without_source() -> None:
    code = sorted(path.name for path in (ROOT / "proto").glob("*_pb2.py"))
    assert code == [name.replace(".proto", "_pb2.py") for name in SOURCES]

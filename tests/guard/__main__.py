"""``python -m tests.guard``: accept what the fixed queries take now. The change of ``counts.json`` wants a reason."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.guard.work import ACCEPTED, count_work, make, rows
from tests.support import local_build


def main() -> None:
    local_build.install()
    with tempfile.TemporaryDirectory() as directory:
        counts = count_work(make(Path(directory), rows()))
    lines = (f"  {json.dumps(name)}: {json.dumps(query)}" for name, query in counts.items())
    ACCEPTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"wrote {ACCEPTED}")


if __name__ == "__main__":
    main()

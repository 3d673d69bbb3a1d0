"""``python -m hindex`` is the command ``hindex``."""

from __future__ import annotations

from hindex.cli.main import main

if __name__ == "__main__":
    main()

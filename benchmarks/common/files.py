"""Real tables: the folder of their files, which are no part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("DPRELEASE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
"""``shared/data`` next to this repository, unless the variable ``DPRELEASE_DATA`` points elsewhere."""


def at_hand(name: str, path: str | None) -> bool:
    """Whether a table has its file below `FOLDER`, or needs none; print that it is not measured if it does not."""
    found = path is None or (FOLDER / path).exists()
    if not found:
        print(f"{name}: left out, there is no {FOLDER / str(path)} (set DPRELEASE_DATA)", flush=True)
    return found

"""Real tables: the folder of their files, which are no part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("DPRELEASE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
"""``shared/data`` next to this repository, unless the variable ``DPRELEASE_DATA`` points elsewhere."""


def tell_left_out(name: str, path: str) -> None:
    """Print that a table is not measured.

    Args:
        name: of the table.
        path: of its file, below `FOLDER`.
    """
    print(f"{name}: left out, there is no {FOLDER / path} (set DPRELEASE_DATA)", flush=True)

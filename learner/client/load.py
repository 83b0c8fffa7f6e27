"""A release in one line of a notebook, verified against the root that was pinned on this machine: `learner.load(name)`."""

from __future__ import annotations

import os
from pathlib import Path

from dprelease.files.home import default_home
from dprelease.release.release import Release
from learner.client.library import open_release


def load(name: str | Path, home: str | Path | None = None) -> Release:
    """A fetched release, or any folder that holds one, after verifying it offline as ``learner verify`` does.

    Args:
        name: a folder, or the first 8 or more digits of a fetched release's digest.
        home: the client's folder with pinned roots and fetched releases; that of ``learner`` unless given.

    Raises:
        NotFound: no such release here, or its consortium's root is not pinned.
        InvalidInput: the digits fit several releases, or it is neither digits nor a folder.
        IntegrityError: any link of the chain from the root to the last byte of a block is broken.
    """
    chosen = Path(home or default_home(os.environ))
    return open_release(chosen, str(name)).release

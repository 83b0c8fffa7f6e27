"""Files that the hub writes beside what it publishes: pages for people and search engines, and the list of all releases.

No publication waits for them: if one cannot be made, the log says so, and the next start makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dprelease.errors import DpReleaseError
from dprelease.files.durable import write_durably
from dprelease.release.folder import PAGE, ReleaseFolder
from dprelease.release.release import Release
from learner.hub.storage import Storage

log = logging.getLogger(__name__)


def write_beside(folder: ReleaseFolder, release: Release) -> None:
    """Write what is made from a verified release beside it."""

    def write() -> None:
        from dprelease.publication.beside import files_beside  # it loads jinja2, and a hub starts without

        for name, data in files_beside(folder, release).items():
            write_durably(folder.path / name, data)

    _attempt(f"files beside release {release.digest[:12]}", write)


def write_list(storage: Storage) -> None:
    """Write the page of all published releases; none while nothing is published."""

    def write() -> None:
        from learner.hub.list_page import list_page  # it loads jinja2 too

        lines = list(storage.index.lines.values())[::-1]
        if lines:
            folder = storage.release(lines[0].digest).path.parent
            write_durably(folder / PAGE, list_page(folder, lines).encode())

    _attempt("the page of all releases", write)


def mend(storage: Storage, root_pem: str) -> None:
    """Write what is missing beside published releases, and the page of all anew."""
    for digest in storage.index.lines:
        folder = storage.release(digest)
        if not (folder.path / PAGE).exists():
            _attempt(f"release {digest[:12]}", lambda: write_beside(folder, folder.verify(root_pem)))  # noqa: B023 - now
    write_list(storage)


def _attempt(what: str, do: Callable[[], None]) -> None:
    """Do something that no publication waits for: trouble is logged."""
    try:
        do()
    except DpReleaseError as error:
        log.warning("%s cannot be written: %s", what, error.message)
    except ImportError as error:
        log.warning("%s cannot be written: %s is not installed", what, error.name)
    except Exception:
        log.exception("%s cannot be written", what)

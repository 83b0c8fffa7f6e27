"""Files that the hub writes beside what it publishes: pages for people and search engines, and the list of all releases.

No publication waits for them: if one cannot be made, the log says so, and the next start makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dprelease.errors import DpReleaseError
from dprelease.files.durable import write_durably
from dprelease.release.folder import PAGE, ReleaseFolder
from dprelease.release.release import Release
from learner.hub.storage import Storage

log = logging.getLogger(__name__)

Done = TypeVar("Done")


def write_beside(folder: ReleaseFolder, release: Release) -> None:
    """Write what is made from a verified release beside it: all files but those that cannot be made."""
    of = f"of release {release.digest[:12]}"

    def write() -> None:
        from dprelease.publication.beside import files_beside  # it loads jinja2, and a hub starts without

        made = files_beside(folder, release, lambda name, make: _attempt(f"{name} {of}", make) or {})
        for name, data in made.items():
            write_durably(folder.path / name, data)

    _attempt(f"what stands beside {of}", write)


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
    """Write all files anew beside published releases that lack one or have another layout, and the page of all."""

    def release(folder: ReleaseFolder) -> None:
        from dprelease.publication.beside import missing  # it loads jinja2
        from dprelease.publication.plain import LAYOUT, layout_beside

        if missing(folder) or layout_beside(folder) != LAYOUT:
            write_beside(folder, folder.verify(root_pem))

    for digest in storage.index.lines:
        _attempt(f"release {digest[:12]}", partial(release, storage.release(digest)))
    write_list(storage)


def _attempt(what: str, do: Callable[[], Done]) -> Done | None:
    """Do something that no publication waits for: trouble is logged, and gives None."""
    try:
        return do()
    except DpReleaseError as error:
        log.warning("%s cannot be written: %s", what, error.message)
    except ImportError as error:
        log.warning("%s cannot be written: %s is not installed", what, error.name)
    except Exception:
        log.exception("%s cannot be written", what)
    return None

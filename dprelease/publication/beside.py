"""Files beside a published release: each is a function of the signed bytes, so whoever holds them can make it again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dprelease.publication.page import release_page
from dprelease.publication.plain import ALWAYS, DESCRIBED, LAYOUT, Attempt, file_beside, layout_beside, plain_files
from dprelease.release.folder import MANIFEST, PAGE, SIGNATURE, ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release

_OFFERED = re.compile(r'href="([\w.]+)"')
"""A file that a page offers and that stands beside it."""


def files_beside(
    folder: ReleaseFolder, release: Release, attempt: Attempt = lambda name, make: make()
) -> Mapping[str, bytes]:
    """Name to bytes of every file beside a release; `attempt` as of `plain_files`. The page comes last and lists the others.

    Raises:
        ImportError: jinja2, which makes pages, is missing.
    """
    data, signature = folder.signed_manifest()
    signed = {MANIFEST: data, SIGNATURE: signature.encode()}
    manifest = Manifest.from_bytes(data)
    plain = plain_files(release, manifest, attempt)
    page = attempt(PAGE, lambda: {PAGE: release_page(release, manifest, signed, plain)})
    return MappingProxyType({**plain, **{name: text.encode() for name, text in page.items()}})


def missing(folder: ReleaseFolder) -> tuple[str, ...]:
    """Names of files that are not in a published folder: those that follow from its spec, and those that its page offers.

    Raises:
        NotFound, IntegrityError: it holds no manifest.
    """
    described = DESCRIBED if folder.manifest().spec.about is not None else ()
    offered = _OFFERED.findall((file_beside(folder, PAGE) or b"").decode())
    names = dict.fromkeys((*ALWAYS, *described, *offered, PAGE))
    return tuple(name for name in names if not (folder.path / name).exists())


@dataclass(frozen=True)
class Compared:
    """Files beside a release, compared with what this version makes of the signed bytes.

    Attributes:
        differing: names of files that are something else; a missing one does not count.
        layout: that README.txt says they have, as of `layout_beside`.
    """

    differing: tuple[str, ...]
    layout: int | None

    @property
    def altered(self) -> tuple[str, ...]:
        """Names of files that differ though they say that they are of this version's layout."""
        return self.differing if self.layout == LAYOUT else ()


def compared(folder: ReleaseFolder, release: Release) -> Compared:
    """Compare the files in a folder with what follows from its verified release.

    Raises:
        ImportError: jinja2, which makes pages, is missing.
    """
    there = {name: data for name, data in files_beside(folder, release).items() if (folder.path / name).exists()}
    differing = tuple(name for name, data in there.items() if file_beside(folder, name) != data)
    return Compared(differing, layout_beside(folder))

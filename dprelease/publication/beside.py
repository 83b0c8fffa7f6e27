"""Files beside a published release: each is a function of the signed bytes, so whoever holds them can make it again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dprelease.publication.page import release_page
from dprelease.publication.plain import plain_files
from dprelease.release.folder import MANIFEST, PAGE, SIGNATURE, ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release


def files_beside(folder: ReleaseFolder, release: Release) -> Mapping[str, bytes]:
    """Name to bytes of every file beside a verified release; the page comes last and lists the others.

    Args:
        folder: holds the signed manifest.
        release: verified, of that folder.

    Raises:
        ImportError: jinja2, which makes pages, is missing.
    """
    data, signature = folder.signed_manifest()
    signed = {MANIFEST: data, SIGNATURE: signature.encode()}
    manifest = Manifest.from_bytes(data)
    plain = plain_files(release, manifest)
    page = release_page(release, manifest, signed, plain)
    return MappingProxyType({**plain, PAGE: page.encode()})


def altered(folder: ReleaseFolder, release: Release) -> tuple[str, ...]:
    """Names of files in the folder that are not what this version makes of the signed bytes; a missing one does not count."""
    made = files_beside(folder, release)
    return tuple(name for name, data in made.items() if (folder.path / name).exists() and _read(folder, name) != data)


def _read(folder: ReleaseFolder, name: str) -> bytes | None:
    path = folder.path / name
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None

"""A release as a repository for research data takes it: flat files, the fields of its form, and checksums. Nothing is sent.

The release itself is one archive, for repositories know no folders. Everything but the root is a function of the signed bytes.

Source: InvenioRDM, reference of metadata (the software of Zenodo); GNU coreutils, sha256sum.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dprelease.canonical import sha256
from dprelease.errors import InvalidInput
from dprelease.files.durable import can, make_folder, rename_durably, sync_folder, write_durably
from dprelease.publication.beside import files_beside
from dprelease.release.folder import MANIFEST, PAGE, SIGNATURE, ReleaseFolder, block_file
from dprelease.release.release import Release
from dprelease.spec_base import moment

METADATA = "metadata.json"
CHECKSUMS = "SHA256SUMS"
ROOT = "root.pem"

_UNLISTED = ("cdla-permissive-2.0", "etalab-2.0", "dl-de-by-2.0", "dl-de-zero-2.0")
"""Licences that InvenioRDM's own list lacks; it takes their name and page instead."""


def write_deposit(folder: ReleaseFolder, release: Release, root_pem: str, to: Path) -> Mapping[str, str]:
    """Write a new folder of flat files: the release as an archive, what is made from it, the root, metadata and checksums.

    Args:
        folder: holds the signed manifest.
        release: verified, of that folder.
        root_pem: the consortium's root, against which it was verified.
        to: the folder to make; it appears whole.

    Returns:
        Name to SHA-256 of every file but the list of them.

    Raises:
        InvalidInput: the release says nothing of itself, something has that name already, or the disk refuses.
        ImportError: jinja2, which makes pages, is missing.
    """
    if release.spec.about is None:
        raise InvalidInput(
            f"release {release.digest[:12]} has no description, licence and creators, which a repository asks for; "
            "they are signed, so they come with a new release whose request has [about]"
        )
    if to.exists() or to.is_symlink():
        raise InvalidInput(f"{to} is there already; name a folder that is not")
    beside = files_beside(folder, release)
    flat = {name: data for name, data in beside.items() if name != PAGE}
    archive = f"release-{release.digest[:16]}.zip"
    record = _record(json.loads(flat["datacite.json"]), release, archive)
    flat |= {METADATA: f"{json.dumps(record, indent=1)}\n".encode(), ROOT: root_pem.encode()}
    with can("write", to):
        make_folder(to.parent)
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=".deposit-") as draft:
            made = Path(draft) / to.name
            for name, data in flat.items():
                write_durably(made / name, data)
            _write_archive(made / archive, folder, release, beside)
            digests = {name: sha256(data) for name, data in flat.items()} | {archive: _digest(made / archive)}
            lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
            write_durably(made / CHECKSUMS, lines.encode())
            rename_durably(made, to)
    return MappingProxyType({name: digests[name] for name in sorted(digests)})


def _write_archive(path: Path, folder: ReleaseFolder, release: Release, beside: Mapping[str, bytes]) -> None:
    """The release's folder in a ZIP archive, uncompressed and dated as published: the same bytes on every machine."""
    data, signature = folder.signed_manifest()
    published = moment(folder.manifest().published)
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:

        def add(name: str, content: bytes) -> None:
            archive.writestr(_entry(f"{release.digest}/{name}", published), content)

        for name, content in {MANIFEST: data, SIGNATURE: signature.encode(), **beside}.items():
            add(name, content)
        for party, own in release.blocks.items():
            for at, block in enumerate(own):
                add(block_file(party, at), block.to_bytes())
    sync_folder(path.parent)


def _entry(name: str, published: datetime) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, published.timetuple()[:6])
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    return entry


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(datacite: Mapping[str, Any], release: Release, archive: str) -> dict[str, Any]:
    """A draft's body for ``POST /api/records`` of InvenioRDM, from DataCite's fields."""
    texts = [each["description"] for each in datacite["descriptions"]]
    texts += [
        *release.guarantee,
        f"The signed release is in {archive}. Unpack it, then check it: learner verify {release.digest}",
    ]
    return {
        "access": {"record": "public", "files": "public"},
        "files": {"enabled": True, "default_preview": "README.txt"},
        "metadata": {
            "resource_type": {"id": "dataset"},
            "title": datacite["titles"][0]["title"],
            "creators": [{"person_or_org": _creator(each)} for each in datacite["creators"]],
            "publication_date": datacite["dates"][0]["date"],
            "publisher": datacite["publisher"]["name"],
            "description": "".join(f"<p>{escape(text)}</p>" for text in texts),
            "subjects": datacite["subjects"],
            "rights": [_rights(each) for each in datacite["rightsList"]],
            "identifiers": [{"scheme": "other", "identifier": each["identifier"]} for each in datacite["identifiers"]],
        },
    }


def _creator(creator: Mapping[str, Any]) -> dict[str, Any]:
    """A person is somebody with an ORCID iD and no ROR; a name without a comma is left whole."""
    found = {each["nameIdentifierScheme"].lower(): each["nameIdentifier"] for each in creator["nameIdentifiers"]}
    links = [{"scheme": scheme, "identifier": identifier.rpartition("/")[2]} for scheme, identifier in found.items()]
    identifiers = {"identifiers": links} if links else {}
    if set(found) != {"orcid"}:
        return {"type": "organizational", "name": creator["name"], **identifiers}
    family, _, given = (part.strip() for part in creator["name"].partition(","))
    return {"type": "personal", "family_name": family, **({"given_name": given} if given else {}), **identifiers}


def _rights(licence: Mapping[str, str]) -> dict[str, Any]:
    listed, page = licence["rightsIdentifier"].lower(), licence["rightsUri"]
    if page and listed not in _UNLISTED:
        return {"id": listed}
    return {"title": {"en": licence["rightsIdentifier"]}, **({"link": page} if page else {})}

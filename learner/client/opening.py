"""A release for `dprelease.load`: out of a folder, from what was fetched, or from a mirror or hub that is named."""

from __future__ import annotations

import os
import re
import warnings
from functools import partial
from itertools import islice
from pathlib import Path

from dprelease.errors import InvalidInput, NotFound
from dprelease.files.home import default_home
from dprelease.one_line import listed
from dprelease.release.release import Release
from learner.client.download import consortium_of, fetch
from learner.client.library import Library, check_prefix, open_verified
from learner.client.mirror import Mirror, check_url, split_release
from learner.client.pinned_roots import Trusted, TrustStore, read_root
from learner.client.sources import ListingSource, PublicHub, SourceAddress, answered

MOST_ASKED = 100
"""Releases that are asked for where the only one is meant."""
UNNAMED = "consortium"
"""Name of a consortium that is known by its root alone, until its release has said it."""
_FINGERPRINT = re.compile(r"[0-9a-fA-F]{2}(:?[0-9a-fA-F]{2}){31}")
_DIGEST_AT_END = re.compile(r".+/[0-9a-f]{64}/?")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


def open_anywhere(name: str, root: str | None, hub: str | None, mirror: str | None, home: Path | None) -> Release:
    """Find or fetch a release and verify it; arguments and errors as of `dprelease.load`.

    The release is kept where `learner fetch` keeps releases, and is not fetched again.
    """
    home = home or default_home(os.environ)
    if "://" in name:
        mirror, name = split_release(name) if _DIGEST_AT_END.fullmatch(name) else (check_url(name), "")
    elif _ADDRESS.fullmatch(name) and not Path(name).exists():
        hub, name = name, ""
    trust, library = TrustStore(home), Library(home)
    pinned = None if root is None else _pinned(root, trust)
    if hub is None and mirror is None:
        folder = library.find(name)
        return open_verified(folder, trust).release if pinned is None else folder.verify(pinned)
    places = tuple(_places(hub, mirror, pinned, trust))
    return answered(places, partial(_fetched, name, pinned, trust, library), _tell)


def _pinned(root: str, trust: TrustStore) -> str:
    """The root certificate in a file, or the pinned one of that fingerprint."""
    if not _FINGERPRINT.fullmatch(root) or Path(root).exists():
        return read_root(Path(root))
    wanted = root.replace(":", "").lower()
    for known in trust.all():
        if known.fingerprint == wanted:
            return known.root
    raise NotFound(
        f"no root of fingerprint {wanted[:16]} is pinned; give its file, root='root.pem', or run: learner trust add"
    )


def _places(hub: str | None, mirror: str | None, root: str | None, trust: TrustStore) -> list[SourceAddress]:
    places = []
    if mirror is not None:
        places.append(SourceAddress(f"the mirror {mirror}", partial(Mirror.dial, check_url(mirror))))
    if hub is not None:
        pem = root or next((each.root for each in trust.all() if each.hub == hub), None)
        if pem is None:
            raise NotFound(f"no root is pinned for a hub at {hub}; give its file: root='root.pem'")
        reached = Trusted(name=UNNAMED, hub=hub, root=pem)
        places.append(SourceAddress(f"the hub {hub}", partial(PublicHub.dial, reached)))
    return places


def _fetched(name: str, root: str | None, trust: TrustStore, library: Library, source: ListingSource) -> Release:
    digest = check_prefix(name) if name else _only(source)
    consortium = consortium_of(source, digest)
    # The root alone says whose release it is; a name without a root only finds the root that a person pinned under it.
    known = trust.get(consortium) if root is None else Trusted(name=consortium, root=root)
    return fetch(source, known, library, digest).verify(known.root)


def _only(source: ListingSource) -> str:
    found = list(islice(source.releases(), MOST_ASKED))
    if len(found) == 1:
        return found[0].digest
    if not found:
        raise InvalidInput("nothing is published there yet")
    named = listed(f"{line.digest[:8]} ({line.title})" for line in found)
    raise InvalidInput(f"several releases are published there; name one by its digest: {named}")


def _tell(line: str) -> None:
    warnings.warn(line, stacklevel=2)

"""Following a stream of checkpoints: which is the newest, and whether it continues all that were published before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from dprelease.release.stream import Checkpoint, check_chain, checkpoint_of
from learner.client.download import Progress, Source, fetch, signed_manifest
from learner.client.library import Library, check_prefix
from learner.client.pinned_roots import Trusted
from learner.listing import Listed, together


def newest(lines: Iterable[Listed], prefix: str) -> tuple[str, Checkpoint]:
    """Digest and place of the last listed checkpoint of the stream that a person means by one of its checkpoints.

    Raises:
        NotFound: nothing is listed that starts so.
        InvalidInput: the digits fit several streams, or a release that stands alone.
    """
    digits = check_prefix(prefix)
    found = [group for group in together(lines) if any(line.digest.startswith(digits) for line in group)]
    if not found:
        raise NotFound(f"no release is listed that starts with {prefix}; learner list shows what there is")
    if len(found) > 1:
        raise InvalidInput(f"several releases start with {prefix}; give more digits")
    places = {line.checkpoint: line.digest for line in found[0] if line.checkpoint}
    if not places:
        raise InvalidInput(
            f"release {prefix} is no checkpoint of a stream, so nothing follows it; run: learner fit {prefix}"
        )
    last = max(places, key=lambda place: place.number)
    return places[last], last


def fetch_checkpoint(
    source: Source,
    consortium: Trusted,
    library: Library,
    digest: str,
    listed: Checkpoint,
    progress: Progress = lambda key, held, size: None,
) -> ReleaseFolder:
    """Fetch a checkpoint, and keep it as the end of its stream if, and only if, it continues all checkpoints before it.

    One download is enough, whenever a learner comes: a block repeats those of all checkpoints before, and is compared with what
    their signed manifests say. A checkpoint that was compared once is not fetched again.

    Raises:
        NotFound, PeerUnavailable, InvalidInput: as `learner.client.download.fetch`.
        IntegrityError: something does not verify, or the chain does not fit.
    """
    known = library.followed(listed.stream)
    if known is not None and library.holds_sound(known, consortium):
        held = library.kept(known)
        if held.manifest().spec.place.number > listed.number:  # a list may be behind
            return held
    folder = fetch(source, consortium, library, digest, progress)
    release = folder.verify(consortium.root)
    place = checkpoint_of(release.spec)
    if place is None or place.stream != listed.stream:
        raise IntegrityError(f"release {digest[:12]} is not a checkpoint of the stream that it is listed under")
    if known != release.digest:
        check_chain(release.spec, release.blocks, _before(source, consortium, release, known))
        library.keep_followed(place.stream, release.digest)
    return folder


def _before(source: Source, consortium: Trusted, release: Release, known: str | None) -> Iterator[Manifest]:
    """Manifests of the checkpoints before one, newest first, back to the one that was followed before, or to the first."""
    spec = release.spec
    while (previous := spec.place.previous) is not None:
        manifest = signed_manifest(source, consortium, previous)
        yield manifest
        if previous == known:
            return
        spec = manifest.spec
    if known is not None:
        raise IntegrityError(
            f"release {release.digest[:12]} leaves out release {known[:12]} of the same stream, which was followed here before: "
            "the stream has two ends; ask the consortium which of them is right"
        )

"""Following a stream of checkpoints: which is the newest, and whether it continues all that were published before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dprelease.errors import IntegrityError, InvalidInput, NotFound
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import Manifest
from dprelease.release.release import Release
from dprelease.release.stream import check_chain, checkpoint_of
from learner.client.download import Progress, Source, fetch, signed_manifest
from learner.client.library import Library, check_prefix
from learner.client.pinned_roots import Trusted
from learner.listing import Listed


def stream_of(lines: Iterable[Listed], prefix: str) -> str:
    """The stream that a person means: the one that a listed checkpoint is of.

    Raises:
        NotFound: nothing is listed that starts so.
        InvalidInput: the digits fit several streams, or a release that stands alone.
    """
    digits = check_prefix(prefix)
    named = [line.checkpoint for line in lines if line.digest.startswith(digits)]
    found = {place.stream if place else None for place in named}
    if not found:
        raise NotFound(f"no release is listed that starts with {prefix}; learner list shows what there is")
    stream, *others = found
    if others:
        raise InvalidInput(f"several releases start with {prefix}; give more digits")
    if stream is None:
        raise InvalidInput(
            f"release {prefix} is no checkpoint of a stream, so nothing follows it; run: learner fit {prefix}"
        )
    return stream


def newest(lines: Iterable[Listed], prefix: str) -> Listed:
    """The last listed checkpoint of the stream that a person means.

    Raises:
        NotFound, InvalidInput: as `stream_of`.
    """
    lines = list(lines)
    stream = stream_of(lines, prefix)
    own = ((line.checkpoint.number, line) for line in lines if line.checkpoint and line.checkpoint.stream == stream)
    return max(own, key=lambda pair: pair[0])[1]


def fetch_checkpoint(
    source: Source,
    consortium: Trusted,
    library: Library,
    line: Listed,
    progress: Progress = lambda key, held, size: None,
) -> ReleaseFolder:
    """Fetch a checkpoint, and keep it as the end of its stream if, and only if, it continues all checkpoints before it.

    One download is enough, whenever a learner comes: a block repeats those of all checkpoints before, and is compared with what
    their signed manifests say. A checkpoint that was compared once is not fetched again.

    Raises:
        NotFound, PeerUnavailable, InvalidInput: as `learner.client.download.fetch`.
        IntegrityError: something does not verify, or the chain does not fit.
    """
    assert line.checkpoint is not None, line  # noqa: S101 - callers have it from `newest`
    known = library.followed(line.checkpoint.stream)
    if known is not None and library.holds_sound(known, consortium):
        held = checkpoint_of(library.kept(known).manifest().spec)
        if held is not None and held.number > line.checkpoint.number:  # a list may be behind
            return library.kept(known)
    folder = fetch(source, consortium, library, line.digest, progress)
    release = folder.verify(consortium.root)
    place = checkpoint_of(release.spec)
    if place is None or place.stream != line.checkpoint.stream:
        raise IntegrityError(f"release {line.digest[:12]} is not a checkpoint of the stream that it is listed under")
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

"""A release in its stream: which checkpoint it is, and whether it continues those before it.

Source: docs/protocol.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from dprelease.canonical import Digest, Value, sha256
from dprelease.errors import IntegrityError, SpecRefused
from dprelease.release.block import Block, expected_header
from dprelease.release.manifest import BlockEntry, Manifest
from dprelease.release.spec import ReleaseSpec


class Checkpoint(Value):
    """A release's place in a stream.

    Attributes:
        stream: digest of the first checkpoint's spec, by which the stream is known.
        number: t, from 1.
        last: T, how many there may be; None, and left out of files, where nobody knows.
    """

    stream: Digest
    number: Annotated[int, Field(ge=1)]
    last: Annotated[int | None, Field(ge=1, exclude_if=lambda last: last is None)] = None

    @property
    def ended(self) -> bool:
        """Tells whether none can come after it."""
        return self.number == self.last

    def __str__(self) -> str:
        return f"{self.number} of {self.last}" if self.last else str(self.number)


def checkpoint_of(spec: ReleaseSpec) -> Checkpoint | None:
    """The place of a release in its stream; None for one that stands alone."""
    place = spec.place
    return None if place.batch is None else Checkpoint(stream=place.stream, number=place.number, last=place.last)


def check_chain(spec: ReleaseSpec, blocks: Mapping[str, tuple[Block, ...]], earlier: Iterable[Manifest]) -> None:
    """Refuse a checkpoint that does not continue those before it, number by number.

    A block begins with the whole block of the checkpoint before, as that was signed: so a later one is enough to read all.

    Args:
        spec: of a checkpoint that was verified.
        blocks: party to its only block.
        earlier: manifests that were verified, of the checkpoint before, the one before that, and so on.

    Raises:
        IntegrityError: one does not fit; which, and how.
    """
    following = spec
    for manifest in earlier:
        try:
            following.terms.check_follows(following, manifest.spec)
        except SpecRefused as error:
            names = f"{following.digest()[:12]} does not continue release {manifest.spec.digest()[:12]}"
            raise IntegrityError(f"release {names}: {error.message}") from error
        for entry in manifest.blocks:
            _check_beginning(blocks, entry, manifest.spec, spec)
        following = manifest.spec


def _check_beginning(
    blocks: Mapping[str, tuple[Block, ...]], entry: BlockEntry, before: ReleaseSpec, spec: ReleaseSpec
) -> None:
    party = entry.sealed.party
    header = expected_header(before, party)
    (whole,) = blocks[party]
    if sha256(Block(header, whole.values[: header.rows]).to_bytes()) != entry.sealed.sha256:
        raise IntegrityError(
            f"release {spec.digest()[:12]} repeats other numbers of {party} than those that release {before.digest()[:12]} of the "
            "same stream published; ask the consortium which of them is right"
        )

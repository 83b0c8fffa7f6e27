"""The manifest: everything a stranger needs to check a release offline, given only the consortium's root.

It contains nothing computed from private cells other than the blocks' digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import ClassVar, Literal

from pydantic import model_validator

from dprelease.canonical import ShortText, Value, sha256
from dprelease.identity.signing import BLOCK, MANIFEST, PrivateKey, PublicKey, sign, verify
from dprelease.release.accounting import guarantee, trust
from dprelease.release.approval import SignedApproval
from dprelease.release.block import BlockHeader, SealedBlock, block_keys
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import Instant, instant


class BlockEntry(Value):
    """A sealed block and the certificate of its signer."""

    sealed: SealedBlock
    certificate: str


class Manifest(Value):
    """A published release, without its blocks' bytes.

    Attributes:
        spec: the release spec; its digest is the release's identity.
        blocks: one entry for each block that the spec asks for: in its order of parties, each party's by sequence number.
        approvals: every party's signed consent, in the spec's order.
        guarantee: the guarantee in words and numbers.
        trust: who has to be trusted for what, in words.
        published: signed time of publication; certificates are judged at it.
        hub_certificate: certificate of the hub that signed.
        software: software version that assembled the release.
    """

    most_bytes: ClassVar[int] = 4 << 20

    format: Literal[1] = 1
    spec: ReleaseSpec
    blocks: tuple[BlockEntry, ...]
    approvals: tuple[SignedApproval, ...]
    guarantee: tuple[str, ...]
    trust: tuple[str, ...]
    published: Instant
    hub_certificate: str
    software: ShortText

    @model_validator(mode="after")
    def _one_entry_for_each_block(self) -> Manifest:
        names = [part.party for part in self.spec.parties]
        asked = [(name, at) for name in names for at in range(len(self.spec.blocks(name)))]
        if [(entry.sealed.party, entry.sealed.sequence) for entry in self.blocks] != asked:
            raise ValueError("blocks must name the spec's parties, each with its sequence numbers, in its order")
        if [signed.approval.party for signed in self.approvals] != names:
            raise ValueError("approvals must name the spec's parties, in its order")
        return self


def assemble(
    spec: ReleaseSpec,
    blocks: Iterable[BlockEntry],
    approvals: Mapping[str, SignedApproval],
    hub_certificate: str,
    software: str,
    now: datetime,
) -> Manifest:
    """The manifest of a complete set of verified blocks, in any order."""
    entries = {entry.sealed.key: entry for entry in blocks}
    return Manifest(
        spec=spec,
        blocks=tuple(entries[key] for key in block_keys(spec)),
        approvals=tuple(approvals[part.party] for part in spec.parties),
        guarantee=guarantee(spec).words(),
        trust=trust(spec),
        published=instant(now),
        hub_certificate=hub_certificate,
        software=software,
    )


def sealed_block(key: PrivateKey, header: BlockHeader, data: bytes) -> SealedBlock:
    """The identity of a block's bytes under its party's signature."""
    digest, spec, at = sha256(data), header.spec, header.sequence
    signature = sign_block(key, spec, digest, at)
    return SealedBlock(party=header.party, spec=spec, sequence=at, sha256=digest, size=len(data), signature=signature)


def sign_block(key: PrivateKey, spec_digest: str, block_digest: str, sequence: int = 0) -> str:
    """A party's signature over one of its blocks, which it is, and the spec it belongs to."""
    return sign(key, BLOCK, *_signed(spec_digest, sequence, block_digest))


def verify_block(key: PublicKey, sealed: SealedBlock) -> None:
    """Check a party's signature over one of its blocks.

    Raises:
        IntegrityError: it is not valid.
    """
    verify(key, sealed.signature, BLOCK, *_signed(sealed.spec, sealed.sequence, sealed.sha256))


def _signed(spec_digest: str, sequence: int, block_digest: str) -> tuple[bytes, ...]:
    return bytes.fromhex(spec_digest), sequence.to_bytes(4, "big"), bytes.fromhex(block_digest)


def sign_manifest(key: PrivateKey, manifest: bytes) -> str:
    """The hub's signature over a manifest's canonical bytes."""
    return sign(key, MANIFEST, manifest)


def verify_manifest(key: PublicKey, signature: str, manifest: bytes) -> None:
    """Check the hub's signature over a manifest.

    Raises:
        IntegrityError: it is not valid.
    """
    verify(key, signature, MANIFEST, manifest)

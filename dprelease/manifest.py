"""The manifest: everything a stranger needs to check a release offline, given only the consortium's root.

It contains nothing computed from private cells other than the blocks' digests.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import model_validator

from dprelease.accounting import guarantee
from dprelease.approval import SignedApproval
from dprelease.block import SealedBlock
from dprelease.canonical import Value
from dprelease.signing import BLOCK, MANIFEST, PrivateKey, PublicKey, sign, verify
from dprelease.spec import ReleaseSpec
from dprelease.spec_base import Instant, instant
from dprelease.trust import trust


class BlockEntry(Value):
    """A sealed block and the certificate of its signer."""

    sealed: SealedBlock
    certificate: str


class Manifest(Value):
    """A published release, without its blocks' bytes.

    Attributes:
        spec: the release spec; its digest is the release's identity.
        blocks: one entry for each party, in the spec's order.
        approvals: every party's signed consent, in the spec's order.
        guarantee: the guarantee in words and numbers.
        trust: who has to be trusted for what, in words.
        published: signed time of publication; certificates are judged at it.
        hub_certificate: certificate of the hub that signed.
        software: software version that assembled the release.
    """

    format: Literal[1] = 1
    spec: ReleaseSpec
    blocks: tuple[BlockEntry, ...]
    approvals: tuple[SignedApproval, ...]
    guarantee: tuple[str, ...]
    trust: tuple[str, ...]
    published: Instant
    hub_certificate: str
    software: str

    @model_validator(mode="after")
    def _one_entry_for_each_party(self) -> Manifest:
        names = [part.party for part in self.spec.parties]
        if [entry.sealed.party for entry in self.blocks] != names:
            raise ValueError("blocks must name the spec's parties, in its order")
        if [signed.approval.party for signed in self.approvals] != names:
            raise ValueError("approvals must name the spec's parties, in its order")
        return self


def assemble(
    spec: ReleaseSpec,
    blocks: dict[str, BlockEntry],
    approvals: dict[str, SignedApproval],
    hub_certificate: str,
    software: str,
    now: datetime,
) -> Manifest:
    """The manifest of a complete set of verified blocks."""
    return Manifest(
        spec=spec,
        blocks=tuple(blocks[part.party] for part in spec.parties),
        approvals=tuple(approvals[part.party] for part in spec.parties),
        guarantee=guarantee(spec).words(),
        trust=trust(spec),
        published=instant(now),
        hub_certificate=hub_certificate,
        software=software,
    )


def sign_block(key: PrivateKey, spec_digest: str, block_digest: str) -> str:
    """A party's signature over its block and the spec it belongs to."""
    return sign(key, BLOCK, bytes.fromhex(spec_digest), bytes.fromhex(block_digest))


def verify_block(key: PublicKey, sealed: SealedBlock) -> None:
    """Check a party's signature over its block.

    Raises:
        IntegrityError: it is not valid.
    """
    verify(key, sealed.signature, BLOCK, bytes.fromhex(sealed.spec), bytes.fromhex(sealed.sha256))


def sign_manifest(key: PrivateKey, manifest: bytes) -> str:
    """The hub's signature over a manifest's canonical bytes."""
    return sign(key, MANIFEST, manifest)


def verify_manifest(key: PublicKey, signature: str, manifest: bytes) -> None:
    """Check the hub's signature over a manifest.

    Raises:
        IntegrityError: it is not valid.
    """
    verify(key, signature, MANIFEST, manifest)

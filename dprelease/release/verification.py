"""Offline verification of a release against a pinned consortium root. Nothing is fitted before this passes.

The chain: pinned root -> hub's certificate -> manifest -> spec (every number recomputed) -> each party's certificate
-> approval -> block signature -> block digest -> block shape. The certificates of the hub and of every block's signer are
judged at the signed time of publication; that of an approval at the time it was signed, and its key must be the one that
the spec names, which is also the block's.
"""

from __future__ import annotations

from collections.abc import Callable

from dprelease.agreement import check_all
from dprelease.arrays import FileRows, sha256_by_piece
from dprelease.errors import IntegrityError, SpecRefused, refused_as
from dprelease.identity.certificates import certificate_fingerprint, check_certificate, read_certificate
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.accounting import check_spec, trust
from dprelease.release.block import Block, SealedBlock, block_size, read_block, view_block
from dprelease.release.fake import note
from dprelease.release.manifest import BlockEntry, Manifest, verify_block, verify_manifest
from dprelease.release.release import Release, Verified
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import moment

CHECKS = (
    "manifest signed by the hub, whose certificate chains to the pinned root",
    "spec: every noise scale and the guarantee recomputed from the declared bounds",
    "every party approved this spec, with the key that the spec names",
    "every block signed by its party, for this release, and unchanged",
)


def check_manifest(data: bytes, signature: str, root_pem: str) -> Manifest:
    """Check a manifest without its blocks.

    Args:
        data: canonical bytes of the manifest.
        signature: the hub's signature, hexadecimal.
        root_pem: the consortium root that the learner pinned.

    Raises:
        IntegrityError: any link of the chain is broken.
    """
    with refused_as(IntegrityError):
        manifest = Manifest.from_bytes(data)
        read_certificate(root_pem)
    hub = check_certificate(manifest.hub_certificate, root_pem, moment(manifest.published), "hub")
    verify_manifest(hub.key, signature, data)
    try:
        words = check_spec(manifest.spec).words()
    except SpecRefused as error:
        raise IntegrityError(f"the spec does not give the guarantee it claims: {error.message}") from error
    if manifest.guarantee != words:
        raise IntegrityError("the guarantee printed in the manifest is not the one its spec gives")
    if manifest.trust != trust(manifest.spec):
        raise IntegrityError("the trust statement printed in the manifest is not the one that holds")
    check_all(manifest.approvals, manifest.spec, root_pem)
    for entry in manifest.blocks:
        check_entry(entry, manifest.spec, root_pem, manifest.published)
    return manifest


def check_entry(entry: BlockEntry, spec: ReleaseSpec, root_pem: str, at: str) -> None:
    """Check that a sealed block was signed for this spec by the key that the spec names for its party.

    Args:
        entry: sealed block and certificate.
        spec: the spec.
        root_pem: the consortium root.
        at: instant at which the certificate is judged.

    Raises:
        IntegrityError: it was not.
    """
    sealed = entry.sealed
    part = spec.party(sealed.party)
    if part is not None and sealed.sequence >= len(spec.blocks(part.party)):
        raise IntegrityError(f"release {sealed.spec[:12]} has no {sealed.key.words}")
    if part is None or sealed.spec != spec.digest() or sealed.size != block_size(spec, sealed.party, sealed.sequence):
        raise IntegrityError(f"{sealed.key.words} belongs to another release")
    signer = check_certificate(entry.certificate, root_pem, moment(at), "party")
    if signer.name != sealed.party or signer.fingerprint != part.key:
        raise IntegrityError(f"{sealed.key.words} was not signed with the key that the spec names")
    verify_block(signer.key, sealed)


def verify_release(
    data: bytes,
    signature: str,
    read: Callable[[SealedBlock], bytes | FileRows],
    root_pem: str,
    known: EarlierRounds = FIRST_ROUND,
) -> Release:
    """Check a manifest and all its blocks; the only way to obtain a `Release` from files.

    Args:
        data: canonical bytes of the manifest.
        signature: the hub's signature, hexadecimal.
        read: checked identity of a block to its bytes, or to those that stay in a file.
        root_pem: the consortium root that the learner pinned.
        known: as of `Release`.

    Raises:
        IntegrityError: any link of the chain is broken.
    """
    manifest = check_manifest(data, signature, root_pem)
    mechanism, last = mechanism_of(manifest.spec), manifest.spec.rounds()[-1]
    blocks: dict[str, tuple[Block, ...]] = {}
    for entry in manifest.blocks:
        sealed = entry.sealed
        block: bytes | memoryview | FileRows = read(sealed)
        if isinstance(block, FileRows) and not (mechanism.by_part and sealed.sequence in last):
            block = block[:].data
        if sha256_by_piece(block) != sealed.sha256:
            raise IntegrityError(f"{sealed.key.words} differs from the digest that it was signed under")
        which = manifest.spec, sealed.party, sealed.sequence
        numbers = read_block(block, *which) if isinstance(block, bytes) else view_block(block, *which)
        blocks[sealed.party] = (*blocks.get(sealed.party, ()), numbers)
    verified = Verified(manifest.published, manifest.software, certificate_fingerprint(root_pem))
    promised = (*note(manifest.spec), *manifest.guarantee)
    release = Release(manifest.spec, blocks, promised, known=known, verified=verified)
    if mechanism.checks_sum:
        _ = release.view  # blocks that do not belong together are refused here, not at the first fit
    return release


def checks(spec: ReleaseSpec) -> tuple[str, ...]:
    """The checks that `verify_release` makes, in sentences."""
    return (*CHECKS, *mechanism_of(spec).statements(spec).checks)

"""The base of a release's next round: every party's blocks of the rounds before, fetched, checked and kept.

Nothing of a round leaves a hospital before all blocks of the rounds before are here, each signed with the key that the spec names,
and together such that an honest hospital builds on them.

Source: docs/protocol.md, "Rounds".
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.arrays import Integers
from dprelease.canonical import sha256
from dprelease.errors import IntegrityError
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import PublicKey
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.approval import SignedApproval
from dprelease.release.block import SealedBlock, block_size, view_block
from dprelease.release.manifest import verify_block
from dprelease.release.spec import BlockKey, ReleaseSpec
from party_node.hospital import HospitalState
from party_node.outgoing.hub import HubConnection, fetch_block, held_blocks
from party_node.state.journal import Record


@dataclass(frozen=True)
class RoundsBefore:
    """The rounds before one.

    Attributes:
        earlier: what they gave.
        digests: SHA-256 of every block, round after round, in the spec's order of parties.
    """

    earlier: EarlierRounds
    digests: tuple[str, ...] = ()


NOTHING = RoundsBefore(FIRST_ROUND)
"""Before the first round."""


class RoundWork:
    """Earlier rounds of all releases of one party."""

    def __init__(self, hospital: HospitalState, hub: HubConnection) -> None:
        self._hospital = hospital
        self._hub = hub
        self._known: dict[str, RoundsBefore] = {}

    def before(
        self, record: Record, approvals: tuple[SignedApproval, ...], own: tuple[SealedBlock, ...]
    ) -> RoundsBefore | str:
        """The base of the round after our own blocks, or the party that we wait for.

        Args:
            record: the release, which everybody has approved.
            approvals: every party's, checked under the pins; the keys that signed them sign the blocks.
            own: our sealed blocks of all earlier rounds.

        Raises:
            IntegrityError: a block is not its party's, or none to build on; nothing of the next round may leave.
            PeerUnavailable: the hub is away; try again.
        """
        if not own:
            return NOTHING
        spec, kept = record.spec, self._hospital.earlier(record.digest)
        found = self._known.get(record.digest)
        if found is not None and len(found.earlier.values[self._hospital.settings.name]) == len(own):
            return found
        keys = tuple(
            BlockKey(record.digest, part.party, at)
            for sequences in spec.rounds()
            for part in spec.parties
            for at in sequences
            if at < len(own)
        )
        there, fetched = kept.kept(), dict[SealedBlock, bytes]()
        if len(there) < len(keys):
            listed = held_blocks(self._hub.channel(), record.digest).earlier
            if len(listed) < len(keys):
                return "waits for every hospital's blocks of the round before"
            public = {signed.approval.party: read_identity(signed.certificate).key for signed in approvals}
            fetched = {
                sealed: self._fetch(sealed, key, public[key.party], own, spec)
                for sealed, key in zip(listed[len(there) : len(keys)], keys[len(there) :], strict=True)
            }
        found = _read(spec, keys, {sealed: kept.read(sealed) for sealed in there} | fetched)
        if fetched:
            kept.keep(fetched)
        self._known = {record.digest: found}
        return found

    def _fetch(
        self, sealed: SealedBlock, key: BlockKey, public: PublicKey, own: tuple[SealedBlock, ...], spec: ReleaseSpec
    ) -> bytes:
        """The bytes of a block that the hub lists, once it is sure that its party sealed them for this place."""
        if sealed.key != key or sealed.size != block_size(spec, key.party, key.sequence):
            raise IntegrityError(f"the hub lists another block where {key.words} belongs")
        verify_block(public, sealed)
        if key.party == self._hospital.settings.name:
            if sealed.sha256 != own[key.sequence].sha256:
                raise IntegrityError(f"the hub holds another {key.words} than we have sealed")
            return self._hospital.vault.path(key.release, key.sequence).read_bytes()
        data = fetch_block(self._hub.channel(), sealed, self._hospital.settings.daemon.stall_seconds)
        if sha256(data) != sealed.sha256:
            raise IntegrityError(f"the hub handed out a {key.words} that its party did not sign")
        return data


def _read(spec: ReleaseSpec, keys: tuple[BlockKey, ...], data: dict[SealedBlock, bytes]) -> RoundsBefore:
    values: dict[str, tuple[Integers, ...]] = {part.party: () for part in spec.parties}
    for key, each in zip(keys, data.values(), strict=True):
        values[key.party] += (view_block(each, spec, key.party, key.sequence).values.copy(),)
    earlier = mechanism_of(spec).earlier(spec, values)
    return RoundsBefore(earlier, tuple(sealed.sha256 for sealed in data))

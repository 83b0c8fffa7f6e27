"""One block, ever: what has to be sure before noise is drawn for a release, from our ledger and from what the hub holds.

Ledger, journal and sealed blocks that were restored together from a moment after the approval know of no block, and fit together.
The hub does know of it, under our own signature. A block of which the hub has heard nothing was seen by nobody, and another one is
harmless.

Source: docs/guarantees.md, 14 and "Restored state".
"""

from __future__ import annotations

import logging

from dprelease.errors import Conflict, IntegrityError
from dprelease.mpc.messages import check_signature
from dprelease.release.accounting import guarantee
from dprelease.release.block import SealedBlock
from dprelease.release.manifest import verify_block
from dprelease.wire.boundary import row_for
from party_node.hospital import HospitalState
from party_node.outgoing.hub import HubConnection, held_blocks
from party_node.outgoing.office import Coordinator
from party_node.outgoing.relay import RelayCalls
from party_node.state.journal import Record, Status

log = logging.getLogger(__name__)

_CHARGED_KINDS = frozenset({"columns", "transcript"})
"""Messages of a session that leave after the charge alone."""


def require(hospital: HospitalState, release: str, *stages: str, before: tuple[SealedBlock, ...] = ()) -> None:
    """Refuse to go on with a round of a release that the ledger does not hold budget for.

    Args:
        hospital: the party's state.
        release: spec digest.
        stages: what the ledger may say last of it.
        before: our sealed blocks of the rounds before.

    Raises:
        Conflict: it says something else, or a block of the round was made before.
    """
    if hospital.ledger.stage(hospital.settings.roster, release) not in stages:
        raise Conflict("nothing is reserved for this release; no noise is drawn for it")
    made = hospital.ledger.made(hospital.settings.roster).get(release, ())
    if made != tuple(block.sha256 for block in before):
        raise Conflict("the ledger knows a block of this release that is not in sealed/; no second one is ever made")


def left_before(
    hospital: HospitalState,
    hub: HubConnection,
    coordinator: Coordinator,
    record: Record,
    sealed: tuple[SealedBlock, ...],
) -> bool:
    """End a release here of which the hub holds something of ours that our books have forgotten: charged in full, for good.

    The office hears the constant sentence, unless the hub has all of our blocks: then the release needs nothing more from us.

    Returns:
        True if that is so.

    Raises:
        IntegrityError: the hub lists as ours what we have not signed.
        PeerUnavailable, ...: the hub or its relay does not answer; no noise is drawn before it does.
    """
    own = held_blocks(hub.channel(), record.digest).own
    for block in own:
        if (block.spec, block.party) != (record.digest, hospital.settings.name):
            raise IntegrityError("the hub lists another block as ours")
        verify_block(hospital.identity.key().public_key(), block)
    known = {block.sha256 for block in sealed}
    forgotten = [f"block {block.sequence}" for block in own if block.sha256 not in known]
    forgotten = forgotten or _messages(hospital, hub, record)
    if not forgotten:
        return False
    words = (
        f"the hub holds {forgotten[0]} of ours, and our books do not know it: they are from an older backup, and what has left "
        "cannot be taken back. The release is charged in full and over here; look for a later backup, for more may be forgotten"
    )
    log.error("release %s: %s", record.digest[:12], words)
    given, name = guarantee(record.spec), hospital.settings.name
    hospital.ledger.close(hospital.settings.roster, record.digest, given.party(name).mu2, given.added(name), words)
    if len(own) == record.spec.rounds()[-1].stop:
        hospital.give_up(record, Status.ENDED, words)
    else:
        sentence = row_for(IntegrityError("")).sentence
        hospital.give_up(record, Status.DECLINED, sentence)
        coordinator.releases.decline(record.digest, sentence)
    return True


def _messages(hospital: HospitalState, hub: HubConnection, record: Record) -> list[str]:
    """The messages at the relay that leave after the charge alone, where the ledger knows of no charge."""
    if not record.spec.joint:
        return []
    if hospital.ledger.stage(hospital.settings.roster, record.digest) == "send":
        return []
    party, found = hospital.settings.name, []
    for message in RelayCalls(hub.channel(), record.digest, hospital.settings.daemon.stall_seconds).messages():
        if message.header.sender == party and message.header.kind in _CHARGED_KINDS:
            check_signature(message, {party: hospital.identity.key().public_key()})
            found.append(f"a message ({message.header.kind})")
    return found

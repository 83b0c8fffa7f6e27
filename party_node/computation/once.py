"""One block, ever: what has to be sure before noise is drawn for a release.

Source: docs/guarantees.md, 14.
"""

from __future__ import annotations

from dprelease.errors import Conflict
from dprelease.release.block import SealedBlock
from party_node.hospital import HospitalState


def require(desk: HospitalState, release: str, *stages: str, before: tuple[SealedBlock, ...] = ()) -> None:
    """Refuse to go on with a round of a release that the ledger does not hold budget for.

    Args:
        desk: the party's state.
        release: spec digest.
        stages: what the ledger may say last of it.
        before: our sealed blocks of the rounds before.

    Raises:
        Conflict: it says something else, or a block of the round was made before.
    """
    if desk.ledger.stage(desk.settings.roster, release) not in stages:
        raise Conflict("nothing is reserved for this release; no noise is drawn for it")
    made = desk.ledger.made(desk.settings.roster).get(release, ())
    if made != tuple(block.sha256 for block in before):
        raise Conflict("the ledger knows a block of this release that is not in sealed/; no second one is ever made")

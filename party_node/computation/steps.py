"""A hospital's side of one release's session as resumable steps: each call does what can be done now, or says for whom we wait.

`dprelease.mpc.session` orders the steps; here are the disk on which they are kept, the relay between hospitals, and the
matrix that is multiplied. `sessions` has the approvals before (docs/protocol.md, step 1) and the noise and masks after (7
and 8), the daemon and the hub the rest (9, 10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dprelease.arrays import Codes
from dprelease.data.bounding import BoundedRows
from dprelease.identity.certificates import read_identity
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.session import Outside, Products, Session
from dprelease.release.approval import SignedApproval
from dprelease.release.spec import ReleaseSpec
from party_node.computation.rounds import NOTHING, Before
from party_node.computation.turns import take_turns
from party_node.outgoing.relay import Relay
from party_node.state.session import SessionFolder
from party_node.state.used_seeds import UsedSeeds


@dataclass(frozen=True, repr=False)
class FinishedSession:
    """The result of a finished session, for the block.

    Attributes:
        bounded: our rows.
        products: our shares of products with every peer.
    """

    bounded: BoundedRows
    products: Products


class Computation:
    """A session of one release, at one party.

    Args:
        spec: whose mechanism has a session.
        party: our name.
        identity: our identity key.
        approvals: every party's, checked under the pins; the keys that signed them sign the messages.
        folder: the session's.
        seeds: those that have served before.
        relay: the hub's.
        request_deal: asks the coordinator for its deal, given the signed offers; used only where it deals.
        bounded: gives our rows, the ones that were approved.
        charge: called before the first masked column leaves: no charge, no bytes.
        before: the rounds before; every transcript covers their blocks, so that all hospitals mean the same.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        party: str,
        identity: PrivateKey,
        approvals: tuple[SignedApproval, ...],
        folder: SessionFolder,
        seeds: UsedSeeds,
        relay: Relay,
        request_deal: Callable[[list[bytes]], bytes],
        bounded: Callable[[], BoundedRows],
        charge: Callable[[], None],
        before: Before = NOTHING,
    ) -> None:
        self._spec = spec
        self._earlier = before.values
        self._party = party
        self._folder = folder
        self._relay = relay
        self._bounded = bounded
        schedule = mechanism_of(spec).schedule(spec)
        assert schedule is not None  # noqa: S101 - the daemon asks for a session only where there is one
        by_party = {signed.approval.party: signed for signed in approvals}
        self.session = Session(
            schedule,
            party,
            identity,
            {name: read_identity(signed.certificate).key for name, signed in by_party.items()},
            [*(by_party[name].approval.commitment for name in schedule.parties), *before.digests],
            folder,
            Outside(relay.fetch, request_deal, seeds.use, charge, self._matrix),
        )

    def advance(self) -> str | FinishedSession:
        """Go as far as it goes.

        Returns:
            For whom we wait, in words; or what the block is made of.

        Raises:
            IntegrityError: a peer sent something that does not belong to this session; it is named.
            PeerUnavailable: the relay is away, or forgets what it takes; try again.
            DataRefused, Conflict: our rows are not those that were approved, or nothing is reserved for them.
        """
        done = take_turns(self.session, self._folder, self._relay)
        return done if isinstance(done, str) else FinishedSession(self._bounded(), done)

    def _matrix(self) -> Codes:
        return mechanism_of(self._spec).matrix(self._bounded(), self._spec, self._earlier)

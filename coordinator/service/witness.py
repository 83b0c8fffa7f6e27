"""The office as witness: what it has seen charged to a hospital, signed, for a ledger that was lost or restored."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from coordinator.authority.authority import Authority
from coordinator.lifecycle import Stage
from coordinator.store.store import Store, Transaction
from dprelease.errors import NotFound
from dprelease.privacy.price import price_text, room_text
from dprelease.release.accounting import guarantee
from dprelease.release.charges import Charge, SignedStatement, charge, state
from dprelease.release.spec import ReleaseSpec


def statement(store: Store, tx: Transaction, authority: Authority, party: str, now: datetime) -> SignedStatement:
    """Every release that a party and all its partners approved, whatever became of it.

    Args:
        store: the consortium's.
        tx: reads its releases.
        authority: signs.
        party: whose.
        now: the present.
    """
    return state(store.consortium.name, party, _charges(tx, party), authority.key, now)


def _charges(tx: Transaction, party: str) -> list[Charge]:
    return [
        charge(release.read_spec(), party, published=release.record.state is Stage.PUBLISHED)
        for release in tx.releases.approved_by_all(party)
    ]


def left(tx: Transaction, party: str, roster: str, without: str = "") -> Fraction:
    """Rest of a hospital's ledger, mu^2, as far as the office has seen; below 0 where more was promised than there is.

    Releases that all their parties approved count, whatever became of them: a ledger may have more, where one of them was given
    up before its first byte.

    Args:
        tx: reads releases and members.
        party: its name.
        roster: whose budget.
        without: digest of a release to leave out.

    Raises:
        NotFound: no such party.
    """
    member = tx.members.find(party)
    if member is None:
        raise NotFound(f"no party {party}; see: coordinator party list")
    spent = [each.mu2 for each in _charges(tx, party) if each.roster == roster and each.release != without]
    return member.cap_mu2 - sum(map(Fraction, spent), Fraction(0))


def left_after(tx: Transaction, spec: ReleaseSpec) -> dict[str, Fraction]:
    """Party to what its ledger has left once a release is charged; see `left`."""
    costs = guarantee(spec)
    return {
        part.party: left(tx, part.party, spec.roster, spec.digest()) - costs.party(part.party).mu2
        for part in spec.parties
    }


def left_text(party: str, mu2: Fraction, charge: Fraction, delta: float) -> str:
    """Rest of a hospital's ledger after a release of some price, in words."""
    if mu2 < 0:
        return f"{party}: its ledger seems to have no room for this release; {price_text(-mu2, delta)} is missing"
    return f"{party} has left after it {price_text(mu2, delta)}, {room_text(mu2, charge)}"

"""The office as witness: what it has seen charged to a hospital, signed, for a ledger that was lost or restored."""

from __future__ import annotations

from datetime import datetime

from coordinator.authority import Authority
from coordinator.record import State
from coordinator.store import Store, Transaction
from dprelease.charges import SignedStatement, charge, state
from dprelease.wire.v1 import coordination_pb2 as pb


def statement(store: Store, tx: Transaction, authority: Authority, party: str, now: datetime) -> SignedStatement:
    """Every release that a party and all its partners approved, whatever became of it.

    Args:
        store: the consortium's.
        tx: reads its releases.
        authority: signs.
        party: whose.
        now: the present.
    """
    found = [
        charge(release.read_spec(), party, published=release.record.state is State.PUBLISHED)
        for release in tx.releases.approved_by_all(party)
    ]
    return state(store.consortium.name, party, found, authority.key, now)


def list_charges(store: Store, authority: Authority, party: str, now: datetime) -> pb.ListChargesResponse:
    """A party's own statement."""
    with store.reading() as tx:
        return pb.ListChargesResponse(charges=statement(store, tx, authority, party, now).to_bytes())

"""From the hospitals' catalogues to the task of an alignment run, offered to them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from coordinator.lifecycle.status import Kind, propose
from coordinator.proposals.checks import agree_on_identifiers, enrolled, reported
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.canonical import read_data
from dprelease.errors import Conflict, InvalidInput
from dprelease.intersection.task import Task
from dprelease.spec_base import instant

FEWEST, MOST = 2, 10
"""Hospitals of a run."""


def start(
    store: Store, roster: str, parties: Sequence[str], expires: timedelta, run_time: timedelta, now: datetime
) -> Agreement:
    """Offer a run to hospitals, over the numbers of patients that they reported last.

    Args:
        store: the consortium's.
        roster: name of the set of patients.
        parties: names of the hospitals; the order in which what they send goes round.
        expires: until when all of them must have accepted.
        run_time: how long they may compute after the last acceptance.
        now: the present.

    Raises:
        InvalidInput: a hospital cannot take part now, or tables are of other rosters or bring identifiers to other forms.
        Conflict: a run with one of them is open.
    """
    if not FEWEST <= len(parties) <= MOST or len(set(parties)) < len(parties):
        raise InvalidInput(f"an alignment run is of {FEWEST} to {MOST} different hospitals")
    with store.writing() as tx:
        members = {name: enrolled(tx.members, name, now) for name in parties}
        catalogues = reported(tx.members, tuple(parties))
        other = [name for name, catalogue in catalogues.items() if catalogue.roster != roster]
        if other:
            there = ", ".join(f"{name} {catalogues[name].roster}" for name in other)
            raise InvalidInput(f"roster {roster} is asked for, and these hospitals have another one: {there}")
        agree_on_identifiers(catalogues)
        busy = [run for run in tx.alignments.open() if set(run.record.parties) & set(parties)]
        if busy:
            raise Conflict(
                f"alignment run {busy[0].digest[:12]} of {', '.join(busy[0].record.parties)} is open: "
                f"{busy[0].record.explain()}; wait for it, or: coordinator release cancel {busy[0].digest[:12]}"
            )
        fields = {
            "consortium": store.consortium.name,
            "roster": roster,
            "members": [
                {"party": name, "key": members[name].fingerprint, "patients": catalogues[name].patients}
                for name in parties
            ],
            "identifiers": catalogues[parties[0]].identifiers,
            "nonce": secrets.token_hex(32),
            "created": instant(now),
            "expires": instant(now + expires),
        }
        record = propose(parties, now, now + expires, run_time, kind=Kind.RUN)
        return tx.alignments.add(read_data(Task, fields, "the alignment run"), record, now)

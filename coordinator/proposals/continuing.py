"""The next checkpoint of a stream: its spec from the last one that was published, and the new rows that all parties have.

The parties approved the stream and its whole price with the first checkpoint, and approve the later ones by themselves. A number
that all of them have approved is never used again, whatever became of it: somebody may have made a block for it.

Source: docs/protocol.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from coordinator.lifecycle.status import State, propose
from coordinator.proposals.checks import agree, enrolled, reported
from coordinator.proposals.proposals import Proposal, check_sizes
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store, Transaction
from dprelease.canonical import read_data
from dprelease.errors import Conflict, InvalidInput
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of
from dprelease.spec_base import instant, moment


def propose_next(
    store: Store,
    prefix: str,
    run_time: timedelta,
    now: datetime,
    *,
    number: int | None = None,
) -> tuple[Agreement, Proposal]:
    """Make the spec of a stream's next checkpoint and offer it to the parties, who have as long to decide as for the one before.

    Args:
        store: the consortium's.
        prefix: first digits of any checkpoint of the stream.
        run_time: how long blocks may take after the last approval.
        now: the present.
        number: t; the one after all that were published or approved unless given. Checkpoints in between are left out for
            good.

    Raises:
        InvalidInput: the release is of no stream, the checkpoint is not one that comes next, or the parties' batches are not
            there or differ.
        Conflict: another checkpoint is open, or none was published.
    """
    with store.writing() as tx:
        previous, least, latest = _last(tx, tx.releases.find(prefix))
        spec = previous.read_spec()
        chosen = least if number is None else number
        if chosen < least:
            raise InvalidInput(
                f"checkpoint {chosen} was published or approved by all before, or comes before one that was; the next is {least}"
            )
        # Nothing else tells a checkpoint from one that was declined in this very second.
        made = max(now, latest + timedelta(seconds=1))
        proposal = _proposal(tx, spec, chosen, made)
        parties = [part.party for part in spec.parties]
        joint = mechanism_of(spec).schedule(proposal.spec) is not None
        record = propose(parties, now, moment(proposal.spec.expires), run_time, joint=joint)
        return tx.releases.add(proposal.spec, record, now), proposal


def _last(tx: Transaction, named: Agreement) -> tuple[Agreement, int, datetime]:
    """The last published checkpoint of a release's stream, the least number that may come next, and when one was proposed last."""
    found = checkpoint_of(named.read_spec())
    if found is None:
        raise InvalidInput(f"release {named.digest[:12]} is no checkpoint of a stream; it stands alone")
    stream, title, numbered = found.stream, named.title, _checkpoints(tx.releases.all(), found.stream)
    for number, release in numbered:
        if not release.record.final:
            raise Conflict(
                f"checkpoint {number} of {title!r} is open, {release.digest[:12]}: {release.record.explain()}"
            )
    published = [(number, release) for number, release in numbered if release.record.state is State.PUBLISHED]
    if not published:
        raise Conflict(
            f"stream {stream[:12]} has no published checkpoint to go on from; propose a new one: coordinator release create"
        )
    spent = [number for number, release in numbered if release.record.approved == frozenset(release.record.parties)]
    latest = max(moment(release.read_spec().created) for _, release in numbered)
    return max(published, key=lambda each: each[0])[1], max(spent) + 1, latest


def _checkpoints(releases: Iterable[Agreement], stream: str) -> list[tuple[int, Agreement]]:
    found = ((checkpoint_of(release.read_spec()), release) for release in releases)
    return [(at.number, release) for at, release in found if at is not None and at.stream == stream]


def _proposal(tx: Transaction, previous: ReleaseSpec, number: int, now: datetime) -> Proposal:
    names = tuple(part.party for part in previous.parties)
    for part in previous.parties:
        if enrolled(tx.members, part.party, now).fingerprint != part.key:
            raise InvalidInput(f"{part.party} has another key than when the stream began; propose a new stream")
    previous.terms.following(previous, number, rows=0)  # a stream that is over waits for no batch
    agreed = agree(reported(tx.members, names, number))
    if agreed.aligned != previous.aligned:
        raise InvalidInput("the parties' tables were aligned anew after the stream began; propose a new stream")
    fields = previous.model_dump(mode="json") | {
        "rows": agreed.rows,
        "alignment": agreed.alignment,
        "terms": previous.terms.following(previous, number, agreed.rows).model_dump(mode="json"),
        "created": instant(now),
        "expires": instant(now + (moment(previous.expires) - moment(previous.created))),
    }
    spec = read_data(ReleaseSpec, fields, "the next checkpoint")
    spec.terms.check_follows(spec, previous)
    check_sizes(spec)
    return Proposal(spec, check_spec(spec), "")

"""From a request to a release spec, to the next checkpoint of a stream or to an alignment run, offered to the parties.

The coordinator holds no data: it reads what the parties declared, and draws the public mixing seed after that, so the
mixing matrix is independent of the data. Only a party's own ledger knows what is left of its cap.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from coordinator.lifecycle import Stage, Topic, propose
from coordinator.proposals.checks import (
    PublicSide,
    agree,
    agree_on_identifiers,
    check_caps,
    check_clashes,
    check_delta,
    check_private,
    choose,
    enrolled,
    label_of,
    reported,
)
from coordinator.proposals.published import (
    EarlierReleases,
    check_budget,
    latest_ranges,
    read_ranges,
    similar_to,
    with_ranges,
)
from coordinator.store.agreements import Agreement
from coordinator.store.members import Members
from coordinator.store.store import Store, Transaction
from dprelease.about import NO_LICENCE, About
from dprelease.canonical import Value, read_data
from dprelease.data.bounding import MAX_GRID_BITS, USUAL_GRID_BITS
from dprelease.data.columns import Name, weights_of
from dprelease.errors import Conflict, InvalidInput
from dprelease.files.settings import Settings
from dprelease.intersection.task import Task
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import MechanismName, mechanism_named, mechanism_of, read_options
from dprelease.mpc.schedule import COORDINATOR, SEAL_BYTES
from dprelease.privacy.gaussian import check_target
from dprelease.release.accounting import Guarantee, check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.release.stream import checkpoint_of
from dprelease.spec_base import PartyColumns, Target, instant, moment

NOTHING = EarlierReleases()

LARGEST_DEAL_BYTES = 3 << 20
"""Most that is dealt to one party: it fits in one message, whose default limit is 4 MiB."""


class Request(Settings):
    """Request of the office: a TOML file. Keys of the mechanism stand beside these (`Mechanism.options`).

    Attributes:
        title: what people call the release.
        parties: party to the names of its columns, in released order; ``"*"`` stands for all of them.
        mechanism: name in the registry.
        epsilon: of the target.
        delta: of the target.
        scope: what the target bounds: all blocks together (``joint``) or each block alone (``per-party``).
        public_side: what columns that their owners declared public are: features, outcomes, or some of both (``mixed``); asked
            for if there are any, unless the mechanism's own keys tell.
        grid_bits: b; cells are rounded to the grid 2^-b, or to a coarser one if sums of a stream would wrap round.
        expires_hours: until when every party must have decided.
        about: description, licence and creators; planning needs none.
        options: the mechanism's own keys, gathered.
    """

    title: Annotated[str, Field(min_length=1, max_length=200)]
    parties: Annotated[dict[Name, Literal["*"] | tuple[Literal["*"] | Name, ...]], Field(min_length=1)]
    mechanism: MechanismName = "mixed"
    epsilon: float
    delta: float
    scope: Literal["joint", "per-party"] = "joint"
    public_side: PublicSide | None = None
    grid_bits: Annotated[int, Field(ge=1, le=MAX_GRID_BITS)] = USUAL_GRID_BITS
    expires_hours: Annotated[float, Field(gt=0, le=8760)] = 72.0
    about: About | None = None
    options: Any = None

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        common = set(cls.model_fields) - {"options"}
        own = {key: value for key, value in data.items() if key not in common}
        return {key: data[key] for key in data if key in common} | {"options": own}

    @field_validator("options")
    @classmethod
    def _read_options(cls, own: dict[str, Any], info: ValidationInfo) -> Settings | None:
        name = info.data.get("mechanism")
        # Of a mechanism that there is not, nobody knows the keys.
        return None if name is None else read_options(name, own, cls.model_fields.keys() - {"options"})

    def target(self) -> Target:
        """The privacy target."""
        return Target(scope=self.scope, epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True)
class CheckedProposal:
    """A spec that survived every check, and where its numbers came from.

    Attributes:
        spec: the release spec.
        guarantee: what it gives, recomputed from the spec alone.
        explanation: the mechanism's, one line; empty where there is nothing to say.
        ranged: where the release pays for ranges, the one that has published those of these patients and numbers; None for none.
    """

    spec: ReleaseSpec
    guarantee: Guarantee
    explanation: str
    ranged: Agreement | None = None


@dataclass(frozen=True)
class Created:
    """A proposal that is now before the parties.

    Attributes:
        release: as it stands.
        proposal: what was proposed.
        similar: an open or published release of the same columns by the same mechanism: the parties pay twice.
    """

    release: Agreement
    proposal: CheckedProposal
    similar: Agreement | None


def create(
    store: Store,
    request: Request,
    run_time: timedelta,
    now: datetime,
    *,
    allow_large_delta: bool = False,
    root: Path | None = None,
    published: Path | None = None,
) -> Created:
    """Check a request, make its spec and offer it to the parties. Every call makes a release of its own.

    Raises:
        InvalidInput: the request cannot be met, has no licence, or declares a budget that releases exceed.
        SpecRefused: its numbers do not work out.
        Conflict: the same was proposed in this very second.
    """
    if request.about is None:
        raise InvalidInput(NO_LICENCE)
    with store.writing() as tx:
        name, members = store.consortium.name, tx.members
        earlier = EarlierReleases(tx.releases.all(), published, root)
        proposal = make_proposal(request, name, members, now, allow_large_delta=allow_large_delta, earlier=earlier)
        spec = proposal.spec
        check_budget(spec, proposal.guarantee, earlier.known)
        similar = similar_to(spec, earlier.known)
        return Created(_offer(tx, spec, run_time, now), proposal, similar)


def _offer(tx: Transaction, proposal: ReleaseSpec | Task, run_time: timedelta, now: datetime) -> Agreement:
    kind, joint = (Topic.RELEASE, proposal.joint) if isinstance(proposal, ReleaseSpec) else (Topic.RUN, False)
    record = propose(proposal.party_keys, now, moment(proposal.expires), run_time, kind=kind, joint=joint)
    return tx.of(kind).add(proposal, record, now)


def make_proposal(
    request: Request,
    consortium: str,
    members: Members,
    now: datetime,
    *,
    allow_large_delta: bool = False,
    draw: Callable[[int], bytes] = secrets.token_bytes,
    earlier: EarlierReleases = NOTHING,
) -> CheckedProposal:
    """A spec for a request.

    Args:
        request: what is asked for.
        consortium: its name.
        members: who takes part, and their catalogues.
        now: the present.
        allow_large_delta: accept delta >= 1/n, which allows publishing one patient's row outright.
        draw: source of the public seed; the operating system's outside tests.
        earlier: what the request may build on.

    Raises:
        InvalidInput: the request cannot be met; the message says why, in counts and names only.
        SpecRefused: the numbers do not work out, e.g. the grid is too coarse.
    """
    draft = make_draft(request, consortium, members, now, draw, earlier)
    columns, agreed = draft.columns, draft.agreed
    parties = {name: enrolled(members, name, now) for name in columns}
    mechanism = mechanism_named(request.mechanism)
    check_private(columns)
    numbers = mechanism.propose(request.options, draft)
    label = label_of(columns, mechanism, request.public_side, numbers.terms.outcomes)
    if not allow_large_delta:
        check_delta(request.delta, numbers.terms.most_patients(agreed.rows))
    check_caps({name: each.cap_mu2 for name, each in parties.items()}, numbers.charges, request.delta, numbers.advice)
    weights = {name: weights_of(declared, numbers.weights) for name, declared in columns.items()}
    declared = [
        PartyColumns(party=name, key=parties[name].fingerprint, columns=columns[name], weights=weights[name])
        for name in parties
    ]
    fields = {
        "title": request.title,
        "consortium": consortium,
        "roster": agreed.roster,
        "rows": agreed.rows,
        "rows_per_subject": agreed.rows_per_subject,
        "alignment": agreed.alignment,
        "aligned": agreed.aligned,
        "guarantee": label,
        "terms": numbers.terms.model_dump(mode="json"),
        "grid_bits": numbers.grid_bits or request.grid_bits,
        "target": _data(request.target()),
        "parties": [_data(part) for part in declared],
        "created": instant(now),
        "expires": instant(now + timedelta(hours=request.expires_hours)),
        **({} if request.about is None else {"about": _data(request.about)}),
    }
    spec = read_data(ReleaseSpec, fields, "the request")
    check_sizes(spec)
    ranged = with_ranges(earlier.known, columns, agreed) if mechanism_of(spec).ranged(spec) else None
    return CheckedProposal(spec, check_spec(spec), numbers.explanation, ranged)


def make_draft(
    request: Request,
    consortium: str,
    members: Members,
    now: datetime,
    draw: Callable[[int], bytes] = secrets.token_bytes,
    earlier: EarlierReleases = NOTHING,
) -> Draft:
    """Draft of a request, fixed by it and the catalogues before a mechanism is asked; arguments as of `make_proposal`.

    Raises:
        InvalidInput: a party is not enrolled or offers no such column, catalogues disagree, or the target makes no sense.
    """
    for name in request.parties:
        enrolled(members, name, now)
    catalogues = reported(members, tuple(request.parties), mechanism_named(request.mechanism).first_batch)
    agreed = agree(catalogues)
    columns = {name: choose(request.parties[name], catalogues[name]) for name in request.parties}
    check_clashes(columns)
    check_target(request.epsilon, request.delta)
    # Planners ask for them again and again, and to verify a release takes a while.
    named = cache(partial(read_ranges, columns=columns, root=earlier.root, consortium=consortium))
    latest = cache(partial(latest_ranges, earlier, columns, agreed, consortium))
    return Draft(columns, agreed, request.target(), request.grid_bits, draw, named, latest)


def check_sizes(spec: ReleaseSpec) -> None:
    """Refuse a spec that nobody would read, and what the coordinator could not deal: it answers every party with one message.

    Raises:
        InvalidInput: with the size.
    """
    try:
        spec.check_length(spec.to_bytes())
    except InvalidInput as error:
        raise InvalidInput(f"{error.message}; release fewer columns or levels") from error
    if not spec.joint:
        return
    schedule = spec.schedule()
    for party in schedule.receivers(COORDINATOR):
        size = schedule.deal_size(party, COORDINATOR) + SEAL_BYTES
        if size > LARGEST_DEAL_BYTES:
            raise InvalidInput(
                f"the coordinator would have to deal {size / (1 << 20):.1f} MiB to {party}, and at most "
                f"{LARGEST_DEAL_BYTES >> 20} MiB are possible; release fewer columns or levels"
            )


def _data(value: Value) -> dict[str, Any]:
    return value.model_dump(mode="json")


def propose_next(
    store: Store, prefix: str, run_time: timedelta, now: datetime, *, number: int | None = None
) -> Agreement:
    """Make the spec of a stream's next checkpoint and offer it to the parties, who have as long to decide as for the one before.

    It follows from the last one that was published, and from the new rows that all parties have. The parties approved the stream
    and its whole price with the first checkpoint, and approve the later ones by themselves. A number that all of them have
    approved is never used again, whatever became of it: somebody may have made a block for it (docs/protocol.md, "Streams").

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
        return _offer(tx, _following(tx, spec, chosen, made), run_time, now)


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
    published = [(number, release) for number, release in numbered if release.record.state is Stage.PUBLISHED]
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


def _following(tx: Transaction, previous: ReleaseSpec, number: int, now: datetime) -> ReleaseSpec:
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
    check_spec(spec)
    return spec


FEWEST_IN_RUN, MOST_IN_RUN = 2, 10
"""Hospitals of a run."""


def propose_run(
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
    if not FEWEST_IN_RUN <= len(parties) <= MOST_IN_RUN or len(set(parties)) < len(parties):
        raise InvalidInput(f"an alignment run is of {FEWEST_IN_RUN} to {MOST_IN_RUN} different hospitals")
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
        return _offer(tx, read_data(Task, fields, "the alignment run"), run_time, now)

"""From a request to a release spec, offered to the parties.

The coordinator holds no data: it reads what the parties declared, and draws the public mixing seed after that, so the
mixing matrix is independent of the data. Only a party's own ledger knows what is left of its cap.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from coordinator.lifecycle.status import propose
from coordinator.proposals.checks import (
    PublicSide,
    agree,
    check_caps,
    check_clashes,
    check_delta,
    choose,
    enrolled,
    label_of,
    reported,
)
from coordinator.proposals.duplicates import similar_to
from coordinator.proposals.published import EarlierReleases, latest_ranges, read_ranges, with_ranges
from coordinator.store.agreements import Agreement
from coordinator.store.members import Members
from coordinator.store.store import Store
from dprelease.canonical import Value, read_data
from dprelease.data.bounding import MAX_GRID_BITS, USUAL_GRID_BITS
from dprelease.data.columns import Name, weights_of
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.draft import Draft
from dprelease.mechanisms.registry import MechanismName, mechanism_named, mechanism_of, read_options
from dprelease.mpc.schedule import COORDINATOR, SEAL_BYTES
from dprelease.privacy.gaussian import check_target
from dprelease.release.accounting import Guarantee, check_spec
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import PartyColumns, Target, instant

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
        grid_bits: b; cells are rounded to the grid 2^-b.
        expires_hours: until when every party must have decided.
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
class Proposal:
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
    proposal: Proposal
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

    Args:
        store: the consortium's.
        request: what is asked for.
        run_time: how long blocks may take after the last approval.
        now: the present.
        allow_large_delta: see `make_proposal`.
        root: see `EarlierReleases`.
        published: see `EarlierReleases`.

    Raises:
        InvalidInput: the request cannot be met.
        SpecRefused: its numbers do not work out.
        Conflict: the same was proposed in this very second.
    """
    with store.writing() as tx:
        name, members = store.consortium.name, tx.members
        earlier = EarlierReleases(tx.releases.all(), published, root)
        proposal = make_proposal(request, name, members, now, allow_large_delta=allow_large_delta, earlier=earlier)
        spec = proposal.spec
        similar = similar_to(spec, earlier.known)
        expires = now + timedelta(hours=request.expires_hours)
        joint = mechanism_of(spec).schedule(spec) is not None
        record = propose([part.party for part in spec.parties], now, expires, run_time, joint=joint)
        return Created(tx.releases.add(spec, record, now), proposal, similar)


def make_proposal(
    request: Request,
    consortium: str,
    members: Members,
    now: datetime,
    *,
    allow_large_delta: bool = False,
    draw: Callable[[int], bytes] = secrets.token_bytes,
    earlier: EarlierReleases = NOTHING,
) -> Proposal:
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
        "grid_bits": request.grid_bits,
        "target": _data(request.target()),
        "parties": [_data(part) for part in declared],
        "created": instant(now),
        "expires": instant(now + timedelta(hours=request.expires_hours)),
    }
    spec = read_data(ReleaseSpec, fields, "the request")
    check_sizes(spec)
    ranged = with_ranges(earlier.known, columns, agreed) if mechanism.ranged(spec) else None
    return Proposal(spec, check_spec(spec), numbers.explanation, ranged)


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
    schedule = mechanism_of(spec).schedule(spec)
    if schedule is None:
        return
    for party in schedule.receivers(COORDINATOR):
        size = schedule.deal_size(party, COORDINATOR) + SEAL_BYTES
        if size > LARGEST_DEAL_BYTES:
            raise InvalidInput(
                f"the coordinator would have to deal {size / (1 << 20):.1f} MiB to {party}, and at most "
                f"{LARGEST_DEAL_BYTES >> 20} MiB are possible; release fewer columns or levels"
            )


def _data(value: Value) -> dict[str, Any]:
    return value.model_dump(mode="json")

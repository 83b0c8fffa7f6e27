"""From a request to a release spec, offered to the parties.

The coordinator holds no data: it reads what the parties declared, and draws the public mixing seed after that, so the
mixing matrix is independent of the data. What a party has left of its cap is known to its own ledger only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from coordinator.members import Members
from coordinator.moments_proposal import MomentsPlan, check_deal_sizes, parts_of, plan_moments
from coordinator.proposal_checks import (
    PublicSide,
    agree,
    check_caps,
    check_clashes,
    check_delta,
    check_outcomes,
    check_outputs,
    choose,
    enrolled,
    label_of,
    read_positive,
    read_weight,
    reported,
)
from coordinator.record import propose
from coordinator.releases import Release
from coordinator.repetition import similar_to
from coordinator.store import Store
from dprelease.accounting import Guarantee, check_spec
from dprelease.calibration import party_noise, shares
from dprelease.canonical import Value, read_data
from dprelease.catalogue import Catalogue
from dprelease.columns import Column, Name, check_weights, integer_sensitivity, weights_of
from dprelease.errors import InvalidInput
from dprelease.gaussian import check_target
from dprelease.moments.parameters import Dealer
from dprelease.moments.terms import split_charge
from dprelease.planning import MixingPlan, plan_mixing
from dprelease.settings import Settings
from dprelease.spec import Mixing, PartyColumns, ReleaseSpec, Target, Weight, instant

SEED_BYTES = 32


class Request(Settings):
    """What the office asks for: a TOML file.

    Attributes:
        title: what people call the release.
        parties: party to the names of its columns, in released order; ``"*"`` stands for all of them.
        mechanism: ``mixed``, ``rows`` or ``moments``.
        epsilon: of the target.
        delta: of the target.
        scope: what the target bounds: all blocks together (``joint``) or each block alone (``per-party``).
        k: mixing rows; by the rule of `plan_mixing` when absent.
        rho: weight of the anchor row; by the same rule when absent.
        weights: column to how many times smaller its noise is than that of a column of weight 1, at the cost of the others;
            for ``mixed`` and ``rows``.
        curious: t, hospitals that may pool what they saw of joint moments; 1 when absent, 0 for one party alone.
        dealer: who deals the randomness of joint moments; when absent a rotating hospital if there are three and t = 1,
            else the coordinator.
        outcomes: names of columns that are outcomes only, for ``moments``: their products with one another are not released.
        outcome_norm2: the largest squared norm of a patient's public outcomes in scaled units, as the one party that has them
            states it (`party-node public norm`); less of it is less noise.
        public_side: what columns that their owners declared public are: features, outcomes, or some of both (``mixed``); asked
            for if there are any, unless `outcomes` tell.
        charge: hospital to its part of the price of joint moments, for all with a private column; equal parts when absent.
        grid_bits: b; cells are rounded to the grid 2^-b.
        expires_hours: until when every party must have decided.
    """

    title: Annotated[str, Field(min_length=1, max_length=200)]
    parties: Annotated[dict[Name, Literal["*"] | tuple[Literal["*"] | Name, ...]], Field(min_length=1)]
    mechanism: Literal["mixed", "rows", "moments"] = "mixed"
    epsilon: float
    delta: float
    scope: Literal["joint", "per-party"] = "joint"
    k: int | None = None
    rho: float | str | None = None
    weights: dict[Name, Weight] = Field(default_factory=dict)
    curious: Annotated[int, Field(ge=0)] | None = None
    dealer: Dealer | None = None
    outcomes: tuple[Name, ...] | None = None
    outcome_norm2: float | str | None = None
    public_side: PublicSide | None = None
    charge: dict[Name, float | str] = Field(default_factory=dict)
    grid_bits: Annotated[int, Field(ge=1, le=24)] = 16
    expires_hours: Annotated[float, Field(gt=0, le=8760)] = 72.0

    def target(self) -> Target:
        """The privacy target."""
        return Target(scope=self.scope, epsilon=self.epsilon, delta=self.delta)

    def public_norm2(self) -> Fraction | None:
        """`outcome_norm2` as an exact rational."""
        return None if self.outcome_norm2 is None else read_positive("outcome_norm2", self.outcome_norm2)


@dataclass(frozen=True)
class Proposal:
    """A spec that survived every check, and where its numbers came from.

    Attributes:
        spec: the release spec.
        guarantee: what it gives, recomputed from the spec alone.
        plan: the rule for k and rho with its inputs, or what to expect of joint moments; None for mechanism ``rows``.
    """

    spec: ReleaseSpec
    guarantee: Guarantee
    plan: MixingPlan | MomentsPlan | None


@dataclass(frozen=True)
class Created:
    """A proposal that is now before the parties.

    Attributes:
        release: as it stands.
        proposal: what was proposed.
        similar: an open or published release of the same columns by the same mechanism: the parties pay twice.
    """

    release: Release
    proposal: Proposal
    similar: Release | None


def create(
    store: Store, request: Request, run_time: timedelta, now: datetime, *, allow_large_delta: bool = False
) -> Created:
    """Check a request, make its spec and offer it to the parties. Every call makes a release of its own.

    Args:
        store: the consortium's.
        request: what is asked for.
        run_time: how long blocks may take after the last approval.
        now: the present.
        allow_large_delta: see `make_proposal`.

    Raises:
        InvalidInput: the request cannot be met.
        SpecRefused: its numbers do not work out.
        Conflict: the same was proposed in this very second.
    """
    with store.writing() as tx:
        proposal = make_proposal(request, store.consortium.name, tx.members, now, allow_large_delta=allow_large_delta)
        spec = proposal.spec
        similar = similar_to(spec, tx.releases.all())
        expires = now + timedelta(hours=request.expires_hours)
        joint = spec.moments is not None and len(spec.parties) > 1
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
) -> Proposal:
    """A spec for a request.

    Args:
        request: what is asked for.
        consortium: its name.
        members: who takes part, and their catalogues.
        now: the present.
        allow_large_delta: accept delta >= 1/n, which allows publishing one patient's row outright.
        draw: source of the public seed; the operating system's outside tests.

    Raises:
        InvalidInput: the request cannot be met; the message says why, in counts and names only.
        SpecRefused: the numbers do not work out, e.g. the grid is too coarse.
    """
    parties = {name: enrolled(members, name, now) for name in request.parties}
    catalogues = reported(members, tuple(parties))
    agreed = agree(catalogues)
    columns = {name: choose(request.parties[name], catalogues[name]) for name in parties}
    check_clashes(columns)
    outcomes = check_outcomes(columns, request.mechanism, request.outcomes)
    label = label_of(columns, request.mechanism, request.public_side, outcomes)
    check_target(request.epsilon, request.delta)
    if not allow_large_delta:
        check_delta(request.delta, agreed.rows)
    if request.mechanism == "moments":
        numbers, advice = _moments(request, agreed, columns), "lower epsilon, or name other parts of the charge"
    else:
        numbers, advice = _blocks(request, agreed, columns, draw), "lower epsilon, or release fewer columns"
    check_caps({name: party.cap_mu2 for name, party in parties.items()}, numbers.charges, advice)
    weights = {name: weights_of(declared, request.weights) for name, declared in columns.items()}
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
        "guarantee": label,
        "mechanism": request.mechanism,
        "grid_bits": request.grid_bits,
        "target": _data(request.target()),
        "parties": [_data(part) for part in declared],
        "created": instant(now),
        "expires": instant(now + timedelta(hours=request.expires_hours)),
    }
    spec = read_data(ReleaseSpec, fields | numbers.fields, "the request")
    if spec.moments is not None:
        check_deal_sizes(spec)
    return Proposal(spec, check_spec(spec), numbers.plan)


@dataclass(frozen=True)
class _Numbers:
    """What the mechanism makes of a request: charges mu^2 by party, fields of the spec, and where they came from."""

    charges: dict[str, Fraction]
    fields: dict[str, Any]
    plan: MixingPlan | MomentsPlan | None


_Columns = Mapping[str, tuple[Column, ...]]


def _blocks(request: Request, agreed: Catalogue, columns: _Columns, draw: Callable[[int], bytes]) -> _Numbers:
    if request.curious is not None or request.dealer is not None:
        raise InvalidInput(f"curious and dealer belong to mechanism 'moments'; '{request.mechanism}' has neither")
    if request.charge:
        raise InvalidInput("parts of the charge belong to mechanism 'moments'; a block of rows has a price of its own")
    check_weights(tuple(column for declared in columns.values() for column in declared), request.weights)
    q, bits, mixed = agreed.rows_per_subject, request.grid_bits, request.mechanism == "mixed"
    sensitivity2 = {
        name: integer_sensitivity(declared, q, bits, weights_of(declared, request.weights), mixed=mixed)
        for name, declared in columns.items()
    }
    charges = shares(request.target(), sensitivity2)
    plan, mixing, rho = _mixing(request, agreed, columns, draw)
    norm = mixing.outputs if mixing else 1
    noise = [_data(party_noise(name, charges[name], sensitivity2[name], norm, rho)) for name in columns]
    fields: dict[str, Any] = {"mixing": mixing and _data(mixing), "anchor_weight": str(rho), "noise": noise}
    return _Numbers(charges, fields, plan)


def _moments(request: Request, agreed: Catalogue, columns: _Columns) -> _Numbers:
    _check_unmixed(request)
    if request.weights:
        raise InvalidInput("weights belong to mechanisms 'mixed' and 'rows'; mechanism 'moments' has none")
    if request.outcomes is None and request.outcome_norm2 is not None:
        raise InvalidInput("outcome_norm2 belongs to a release with outcomes; name them, or leave it out")
    if request.scope != "joint":
        raise InvalidInput("joint moments have one target for a patient's whole row; scope must be 'joint'")
    shape = request.target(), request.grid_bits, request.curious, request.dealer, request.outcomes or ()
    mu2, moments, plan = plan_moments(columns, agreed, *shape, public_norm2=request.public_norm2())
    parts = parts_of(columns, request.charge)
    terms = _data(moments.model_copy(update={"parts": tuple(map(str, parts))}))
    fields: dict[str, Any] = {"mixing": None, "anchor_weight": "0", "noise": [], "moments": terms}
    return _Numbers(split_charge(mu2, columns, parts), fields, plan)


def _mixing(
    request: Request, agreed: Catalogue, columns: _Columns, draw: Callable[[int], bytes]
) -> tuple[MixingPlan | None, Mixing | None, Fraction]:
    if request.mechanism == "rows":
        _check_unmixed(request)
        return None, None, Fraction(0)
    plan = plan_mixing(agreed.rows, dict(columns), request.target(), agreed.rows_per_subject, request.weights)
    outputs = plan.outputs if request.k is None else request.k
    check_outputs(outputs, agreed.rows)
    rho = plan.anchor_weight if request.rho is None else read_weight(request.rho)
    return plan, Mixing(outputs=outputs, seed=draw(SEED_BYTES).hex()), rho


def _check_unmixed(request: Request) -> None:
    if request.k is not None or request.rho is not None:
        raise InvalidInput(f"k and rho belong to mechanism 'mixed'; mechanism '{request.mechanism}' has neither")


def _data(value: Value) -> dict[str, Any]:
    return value.model_dump(mode="json")

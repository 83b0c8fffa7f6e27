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
from coordinator.proposal_checks import (
    agree,
    check_caps,
    check_clashes,
    check_delta,
    check_outputs,
    choose,
    enrolled,
    read_weight,
    reported,
)
from coordinator.record import State, propose
from coordinator.releases import Release
from coordinator.store import Store
from dprelease.accounting import Guarantee, check_spec
from dprelease.calibration import party_noise, shares
from dprelease.canonical import Value, read_data
from dprelease.catalogue import Catalogue
from dprelease.columns import Column, Name, integer_sensitivity
from dprelease.errors import InvalidInput
from dprelease.gaussian import check_target
from dprelease.planning import MixingPlan, plan_mixing
from dprelease.settings import Settings
from dprelease.spec import Mixing, PartyColumns, ReleaseSpec, Target, instant

SEED_BYTES = 32


class Request(Settings):
    """What the office asks for: a TOML file.

    Attributes:
        title: what people call the release.
        parties: party to the names of its columns, in released order; ``"*"`` stands for all of them.
        mechanism: ``mixed`` or ``rows``.
        epsilon: of the target.
        delta: of the target.
        scope: what the target bounds: all blocks together (``joint``) or each block alone (``per-party``).
        k: mixing rows; by the rule of `plan_mixing` when absent.
        rho: weight of the anchor row; by the same rule when absent.
        grid_bits: b; cells are rounded to the grid 2^-b.
        expires_hours: until when every party must have decided.
    """

    title: Annotated[str, Field(min_length=1, max_length=200)]
    parties: Annotated[dict[Name, Literal["*"] | tuple[Literal["*"] | Name, ...]], Field(min_length=1)]
    mechanism: Literal["mixed", "rows"] = "mixed"
    epsilon: float
    delta: float
    scope: Literal["joint", "per-party"] = "joint"
    k: int | None = None
    rho: float | str | None = None
    grid_bits: Annotated[int, Field(ge=1, le=24)] = 16
    expires_hours: Annotated[float, Field(gt=0, le=8760)] = 72.0

    def target(self) -> Target:
        """The privacy target."""
        return Target(scope=self.scope, epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True)
class Proposal:
    """A spec that survived every check, and where its numbers came from.

    Attributes:
        spec: the release spec.
        guarantee: what it gives, recomputed from the spec alone.
        plan: the rule for k and rho with its inputs; None for mechanism ``rows``.
    """

    spec: ReleaseSpec
    guarantee: Guarantee
    plan: MixingPlan | None


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
    """
    with store.writing() as tx:
        proposal = make_proposal(request, store.consortium.name, tx.members, now, allow_large_delta=allow_large_delta)
        spec = proposal.spec
        similar = next((release for release in tx.releases.all() if _pays_again(release, spec)), None)
        expires = now + timedelta(hours=request.expires_hours)
        record = propose([part.party for part in spec.parties], now, expires, run_time)
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
    check_target(request.epsilon, request.delta)
    if not allow_large_delta:
        check_delta(request.delta, agreed.rows)
    sensitivity2 = {
        name: integer_sensitivity(declared, agreed.rows_per_subject, request.grid_bits)
        for name, declared in columns.items()
    }
    budgets = shares(request.target(), sensitivity2)
    check_caps({name: party.cap_mu2 for name, party in parties.items()}, budgets)
    plan, mixing, rho = _mixing(request, agreed, columns, draw)
    norm = mixing.outputs if mixing else 1
    declared = [PartyColumns(party=name, key=parties[name].fingerprint, columns=columns[name]) for name in parties]
    noise = [party_noise(name, budgets[name], sensitivity2[name], norm, rho) for name in parties]
    fields = {
        "title": request.title,
        "consortium": consortium,
        "roster": agreed.roster,
        "rows": agreed.rows,
        "rows_per_subject": agreed.rows_per_subject,
        "alignment": agreed.alignment,
        "mechanism": request.mechanism,
        "mixing": mixing and _data(mixing),
        "anchor_weight": str(rho),
        "grid_bits": request.grid_bits,
        "target": _data(request.target()),
        "parties": [_data(part) for part in declared],
        "noise": [_data(part) for part in noise],
        "created": instant(now),
        "expires": instant(now + timedelta(hours=request.expires_hours)),
    }
    spec = read_data(ReleaseSpec, fields, "the request")
    return Proposal(spec, check_spec(spec), plan)


def _mixing(
    request: Request, agreed: Catalogue, columns: Mapping[str, tuple[Column, ...]], draw: Callable[[int], bytes]
) -> tuple[MixingPlan | None, Mixing | None, Fraction]:
    if request.mechanism == "rows":
        if request.k is not None or request.rho is not None:
            raise InvalidInput("k and rho belong to mechanism 'mixed'; mechanism 'rows' has neither")
        return None, None, Fraction(0)
    plan = plan_mixing(agreed.rows, dict(columns), request.target(), agreed.rows_per_subject)
    outputs = plan.outputs if request.k is None else request.k
    check_outputs(outputs, agreed.rows)
    rho = plan.anchor_weight if request.rho is None else read_weight(request.rho)
    return plan, Mixing(outputs=outputs, seed=draw(SEED_BYTES).hex()), rho


def _pays_again(release: Release, spec: ReleaseSpec) -> bool:
    if release.record.final and release.record.state is not State.PUBLISHED:
        return False
    return _content(release.read_spec()) == _content(spec)


def _content(spec: ReleaseSpec) -> tuple[str, dict[str, frozenset[str]]]:
    return spec.mechanism, {part.party: frozenset(part.released) for part in spec.parties}


def _data(value: Value) -> dict[str, Any]:
    return value.model_dump(mode="json")

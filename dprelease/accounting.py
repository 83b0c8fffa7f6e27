"""What a spec costs, recomputed by whoever holds it, and the guarantee in words and numbers.

A patient is in every block, so what blocks of rows reveal together is one Gaussian mechanism with mu^2 = sum mu_j^2
(privacy.md 2.1). Both numbers, joint and per party, are always computed. Joint moments are one mechanism over all parties'
columns: its mu^2 is the joint one, every party with a private column is exposed to all of it, and their ledgers are charged
parts of it that add up to it. So caps that add up to the consortium's bound whatever is released. Public columns cost nothing
and are outside the guarantee, which then is not called DP (privacy.md 3.4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dprelease.calibration import party_noise, spent
from dprelease.columns import private
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.gaussian import epsilon_of, mu_of
from dprelease.moments import association, scales
from dprelease.moments.basis import most_columns
from dprelease.moments.layout import Kind, Layout, by_kind
from dprelease.moments.parameters import moves_of
from dprelease.moments.parameters import spent as spent_on_moments
from dprelease.moments.sensitivity import sensitivity
from dprelease.moments.terms import JointMoments, Label
from dprelease.price import epsilon_figure, rounded_up
from dprelease.spec import ReleaseSpec

COARSEST = 100
"""Least Delta_int / mu: below it the grid's extra variance would be noticeable (privacy.md C 6)."""

NEIGHBOURS_IN_WORDS = (
    "Neighbouring tables: all private cells of one patient, in all hospitals, are replaced. "
    "Membership, the number of patients and the declarations of the columns are public and not protected."
)

PRIVATE_NEIGHBOURS_IN_WORDS = (
    "Neighbouring tables: the private cells of one patient, in all hospitals, are replaced, and no public one: columns "
    "{private}. Membership, the number of patients and the declarations of the columns are public and not protected."
)

PUBLIC_IN_WORDS = (
    "This is {label}: {side}. The public columns are published exactly, patient by patient, and are outside the guarantee: "
    "{public}. What can be inferred from them about private columns is outside it too."
)

SIDES: Mapping[Label, str] = MappingProxyType(
    {
        "feature-DP": "the public columns are outcomes and not protected, the private ones are",
        "label-DP": "the public columns are features and not protected, the private ones are",
        "mixed": "the public columns are features and outcomes and not protected, the private ones are",
    }
)
"""What a label says of the two sides of a regression; ``DP`` needs no such words."""

MOST_ENTRIES = 1 << 24
"""Most entries of joint moments, refused by counting: a block of them has 128 MiB."""

_EXACT = 1 << 53
_RING = 1 << 63
_SAMPLER = 2.0**56


@dataclass(frozen=True)
class PartyGuarantee:
    """What a release costs one party.

    Attributes:
        party: its name.
        mu2: what its ledger is charged.
        exposure: mu^2 of what is revealed of its own columns: by its block, or by joint moments in all.
        epsilon: of the exposure.
    """

    party: str
    mu2: Fraction
    exposure: Fraction
    epsilon: float


@dataclass(frozen=True)
class Guarantee:
    """What a release reveals about one patient under replace-one neighbours.

    Attributes:
        delta: the delta of every epsilon here.
        joint_mu2: mu^2 of all blocks together.
        joint_epsilon: of all blocks together, provided every hospital added its declared noise.
        parties: one for each party's own private columns.
        curious: t of joint moments; None for blocks of rows.
        label: what the guarantee is called; ``DP`` where it covers every column.
        private: names of the columns that it covers.
        public: names of those that it does not cover.
    """

    delta: float
    joint_mu2: Fraction
    joint_epsilon: float
    parties: tuple[PartyGuarantee, ...]
    curious: int | None = None
    label: Label = "DP"
    private: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    def party(self, name: str) -> PartyGuarantee:
        """The named party's guarantee."""
        return next(part for part in self.parties if part.party == name)

    def against(self, coalition: set[str]) -> float:
        """epsilon of what parties that pool their own rows and noise still learn about the others' columns."""
        if self.curious is not None and not {part.party for part in self.parties} <= coalition:
            return self.joint_epsilon if len(coalition) <= self.curious else math.inf
        rest = sum((part.mu2 for part in self.parties if part.party not in coalition), Fraction(0))
        return epsilon_of(math.sqrt(rest), self.delta)

    def words(self) -> tuple[str, ...]:
        """The guarantee as sentences; these are what every manifest, review and fit prints.

        They are part of manifest format 1: a verifier compares them, so other words need another format number.
        """
        if self.curious is not None:
            return (self._joint_moments(), *self._covered())
        delta = rounded_up(self.delta)
        each = "; ".join(
            f"{part.party}: epsilon = {epsilon_figure(part.epsilon)}" if part.mu2 else f"{part.party}: nothing private"
            for part in self.parties
        )
        return (
            f"Joint: (epsilon, delta) = ({epsilon_figure(self.joint_epsilon)}, {delta}) for a patient who is in every block, "
            "provided every hospital added its declared noise.",
            f"Each hospital's own columns, unconditional, at delta = {delta}: {each}.",
            *self._covered(),
        )

    def _covered(self) -> tuple[str, ...]:
        if not self.public:
            return (NEIGHBOURS_IN_WORDS,)
        private, public = ", ".join(self.private), ", ".join(self.public)
        return (
            PRIVATE_NEIGHBOURS_IN_WORDS.format(private=private),
            PUBLIC_IN_WORDS.format(label=self.label, side=SIDES[self.label], public=public),
        )

    def _joint_moments(self) -> str:
        which = "private" if self.public else "released"
        bounds = f"({epsilon_figure(self.joint_epsilon)}, {rounded_up(self.delta)})"
        figure = f"(epsilon, delta) = {bounds} for all {which} columns of a patient"
        if not self.curious:
            return f"Joint: {figure}, provided the hospital added its declared noise."
        with_private = " with a private column" if self.public else ""
        charged = [part for part in self.parties if part.mu2]
        parts = ", ".join(f"{part.party} {part.mu2 / self.joint_mu2}" for part in charged)
        equal = len({part.mu2 for part in charged}) == 1
        split = f"to the hospitals{with_private} in equal parts" if equal else f"in parts: {parts}"
        pooled = "any single hospital" if self.curious == 1 else f"any {self.curious} hospitals that pool what they saw"
        return (
            f"Joint: {figure}, against the public, the hub, and {pooled}, also with the hub, "
            f"provided every other hospital added its declared noise. Its price is charged {split}."
        )


def guarantee(spec: ReleaseSpec) -> Guarantee:
    """The guarantee of a spec, from its declared bounds and noise scales alone."""
    if spec.moments is not None:
        joint = spent_on_moments(spec.layout, spec.moments, len(spec.parties), spec.grid_bits, spec.rows_per_subject)
        charges = spec.moments.charges(joint, {part.party: part.columns for part in spec.parties})
        exposed = {party: joint if mu2 else Fraction(0) for party, mu2 in charges.items()}
    else:
        charges = {
            noise.party: spent(noise, spec.squared_sensitivity(noise.party), spec.squared_norm())
            for noise in spec.noise
        }
        joint, exposed = sum(charges.values(), Fraction(0)), charges
    delta = spec.target.delta
    return Guarantee(
        delta=delta,
        joint_mu2=joint,
        joint_epsilon=epsilon_of(math.sqrt(joint), delta),
        parties=tuple(
            PartyGuarantee(party, mu2, exposed[party], epsilon_of(math.sqrt(exposed[party]), delta))
            for party, mu2 in charges.items()
        ),
        curious=None if spec.moments is None else spec.moments.curious,
        label=spec.guarantee,
        private=tuple(column.name for column in private(spec.columns)),
        public=tuple(column.name for column in spec.public),
    )


def check_spec(spec: ReleaseSpec) -> Guarantee:
    """Recompute every number in a spec and refuse it if any disagrees. Trusts nothing but the declared bounds.

    Checked: each party's noise scales are what its declared bounds and share call for; the shares keep to the target;
    the grid is fine enough; every released integer stays below 2^53 (2^63 for joint moments, which live in Z_2^64).

    Returns:
        The guarantee that the spec gives.

    Raises:
        SpecRefused: with the first number that disagrees.
    """
    try:
        return _recompute(spec)
    except InvalidInput as error:
        raise SpecRefused(error.message) from error
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        raise SpecRefused("a number in the spec is too large or too small to compute with") from error


def _recompute(spec: ReleaseSpec) -> Guarantee:
    if spec.moments is not None:
        _check_moments(spec, spec.moments)
    else:
        _check_blocks(spec)
    result = guarantee(spec)
    allowed = Fraction(mu_of(spec.target.epsilon, spec.target.delta)) ** 2
    over = (
        result.joint_mu2 > allowed
        if spec.target.scope == "joint"
        else any(part.mu2 > allowed for part in result.parties)
    )
    if over:
        raise SpecRefused(f"the noise does not reach the {spec.target.scope} target epsilon = {spec.target.epsilon:g}")
    return result


def _check_blocks(spec: ReleaseSpec) -> None:
    anchor_weight = Fraction(spec.anchor_weight)
    for noise, part in zip(spec.noise, spec.parties, strict=True):
        sensitivity2 = spec.squared_sensitivity(noise.party)
        share = Fraction(noise.mu2)
        if sensitivity2 and share <= 0:
            raise SpecRefused(f"{noise.party}: a share mu^2 of {noise.mu2} is not positive")
        if noise != party_noise(noise.party, share, sensitivity2, spec.squared_norm(), anchor_weight):
            raise SpecRefused(f"{noise.party}: the noise scales are not those of its declared bounds and share")
        if sensitivity2 < COARSEST**2 * share:
            raise SpecRefused(f"{noise.party}: the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
        largest = max(noise.scale, noise.anchor_scale or 0.0)
        if (spec.rows * max(part.weights, default=1) << spec.grid_bits) + 20 * largest >= _EXACT:
            raise SpecRefused("released integers could reach 2^53; lower grid_bits")


def _check_moments(spec: ReleaseSpec, moments: JointMoments) -> None:
    outcomes = int(spec.layout.outcome.sum())
    size = len(spec.layout.variables) + 1 - outcomes
    if size * (size + 1) // 2 + (size + 1) * outcomes > MOST_ENTRIES:
        raise SpecRefused(
            f"{size - 1 + outcomes} variables make more than {MOST_ENTRIES} entries; release fewer columns or levels"
        )
    if moments.by_leverage and size > most_columns(spec.grid_bits):
        raise SpecRefused(f"a basis of {size} columns is too fine for the grid of 2^-{spec.grid_bits}; raise grid_bits")
    mu2 = Fraction(moments.mu2)
    if mu2 <= 0:
        raise SpecRefused(f"mu^2 of {moments.mu2} is not positive")
    least, unit = _least_scales(spec, moments, mu2), Fraction(spec.rows_per_subject**2 << (4 * spec.grid_bits))
    if moments.scales != least:
        raise SpecRefused(
            "the noise scales are not those of the declared bounds, mu^2 and the number of curious hospitals"
        )
    largest, finest = max(least.values()), min(scale for scale in least.values() if scale)
    if finest < scales.FINEST or unit * _smallest_move(spec.layout, moments) < COARSEST**2 * mu2:
        raise SpecRefused(f"the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
    # In integers: with doubles a sum near 2^63 could be rounded below it.
    reach = (spec.rows << (2 * spec.grid_bits)) + scales.noise_reach(largest, len(spec.parties))
    if reach >= _RING or largest >= _SAMPLER:
        raise SpecRefused("sums could reach 2^63 and wrap; lower grid_bits")


def _least_scales(spec: ReleaseSpec, moments: JointMoments, mu2: Fraction) -> dict[Kind, float]:
    shared = len(spec.parties), moments.curious, spec.grid_bits, spec.rows_per_subject
    apart = moments.association
    if apart is None:
        return by_kind(*scales.share_scales(sensitivity(spec.layout.variables), mu2, *shared))
    return association.share_scales(moves_of(spec.layout, moments), mu2, Fraction(apart.split), *shared)


def _smallest_move(layout: Layout, moments: JointMoments) -> Fraction:
    """The least squared sensitivity of what is released, scaled units."""
    if not layout.outcomes:
        return sensitivity(layout.variables).squared
    moves = moves_of(layout, moments)
    return min(move for move in (moves.covariance, moves.association) if move)

"""What a spec costs, recomputed by whoever holds it, and the guarantee in words and numbers.

A patient is in every block, so what the whole release reveals is one Gaussian mechanism with mu^2 = sum mu_j^2
(privacy.md 2.1). Both numbers, joint and per party, are always computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dprelease.calibration import party_noise, spent
from dprelease.errors import InvalidInput, SpecRefused
from dprelease.gaussian import epsilon_of, mu_of
from dprelease.spec import ReleaseSpec

COARSEST = 100
"""Least Delta_int / mu: below it the grid's extra variance would be noticeable (privacy.md C 6)."""

_EXACT = 1 << 53


@dataclass(frozen=True)
class PartyGuarantee:
    """What one party's block reveals about one patient: (epsilon, delta)-DP, unconditionally."""

    party: str
    mu2: Fraction
    epsilon: float


@dataclass(frozen=True)
class Guarantee:
    """What a release reveals about one patient under replace-one neighbours.

    Attributes:
        delta: the delta of every epsilon here.
        joint_mu2: mu^2 of all blocks together.
        joint_epsilon: of all blocks together, provided every hospital added its declared noise.
        parties: one guarantee for each party's own columns.
    """

    delta: float
    joint_mu2: Fraction
    joint_epsilon: float
    parties: tuple[PartyGuarantee, ...]

    def party(self, name: str) -> PartyGuarantee:
        """The named party's guarantee."""
        return next(part for part in self.parties if part.party == name)

    def against(self, coalition: set[str]) -> float:
        """epsilon of what parties that pool their own rows and noise still learn about the others' columns."""
        rest = sum((part.mu2 for part in self.parties if part.party not in coalition), Fraction(0))
        return epsilon_of(math.sqrt(rest), self.delta)

    def words(self) -> tuple[str, ...]:
        """The guarantee as sentences; these are what every manifest, review and fit prints.

        They are part of manifest format 1: a verifier compares them, so other words need another format number.
        """
        each = "; ".join(f"{part.party}: epsilon = {part.epsilon:.6g}" for part in self.parties)
        return (
            f"Joint: (epsilon, delta) = ({self.joint_epsilon:.6g}, {self.delta:g}) for a patient who is in every block, "
            "provided every hospital added its declared noise.",
            f"Each hospital's own columns, unconditional, at delta = {self.delta:g}: {each}.",
            "Neighbouring tables: all private cells of one patient, in all hospitals, are replaced. "
            "Membership, the number of patients and the declarations of the columns are public and not protected.",
        )


def guarantee(spec: ReleaseSpec) -> Guarantee:
    """The guarantee of a spec, from its declared bounds and noise scales alone."""
    delta = spec.target.delta
    parties = []
    for noise in spec.noise:
        mu2 = spent(noise, spec.squared_sensitivity(noise.party), spec.squared_norm())
        parties.append(PartyGuarantee(noise.party, mu2, epsilon_of(math.sqrt(mu2), delta)))
    joint = sum((part.mu2 for part in parties), Fraction(0))
    return Guarantee(delta, joint, epsilon_of(math.sqrt(joint), delta), tuple(parties))


def check_spec(spec: ReleaseSpec) -> Guarantee:
    """Recompute every number in a spec and refuse it if any disagrees. Trusts nothing but the declared bounds.

    Checked: each party's noise scales are what its declared bounds and share call for; the shares keep to the target;
    the grid is fine enough; every released integer stays below 2^53.

    Returns:
        The guarantee that the spec gives.

    Raises:
        SpecRefused: with the first number that disagrees.
    """
    try:
        return _recompute(spec)
    except (OverflowError, ZeroDivisionError, ValueError, InvalidInput) as error:
        raise SpecRefused("a number in the spec is too large or too small to compute with") from error


def _recompute(spec: ReleaseSpec) -> Guarantee:
    weight = Fraction(spec.anchor_weight)
    for noise in spec.noise:
        sensitivity2 = spec.squared_sensitivity(noise.party)
        share = Fraction(noise.mu2)
        if share <= 0:
            raise SpecRefused(f"{noise.party}: a share mu^2 of {noise.mu2} is not positive")
        if noise != party_noise(noise.party, share, sensitivity2, spec.squared_norm(), weight):
            raise SpecRefused(f"{noise.party}: the noise scales are not those of its declared bounds and share")
        if sensitivity2 < COARSEST**2 * share:
            raise SpecRefused(f"{noise.party}: the grid of 2^-{spec.grid_bits} is too coarse; raise grid_bits")
        largest = max(noise.scale, noise.anchor_scale or 0.0)
        if (spec.rows << spec.grid_bits) + 20 * largest >= _EXACT:
            raise SpecRefused("released integers could reach 2^53; lower grid_bits")
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

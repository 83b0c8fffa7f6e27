"""The part of a proposal that is particular to joint moments: dealer, noise shares, and what to expect of them.

Everything here follows from the declarations, n and the target alone: no party has looked at a row yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from coordinator.proposal_checks import read_positive
from dprelease.calibration import budget
from dprelease.catalogue import Catalogue
from dprelease.columns import Column, private
from dprelease.errors import InvalidInput
from dprelease.moments.association import Moves
from dprelease.moments.layout import Kind, Layout
from dprelease.moments.parameters import Dealer, least_noise
from dprelease.moments.plan import COORDINATOR, SEAL_BYTES, Plan
from dprelease.moments.scales import released_sd
from dprelease.moments.sensitivity import sensitivity
from dprelease.moments.terms import JointMoments
from dprelease.spec import ReleaseSpec, Target

LARGEST_DEAL_BYTES = 3 << 20
"""What the coordinator deals to one party fits in one message, whose default limit is 4 MiB."""

EVEN_SPREAD = Fraction(1, 3)
"""Variance of a column whose cells spread evenly over [-1, 1]."""


@dataclass(frozen=True)
class MomentsPlan:
    """What a release of joint moments will be like, from public numbers alone.

    Attributes:
        variables: p, coded columns of all parties.
        delta: Delta, how far one row can move the released entries, in scaled units.
        noise_sd: standard deviation of the noise of an entry, in patients: an entry is a sum over patients of numbers
            in [-1, 1]. Where some columns are outcomes only, of an entry of the features' covariance.
        rows: n.
        outcomes: variables that are outcomes only.
        association_sd: standard deviation of the noise of an entry of a feature and such an outcome; 0 without.
    """

    variables: int
    delta: float
    noise_sd: float
    rows: int
    outcomes: int = 0
    association_sd: float = 0.0

    @classmethod
    def of(cls, layout: Layout, moments: JointMoments, parties: int, rows: int, grid_bits: int) -> MomentsPlan:
        """From the parameters of a release."""
        outcomes = int(layout.outcome.sum())
        moved = Moves.of(layout).covariance if outcomes else sensitivity(layout.variables).squared
        sds = [released_sd(scale, parties) / 4**grid_bits for scale in moments.scales.values()]
        return cls(len(layout.variables), math.sqrt(moved), sds[Kind.PRODUCT], rows, outcomes, sds[Kind.ASSOCIATION])

    @property
    def pays_from(self) -> int:
        """About how many patients a fit of all columns needs to beat the mean, for evenly spread columns.

        Then n/3, the variance that such a column sums up to, is 2 sd sqrt(d), the largest eigenvalue of the noise.
        """
        largest = max(self.noise_sd, self.association_sd / 2)
        return math.ceil(2 * largest * math.sqrt(self.variables - self.outcomes) / EVEN_SPREAD)

    def explain(self) -> str:
        """One line: the noise, and with how many patients it pays."""
        if self.outcomes:
            covariance = f"{self.noise_sd:.4g} patients" if self.noise_sd else "0, as every feature is public"
            return (
                f"d = {self.variables - self.outcomes} features, l = {self.outcomes} outcomes, noise sd of an entry of the "
                f"covariance = {covariance}, of the association = {self.association_sd:.4g} patients "
                f"({self.association_sd / self.rows:.2%} of n = {self.rows}). Products of two outcomes are not released."
            )
        return (
            f"p = {self.variables} variables, Delta = {self.delta:.4g}, noise sd of an entry = {self.noise_sd:.4g} patients "
            f"({self.noise_sd / self.rows:.2%} of n = {self.rows}). Fits begin to pay at about {self.pays_from} patients "
            "if cells spread evenly over their declared ranges, later if they do not."
        )


def plan_moments(
    columns: Mapping[str, tuple[Column, ...]],
    agreed: Catalogue,
    target: Target,
    grid_bits: int,
    curious: int | None,
    dealer: Dealer | None,
    outcomes: tuple[str, ...] = (),
    *,
    public_norm2: Fraction | None = None,
) -> tuple[Fraction, JointMoments, MomentsPlan]:
    """mu^2, of which every party is charged a part, the parameters of the release, and what to expect.

    Args:
        columns: party to declared columns.
        agreed: n and q, which the parties agree on.
        target: privacy target, for the whole row.
        grid_bits: b.
        curious: t; None for the default.
        dealer: who deals; None for the default.
        outcomes: names of columns that are outcomes only.
        public_norm2: T2, as the party that has all public outcomes states it.

    Raises:
        InvalidInput: curious and dealer do not fit the number of parties, or one another; no feature is left.
    """
    parties = len(columns)
    curious, dealer = choose_dealer(parties, curious, dealer)
    everything, mu2 = tuple(column for declared in columns.values() for column in declared), budget(target)
    layout = Layout(everything, outcomes)
    shape = parties, curious, dealer, grid_bits, agreed.rows_per_subject
    moments = least_noise(layout, mu2, *shape, public_norm2=public_norm2)
    return mu2, moments, MomentsPlan.of(layout, moments, parties, agreed.rows, grid_bits)


def parts_of(columns: Mapping[str, tuple[Column, ...]], charge: Mapping[str, float | str]) -> tuple[Fraction, ...]:
    """Parts of the charge as exact rationals, for each party with a private column in order; none where they are equal.

    Args:
        columns: party to its declared columns.
        charge: party to its part, as asked for; empty for equal parts.

    Raises:
        InvalidInput: the names are not those parties, or the parts do not add up to 1.
    """
    if not charge:
        return ()
    charged = [party for party, declared in columns.items() if private(declared)]
    if set(charge) != set(charged):
        raise InvalidInput(f"charge names the hospitals with a private column, each once: {', '.join(charged)}")
    parts = tuple(read_positive(f"charge.{party}", charge[party]) for party in charged)
    if sum(parts) != 1:
        raise InvalidInput(f"parts of the charge add up to 1, not to {sum(parts)}; write them as 1/3")
    return () if len(set(parts)) == 1 else parts


def choose_dealer(parties: int, curious: int | None, dealer: Dealer | None) -> tuple[int, Dealer]:
    """t and the dealer: those asked for if they are possible, else the defaults (joint_moments.md "Who may learn what").

    Args:
        parties: m.
        curious: t as asked for.
        dealer: as asked for.

    Raises:
        InvalidInput: they are not possible.
    """
    if parties == 1:
        if curious or dealer not in (None, "none"):
            raise InvalidInput("one party alone computes its moments itself: leave out curious and dealer")
        return 0, "none"
    wanted = 1 if curious is None else curious
    if not 1 <= wanted < parties:
        raise InvalidInput(
            f"curious must lie between 1 and {parties - 1} with {parties} parties, not {wanted}: "
            "a hospital knows its own noise, and somebody's noise must stay unknown"
        )
    may_rotate = parties > 2 and wanted == 1
    if dealer == "rotating" and not may_rotate:
        raise InvalidInput(
            "a rotating dealer needs three parties or more and curious = 1; leave out dealer, and the coordinator deals"
        )
    if dealer == "none":
        raise InvalidInput("several parties need a dealer: leave it out, or write 'rotating' or 'coordinator'")
    return wanted, dealer or ("rotating" if may_rotate else "coordinator")


def check_deal_sizes(spec: ReleaseSpec) -> None:
    """Refuse what the coordinator could not deal: it answers every party with one message.

    Raises:
        InvalidInput: with the party and the size.
    """
    plan = Plan(spec)
    for party in plan.parties if plan.dealt_by(COORDINATOR) else ():
        size = plan.deal_size(party, COORDINATOR) + SEAL_BYTES
        if size > LARGEST_DEAL_BYTES:
            raise InvalidInput(
                f"the coordinator would have to deal {size / (1 << 20):.1f} MiB to {party}, and at most "
                f"{LARGEST_DEAL_BYTES >> 20} MiB are possible; release fewer columns or levels"
            )

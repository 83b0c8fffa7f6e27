"""From a request to the terms of noisy rows: shares of the target, k and rho, a public seed, the least noise."""

from __future__ import annotations

from fractions import Fraction

from pydantic import Field

from dprelease.data.columns import Name, check_weights, needs_bounds
from dprelease.errors import InvalidInput
from dprelease.files.settings import Settings
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.noisy_rows.calibration import party_noise, sensitivities, shares
from dprelease.mechanisms.noisy_rows.defaults import plan_mixing
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, Mixing, PartyNoise, RowsTerms
from dprelease.mechanisms.rational import read_weight
from dprelease.spec_base import Weight

SEED_BYTES = 32


class RowsOptions(Settings):
    """Keys of a request for one noisy row of each patient.

    Attributes:
        weights: column to how many times smaller its noise is than that of a column of weight 1, at the cost of the others.
    """

    weights: dict[Name, Weight] = Field(default_factory=dict)


class MixedOptions(RowsOptions):
    """Keys of a request for random mixtures.

    Attributes:
        k: mixing rows; by the rule of `plan_mixing` when absent.
        rho: weight of the anchor row; by the same rule when absent.
    """

    k: int | None = None
    rho: float | str | None = None

    @property
    def anchor_weight(self) -> Fraction | None:
        """rho as an exact rational."""
        return None if self.rho is None else read_weight("rho", self.rho)


def propose_rows(options: RowsOptions, draft: Draft) -> Numbers:
    """Terms of mechanism ``rows``.

    Raises:
        InvalidInput: a weight is of no column.
    """
    charges, sensitivity2 = _charges(options, draft, mixed=False)
    terms = RowsTerms(noise=_noise(charges, sensitivity2, 1, Fraction(0)))
    return Numbers(terms, charges, weights=options.weights)


def propose_mixed(options: MixedOptions, draft: Draft) -> Numbers:
    """Terms of mechanism ``mixed``, with a fresh public seed.

    Raises:
        InvalidInput: a weight is of no column, or k or rho are out of range.
    """
    charges, sensitivity2 = _charges(options, draft, mixed=True)
    rows, target, q = draft.agreed.rows, draft.target, draft.agreed.rows_per_subject
    plan = plan_mixing(rows, dict(draft.columns), target, q, options.weights)
    outputs = plan.outputs if options.k is None else options.k
    if not 1 <= outputs <= rows:
        raise InvalidInput(f"k must lie between 1 and n = {rows:,}, not {outputs}")
    rho = plan.anchor_weight if options.anchor_weight is None else options.anchor_weight
    terms = MixedTerms(
        mixing=Mixing(outputs=outputs, seed=draft.draw(SEED_BYTES).hex()),
        anchor_weight=str(rho),
        noise=_noise(charges, sensitivity2, outputs, rho),
    )
    return Numbers(terms, charges, plan.explain(), options.weights)


def _charges(options: RowsOptions, draft: Draft, *, mixed: bool) -> tuple[dict[str, Fraction], dict[str, int]]:
    """mu_j^2 and D2_j by party."""
    refused = needs_bounds(draft.everything)
    if refused is not None:
        raise InvalidInput(refused)
    check_weights(draft.everything, options.weights)
    q, bits = draft.agreed.rows_per_subject, draft.grid_bits
    sensitivity2 = sensitivities(draft.columns, q, bits, options.weights, mixed=mixed)
    return shares(draft.target, sensitivity2), sensitivity2


def _noise(
    charges: dict[str, Fraction], sensitivity2: dict[str, int], squared_norm: int, rho: Fraction
) -> tuple[PartyNoise, ...]:
    return tuple(party_noise(name, charges[name], sensitivity2[name], squared_norm, rho) for name in charges)

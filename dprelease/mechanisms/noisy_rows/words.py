"""Every sentence that is printed about noisy rows; some are part of the manifest's format."""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.data.columns import private
from dprelease.mechanisms.noisy_rows.terms import MixedTerms, NoisyRowsTerms
from dprelease.mechanisms.statement import OWN_NOISE, Words, own_blocks
from dprelease.spec_base import SpecBase

TRUST = (
    "Each block was noised inside its hospital; no other party, the coordinator or the hub saw a row.",
    OWN_NOISE,
)


def guarantee(figures: Mapping[str, str | None], joint: str, delta: str) -> tuple[str, ...]:
    """The guarantee as sentences; arguments as of `Mechanism.guarantee`."""
    return own_blocks("a patient who is in every block", "nothing private", figures, joint, delta)


def words(spec: SpecBase, terms: NoisyRowsTerms) -> Words:
    """Every other sentence."""
    width, columns = len(private(spec.columns)), len(spec.columns)
    if not isinstance(terms, MixedTerms):
        return Words(
            would_publish=f"{spec.rows} noisy rows of {width} columns, one for each patient, in keyed order",
            trust=TRUST,
            content=f"{columns} columns, {spec.rows} released rows (rows)",
            summary=f"rows: {spec.rows} rows, one noisy row for each patient",
            figures={"rho": terms.anchor_weight},
        )
    anchor = " and one row of column sums" if terms.rho else ""
    outputs, rows = terms.mixing.outputs, terms.mixing.outputs + (1 if terms.rho else 0)
    return Words(
        would_publish=f"{outputs} noisy random mixtures of all {spec.rows} patients{anchor}, {width} columns",
        trust=TRUST,
        content=f"{columns} columns, {rows} released rows (mixed)",
        summary=f"mixed: {rows} rows, noisy random mixtures of all patients",
        shape=f"k = {outputs}, rho = {terms.anchor_weight}",
        figures={"k": outputs, "rho": terms.anchor_weight},
    )

"""From a request to the terms of ranges: an equal share of the target for every private numeric column, the least noise."""

from __future__ import annotations

from dprelease.data.columns import numbers
from dprelease.data.ranges import parts
from dprelease.errors import InvalidInput
from dprelease.mechanisms.draft import Draft, Numbers
from dprelease.mechanisms.ranges.calibration import numbers_without_bounds, split
from dprelease.mechanisms.ranges.terms import NOBODY, RangesTerms
from dprelease.mechanisms.ranges.words import doubts


def propose(draft: Draft) -> Numbers:
    """Terms of mechanism ``ranges``.

    Raises:
        InvalidInput: no party has a private numeric column, or the target is not a joint one.
    """
    columns, mu2 = len(numbers(draft.everything)), draft.mu2
    unknown = len(numbers_without_bounds(draft.everything))
    if not columns:
        raise InvalidInput(NOBODY)
    if draft.target.scope != "joint":
        raise InvalidInput("mechanism 'ranges' has one target for the whole row: write scope = \"joint\"")
    terms = RangesTerms.least(mu2, draft.everything, draft.agreed.rows_per_subject)
    plan = f"ranges: {columns} private numeric columns, each with {1 / parts(draft.everything)} of mu^2"
    plan += f", and {unknown} without bounds with half as much again" if unknown else ""
    plan += "".join(f"; {doubt}" for doubt in doubts(draft.agreed.rows, terms.scales))
    return Numbers(terms, split(mu2, draft.columns), plan)

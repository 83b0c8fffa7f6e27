"""Poisson regression of a count whose values are the levels of a category, on the log-linear law of it and its features.

The law (`dprelease.estimators.log_linear`) gives the mean count of every combination of features, and maximum likelihood on these
means the log ratios. Intervals follow from influence functions. So they hold where counts spread more than Poisson's law has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dprelease.analyses.combinations import law_of
from dprelease.analyses.draws import features, levels
from dprelease.analyses.logistic import on_law
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.weighted_logit import Poisson
from dprelease.errors import InvalidInput
from dprelease.one_line import listed
from dprelease.release.release import Release

_COUNT = re.compile(
    r"(?P<below>< 1)|(?:>= )?(?P<count>\d{1,6})|(?P<start>\d{1,6}) to (?P<end>\d{1,6})|(?P<part>\d{1,6}\.\d{1,6})"
)
"""A count, or a band of numbers that has one whole number."""


@repeatable
def poisson(release: Release, outcome: str, on: Sequence[str]) -> Analysis:
    """Poisson regression of a count on categories.

    Tables: ``coefficients``, ``rate ratios`` and ``intercept``; noise and sampling, and tested.

    Args:
        release: a verified release of joint moments.
        outcome: a category whose levels are counts, or bands of one count each.
        on: categories.

    Raises:
        InvalidInput: an unknown name, no moments, levels that are no counts, a feature that is a number, noise hides how a feature
            varies, or features nearly follow from one another.
    """
    names = levels(release, outcome)
    counts = dict(zip(release.column(names[0]).values, map(_count, release.column(names[0]).values), strict=True))
    others = [level for level, count in counts.items() if count is None]
    if others:
        raise InvalidInput(
            f"{outcome} has levels that are no counts, {listed(others)}; have its hospital declare bands of one count each before "
            'the release, as derived = { bands = "COLUMN", at = [1, 2, 3] }'
        )
    law = law_of(release, names[:1], features(release, on))
    values = np.array([count for count in counts.values() if count is not None])[law.cells[:, 0]]
    facts = {"mean": f"{law.shares @ values:.4g} of {outcome}"}
    found = on_law(release, law, values, on, Poisson, f"Poisson regression of {outcome}", facts)
    most = [level for level in counts if level.startswith(">= ")]
    told = [f"Patients of {listed(most)} count as that number, so ratios are nearer to 1."] if most else []
    return replace(found, caveats=(*found.caveats, *told))


def _count(level: str) -> float | None:
    """The count that a level says; None if it says none."""
    read = _COUNT.fullmatch(level)
    if read is None or (read["end"] and int(read["end"]) != int(read["start"]) + 1):
        return None
    return 0.0 if read["below"] else float(read["count"] or read["start"] or read["part"])

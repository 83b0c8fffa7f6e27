"""What second moments cannot give: why not, and which column would have to be declared before the release."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from dprelease.errors import InvalidInput

BEYOND: Mapping[str, str] = MappingProxyType(
    {
        "welch": "Welch's test needs the variance within each group, and so sums of y^2 over a group, which are of third order. "
        "The hospital that holds both can declare y^2 times the group's indicator before the release; `means` pools the "
        "variances.",
        "robust": "Robust (sandwich) errors need sums of squared residuals times products of features, which are of fourth order. "
        "Where the spread grows with the outcome, declare its logarithm before the release.",
        "cox": "Cox regression needs, at each event, who is still at risk: an order of times, not sums of products. Declare "
        "events and person-time, by interval if rates change, before the release, and use `rates`.",
        "quantile": "Quantile regression needs the order of residuals, not sums of products. Declare indicators of the outcome "
        "being above chosen cut-offs before the release, and use `logistic` or `table`.",
        "maximum-likelihood": "The likelihood of a logistic regression needs every row. `logistic` approximates it; declare the "
        "logarithm of skewed features before the release, and it comes closer.",
        "mixed-models": "Random slopes need sums of products within each cluster, and clusters are not released. Declare a few "
        "clusters as a category before the release and use it as a factor, or cluster means as columns.",
        "spearman": "Rank correlations need ranks, and ranks the other patients' cells. Declare the logarithm of a skewed "
        "column before the release; `correlate` then comes close.",
    }
)
"""Name of an analysis to the sentences."""


def refuse(name: str) -> NoReturn:
    """Say why an analysis is not possible.

    Raises:
        InvalidInput: always.
    """
    raise InvalidInput(BEYOND[name])

"""Questions that second moments cannot answer: why not, and which column would have to be declared before the release."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from dprelease.errors import InvalidInput

BEYOND: Mapping[str, str] = MappingProxyType(
    {
        "welch": "Welch's test needs the variance within each group, and so sums of y^2 over a group, which are of third order, "
        'but of second where y^2 is a column. Have its hospital declare [columns.y_squared] with derived = { square = "y", plus = '
        "-M } before the release, M the middle of y's bounds; the group may be another hospital's. A group's variance is then its "
        "mean in `means y_squared --by group` less (its mean in `means y --by group` less M)^2, and the test is by hand. If "
        "rows are clipped, such variances are too small. `means` of y alone pools them.",
        "robust": "Robust (sandwich) errors need sums of squared residuals times products of features, which are of fourth order. "
        "If the spread grows with the outcome, declare its logarithm before the release.",
        "cox": "Cox regression needs, at each event, who is still at risk: an order of times, not sums of products. Have the "
        'hospital of the times declare [columns.exit] with derived = { exit = ["followup", "died"], at = [1, 2, 5] } before the '
        "release. Then `hazards` takes several covariates, and `survival` has curves. Events and person-time do for `rates`.",
        "quantile": "Quantile regression needs the order of residuals, not sums of products. Declare indicators of the outcome "
        "being above chosen cut-offs before the release, and use `logistic` or `table`.",
        "maximum-likelihood": "The likelihood of a logistic regression needs every row. `logistic` comes within 2.5 standard "
        "errors of it where outcome and features are categories. So have a number's hospital declare [columns.age_band] with "
        'derived = { bands = "age", at = [50, 60, 70] } before the release.',
        "mixed-models": "Random slopes need sums of products within each cluster, and clusters are not released. Declare a few "
        "clusters as a category before the release and use it as a factor, or as columns what is public of each cluster. A mean "
        "over a cluster's patients must not be a column: it is made of other patients' rows, and the guarantee is for one's own.",
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

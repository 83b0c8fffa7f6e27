"""A description of any release, whatever its view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from dprelease.description.columns import Description, describe
from dprelease.description.counterfactual import DescribedCounterfactual, describe_counterfactual
from dprelease.description.ranges import DescribedRanges, describe_ranges
from dprelease.errors import InvalidInput
from dprelease.release.release import Release

Unfitted = DescribedRanges | DescribedCounterfactual


def _counterfactual(release: Release, names: Sequence[str]) -> DescribedCounterfactual:
    if names:
        raise InvalidInput(release.panel().no_fit)
    return describe_counterfactual([release])


UNFITTED: Mapping[str, Callable[[Release, Sequence[str]], Unfitted]] = MappingProxyType(
    {"ranges": describe_ranges, "panel": _counterfactual}
)
"""Views that nothing is fitted on, to what a release says of some columns, or of all."""


def described(
    release: Release, columns: Sequence[str] = (), *, clipping_corrected: bool = False
) -> Description | Unfitted:
    """Describe columns of a release, or the counterfactual of a synthetic control; arguments as of `describe`.

    Raises:
        InvalidInput: no such column, or a correction of what is not clipped.
    """
    if clipping_corrected or release.view.kind not in UNFITTED:
        return describe(release, columns, clipping_corrected=clipping_corrected)
    return UNFITTED[release.view.kind](release, columns)

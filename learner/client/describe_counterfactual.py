"""What verified releases of a synthetic control say of an intervention: path, effect, band and placebos, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.errors import InvalidInput
from dprelease.estimators.counterfactual import Counterfactual, counterfactual
from dprelease.release.release import Release
from dprelease.release.trust import trust

BAND = (
    "the band shows what privacy noise leaves open about the path that these donors would give without noise. It does not show "
    "whether they are a good control: how well they follow the target before costs privacy and is not released"
)
SHRINKAGE = (
    "lambda draws the path to the middle of the public bounds, with privacy or without, and part of an effect may be this pull. A "
    "release with a smaller lambda has less of it, and more noise"
)
PLACEBO = (
    "placebo: how many donors, on whom nothing was done, are as far from the path as the target. Weights were made for the target, "
    "so a large share is expected without an effect, and noise in the donors' values can hide one"
)
CUT = (
    "at {times} of {all} times noise leaves more open than the public bounds do, and the band ends at them: it says little of "
    "these times"
)
POOLS = (
    "paths of several hospitals are averaged, each by how little noise leaves open; guarantees hold apart if no person is a "
    "donor of two"
)


@dataclass(frozen=True, eq=False)
class DescribedCounterfactual:
    """A counterfactual and the releases that it is from.

    Attributes:
        releases: one for each hospital.
        found: the path.
        level: of the band.
    """

    releases: tuple[Release, ...]
    found: Counterfactual
    level: float

    @property
    def unit(self) -> str:
        """Of the target."""
        return self.found.columns[0].unit

    @property
    def lines(self) -> list[tuple[str, float, float, float, float, float, float]]:
        """For each time from the intervention on: name, target, path, its standard deviation, effect, and ends of its interval."""
        found, target = self.found, self.found.target[self.found.before :]
        low, high = found.band(self.level)
        names = [column.name for column in found.columns[found.before :]]
        numbers = zip(target, found.path, found.path_sd, found.effect, target - high, target - low, strict=True)
        return [(name, *(float(each) for each in line)) for name, line in zip(names, numbers, strict=True)]  # type: ignore[misc]

    @property
    def notes(self) -> tuple[str, ...]:
        """When not to believe it."""
        cut, after = self.found.cut(self.level), len(self.found.path)
        said = (CUT.format(times=cut, all=after),) if cut else ()
        return (*said, BAND, SHRINKAGE, PLACEBO) + ((POOLS,) if len(self.releases) > 1 else ())

    def to_json(self) -> dict[str, Any]:
        """The description as plain data; every ``error`` is a standard deviation of what privacy noise leaves open."""
        found, placebo = self.found, self.found.placebo
        mean, error = found.mean_effect
        keys = ("time", "target", "counterfactual", "error", "effect", "lower", "upper")
        return {
            "version": 1,
            "releases": [release.digest for release in self.releases],
            "donors": list(found.donors),
            "unit": self.unit,
            "level": self.level,
            "before": [
                {"time": column.name, "target": float(value)}
                for column, value in zip(found.columns[: found.before], found.target, strict=False)
            ],
            "after": [dict(zip(keys, line, strict=True)) for line in self.lines],
            "mean_effect": {"estimate": mean, "error": error},
            "placebo": {
                "p_value": placebo.p_value,
                "gap": placebo.gap,
                "donors_gap": placebo.donors_gap,
                "donors": placebo.donors,
            },
            "notes": list(self.notes),
            "guarantee": [list(release.guarantee) for release in self.releases],
            "trust": [list(trust(release.spec)) for release in self.releases],
        }


def describe_counterfactual(releases: Sequence[Release], level: float) -> DescribedCounterfactual:
    """The counterfactual of one release, or of several whose donors are different people.

    Args:
        releases: of mechanism ``synthetic-control``, against the same target.
        level: of the band, in (0, 1).

    Raises:
        InvalidInput: one has no synthetic control, two are of one hospital and roster, or they are not against the same target.
    """
    different = tuple({release.digest: release for release in releases}.values())
    panels = [release.panel() for release in different]
    if len({(each.spec.consortium, each.spec.roster, each.spec.parties[0].party) for each in different}) < len(
        different
    ):
        raise InvalidInput(
            "two of the releases have the same donors, of one hospital; name one release of each hospital"
        )
    return DescribedCounterfactual(different, counterfactual(panels), level)

"""The answer of verified releases of a synthetic control to an intervention: path, effect, band and placebos, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.document.cells import LEVEL, Estimate, Said, figure
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.document.shown import Shown
from dprelease.errors import InvalidInput
from dprelease.estimators.counterfactual import Counterfactual, counterfactual
from dprelease.release.release import Release

BAND = (
    "The band covers privacy noise only. It does not say whether these donors are a good control: how well they follow the target "
    "before the intervention is not released."
)
SHRINKAGE = (
    "lambda pulls the path to the middle of the public bounds, so part of an effect may be this pull. A smaller lambda pulls less "
    "and has more noise."
)
PLACEBO = (
    "The placebo share counts donors that are as far from the path as the target. Weights were made for the target, so the share "
    "is large without an effect, and noise in the donors' values can hide one."
)
CUT = (
    "At {times} of {all} times the band is cut at the public bounds, because the noise is larger: it says little there."
)
POOLS = "Paths of several hospitals are averaged, weighted by precision. Each guarantee holds if no person is a donor of two."


@dataclass(frozen=True, eq=False, repr=False)
class DescribedCounterfactual(Shown):
    """A counterfactual and the releases that it is from."""

    releases: tuple[Release, ...]
    found: Counterfactual
    level: float

    @property
    def words(self) -> str:
        """Its name, in a few words."""
        return f"a counterfactual of {sum(self.found.donors)} donors"

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

    def document(self) -> Document:
        """All that the counterfactual has to tell."""
        found, placebo, unit = self.found, self.found.placebo, self.unit
        mean, error = found.mean_effect
        facts = {
            "releases": tuple(release.digest for release in self.releases),
            "donors": Said(list(found.donors), f"{sum(found.donors):,}"),
            "mean_effect": Estimate(mean, error, unit=unit),
        }
        parts = ("estimate", "standard_error")
        effect = Heading("effect", "effect", parts=("estimate", "lower", "upper"), level=self.level)
        headings = ("time", "target", Heading("counterfactual", "counterfactual", parts=parts), effect)
        rows = [
            (
                name,
                Said(target, figure(target, path_sd)),
                Estimate(path, path_sd, unit=unit, level=self.level),
                Estimate(gap, path_sd, low, high, unit, self.level),
            )
            for name, target, path, path_sd, gap, low, high in self.lines
        ]
        path = Table.of("path", headings, rows, title=f"Effect at each time{f', {unit}' if unit else ''}")
        measures = (
            ("share of units with as large a gap (placebo p)", placebo.p_value),
            ("gap of the target, root mean square in half-widths of the bounds", placebo.gap),
            ("gap of a donor, noise removed", placebo.donors_gap),
        )
        target = Table.of("", ("", "value"), measures, title="The target among donors")
        data = {"level": self.level, "before": self._before(), "placebo": vars(placebo)}
        return Document("Counterfactual", facts, (path, target), self.notes, self._promise, data)

    def _before(self) -> list[dict[str, Any]]:
        """The target's series up to the intervention."""
        pairs = zip(self.found.columns[: self.found.before], self.found.target, strict=False)
        return [{"time": column.name, "target": float(value)} for column, value in pairs]

    @property
    def _promise(self) -> Promise:
        """The promises of all releases together."""
        found = [release.promise for release in self.releases]
        guarantee = tuple(sentence for each in found for sentence in each.guarantee)
        trusted = tuple(dict.fromkeys(sentence for each in found for sentence in each.trust))
        return Promise(" ".join(each.line for each in found), guarantee, trusted)


def describe_counterfactual(releases: Sequence[Release], level: float = LEVEL) -> DescribedCounterfactual:
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

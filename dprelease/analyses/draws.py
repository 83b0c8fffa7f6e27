"""Posterior draws of the means and covariances of named columns, in original units: what every analysis here is a function of.

Each draw is one matrix that the private rows may have, given the released one (`dprelease.estimators.evidence`). An
analysis is worked out on every draw, so what differs between the draws is what privacy noise leaves open. A release without noise
has one draw, the truth.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.evidence import Evidence
from dprelease.estimators.intervals.of_moments import dropped_places
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.one_line import listed
from dprelease.release.release import Release

CLEAR = 2.0
"""Standard deviations of its noise from which on a count is told from 0."""
LEAST = 0.5
"""Patients that are none."""


@dataclass(frozen=True, eq=False)
class Draws:
    """T draws of the first two moments of k columns; a level of a category is an indicator, 0 or 1.

    Attributes:
        release: the release.
        names: (k,) released names.
        mean: (T, k) over patients, original units.
        covariance: (T, k, k) over patients, divided by n.
        evidence: what was drawn from.
        index: (k,) places of the columns in it.
    """

    release: Release
    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    evidence: Evidence
    index: tuple[int, ...]

    @property
    def patients(self) -> int:
        """n."""
        return self.moments.rows

    @property
    def moments(self) -> NoisyMoments:
        """The released moments that the draws are about."""
        return self.evidence.moments.joint

    def places(self, names: Sequence[str]) -> list[int]:
        """Positions of some of the columns."""
        return [self.names.index(name) for name in names]

    def sums(self) -> Floats:
        """(T, k + 1, k + 1) sums over patients of products of the constant, first, and the columns."""
        x = np.concatenate([np.ones((len(self.mean), 1)), self.mean], axis=1)
        found = x[:, :, None] * x[:, None, :]
        found[:, 1:, 1:] += self.covariance
        sums: Floats = self.patients * found
        return sums

    @cached_property
    def absent(self) -> tuple[str, ...]:
        """Levels of categories of more than two whose patients noise does not tell from none."""
        level = self.moments.layout.level
        told = clear(self.patients * self.mean)
        return tuple(
            name
            for name, at, seen in zip(self.names, self.index, told, strict=True)
            # A prior may tell patients from none where the released number does not.
            if level[at] and not (seen and not dropped_places(self.evidence.moments, [at], intercept=True))
        )

    def present(self, names: Sequence[str]) -> tuple[str, ...]:
        """Features without absent levels, whose patients then count with the reference level.

        Raises:
            InvalidInput: none is left.
        """
        found = tuple(name for name in names if name not in self.absent)
        if names and not found:
            raise InvalidInput(f"noise does not tell the patients of {listed(names)} from none; name other columns")
        return found

    @property
    def caveats(self) -> tuple[str, ...]:
        """A sentence that names absent levels, where there are any."""
        told = "Counted with the reference level of their category, for noise does not tell their patients from none: "
        return (f"{told}{', '.join(self.absent)}.",) if self.absent else ()

    def check_seen(self, names: Sequence[str]) -> None:
        """Refuse features of which noise hides how they vary beside each other.

        Raises:
            InvalidInput: there are such, or features that others determine.
        """
        places = self.places(names)
        hidden = dropped_places(self.evidence.moments, [self.index[place] for place in places], intercept=True)
        if hidden:
            raise InvalidInput(
                f"nothing can be told with {listed(names[place] for place in hidden)}: privacy noise hides how it varies "
                "beside the others, or they determine it; leave it out"
            )


def draws_of(release: Release, names: Sequence[str]) -> Draws:
    """Draws of the moments of some columns.

    All columns of a release are drawn together, for each tells something about the others; of a release of too many
    variables only those of the declared columns that are named.

    Args:
        release: a verified release of joint moments.
        names: released names, distinct.

    Raises:
        InvalidInput: a release without moments, an unknown name, a name that is there twice (as both levels of a binary are), an
            outcome-only column, or too many columns.
    """
    declared = {release.column(name).name for name in names}
    refuse_outcomes(release, declared)
    evidence = Evidence(release.moments()).narrowed(declared)
    moments = evidence.moments.joint
    index, midpoint, half_width = zip(*(moments.lookup(name) for name in names), strict=True)
    if len(set(index)) < len(index):
        raise InvalidInput(f"{listed(names)}: two of them are the same column; name each once")
    drawn, scale = evidence.draws(), np.array(half_width)
    mean = drawn[:, 0, index]
    covariance = drawn[:, index][:, :, index] - mean[:, :, None] * mean[:, None, :]
    return Draws(
        release, tuple(names), np.array(midpoint) + scale * mean, covariance * np.outer(scale, scale), evidence, index
    )


def number(release: Release, name: str) -> str:
    """The released name of a number or an indicator: of two declared levels, as no and yes, the second.

    Raises:
        InvalidInput: an unknown name, or a category of more levels.
    """
    found = release.expand((name,), reference=False)
    if len(found) > 2:
        raise InvalidInput(f"{name} has {len(found)} levels; name one of them: {listed(found)}")
    declared = release.column(found[0]).vocabulary
    return found[-1] if len(found) == len(declared) else found[0]


def features(release: Release, names: Sequence[str]) -> tuple[str, ...]:
    """Released names of regressors, a category standing for its levels but the first.

    Raises:
        InvalidInput: an unknown name, or none.
    """
    found = release.expand(tuple(names), reference=True)
    if not found:
        raise InvalidInput(f"name at least one column out of {listed(release.spec.released)}")
    return found


def refuse_outcomes(release: Release, declared: Set[str]) -> None:
    """Raise InvalidInput for outcome-only columns among declared names."""
    outcome_only = declared & set(release.spec.outcomes)
    if outcome_only:
        raise InvalidInput(
            f"{listed(sorted(outcome_only))} is an outcome-only column, whose products with other outcomes are not released; "
            "`learner fit` regresses it on the features"
        )


def levels(release: Release, name: str) -> tuple[str, ...]:
    """Released names of all levels of a category or binary.

    Raises:
        InvalidInput: an unknown name, a number, or one level instead of its column.
    """
    columns = {column.name: column for part in release.spec.parties for column in part.columns}
    column = columns.get(name) or release.column(name)
    if not column.indicators:
        raise InvalidInput(f"{name} is a number; a cut-off has to be declared as a binary column before the release")
    if column.name != name:
        raise InvalidInput(f"{name} is one level; name its column, {column.name}")
    return column.released


def compared(release: Release, names: tuple[str, ...]) -> tuple[str, ...]:
    """Levels of a column, with the one first that others are compared with: of a single declared level it is ``other``."""
    return names[::-1] if len(release.column(names[0]).told) == 1 else names


def clear(counts: Floats) -> npt.NDArray[np.bool_]:
    """(q,) whether numbers of patients, (T, q), are told from 0."""
    found: npt.NDArray[np.bool_] = np.median(counts, axis=0) >= np.maximum(CLEAR * counts.std(axis=0), LEAST)
    return found

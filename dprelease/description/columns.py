"""A verified release's statements about each column by itself and about pairs of columns, in original units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from statistics import NormalDist

import numpy as np

from dprelease.arrays import Floats
from dprelease.description.ranges import range_notes, ranges_table
from dprelease.document.cells import Estimate, Said
from dprelease.document.document import Document, Heading, Table
from dprelease.document.shown import Shown
from dprelease.errors import InvalidInput
from dprelease.estimators.evidence.before_clipping import PublishedSpreads
from dprelease.estimators.evidence.summary import summarise
from dprelease.estimators.quality import WIDTHS, is_hidden
from dprelease.mechanisms.moments.released import Moments
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.mechanisms.ranges.released import HIDDEN, Summary
from dprelease.release.release import Regressable, Release

MOST_CORRELATED = 10
"""Columns whose correlations fit on a terminal."""
CLIPPED = (
    "Means, standard deviations and correlations describe clipped records. --clipping-corrected corrects them, "
    "assuming normal data."
)
NORMAL = (
    "Means, standard deviations and correlations are corrected for clipping, assuming normal data. With a long tail the "
    "standard deviation stays too small, and the mean is not corrected."
)
NOT_CLIPPED = (
    "rows of this release are not clipped, so there is nothing to correct for; describe it without clipping_corrected"
)
APART = 0.05
"""Probability that noise alone makes both rounds say different things of any column that is described."""
BELOW = (
    "Means and standard deviations of the first round describe all records before clipping and assume no distribution."
)


@dataclass(frozen=True, eq=False, repr=False)
class Description(Shown):
    """Columns of a release; an indicator is 1 for its level and 0 otherwise.

    Attributes:
        release: the release.
        names: (p,) released names.
        mean: (p,).
        mean_noise_sd: (p,) what privacy noise leaves open about the mean, a standard deviation.
        deviation: (p,) standard deviation over patients; NaN where the release has no moments.
        deviation_noise_sd: (p,) what noise leaves open about it; NaN where it is not known.
        correlated: (c,) those of the names that correlations are of; outcomes only have none.
        correlation: (c, c); None where the release has no moments.
        correlation_noise_sd: (c, c) what noise leaves open; NaN where it is not known; None as above.
        clipping_corrected: whether all of it is what it would be before clipping, were rows normal.
    """

    release: Release
    names: tuple[str, ...]
    mean: Floats
    mean_noise_sd: Floats
    deviation: Floats
    deviation_noise_sd: Floats
    correlated: tuple[str, ...]
    correlation: Floats | None
    correlation_noise_sd: Floats | None
    clipping_corrected: bool = False

    def unit(self, name: str) -> str:
        """Unit of a column; empty for an indicator."""
        return self.release.column(name).released_unit

    @property
    def derivations(self) -> dict[str, str]:
        """Column to the formula by which its hospital computed it, of those that are derived."""
        declared = [self.release.column(name) for name in self.names]
        return {column.name: column.derivation for column in declared if column.derivation}

    @property
    def hidden(self) -> tuple[tuple[str, ...], ...]:
        """(p,) which of ``mean`` and ``standard_deviation`` noise hides: it covers the range, or reaches from the spread to 0."""
        found = []
        for place, name in enumerate(self.names):
            spread, spread_sd = self.deviation[place], self.deviation_noise_sd[place]
            mean = is_hidden(self.mean_noise_sd[place], self.release.width(name))
            follows = self.release.column(name).indicators  # the spread, from the mean
            hidden = {
                "mean": mean,
                "standard_deviation": spread_sd > 0 and ((follows and mean) or spread < WIDTHS / 2 * spread_sd),
            }
            found.append(tuple(number for number, whether in hidden.items() if whether))
        return tuple(found)

    @property
    def ranges(self) -> tuple[Summary, ...]:
        """The ranges that a first round published of these columns; nothing without one."""
        first = self.release.first_ranges
        return () if first is None else tuple(each for each in first.columns if each.column.name in self.names)

    @property
    def rows(self) -> tuple[str, ...]:
        """Which rows means, standard deviations and correlations are about, one sentence each; none where no rows are clipped."""
        clipping = self.release.view.clipping
        if clipping is None:
            return ()
        told = NORMAL if self.clipping_corrected else CLIPPED
        if self.release.first_ranges is not None:
            return told, BELOW, *self._disagreeing
        if clipping.source is None:
            return (told,)
        return (
            told,
            f"Release {clipping.source[:16]} has means and standard deviations before clipping that assume no distribution.",
        )

    @property
    def _disagreeing(self) -> tuple[str, ...]:
        """Which numbers the two rounds say different things of, beyond the errors of both: clipping took it."""
        narrower = {each.name for each in self.release.reaches if each.narrower}
        clipped = [each for each in self.ranges if each.column.name in narrower]
        # Two numbers of each column, either side: all of them share the probability.
        apart = NormalDist().inv_cdf(1 - APART / max(4 * len(clipped), 1))
        return tuple(
            f"{each.column.name}: mean {each.mean:.4g} ({each.mean_error:.2g}) and standard deviation {each.deviation:.4g} "
            f"({each.deviation_error:.2g}) before clipping, {self.mean[at]:.4g} and {self.deviation[at]:.4g} after it. "
            "Use the former for all records."
            for each in clipped
            for at in [self.names.index(each.column.name)]
            if abs(each.mean - self.mean[at]) > apart * np.hypot(each.mean_error, self.mean_noise_sd[at])
            or abs(each.deviation - self.deviation[at])
            > apart * np.hypot(each.deviation_error, self.deviation_noise_sd[at])
        )

    def document(self) -> Document:
        """All that the description has to tell; correlations of at most `MOST_CORRELATED` columns as a table."""
        tables, notes = [self._columns()], [f"{name} is derived: {how}" for name, how in self.derivations.items()]
        notes += [*self.rows]
        if any(self.hidden):
            notes.append("hidden: noise covers the whole range of a mean, or a spread cannot be told from none.")
        if self.correlation is None:
            notes.append("Standard deviations and correlations need a release of joint moments (mechanism moments).")
        elif len(self.correlated) > MOST_CORRELATED:
            notes.append(
                f"For correlations of {len(self.correlated)} columns choose up to {MOST_CORRELATED} with --columns, or --json."
            )
        elif self.correlated:
            tables.append(self._correlations())
        if self.correlation is not None and len(self.correlated) < len(self.names):
            notes.append("Outcome-only columns have no correlations: fit them on the features.")
        if self.ranges:
            tables.append(ranges_table(self.ranges, "Before clipping, from the first round"))
            notes += range_notes(self.ranges)
        facts = {"release": self.release.digest, "patients": self.release.patients, **self.release.scores(self.names)}
        facts |= self.release.meanings(self.names)
        data = {
            "clipping_corrected": self.clipping_corrected,
            "derivations": self.derivations,
            "correlated": list(self.correlated),
            "correlation": self.correlation,
            "correlation_noise_sd": self.correlation_noise_sd,
        }
        return Document("Columns", facts, tuple(tables), tuple(notes), self.release.promise, data)

    def _columns(self) -> Table:
        moments = self.correlation is not None
        spread = [Heading("standard_deviation", "standard deviation", detail=not moments)]
        rows = []
        for place, (name, hidden) in enumerate(zip(self.names, self.hidden, strict=True)):
            unit = self.unit(name)
            mean = Estimate(float(self.mean[place]), float(self.mean_noise_sd[place]), unit=unit)
            deviation = Estimate(float(self.deviation[place]), float(self.deviation_noise_sd[place]), unit=unit)
            told = [
                Said(each, HIDDEN) if key in hidden else each
                for key, each in (("mean", mean), ("standard_deviation", deviation))
            ]
            rows.append((name, *told, unit, hidden))
        title = f"{self.release.patients:,} {self.release.spec.counted}; errors are standard deviations of the privacy noise"
        headings = (Heading("name", "column"), "mean", *spread, "unit", Heading("hidden", detail=True))
        return Table.of("columns", headings, rows, title=title)

    def _correlations(self) -> Table:
        """The lower triangle, for people."""
        assert self.correlation is not None, self  # noqa: S101 - callers looked
        assert self.correlation_noise_sd is not None, self  # noqa: S101
        names, values, noise = self.correlated, self.correlation, self.correlation_noise_sd
        rows = [
            (
                f"{row + 1} {name}",
                *(Estimate(float(values[row, at]), float(noise[row, at])) for at in range(row)),
                *("" for _ in range(row, len(names) - 1)),
            )
            for row, name in enumerate(names)
        ]
        headings = (Heading("name", "correlation with"), *(str(place) for place in range(1, len(names))))
        return Table.of("", headings, rows, title="Correlations, errors in brackets")


def describe(release: Release, columns: Sequence[str] = (), *, clipping_corrected: bool = False) -> Description:
    """Describe columns of a release: all that joint moments say, the means of a release of rows.

    Args:
        release: verified.
        columns: names of columns or released columns; all if empty.
        clipping_corrected: say what all would be of the same rows before clipping, were they normal.

    Raises:
        InvalidInput: no such column; clipping_corrected, and rows of the release are not clipped.
    """
    names = release.expand(tuple(columns or [each.name for each in release.spec.columns]), reference=False)
    if clipping_corrected and release.view.clipping is None:
        raise InvalidInput(NOT_CLIPPED)
    return _from(release.regressable, release, names, clipping_corrected)


@singledispatch
def _from(view: Regressable, release: Release, names: tuple[str, ...], clipping_corrected: bool) -> Description:
    raise NotImplementedError(view)


@_from.register
def _from_moments(moments: Moments, release: Release, names: tuple[str, ...], clipping_corrected: bool) -> Description:
    first = release.first_ranges
    published = {each.column.name: (each.deviation, each.deviation_error) for each in (first.columns if first else ())}
    summary = summarise(moments, PublishedSpreads.of(moments, published) if clipping_corrected else None)
    index = np.array([moments.lookup(name)[0] - 1 for name in names])
    # The second level of a binary is 1 minus the first, which is what the summary has.
    opposite = np.array([name != summary.names[place] for name, place in zip(names, index, strict=True)])
    sign = np.where(opposite, -1.0, 1.0)
    place = {name: at for at, name in enumerate(summary.correlated)}
    known = [at for at, name in enumerate(index) if summary.names[name] in place]
    within = [place[summary.names[index[at]]] for at in known]
    pairs = np.ix_(within, within)
    return Description(
        release=release,
        names=names,
        mean=np.where(opposite, 1 - summary.mean[index], summary.mean[index]),
        mean_noise_sd=summary.mean_sd[index],
        deviation=summary.standard_deviation[index],
        deviation_noise_sd=summary.standard_deviation_sd[index],
        correlated=tuple(names[at] for at in known),
        correlation=summary.correlation[pairs] * np.outer(sign[known], sign[known]),
        correlation_noise_sd=np.where(np.eye(len(within), dtype=bool), 0.0, summary.correlation_sd[pairs]),
        clipping_corrected=clipping_corrected,
    )


@_from.register
def _from_rows(scaled: NoisyRows, release: Release, names: tuple[str, ...], _: bool) -> Description:
    unknown = np.full(len(names), np.nan)
    index, midpoint, half_width = map(np.array, zip(*map(scaled.lookup, names), strict=True))
    mean, noise_sd = (values[index] for values in scaled.means())
    return Description(
        release=release,
        names=names,
        mean=midpoint + half_width * np.clip(mean, scaled.lower[index], 1.0),
        mean_noise_sd=half_width * noise_sd,
        deviation=unknown,
        deviation_noise_sd=unknown,
        correlated=(),
        correlation=None,
        correlation_noise_sd=None,
    )

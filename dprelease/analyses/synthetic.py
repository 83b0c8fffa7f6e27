"""Made-up rows that look like a release's patients, and how far they agree with what was released.

Rows are drawn from a joint distribution fitted to all released entries (`dprelease.estimators.joint`). They are
post-processing: they carry the release's guarantee and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.special import stdtrit

from dprelease.arrays import Floats, Integers
from dprelease.description.columns import describe
from dprelease.document.cells import LEVEL
from dprelease.document.document import Document, Heading, Table
from dprelease.document.shown import Shown
from dprelease.errors import InvalidInput
from dprelease.estimators.joint.derived import possible_rows, ties
from dprelease.estimators.joint.fit import joint_of, refits, seed_of
from dprelease.estimators.joint.model import Joint
from dprelease.one_line import listed
from dprelease.privacy.public_stream import PublicNormals
from dprelease.release.release import Release

MOST_ROWS = 10**6
"""Rows of all sets together."""
MOST_DRAWS = 200
"""Times that impossible rows are drawn again."""
NOBODYS = (
    "These rows are nobody's: they are drawn from a model of released sums. They carry the release's guarantee and no more. "
    "A row that equals a patient's is chance."
)
ONE_SET = (
    "Never analyse one set as if it were data: its standard errors, P values and intervals are wrong. In measurements such "
    "intervals held the truth in 13 to 80 of 100 cases instead of 95. Use learner analyze, or --sets 20 and its rule."
)
RULE = (
    "Fit on set 0: estimate q with standard error e. Fit on sets 1 to {sets}: estimates q_i. The variance of q is "
    "e^2 * {rows} / {patients} + (1 + 1/{sets}) * mean of (q_i - q)^2. A 95 % interval reaches {t:.2f} roots of it to either side, "
    "which is Student's t of {sets} degrees of freedom. No set by itself is to be analysed as data."
)
THIRD = "Effects of two columns together on a third are the model's and not the data's: the release has tables of two columns only."
SCORED = (
    "The release has mean, spread and products of {names} only, so the shape of their distribution is the model's. Release `bands` "
    "for tables."
)
APART = "No product of two of {names} is released: how they go together is the model's."
RARE = "Noise hides {names}, as in `describe`: their patients cannot be told from none, or from all."
FEW = (
    "All patients are {ratio:.3g} times the noise of a released sum ({noise:.3g}). At less than 60 times, rows say little of "
    "how columns go together."
)
POOR = "The model does not give the released sums as nearly as their noise allows: chi-square an entry is {chi2:.3g}, not about 1."
_POOR, _FEW = 1.5, 60.0


@dataclass(frozen=True, eq=False)
class TwoColumns:
    """A table of two categories, as released and in made-up rows.

    Attributes:
        names: of the columns.
        shape: values of each.
        labels: (c,) of the cells.
        released: (c,) patients, noise included.
        noise: (c,) standard deviations of their noise.
        made_up: (c,) rows of the first set, scaled to the number of patients.
        error: (c,) standard deviations of what the draw of rows adds to that.
    """

    names: tuple[str, str]
    shape: tuple[int, int]
    labels: tuple[str, ...]
    released: Floats
    noise: Floats
    made_up: Floats
    error: Floats

    @property
    def away(self) -> Floats:
        """(c,) differences in standard deviations of noise and draw."""
        return (self.made_up - self.released) / np.hypot(self.noise, self.error)

    @property
    def variation(self) -> float:
        """Total variation distance of the two tables; noise alone makes some."""
        total = float(self.made_up.sum())
        return float(np.abs(self.made_up - self.released).sum()) / (2 * total)

    @property
    def by_noise(self) -> float:
        """Total variation distance that noise and draw make where the model is right."""
        total = float(self.made_up.sum())
        return float(np.hypot(self.noise, self.error).sum() * np.sqrt(2 / np.pi)) / (2 * total)


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRows(Shown):
    """Made-up rows of a release.

    Attributes:
        release: the release.
        joint: the model.
        sets: one (rows, A) array of places in `Attribute.values`; with refits, that of the model first.
    """

    release: Release
    joint: Joint
    sets: tuple[Integers, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """(A,) declared columns."""
        return self.joint.entries.names()

    def columns(self, number: int, written: Callable[[str], str] = str) -> list[list[str]]:
        """Column by column, the cells of one set as people write them, or as `written` does."""
        values = [np.array([*map(written, each.values)]) for each in self.joint.attributes]
        return [each[own].tolist() for each, own in zip(values, self.sets[number].T, strict=True)]

    @cached_property
    def pairs(self) -> tuple[TwoColumns, ...]:
        """Every table of two categories that is released, those with the largest difference beside noise first."""
        found = []
        for first, second in combinations(range(len(self.names)), 2):
            try:
                cells, noise = self.joint.entries.released_table(first, second)
            except InvalidInput:
                continue
            found.append(self._pair(first, second, cells, noise))
        return tuple(sorted(found, key=lambda pair: -float(np.mean(pair.away**2))))

    def _pair(self, first: int, second: int, cells: Floats, noise: Floats) -> TwoColumns:
        attributes, rows = self.joint.attributes, self.sets[0]
        one, other = attributes[first], attributes[second]
        made_up = np.zeros(cells.shape)
        np.add.at(made_up, (rows[:, first], rows[:, second]), 1.0)
        scale = self.joint.patients / len(rows)
        labels = tuple(f"{a}, {b}" for a in one.values for b in other.values)
        error = scale * np.sqrt(np.maximum(made_up, 1.0))
        parts = [each.ravel() for each in (cells, noise, scale * made_up, error)]
        return TwoColumns((one.name, other.name), (len(one.values), len(other.values)), labels, *parts)

    @property
    def rule(self) -> str:
        """How to use the rows in an analysis."""
        count = len(self.sets) - 1
        if not count:
            return ONE_SET
        # Refits scatter about q, which they do not estimate: all of their squares are free.
        t = float(stdtrit(count, 1 - (1 - LEVEL) / 2))
        return RULE.format(sets=count, rows=len(self.sets[0]), patients=self.joint.patients, t=t)

    @cached_property
    def cautions(self) -> tuple[str, ...]:
        """Sentences that say when not to believe the rows, the most important ones first."""
        entries = self.joint.entries
        told = [NOBODYS, self.rule, THIRD]
        chi2, noise = self.joint.residuals().chi2, max([entries.typical, *entries.level_noise])
        told += [POOR.format(chi2=chi2)] if chi2 > _POOR else []
        told += [FEW.format(ratio=entries.rows / noise, noise=noise)] if entries.rows < _FEW * noise else []
        scored = [each.name for each in entries.attributes if each.scored]
        told += [SCORED.format(names=listed(scored))] if scored else []
        outcomes = [name for name in self.release.spec.outcomes if name in self.names]
        told += [APART.format(names=listed(outcomes))] if len(outcomes) > 1 else []
        found = describe(self.release)
        named = zip(found.names, found.hidden, strict=True)
        rare = [name for name, hidden in named if hidden and self.release.column(name).indicators]
        return (*told, *([RARE.format(names=listed(rare))] if rare else []))

    def document(self) -> Document:
        """The rows, how the model agrees with the release, and when not to believe it."""
        joint, entries, found = self.joint, self.joint.entries, self.joint.residuals()
        noise = dict.fromkeys(f"{end(entries.level_noise):.2g}" for end in (min, max) if len(entries.level_noise))
        facts = {
            "release": self.release.digest,
            "patients": joint.patients,
            "rows": len(self.sets[0]),
            "sets": len(self.sets),
            "noise": f"{' to '.join(noise)} patients, of a level" if noise else f"{entries.typical:.4g} of scaled sums",
            "residuals": f"chi-square {found.chi2:.3g} an entry over {found.entries:,} entries, the largest {found.largest:.3g} sd",
        }
        details = {"price": joint.price, "components": len(joint.weights), "steps": joint.steps}
        rows = [
            (" and ".join(pair.names), pair.variation, pair.by_noise, float(np.mean(pair.away**2)))
            for pair in self.pairs
        ]
        headings = (
            Heading("columns"),
            Heading("difference", "distance from released", digits=3),
            Heading("by_noise", "that noise makes", digits=3),
            Heading("chi2", "chi-square a cell", digits=3),
        )
        title = "Tables of two columns: total variation distance, the worst fit first"
        table = Table.of("pairs", headings, rows, title=title, detail=True)
        tables = (table,) if rows else ()
        return Document(
            f"Synthetic rows of {self.release.spec.title}",
            facts,
            tables,
            self.cautions,
            self.release.promise,
            {"chi2": found.chi2, "largest_residual": found.largest},
            details,
            heading="When not to believe it",
        )


def synthesize(release: Release, rows: int, sets: int = 1) -> SyntheticRows:
    """Rows that nobody ever was, with the released tables as nearly as noise lets them be known.

    Args:
        release: a verified release of joint moments, or a checkpoint of a stream of them.
        rows: in each set.
        sets: 1 for rows that are as much like patients as they can be. With m of 2 or more, m sets of refits stand behind one of
            the model, for intervals by `RULE`.

    Raises:
        InvalidInput: no moments, too few patients beside the noise, no row, or more than `MOST_ROWS`.
    """
    refitted = sets if sets > 1 else 0
    if rows < 1 or sets < 1 or rows * (1 + refitted) > MOST_ROWS:
        raise InvalidInput(
            f"ask for 1 to {MOST_ROWS:,} rows in all sets together, not {rows:,} in each of {1 + refitted}"
        )
    joint = joint_of(release, "intervals" if refitted else "rows")
    models = [joint, *(refits(joint, refitted, seed_of(release, "refits")) if refitted else ())]
    drawn = [_possible(model, rows, PublicNormals(seed_of(release, f"set {at}"))) for at, model in enumerate(models)]
    return SyntheticRows(release, joint, tuple(drawn))


def _possible(model: Joint, count: int, stream: PublicNormals) -> Integers:
    """Rows that declarations make possible: others are drawn again, which leaves the law of those."""
    tied, rows = ties(model.attributes), model.draw(count, stream)
    for _ in range(MOST_DRAWS):
        again = np.flatnonzero(~possible_rows(tied, rows))
        if not len(again):
            return rows
        rows[again] = model.draw(len(again), stream)
    raise InvalidInput(
        "the model gives hardly any row that the declared derivations allow; leave out columns that others determine"
    )

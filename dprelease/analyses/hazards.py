"""Proportional hazards of several covariates, out of a column of exits.

The log-linear law of exits and covariates (`dprelease.estimators.log_linear`) gives the probability of every combination. In
interval k, R_k(x) of the patients with covariates x are at risk and D_k(x) have an event. With proportional hazards

    D_k(x) / R_k(x) = 1 - exp(-exp(a_k + x' b)),

whatever the hazards' course within an interval, and b are log hazard ratios. Maximum likelihood on the person-intervals gives
them. A patient who leaves within an interval, or has an event of another cause there, counts half of it. Errors follow from
influence functions: a patient's is the sum of the scores of all intervals at risk.

The law of largest entropy with the released pairs has no proportional hazards, where events are frequent: without noise, ratios
on it are up to 18 % too small. So the next law is the one with these pairs that is nearest to the fitted hazards, and so on until
ratios stay. Then exact pairs of a population with proportional hazards give its ratios. Intervals hold how the law and the
ratios move together.

Source: Prentice, Gloeckler 1978, Biometrics 34(1), for grouped times; Prentice et al. 1978, Biometrics 34(4), for causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dprelease.analyses.combinations import NO_THREE, LevelDesign, design, estimates_of, facts_of, law_of, without_ends
from dprelease.analyses.draws import features, levels
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.exit_sums import DECIDES, LESS_NOISE, OF_ONE_CAUSE, ExitSums, exit_sums
from dprelease.analyses.joint_test import joint_test
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.weighted_logit import MOST, Cloglog
from dprelease.arrays import Floats, Mask
from dprelease.errors import InvalidInput
from dprelease.estimators.log_linear import Index, LogLinear
from dprelease.release.release import Release

ROUNDS, CLOSE, STEP = 12, 1e-3, 1e-4
RATES = 1e-6, 0.99
"""Shares with an event in an interval that a fit begins with."""
HALF = 0.5
"""Part of an interval for which who leaves within it is at risk."""
DECIDED = 0.1
"""Part of those who ended by a cause, or in other ways, whom a covariate that decides the cause may mistake."""


@repeatable
def hazards(release: Release, exit: str, on: Sequence[str], event: str | None = None) -> Analysis:
    """Hazard ratios of several covariates, each with all others held fixed, out of a column of exits.

    Tables: ``hazard ratios``, of each cause; noise and sampling, and tested. Tests: ``hazards do not depend on ...``, of each
    cause and covariate; Wald's, of all its levels at once, and of one level the ratio's own.

    Args:
        release: a verified release of joint moments.
        exit: a column that is declared with ``derived = { exit = [...] }``.
        on: categories.
        event: an indicator of the event beside the exits, which leaves less noise.

    Raises:
        InvalidInput: as `exit_sums`; a number among the covariates, too many combinations of levels, noise hides how a covariate
            varies, covariates that nearly follow from one another, or one that decides the event.
    """
    asked = features(release, on)
    found = exit_sums(release, exit, None, event, asked)
    outcomes = [levels(release, name)[0] for name in (exit, event) if name is not None]
    count, kinds = len(found.exits.cuts), len(found.exits.causes) + 1
    alike = [range(kind * count, (kind + 1) * count) for kind in range(kinds)]
    law = law_of(release, outcomes, asked, lambda cells: _possible(found, cells), alike)
    causes = np.equal(law.cells[:, 0] // count, np.arange(kinds)[:, None]).astype(float)
    _check_decided(law, exit, causes, len(outcomes))
    x = design(release, law, causes[:-1], on)
    inflation = x.check_inflation(law.shares)
    model = _Model.of(found, law, x)
    values, influence = model.fit(law)
    for _ in range(ROUNDS):
        law, before = law.on(model.base(law, values)), values
        values, influence = model.fit(law, values)
        if np.abs(values - before).max() < CLOSE:
            break
    # The base follows from the ratios, and these from the law on it: together they move by more than either.
    turned = influence.T @ law.moved(model.slopes(law, values))
    influence = influence @ np.linalg.inv(np.eye(len(values)) - turned).T
    at, of = model.ratios, [f"{cause}: " if kinds > 2 else "" for cause in found.exits.causes]
    ratios, spread = values[at], law.spread(influence[:, at], pulled=False)
    names = [f"{word}{name}" for word in of for name in x.names[1:]]
    events = model.had.sum(axis=2)[:, law.cells[:, 0]]
    counts = np.concatenate([x.hidden(law, each, np.ones_like(each))[0] for each in events], axis=-1)
    table = estimates_of(names, ratios, spread, "log", tested=True, counts=counts)
    tests = {}
    for cause, word in enumerate(of):
        for column, term in x.terms.items():
            own = np.arange(term.start - 1, term.stop - 1) + cause * (len(x.names) - 1)
            told = Estimates(tuple(names[each] for each in own), ratios[None, own], counts=counts[..., own])
            tests[f"{word}hazards do not depend on {column}"] = joint_test(told, spread[0][None, own[:, None], own])
    return Analysis(
        f"Proportional hazards of {exit}",
        release,
        tuple(column.name for column in law.columns),
        {"hazard ratios": table},
        tests,
        caveats=(*without_ends(table), *_caveats(found, event)),
        facts={**x.facts, "inflation": f"{inflation:.2f} at most", **facts_of(law)},
        of_counts=True,
    )


def _check_decided(law: LogLinear, exit: str, kinds: Floats, first: int) -> None:
    """Refuse a covariate, of those behind the `first` columns, whose levels tell nearly all of a cause from others who ended."""
    for (place, column), cause in product(enumerate(law.columns[first:], first), kinds[:-1]):
        counts = [np.bincount(law.cells[:, place], law.shares * each) for each in (cause, kinds.sum(axis=0) - cause)]
        if np.min(counts, axis=0).sum() < DECIDED * np.sum(counts, axis=1).min():
            raise InvalidInput(DECIDES.format(name=column.name, exit=exit))


def _possible(found: ExitSums, cells: Index) -> Mask:
    """(C,) combinations that agree with the indicator of an exit."""
    if not found.read:
        return np.ones(len(cells), np.bool_)
    count = len(found.exits.cuts)
    read = np.repeat(found.read, count)
    told = np.where(cells[:, 1] == 0, 1.0, -1.0)
    known = cells[:, 0] < found.exits.followed
    fits: Mask = np.equal(read[np.minimum(cells[:, 0], len(read) - 1)], told)
    return ~known | fits


@dataclass(frozen=True, eq=False)
class _Model:
    """Hazards of C causes in K intervals at M distinct covariates (M, q); parameters are a and b of each cause in turn.

    Attributes:
        distinct: (M, q).
        at: (cells,) the place of each combination among them.
        exit: (cells,) place of its level.
        risk: (C, levels, K) part of each interval for which a patient is at risk of each cause.
        had: (C, levels, K) 1 where he has the event.
        followed: place of the level of who was followed to the end.
    """

    distinct: Floats
    at: Index
    exit: Index
    risk: Floats
    had: Floats
    followed: int

    @classmethod
    def of(cls, found: ExitSums, law: LogLinear, x: LevelDesign) -> _Model:
        """The model of a column of exits and covariates."""
        count, causes, exits = len(found.exits.cuts), len(found.exits.causes), found.exits
        risk, had = np.zeros((2, causes, len(exits.levels), count))
        for kind in range(causes + 1):
            own = np.arange(kind * count, (kind + 1) * count)
            risk[:, own] = np.tril(np.ones((count, count)), -1) + HALF * np.eye(count)
            if kind < causes:
                risk[kind, own, range(count)] = had[kind, own, range(count)] = 1.0
        risk[:, exits.followed] = 1.0
        distinct, at = np.unique(x.matrix[:, 1:], axis=0, return_inverse=True)
        return cls(distinct, at.ravel(), law.cells[:, 0], risk, had, exits.followed)

    @property
    def ratios(self) -> Mask:
        """(parameters,) which are log hazard ratios."""
        causes, _, count = self.risk.shape
        return np.tile(np.arange(count + self.distinct.shape[1]) >= count, causes)

    def fit(self, law: LogLinear, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Parameters by maximum likelihood, and (cells, parameters) their influence functions."""
        causes, _, count = self.risk.shape
        rows = np.hstack([np.tile(np.eye(count), (len(self.distinct), 1)), np.repeat(self.distinct, count, axis=0)])
        values, influences = [], []
        for cause in range(causes):
            risk, had = self.risk[cause][self.exit], self.had[cause][self.exit]
            share, yes = (self._summed(law.shares[:, None] * part) for part in (risk, had))
            part = np.clip(yes.sum(axis=0) / share.sum(axis=0), *RATES)
            first = np.concatenate([np.log(-np.log1p(-part)), np.zeros(self.distinct.shape[1])])
            own = first if start is None else start.reshape(causes, -1)[cause]
            fit = Cloglog.of(rows, share.ravel(), yes.ravel(), own)
            mean, weight = (each.reshape(-1, count)[self.at] for each in Cloglog.means(rows @ fit.coef))
            residual = (had - risk * mean) * weight
            score = np.hstack([residual, residual.sum(axis=1, keepdims=True) * self.distinct[self.at]])
            values.append(fit.coef)
            influences.append(score @ fit.inverse)
        return np.concatenate(values), np.hstack(influences)

    def _summed(self, parts: Floats) -> Floats:
        """(M, K) sums over combinations of the same covariates."""
        return np.column_stack([np.bincount(self.at, of, len(self.distinct)) for of in parts.T])

    def base(self, law: LogLinear, values: Floats) -> Floats:
        """(cells,) logarithms of the shares of exits given the covariates."""
        causes, _, count = self.risk.shape
        of_cause = values.reshape(causes, -1)
        score = of_cause[:, None, :count] + (self.distinct @ of_cause[:, count:].T).T[:, :, None]
        left = np.bincount(self.exit, law.shares, self.risk.shape[1])[causes * count : (causes + 1) * count]
        risk = (law.shares[:, None] * self.risk[0][self.exit]).sum(axis=0)
        lost = np.broadcast_to(np.clip(left / risk, *RATES), (1, *score.shape[1:]))
        rate = np.concatenate([np.exp(np.clip(score, -MOST, np.log(MOST))), lost])
        whole = rate.sum(axis=0)
        before = np.cumsum(whole, axis=1) - whole
        gone = np.log(rate) + np.log(-np.expm1(-whole) / whole) - before
        levels = np.zeros((self.risk.shape[1], len(self.distinct)))
        levels[: self.followed] = gone.transpose(0, 2, 1).reshape(-1, len(self.distinct))
        levels[self.followed] = -whole.sum(axis=1)
        return levels[self.exit, self.at]

    def slopes(self, law: LogLinear, values: Floats) -> Floats:
        """(cells, parameters) derivatives of `base`."""
        steps = STEP * np.eye(len(values))
        return np.column_stack(
            [(self.base(law, values + step) - self.base(law, values - step)) / (2 * STEP) for step in steps]
        )


def _caveats(found: ExitSums, event: str | None) -> tuple[str, ...]:
    told = [
        "Hazards are taken to be proportional at all times; `survival` shows curves of groups that need not be.",
        "Effects of two covariates together are not in the model.",
        NO_THREE,
        "Patients who left are taken to have the hazards of those who stayed with the same covariates. No data show that.",
    ]
    told += [OF_ONE_CAUSE] * (len(found.exits.causes) > 1)
    if found.exits.missing:
        told.append("Patients whose exit is missing are taken to be like the others with the same covariates.")
    return (*told, *[LESS_NOISE] * (event is None))

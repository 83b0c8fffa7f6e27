"""Effect of a treatment on an outcome: standardisation and weighting, and the balance of features before and after.

With e_1(x) = 1 - e_0(x) the share of the treated among patients with features x and m_t(x) the share with the outcome among those
with treatment t, each by a logistic regression without interactions, the risks if all had treatment t are

    standardised   r_t = E m_t(x)
    weighted       r_t = E 1[t] y / e_t(x)  /  E 1[t] / e_t(x)

over the law of the named columns (`dprelease.estimators.log_linear`). Errors follow from the influence functions of both, those of
the regressions' coefficients included.

Source: Hernan, Robins 2020, Causal Inference, 12 and 13; Stefanski, Boos 2002, The calculus of M-estimation, American Statistician
56(1); Austin 2009, Statistics in Medicine 28(25), for balance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from dprelease.analyses.combinations import FIRM, NO_THREE, design, estimated, facts_of, hidden, law_of, without_ends
from dprelease.analyses.draws import features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.result import Analysis, repeatable
from dprelease.analyses.weighted_logit import Logit
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.release.release import Release

RARE, NEVER = 0.02, 0.001
"""Share of a treatment among patients alike: below the first few speak for many, and below the second nothing is told."""
FEW = 0.01
"""Part of the patients with the least shares that `RARE` and `NEVER` leave out."""
_Found = tuple[Floats, Floats]
"""(2,) risks without and with the treatment, and (C, 2) their influence functions."""


@repeatable
def effect(release: Release, treatment: str, outcome: str, adjust: Sequence[str]) -> Analysis:
    """Risks of an outcome with and without a treatment, as if all patients had it and as if nobody had.

    Tables: ``risks``, ``differences`` and ``ratios`` by standardisation and by weighting, and ``balance`` before and after
    weighting: how much more of the treated have each level, in standard deviations. All hold noise and sampling.

    Args:
        release: a verified release of joint moments.
        treatment: a binary, or a level of a category against all others.
        outcome: a binary, or a level of a category.
        adjust: categories that may act on both.

    Raises:
        InvalidInput: an unknown name, a number, no moments, noise hides how the columns vary or who has one of the treatments,
            features that nearly follow from one another, or patients alike who all have the same treatment.
    """
    t, y = number(release, treatment), number(release, outcome)
    if release.column(t).name == release.column(y).name:
        raise InvalidInput(f"{t} and {y} are of the same column; name two")
    law = law_of(release, (t, y), features(release, adjust))
    treated, yes = law.has(t), law.has(y)
    fewer = min(law.shares @ treated, 1 - law.shares @ treated) * law.patients
    if fewer < FIRM * law.noise:
        raise InvalidInput(
            f"some {fewer:.0f} patients have one of the treatments, and an effect needs {FIRM * law.noise:.0f}, {FIRM:g} times "
            "the noise; ask for a release of fewer columns or a larger epsilon"
        )
    x = design(release, law, yes, adjust)
    inflation = x.check_inflation(law.shares)
    propensity = Logit.of(x.matrix, law.shares, law.shares * treated)
    given = expit(x.matrix @ propensity.coef)
    least = _least(np.minimum(given, 1 - given), law.shares)
    if least < NEVER:
        raise InvalidInput(
            f"some patients alike have one of the treatments with a share of {least:.2g} only; adjust for fewer columns"
        )
    arms = np.column_stack([1 - treated, treated]), np.column_stack([1 - given, given])
    moved = propensity.influence(x.matrix, treated)
    ways = {
        "standardised": _standardised(x.matrix, treated, yes, law.shares),
        "weighted": _weighted(x.matrix, yes, law.shares, *arms, moved),
    }
    tables: dict[str, list[Estimates]] = {"risks": [], "differences": [], "ratios": []}
    (u_no, t_no), (u_yes, t_yes), (u, t_) = ((arms[0] * each[:, None]).T for each in (1 - yes, yes, np.ones_like(yes)))
    counts = hidden(law, np.moveaxis(np.array([[[t_yes, t_yes], [u, u_no]], [[t_, t_no], [u_yes, u_yes]]]), -1, 0))
    for way, (risks, influence) in ways.items():
        none, all_ = risks
        log = np.array([[-1 / none, 1 / all_], [-1 / (none * (1 - none)), 1 / (all_ * (1 - all_))]])
        ratios = np.log([all_ / none, all_ / (1 - all_) * (1 - none) / none])
        named = f"without {t}, {way}", f"with {t}, {way}"
        tables["risks"].append(estimated(law, named, risks, influence))
        difference = influence @ np.array([[-1.0], [1.0]])
        tables["differences"].append(
            estimated(law, (f"risk difference, {way}",), np.array([all_ - none]), difference, tested=True)
        )
        called = f"risk ratio, {way}", f"odds ratio, {way}"
        tables["ratios"].append(estimated(law, called, ratios, influence @ log.T, "log", tested=True, counts=counts))
    balance = []
    share = law.shares @ arms[0]
    for after in (False, True):
        even = np.ones_like(given)[:, None] * share
        found = [
            _weighted(x.matrix, level, law.shares, arms[0], arms[1] if after else even, moved if after else 0 * moved)
            for level in x.matrix[:, 1:].T
        ]
        means, influences = np.array([mean for mean, _ in found]), np.array([each for _, each in found])
        # The arms as they are give the unit, before and after.
        if not after:
            unit = np.sqrt((means * (1 - means)).mean(axis=1))
        told = tuple(f"{name}, {'after' if after else 'before'}" for name in x.names[1:])
        # One covariate balances to the last bits after weighting; rounding leaves no dust.
        gaps = ((means[:, 1] - means[:, 0]) / unit).round(9)
        balance.append(estimated(law, told, gaps, ((influences[:, :, 1] - influences[:, :, 0]).T / unit).round(9)))
    ratio = _joined(tables["ratios"])
    caveats = [
        *without_ends(ratio),
        "It is an effect only if nothing left out acts on both treatment and outcome, and if features come before the treatment.",
        NO_THREE,
    ]
    if least < RARE:
        caveats.append(
            f"Some patients alike have one of the treatments with a share of {least:.2g}: few speak for many."
        )
    return Analysis(
        f"Effect of {t} on {y}, adjusted",
        release,
        tuple(column.name for column in law.columns),
        {caption: _joined(parts) for caption, parts in {**tables, "balance": balance}.items()},
        caveats=tuple(caveats),
        facts={
            "share": f"{law.shares @ treated:.4g} have {t}, {law.shares @ yes:.4g} have {y}",
            **x.facts,
            "inflation": f"{inflation:.2f} at most",
            "overlap": f"{least:.2g}, the least share of a treatment among patients alike",
            **facts_of(law),
        },
        of_counts=True,
    )


def _standardised(x: Floats, treated: Floats, yes: Floats, share: Floats) -> _Found:
    both = np.column_stack([treated, x])
    model = Logit.of(both, share, share * yes)
    moved = model.influence(both, yes)
    risks, influences = [], []
    for arm in (0.0, 1.0):
        rows = np.column_stack([np.full(len(x), arm), x])
        m = expit(rows @ model.coef)
        risks.append(float(share @ m))
        influences.append(m - risks[-1] + moved @ ((share * m * (1 - m)) @ rows))
    return np.array(risks), np.column_stack(influences)


def _weighted(x: Floats, y: Floats, share: Floats, arm: Floats, given: Floats, moved: Floats) -> _Found:
    """Weighted means of y in both arms, (C, 2) and (C, 2) being who is there and with which share; `moved` is of the shares."""
    weight = arm / given
    total = share @ weight
    risks = (share * y) @ weight / total
    off = weight * (y[:, None] - risks)
    # d(1/e_0) = e_1/e_0 x and d(1/e_1) = -e_0/e_1 x by the coefficients of the logistic regression.
    slope = ((share[:, None] * off * given[:, ::-1] * np.array([1.0, -1.0])).T @ x) @ moved.T
    influence: Floats = (off + slope.T) / total
    return risks, influence


def _least(given: Floats, share: Floats) -> float:
    """The share that all but `FEW` of the patients have at least."""
    order = np.argsort(given)
    return float(given[order][np.searchsorted(np.cumsum(share[order]), FEW)])


def _joined(parts: Sequence[Estimates]) -> Estimates:
    first = parts[0]
    names = tuple(name for part in parts for name in part.names)
    location, scale = (np.hstack([getattr(part, key) for part in parts]) for key in ("location", "scale"))
    noise = np.concatenate([part.noise_sd for part in parts])
    counts = None if first.counts is None else np.tile(first.counts, len(parts))  # the same of both ways
    return Estimates(names, location, scale, link=first.link, tested=first.tested, noise=noise, counts=counts)

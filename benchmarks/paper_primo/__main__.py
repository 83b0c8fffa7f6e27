"""PRIMO's experiments on many regressions at once: R^2 against the number of outcomes, log-ratios in n, one outcome.

The paper is "PRIMO: Private Regression in Multiple Outcomes" (Neel), its algorithms ReuseCov-Gauss and ReuseCov-Proj, its
baselines naive SSP run l times, differentially private gradient descent run l times, and OLS. Every curve has one of three
guarantees, which are not to be confused: full DP (a row's features and outcomes), feature-DP (outcomes are public), label-DP
(features are public). Data are described in `data`, noise in `noise`, fits in `fits`, gradient descent in `descent`, methods in
`curves`, the paper's claims in `claims`.

Outcomes have a known mean of 0 and fits no intercept, so that no mean is paid for; what a release pays for it is a figure of its
own (`release`). Methods that fit one outcome at a time are given a few outcomes, and compared with others on these.

What the text at hand does not give, its numbers of SNPs, privacy targets and scales of outcomes, is chosen here: 25 SNPs,
(1, 1e-5), for the curves in n up to a million (1, 1e-7). The case l = 1 where gradient descent wins, on images in the paper,
is haplotypes with 400 SNPs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict

import numpy as np

from benchmarks.common.report import RESULTS, Results, main
from benchmarks.paper_primo import claims, plots
from benchmarks.paper_primo import noise as noises
from benchmarks.paper_primo.calibration import Body
from benchmarks.paper_primo.curves import METHODS, Point, Target, against_outcomes, against_rows
from benchmarks.paper_primo.data import Features, Single, gaussian, genotypes, haplotypes, mosaics
from benchmarks.paper_primo.release import Public, explained
from dprelease.privacy.gaussian import epsilon_of, mu_of

TARGET = Target(1.0, 1e-5)
LARGE = Target(1.0, 1e-7)
"""For curves in n: delta is below 1/n."""
SNPS = 25
MANY_SNPS = 400
COUNTS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
SIZES = (5_000, 20_000, 50_000, 100_000, 300_000, 1_000_000)
LESS_NOISE = 1.3


def run(quick: bool) -> Results:
    """R^2 against l, log-ratios against n and the case l = 1 of PRIMO's methods, at its noise and at corrected noise."""
    results = Results()
    _privacy_figures(results)
    counts = COUNTS[:6] if quick else COUNTS
    sizes = SIZES[:3] if quick else SIZES
    releases = 4 if quick else 10

    sets: dict[str, list[Point]] = {}
    found: list[claims.Claim] = []
    for seed, (name, features) in enumerate(_tables().items()):
        random = np.random.default_rng([20230307, seed])
        outcomes = features.outcomes(counts[-1], random, "mlp" if "MLP" in name else "linear")
        sets[name] = against_outcomes(features, outcomes, counts, TARGET, releases, seed)
        for point in sets[name]:
            point.data = name
        found += claims.of_outcomes(sets[name], features.x.shape[1])
        results.progress(f"{name}: {features.source}")
        _figures(results, sets[name], features.x.shape[1])
        if name == "haplotypes":
            _means(results, features, outcomes, sets[name])
    found += claims.of_laws(sets["Gaussian, linear"], sets["Gaussian, MLP"])

    random = np.random.default_rng([20230307, 100])
    copied = mosaics(sizes[-1], SNPS, random)
    grown = [
        against_rows(copied, sizes, count, LARGE, releases, count) for count in ((30, 100) if quick else (100, 1000))
    ]
    found += claims.of_rows(grown)
    results.progress(f"in n: {copied.source}")

    snps = MANY_SNPS // 4 if quick else MANY_SNPS
    wide = haplotypes(snps, random)
    few = counts[:3] if quick else counts[:6]
    by_outcomes = against_outcomes(wide, wide.outcomes(counts[-1] // 10, random), few, TARGET, releases, 101)
    by_rows = []
    for size in (5_000, 15_000) if quick else (5_000, 20_000, 50_000):
        more = mosaics(size, snps, np.random.default_rng([20230307, 102]))
        by_rows += against_outcomes(more, more.outcomes(16, random), (1,), TARGET, releases, size)
    found += claims.of_one_outcome(by_outcomes, by_rows)
    _one_outcome(results, by_outcomes[0], snps)
    results.progress("one outcome of many features")

    lines = claims.judge(results, found, "predicting 0")
    results.details = {
        "methods": {name: {"title": title, "guarantee": guarantee} for name, (title, guarantee) in METHODS.items()},
        "claims": lines,
        "claims, one by one": [asdict(claim) for claim in found],
        "against l": [point.plain() for points in sets.values() for point in points],
        "against n": [point.plain() for points in grown for point in points],
        "many features": [point.plain() for point in (*by_outcomes, *by_rows)],
    }
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        plots.against_outcomes(list(sets.values()), RESULTS / "paper_primo_outcomes.png")
        plots.against_rows(grown, RESULTS / "paper_primo_rows.png")
        plots.one_outcome(by_outcomes, by_rows, RESULTS / "paper_primo_one_outcome.png")
    return results


def _tables() -> dict[str, Features]:
    random = np.random.default_rng(20230307)
    normal = gaussian(4_000, 10, random)
    return {
        "haplotypes": haplotypes(SNPS, random),
        "genotypes": genotypes(SNPS, random),
        "Gaussian, linear": normal,
        "Gaussian, MLP": normal,
    }


def _privacy_figures(results: Results) -> None:
    """What the paper's noise keeps, and what one calibration saves, for |x| <= 1 and |y| <= 1."""
    epsilon, delta = TARGET.epsilon, TARGET.delta
    bodies: tuple[Body, ...] = ("ball", "box")
    for body, count in itertools.product(bodies, (1, COUNTS[-1])):
        found = noises.published(1.0, 1.0, epsilon / math.sqrt(count), delta / count)
        kept = epsilon_of(math.sqrt(count) * noises.kept_mu(body, 1.0, 1.0, 2, found), delta)
        what = "ReuseCov" if count == 1 else f"naive SSP, {count:,} times,"
        results.add(f"{what} at the paper's noise, rows in a {body}: epsilon kept for a nominal {epsilon:g}", kept)
    alone = epsilon_of(2 / noises.classical(epsilon, delta), delta)
    results.add(
        "projection alone at the paper's noise, and Proj with features public: epsilon kept for a nominal 1", alone
    )
    analytic = epsilon_of(2 * mu_of(epsilon, delta), delta)
    results.add("the same with the exact sigma in place of the classical one: epsilon kept", analytic)
    half = mu_of(epsilon / 2, delta / 2)
    one = math.sqrt(4.5) / mu_of(epsilon, delta)
    results.add(
        "noise of X^T X by epsilon/2 + epsilon/2, exact, over one calibration",
        math.sqrt(2) / half / one,
        LESS_NOISE,
        ">=",
    )
    results.add("noise of X^T Y, the same", 2 / half / one, LESS_NOISE, ">=")


def _figures(results: Results, points: list[Point], width: int) -> None:
    name, largest = points[0].data, points[-1].outcomes
    far = points[0].rows / math.sqrt(width) / claims.FAR
    for other, words in (("gauss feature", "both feature-DP"), ("gauss", "Gauss full DP")):
        least = claims.first_ahead(points, "proj", other)
        results.add(f"{name}: least l from which projection beats Gauss, {words}, same epsilon", least, far)
    for method, aim in (
        ("proj", 0.0),
        ("proj label", 0.0),
        ("proj ours", None),
        ("label ours", None),
        ("leverage", None),
        ("gauss ours", None),
    ):
        title, guarantee = METHODS[method]
        worst = min(point.mean(method) for point in points)
        results.add(f"{name}: least R^2 of {title} ({guarantee}) over all l up to {largest:,}", worst, aim, ">=")
    last = points[-1]
    for method in ("ols", "proj p", "proj", "proj ours", "gauss", "naive", "descent", "descent plain"):
        title, guarantee = METHODS[method]
        noise = ", paper's noise" if method.endswith(" p") else ""
        results.add(f"{name}: R^2 of {title} ({guarantee}{noise}) at l = {largest:,}", last.mean(method))
    alike = float(np.mean(last.looked_at["ols"]))
    results.add(f"{name}: R^2 of OLS on the outcomes that one-by-one methods are given, at l = {largest:,}", alike)


def _means(results: Results, features: Features, outcomes: Single, points: list[Point]) -> None:
    """What a release with an intercept explains, which is not told that means are 0, beside the curves, which are."""
    kinds: dict[Public, str] = {"outcomes": "proj ours", "features": "label ours"}
    for (public, method), point in itertools.product(kinds.items(), points):
        if point.outcomes not in (100, 1000):
            continue
        random, count = np.random.default_rng([20230307, point.outcomes]), point.outcomes
        parts = [outcomes[:, start : start + count] for start in range(0, outcomes.shape[1] - count + 1, count)][:5]
        found = float(np.mean([explained(features, part, public, TARGET, random) for part in parts]))
        where = f"({METHODS[method][1]}) at l = {point.outcomes:,}"
        results.add(f"{point.data}: R^2 of a whole release with an intercept {where}", found)
        results.add(f"{point.data}: R^2 of the same where means are known to be 0 {where}", point.mean(method))


def _one_outcome(results: Results, point: Point, snps: int) -> None:
    for method in ("ols", "descent", "descent plain", "gauss", "gauss ours"):
        title, guarantee = METHODS[method]
        results.add(f"haplotypes, {snps} SNPs: R^2 of {title} ({guarantee}) at l = 1", point.mean(method))


if __name__ == "__main__":
    main("paper_primo", run)

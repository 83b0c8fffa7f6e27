"""What PRIMO's experiments say, in our words, and whether it comes out: at the paper's noise, and at corrected noise.

The paper compares a projection under feature privacy with Gaussian noise under full privacy: part of what it sees is the weaker
guarantee, whose sensitivity goes by max |y_i| for sqrt(l). The rows marked "same guarantee" are ours and compare like with like.
Gradient descent, of which the paper gives no noise, composes exactly in both columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common.report import Results
from benchmarks.paper_primo.curves import Point

FAR = 10
"""Factor below n / sqrt(d) that counts as far."""
WORTHLESS = ", the latter worse than predicting 0"
FLAT = 1.25
"""Factor by which a squared error may grow from the smallest to the largest l and count as nearly flat."""
NOISES = {"paper's": " p", "corrected": ""}


@dataclass(frozen=True)
class Claim:
    """One claim on one data set at one noise.

    Attributes:
        words: what is claimed.
        data: on what.
        noise: which.
        holds: whether it is reproduced.
        found: the numbers it rests on.
        idle: whether the method that is to lose explains less than nothing, so that whoever predicts 0 wins as well.
    """

    words: str
    data: str
    noise: str
    holds: bool
    found: str
    idle: bool = False


def first_ahead(points: Sequence[Point], method: str, other: str) -> float:
    """The least l of the grid from which on a method is ahead of another, by more than two standard errors; else infinite."""
    least = math.inf
    for point in sorted(points, key=lambda point: -point.outcomes):
        if not point.ahead(method, other):
            break
        least = point.outcomes
    return least


def of_outcomes(points: Sequence[Point], width: int) -> list[Claim]:
    """Claims about R^2 against l on one data set.

    Args:
        points: with rising l.
        width: d.
    """
    small, large, found = points[0], points[-1], []
    theory = small.rows / math.sqrt(width)
    for noise, mark in NOISES.items():
        gauss, proj, naive = (f"{name}{mark}" for name in ("gauss", "proj", "naive"))
        least, same = first_ahead(points, proj, gauss), first_ahead(points, proj, f"gauss feature{mark}")
        worst = min(point.mean(proj) for point in points)
        growth = (1 - large.mean(proj)) / (1 - small.mean(proj))
        at = f"at l = {large.outcomes:,}"

        def add(words: str, holds: bool, numbers: str, noise: str = noise) -> None:
            found.append(Claim(words, small.data, noise, holds, numbers))

        def versus(words: str, point: Point, better: str, worse: str, where: str = at, noise: str = noise) -> None:
            high, low = (float(values.mean()) for values in point.pair(better, worse))
            numbers = f"{high:.3f} against {low:.3f} {where}{WORTHLESS if low < 0 else ''}"
            found.append(Claim(words, small.data, noise, point.ahead(better, worse), numbers, idle=low < 0))

        add("Proj is ahead of Gauss from some l on", math.isfinite(least), f"from l = {least:,g}")
        add("the same, same guarantee (feature-DP)", math.isfinite(same), f"from l = {same:,g}")
        for words, first in (("", least), (", same guarantee (feature-DP)", same)):
            numbers = f"l = {first:,g}, n / sqrt(d) = {theory:,.0f}"
            add(f"... from far smaller l than n / sqrt(d){words}", first <= theory / FAR, numbers)
        versus("Gauss is ahead where l is small", small, gauss, proj, f"at l = {small.outcomes}")
        add(
            "Gauss is worse than the constant predictor for large l",
            large.mean(gauss) < 0,
            f"{large.mean(gauss):.3f} {at}",
        )
        add("Proj explains something at every l", worst > 0, f"least R^2 {worst:.3f}")
        add(
            "Proj's error hardly grows with l",
            growth <= FLAT,
            f"{growth:.2f} times from l = {small.outcomes} to {large.outcomes:,}, "
            f"R^2 {small.mean(proj):.3f} to {large.mean(proj):.3f}",
        )
        versus("naive SSP is behind Gauss for large l", large, gauss, naive)
        useful = max(
            (point for point in points if point.mean(gauss) > 0), key=lambda point: point.outcomes, default=small
        )
        words = "naive SSP is behind Gauss for the largest l at which Gauss explains something"
        versus(words, useful, gauss, naive, f"at l = {useful.outcomes:,}")
        versus("naive SSP is behind Proj for large l", large, proj, naive)
        for method, how in (("descent plain", "public choices"), ("descent", "oracle's choices")):
            versus(f"gradient descent ({how}) is behind Gauss for large l", large, gauss, method)
            versus(f"gradient descent ({how}) is behind Proj for large l", large, proj, method)
    return found


def of_one_outcome(by_outcomes: Sequence[Point], by_rows: Sequence[Point]) -> list[Claim]:
    """Claims about the case l = 1 with many features.

    Args:
        by_outcomes: with rising l.
        by_rows: l = 1, with rising n.
    """
    found, one, many = [], by_outcomes[0], by_outcomes[-1]
    for noise, mark in NOISES.items():
        gauss = f"gauss{mark}"

        for method, how in (("descent plain", "public choices"), ("descent", "oracle's choices")):
            high, low = (float(values.mean()) for values in one.pair(method, gauss))
            numbers = f"{high:.3f} against {low:.3f}"
            words = f"gradient descent ({how}) wins at l = 1 with many features"
            found.append(Claim(words, one.data, noise, one.ahead(method, gauss), numbers))
            for first, last, letter in ((one, many, "l"), (by_rows[0], by_rows[-1], "n")):
                (before, error), (after, other) = first.gap(method, gauss), last.gap(method, gauss)
                at = [point.outcomes if letter == "l" else point.rows for point in (first, last)]
                numbers = f"ahead by {before:.3f} at {letter} = {at[0]:,}, by {after:.3f} at {letter} = {at[1]:,}"
                shrinks = first.ahead(method, gauss) and before - after > 2 * math.hypot(error, other)
                words = f"... and is less ahead as {letter} grows ({how})"
                found.append(Claim(words, last.data, noise, shrinks, numbers))
    return found


def of_laws(linear: Sequence[Point], other: Sequence[Point]) -> list[Claim]:
    """Whether it matters that outcomes are linear: methods that are apart in both cases come in the same order."""
    found = []
    for noise, mark in NOISES.items():
        pairs = [(f"proj{mark}", f"gauss{mark}"), (f"gauss{mark}", f"naive{mark}"), (f"proj{mark}", f"naive{mark}")]
        turned = total = 0
        for one, two in zip(linear, other, strict=True):
            for better, worse in pairs:
                signs = [point.ahead(better, worse) - point.ahead(worse, better) for point in (one, two)]
                total += all(signs)
                turned += signs[0] * signs[1] < 0
        words = "an MLP for a linear model leaves the order of the methods as it is"
        found.append(Claim(words, "Gaussian", noise, not turned, f"{turned} of {total} comparisons turned round"))
    return found


def of_rows(points: Sequence[Sequence[Point]]) -> list[Claim]:
    """Claims about log-ratios against n.

    Args:
        points: for rising l, each with rising n.
    """
    found = []
    for noise, mark in NOISES.items():
        gauss, proj = f"gauss{mark}", f"proj{mark}"
        standing = []
        for some in points:
            where = f"{some[0].data}, l = {some[0].outcomes:,}"
            for name, method in (("Gauss", gauss), ("Proj", proj)):
                ratios = [point.log_ratio(method) for point in some]
                falls = all(later < earlier for earlier, later in itertools.pairwise(ratios))
                numbers = f"{ratios[0]:.3f} to {ratios[-1]:.4f}"
                found.append(Claim(f"the log-ratio of {name} falls as n grows", where, noise, falls, numbers))
            last = some[-1]
            numbers = f"{last.log_ratio(gauss):.4f} against {last.log_ratio(proj):.4f} at n = {last.rows:,}"
            words = "Gauss is ahead of Proj where n is large"
            found.append(Claim(words, where, noise, last.ahead(gauss, proj), numbers))
            standing.append(last.log_gap(proj, gauss))
        words = "... and Proj gains on Gauss as l grows"
        numbers = ", ".join(
            f"{gap:.5f} ({error:.1g}) at l = {some[0].outcomes:,}"
            for (gap, error), some in zip(standing, points, strict=True)
        )
        (before, error), (after, other) = standing[0], standing[-1]
        gains = before - after > 2 * math.hypot(error, other)
        found.append(Claim(words, points[0][0].data, noise, gains, f"Proj - Gauss (standard error): {numbers}"))
    return found


def table(claims: Sequence[Claim]) -> list[str]:
    """Markdown: one line for each claim and data set."""
    lines = ["| claim | data | at the paper's noise | at corrected noise |", "|---|---|---|---|"]
    verdicts = {(claim.words, claim.data, claim.noise): claim for claim in claims}
    for words, data in dict.fromkeys((claim.words, claim.data) for claim in claims):
        cells = [verdicts[words, data, noise] for noise in NOISES]
        shown = [f"{'reproduced' if cell.holds else 'NOT reproduced'}: {cell.found}" for cell in cells]
        lines.append(f"| {words} | {data} | {' | '.join(shown)} |")
    return lines


def judge(results: Results, claims: Sequence[Claim], nothing: str) -> list[str]:
    """Count the claims that are reproduced, and those whose loser is worse than doing nothing; print their `table`."""
    for noise in NOISES:
        reproduced = [claim for claim in claims if claim.noise == noise and claim.holds]
        results.add(f"claims reproduced at {noise} noise, of {len(claims) // 2}", len(reproduced))
        idle = sum(claim.idle for claim in reproduced)
        results.add(f"of these won against a method worse than {nothing}, at {noise} noise", idle)
    lines = table(claims)
    print("\n".join(["", *lines]), flush=True)
    return lines

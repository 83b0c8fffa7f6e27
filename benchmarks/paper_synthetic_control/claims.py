"""What the experiments of the paper on private synthetic control say, in our words, and whether it comes out.

In three frames: on raw values with the paper's noise, as published, where nothing is private; in public bounds with the paper's
noise; and in public bounds with tight noise, where objective perturbation has no place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.paper_synthetic_control.curves import Point

FRAMES: Mapping[str, str] = {
    "raw": "as published",
    "bounds": "in bounds, published noise",
    "tight": "in bounds, tight noise",
}
ALIKE = 1.25
"""Factor within which two errors count as about the same."""
FAR = 2.0
"""Factor from which one is well ahead."""


@dataclass(frozen=True)
class Claim:
    """One claim in one frame.

    Attributes:
        figure: of the paper.
        words: what is claimed.
        frame: of `FRAMES`.
        holds: whether it is reproduced.
        found: the numbers it rests on.
    """

    figure: str
    words: str
    frame: str
    holds: bool
    found: str


def of_penalties(points: Sequence[Sequence[Point]], frame: str) -> list[Claim]:
    """Figures 3 and 7: errors against lambda.

    Args:
        points: for each setting, with rising lambda; the first setting is T0 = n = 10.
        frame: of `FRAMES`.
    """
    first, found = points[0], []
    private = ("tight",) if frame == "tight" else ("out", "obj")
    last = max(first[-1].rmse[each] / first[-1].rmse["ridge"] for each in private)
    found.append(
        Claim(
            "3",
            "methods converge as lambda grows",
            frame,
            last <= ALIKE,
            f"{last:.2f} times at lambda = {first[-1].penalty:g}",
        )
    )
    small = [point for point in first if point.penalty <= 20]
    worse = min(point.rmse[each] / point.rmse["ridge"] for point in small for each in private)
    found.append(
        Claim("3", "without privacy is better at lambda <= 20", frame, worse > ALIKE, f"at least {worse:.2f} times")
    )
    if frame != "tight":
        ratio = min(point.rmse["out"] / point.rmse["obj"] for point in small)
        found.append(
            Claim(
                "3",
                "objective well ahead of output at lambda <= 20",
                frame,
                ratio >= FAR,
                f"at least {ratio:.2f} times",
            )
        )
    for method in private:
        ratios = []
        for setting in points:
            at = next(point for point in setting if point.penalty == point.before)
            ratios.append(at.rmse[method] / min(point.rmse[method] for point in setting))
        numbers = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        found.append(
            Claim(
                "7",
                f"lambda = T0 is about the best, {method}",
                frame,
                max(ratios) <= ALIKE,
                f"{numbers} times the least",
            )
        )
    return found


def of_budgets(points: Sequence[Sequence[Point]], frame: str) -> list[Claim]:
    """Figures 5, 6 and 8: errors against epsilon.

    Args:
        points: for each setting, with rising epsilon; settings in the order (10, 10), (10, 100), (100, 10), (100, 100) of T0 and n.
        frame: of `FRAMES`.
    """
    found, first = [], points[0]

    def add(figure: str, words: str, holds: bool, numbers: str) -> None:
        found.append(Claim(figure, words, frame, holds, numbers))

    private = ("tight",) if frame == "tight" else ("out", "obj")
    for method in private:
        errors = [point.rmse[method] for point in first]
        falls = all(late < early * 1.02 for early, late in pairwise(errors))
        add("5", f"error falls with epsilon, {method}", falls, f"{errors[0]:.4g} to {errors[-1]:.4g}")
        pairs = [
            (a, b)
            for few, many in ((0, 1), (2, 3))
            for a, b in zip(points[few], points[many], strict=True)
            if a.epsilon < 100
        ]
        ratio = min(many.rmse[method] / few.rmse[method] for few, many in pairs)
        if method != "obj":
            add("8", f"smaller n is better at epsilon < 100, {method}", ratio > 1, f"at least {ratio:.2f} times")
    if frame == "tight":
        return found
    ahead = [point.ahead("obj", "out") for point in first]
    add("5", "objective ahead of output at most epsilon", sum(ahead) > len(ahead) / 2, f"{sum(ahead)} of {len(ahead)}")
    few = [setting[0] for setting in (points[0], points[2])]
    ratios = [point.rmse["obj"] / point.rmse["out"] for point in few]
    words = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    add(
        "5, 8",
        "output slightly ahead at epsilon = 2 for n = 10",
        min(ratios) > 1,
        f"objective has {words} times its error",
    )
    late = [point.rmse["obj"] < point.rmse["out"] for setting in points for point in setting if point.epsilon >= 4]
    add("8", "objective ahead at epsilon >= 4 on all sets", all(late), f"{sum(late)} of {len(late)}")
    spread = {
        method: max(points[1][at].rmse[method] / points[0][at].rmse[method] for at in range(len(first)))
        for method in private
    }
    less = spread["obj"] < spread["out"]
    add("8", "objective depends less on n than output", less, f"{spread['obj']:.1f} against {spread['out']:.1f} times")
    gauss = [point.rmse["obj gauss"] < point.rmse["obj"] for setting in points for point in setting]
    add("6", "Gaussian noise better at most epsilon", sum(gauss) > len(gauss) / 2, f"{sum(gauss)} of {len(gauss)}")
    middle = len(first) // 2
    at = [setting[middle] for setting in points]
    laplace = max(at[0].rmse["obj"], at[2].rmse["obj"]) < min(at[1].rmse["obj"], at[3].rmse["obj"])
    add("6", "with Laplace noise n = 10 well ahead of n = 100", laplace, f"at epsilon = {at[0].epsilon:g}")
    long = max(at[2].rmse["obj gauss"], at[3].rmse["obj gauss"]) < min(at[0].rmse["obj gauss"], at[1].rmse["obj gauss"])
    add("6", "with Gaussian noise T0 = 100 ahead of T0 = 10", long, f"at epsilon = {at[0].epsilon:g}")
    return found


def of_bounds(measured: Sequence[tuple[float, float]], method: str) -> Claim:
    """Figure 4: errors against what the theorems allow.

    Args:
        measured: error and bound, for each lambda.
        method: ``out`` or ``obj``.
    """
    ratio = min(bound / error for error, bound in measured)
    return Claim(
        "4", f"errors far below the theorem's bound, {method}", "raw", ratio >= FAR, f"at least {ratio:.1f} times"
    )


def table(claims: Sequence[Claim]) -> list[str]:
    """Lines to print."""
    lines = []
    for claim in claims:
        verdict = "reproduced" if claim.holds else "NOT"
        lines.append(
            f"figure {claim.figure:>4}  {FRAMES[claim.frame]:<26}  {verdict:<10}  {claim.words}: {claim.found}"
        )
    return lines

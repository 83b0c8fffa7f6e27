"""A target, its counterfactual and the band around it, as SVG."""

from __future__ import annotations

from itertools import pairwise

from markupsafe import Markup

from dprelease.estimators.counterfactual import Counterfactual
from learner.report.axis import Axis
from learner.report.markup import element
from learner.report.plots import RIGHT, picture, rungs

_LEFT, _TOP, _BOTTOM = 84.0, 26.0, 286.0
_MOST_NAMES = 8


def path_plot(name: str, title: str, description: str, found: Counterfactual, level: float, unit: str) -> Markup:
    """The target's whole series, the counterfactual from the intervention on, and its intervals.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        found: what to draw.
        level: of the band.
        unit: of the target.
    """
    (low, high), count, before = found.band(level), len(found.columns), found.before
    up = Axis.covering([*found.target.tolist(), *low.tolist(), *high.tolist()], _BOTTOM, _TOP)
    step = (RIGHT - _LEFT) / max(count - 1, 1)
    x = [_LEFT + step * time for time in range(count)]
    target = [(x[time], up.at(float(value))) for time, value in enumerate(found.target)]
    path = [(x[before + time], up.at(float(value))) for time, value in enumerate(found.path)]
    ends = [(up.at(float(least)), up.at(float(most))) for least, most in zip(low, high, strict=True)]
    band = [
        element("line", x1=at, x2=at, y1=least, y2=most, class_="interval open")
        for (at, _), (least, most) in zip(path, ends, strict=True)
    ]
    every = -(-count // _MOST_NAMES)
    names = [
        element("text", found.columns[time].name, x=x[time], y=_BOTTOM + 18, class_="tick middle")
        for time in range(0, count, every)
    ]
    cut = x[before] - step / 2
    parts = [
        *rungs(up, _LEFT),
        *names,
        element("text", f"target (line) and counterfactual (dots), {unit}", x=_LEFT, y=14, class_="axis"),
        element("line", x1=cut, x2=cut, y1=_TOP, y2=_BOTTOM, class_="zero"),
        *band,
        *_line(target, "interval clear"),
        *_line(path, "interval open"),
        *(element("circle", cx=at, cy=y, r=4, class_="point open") for at, y in path),
    ]
    return picture(name, title, description, _BOTTOM + 34, parts)


def _line(places: list[tuple[float, float]], kind: str) -> list[Markup]:
    return [element("line", x1=a, y1=b, x2=c, y2=d, class_=kind) for (a, b), (c, d) in pairwise(places)]

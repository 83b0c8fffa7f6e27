"""A noisy distribution function as SVG: released shares with their errors, and the monotone function that fits them."""

from __future__ import annotations

from itertools import pairwise

from markupsafe import Markup

from dprelease.arrays import Floats
from dprelease.mechanisms.ranges.distribution import Distribution
from learner.report.axis import Axis
from learner.report.markup import element, joined
from learner.report.plots import RIGHT, grid, picture, rungs

ERRORS = 2.0
"""Standard errors either side of a released share."""

_LEFT, _TOP, _BOTTOM = 84.0, 26.0, 246.0


def distribution(
    name: str, title: str, description: str, edges: Floats, found: Distribution, axis_label: str
) -> Markup:
    """Shares of rows below every edge.

    Args:
        name: distinguishes the plot from others of the page.
        title: what it shows.
        description: the same in more words.
        edges: (K+1,) original units.
        found: shares below them.
        axis_label: the column and its unit.
    """
    low, high = found.noisy - ERRORS * found.noise_sd, found.noisy + ERRORS * found.noise_sd
    up = Axis.covering([0.0, 1.0, *low.tolist(), *high.tolist()], _BOTTOM, _TOP)
    along = Axis.covering([float(edges[0]), float(edges[-1])], _LEFT, RIGHT)
    places = [(along.at(float(edge)), up.at(float(share))) for edge, share in zip(edges, found.monotone, strict=True)]
    steps = [
        element("line", x1=x, y1=y, x2=next_x, y2=next_y, class_="interval clear")
        for (x, y), (next_x, next_y) in pairwise(places)
    ]
    dots = [
        joined(
            (
                element("line", x1=x, x2=x, y1=up.at(float(least)), y2=up.at(float(most)), class_="interval open"),
                element("circle", cx=x, cy=up.at(float(share)), r=3, class_="point open"),
            )
        )
        for (x, _), share, least, most in zip(places[1:-1], found.noisy, low, high, strict=True)
    ]
    parts = [
        *rungs(up, _LEFT),
        *grid(along, _TOP, _BOTTOM),
        element("text", "share of rows below", x=_LEFT, y=14, class_="axis"),
        element("text", axis_label, x=(_LEFT + RIGHT) / 2, y=_BOTTOM + 38, class_="axis middle"),
        *dots,
        *steps,
    ]
    return picture(name, title, description, _BOTTOM + 46, parts)

"""Noise in the number of patients of a category's level, which joint moments publish as an entry of the Gram matrix.

A level is coded 0 or 1 beside the constant, so the entry of the two counts its patients. A category of two levels is one variable
of +1 and -1, whose sum is twice a level's number less n: half the noise.

Source: docs/guarantees.md 11.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.mechanisms.moments.calibration import released_sd
from dprelease.mechanisms.moments.clipping import Clipping
from dprelease.mechanisms.moments.entries import Kind, Layout


def levels_in_words(
    layout: Layout, scales: Mapping[Kind, float], clipping: Clipping | None, parties: int, grid_bits: int
) -> str:
    """The standard deviation of that noise in patients, or the least and the largest of all; empty without a private category.

    Args:
        layout: the released entries.
        scales: noise scale of each party's share of an entry, by kind.
        clipping: how rows are coded; None where they are coded in public bounds.
        parties: m.
        grid_bits: b.
    """
    found = []
    for place, variable in enumerate(layout.variables, 1):
        if variable.measured or variable.public:
            continue
        unit = 4**grid_bits if clipping is None else clipping.constant * clipping.weights[variable.column]
        kind = Kind.ASSOCIATION if layout.outcome[place] else Kind.PRODUCT
        found.append(released_sd(scales[kind], parties) / unit / (1 if variable.level else 2))
    if not found:
        return ""
    shown = " to ".join(dict.fromkeys(f"{float(f'{sd:.2g}'):,g}" for sd in (min(found), max(found))))
    return f"the number of patients of a level is published with a standard deviation of about {shown}"

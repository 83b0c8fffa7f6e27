"""Public features that follow from one another: over them a release with outcomes is declined before anything is charged.

With outcomes apart, learners regress them on the public features as these are. Features of which some follow from the others and
the constant leave a regression on all of them without an answer. Only cells that the owner declared public are looked at, so
that a refusal may depend on them (privacy.md 3.4).
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.bounding import BoundedRows
from dprelease.errors import DataRefused, IntegrityError, InvalidInput
from dprelease.moments.association import check_public_norm, public_outcomes
from dprelease.moments.layout import Layout, code
from dprelease.release import Floats
from dprelease.spec import ReleaseSpec

_NAMED = 10


def check_public_features(bounded: BoundedRows, spec: ReleaseSpec, party: str) -> None:
    """Refuse a release with outcomes whose public features of ours do not stand for themselves.

    Args:
        bounded: our rows, (n, d) codes.
        spec: the proposal.
        party: our name.

    Raises:
        DataRefused: some of our public features follow from the others and the constant; which, and how to mend it.
    """
    if spec.moments is None or spec.moments.association is None:
        return
    follow = following(bounded, spec.moments.outcomes)
    if follow:
        more = f" and {len(follow) - _NAMED} more" if len(follow) > _NAMED else ""
        raise DataRefused(
            f"public features that follow from the others and the constant: {', '.join(follow[:_NAMED])}{more}. Ask for a "
            "release without them; of a category, leave a level undeclared, so that 'other' is not empty"
        )
    stated = spec.moments.public_norm2
    if stated is not None and spec.norm_owner == party:
        try:
            check_public_norm(bounded.public, Layout(bounded.columns, spec.moments.outcomes), stated, spec.grid_bits)
        except IntegrityError as error:
            raise DataRefused(error.message) from error


def public_norm2(bounded: BoundedRows, columns: tuple[str, ...]) -> float:
    """The largest squared norm of a patient's public columns in scaled units, rounded up to a multiple of 1/1000.

    A little more than it is on this grid, as another release may have a finer one.

    Args:
        bounded: our rows.
        columns: names of public columns.

    Raises:
        InvalidInput: one of them is not public here.
    """
    shown = {column.name for column in bounded.columns if column.public}
    unknown = [name for name in columns if name not in shown]
    if unknown:
        raise InvalidInput(f"{', '.join(unknown)} is not public here; party-node public list shows what is")
    layout = Layout(bounded.columns, columns)
    codes = public_outcomes(bounded.public, layout).astype(np.float64)
    longest = float(((np.abs(codes) + 0.5) ** 2).sum(axis=1).max()) / 4.0**bounded.grid_bits
    return math.ceil(1000 * longest) / 1000


def following(bounded: BoundedRows, outcomes: tuple[str, ...]) -> tuple[str, ...]:
    """Released names of public features that follow from the others and the constant, O(n d^2).

    The first level of every category is left out, as fits do: it always follows.

    Args:
        bounded: rows of one party.
        outcomes: names of the columns that are no features.
    """
    from scipy.linalg import qr  # slow to load, and few releases have outcomes apart

    layout = Layout(bounded.columns, outcomes)
    places = np.flatnonzero(layout.public[1:] & ~layout.outcome[1:] & ~layout.first_level)
    if not len(places):
        return ()
    codes = code(bounded.codes, bounded.columns)[:, places]
    values: Floats = np.ldexp(codes.astype(np.float64), -bounded.grid_bits)
    least = 64 * max(values.shape) * np.finfo(np.float64).eps * np.linalg.norm(values, axis=0)
    triangle, order = qr(values - values.mean(axis=0), mode="r", pivoting=True)
    own = np.zeros(len(places))
    own[: min(triangle.shape)] = np.abs(np.diag(triangle))
    follow = sorted(order[own <= least[order]])
    return tuple(layout.variables[places[place]].name for place in follow)

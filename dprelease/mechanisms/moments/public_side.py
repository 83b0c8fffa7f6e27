"""Public features that follow from one another: over them a release with outcomes is declined before anything is charged.

With outcomes named, learners regress them on the public features as these are. Features of which some follow from the others
and the constant leave a regression on all of them without an answer. Only cells that the owner declared public are looked at,
so that a refusal may depend on them.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import public
from dprelease.errors import DataRefused, IntegrityError
from dprelease.mechanisms.moments.entries import Layout, code
from dprelease.mechanisms.moments.terms import JointMoments, norm_owner
from dprelease.one_line import listed
from dprelease.spec_base import SpecBase


def check_public_features(bounded: BoundedRows, spec: SpecBase, terms: JointMoments, party: str) -> None:
    """Refuse a release with outcomes whose public features of ours do not stand for themselves.

    Raises:
        DataRefused: some of our public features follow from the others and the constant; which, and how to mend it.
    """
    if terms.association is None:
        return
    follow = following(bounded, terms.outcomes)
    if follow:
        raise DataRefused(
            f"public features that follow from the others and the constant: {listed(follow)}. Ask for a "
            "release without them; of a category, take out a level that nobody has, or where it is 'other' say that the "
            "levels are exhaustive"
        )
    stated = terms.public_norm2
    if stated is not None and norm_owner(spec) == party:
        try:
            check_public_norm(bounded.public, Layout(bounded.columns, terms.outcomes), stated, spec.grid_bits)
        except IntegrityError as error:
            raise DataRefused(error.message) from error


def following(bounded: BoundedRows, outcomes: tuple[str, ...]) -> tuple[str, ...]:
    """Released names of public features that follow from the others and the constant, O(n d^2).

    The first level of every category is left out, as fits do: it always follows.

    Args:
        bounded: rows of one party.
        outcomes: names of the columns that are no features.
    """
    from scipy.linalg import qr  # slow to load, and few releases have outcome-only columns

    layout = Layout(bounded.columns, outcomes)
    places = np.flatnonzero(layout.public[1:] & ~layout.outcome[1:] & ~layout.first_level)
    if not len(places):
        return ()
    codes = code(bounded.codes, bounded.columns)[:, places]
    values: npt.NDArray[np.float64] = np.ldexp(codes.astype(np.float64), -bounded.grid_bits)
    least = 64 * max(values.shape) * np.finfo(np.float64).eps * np.linalg.norm(values, axis=0)
    triangle, order = qr(values - values.mean(axis=0), mode="r", pivoting=True)
    own = np.zeros(len(places))
    own[: min(triangle.shape)] = np.abs(np.diag(triangle))
    follow = sorted(order[own <= least[order]])
    return tuple(layout.variables[places[place]].name for place in follow)


def check_public_norm(codes: npt.NDArray[np.int32], layout: Layout, norm2: Fraction, grid_bits: int) -> None:
    """Check that no patient's public outcomes are longer than was stated: their owner does, and whoever verifies a release.

    Args:
        codes: (n, d) codes of all public columns of the layout.
        layout: columns, and which of them are outcomes only.
        norm2: T2.
        grid_bits: b.

    Raises:
        IntegrityError: some are. The message has their norm, which is public.
    """
    outcomes = public_outcomes(codes, layout)
    longest = int(np.einsum("ij,ij->i", outcomes, outcomes, dtype=np.int64).max())
    if longest > norm2 * (1 << (2 * grid_bits)):
        raise IntegrityError(
            f"some patient's public outcomes have squared norm {longest / 4**grid_bits:.6g}, more than the {float(norm2):.6g} that "
            "the noise is for; state at least that"
        )


def public_outcomes(codes: npt.NDArray[np.int32], layout: Layout) -> npt.NDArray[np.int32]:
    """(n, a) variables of the public outcomes, on the grid; arguments as of `check_public_norm`."""
    return code(codes, public(layout.columns))[:, layout.outcome[layout.public][1:]]

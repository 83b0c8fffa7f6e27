"""Two-stage least squares, the strength of its instruments, and Hausman's test.

With x = (endogenous, exogenous) and z = (instruments, exogenous), all in covariances S,

    b = A^-1 S_xz S_zz^-1 S_zy,    A = S_xz S_zz^-1 S_zx,    Cov(b) = sigma^2 A^-1 / n,

sigma^2 being the mean squared residual y - x'b by n - d - 1. Any column of a release may be an instrument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dprelease.analyses.clipped import tables_of
from dprelease.analyses.draws import Draws, draws_of, features, number
from dprelease.analyses.estimates import Estimates
from dprelease.analyses.joint_test import JointTest, are_zero, joint_test
from dprelease.analyses.least_squares import LeastSquares, least_squares, on_covariance
from dprelease.analyses.result import Analysis, repeatable
from dprelease.arrays import Floats
from dprelease.errors import InvalidInput
from dprelease.release.release import Release

WEAK = 10.0
"""First-stage F below which instruments are called weak (Staiger and Stock 1997, Econometrica 65(3))."""


@repeatable
def two_stage_least_squares(
    release: Release, outcome: str, on: Sequence[str], instruments: Sequence[str], given: Sequence[str] = ()
) -> Analysis:
    """Effects of endogenous features by way of instruments.

    Tables: ``coefficients`` and, beside them, ``least squares`` (noise and sampling), ``first stage`` (F of the instruments for
    each endogenous feature, as it is on the draws; noise only). Tests: ``the instruments have no part in NAME`` (first stage,
    noise counted as error) and ``least squares would do`` (Hausman's test in the form of Wu: the first stage's residuals have no
    coefficient).

    Args:
        release: a verified release of joint moments.
        outcome: a number, or an indicator.
        on: endogenous features.
        instruments: at least as many.
        given: exogenous features.

    Raises:
        InvalidInput: an unknown name, too few instruments, no moments, or noise hides how the columns vary.
    """
    y, x, z = number(release, outcome), features(release, on), features(release, instruments)
    w = features(release, given) if given else ()
    draws = draws_of(release, (y, *x, *w, *z))
    x, w, z = (draws.present(names) for names in (x, w, z))
    if len(z) < len(x):
        raise InvalidInput(f"{len(x)} endogenous features need as many instruments, not {len(z)}")
    draws.check_seen((*z, *w))
    tables = tables_of(draws, lambda draws: _tables(draws, y, x, w, z))
    tests = {f"the instruments have no part in {name}": are_zero(draws, name, (*z, *w), z) for name in x}
    tests["least squares would do"] = _hausman(draws, x, w, z)
    caveats = [
        *draws.caveats,
        "That an instrument acts on the outcome through the named features alone cannot be seen in any data.",
    ]
    if tables["first stage"].interval()[0].min() < WEAK:
        caveats.insert(
            0,
            f"Instruments may be weak (an interval of the first-stage F reaches below {WEAK:g}): do not believe the intervals.",
        )
    return Analysis(
        f"Two-stage least squares of {y}",
        release,
        draws.names,
        tables,
        tests,
        tuple(caveats),
        {"instruments": ", ".join(z)},
    )


def _tables(draws: Draws, y: str, x: Sequence[str], w: Sequence[str], z: Sequence[str]) -> dict[str, Estimates]:
    plain = least_squares(draws, y, (*x, *w))
    coef, errors, degrees = _two_stage(draws, (*x, *w), (*z, *w))
    strength = np.column_stack([_partial_f(draws, name, z, w) for name in x])
    return {
        "coefficients": Estimates((*x, *w), coef, errors, degrees, tested=True),
        "least squares": plain.slopes(),
        "first stage": Estimates(tuple(f"F for {name}" for name in x), strength),
    }


def _two_stage(draws: Draws, x: Sequence[str], z: Sequence[str]) -> tuple[Floats, Floats, int]:
    """Coefficients and their errors, (T, d) each, and degrees of freedom."""
    s, inner, outer = draws.covariance, draws.places(x), draws.places(z)
    across = s[:, outer][:, :, inner]
    first = np.linalg.solve(s[:, outer][:, :, outer], across).transpose(0, 2, 1)
    inverse = np.linalg.inv(first @ across)
    coef = np.einsum("tij,tjk,tk->ti", inverse, first, s[:, outer, 0])
    degrees = draws.patients - len(inner) - 1
    left = s[:, 0, 0] - 2 * (coef * s[:, inner, 0]).sum(axis=1)
    left += np.einsum("ti,tij,tj->t", coef, s[:, inner][:, :, inner], coef)
    errors = np.sqrt(np.einsum("tii->ti", inverse) * left[:, None] / degrees)
    return coef, errors, degrees


def _partial_f(draws: Draws, name: str, z: Sequence[str], w: Sequence[str]) -> Floats:
    """(T,) classical F of each draw."""
    (y, *_), n = draws.places([name]), draws.patients
    whole = on_covariance(draws.mean, draws.covariance, y, draws.places([*z, *w]), (*z, *w), n)
    less = on_covariance(draws.mean, draws.covariance, y, draws.places(w), tuple(w), n).explained if w else 0.0
    return (whole.explained - less) / len(z) / (1 - whole.explained) * whole.degrees


def _hausman(draws: Draws, x: Sequence[str], w: Sequence[str], z: Sequence[str]) -> JointTest:
    """Test of the coefficients of the residuals v = x - first stage in a regression of y on x, w and v."""

    def work(draws: Draws) -> dict[str, Estimates]:
        return {"residuals": _on_residuals(draws, x, w, z).slopes(tuple(f"residual of {name}" for name in x))}

    model, left = _on_residuals(draws, x, w, z), slice(-len(x), None)
    errors = model.inverse[:, left, left] * (model.residual / draws.patients)[:, None, None]
    return joint_test(tables_of(draws, work)["residuals"], errors)


def _on_residuals(draws: Draws, x: Sequence[str], w: Sequence[str], z: Sequence[str]) -> LeastSquares:
    outer, inner = draws.places([*z, *w]), draws.places(x)
    s = draws.covariance
    first = np.linalg.solve(s[:, outer][:, :, outer], s[:, outer][:, :, inner])
    used = [0, *inner, *draws.places(w)]
    turn = np.zeros((len(s), len(used) + len(inner), s.shape[1]))
    turn[:, np.arange(len(used)), used] = 1.0
    turn[:, np.arange(len(used), turn.shape[1]), inner] = 1.0
    turn[:, len(used) :][:, :, outer] -= first.transpose(0, 2, 1)
    covariance = turn @ s @ turn.transpose(0, 2, 1)
    mean = (turn @ draws.mean[..., None])[..., 0]
    residuals = tuple(f"residual of {name}" for name in x)
    everything = list(range(1, turn.shape[1]))
    return on_covariance(mean, covariance, 0, everything, (*x, *w, *residuals), draws.patients)

"""How linear functions of joint moments follow the noise of the release: <N, F> = sum_ij F_ij N_ij for symmetric F."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.arrays import Floats
from dprelease.mechanisms.moments.released import Moments


def by_entry(forms: Floats, noise_sd: Floats, level: npt.NDArray[np.bool_]) -> Floats:
    """Weights in <N, F> of the independent errors behind the entries, of variance 1, (..., q, q).

    Sums over all entries of products of two of them are covariances.

    Args:
        forms: (..., q, q) F, the constant first.
        noise_sd: (q, q) of the entries.
        level: (q,) which variables are levels, whose own entry repeats that with the constant.
    """
    found: Floats = np.triu(forms) + np.triu(forms, 1)
    own = np.where(level, np.diagonal(forms, axis1=-2, axis2=-1), 0.0)
    found[..., 0, :] += own
    found[..., range(len(level)), range(len(level))] -= own
    return found * noise_sd


def outer(one: Floats, other: Floats) -> Floats:
    """(..., q, q) F for which <S, F> is x' S y, of x and y (..., q) alike."""
    product = one[..., :, None] * other[..., None, :]
    return (product + np.swapaxes(product, -1, -2)) / 2


def gained(moments: Moments, x: list[int], y: list[int], model: Floats, flat: Floats) -> tuple[Floats, Floats]:
    """<S + N, F> and <F, V F> per patient, each (l,), F = u_0 u_0' - u_1 u_1' of constant predictor and model.

    The entry of the outcome with itself takes no part.

    Args:
        moments: as released.
        x: d indices.
        y: l indices.
        model: (d + 1, l) the parts of u_1 on (1, x); u is 1 on the target.
        flat: (l,) the only part of u_0.
    """
    z, rows, level = [0, *x], moments.rows, moments.layout.level
    across, within = (moments.between(z, of) / rows for of in (y, z))
    seen, among = ((moments.noise_between(z, of) / rows) ** 2 for of in (y, z))
    by_target = -2 * model
    by_target[0] += 2 * flat
    gain = (by_target * across).sum(axis=0) + flat**2 - (model * (within @ model)).sum(axis=0)
    return gain, inside(among, model, level[z]) + (by_target**2 * seen).sum(axis=0)


def inside(variance: Floats, model: Floats, level: npt.NDArray[np.bool_]) -> Floats:
    """(l,) variance that the entries among (1, x) give u' N u.

    Args:
        variance: (d + 1, d + 1) of those entries.
        model: (d + 1, l) the parts of u on them.
        level: (d + 1,) whose own entry repeats its entry with the constant.
    """
    diagonal = np.where(level, 0.0, np.diag(variance))
    apart = variance * (1 - np.eye(len(variance)))
    squared = model**2
    levels = np.where(level, variance[0], 0.0)
    repeated = levels @ (4 * model[0] * model**3 + model**4)
    found: Floats = 2 * (squared * (apart @ squared)).sum(axis=0) + diagonal @ squared**2 + repeated
    return found

"""How linear functions of joint moments follow the noise of the release: <N, F> = sum_ij F_ij N_ij for symmetric F."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.release.release import Floats


def by_entry(forms: Floats, noise_sd: Floats, level: npt.NDArray[np.bool_]) -> Floats:
    """What the independent errors behind the entries, of variance 1, add to <N, F>, (..., q, q).

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

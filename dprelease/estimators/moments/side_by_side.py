"""Fits of several targets side by side, each with what its warnings are made of: sentences count the targets they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.moments.risk import warnings
from dprelease.estimators.quality import Diagnostics, Quality, ScaledFit


class Fitted(NamedTuple):
    """A fit of l targets without its warnings.

    Attributes:
        fit: on draws.
        alpha: (l,) how far each model went.
        excess: (l,) expected squared error of the constant predictor beyond the outcome's variance, in that variance.
        left_out: features that noise hides and the models do without, by name; empty where there are none.
    """

    fit: ScaledFit
    alpha: Floats
    excess: Floats
    left_out: str = ""


def side_by_side(found: Sequence[Fitted]) -> ScaledFit:
    """One fit of all targets, with warnings; numerical health is that of the worst.

    Args:
        found: a fit of each target.
    """
    fits = [each.fit for each in found]
    told = [
        f"For {count} of {len(found)} targets left out of the model, as noise hides how they vary: {named}."
        for named, count in Counter(each.left_out for each in found).items()
        if named
    ]
    sentences = warnings(*(np.concatenate([getattr(each, name) for each in found]) for name in ("alpha", "excess")))
    return replace(
        fits[0],
        weights=np.hstack([each.weights for each in fits]),
        **{
            name: np.concatenate([getattr(each, name) for each in fits])
            for name in ("offsets", "constant", "constant_noise_sd")
        },
        quality=Quality(
            **{each.name: np.concatenate([getattr(fit.quality, each.name) for fit in fits]) for each in fields(Quality)}
        ),
        diagnostics=Diagnostics(
            smallest_eigenvalue=min(each.diagnostics.smallest_eigenvalue for each in fits),
            condition_number=max(each.diagnostics.condition_number for each in fits),
            indefinite=any(each.diagnostics.indefinite for each in fits),
            warnings=(*sentences, *told),
        ),
    )

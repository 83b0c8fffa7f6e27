"""Fitted linear models in scaled units, as every algorithm gives them, before learners see them in words and units."""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.estimators.quality import Quality
from dprelease.estimators.result import Diagnostics
from dprelease.release.release import Floats


@dataclass(frozen=True, eq=False)
class ScaledFit:
    """l models with d weights each, scaled units.

    Attributes:
        weights: (d, l).
        offsets: (l,).
        constant: (l,) the constant predictor.
        constant_noise_sd: (l,) how far privacy noise leaves the mean open.
        quality: estimated errors.
        diagnostics: numerical health.
    """

    weights: Floats
    offsets: Floats
    constant: Floats
    constant_noise_sd: Floats
    quality: Quality
    diagnostics: Diagnostics

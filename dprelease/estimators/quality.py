"""Fits in scaled units, how well they predict, and which of their numbers noise hides."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dprelease.arrays import Floats
from dprelease.estimators.normal_equations import Diagnostics

BETTER = "better than the constant predictor"
INDISTINCT = "not distinguishable from the constant predictor"
MARGIN = 2.0
"""Standard errors by which a model must beat the constant predictor to be called better."""


@dataclass(frozen=True, eq=False)
class Quality:
    """Estimated mean squared errors on the private rows, one entry for each target.

    Attributes:
        mse: (l,) of the model, formula (1): optimistic, and negative at times when the noise is large.
        mse_se: (l,) standard error of the two together; infinite where nothing can be said.
        optimism: (l,) by how much `mse` is expected to be too low, formula (3); infinite where nothing can be said.
        constant_mse: (l,) of the constant predictor, formula (1).
        constant_mse_se: (l,) its standard error.
        gain: (l,) constant_mse - mse, both corrected for optimism.
        gain_se: (l,) standard error of the difference.
    """

    mse: Floats
    mse_se: Floats
    optimism: Floats
    constant_mse: Floats
    constant_mse_se: Floats
    gain: Floats
    gain_se: Floats

    @classmethod
    def together(cls, parts: Iterable[Quality]) -> Quality:
        """The quality of several fits, one behind the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    @property
    def explained(self) -> Floats:
        """(l,) gain as a part of the constant predictor's error: R^2 on the private rows; NaN where noise hides it."""
        return _part(self.gain, self._constant)

    @property
    def explained_se(self) -> Floats:
        """(l,) its standard error, to first order."""
        gain, model = (np.where(np.isinf(each), np.nan, each**2) for each in (self.gain_se, self.mse_se))
        share, shared = self.explained, (self.constant_mse_se**2 + gain - model) / 2
        variance = gain - 2 * share * shared + (share * self.constant_mse_se) ** 2
        return _part(np.sqrt(np.maximum(variance, 0)), self._constant)

    @property
    def _constant(self) -> Floats:
        """(l,) error of the constant predictor, corrected for its optimism."""
        unknown = np.isinf(self.optimism)
        return np.where(unknown, np.nan, np.where(unknown, 0.0, self.gain) + self.mse + self.optimism)

    def verdicts(self) -> tuple[str, ...]:
        """In words, for each target: is the model better than the constant predictor by two standard errors?"""
        better = self.gain > MARGIN * self.gain_se
        return tuple(BETTER if is_better else INDISTINCT for is_better in better)

    def in_units(self, half_width: Floats) -> Quality:
        """The same in original units, from scaled ones.

        Args:
            half_width: (l,) original units of one scaled unit of each target.
        """
        return Quality(**{name: value * half_width**2 for name, value in vars(self).items()})


def _part(value: Floats, whole: Floats) -> Floats:
    return np.divide(value, whole, out=np.full_like(whole, np.nan), where=whole > 0)


@dataclass(frozen=True, eq=False)
class ScaledFit:
    """l fitted models with d weights each, scaled units, as every algorithm gives them.

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


# Noise is taken off squared errors by subtraction: they are unbiased, may come out negative, and their shares above 1. As data they
# stay as they are, for whoever averages over releases. Readers see them only where they can be true.
WIDTHS = 4.0
"""Standard deviations from end to end of an interval of two either side: where a whole range fits in, nothing is told."""


def hidden_share(share: float, standard_error: float) -> str:
    """Why a share of variance explained cannot be told; empty where it can.

    Args:
        share: estimated; NaN where the outcome's variance itself is hidden.
        standard_error: its own; NaN where it is not known.
    """
    if not math.isfinite(share):
        return "cannot be told: noise is larger than the outcome's variance"
    reach = WIDTHS / 2 * standard_error
    if share - reach <= 0 and share + reach >= 1:
        return f"cannot be told: noise is larger than any share (standard error {standard_error:.2g})"
    if share > 1:
        near = share - reach <= 1
        return (
            f"cannot be told from 1 (standard error {standard_error:.2g})"
            if near
            else "cannot be told: it comes out above 1"
        )
    return ""


def hidden_error(error: float, standard_error: float) -> str:
    """Why a mean squared error cannot be told; empty where it can.

    Args:
        error: estimated, before it is corrected for having been fitted.
        standard_error: its own.
    """
    return f"cannot be told: noise is larger than the error (standard error {standard_error:.2g})" if error < 0 else ""


def is_hidden(noise_sd: float, width: float) -> bool:
    """Tells whether a mean's noise covers the whole public range.

    Args:
        noise_sd: standard deviation of what noise leaves open.
        width: of the range.
    """
    return noise_sd * WIDTHS >= width


def unresolved(quality: Quality, target: int, constant_noise_sd: float, width: float) -> dict[str, str]:
    """Unresolved numbers of a target, and why: among ``explained``, ``mse``, ``constant_mse`` and ``constant``.

    Args:
        quality: of a fit, original units.
        target: its place.
        constant_noise_sd: of the constant predictor.
        width: of the target's public range.
    """
    reasons = {
        "explained": hidden_share(float(quality.explained[target]), float(quality.explained_se[target])),
        "mse": hidden_error(quality.mse[target], quality.mse_se[target]),
        "constant_mse": hidden_error(quality.constant_mse[target], quality.constant_mse_se[target]),
        "constant": f"cannot be told: noise sd {constant_noise_sd:.2g} in a range of {width:.4g}"
        if is_hidden(constant_noise_sd, width)
        else "",
    }
    return {name: reason for name, reason in reasons.items() if reason}

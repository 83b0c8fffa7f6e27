"""Estimates that their own noise hides: which are printed as numbers, and what is said in words instead of the others.

Noise is taken off squared errors by subtraction: they are unbiased and may come out negative, and shares above 1. As data they
stay as they are, for whoever averages over releases; to a reader they are told only where they can be true.
"""

from __future__ import annotations

import math

from dprelease.estimators.quality import Quality

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


def hidden(quality: Quality, target: int, constant_noise_sd: float, width: float) -> dict[str, str]:
    """Unidentified numbers of a target, and why: among ``explained``, ``mse``, ``constant_mse`` and ``constant``.

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


def rounded(value: float, noise_sd: float) -> str:
    """A number as far as its noise lets it be known: to the second digit of the noise, six digits without any."""
    if not (0 < noise_sd < math.inf and value):
        return f"{value:.6g}"
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(noise_sd)) + 2
    return f"{value:.{min(max(digits, 1), 6)}g}"

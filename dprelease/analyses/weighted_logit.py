"""Regression on combinations of levels that have probabilities instead of patients: logistic, of hazards, and of counts.

Maximum likelihood by Newton's method. It gives the coefficients that n patients with these probabilities would give. Their
covariance is the inverse of n times the information.

Source: McCullagh, Nelder 1989, Generalized Linear Models, 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

STEPS, CLOSE = 100, 1e-10
HALVINGS = 30
MOST = 30.0
"""Largest cumulative hazard of an interval, and logarithm of the least."""
LARGEST = 15.0
"""A log odds beyond says that a combination decides the outcome."""
SINGULAR = 1e-9
"""Least eigenvalue of an information matrix, scaled to a diagonal of 1, that rounding leaves to be told from 0."""


@dataclass(frozen=True, eq=False)
class Logit:
    """A logistic regression.

    Attributes:
        coef: (q,) coefficients, log odds.
        information: (q, q) of one patient.
        fitted: (C,) probability of the outcome in each combination.
        ratio: name of the exponential of a coefficient.
    """

    ratio: ClassVar[str] = "odds ratio"
    coef: Floats
    information: Floats
    fitted: Floats

    @classmethod
    def of(cls, design: Floats, share: Floats, yes: Floats, start: Floats | None = None) -> Self:
        """Fit by maximum likelihood.

        Args:
            design: (C, q) features of each combination, the constant among them.
            share: (C,) probability of each combination.
            yes: (C,) probability of each combination together with the outcome; of counts, times their mean in it.
            start: (q,) coefficients to begin with.

        Raises:
            InvalidInput: a feature follows from others, or decides the outcome.
        """
        coef = np.zeros(design.shape[1]) if start is None else start.copy()
        before = cls._loss(design, share, yes, coef)
        for _ in range(STEPS):
            fitted, weight = cls.means(design @ coef)
            information = design.T @ ((share * weight**2 * cls.variance(fitted))[:, None] * design)
            slope = design.T @ (weight * (yes - share * fitted))
            step = _inverse(information) @ slope
            # The whole step is scaled: cut coefficient by coefficient, it ends at wrong values.
            for halving in range(HALVINGS):
                tried = coef + step / 2**halving
                after = cls._loss(design, share, yes, tried)
                if after <= before + 1e-15:
                    break
            gained, coef, before = before - after, tried, after
            if gained < CLOSE * max(abs(before), CLOSE) and float(slope @ step) < CLOSE:
                break
        if not np.abs(coef).max() <= LARGEST:  # a coefficient that is no number is refused too
            raise InvalidInput(f"a feature decides the outcome, and no {cls.ratio} is finite; leave it out")
        fitted, weight = cls.means(design @ coef)
        information = design.T @ ((share * weight**2 * cls.variance(fitted))[:, None] * design)
        return cls(coef, information, fitted)

    @staticmethod
    def means(score: Floats) -> tuple[Floats, Floats]:
        """Probabilities of the outcome, and weights of residuals in the score, by the linear predictor."""
        return expit(score), np.ones_like(score)

    @staticmethod
    def variance(mean: Floats) -> Floats:
        """Variance of the outcome by its mean."""
        return mean * (1 - mean)

    @staticmethod
    def others(outcome: Floats) -> Floats:
        """(C,) what a patient adds to the denominator of odds, or of a rate; `outcome` as of `influence`."""
        return 1 - outcome

    def influence(self, design: Floats, outcome: Floats) -> Floats:
        """(C, q) influence function of the coefficients.

        Args:
            design: (C, q) features of combinations.
            outcome: (C,) 1 where they have the outcome; or a count.
        """
        mean, weight = self.means(design @ self.coef)
        score = design * (weight * (outcome - mean))[:, None]
        return score @ self.inverse

    @property
    def inverse(self) -> Floats:
        """(q, q) of the information, which is the covariance of one patient's coefficients.

        Raises:
            InvalidInput: it is singular to rounding.
        """
        return _inverse(self.information)

    @staticmethod
    def _loss(design: Floats, share: Floats, yes: Floats, coef: Floats) -> float:
        """Minus the log-likelihood of a patient."""
        score = design @ coef
        return float(share @ np.logaddexp(0.0, score) - yes @ score)


class Cloglog(Logit):
    """A regression with the complementary log-log link: coefficients are log hazard ratios of intervals.

    An event in an interval has the probability 1 - exp(-exp(score)), whatever the hazard's course within it, if hazards are
    proportional.

    Source: Prentice, Gloeckler 1978, Regression analysis of grouped survival data, Biometrics 34(1).
    """

    ratio = "hazard ratio"

    @staticmethod
    def means(score: Floats) -> tuple[Floats, Floats]:
        """As of `Logit`."""
        rate = np.exp(np.clip(score, -MOST, np.log(MOST)))
        mean = -np.expm1(-rate)
        return mean, rate / mean

    @staticmethod
    def _loss(design: Floats, share: Floats, yes: Floats, coef: Floats) -> float:
        score = design @ coef
        rate = np.exp(np.clip(score, -MOST, np.log(MOST)))
        return float((share - yes) @ rate - yes @ np.log(-np.expm1(-rate)))


class Poisson(Logit):
    """A regression of counts with the logarithm for its link: coefficients are log ratios of means."""

    ratio = "rate ratio"

    @staticmethod
    def means(score: Floats) -> tuple[Floats, Floats]:
        """Means, and weights as of `Logit`."""
        return np.exp(np.clip(score, -MOST, MOST)), np.ones_like(score)

    @staticmethod
    def variance(mean: Floats) -> Floats:
        """As of `Logit`."""
        return mean

    @staticmethod
    def others(outcome: Floats) -> Floats:
        """As of `Logit`."""
        return np.ones_like(outcome)

    @staticmethod
    def _loss(design: Floats, share: Floats, yes: Floats, coef: Floats) -> float:
        score = design @ coef
        return float(share @ np.exp(np.clip(score, -MOST, MOST)) - yes @ score)


def _inverse(information: Floats) -> Floats:
    """Inverse of an information matrix.

    Raises:
        InvalidInput: it is singular to rounding.
    """
    scale = np.sqrt(np.diag(information))
    usable = bool((scale > 0).all())
    values, vectors = np.linalg.eigh(information / np.outer(scale, scale)) if usable else (np.zeros(1), np.eye(1))
    if not values[0] > SINGULAR:
        raise InvalidInput("a feature follows from the others, or decides the outcome; leave one of them out")
    scaled = vectors / scale[:, None]
    return (scaled / values) @ scaled.T

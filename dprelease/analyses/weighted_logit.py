"""Logistic regression of an indicator on combinations of levels that have probabilities instead of patients.

Maximum likelihood by Newton's method. It gives the coefficients that n patients with these probabilities would give. Their
covariance is the inverse of n times the information.

Source: McCullagh, Nelder 1989, Generalized Linear Models, 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from dprelease.arrays import Floats
from dprelease.errors import InvalidInput

STEPS, CLOSE = 100, 1e-10
HALVINGS = 30
LARGEST = 15.0
"""A log odds beyond says that a combination decides the outcome."""


@dataclass(frozen=True, eq=False)
class Logit:
    """A logistic regression.

    Attributes:
        coef: (q,) coefficients, log odds.
        information: (q, q) of one patient.
        fitted: (C,) probability of the outcome in each combination.
    """

    coef: Floats
    information: Floats
    fitted: Floats

    @classmethod
    def of(cls, design: Floats, share: Floats, yes: Floats, start: Floats | None = None) -> Self:
        """Fit by maximum likelihood.

        Args:
            design: (C, q) features of each combination, the constant among them.
            share: (C,) probability of each combination.
            yes: (C,) probability of each combination together with the outcome.
            start: (q,) coefficients to begin with.

        Raises:
            InvalidInput: a feature follows from others, or decides the outcome.
        """
        coef = np.zeros(design.shape[1]) if start is None else start.copy()
        before = _loss(design, share, yes, coef)
        for _ in range(STEPS):
            fitted = expit(design @ coef)
            information = design.T @ ((share * fitted * (1 - fitted))[:, None] * design)
            slope = design.T @ (yes - share * fitted)
            try:
                step = np.linalg.solve(information, slope)
            except np.linalg.LinAlgError:
                raise InvalidInput("a feature follows from the others; leave one of them out") from None
            # The whole step is scaled: cut coefficient by coefficient, it ends at wrong values.
            for halving in range(HALVINGS):
                tried = coef + step / 2**halving
                after = _loss(design, share, yes, tried)
                if after <= before + 1e-15:
                    break
            gained, coef, before = before - after, tried, after
            if gained < CLOSE * max(before, CLOSE) and float(slope @ step) < CLOSE:
                break
        if not np.abs(coef).max() <= LARGEST:  # a coefficient that is no number is refused too
            raise InvalidInput("a feature decides the outcome, and no odds ratio is finite; leave it out")
        fitted = expit(design @ coef)
        information = design.T @ ((share * fitted * (1 - fitted))[:, None] * design)
        return cls(coef, information, fitted)

    def influence(self, design: Floats, outcome: Floats) -> Floats:
        """(C, q) influence function of the coefficients.

        Args:
            design: (C, q) features of combinations.
            outcome: (C,) 1 where they have the outcome.
        """
        score = design * (outcome - expit(design @ self.coef))[:, None]
        found: Floats = score @ np.linalg.inv(self.information)
        return found

    def errors(self, patients: int) -> Floats:
        """(q,) standard errors of as many patients."""
        found: Floats = np.sqrt(np.diag(np.linalg.inv(self.information)) / patients)
        return found


def _loss(design: Floats, share: Floats, yes: Floats, coef: Floats) -> float:
    """Minus the log-likelihood of a patient."""
    score = design @ coef
    return float(share @ np.logaddexp(0.0, score) - yes @ score)

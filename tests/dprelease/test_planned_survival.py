"""The error of a log hazard ratio that a plan expects, against fits of simulated patients and of noise as released."""

import math

import numpy as np
import pytest
from scipy.optimize import least_squares

from dprelease.errors import InvalidInput
from dprelease.planning.tables import LOST, cell_shares, hazard_of, log_hazard_ratio_sd, released_numbers

CUTS = (0.25, 0.5, 0.75, 1.0)
SHARE, ROWS, NOISE = 0.6, 5000, 36.4


def exits(random: np.random.Generator) -> np.ndarray:
    """Patients by group and exit, one by one: when the event would come, when they would leave, and what is first."""
    hazard = hazard_of(SHARE, CUTS[-1])
    event, left = random.exponential(1 / hazard, ROWS), random.exponential(1 / (LOST * hazard), ROWS)
    interval = np.searchsorted(CUTS, np.minimum(event, left))
    level = np.where(interval == len(CUTS), 2 * len(CUTS), interval + len(CUTS) * (left < event))
    group = random.integers(0, 2, ROWS)
    return np.bincount((2 * len(CUTS) + 1) * group + level, minlength=2 * (2 * len(CUTS) + 1))


def fitted(numbers: np.ndarray, reads: np.ndarray) -> float:
    """The log hazard ratio of the least weighted squares, with the same vague prior of all parameters."""
    count, start = len(CUTS), math.log(hazard_of(SHARE, CUTS[-1]))
    first = np.concatenate([np.full(count, start), np.full(count, start + math.log(LOST)), np.zeros(3)])

    def shares(place: np.ndarray) -> np.ndarray:
        events, losses = np.exp(place[:count]), np.exp(place[count : 2 * count])
        ratios = math.exp(place[-3]), math.exp(place[-2])
        return cell_shares(np.array(CUTS), events, losses, ratios, 1 / (1 + math.exp(-place[-1]))).ravel()

    cells = shares(first)
    spread = ROWS * (reads * cells @ reads.T - np.outer(reads @ cells, reads @ cells)) + NOISE**2 * np.eye(len(reads))
    whiten = np.linalg.inv(np.linalg.cholesky(spread))

    def residuals(place: np.ndarray) -> np.ndarray:
        steps = np.concatenate([np.diff(place[:count]), np.diff(place[count : 2 * count])]) / 0.7
        return np.concatenate([whiten @ (numbers - ROWS * reads @ shares(place)), steps, 0.5 * (place - first)])

    return float(least_squares(residuals, first, method="lm").x[-3])


@pytest.mark.parametrize("event", [True, False])
def test_the_error_is_that_of_fits(event: bool) -> None:
    """Of 100 draws a standard deviation is known within 7 %, one standard error; four of these are allowed."""
    random, reads = np.random.default_rng(11), released_numbers(len(CUTS), event=event)
    found = [fitted(reads @ exits(random) + NOISE * random.normal(size=len(reads)), reads) for _ in range(100)]
    expected = log_hazard_ratio_sd(CUTS, SHARE, ROWS, NOISE, event=event)
    assert np.std(found) == pytest.approx(expected, rel=4 * math.sqrt(1 / 200))
    assert abs(np.mean(found)) < 4 * expected / 10


def test_without_noise_it_is_the_textbooks_and_noise_that_hides_all_leaves_the_prior() -> None:
    """4/D of D events; grouping into intervals costs little."""
    exact = log_hazard_ratio_sd(CUTS, 0.3, 100_000, 1e-3, event=False)
    assert exact == pytest.approx(2 / math.sqrt(30_000), rel=0.02)
    assert log_hazard_ratio_sd(CUTS, 0.3, 100_000, 1e-3, event=True) == pytest.approx(exact, rel=1e-3)
    assert log_hazard_ratio_sd(CUTS, 0.3, 10, 1e6, event=True) == pytest.approx(2, rel=0.01)
    assert log_hazard_ratio_sd((1.0,), 0.3, 1000, 30, event=True) < log_hazard_ratio_sd(
        (1.0,), 0.3, 1000, 30, event=False
    )
    with pytest.raises(InvalidInput, match="a share of events lies above 0 and is at most"):
        log_hazard_ratio_sd(CUTS, 0.9, 1000, 30, event=True)

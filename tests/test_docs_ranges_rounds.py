"""M1, S1, M and S of docs/format.md, section 17, computed from its text alone, against those of the row that it works out."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import norm

from dprelease.arrays import Floats
from dprelease.mechanisms.ranges.terms import Scales
from tests.test_docs_format import V

Grid = tuple[Floats, Floats, Floats]
"""m, l and weights of the last grid."""

ROWS = 20_000
INTEGERS = [int(each) for each in V["ranges-row"].split()]
COUNTS, (M1, S1, TOTAL, SQUARES, M, S, _) = np.array(INTEGERS[:255], float), INTEGERS[255:]
SCALES = Scales.least(Fraction(1, 100), 1)
EDGES = -1 + 2 * np.arange(1, 256) / 256


def recovered() -> Floats:
    column = [int(each) for each in V["ranges-factor"].split()]
    factor = np.array([[column[i - j] if i >= j else 0 for j in range(255)] for i in range(255)], float)
    return np.tril(np.ones((255, 255))) @ np.linalg.inv(factor)


W = recovered()
F = W @ COUNTS / ROWS


def sd(weights: Floats) -> float:
    """Standard deviation of weights times the noise of F."""
    return float(SCALES.counts / ROWS * np.linalg.norm(W.T @ weights))


def grids(density: Callable[[float, float], float], start: tuple[float, float], spreads: tuple[float, float]) -> Grid:
    (m0, l0), (spread_m, spread_l) = start, spreads
    for _ in range(16):
        ms = np.linspace(max(m0 - 5 * spread_m, -1), min(m0 + 5 * spread_m, 1), 13)
        ls = np.linspace(l0 - 5 * spread_l, l0 + 5 * spread_l, 13)
        m, l_ = (each.ravel() for each in np.meshgrid(ms, ls))
        logs = np.array([density(*pair) for pair in zip(m, l_, strict=True)])
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        before = m0, l0, spread_m, spread_l
        m0, l0 = mean(weights, m), mean(weights, l_)
        spread_m = max(deviation(weights, m), spread_m * 5 / 12)
        spread_l = max(deviation(weights, l_), spread_l * 5 / 12)
        if max(abs(a - b) for a, b in zip((m0, l0, spread_m, spread_l), before, strict=True)) <= 1e-8:
            break
    return m, l_, weights


def mean(weights: Floats, values: Floats) -> float:
    return float(weights @ values)


def deviation(weights: Floats, values: Floats) -> float:
    return math.sqrt(weights @ (values - mean(weights, values)) ** 2)


def clipped(m: float, s: float) -> tuple[float, float]:
    """Mean and log standard deviation of a normal number clipped to [-1, 1], from its truncated moments."""
    low, high = (-1 - m) / s, (1 - m) / s
    inside = norm.cdf(high) - norm.cdf(low)
    first = m * inside - s * (norm.pdf(high) - norm.pdf(low))
    second = (m * m + s * s) * inside - s * ((m + 1) * norm.pdf(high) - (m - 1) * norm.pdf(low))
    whole = first + norm.sf(high) - norm.cdf(low)
    return whole, math.log(second + norm.sf(high) + norm.cdf(low) - whole**2) / 2


def first_round() -> tuple[float, float, float, float]:
    """c, L and their standard deviations."""
    inverse = np.linalg.inv((SCALES.counts / ROWS) ** 2 * W @ W.T + np.eye(255) / 2500)

    def density(m: float, l_: float) -> float:
        misfit = F - norm.cdf((EDGES - m) * math.exp(-l_))
        return float(-0.5 * (misfit @ inverse @ misfit + (m / 0.5) ** 2 + 2 * abs(l_ - math.log(0.3)) / 0.6))

    m, l_, weights = grids(density, (0.0, math.log(0.3)), (0.5, 1.2))
    means, logs = np.array([clipped(a, math.exp(b)) for a, b in zip(m, l_, strict=True)]).T
    centre, log_scale, error = mean(weights, means), mean(weights, logs), deviation(weights, logs)
    share = max(0.04, 2.2 * max(sd(row) for row in np.eye(255)))
    monotone = np.concatenate([[0], np.clip(isotonic_regression(F).x, 0, 1), [1]])
    upper, lower = (np.interp(p, monotone + 1e-12 * np.arange(257), [-1, *EDGES, 1]) for p in (1 - share, share))
    tail = math.log(0.9 * max(upper - centre, centre - lower) / -norm.ppf(share))
    assert share < 0.2
    return centre, max(log_scale, tail), deviation(weights, means), max(error, min(tail - log_scale, 0.6))


def octave(values: Floats, centre: float, distance: float) -> tuple[Floats, Floats]:
    """Weights of g in A(h) and in B(h)."""
    a, b = np.zeros(255), np.zeros(255)
    beyond = [i for i in range(255) if values[i] >= centre + distance]
    for i in beyond:
        a[i], b[i] = 1 / 128, (values[i] - centre) / 64
    if beyond:
        i = beyond[0]
        a[i] = values[i] - centre - distance + 1 / 256
        b[i] = (values[i] - centre) ** 2 - distance**2 + (values[i] - centre) / 128
    return a, b


def test_the_first_round() -> None:
    centre, log_scale, *_ = first_round()
    np.testing.assert_allclose([M1, S1], [2**24 * centre, 2**24 * math.exp(log_scale)], rtol=2e-6)


def test_the_second_round() -> None:
    _, _, doubt, log_doubt = first_round()
    centre, scale = M1 / 2**24, S1 / 2**24
    t, t_sd = TOTAL / (2**16 * ROWS), SCALES.total / (2**16 * ROWS)
    u, u_sd = SQUARES / (2**32 * ROWS), SCALES.squares / (2**32 * ROWS)
    spreads = max(doubt, 0.2 * scale, 1 / (128 * math.sqrt(12))), max(log_doubt, 0.25)

    def density(m: float, l_: float) -> float:
        moved, grown = (m - centre) / scale, l_ - math.log(scale)
        seen = ((t - moved / 4) / t_sd) ** 2 + ((u - (math.exp(2 * grown) + moved**2) / 16) / u_sd) ** 2
        return -0.5 * (seen + ((m - centre) / spreads[0]) ** 2 + (grown / spreads[1]) ** 2)

    m, l_, weights = grids(density, (centre, math.log(scale)), spreads)
    place, variance = mean(weights, m), math.exp(2 * mean(weights, l_))
    moved, added, noise, shown = 0.0, 0.0, np.zeros(255), []
    for side, middle, g in ((1, centre, 1 - F), (-1, -centre, F[::-1])):
        distance = 4 * scale
        while middle + distance < EDGES[-1]:
            near, far = octave(EDGES, middle, distance), octave(EDGES, middle, 2 * distance)
            a, b = near[0] - far[0], near[1] - far[1]
            told = a @ g - 4 * sd(a[::side])
            part = 1 - (4 * sd(a[::side]) / (a @ g)) ** 4 if told > 0 else 0.0
            moved, added = moved + side * part * (a @ g), added + part * (b @ g)
            noise += side * part * b[::side]
            shown.append(part)
            distance *= 2
    assert any(0 < part < 1 for part in shown)
    whole = max(variance, variance + (place - centre) ** 2 + added - (place + moved - centre) ** 2)
    error = math.hypot(2 * variance * deviation(weights, l_), sd(noise)) / (2 * whole)
    np.testing.assert_allclose(
        [M, S], [2**24 * (place + moved), 2**24 * math.sqrt(whole) * math.exp(0.3 * error)], rtol=2e-6
    )

"""What is believed of numbers seen through gains and noise: the posterior mean, worked out again by loops."""

import numpy as np

from dprelease.estimators.moments.public_columns import EXPLAINED, Vectors

SINGULAR = np.array([30.0, 10.0, 3.0, 0.5])
SPREAD = np.array([[0.02, 0.1, 0.3], [0.03, 0.1, 0.5]])
NOISE = np.array([5.0, 20.0, 300.0])
ROWS = 1000


def seen(seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return SINGULAR[:, None] * generator.normal(size=(4, 3)) * 3 + NOISE * generator.normal(size=(4, 3))


def test_it_is_the_average_over_all_cases() -> None:
    g = seen()
    mean, variance = Vectors.of(SINGULAR, g, NOISE, SPREAD, ROWS).posterior()
    for column in range(3):
        evidence, means, squares = [], [], []
        for v in SPREAD[:, column]:
            for part in EXPLAINED:
                prior = v * ((1 - part) + part * ROWS * SINGULAR**2 / (SINGULAR**2).sum())
                law = SINGULAR**2 * prior + NOISE[column] ** 2
                evidence.append(np.prod(np.exp(-(g[:, column] ** 2) / law / 2) / np.sqrt(law)))
                means.append(prior * SINGULAR * g[:, column] / law)
                squares.append(prior - prior**2 * SINGULAR**2 / law + means[-1] ** 2)
        share = np.array(evidence) / sum(evidence)
        np.testing.assert_allclose(mean[:, column], share @ means, rtol=1e-9)
        np.testing.assert_allclose(variance[:, column], share @ squares - mean[:, column] ** 2, rtol=1e-7)


def test_without_noise_it_is_what_was_seen() -> None:
    g = seen()
    mean, variance = Vectors.of(SINGULAR, g, np.zeros(3), SPREAD, ROWS).posterior()
    np.testing.assert_allclose(mean, g / SINGULAR[:, None], rtol=1e-12)
    assert variance.max() <= 1e-12 * (mean**2).max()
    nothing, _ = Vectors.of(
        SINGULAR, np.zeros((4, 3)), np.zeros(3), np.zeros((2, 3)), ROWS
    ).posterior()  # a column that does not vary
    np.testing.assert_array_equal(nothing, 0)


def test_in_much_noise_nothing_is_believed() -> None:
    mean, variance = Vectors.of(SINGULAR, 1e9 * seen(), np.full(3, 1e12), SPREAD, ROWS).posterior()
    assert np.abs(mean).max() < 1e-3
    assert (variance > SPREAD.min()).all()


def test_variances_are_those_of_the_errors() -> None:
    """Drawn from the prior itself, with as many columns; the mean square of errors over their deviation is 1."""
    generator, count = np.random.default_rng(3), 3000
    spread = generator.choice([0.05, 0.2], size=count)
    part = generator.choice(EXPLAINED, size=count)
    prior = spread * ((1 - part) + part * ROWS * SINGULAR[:, None] ** 2 / (SINGULAR**2).sum())
    t, noise = np.sqrt(prior) * generator.normal(size=(4, count)), np.full(count, 10.0)
    g = SINGULAR[:, None] * t + noise * generator.normal(size=(4, count))
    mean, variance = Vectors.of(SINGULAR, g, noise, np.repeat([[0.05], [0.2]], count, axis=1), ROWS).posterior()
    ratios = ((t - mean) ** 2).sum(axis=0) / variance.sum(axis=0)
    assert abs(((t - mean) ** 2).sum() / variance.sum() - 1) < 0.06
    assert abs(np.mean(ratios) - 1) < 5 * ratios.std() / np.sqrt(count) + 0.03
    assert ((t - mean) ** 2).sum() < ((t - g / SINGULAR[:, None]) ** 2).sum() / 2

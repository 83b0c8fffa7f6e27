"""Posterior of a counterfactual path: exact without noise, honest with it."""

from dataclasses import replace

import numpy as np
import pytest

from dprelease.errors import InvalidInput
from dprelease.estimators.counterfactual import counterfactual, path_of
from dprelease.mechanisms.synthetic_control.released import Panel
from tests.support.noise import SeededNoise
from tests.support.panels import panel_spec, released, times
from tests.support.specs import numeric

BEFORE, AFTER = 10, 3
PENALTY = 10.0


def problem(rng: np.random.Generator, donors: int) -> tuple[np.ndarray, np.ndarray]:
    """Donors that share a path with the target, (n, T) and (T,), scaled."""
    common = np.cumsum(rng.normal(0, 0.07, BEFORE + AFTER))
    levels = rng.normal(0, 0.2, (donors, 1))
    pool = np.outer(rng.normal(1, 0.3, donors), common) + levels + rng.normal(0, 0.05, (donors, len(common)))
    return np.clip(pool, -1, 1), np.clip(common + rng.normal(0, 0.05, len(common)), -1, 1)


def panel(pool: np.ndarray, target: np.ndarray, noise: tuple[float, float], rng: np.random.Generator) -> Panel:
    weights = np.linalg.solve(
        pool[:, :BEFORE] @ pool[:, :BEFORE].T + PENALTY / 2 * np.eye(len(pool)), pool[:, :BEFORE] @ target[:BEFORE]
    )
    return Panel(
        columns=times(len(target)),  # type: ignore[arg-type]
        before=BEFORE,
        penalty=PENALTY,
        target=target,
        weights=weights + noise[0] * rng.standard_normal(len(pool)),
        weight_sd=noise[0],
        donors=pool[:, BEFORE:] + noise[1] * rng.standard_normal((len(pool), AFTER)),
        donor_sd=noise[1],
        norm2_bound=float(target[:BEFORE] @ target[:BEFORE]) / (2 * PENALTY),
    )


def exact(pool: np.ndarray, target: np.ndarray) -> np.ndarray:
    silent = panel(pool, target, (0.0, 0.0), np.random.default_rng(0))
    return np.asarray(silent.donors.T @ silent.weights)


def test_without_noise_it_is_the_weighted_sum_of_donors() -> None:
    rng = np.random.default_rng(1)
    pool, target = problem(rng, 12)
    quiet = panel(pool, target, (1e-9, 1e-9), rng)
    path, covariance = path_of(quiet)
    np.testing.assert_allclose(path, exact(pool, target), atol=1e-6)
    assert np.abs(covariance).max() < 1e-15
    found = counterfactual([quiet])
    np.testing.assert_allclose(found.effect, target[BEFORE:] - path)
    assert found.mean_effect[0] == pytest.approx(found.effect.mean())


@pytest.mark.parametrize(("noise", "least"), [((0.02, 0.05), 0.9), ((0.2, 0.5), 0.9), ((3.0, 8.0), 0.9)])
def test_bands_hold_the_path_without_noise(noise: tuple[float, float], least: float) -> None:
    """600 intervals of 95 %: 90 % and more hold it, which is three standard errors of 200 independent ones below."""
    rng = np.random.default_rng(2)
    held, means = [], []
    for _ in range(200):
        pool, target = problem(rng, 20)
        found = counterfactual([panel(pool, target, noise, rng)])
        low, high = found.band(0.95)
        true = exact(pool, target)
        held.append((low <= true) & (true <= high))
        means.append(abs(np.mean(found.path - true)) <= 1.96 * found.mean_effect[1])
    assert np.mean(held) >= least
    assert np.mean(means) >= least


def test_noise_hides_nothing_more_than_the_prior_leaves_open() -> None:
    rng = np.random.default_rng(3)
    pool, target = problem(rng, 20)
    found = counterfactual([panel(pool, target, (50.0, 50.0), rng)])
    assert np.abs(found.path).max() < 1.0
    assert 0.3 < found.path_sd.min() <= found.path_sd.max() < 2.0
    low, high = found.band(0.999)
    assert low.tolist() == [-1.0] * AFTER
    assert high.tolist() == [1.0] * AFTER
    assert found.cut(0.999) == AFTER
    assert found.cut(0.01) == 0


def test_hospitals_with_different_donors_are_averaged() -> None:
    rng = np.random.default_rng(4)
    pool, target = problem(rng, 30)
    panels = [panel(pool[at], target, (0.05, 0.1), rng) for at in (slice(0, 10), slice(10, 30))]
    both, alone = counterfactual(panels), [counterfactual([each]) for each in panels]
    shares = np.array([1 / np.trace(each.covariance) for each in alone])
    shares /= shares.sum()
    np.testing.assert_allclose(both.path, shares[0] * alone[0].path + shares[1] * alone[1].path)
    assert np.trace(both.covariance) <= min(np.trace(each.covariance) for each in alone)
    assert both.donors == (10, 20)
    assert both.placebo.donors == 30


def test_original_units() -> None:
    rng = np.random.default_rng(5)
    pool, target = problem(rng, 10)
    one = panel(pool, target, (0.01, 0.01), rng)
    wide = replace(
        one, columns=tuple(numeric(column.name, 100.0, 300.0) for column in one.columns), target=200 + 100 * target
    )
    plain, scaled = counterfactual([one]), counterfactual([wide])
    np.testing.assert_allclose(scaled.path, 200 + 100 * plain.path)
    np.testing.assert_allclose(scaled.path_sd, 100 * plain.path_sd)
    assert scaled.placebo.p_value == pytest.approx(plain.placebo.p_value)


def test_placebos_see_an_effect_and_none() -> None:
    rng = np.random.default_rng(6)
    pool, target = problem(rng, 60)
    touched = target.copy()
    touched[BEFORE:] -= 1.5
    none, some = (counterfactual([panel(pool, each, (0.01, 0.1), rng)]) for each in (target, touched))
    assert some.placebo.p_value < 0.05 < none.placebo.p_value
    assert some.placebo.gap > 3 * some.placebo.donors_gap
    silent = counterfactual([panel(pool, touched, (1e-9, 1e-9), rng)])
    assert silent.placebo.p_value == pytest.approx(1 / 61)
    drowned = counterfactual([panel(pool, touched, (0.01, 30.0), rng)])
    assert drowned.placebo.p_value > 0.2


def test_releases_that_do_not_belong_together() -> None:
    rng = np.random.default_rng(7)
    pool, target = problem(rng, 10)
    one = panel(pool, target, (0.1, 0.1), rng)
    with pytest.raises(InvalidInput, match="not against the same target"):
        counterfactual([one, replace(one, target=target + 0.1)])
    with pytest.raises(InvalidInput, match="times and intervention"):
        counterfactual([one, replace(one, before=BEFORE - 1)])
    with pytest.raises(InvalidInput, match="needs a release"):
        counterfactual([])


def test_a_whole_release_is_read() -> None:
    rng = np.random.default_rng(8)
    pool, target = problem(rng, 15)
    spec = panel_spec(target.tolist(), f"t{BEFORE}", donors=15, epsilon=500.0, delta=1e-3)
    release = released(spec, pool, SeededNoise(9))
    found = counterfactual([release.panel()])
    assert np.abs(found.path - exact(pool, target)).max() <= 5 * found.path_sd.max() + 1e-4
    with pytest.raises(InvalidInput, match="synthetic control has weights"):
        release.moments()


def test_laplace_noise_is_read_as_such() -> None:
    rng = np.random.default_rng(10)
    pool, target = problem(rng, 60)
    silent = panel(pool, target, (0.01, 1e-9), rng)
    placebos = []
    for law in ("gaussian", "laplace"):
        noisy = replace(
            silent, donor_sd=0.1, donors=silent.donors + rng.laplace(0, 0.1 / 2**0.5, silent.donors.shape), law=law
        )
        placebos.append(counterfactual([noisy]).placebo.p_value)
    assert placebos[0] == pytest.approx(placebos[1], abs=0.15)
    held = []
    for seed in range(40):
        spec = panel_spec(
            target.tolist(), f"t{BEFORE}", donors=60, epsilon=300.0, delta=1e-3, penalty=10, law="laplace"
        )
        found = counterfactual([released(spec, pool, SeededNoise(seed)).panel()])
        held.append(np.abs(found.path - exact(pool, target)) <= 1.96 * found.path_sd)
    assert np.mean(held) >= 0.9

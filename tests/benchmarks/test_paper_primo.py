"""PRIMO's experiments: noise that keeps what is said, sums that are those of rows, and fits that without noise are OLS."""

import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from benchmarks.accuracy.descent import Descent
from benchmarks.common.report import Results
from benchmarks.paper_primo import __main__ as paper_primo
from benchmarks.paper_primo import data, descent, fits
from benchmarks.paper_primo import noise as noises
from benchmarks.paper_primo import release as whole
from benchmarks.paper_primo.curves import Target
from benchmarks.paper_primo.projection import project_jointly
from dprelease.estimators.moments.public_columns import PublicSide
from dprelease.privacy.gaussian import mu_of
from tests.benchmarks.primo import box

NO_NOISE = 1e9
QUIET = noises.Noise(1e-7, 1e-7, 1e-7)


@pytest.fixture
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    for loaded in (data._alleles, data._genotypes):
        monkeypatch.setattr(data, loaded.__name__, loaded.__wrapped__)


@pytest.fixture
def normal() -> data.Features:
    return data.gaussian(400, 3, np.random.default_rng(1))


# Noise.


def test_what_the_papers_noise_keeps_and_what_one_calibration_saves() -> None:
    results = Results()
    paper_primo._privacy_figures(results)
    found = {figure.figure: figure.value for figure in results.figures}
    ball, _, _, _, alone, exact, covariance, association = found.values()
    assert ball == pytest.approx(0.776, abs=5e-4)
    assert (alone, exact) == (pytest.approx(1.610, abs=5e-4), pytest.approx(2.155, abs=5e-4))
    assert covariance == pytest.approx(10.396 / 7.9139, abs=2e-4)
    assert association == pytest.approx(14.702 / 7.9139, abs=2e-4)


@pytest.mark.parametrize(
    ("radius", "outcome", "second", "expected"),
    [(1, 1, 1, 2.12132034), (1, 1, 0.5, 4), (1, 1, 2, 1.59099026), (2, 1, 1, 6.36396103), (1, 0.3, 1, 1.47785317)],
)
def test_the_joint_sensitivity_has_the_audited_values(
    radius: float, outcome: float, second: float, expected: float
) -> None:
    noise = noises.Noise(1.0, 1.0, second)
    assert noises.kept_mu("ball", radius**2, outcome**2, 2, noise) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("body", ["ball", "box"])
@pytest.mark.parametrize("count", [1, 1000])
def test_corrected_noise_spends_the_budget_and_no_pair_of_rows_more(body: str, count: int) -> None:
    random = np.random.default_rng(2)
    features = data.gaussian(5, 3, random) if body == "ball" else box(5, 4, random)
    mu, outcome = mu_of(1.0, 1e-5), math.sqrt(2.0)
    noise = noises.corrected(features, count, outcome**2, mu)
    assert noises.kept_mu(features.body, features.radius2, outcome**2, features.x.shape[1], noise) == pytest.approx(mu)
    width = features.x.shape[1]
    rows = random.choice([-0.5, 0.5], (2, 3000, width)) if body == "box" else random.normal(size=(2, 3000, width))
    rows *= math.sqrt(features.radius2) / np.linalg.norm(rows, axis=-1, keepdims=True)
    one, two = rows
    moved = one[:, :, None] * one[:, None, :] - two[:, :, None] * two[:, None, :]
    upper = np.triu_indices(width, 1)
    covariance = (moved[:, *upper] ** 2).sum(axis=1) / noise.covariance**2
    covariance += (np.einsum("nii->ni", moved) ** 2).sum(axis=1) / noise.diagonal**2
    for signs in (-1, 1):  # outcomes y and y, or y and -y
        association = ((one + signs * two) ** 2).sum(axis=1) * outcome**2 / noise.association**2
        assert np.sqrt(covariance + association).max() <= mu * (1 + 1e-9)


def test_noise_is_symmetric_and_has_its_standard_deviations() -> None:
    found = noises.Noise(2.0, 3.0, 0.0).add(np.zeros((4000, 3, 3)), np.random.default_rng(3))
    assert np.array_equal(found, np.swapaxes(found, 1, 2))
    expected = 2.0 + np.eye(3)
    assert np.abs(found.std(axis=0) / expected - 1).max() < 5 / math.sqrt(2 * 4000)


# Data.


@pytest.mark.usefixtures("no_files")
def test_rows_of_alleles_have_a_public_length_and_mosaics_the_same_frequencies() -> None:
    few = data.haplotypes(10, np.random.default_rng(4))
    assert few.x.shape == (5008, 11)
    assert np.all((few.x**2).sum(axis=1) == few.radius2)
    persons = data.genotypes(10, np.random.default_rng(4))
    assert set(np.unique(persons.x)) == {-1.0, 0.0, 1.0}
    assert persons.radius2 == persons.x.shape[1]
    random = np.random.default_rng(5)
    alleles, _ = data._alleles()
    chosen = np.sort(np.random.default_rng(5).choice(alleles.shape[1], 10, replace=False))
    copied = data.mosaics(20_000, 10, random).x[:, 1:] + 0.5
    assert np.abs(copied.mean(axis=0) - alleles[:, chosen].mean(axis=0)).max() < 5 * 0.5 / math.sqrt(20_000)


def test_outcomes_stay_within_bounds_and_half_of_them_is_linear_or_less() -> None:
    random = np.random.default_rng(6)
    features = data.gaussian(4000, 5, random)
    explained = {}
    for law in ("linear", "mlp"):
        y = features.outcomes(200, random, "mlp" if law == "mlp" else "linear")
        assert np.abs(y).max() <= 1
        assert np.abs(y.mean(axis=0)).max() < 6 * data.OUTCOME_SD / math.sqrt(4000)
        sums = data.Sums.of(features.x, y)
        explained[law] = sums.r_squared(sums.least_squares()).mean()
    # The part explained is that of the function on average over outcomes, whose functions' variances differ.
    assert explained["linear"] == pytest.approx(data.SIGNAL, abs=0.06)
    assert 0.1 < explained["mlp"] < explained["linear"]


def test_sums_give_the_errors_of_the_rows(normal: data.Features) -> None:
    y = normal.outcomes(4, np.random.default_rng(7))
    sums, weights = data.Sums.of(normal.x, y), np.random.default_rng(8).normal(size=(3, 4))
    residual = y - normal.x @ weights
    assert sums.mse(weights) == pytest.approx((residual**2).mean(axis=0), rel=1e-5)
    assert sums.r_squared(weights) == pytest.approx(1 - (residual**2).mean(axis=0) / y.var(axis=0), rel=1e-5)
    assert sums.largest2 == pytest.approx((y**2).sum(axis=1).max(), rel=1e-6)


@pytest.mark.parametrize("count", [20, 90])
def test_the_public_side_is_that_of_the_rows_whichever_is_longer(count: int) -> None:
    random = np.random.default_rng(9)
    y = random.normal(size=(50, count)).astype(np.float32)
    found, expected = data._side(y), PublicSide.of_rows(y)
    assert found.singular == pytest.approx(expected.singular, rel=1e-4)
    noisy = random.normal(size=(count, 3)) * 100
    difference = project_jointly(found, noisy, 10.0) - project_jointly(expected, noisy, 10.0)
    assert np.abs(difference).max() < 1e-2


def test_sums_that_grow_are_those_of_more_and_more_rows(normal: data.Features, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 70)
    for size, sums in zip((100, 400), data.growing(normal, (100, 400), 5, np.random.default_rng(10)), strict=True):
        assert sums.rows == size
        assert sums.xx == pytest.approx(normal.x[:size].T @ normal.x[:size])
        assert (sums.side().singular ** 2).sum() == pytest.approx(sums.square.sum(), rel=1e-5)
        assert sums.square.sum() / size / 5 == pytest.approx(data.OUTCOME_SD**2, rel=0.5)


# Fits.


def test_without_noise_every_fit_is_least_squares(normal: data.Features) -> None:
    random = np.random.default_rng(11)
    y = normal.outcomes(6, random)
    sums = data.Sums.of(normal.x, y)
    release = fits.Release.draw(sums, QUIET, normal.radius2, random, public_outcomes=True)
    associated, left = release.associated(sums.side(), normal.bound)
    everything = math.sqrt(len(y) * normal.radius2)
    found = {
        "ridge": release.ridged(),
        "projected": release.projected(sums.side(), everything).ridged(),
        "ours": release.posterior(),
        "evidence": associated.posterior(left),
        "beside features": replace(release, xx=sums.xx).beside_features(),
        "leverage": fits.by_leverage(sums, 1e-7, random),
        "naive": fits.naive(sums, QUIET, normal.radius2, random),
    }
    for weights in found.values():
        assert np.abs(weights - sums.least_squares()).max() < 1e-3


def test_evidence_keeps_what_noise_drowns_for_a_plain_release() -> None:
    random = np.random.default_rng(12)
    features = box(400, 4, random)
    y = features.outcomes(600, random)
    sums, radius = data.Sums.of(features.x, y), math.sqrt(400 * features.radius2)
    noise = noises.corrected(features, 600, sums.largest2, 2.0)
    errors: dict[str, list[float]] = {"plain": [], "projected": [], "evidence": []}
    for _ in range(5):
        release = fits.Release.draw(sums, noise, features.radius2, random, public_outcomes=True)
        evidence, _ = release.associated(sums.side(), features.bound)
        for name, found in (
            ("plain", release),
            ("projected", release.projected(sums.side(), radius)),
            ("evidence", evidence),
        ):
            errors[name].append(float(((found.xy - sums.xy) ** 2).sum()))
    plain, projected, evidence = map(np.array, errors.values())
    assert np.all(evidence < projected)
    assert np.all(projected < plain)


@pytest.mark.parametrize("leverage", [False, True])
def test_evidence_beside_public_features_loses_little_where_noise_hides_everything(leverage: bool) -> None:
    """On average over 200 outcomes of pure noise hardly anything is lost on predicting 0; a plain solution loses everything."""
    random = np.random.default_rng(19)
    features = box(400, 4, random)
    y = random.uniform(-0.4, 0.4, (400, 200)).astype(np.float32)
    sums, sd = data.Sums.of(features.x, y), 3.0
    release = fits.Release.draw(sums, noises.Noise(0.0, 0.0, 10 * sd), features.radius2, random)
    weights = fits.by_leverage(sums, sd, random) if leverage else release.beside_features()
    assert sums.r_squared(weights).mean() > -0.02
    plain = np.linalg.solve(sums.xx, release.xy)
    assert sums.r_squared(plain).mean() < -1


@pytest.mark.parametrize("public", get_args(whole.Public))
def test_a_whole_release_without_noise_explains_what_least_squares_does(public: whole.Public) -> None:
    random = np.random.default_rng(20)
    features = box(400, 4, random)
    y = features.outcomes(5, random)
    sums = data.Sums.of(features.x, y)
    found = whole.explained(features, y, public, Target(1e6, 1e-5), random)
    assert found == pytest.approx(sums.r_squared(sums.least_squares()).mean(), abs=0.01)


def test_descent_without_noise_reaches_least_squares_and_its_public_choice_needs_no_eigenvalue(
    normal: data.Features,
) -> None:
    random = np.random.default_rng(13)
    y = normal.outcomes(2, random)
    sums, radius = data.Sums.of(normal.x, y), math.sqrt(normal.radius2)
    weights = descent.repeated(normal.x, y, sums, NO_NOISE, radius, Descent(100, 9.0, 1.0, averaged=False), 1, random)
    assert np.abs(weights[0] - sums.least_squares()).max() < 1e-4
    choices = [descent.public(400, 3, top, 0.3, radius) for top in (1.0, 7.0)]
    assert choices[1].rate == pytest.approx(7 * choices[0].rate)


@pytest.mark.parametrize("steps", [2, 4])
def test_descent_adds_noise_for_all_its_steps(normal: data.Features, steps: int) -> None:
    """With steps this short the gradient hardly changes: T times the variance of rate / lambda_max 2 c sqrt(T) / mu."""
    draws, mu, clip, rate = 500, 0.5, 0.1, 1e-4
    random = np.random.default_rng(14)
    y = normal.outcomes(1, random)
    sums, radius = data.Sums.of(normal.x, y), math.sqrt(normal.radius2)
    found = descent.repeated(normal.x, y, sums, mu, radius, Descent(steps, clip, rate, averaged=False), draws, random)
    unit = rate / float(np.linalg.eigvalsh(sums.xx)[-1]) * 2 * clip * radius / mu
    error = 5 / math.sqrt(2 * draws * 3)
    assert (found - found.mean(axis=0)).std() == pytest.approx(steps * unit, rel=error)

"""A release in a learner's hands: the weighted linear map of the scaled rows, with equal noise along every column."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.errors import InvalidInput
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.mechanisms.noisy_rows.released import NoisyRows
from dprelease.privacy.noise import NoiseSource
from dprelease.privacy.public_stream import PublicStream
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.blocks import privatize
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.specs import SEED, build_spec, numeric, one_block_each, random_rows

SPECS = {
    "anchored": build_spec(),
    "light anchor": build_spec(anchor_weight="1/50", grid_bits=16),
    "plain": build_spec(anchor_weight="0"),
    "rows": build_spec(mechanism="rows"),
    "weighed": build_spec(weights={"sex": 3, "glucose": 2}),
    "weighed rows": build_spec(mechanism="rows", weights={"age": 16}),
}
ANCHORED = {"anchored", "light anchor", "weighed"}


def released(spec: ReleaseSpec, noise: NoiseSource) -> Release:
    blocks = {
        part.party: privatize(random_rows(spec, part.party, seed), spec, part.party, noise)
        for seed, part in enumerate(spec.parties)
    }
    return one_block_each(spec, blocks, ("words",))


def data(spec: ReleaseSpec) -> npt.NDArray[np.float64]:
    """D: the scaled rows of all parties, (n, p)."""
    codes = [random_rows(spec, part.party, seed).codes for seed, part in enumerate(spec.parties)]
    return np.hstack(codes) / 2.0**spec.grid_bits


def weights(spec: ReleaseSpec) -> npt.NDArray[np.float64]:
    """A, (r, n), from its definition."""
    if spec.mechanism == "rows":
        return np.eye(spec.rows)
    rho, k = float(Fraction(spec.terms.anchor_weight)), spec.terms.mixing.outputs
    signs = BernoulliMixing(PublicStream(SEED), k, spec.rows).signs(0, spec.rows)
    mixed = math.sqrt((1 - rho) / k) * signs
    anchor = [np.full(spec.rows, math.sqrt(rho))] if rho else []
    return np.vstack([*anchor, mixed])


@pytest.mark.parametrize("name", SPECS)
def test_without_noise_a_release_is_the_weighted_map_of_the_rows(name: str) -> None:
    spec = SPECS[name]
    scaled = released(spec, ZeroNoise()).scaled()
    assert scaled.names == spec.released
    assert (scaled.rows, scaled.anchor) == (40, name in ANCHORED)
    np.testing.assert_allclose(scaled.values, weights(spec) @ data(spec), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scaled.ones, weights(spec) @ np.ones(40), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_every_patient_has_weight_one(name: str) -> None:
    np.testing.assert_allclose((weights(SPECS[name]) ** 2).sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_noise_has_the_declared_scale_after_weighting(name: str) -> None:
    spec = SPECS[name]
    scaled = released(spec, ZeroNoise()).scaled()
    expected = []
    for part in spec.parties:
        noise = spec.terms.noise_of(part.party)
        rho = float(Fraction(spec.terms.anchor_weight))
        mixing_sd = noise.scale * math.sqrt((1 - rho) / spec.terms.squared_norm) / 2**spec.grid_bits
        if noise.anchor_scale is not None:
            assert noise.anchor_scale * math.sqrt(rho) / 2**spec.grid_bits == pytest.approx(mixing_sd, rel=1e-12)
        expected += [mixing_sd / spec.weights.get(column.name, 1) for column in part.columns for _ in column.released]
    np.testing.assert_allclose(scaled.noise_sd, expected, rtol=1e-12)


def test_parties_under_a_joint_target_share_one_published_noise() -> None:
    columns = [numeric(f"x{i}") for i in range(6)]
    parties = {"a": tuple(columns[:3]), "b": tuple(columns[3:5]), "c": tuple(columns[5:])}
    spec = build_spec(parties, grid_bits=20)
    np.testing.assert_allclose(released(spec, ZeroNoise()).scaled().noise_sd, 18.27628785, rtol=1e-9)


def test_noise_in_original_units_of_columns_between_zero_and_one() -> None:
    spec = build_spec({"a": tuple(numeric(f"x{i}", 0.0, 1.0) for i in range(3))}, mechanism="rows", grid_bits=20)
    release = released(spec, ZeroNoise())
    _, half_width = release.original_units()
    np.testing.assert_allclose(release.scaled().noise_sd * half_width, 6.461643536, rtol=1e-9)


@pytest.mark.parametrize("repeats", [400, pytest.param(3000, marks=pytest.mark.slow)])
def test_anchor_and_mixing_rows_carry_equal_variance(repeats: int) -> None:
    spec = build_spec(outputs=3)
    quiet = released(spec, ZeroNoise()).scaled().values
    noise = SeededNoise(11)
    errors = np.array([released(spec, noise).scaled().values - quiet for _ in range(repeats)])
    sd = released(spec, ZeroNoise()).scaled().noise_sd
    ratio = (errors**2).mean(axis=(0, 2)) / sd[0] ** 2  # both parties' columns carry the same noise here
    draws = repeats * errors.shape[2]
    # A mean of `draws` squared normals of variance 1 has standard error sqrt(2 / draws).
    assert ratio.shape == (4,)
    assert np.abs(ratio - 1).max() < 5 * math.sqrt(2 / draws)


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_a_column_of_weight_w_has_w_times_less_noise(mechanism: str) -> None:
    spec = build_spec(mechanism=mechanism, outputs=3, rows=12, weights={"age": 2, "glucose": 5})
    quiet, noise, repeats = released(spec, ZeroNoise()).scaled(), SeededNoise(13), 200
    errors = np.array([released(spec, noise).scaled().values - quiet.values for _ in range(repeats)])
    variance = (errors**2).mean(axis=(0, 1))
    draws = repeats * errors.shape[1]
    # A joint target gives all columns the same noise but for their weights; a mean of `draws` squared normals of variance v
    # has the standard error v sqrt(2 / draws).
    unit = quiet.noise_sd[1]
    np.testing.assert_allclose(quiet.noise_sd, unit / np.array([2, 1, 1, 1, 5]), rtol=1e-12)
    assert np.abs(variance / quiet.noise_sd**2 - 1).max() < 5 * math.sqrt(2 / draws)


@pytest.mark.parametrize("name", SPECS)
def test_means_without_noise(name: str) -> None:
    spec = SPECS[name]
    scaled = released(spec, ZeroNoise()).scaled()
    means, sd = scaled.means()
    if scaled.anchor or spec.mechanism == "rows":
        np.testing.assert_allclose(means, data(spec).mean(axis=0), rtol=1e-12, atol=1e-12)
    size = spec.rows * math.sqrt(float(Fraction(spec.terms.anchor_weight)))
    expected = scaled.noise_sd / (size if scaled.anchor else np.linalg.norm(scaled.ones))
    np.testing.assert_allclose(sd, expected, rtol=1e-12)


def test_mixing_rows_that_cancel_say_nothing_about_means() -> None:
    empty = NoisyRows(("c",), np.ones((2, 1)), np.zeros(2), np.ones(1), 40, (), anchor=False)
    means, sd = empty.means()
    assert np.isfinite(means).all()
    assert np.isinf(sd).all()


def test_means_err_by_the_stated_standard_deviation() -> None:
    spec = build_spec(mechanism="rows", rows=200)
    noise, repeats = SeededNoise(12), 500
    true = data(spec).mean(axis=0)
    errors = []
    for _ in range(repeats):
        means, sd = released(spec, noise).scaled().means()
        errors.append((means - true) / sd)
    variance = np.mean(np.square(errors), axis=0)
    # A mean of `repeats` squared standard normals has standard error sqrt(2 / repeats).
    assert np.abs(variance - 1).max() < 5 * math.sqrt(2 / repeats)


RELEASE = released(SPECS["anchored"], ZeroNoise())


def test_names_are_found_or_refused_with_those_there_are() -> None:
    scaled = RELEASE.scaled()
    assert [scaled.lookup(name)[0] for name in ("glucose", "age")] == [4, 0]
    for look in (lambda: scaled.lookup("weight"), lambda: RELEASE.column("weight")):
        with pytest.raises(InvalidInput, match="not in this release: weight; it has age, sex=female"):
            look()


def test_a_notebook_shows_what_it_is_with_strangers_names_as_mere_text() -> None:
    spec = build_spec(title="<script>alert(1)</script>\u202e& more")
    shown = Release(spec, {}, ("Guarantee: epsilon = 1 < 2.",))._repr_html_()
    assert "<p><b>&lt;script&gt;alert(1)&lt;/script&gt;\\u202e&amp; more</b></p>" in shown
    assert f"trial, release {spec.digest()[:8]}: 40 patients, mechanism mixed" in shown
    assert "Columns: age, sex=female, sex=male, sex=other, glucose" in shown
    assert "epsilon = 1 &lt; 2." in shown

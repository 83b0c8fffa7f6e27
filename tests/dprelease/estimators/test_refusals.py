"""What is refused, or solved with a warning."""

import json

import numpy as np
import pytest

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.estimators import fit
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.release.block import Block, expected_header
from dprelease.release.manifest import sign_manifest
from dprelease.release.release import Release
from dprelease.release.verification import verify_release
from tests.dprelease.estimators.conftest import every_case, every_case_but_dgm, exact_codes, released
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, new_consortium, numeric, one_block_each, publish, with_terms


@pytest.mark.parametrize(
    ("method", "mechanism", "says"),
    [
        ("bgm", "mixed", "choose one of calibrated, ols, rmgm"),
        ("dgm", "mixed", "choose one of calibrated, ols, rmgm"),
        ("rmgm", "rows", "choose one of calibrated, ols, bgm, dgm"),
        ("ridge", "rows", "choose one of calibrated, shrinkage, public_features"),
    ],
)
def test_a_method_refuses_what_it_does_not_read(noisy: Release, method: str, says: str):
    with pytest.raises(InvalidInput, match=says):
        fit(noisy, ["score"], None, method)


@every_case_but_dgm
def test_a_singular_gram_matrix_is_refused_with_the_way_out(method: str, mechanism: str):
    parties = {"north": (numeric("x"), numeric("same"), numeric("y"))}
    column = np.random.default_rng(6).integers(-1000, 1000, 50)
    codes = {"north": np.column_stack([column, column, column // 2])}
    release = released(codes, parties, mechanism=mechanism, outputs=20)
    with pytest.raises(InvalidInput, match=r"2 features over .* fewer features"):
        fit(release, ["y"], ["x", "same"], method)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["calibrated", "ols", "rmgm"])
def test_more_features_than_released_rows_are_refused_with_how_many_can_be_fitted(method: str, fit_intercept: bool):
    """Of an anchor and three mixing rows an intercept takes one; rmgm, and calibrated without intercept, skip the anchor."""
    release = released(exact_codes(50), outputs=3, noise=SeededNoise(7), noise_sd=0.5)
    rows = 4 if method == "ols" or (method == "calibrated" and fit_intercept) else 3
    most = rows - fit_intercept
    with pytest.raises(InvalidInput, match=rf"features are too many for {rows} released rows.* at most {most}, or ask"):
        fit(release, ["score"], ["age", "sex", "glucose", "dose"][: most + 1], method, fit_intercept)
    assert np.isfinite(fit(release, ["score"], ["age", "glucose"][:most], method, fit_intercept).coef).all()


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_rows_that_declare_no_noise_are_refused(noisy: Release):
    silent = tuple(
        noise.model_copy(update={"scale": 0.0}) for noise in noisy.spec.terms.noise if noise.party == "south"
    )
    loud = tuple(noise for noise in noisy.spec.terms.noise if noise.party == "north")
    forged = Release(with_terms(noisy.spec, noise=(*loud, *silent)), noisy.blocks, noisy.guarantee)
    with pytest.raises(InvalidInput, match="declares no noise for glucose, score, so it is not what hospitals approve"):
        fit(forged, ["score"], ["age", "glucose"])


def test_moments_that_declare_no_noise_are_refused():
    spec = build_spec({"north": (numeric("x"), numeric("y"))}, mechanism="moments", rows=20)
    shape = (1, layout_of(spec).entries)
    block = Block(expected_header(spec, "north"), np.zeros(shape, np.int64))
    forged = one_block_each(with_terms(spec, scale=0.0), {"north": block}, ())
    with pytest.raises(InvalidInput, match="declares no noise for x, y"):
        fit(forged, ["y"], ["x"])


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        (None, "noise.0.scale: Field required"),
        (0.0, "north"),
        (-1.0, "noise.0.scale: Input should be greater"),
        ("nan", "noise.0.scale: Input should be a valid number"),
    ],
)
def test_a_manifest_without_a_noise_scale_never_becomes_a_release(scale: object, says: str):
    consortium = new_consortium("north", "south")
    published = publish(consortium, build_spec(keys=consortium.keys), SeededNoise(3))
    data = json.loads(published.manifest)
    data["spec"]["terms"]["noise"][0]["scale"] = scale
    if scale is None:
        del data["spec"]["terms"]["noise"][0]["scale"]
    forged = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    signature = sign_manifest(consortium.hub.key, forged)
    with pytest.raises(IntegrityError, match=says):
        verify_release(forged, signature, lambda block: published.blocks[block.party], published.root)


def test_dgm_solves_an_indefinite_hessian_and_says_what_it_is_worth():
    """Noise is declared and subtracted but not added: the Hessian is X^T X / n - s^2 I, far below zero at s = 3."""
    release = released(exact_codes(60), mechanism="rows", noise_sd=3.0)
    result = fit(release, ["score"], ["age", "glucose"], "dgm")
    assert result.diagnostics.indefinite
    assert result.diagnostics.smallest_eigenvalue < 0
    assert "not positive definite" in result.diagnostics.warnings[0]
    assert np.isfinite(result.coef).all()
    assert result.verdicts == ("not distinguishable from the constant predictor",)
    assert result.document().to_json()["quality"]["optimism"] == [None]


@every_case
def test_predicting_needs_one_column_for_each_feature(noisy: Release, method: str):
    result = fit(noisy, ["score"], ["age", "glucose"], method)
    for wrong in (np.zeros((3, 1)), np.zeros(2), np.zeros((3, 3))):
        with pytest.raises(InvalidInput, match="2 columns, in this order: age, glucose"):
            result.predict(wrong)

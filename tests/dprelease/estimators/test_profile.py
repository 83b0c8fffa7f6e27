"""Quadratic forms kept as factors are the matrices that they stand for, and variances follow the path of the fit."""

import numpy as np

from dprelease.estimators.intervals.estimates import Covariance, Forms, Shared, profiled

RANDOM = np.random.default_rng(0)
WEIGHTS, SUMS, TARGETS = 4, 3, 2
FORMS = Forms(np.array([1.0, -0.5]), RANDOM.normal(size=(2, WEIGHTS, SUMS)), RANDOM.uniform(3, 4, (WEIGHTS, SUMS)))
MATRICES = [
    sum(sign * np.outer(part[:, place], part[:, place]) for sign, part in zip(FORMS.signs, FORMS.factors, strict=True))
    + np.diag(FORMS.diagonal[:, place])
    for place in range(SUMS)
]


def test_forms_are_their_matrices():
    one, other = RANDOM.normal(size=(2, WEIGHTS, TARGETS))
    own = RANDOM.normal(size=(WEIGHTS, SUMS))
    expected = [[one[:, target] @ matrix @ other[:, target] for target in range(TARGETS)] for matrix in MATRICES]
    np.testing.assert_allclose(FORMS.polar(one, other), expected)
    applied = np.column_stack([matrix @ own[:, place] for place, matrix in enumerate(MATRICES)])
    np.testing.assert_allclose(FORMS.applied(own), applied)


def test_variances_are_the_forms_along_the_path():
    fit, sums, own = (RANDOM.normal(size=(WEIGHTS, count)) for count in (TARGETS, SUMS, SUMS))
    amounts, apart = RANDOM.uniform(1, 2, TARGETS), RANDOM.uniform(1, 2, (SUMS, TARGETS))
    shared = [Shared(RANDOM.normal(size=(WEIGHTS, TARGETS)), RANDOM.normal(size=(SUMS, TARGETS))) for _ in range(2)]
    value, fixed = RANDOM.normal(size=(2, SUMS, TARGETS))
    found = profiled(value, fixed, fit, FORMS, Covariance(sums, own, amounts, shared, apart))
    np.testing.assert_array_equal(found.value, value)
    checked = 0
    for place, matrix in enumerate(MATRICES):
        for target in range(TARGETS):
            common = own[:, place] * amounts[target]
            common = common + sum(each.vectors[:, target] * each.amounts[place, target] for each in shared)
            if sums[:, place] @ common <= 0:
                continue
            path = common / (sums[:, place] @ common + apart[place, target])
            for off in (-1.5, 0.0, 2.0):
                moved = fit[:, target] + off * path
                parabola = (found.variance + found.lean * off + found.bend * off**2)[place, target]
                np.testing.assert_allclose(parabola, fixed[place, target] + moved @ matrix @ moved)
            checked += 1
    assert checked >= 2


def test_without_any_noise_variances_stay_what_they_are():
    none = Forms(np.zeros(0), np.zeros((0, WEIGHTS, SUMS)), np.zeros((WEIGHTS, SUMS)))
    fit, ones = RANDOM.normal(size=(WEIGHTS, TARGETS)), np.ones((WEIGHTS, SUMS))
    fixed = RANDOM.uniform(1, 2, (SUMS, TARGETS))
    found = profiled(fixed, fixed, fit, none, Covariance(ones, ones, np.zeros(TARGETS), []))
    np.testing.assert_array_equal(found.variance, fixed)
    np.testing.assert_array_equal(found.lean, 0 * fixed)
    np.testing.assert_array_equal(found.bend, 0 * fixed)

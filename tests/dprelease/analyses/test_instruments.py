"""Two-stage least squares and mediation: with exact moments those of statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.sandbox.regression.gmm import IV2SLS

from dprelease.analyses import mediation, two_stage_least_squares
from dprelease.errors import InvalidInput
from tests.dprelease.analyses.releases import number, released


def simulated(n: int, strength: float = 0.5, seed: int = 0) -> dict[str, np.ndarray]:
    """x is endogenous by u; z1 and z2 act through it; w is exogenous; the effect of x is 1."""
    generator = np.random.default_rng(seed)
    z1, z2, w, u = generator.uniform(-1, 1, (4, n))
    x = strength * (z1 + z2) + 0.3 * w + u + generator.uniform(-1, 1, n)
    return {"y": x - 0.5 * w - u + generator.uniform(-1, 1, n), "x": x, "w": w, "z1": z1, "z2": z2}


def columns(cells: dict[str, np.ndarray]) -> tuple:
    return tuple(number(name, values) for name, values in cells.items())


@pytest.mark.parametrize("n", [60, 2000])
def test_it_is_that_of_statsmodels(n: int) -> None:
    cells = simulated(n)
    found = two_stage_least_squares(released(columns(cells), cells), "y", ["x"], ["z1", "z2"], ["w"])
    x, z = (
        sm.add_constant(np.column_stack([cells[name] for name in names])) for names in (("x", "w"), ("z1", "z2", "w"))
    )
    known = IV2SLS(cells["y"], x, z).fit()
    slopes = found.tables["coefficients"]
    assert slopes.estimate == pytest.approx(known.params[1:])
    assert slopes.standard_error == pytest.approx(known.bse[1:])
    first = sm.OLS(cells["x"], z).fit()
    f = first.f_test(np.eye(4)[1:3])
    assert found.tables["first stage"].estimate[0] == pytest.approx(float(f.fvalue))
    assert found.tests["the instruments have no part in x"].p_value == pytest.approx(float(f.pvalue), rel=1e-9, abs=0)
    wu = sm.OLS(cells["y"], np.column_stack([x, first.resid])).fit()
    assert found.tests["least squares would do"].p_value == pytest.approx(wu.pvalues[-1])


def test_weak_instruments_are_called_so() -> None:
    cells = simulated(400, strength=0.02)
    found = two_stage_least_squares(released(columns(cells), cells), "y", ["x"], ["z1", "z2"])
    assert "Instruments may be weak" in found.warnings[0]
    with pytest.raises(InvalidInput, match="as many instruments"):
        two_stage_least_squares(released(columns(cells), cells), "y", ["x", "w"], ["z1"])


def test_mediation_is_the_product_of_two_regressions() -> None:
    cells = simulated(500)
    found = mediation(released(columns(cells), cells), "y", "z1", "x", ["w"])
    first = sm.OLS(cells["x"], sm.add_constant(np.column_stack([cells["z1"], cells["w"]]))).fit()
    second = sm.OLS(cells["y"], sm.add_constant(np.column_stack([cells["x"], cells["z1"], cells["w"]]))).fit()
    total = sm.OLS(cells["y"], sm.add_constant(np.column_stack([cells["z1"], cells["w"]]))).fit()
    a, b = first.params[1], second.params[1]
    effects = found.tables["effects"]
    assert effects.estimate == pytest.approx([a * b, second.params[2], total.params[1]])
    assert effects.estimate[:2].sum() == pytest.approx(effects.estimate[2])
    sobel = np.hypot(a * second.bse[1], b * first.bse[1])
    assert effects.standard_error == pytest.approx([sobel, second.bse[2], total.bse[1]])

"""(epsilon, delta) and mu: published numbers, an independent accountant, high-precision arithmetic for the rounding side."""

import math

import mpmath
import pytest
from dp_accounting import get_epsilon_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import InvalidInput
from dprelease.privacy.calibration import GRID_VARIANCE
from dprelease.privacy.gaussian import delta_of, epsilon_of, log_delta, mu_of

PRINTED = 1e-10  # printed to 11 or 12 digits; the margin of 1e-11 is below that


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (0.1, 1e-5, 30.749566132),
        (0.3, 1e-5, 11.2380444645),
        (0.5, 1e-5, 7.03182667558),
        (1.0, 1e-5, 3.73063163482),
        (2.0, 1e-5, 1.99381244564),
        (3.0, 1e-5, 1.39059345667),
        (5.0, 1e-5, 0.891868264952),
        (10.0, 1e-5, 0.499888619709),
        (1.0, 1e-6, 4.22467888933),
        (2.0, 1e-6, 2.23047627119),
        (1.0, 1e-8, 5.10030878753),
    ],
)
def test_noise_for_unit_sensitivity_has_the_published_scale(epsilon: float, delta: float, sigma: float) -> None:
    assert 1 / mu_of(epsilon, delta) == pytest.approx(sigma, rel=PRINTED)


def test_mu_of_the_usual_target() -> None:
    assert mu_of(1.0, 1e-5) == pytest.approx(0.268051123211, rel=PRINTED)


@pytest.mark.parametrize(
    ("epsilon", "mu", "delta", "digits"),
    [
        (0.0, 1.0, 0.38292492254803, 1e-13),
        (1.0, 1.0, 0.12693673750664, 1e-13),
        (3.0, 1.0, 0.001537185369401, 1e-12),
        (1.0, 0.5, 0.0068295949831146, 1e-13),
        (3.0, 0.5, 3.4009117356735e-10, 1e-12),
        (0.5, 0.1, 6.8565824558387e-9, 1e-12),
        (1.0, 0.1, 1.2308359836427e-25, 1e-11),  # the two terms agree to 24 digits: naive subtraction gives 0
    ],
)
def test_profile(epsilon: float, mu: float, delta: float, digits: float) -> None:
    assert delta_of(epsilon, mu) == pytest.approx(delta, rel=digits)


@pytest.mark.parametrize(("epsilon", "true"), [(1.0, 0.75097696), (10.0, 10.393882)])
def test_the_classical_formula_wastes_noise_below_one_and_fails_at_ten(epsilon: float, true: float) -> None:
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
    assert epsilon_of(1 / sigma, 1e-5) == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize(
    ("releases", "epsilon"),
    [
        (2, 1.46517),
        (3, 1.83497),
        (4, 2.1546767),
        (5, 2.4420844),
        (10, 3.6185916),
        (12, 4.01807),
        (20, 5.40693),
        (52, 9.58675),
        (100, 14.4293),
    ],
)
def test_what_releases_of_one_at_1e_5_really_cost_together(releases: int, epsilon: float) -> None:
    assert epsilon_of(math.sqrt(releases) * mu_of(1.0, 1e-5), 1e-5) == pytest.approx(epsilon, rel=5e-6)


@pytest.mark.parametrize(
    ("parties", "mu"), [(2, 0.189541), (3, 0.154759), (5, 0.119876), (10, 0.084765), (20, 0.059938)]
)
def test_share_of_one_of_equal_parties_in_a_joint_target(parties: int, mu: float) -> None:
    assert mu_of(1.0, 1e-5) / math.sqrt(parties) == pytest.approx(mu, rel=1e-5)


def test_delta_at_one_of_two_and_four_releases() -> None:
    mu = mu_of(1.0, 1e-5)
    assert delta_of(1.0, math.sqrt(2) * mu) == pytest.approx(7.98105e-4, rel=1e-5)
    assert delta_of(1.0, 2 * mu) == pytest.approx(0.0103949, rel=1e-5)


def test_coalition_of_three_parties() -> None:
    total = math.sqrt(0.1**2 + 0.15**2 + 0.2**2)
    assert total == pytest.approx(0.26925824, rel=1e-7)
    assert epsilon_of(total, 1e-5) == pytest.approx(1.0049465, rel=1e-7)
    assert epsilon_of(math.hypot(0.1, 0.15), 1e-5) == pytest.approx(0.64770322, rel=1e-7)


@pytest.mark.parametrize("delta", [1e-4, 1e-5, 1e-8])
@pytest.mark.parametrize("mu", [0.05, 0.268, 1.0, 2.5])
def test_agrees_with_dp_accounting_closed_form(mu: float, delta: float) -> None:
    assert epsilon_of(mu, delta) == pytest.approx(get_epsilon_gaussian(1 / mu, delta), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("shares", [(0.268,), (0.1, 0.15, 0.2), (0.5, 0.5, 0.5, 1.0)])
def test_mu_squared_adds_as_privacy_loss_distributions_compose(shares: tuple[float, ...]) -> None:
    step = 1e-4
    parts = [pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step) for mu in shares]
    composed = parts[0]
    for part in parts[1:]:
        composed = composed.compose(part)
    ours = epsilon_of(math.sqrt(sum(mu**2 for mu in shares)), 1e-5)
    # Both approximations of the loss are rounded to multiples of `step`, once for each mechanism.
    assert composed.get_epsilon_for_delta(1e-5) == pytest.approx(ours, abs=len(shares) * step)


def _exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0])
def test_both_conversions_are_on_the_safe_side_and_tight(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert _exact_delta(epsilon, mu) <= delta < _exact_delta(epsilon, mu * (1 + 1e-8))
    back = epsilon_of(mu, delta)
    assert _exact_delta(back, mu) <= delta < _exact_delta(back * (1 - 1e-8), mu)


exponents = st.floats(-15.0, -0.01)


@given(st.floats(-12.0, 6.0), st.one_of(exponents, st.floats(-300.0, -0.01)))
def test_mu_is_on_the_safe_side_wherever_a_target_is_allowed(epsilon: float, delta: float) -> None:
    assert _exact_delta(10**epsilon, mu_of(10**epsilon, 10**delta)) <= 10**delta


@given(st.floats(-9.0, 3.0), st.one_of(exponents, st.floats(-300.0, -0.01)))
def test_epsilon_is_on_the_safe_side_for_any_mu(mu: float, delta: float) -> None:
    assert _exact_delta(epsilon_of(10**mu, 10**delta), 10**mu) <= 10**delta


@given(st.floats(0.01, 50.0), st.floats(1e-12, 0.2), st.floats(1.001, 3.0))
def test_more_epsilon_or_delta_allow_more_mu(epsilon: float, delta: float, factor: float) -> None:
    assert mu_of(epsilon, delta) < mu_of(epsilon * factor, delta)
    assert mu_of(epsilon, delta) < mu_of(epsilon, delta * factor)


@given(st.floats(1e-3, 20.0), st.floats(0.0, 50.0))
def test_profile_is_a_probability_that_falls_in_epsilon(mu: float, epsilon: float) -> None:
    assert 0 <= delta_of(epsilon + 0.1, mu) <= delta_of(epsilon, mu) <= 1
    assert delta_of(0.0, mu) == pytest.approx(math.erf(mu / 2 / math.sqrt(2)), rel=1e-9)


def test_nothing_released_costs_nothing() -> None:
    assert epsilon_of(0.0, 1e-5) == 0
    assert epsilon_of(1e-6, 1e-5) == 0  # the whole distance between neighbours is below delta


@pytest.mark.parametrize(
    ("mu", "delta"), [(1e-16, 1e-20), (1e-16, 3.9e-17), (1e-40, 1e-50), (1e-15, 1e-17), (1e-8, 3.9e-9), (1e-6, 3.9e-7)]
)
def test_no_loss_above_delta_is_free_however_small(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert _exact_delta(0.0, mu) > delta
    assert epsilon > 0
    assert _exact_delta(epsilon, mu) <= delta


def test_impossible_loss_has_no_finite_logarithm() -> None:
    assert log_delta(1e6, 1e-3) == -math.inf
    assert delta_of(1e6, 1e-3) == 0


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0.0, 1e-5),
        (1e-13, 1e-5),
        (1e7, 1e-5),
        (1.0, 1e-301),
        (-1.0, 1e-5),
        (math.inf, 1e-5),
        (math.nan, 1e-5),
        (1.0, 0.0),
        (1.0, 1.0),
        (1.0, -0.1),
        (1.0, math.nan),
    ],
)
def test_meaningless_targets_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidInput, match="must"):
        mu_of(epsilon, delta)


@pytest.mark.parametrize(
    ("mu", "delta"), [(-0.1, 1e-5), (math.inf, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)]
)
def test_meaningless_losses_are_refused(mu: float, delta: float) -> None:
    with pytest.raises(InvalidInput, match="must"):
        epsilon_of(mu, delta)


def _integer_gaussian(variance: float) -> dict[int, float]:
    reach = math.ceil(40 * math.sqrt(variance)) + 5
    weights = {x: math.exp(-x * x / (2 * variance)) for x in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {x: weight / whole for x, weight in weights.items()}


def _integer_delta(variance: float, shift: int, epsilon: float) -> float:
    """Exact hockey-stick divergence of N_Z(0, variance) from its copy moved by an integer."""
    law = _integer_gaussian(variance)
    return math.fsum(max(0.0, p - math.exp(epsilon) * law.get(x + shift, 0.0)) for x, p in law.items())


@pytest.mark.parametrize(
    ("variance", "true"), [(0.25, 0.21501267508814), (0.5, 0.49897913083282), (1.0, 0.99999978876773), (4.0, 4.0)]
)
def test_variance_of_the_integer_gaussian(variance: float, true: float) -> None:
    law = _integer_gaussian(variance)
    assert math.fsum(x * x * p for x, p in law.items()) == pytest.approx(true, rel=1e-12)


def test_probabilities_of_the_integer_gaussian() -> None:
    assert _integer_gaussian(1.0)[0] == pytest.approx(0.39894227826686, rel=1e-12)
    assert _integer_gaussian(4.0)[0] == pytest.approx(0.19947114020072, rel=1e-12)
    assert _integer_gaussian(1.0)[1] == pytest.approx(0.24197072322446, rel=1e-12)


def test_the_integer_gaussian_is_worse_than_the_continuous_one_of_its_own_scale() -> None:
    assert _integer_delta(16.0, 1, 1.0) == pytest.approx(3.055454649e-6, rel=1e-8)
    assert delta_of(1.0, 1 / 4) == pytest.approx(2.924272105e-6, rel=1e-8)
    unprotected = 1 / mu_of(1.0, 1e-5) ** 2
    assert unprotected == pytest.approx(13.917612, rel=1e-6)
    assert _integer_delta(unprotected, 1, 1.0) == pytest.approx(1.034567e-5, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("variance", [4.5, 8.0, 16.0, 17.917612, 60.0])
def test_four_grid_units_of_variance_make_the_continuous_profile_a_bound(
    variance: float, shift: int, epsilon: float
) -> None:
    bound = delta_of(epsilon, shift / math.sqrt(variance - GRID_VARIANCE))
    assert _integer_delta(variance, shift, epsilon) <= bound * (1 + 1e-12)


def test_the_published_bound_at_variance_sixteen() -> None:
    assert delta_of(1.0, 1 / math.sqrt(12)) == pytest.approx(3.17916e-5, rel=1e-5)
    assert _integer_delta(17.917612, 1, 1.0) == pytest.approx(9.93e-7, rel=1e-3)

"""Noise scales of joint moments: exactly enough in rationals, and enough for the worst patient on a real integer grid."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.arrays import Floats
from dprelease.data.columns import Column
from dprelease.mechanisms.moments.calibration import FINEST, released_sd, share_scales, spent
from dprelease.mechanisms.moments.entries import EntryKind, Layout, by_kind
from dprelease.mechanisms.moments.sensitivity import Sensitivity, sensitivity
from dprelease.privacy.calibration import GRID_VARIANCE
from dprelease.privacy.gaussian import delta_of
from tests.support.specs import categorical, numeric


@dataclass(frozen=True)
class Setting:
    sensitivity: Sensitivity
    mu2: Fraction
    parties: int
    curious: int
    grid_bits: int
    rows_per_subject: int

    @property
    def honest(self) -> int:
        return self.parties - self.curious

    @property
    def variance(self) -> Fraction:
        """s2."""
        whole = self.sensitivity.squared * self.rows_per_subject**2 * Fraction(4**self.grid_bits) ** 2
        return whole / self.mu2

    @property
    def shared(self) -> tuple[int, int, int, int]:
        return self.parties, self.curious, self.grid_bits, self.rows_per_subject

    def scales(self) -> tuple[float, float]:
        found = share_scales(self.sensitivity, self.mu2, *self.shared)
        return found[EntryKind.PRODUCT], found[EntryKind.SQUARE]

    def spent(self, scale: float, diagonal_scale: float) -> Fraction:
        return spent(self.sensitivity, by_kind(scale, diagonal_scale), *self.shared)


@st.composite
def settings(draw: st.DrawFn) -> Setting:
    parties = draw(st.integers(1, 8))
    return Setting(
        Sensitivity(draw(st.fractions(1, 10**4)), draw(st.fractions(1, 100))),
        draw(st.fractions(Fraction(1, 10**9), 10**3)),
        parties,
        draw(st.integers(0, parties - 1)),
        draw(st.integers(0, 24)),
        draw(st.integers(1, 50)),
    )


# Rationals.


@given(settings())
def test_honest_shares_are_the_smallest_that_leave_the_variance_and_the_price_of_the_grid(setting: Setting) -> None:
    weights = (Fraction(1), setting.sensitivity.diagonal_weight)
    for scale, weight in zip(setting.scales(), weights, strict=True):
        needed = setting.variance / weight + GRID_VARIANCE
        assert setting.honest * Fraction(scale) ** 2 >= needed
        assert setting.honest * Fraction(math.nextafter(scale, 0)) ** 2 < needed


@given(settings())
def test_the_budget_is_never_exceeded_and_nothing_is_wasted(setting: Setting) -> None:
    used = setting.spent(*setting.scales())
    assert setting.mu2 * (1 - Fraction(1, 10**9)) <= used <= setting.mu2


@given(settings())
def test_either_scale_a_little_smaller_exceeds_the_budget(setting: Setting) -> None:
    scale, diagonal_scale = setting.scales()
    assert setting.spent(math.nextafter(scale, 0), diagonal_scale) > setting.mu2
    assert setting.spent(scale, math.nextafter(diagonal_scale, 0)) > setting.mu2


@given(settings())
def test_larger_scales_spend_no_more(setting: Setting) -> None:
    scale, diagonal_scale = setting.scales()
    assert setting.spent(2 * scale, diagonal_scale) <= setting.spent(scale, diagonal_scale)
    assert setting.spent(scale, 2 * diagonal_scale) <= setting.spent(scale, diagonal_scale)
    assert setting.spent(2 * scale, 2 * diagonal_scale) < setting.mu2 / 4


def test_scales_grow_with_what_costs_more() -> None:
    weight = Fraction(3)
    base = Setting(Sensitivity(Fraction(9), weight), Fraction(1, 10), 4, 1, 4, 1)
    dearer = (
        Setting(Sensitivity(Fraction(10), weight), Fraction(1, 10), 4, 1, 4, 1),
        Setting(Sensitivity(Fraction(9), weight), Fraction(1, 11), 4, 1, 4, 1),
        Setting(Sensitivity(Fraction(9), weight), Fraction(1, 10), 3, 1, 4, 1),
        Setting(Sensitivity(Fraction(9), weight), Fraction(1, 10), 4, 2, 4, 1),
        Setting(Sensitivity(Fraction(9), weight), Fraction(1, 10), 4, 1, 5, 1),
        Setting(Sensitivity(Fraction(9), weight), Fraction(1, 10), 4, 1, 4, 2),
    )
    for setting in dearer:
        assert all(more > less for more, less in zip(setting.scales(), base.scales(), strict=True))
    heavier = Setting(Sensitivity(Fraction(9), Fraction(4)), Fraction(1, 10), 4, 1, 4, 1)
    assert heavier.scales()[0] == base.scales()[0]
    assert heavier.scales()[1] < base.scales()[1]


@pytest.mark.parametrize(("scale", "diagonal_scale"), [(1.0, 50.0), (50.0, 1.0), (1.4142, 50.0), (2**-60, 2**-60)])
def test_scales_within_the_price_of_the_grid_fit_no_budget(scale: float, diagonal_scale: float) -> None:
    setting = Setting(Sensitivity(Fraction(9), Fraction(3)), Fraction(1), 3, 1, 2, 1)
    assert setting.spent(scale, diagonal_scale) > 10**20


def test_numbers_worked_out_by_hand() -> None:
    ten = Sensitivity(Fraction(121), Fraction(13, 2))  # ten numbers, squares with 2/13 of the variance
    scale, diagonal_scale = Setting(ten, Fraction(1, 4), 3, 1, 10, 2).scales()
    assert scale == pytest.approx(math.sqrt(((2 * 11 * 2**20 * 2) ** 2 + 4) / 2), rel=1e-15)
    assert diagonal_scale == pytest.approx(scale * math.sqrt(2 / 13), rel=1e-12)
    assert released_sd(scale, 3) == pytest.approx(44 * 2**20 * math.sqrt(3 / 2), rel=1e-12)


# The sum of shares against one discrete Gaussian.


def discrete_gaussian(variance: float) -> Floats:
    """Probabilities of -k..k under N_Z(0, variance), beyond which there is less than 1e-60."""
    reach = math.ceil(17 * math.sqrt(variance)) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def total(parts: list[Floats]) -> Floats:
    """Probabilities of a sum of independent variables, around zero."""
    law = np.ones(1)
    for part in parts:
        law = np.convolve(law, part)
    return law


def log_ratio(entries: int, scale: float, shares: int) -> float:
    """kappa' of docs/guarantees.md 12: bounds the log-ratio between a sum of discrete Gaussians and one of the same variance."""
    return entries * 4 * math.fsum(math.exp(-2 * math.pi**2 * scale**2 * k / (k + 1)) for k in range(1, shares))


@pytest.mark.parametrize("shares", [2, 3, 5])
@pytest.mark.parametrize("variance", [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0])
def test_log_ratio_bounds_a_direct_computation(variance: float, shares: int) -> None:
    reach = math.ceil(8 * math.sqrt(shares * variance))
    laws = total([discrete_gaussian(variance)] * shares), discrete_gaussian(shares * variance)
    summed, one = (law[len(law) // 2 - reach : len(law) // 2 + reach + 1] for law in laws)
    largest = np.abs(np.log(summed / one)).max()
    promised = log_ratio(1, math.sqrt(variance), shares)
    assert largest <= promised
    if shares == 2:  # later shares smooth what the first sum left
        assert largest > promised / 3


def test_log_ratio_counts_entries_and_is_nothing_for_a_single_share() -> None:
    assert log_ratio(7, 0.7, 4) == pytest.approx(7 * log_ratio(1, 0.7, 4))
    assert log_ratio(10**6, 0.1, 1) == 0.0
    assert log_ratio(1, 0.7, 5) > log_ratio(1, 0.7, 4)


def test_at_the_finest_scale_allowed_the_ratio_is_nothing() -> None:
    assert log_ratio(10**18, FINEST, 1000) == 0.0
    assert math.log10(4e21) - math.pi**2 * FINEST**2 / math.log(10) < -10000  # its largest term, before underflow
    assert log_ratio(1, FINEST / 25, 2) > 0.0


# The worst patient against the promise, with the laws that are really added.

WORST: Mapping[str, tuple[tuple[Column, ...], tuple[int, ...], tuple[int, ...]]] = {
    "a binary": ((categorical("b", "yes"),), (1,), (-1,)),
    "a group": ((categorical("g", "a", "b"),), (1, 0, 0), (0, 1, 0)),
    "a binary and a number": ((categorical("b", "yes"), numeric("x")), (1, 1), (-1, 0)),
    "two binaries and two numbers": (
        (categorical("b", "yes"), numeric("x"), numeric("y"), categorical("c", "yes")),
        (1, 1, 1, 1),
        (-1, 0, 0, 1),
    ),
    "three numbers": ((numeric("x"), numeric("y"), numeric("z")), (1, 1, 1), (1, -1, -1)),
}
"""Columns, and two rows whose released entries are as far apart as the sensitivity says (or, in the fourth, nearly)."""

EPSILONS = (0.1, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Loss:
    """Probabilities of the sufficient statistic of some entries, and its privacy losses ln P/Q."""

    probabilities: Floats
    losses: Floats


def loss(changes: list[int], variance: float) -> Loss:
    """Entries of exact discrete Gaussians of one variance: the loss is linear in T = sum of change * noise."""
    step = math.gcd(*changes)
    spread = []
    for change in changes:
        law = discrete_gaussian(variance)
        stretched = np.zeros(abs(change) // step * (len(law) - 1) + 1)
        stretched[:: abs(change) // step] = law
        spread.append(stretched)
    law = total(spread)
    statistic = step * (np.arange(len(law)) - len(law) // 2)
    return Loss(law, (sum(change**2 for change in changes) - 2 * statistic) / (2 * variance))


def loss_of_sums(change: int, variance: float, shares: int) -> Loss:
    """One entry, whose noise is a sum of shares: no closed form, both laws in numbers."""
    law = total([discrete_gaussian(variance)] * shares)
    return Loss(law[change:], np.log(law[change:] / law[:-change]))


def hockey_stick(losses: list[Loss], epsilon: float) -> float:
    """Sum of (P - e^epsilon Q)+ over all outcomes of one or two independent statistics."""
    first, second = (*losses, Loss(np.ones(1), np.zeros(1)))[:2]
    found = 0.0
    for probability, extra in zip(second.probabilities, second.losses, strict=True):
        beyond = np.maximum(-np.expm1(epsilon - extra - first.losses), 0.0)
        found += float(probability * (first.probabilities @ beyond))
    return found


def attack(worst: str, mu: float, grid_bits: int, shrink: tuple[float, float]) -> dict[float, float]:
    """delta(epsilon) of the worst pair of rows when the noise is `shrink` times what it must be."""
    declared, *rows = WORST[worst]
    layout = Layout(declared)
    scale, diagonal_scale = Setting(sensitivity(layout.variables), Fraction(mu) ** 2, 2, 1, grid_bits, 1).scales()
    before, after = (2**grid_bits * np.array([1, *row]) for row in rows)
    moved = before[layout.rows] * before[layout.cols] - after[layout.rows] * after[layout.cols]
    losses = [
        loss([int(change) for change in moved[layout.diagonal == square] if change], (each * less) ** 2)
        for square, each, less in ((False, scale, shrink[0]), (True, diagonal_scale, shrink[1]))
        if np.any(moved[layout.diagonal == square])
    ]
    return {epsilon: hockey_stick(losses, epsilon) for epsilon in EPSILONS}


CASES = [(worst, grid_bits, mu) for worst in WORST for grid_bits in (0, 1) for mu in (0.5, 1.0)]
LONGEST = ("two binaries and two numbers", 1, 0.5)


@pytest.mark.parametrize(
    ("worst", "grid_bits", "mu"),
    [pytest.param(*case, marks=pytest.mark.slow if case == LONGEST else ()) for case in CASES],
)
def test_the_worst_patient_is_within_the_promised_profile(worst: str, grid_bits: int, mu: float) -> None:
    for epsilon, delta in attack(worst, mu, grid_bits, (1.0, 1.0)).items():
        assert delta <= delta_of(epsilon, mu)


@pytest.mark.parametrize(
    ("worst", "shrink"),
    [
        *((worst, (0.9, 0.9)) for worst in WORST),
        ("a binary and a number", (0.9, 1.0)),
        ("a binary and a number", (1.0, 0.9)),
    ],
)
def test_a_tenth_less_noise_breaks_the_promise(worst: str, shrink: tuple[float, float]) -> None:
    for epsilon, delta in attack(worst, 0.5, 1, shrink).items():
        assert delta > delta_of(epsilon, 0.5)


@pytest.mark.parametrize("shares", [1, 2, 4])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_sum_of_the_honest_shares_keeps_the_promise(mu: float, shares: int) -> None:
    value = sensitivity(Layout((categorical("b", "yes"),)).variables)
    change = 2 << 4  # +1 to -1 on a grid of four steps
    for curious, times in itertools.product((1, 2), (1.0, 0.9)):
        scale, _ = Setting(value, Fraction(mu) ** 2, shares + curious, curious, 2, 1).scales()
        summed = loss_of_sums(change, (times * scale) ** 2, shares)
        for epsilon in EPSILONS:
            kept = hockey_stick([summed], epsilon) <= delta_of(epsilon, mu)
            assert kept == (times == 1.0)

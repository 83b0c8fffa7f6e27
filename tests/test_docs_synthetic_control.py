"""docs/format.md on synthetic controls: its words and noise scales are those of the code."""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.mechanisms.synthetic_control.released import largest
from dprelease.mechanisms.synthetic_control.terms import SyntheticControlTerms
from dprelease.privacy.calibration import root_up
from dprelease.privacy.price import epsilon_figure, rounded_up
from dprelease.release.accounting import guarantee, trust
from tests.support.panels import panel_spec
from tests.test_docs_format import sentences

SERIES = [0.5, -0.25, 0.75, 0.0]


def test_noise_scales_and_largest_numbers() -> None:
    for penalty, q in (("3/2", 2), ("20", 1)):
        spec = panel_spec(SERIES, "t2", donors=7, penalty=penalty, rows_per_subject=q, weights_share="1/3")
        terms, ridge, norm2 = spec.terms, Fraction(penalty), Fraction(5, 16)
        assert isinstance(terms, SyntheticControlTerms)
        moved = 2 * norm2 / ridge
        if ridge >= 4:
            moved = min(moved, q**2 * 16 * 2 * norm2 * (1 + 2 / (2 * ridge)) / (ridge + 4) ** 2)
        weights = (math.ceil(math.sqrt(4**24 * moved)) + math.ceil(math.sqrt(7)) + 1) ** 2
        donors, mu2 = 4 * q * 2 * 4**16, Fraction(terms.mu2)
        assert terms.weights_scale == root_up(weights / (mu2 / 3) + 4)
        assert terms.donors_scale == root_up(donors / (mu2 * 2 / 3) + 4)
        most = math.ceil(math.sqrt(4**24 * norm2 / (2 * ridge))) + 1 + 64 * int(terms.weights_scale + 1)
        assert largest(spec, terms) == (most, 2**16 + 64 * int(terms.donors_scale + 1))


def test_words() -> None:
    spec = panel_spec(SERIES, "t2")
    given = guarantee(spec)
    values = {"E": epsilon_figure(given.joint_epsilon), "D": rounded_up(spec.target.delta), "P": "north"}
    assert given.words()[:2] == tuple(each.format(**values) for each in sentences("words-synthetic-control"))
    assert trust(spec) == sentences("trust-synthetic-control")


def test_laplace_noise() -> None:
    spec = panel_spec(
        SERIES, "t2", donors=7, penalty="3/2", rows_per_subject=2, weights_share="1/3", epsilon=9.0, law="laplace"
    )
    terms, mu2 = spec.terms, Fraction(spec.terms.mu2)  # type: ignore[attr-defined]
    assert isinstance(terms, SyntheticControlTerms)
    epsilon = math.isqrt(math.floor(mu2 * Fraction(226, 355) * 10**24))
    epsilon = max(epsilon, math.floor((mu2 + 5) / 8 * 10**12) if mu2 + 5 >= Fraction(64, 3) else 0)
    weights = (math.ceil(math.sqrt(4**24 * 2 * Fraction(5, 16) / Fraction(3, 2))) + math.ceil(math.sqrt(7)) + 1) ** 2
    moved = math.isqrt(7 * weights - 1) + 1, 2 * 2 * 2 * 2**16
    found = [math.ceil(each * part * 10**12 / epsilon) for each, part in zip(moved, (3, Fraction(3, 2)), strict=True)]
    assert (terms.weights_scale, terms.donors_scale) == tuple(found)
    spent = moved[0] / Fraction(terms.weights_scale) + moved[1] / Fraction(terms.donors_scale)
    price = guarantee(spec).parties[0].mu2
    assert price == min(Fraction(355, 226) * spent**2, 8 * spent - 5 if spent >= Fraction(8, 3) else mu2)
    assert largest(spec, terms)[1] == 2**16 + 2048 * int(terms.donors_scale + 1)
    (said,) = sentences("words-laplace")
    assert guarantee(spec).words()[2] == said.format(E=rounded_up(float(spent)))

"""Releases with outcome-only columns: from bounded rows to what a learner reads, bit for bit with the noise off."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.columns import Column
from dprelease.errors import IntegrityError, InvalidInput, SpecRefused
from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.released import OutcomeMoments
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.privacy.gaussian import mu_of
from dprelease.privacy.noise import NoiseSource
from dprelease.release.accounting import check_spec, guarantee
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from tests.support.joint import compute, entries, exact_gram, privatize_moments, summed
from tests.support.kinds import kind_of
from tests.support.noise import RecordingNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, one_block_each, random_rows, with_terms

Parties = Mapping[str, tuple[Column, ...]]

MIXED_UP: Parties = {
    "a": (numeric("y1"), numeric("x1"), categorical("s", "yes")),
    "b": (categorical("g", "one", "two"), categorical("h", "one", "two"), numeric("y2")),
    "c": (numeric("y3"), categorical("t", "yes")),
}
OUTCOMES = ("y1", "y2", "y3", "h", "t")
FEATURE_DP: Parties = {
    "a": (numeric("y1", public=True), categorical("h", "one", "two", public=True)),
    "b": (numeric("x1"), numeric("x2")),
    "c": (categorical("s", "yes"), numeric("y2", public=True)),
}
LABEL_DP: Parties = {
    "a": (numeric("x1", public=True), categorical("g", "one", "two", public=True)),
    "b": (numeric("y1"), categorical("t", "yes")),
    "c": (numeric("x2", public=True),),
}
CASES: dict[str, tuple[Parties, tuple[str, ...], str]] = {
    "full": (MIXED_UP, OUTCOMES, "DP"),
    "features": (FEATURE_DP, ("y1", "h", "y2"), "feature-DP"),
    "labels": (LABEL_DP, ("y1", "t"), "label-DP"),
    "one party": ({"a": (numeric("x"), numeric("y"))}, ("y",), "DP"),
    "only outcomes at one": ({"a": (numeric("x"),), "b": (numeric("y"), numeric("z"))}, ("y", "z"), "DP"),
}


def spec_of(name: str, rows: int = 40) -> ReleaseSpec:
    parties, outcomes, label = CASES[name]
    return build_spec(parties, mechanism="moments", rows=rows, guarantee=label, outcomes=outcomes, grid_bits=14)


def released(spec: ReleaseSpec, noise: NoiseSource) -> Release:
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    return one_block_each(spec, compute(spec, tables, dict.fromkeys(tables, noise)).blocks, ())


def exact(spec: ReleaseSpec) -> np.ndarray:
    """The Gram matrix of the constant and all variables, scaled units."""
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    return exact_gram(spec, tables).astype(np.float64) / 4.0**spec.grid_bits


@pytest.mark.parametrize("name", CASES)
def test_without_noise_a_learner_reads_the_exact_products(name: str) -> None:
    spec, gram = spec_of(name), exact(spec_of(name))
    found = released(spec, ZeroNoise()).products
    assert isinstance(found, OutcomeMoments)
    everything, inner = list(range(len(gram))), np.flatnonzero(~layout_of(spec).outcome).tolist()
    assert np.array_equal(found.between(inner, everything), gram[inner])
    assert np.array_equal(found.between(everything, inner), gram[:, inner])
    assert np.array_equal(found.own(everything), np.diag(gram))
    assert np.array_equal(found.joint.gram, gram[np.ix_(inner, inner)])


@pytest.mark.parametrize("name", CASES)
def test_products_of_two_outcomes_do_not_leave(name: str) -> None:
    spec = spec_of(name)
    layout = layout_of(spec)
    both = layout.outcome[layout.rows] & layout.outcome[layout.cols]
    assert (layout.rows[both] == layout.cols[both]).all()
    assert (layout.kinds[both] == EntryKind.OUTCOME_SQUARE).all()
    outcomes = np.flatnonzero(layout.outcome).tolist()
    found = released(spec, ZeroNoise()).products
    with pytest.raises(InvalidInput, match="two outcomes are not released"):
        found.between(outcomes, outcomes)


@pytest.mark.parametrize("name", CASES)
def test_every_party_draws_the_declared_noise_of_every_kind(name: str) -> None:
    spec = spec_of(name)
    tables = {part.party: random_rows(spec, part.party, place) for place, part in enumerate(spec.parties)}
    sources = {party: RecordingNoise() for party in tables}
    blocks = compute(spec, tables, sources).blocks
    moments, layout, total = spec.terms, layout_of(spec), np.zeros(layout_of(spec).entries, np.int64)
    for source in sources.values():
        assert [draw.scale for draw in source.draws] == [moments.scales[kind] for kind in moments.kinds]
        for kind, draw in zip(moments.kinds, source.draws, strict=True):
            total[layout.kinds == kind] += draw.values[0]
    assert (layout.kinds[:, None] == np.array(moments.kinds)).any(axis=1).all()  # no entry is without noise
    found = summed(spec, (block.values.reshape(-1) for block in blocks.values()))
    assert (found - total).tolist() == entries(spec, exact_gram(spec, tables))


@pytest.mark.parametrize("name", CASES)
def test_the_noise_that_a_learner_states_is_that_of_all_shares(name: str) -> None:
    spec = spec_of(name)
    found, moments = released(spec, ZeroNoise()).products, spec.terms
    assert isinstance(found, OutcomeMoments)
    assert moments.association is not None
    unit = np.sqrt(len(spec.parties)) / 4.0**spec.grid_bits
    outcomes = np.flatnonzero(layout_of(spec).outcome)
    private = outcomes[~layout_of(spec).public[outcomes]]
    of_constant = found.noise_between([0], outcomes)[0]
    assert of_constant[np.isin(outcomes, private)] == pytest.approx(moments.association.scale * unit)
    assert not of_constant[~np.isin(outcomes, private)].any()
    for index in private:
        kind = kind_of(layout_of(spec).variables[index - 1])
        stated = {"numeric": moments.association.square_scale, "level": moments.association.scale, "binary": 0.0}[kind]
        assert found.noise_own([index]) == pytest.approx(stated * unit)


@pytest.mark.parametrize("name", CASES)
def test_the_price_is_the_target(name: str) -> None:
    spec = spec_of(name)
    found = check_spec(spec)
    assert found == guarantee(spec)
    assert 1 - 1e-5 < float(found.joint_mu2) / mu_of(1.0, 1e-5) ** 2 <= 1
    assert found.label == spec.guarantee


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 1.0},
        {"scale": 1e-3},
        {"square_scale": 1.0},
        {"split": "1/3"},
        {"outcomes": ("y1", "y2", "y3", "h")},
        {"outcomes": ("y1", "y2", "y3", "h", "t", "s")},
    ],
    ids=str,
)
def test_a_changed_number_is_refused(change: dict[str, object]) -> None:
    spec = spec_of("full")
    assert spec.terms.association is not None
    association = spec.terms.association.model_copy(update=change)
    tampered = with_terms(spec, association=association)
    with pytest.raises(SpecRefused):
        check_spec(tampered)


def test_forgetting_that_outcomes_are_apart_is_refused() -> None:
    spec = spec_of("full")
    with pytest.raises(SpecRefused, match="noise scales"):
        check_spec(with_terms(spec, association=None))


def stated(norm2: Fraction | None) -> ReleaseSpec:
    return build_spec(
        {"a": (numeric("y1", public=True), numeric("y2", public=True)), "b": (numeric("x1"),)},
        mechanism="moments",
        guarantee="feature-DP",
        outcomes=("y1", "y2"),
        grid_bits=14,
        public_norm2=norm2,
    )


def test_a_smaller_norm_of_public_outcomes_takes_less_noise_and_is_checked_by_whoever_reads() -> None:
    scales = []
    for norm2 in (None, Fraction(2), Fraction(3), Fraction(1, 2)):
        moments = stated(norm2).terms
        assert moments.association is not None
        assert check_spec(stated(norm2)).joint_mu2 <= Fraction(mu_of(1.0, 1e-5)) ** 2
        scales.append(moments.association.scale)
    assert scales[0] == scales[1] == scales[2]  # what the bounds allow is the most that counts
    assert scales[3] == pytest.approx(scales[0] / 2, rel=1e-6)
    longest = Fraction(int((random_rows(stated(None), "a").codes.astype(np.int64) ** 2).sum(axis=1).max()), 4**14)
    assert released(stated(longest), ZeroNoise()).products.rows == 40
    with pytest.raises(IntegrityError, match=r"squared norm .* more than .* that the noise is for"):
        _ = released(stated(longest - Fraction(1, 4**14)), ZeroNoise()).products


def test_an_entry_without_noise_is_never_released() -> None:
    spec = spec_of("one party")
    silent = with_terms(spec, scale=0.0, diagonal_scale=0.0)
    with pytest.raises(InvalidInput, match="declares no noise"):
        privatize_moments(random_rows(spec, "a"), silent, "a", {}, {}, ZeroNoise())

"""Public columns in the core: what they cost, how they travel, what is exact because of them, and what it is called."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError

from dprelease.data.columns import Column, is_public
from dprelease.errors import IntegrityError, SpecRefused
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing
from dprelease.planning.forecast import forecast, proposed
from dprelease.privacy.gaussian import mu_of
from dprelease.privacy.noise import NoiseSource
from dprelease.privacy.public_stream import PublicStream
from dprelease.release.accounting import PUBLIC, check_spec, guarantee, trust
from dprelease.release.block import Block, block_size, expected_header, read_block
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.release.verification import verify_release
from tests.support.blocks import privatize
from tests.support.joint import compute, exact_gram
from tests.support.noise import RecordingNoise, SeededNoise, ZeroNoise
from tests.support.plans import changed as with_changed
from tests.support.plans import planned
from tests.support.specs import (
    SEED,
    TWO_PARTIES,
    build_spec,
    categorical,
    new_consortium,
    numeric,
    one_block_each,
    publish,
    random_rows,
    with_terms,
)

PARTIES: Mapping[str, tuple[Column, ...]] = {
    "north": (numeric("age", 0.0, 120.0, public=True), categorical("sex", "female", "male"), numeric("weight")),
    "south": (categorical("stage", "I", "II", public=True), categorical("alive", "yes", public=True)),
    "west": (numeric("glucose", 2.0, 30.0), categorical("smoker", "yes"), numeric("height", public=True)),
}
"""One party with both kinds, in either order, and one with public columns only."""

ALL_PRIVATE = {
    party: tuple(column.model_copy(update={"public": False}) for column in columns)
    for party, columns in PARTIES.items()
}
ALL_PUBLIC = {
    party: tuple(column.model_copy(update={"public": True}) for column in columns) for party, columns in PARTIES.items()
}
MIXED = build_spec(PARTIES)
JOINT = build_spec(PARTIES, mechanism="moments", guarantee="mixed")
PRIVATE = "sex, weight, glucose, smoker"
OPEN = "age, stage, alive, height"


def released(spec: ReleaseSpec, noise: NoiseSource) -> Release:
    tables = {part.party: random_rows(spec, part.party) for part in spec.parties}
    if spec.mechanism == "moments":
        blocks = compute(spec, tables, dict.fromkeys(tables, noise)).blocks
    else:
        blocks = {party: privatize(table, spec, party, noise) for party, table in tables.items()}
    return one_block_each(spec, blocks, ())


def scaled(spec: ReleaseSpec) -> np.ndarray:
    """D, (n, p), of all columns."""
    codes = [random_rows(spec, part.party).codes for part in spec.parties]
    return np.hstack(codes) / 2.0**spec.grid_bits


def changed(spec: ReleaseSpec, parties: Mapping[str, tuple[Column, ...]]) -> ReleaseSpec:
    """The same spec with other declarations, checked as it is built."""
    parts = tuple(part.model_copy(update={"columns": parties[part.party]}) for part in spec.parties)
    return ReleaseSpec.model_validate({**dict(spec), "parties": parts})


# The spec.


@pytest.mark.parametrize("label", ["feature-DP", "label-DP", "mixed"])
def test_with_public_columns_the_guarantee_has_another_name(label: str) -> None:
    assert build_spec(PARTIES, guarantee=label).guarantee == label
    with pytest.raises(ValidationError, match="the guarantee is DP"):
        build_spec(TWO_PARTIES, guarantee=label)
    with pytest.raises(ValidationError, match="feature-DP, label-DP or mixed"):
        build_spec(PARTIES, guarantee="DP")


@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
def test_a_release_of_public_columns_alone_is_refused(mechanism: str) -> None:
    with pytest.raises(ValidationError, match="nothing to protect"):
        changed(build_spec(PARTIES, mechanism=mechanism), ALL_PUBLIC)


def test_noisy_rows_beside_public_columns_are_refused() -> None:
    with pytest.raises(ValidationError, match="link every noisy row"):
        build_spec(PARTIES, mechanism="rows")


def test_whether_a_column_is_public_is_part_of_the_identity() -> None:
    assert ReleaseSpec.from_bytes(MIXED.to_bytes()) == MIXED
    assert MIXED.digest() != build_spec(ALL_PRIVATE).digest()
    assert [len(part.private) for part in MIXED.parties] == [2, 0, 2]
    assert [column.name for column in MIXED.public] == OPEN.split(", ")


# The price.


@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_public_columns_cost_nothing(scope: str) -> None:
    spec = build_spec(PARTIES, scope=scope)
    given = check_spec(spec)
    assert [spec.terms.squared_sensitivity(spec, party) >> 20 for party in PARTIES] == [6, 0, 6]
    assert given.party("south").mu2 == 0
    assert given.party("south").epsilon == 0
    only = {party: tuple(column for column in columns if not column.public) for party, columns in PARTIES.items()}
    del only["south"]
    without = check_spec(build_spec(only, scope=scope))
    assert (given.joint_mu2, given.party("north").mu2) == (without.joint_mu2, without.party("north").mu2)
    assert given.against({"north", "west"}) == 0


def test_a_party_with_nothing_private_declares_no_noise() -> None:
    noise = MIXED.terms.noise_of("south")
    assert (noise.mu2, noise.scale, noise.anchor_scale) == ("0", 0.0, 0.0)
    for change in ({"mu2": "1/100"}, {"scale": 500.0}, {"anchor_scale": 500.0}):
        forged = tuple(each.model_copy(update=change) if each is noise else each for each in MIXED.terms.noise)
        with pytest.raises(SpecRefused, match="south: the noise scales"):
            check_spec(with_terms(MIXED, noise=forged))


def test_a_private_column_without_noise_is_refused() -> None:
    forged = tuple(MIXED.terms.noise_of("south").model_copy(update={"party": party}) for party in PARTIES)
    with pytest.raises(SpecRefused, match="not positive"):
        check_spec(with_terms(MIXED, noise=forged))


def test_joint_moments_charge_whoever_has_a_private_column() -> None:
    given = check_spec(JOINT)
    assert [given.party(party).mu2 for party in PARTIES] == [given.joint_mu2 / 2, 0, given.joint_mu2 / 2]
    assert [given.party(party).exposure for party in PARTIES] == [given.joint_mu2, 0, given.joint_mu2]
    assert given.party("south").mu2 == 0
    assert given.joint_mu2 <= Fraction(mu_of(1.0, 1e-5)) ** 2


def test_public_columns_count_in_the_norm_of_a_row_and_not_in_what_moves() -> None:
    # Private: two numbers, one binary, one group. Public: two numbers, one binary, one group, the constant: P2 = 5 > 3.
    found = sensitivity(layout_of(JOINT).variables)
    assert found == sensitivity(layout_of(JOINT).variables, Fraction(5))
    assert found.squared == (5 + 4) ** 2 - (5 - 3) ** 2 - 1
    assert found.squared < sensitivity(layout_of(build_spec(ALL_PRIVATE, mechanism="moments")).variables).squared


@pytest.mark.parametrize("spec", [MIXED, JOINT], ids=["mixed", "moments"])
def test_the_planner_states_the_price_that_is_charged(spec: ReleaseSpec) -> None:
    setting = planned(
        spec.rows,
        PARTIES,
        spec.target,
        spec.mechanism,
        "glucose",
        ("age", "weight"),
        grid_bits=spec.grid_bits,
        **({"k": 8, "rho": "1/10"} if spec is MIXED else {}),
    )
    charged = guarantee(spec)
    assert proposed(setting).prices == {party: charged.party(party).mu2 for party in PARTIES}
    if spec is MIXED:  # and expects less noise
        many = with_changed(setting, rows=20000, k=300)
        private = forecast(with_changed(many, columns=ALL_PRIVATE), 0.5)
        assert forecast(many, 0.5).error_ratio < private.error_ratio


# The block.


@pytest.mark.parametrize("party", PARTIES)
def test_a_block_carries_public_codes_as_they_are(party: str) -> None:
    table = random_rows(MIXED, party)
    block = privatize(table, MIXED, party, RecordingNoise())
    data = block.to_bytes()
    assert len(data) == block_size(MIXED, party)
    assert data.endswith(table.public.astype("<i4").tobytes())
    again = read_block(data, MIXED, party)
    assert again.header == block.header == expected_header(MIXED, party)
    assert np.array_equal(again.values, block.values)
    assert np.array_equal(again.public, table.codes[:, is_public(table.columns)])


def test_noise_is_drawn_for_private_columns_only() -> None:
    noise = RecordingNoise()
    assert privatize(random_rows(MIXED, "south"), MIXED, "south", noise).values.shape == (9, 0)
    assert noise.draws == []
    privatize(random_rows(MIXED, "north"), MIXED, "north", noise)
    assert [draw.values.shape for draw in noise.draws] == [(8, 4), (1, 4)]


@pytest.mark.parametrize(
    ("party", "place", "code"),
    [
        ("north", (0, 0), 1025),
        ("north", (39, 0), -1025),
        ("south", (3, 1), 1),
        ("south", (0, 4), -1024),
        ("south", (5, slice(3)), 1024),  # two levels at once
    ],
)
def test_a_public_code_beyond_its_declaration_is_refused(party: str, place: tuple[int, int | slice], code: int) -> None:
    block = privatize(random_rows(MIXED, party), MIXED, party, ZeroNoise())
    public = block.public.copy()
    public[place] = code
    with pytest.raises(IntegrityError, match=f"public columns of {party}"):
        read_block(Block(block.header, block.values, public).to_bytes(), MIXED, party)


# The release.


@pytest.mark.parametrize("spec", [MIXED, JOINT], ids=["mixed", "moments"])
def test_the_public_columns_of_a_release_are_exact(spec: ReleaseSpec) -> None:
    public = released(spec, SeededNoise(1)).public()
    shown = is_public(spec.columns)
    assert public.names == tuple(np.array(spec.released)[shown])
    assert np.array_equal(public.values, scaled(spec)[:, shown])


@pytest.mark.parametrize("weight", ["1/10", "0"])
def test_public_columns_become_rows_without_noise(weight: str) -> None:
    spec = build_spec(PARTIES, anchor_weight=weight)
    noisy, exact = released(spec, SeededNoise(1)).scaled(), released(spec, ZeroNoise()).scaled()
    public, rho = is_public(spec.columns), float(Fraction(weight))
    signs = BernoulliMixing(PublicStream(SEED), 8, 40).signs(0, 40)
    rows = np.vstack([*([np.full(40, np.sqrt(rho))] if rho else []), np.sqrt((1 - rho) / 8) * signs])
    np.testing.assert_allclose(exact.values, rows @ scaled(spec), rtol=1e-12, atol=1e-12)
    assert np.array_equal(noisy.values[:, public], exact.values[:, public])
    assert (noisy.values[:, ~public] != exact.values[:, ~public]).all()
    assert np.array_equal(noisy.noise_sd == 0, public)
    means, errors = noisy.means()
    assert (errors[public] == 0).all()
    if rho:
        np.testing.assert_allclose(means[public], scaled(spec)[:, public].mean(axis=0), rtol=1e-12)


def test_moments_between_public_columns_are_exact() -> None:
    tables = {part.party: random_rows(JOINT, part.party) for part in JOINT.parties}
    exact = exact_gram(JOINT, tables).astype(np.float64) / 4.0**JOINT.grid_bits
    noisy = released(JOINT, SeededNoise(1)).moments()
    public = noisy.layout.public
    both = np.ix_(public, public)
    assert np.array_equal(noisy.gram[both], exact[both])
    assert not noisy.noise_sd[both].any()
    # All other entries are noisy, but for what a declaration fixes: a binary's own entry, and those within a group.
    fixed = {(i, j) for i in (2, 3, 4) for j in (2, 3, 4) if i != j} | {(11, 11)}
    names = ("constant", *noisy.names)
    assert [names[i] for i in (2, 3, 4, 11)] == ["sex=female", "sex=male", "sex=other", "smoker=yes"]
    for i, j in zip(*np.where(~np.outer(public, public)), strict=True):
        assert (noisy.noise_sd[i, j] == 0) == ((i, j) in fixed)
        assert (noisy.gram[i, j] == exact[i, j]) == ((i, j) in fixed)
    without = released(JOINT, ZeroNoise()).moments()
    np.testing.assert_allclose(without.gram, exact, rtol=1e-12)


# Words.


def test_the_guarantee_is_not_called_plain_differential_privacy() -> None:
    for label, covered in (
        ("feature-DP", "the public columns are outcomes and not protected, the private ones are"),
        ("label-DP", "the public columns are features and not protected, the private ones are"),
        ("mixed", "the public columns are features and outcomes and not protected, the private ones are"),
    ):
        said = guarantee(build_spec(PARTIES, guarantee=label)).words()
        assert f"This is {label}: {covered}." in said[-1]
        assert f"published exactly, patient by patient, and are outside the guarantee: {OPEN}." in said[-1]
        assert f"columns {PRIVATE}." in said[-2]
        assert "all private cells" not in " ".join(said)
    assert "south: nothing private" in said[1]


def test_the_words_for_moments_say_who_is_charged() -> None:
    joint, neighbours, public = guarantee(JOINT).words()
    assert "for all private columns of a patient" in joint
    assert joint.endswith("Its price is charged to the hospitals with a private column in equal parts.")
    assert PRIVATE in neighbours
    assert OPEN in public


def test_the_trust_statement_names_the_exception() -> None:
    for spec, plain in ((MIXED, build_spec()), (JOINT, build_spec(ALL_PRIVATE, mechanism="moments"))):
        assert trust(spec)[-1] == PUBLIC
        assert trust(spec)[:-1] == trust(plain)


# Published and verified.


@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
def test_a_published_release_verifies_with_its_public_columns(mechanism: str) -> None:
    consortium = new_consortium(*PARTIES)
    spec = build_spec(PARTIES, mechanism=mechanism, keys=consortium.keys, guarantee="label-DP")
    made = publish(consortium, spec, SeededNoise(1))
    found = verify_release(made.manifest, made.signature, lambda block: made.blocks[block.party], made.root)
    assert found.public().values.shape == (40, 7)
    assert "label-DP" in " ".join(found.guarantee)

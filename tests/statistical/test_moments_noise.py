"""The noise of joint moments, unseeded: every hospital's share, their sum, and the masks that hide the shares."""

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dprelease.mechanisms.moments.entries import EntryKind
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.released import NoisyMoments, add_up, limits
from dprelease.mechanisms.moments.sensitivity import sensitivity
from dprelease.mechanisms.moments.terms import joint_moments, layout_of
from dprelease.mpc.modulus import FIELD
from dprelease.privacy.calibration import GRID_VARIANCE, budget
from dprelease.privacy.noise import Noise, NoiseSource, SecureNoise
from dprelease.release.block import Block
from tests.statistical.constants import DETECTABLE, MOMENTS_RUNS, P_THRESHOLD
from tests.statistical.laws import Draws, p_of_independence, p_of_scale, p_of_too_little, p_of_uniformity
from tests.support.blocks import exact_once
from tests.support.joint import entries, exact_gram, multiply, seal
from tests.support.kinds import kind_of
from tests.support.noise import ScaledNoise, SeededNoise, ZeroNoise
from tests.support.specs import build_spec, categorical, numeric, random_rows

SPEC = build_spec(
    {
        "north": (*(numeric(f"north{i}") for i in range(4)), categorical("smoker", "yes")),
        "south": tuple(numeric(f"south{i}") for i in range(4)),
        "west": (*(numeric(f"west{i}") for i in range(4)), categorical("blood", "A", "B")),
    },
    mechanism="moments",
    rows=5,
)

PARTIES = schedule_of(SPEC).parties
LAYOUT = layout_of(SPEC)
TERMS = joint_moments(SPEC)
KINDS = {"products": ~LAYOUT.diagonal, "squares": LAYOUT.diagonal}
TABLES = {party: random_rows(SPEC, party) for party in PARTIES}
EXACT = np.array(entries(SPEC, exact_gram(SPEC, TABLES)), np.int64)


def share_scale(kind: str) -> float:
    return TERMS.scale if kind == "products" else TERMS.diagonal_scale


@dataclass(frozen=True)
class Releases:
    """What many releases of one table consist of.

    Attributes:
        released: (runs, E) released integers.
        shares: (runs, m, E) every party's noise.
        blocks: (runs, m, E) what every party sent.
    """

    released: Draws
    shares: Draws
    blocks: npt.NDArray[np.uint64]

    @property
    def noise(self) -> Draws:
        """(runs, E) what they have beyond the Gram matrix."""
        return self.released - EXACT


def make(noise: Mapping[str, NoiseSource], runs: int = MOMENTS_RUNS, *, masked_anew: bool = False) -> Releases:
    """Releases, with fresh masks or with the same. A share is what a block differs by from the block that has no noise."""
    session, silent = multiply(SPEC, TABLES), dict.fromkeys(PARTIES, ZeroNoise())
    largest = limits(LAYOUT, SPEC.rows, SPEC.grid_bits, TERMS.scales, len(PARTIES))
    released, shares, blocks = [], [], []
    with exact_once():
        for run in range(runs):
            if masked_anew or not run:
                masks = {frozenset(pair): secrets.token_bytes(32) for pair in combinations(PARTIES, 2)}
                bare = _words(seal(SPEC, TABLES, session, silent, masks))
            words = _words(seal(SPEC, TABLES, session, noise, masks))
            released.append(add_up(list(words.view(np.int64)[:, None]), largest, FIELD))
            blocks.append(words)
            shares.append(FIELD.signed(FIELD.subtract(words, bare)))
    return Releases(np.array(released), np.array(shares), np.array(blocks))


def _words(sent: Mapping[str, Block]) -> npt.NDArray[np.uint64]:
    return np.vstack([sent[party].values for party in PARTIES]).view(np.uint64)


@pytest.fixture(scope="module")
def honest() -> Releases:
    return make(dict.fromkeys(PARTIES, SecureNoise()), masked_anew=True)


@pytest.fixture(
    scope="module",
    params=[pytest.param(1 - DETECTABLE, id="0.9"), pytest.param(1 + DETECTABLE, id="1.1", marks=pytest.mark.slow)],
)
def wrong(request: pytest.FixtureRequest) -> Releases:
    """Every share at a wrong scale. Too small is what harms; `test_the_sample_is_large_enough` holds for both."""
    return make(dict.fromkeys(PARTIES, ScaledNoise(SeededNoise(1), request.param)))


def test_the_sample_is_large_enough() -> None:
    size = MOMENTS_RUNS * int(LAYOUT.diagonal.sum())
    low, high = stats.chi2.ppf(P_THRESHOLD / 2, size), stats.chi2.isf(P_THRESHOLD / 2, size)
    assert stats.chi2.sf(low / (1 - DETECTABLE) ** 2, size) < P_THRESHOLD
    assert stats.chi2.cdf(high / (1 + DETECTABLE) ** 2, size) < P_THRESHOLD


@pytest.mark.parametrize("kind", KINDS)
def test_the_released_noise_has_the_variance_of_all_shares(honest: Releases, kind: str) -> None:
    expected = share_scale(kind) * math.sqrt(len(PARTIES))
    assert p_of_scale(honest.noise[:, KINDS[kind]], expected) > P_THRESHOLD


@pytest.mark.parametrize("kind", KINDS)
def test_noise_of_another_scale_is_rejected(wrong: Releases, kind: str) -> None:
    expected = share_scale(kind) * math.sqrt(len(PARTIES))
    assert p_of_scale(wrong.noise[:, KINDS[kind]], expected) < P_THRESHOLD


def promised(kind: str) -> Fraction:
    """The least variance that the guarantee rests on, whoever is curious."""
    moved = sensitivity(LAYOUT.variables).on_grid(SPEC.grid_bits, SPEC.rows_per_subject)
    return moved[EntryKind.SQUARE if kind == "squares" else EntryKind.PRODUCT] / budget(SPEC.target) + GRID_VARIANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trusted", [(0, 1), (0, 2), (1, 2)], ids=str)
def test_the_shares_of_those_who_are_not_curious_suffice(
    honest: Releases, wrong: Releases, trusted: tuple[int, ...], kind: str
) -> None:
    least = math.sqrt(promised(kind))
    assert len(trusted) == len(PARTIES) - TERMS.curious
    assert len(trusted) * Fraction(share_scale(kind)) ** 2 >= promised(kind)
    together = honest.shares[:, trusted][..., KINDS[kind]].sum(axis=1)
    assert p_of_too_little(together, least) > P_THRESHOLD
    assert p_of_scale(together, least) > P_THRESHOLD  # and no more than that is added
    assert p_of_scale(wrong.shares[:, trusted][..., KINDS[kind]].sum(axis=1), least) < P_THRESHOLD


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_shares_would_not_suffice(honest: Releases, kind: str) -> None:
    assert p_of_too_little(honest.shares[:, 0, KINDS[kind]], math.sqrt(promised(kind))) < P_THRESHOLD


def test_every_entry_of_every_party_has_its_scale(honest: Releases) -> None:
    places = honest.shares[0].size
    for kind, chosen in KINDS.items():
        for draws in honest.shares[..., chosen].reshape(MOMENTS_RUNS, -1).T:
            assert p_of_scale(draws, share_scale(kind)) * places > P_THRESHOLD
        # A square that took the noise of a product, or the other way round, is far out.
        other = share_scale("squares" if kind == "products" else "products")
        assert p_of_scale(honest.shares[:, 0, chosen][:, 0], other) < P_THRESHOLD


def test_entries_parties_and_releases_are_independent(honest: Releases) -> None:
    assert p_of_independence(honest.shares.reshape(MOMENTS_RUNS, -1).astype(np.float64)) > P_THRESHOLD


class OneForAllEntries:
    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        return np.repeat(SecureNoise().discrete_gaussian(scale, (shape[0], 1)), shape[1], axis=1)


class OneAfterTheOther:
    """A tenth of every draw's variance is that of the draw before."""

    def __init__(self) -> None:
        self.before: dict[tuple[int, int], Noise] = {}

    def discrete_gaussian(self, scale: float, shape: tuple[int, int]) -> Noise:
        fresh = SecureNoise().discrete_gaussian(scale, shape)
        mixed = np.rint(math.sqrt(0.9) * fresh + math.sqrt(0.1) * self.before.get(shape, 0)).astype(np.int64)
        self.before[shape] = fresh
        return mixed


@pytest.mark.parametrize(
    ("noise", "runs"),
    [
        (dict.fromkeys(PARTIES, OneForAllEntries()), 50),
        ({party: SeededNoise(3) for party in PARTIES}, 50),  # every party has the same
        ({party: OneAfterTheOther() for party in PARTIES}, 600),
    ],
    ids=["entries", "parties", "releases"],
)
def test_noise_that_hangs_together_is_rejected(noise: Mapping[str, NoiseSource], runs: int) -> None:
    """Equal columns have correlation 1, however few the runs. A draw and the one before have sqrt(.1), which is t = 8.1 (1) in 600
    runs, for each of some 400 columns; some 3e5 correlations ask for t = 9.0 of the largest, which is missed with less than 1e-30.
    """
    shares = make(noise, runs).shares
    assert p_of_independence(shares.reshape(runs, -1).astype(np.float64)) < P_THRESHOLD


def test_the_masks_cancel_to_the_last_bit(honest: Releases) -> None:
    assert (honest.noise == honest.shares.sum(axis=1)).all()
    assert not (honest.blocks.view(np.int64) == honest.shares).any()  # and before that they hide; 2^-61 for each


@pytest.mark.parametrize("parties", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], ids=str)
def test_blocks_look_uniform_until_the_last_is_added(honest: Releases, parties: tuple[int, ...]) -> None:
    seen, every = (
        reduce(FIELD.add, np.moveaxis(honest.blocks[:, some], 1, 0)) << np.uint64(3) for some in (parties, (0, 1, 2))
    )
    assert p_of_uniformity(seen) > P_THRESHOLD
    assert p_of_uniformity(seen << np.uint64(53)) > P_THRESHOLD  # the lowest bits
    assert p_of_uniformity(every) < P_THRESHOLD


def test_what_follows_from_other_entries_has_no_noise_of_its_own(honest: Releases) -> None:
    for released in honest.released[:10]:
        moments = NoisyMoments.read(LAYOUT, released, SPEC.rows, SPEC.grid_bits, TERMS.scales, len(PARTIES))
        kinds = [kind_of(variable) for variable in LAYOUT.variables]
        levels = [place for place, kind in enumerate(kinds, 1) if kind == "level"]
        (binary,) = (place for place, kind in enumerate(kinds, 1) if kind == "binary")
        assert (moments.gram[levels, levels] == moments.gram[0, levels]).all()
        assert (moments.noise_sd[levels, levels] == moments.noise_sd[0, levels]).all()
        within = moments.gram[np.ix_(levels, levels)]
        assert (within == np.diag(np.diag(within))).all()
        assert moments.gram[binary, binary] == moments.gram[0, 0] == SPEC.rows
        assert moments.noise_sd[binary, binary] == moments.noise_sd[0, 0] == 0
        assert len(set(moments.gram[0, 1:])) == len(kinds)  # each sum has its own

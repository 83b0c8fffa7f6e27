"""The sampler's decisions, one at a time: bits are handed in, and what they must decide is computed by other means.

Laplace noise on the integers: its law, decisions that need more bits, and what it costs in the ledgers' mu^2.

The public stream is AES-256 in counter mode, to the bit, from any position.
"""

import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtri_exp

from dprelease.errors import InvalidInput
from dprelease.privacy.calibration import LARGE, epsilon_within, mu2_of_epsilon
from dprelease.privacy.discrete_gaussian import MARGIN, discrete_gaussian
from dprelease.privacy.discrete_laplace import discrete_laplace
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.public_stream import PublicStream

DIGITS = 80
ONES = (1 << 64) - 1
TOP = 1 << 63  # the sign, in the word that holds the offset


class Handed:
    """Bits from a list, then from `rest`; remembers how many words were read."""

    def __init__(self, *words: int, rest: int = 0) -> None:
        self.given = list(words)
        self.rest = rest
        self.read = 0

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        self.read += count
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken + [self.rest] * (count - len(taken)), np.uint64)


class Seeded:
    """A fast seeded source, for shares of many draws."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        return self._generator.integers(0, ONES, count, np.uint64, endpoint=True)


def first(scale: float, strip: int, offset: int, keep: int, *more: int, rest: int = 0, margin: float = MARGIN) -> int:
    """The draw that begins with these words; those after it are zeros, which are the strip 0 and the offset 0."""
    together = 18  # candidates of one draw: their first words come first, then the second ones, then the third
    words = [strip, *[0] * (together - 1)]
    tied = list(more) if _tied(scale, strip) else []
    words += tied
    words += [offset, *[0] * (together - 1), keep, *[0] * (together - 1)]
    words += [] if tied else list(more)
    return int(discrete_gaussian(scale, 1, Handed(*words, rest=rest), margin)[0])


def _tied(scale: float, word: int) -> bool:
    return word in {begin(share) for share in shares(scale)}


def width(scale: float) -> int:
    t = 1
    while 2 * t <= scale / 16:
        t *= 2
    return t


@cache
def shares(scale: float, digits: int = DIGITS) -> list[Fraction]:
    """F_v, until it is 1 to the digits."""
    with mpmath.workdps(digits + 10):
        t, sigma, weights = width(scale), mpmath.mpf(scale), [mpmath.mpf(1)]
        while weights[-1] > mpmath.mpf(10) ** -(digits + 5):
            weights.append(mpmath.exp(-((t * len(weights) / sigma) ** 2) / 2))
        total = mpmath.fsum(weights)
        return [exact(mpmath.fsum(weights[: strip + 1]) / total) for strip in range(len(weights))]


def exact(number: mpmath.mpf) -> Fraction:
    return Fraction(int(mpmath.floor(mpmath.ldexp(number, 500))), 1 << 500)


def begin(number: Fraction) -> int:
    """Its first 64 bits."""
    return int(number * (1 << 64))


SCALES = [1e-9, 0.3, 2.5, 15.99, 16.0, 17.0, 1000.1, 2.0**30 + 0.1, 2.0**55]


@pytest.mark.parametrize("scale", SCALES)
def test_a_strip_begins_where_the_distribution_function_says(scale: float) -> None:
    words = [begin(share) for share in shares(scale)]
    for strip, word in list(enumerate(words))[:200:7]:
        if word + 1 < ONES:
            assert first(scale, word - 1, 0, 0) <= strip * width(scale)
            assert first(scale, word + 1, 0, 0) > strip * width(scale)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_a_tie_between_strips_is_decided_by_further_bits(scale: float) -> None:
    word = begin(shares(scale)[0])
    assert first(scale, word, 0, 0, 0) == 0
    assert first(scale, word, 0, 0, ONES) == width(scale)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_no_strip_is_cut_off(scale: float) -> None:
    """256 bits of ones lie as far out as 256 bits can tell, and one word more that is below the middle ends the draw."""
    wanted = next(strip for strip, share in enumerate(shares(scale, 110)) if share > 1 - Fraction(1, 1 << 256))
    assert first(scale, ONES, 0, 0, ONES, ONES, ONES, 0) == wanted * width(scale)


@pytest.mark.parametrize("scale", [17.0 * 16, 1000.1, 2.0**55])
def test_a_candidate_is_kept_with_its_probability_to_the_last_bit(scale: float) -> None:
    t, offset = width(scale), width(scale) - 1
    with mpmath.workdps(DIGITS):
        base, sigma = 4 * t, mpmath.mpf(scale)
        probability = mpmath.exp(-(2 * base * offset + mpmath.mpf(offset) ** 2) / (2 * sigma**2))
        near = begin(exact(probability))
    strip, far = begin(shares(scale)[4]) - 5, 1 << 21  # 2^-43 is beyond the margin
    assert first(scale, strip, offset, near - far) == base + offset
    assert first(scale, strip, offset, near + far) == 0  # drawn again, from zeros
    assert first(scale, strip, offset, near - 1) == base + offset
    assert first(scale, strip, offset, near + 1) == 0
    assert first(scale, strip, offset, near, 0) == base + offset
    assert first(scale, strip, offset, near, ONES) == 0


def test_further_bits_are_read_only_where_they_are_needed() -> None:
    bits = Handed(rest=1 << 60)
    discrete_gaussian(1000.1, 1, bits)
    assert bits.read == 3 * 18


def test_the_sign_is_a_bit_and_minus_zero_is_drawn_again() -> None:
    scale = 1000.1
    strip = begin(shares(scale)[0]) - 5
    assert first(scale, strip, 3, 0) == 3
    assert first(scale, strip, TOP | 3, 0) == -3
    bits = Handed(*[0] * 18, *[TOP] * 17, 5, rest=0)
    assert discrete_gaussian(scale, 1, bits)[0] == 5  # seventeen times minus zero, then five


@pytest.mark.parametrize("margin", [MARGIN, 1.0])
@pytest.mark.parametrize("scale", [0.5, 2.5, 40.3])
def test_integers_come_as_often_as_the_law_says(scale: float, margin: float) -> None:
    """In double precision with exact arithmetic behind it, and in exact arithmetic alone."""
    size = 400_000 if margin == MARGIN else 20_000
    drawn = discrete_gaussian(scale, size, Seeded(1), margin)
    reach = int(6 * scale) + 2
    support = np.arange(-reach, reach + 1)
    law = np.exp(-(support**2) / (2 * scale**2))
    law /= law.sum()
    found = np.array([np.mean(drawn == value) for value in support])
    error = np.sqrt(law * (1 - law) / size)
    common = law * size > 50
    assert np.all(np.abs(found - law)[common] < 4.5 * error[common])


def test_as_many_as_asked_for_in_the_order_in_which_they_come() -> None:
    long = discrete_gaussian(1e6, 100_000, Seeded(2))
    assert long.shape == (100_000,)
    assert discrete_gaussian(1e6, 0, Seeded(2)).shape == (0,)


TOGETHER = 18
"""Candidates of one draw for a wide scale: first their words for strips, then those for offsets, then those for keeping."""


def first_laplace(scale: int, strip: int, offset: int, keep: int) -> int:
    rest = [0] * (TOGETHER - 1)
    words = [strip, *[ONES] * (TOGETHER - 1), offset, *rest, keep, *rest]
    return int(discrete_laplace(scale, 1, Handed(*words, rest=0))[0])


@pytest.mark.parametrize("margin", [MARGIN, 1.0])
@pytest.mark.parametrize("scale", [1, 3, 40])
def test_integers_come_as_often_as_the_law_of_laplace_says(scale: int, margin: float) -> None:
    size = 400_000 if margin == MARGIN else 20_000
    drawn = discrete_laplace(scale, size, Seeded(1), margin)
    support = np.arange(-15 * scale, 15 * scale + 1)
    law = np.exp(-np.abs(support) / scale) * math.tanh(1 / (2 * scale))
    found = np.array([np.mean(drawn == value) for value in support])
    common = law * size > 50
    assert np.all(np.abs(found - law)[common] < 4.5 * np.sqrt(law * (1 - law) / size)[common])


@pytest.mark.parametrize("scale", [1000, 123_456_789, 1 << 49])
def test_a_wide_law_by_its_quantiles(scale: int) -> None:
    drawn = np.abs(discrete_laplace(scale, 200_000, Seeded(2))) / scale
    for share in (0.01, 0.5, 0.9, 0.999):
        error = math.sqrt(share * (1 - share) / len(drawn))
        assert abs(np.mean(drawn <= -math.log1p(-share)) - share) < 5 * error + 1 / scale


def test_a_strip_is_decided_to_the_last_bit() -> None:
    """P[v or more] = exp(-v w/t): a uniform number just below it, and just above."""
    scale, width = 1000, 32
    with mpmath.workdps(80):
        begin = int(mpmath.floor(mpmath.exp(mpmath.mpf(-5 * width) / scale) * mpmath.mpf(2) ** 64))
    assert first_laplace(scale, begin - 1, 0, 0) == 5 * width
    assert first_laplace(scale, begin + 1, 0, 0) == 4 * width
    for bit, strip in ((0, 5), (ONES, 4)):
        words = [begin, *[ONES] * (TOGETHER - 1), bit, *[0] * (2 * TOGETHER)]
        assert discrete_laplace(scale, 1, Handed(*words, rest=0))[0] == strip * width


def test_the_sign_and_the_offset() -> None:
    assert first_laplace(1000, ONES - 1, 7, 0) == 7
    assert first_laplace(1000, ONES - 1, TOP | 7, 0) == -7


def test_an_offset_is_kept_as_often_as_it_weighs() -> None:
    with mpmath.workdps(80):
        weight = int(mpmath.exp(mpmath.mpf(-7) / 1000) * mpmath.mpf(2) ** 64)
    for near in (1, 1 << 44):  # decided by exact arithmetic, and by doubles
        assert first_laplace(1000, ONES - 1, 7, weight - near) == 7
        assert first_laplace(1000, ONES - 1, 7, weight + near) == 0


@pytest.mark.parametrize("scale", [0, -1, 1 << 50])
def test_a_scale_that_the_door_refuses(scale: int) -> None:
    with pytest.raises(InvalidInput, match="noise scale"):
        SecureNoise().discrete_laplace(scale, (1, 1))


def test_the_production_source_draws_afresh() -> None:
    one, two = (SecureNoise().discrete_laplace(1 << 40, (4, 5)) for _ in range(2))
    assert one.shape == (4, 5)
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 2.6, 8 / 3, 4.0, 10.0, 100.0, 1000.0])
def test_its_price_covers_the_trade_off_function(epsilon: float) -> None:
    """Exact mu of f_epsilon: -2 Phi^-1(1/(1 + e^epsilon)); the price is never below, and at most 1.01 times for small epsilon."""
    kink = -epsilon - math.log1p(math.exp(-epsilon))
    exact = (2 * float(ndtri_exp(kink))) ** 2
    price = float(mu2_of_epsilon(Fraction(epsilon)))
    assert price >= exact * (1 - 1e-9)
    assert price <= exact * (1.01 if epsilon <= 0.1 else 1.65)
    mu = math.sqrt(price)
    for alpha in np.concatenate([np.geomspace(1e-12, 0.5, 60), 1 - np.geomspace(1e-12, 0.5, 60)]):
        pure = max(0.0, 1 - math.exp(min(epsilon, 700)) * alpha, math.exp(-epsilon) * (1 - alpha))
        z = float(ndtri_exp(math.log(alpha)))
        assert math.exp(float(log_ndtr(-z - mu))) <= pure + 1e-12


@pytest.mark.parametrize("mu2", ["1/1000000", "7/100", "1", "11", "12", "40", "5000"])
def test_the_largest_epsilon_within_a_price(mu2: str) -> None:
    found = epsilon_within(Fraction(mu2))
    assert mu2_of_epsilon(found) <= Fraction(mu2)
    assert mu2_of_epsilon(found + Fraction(2, 10**12)) > Fraction(mu2)
    assert mu2_of_epsilon(LARGE) <= 8 * LARGE - 5


# NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt), with its counter block as the stream's position.
NIST_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
NIST_COUNTER = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
NIST_KEYSTREAM = "0bdf7df1591716335e9a8b15c860c502"


def test_published_vector_of_counter_mode() -> None:
    assert PublicStream(NIST_KEY).read(NIST_COUNTER * 16, 16).hex() == NIST_KEYSTREAM


def test_first_bytes_of_a_fixed_seed() -> None:
    assert PublicStream(bytes(range(32))).read(0, 32).hex() == (
        "f29000b62a499fd0a9f39a6add2e7780f05d76ae4ab99fe5a6f69b3148c2363d"
    )


@given(st.integers(0, 1 << 40), st.integers(0, 100))
def test_every_block_is_the_encrypted_counter(block: int, size: int) -> None:
    seed = bytes(range(32))
    encrypt = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()  # noqa: S305 - the definition of counter mode
    blocks = b"".join(encrypt.update((block + i).to_bytes(16, "big")) for i in range(size // 16 + 1))
    assert PublicStream(seed).read(block * 16, size) == blocks[:size]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_reading_in_parts_is_reading_at_once(start: int, first: int, second: int) -> None:
    stream = PublicStream(bytes(32))
    whole = stream.read(16 * start, 16 * (first + second))
    assert stream.read(16 * start, 16 * first) + stream.read(16 * (start + first), 16 * second) == whole


def test_seeds_give_different_streams() -> None:
    assert PublicStream(bytes(32)).read(0, 16) != PublicStream(bytes(31) + b"\x01").read(0, 16)


@pytest.mark.parametrize("seed", [b"", bytes(16), bytes(31), bytes(33)])
def test_seed_of_another_length_is_refused(seed: bytes) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        PublicStream(seed)


@pytest.mark.parametrize(("offset", "size"), [(1, 16), (15, 1), (-16, 16), (0, -1)])
def test_positions_between_blocks_are_refused(offset: int, size: int) -> None:
    with pytest.raises(InvalidInput):
        PublicStream(bytes(32)).read(offset, size)

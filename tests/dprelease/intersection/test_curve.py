"""Hash and scalars on Curve25519 against plain arithmetic, and the refusal of all that is not a point of the curve."""

import hashlib
from secrets import token_bytes

import pytest

from dprelease.errors import IntegrityError
from dprelease.intersection import curve

P = 2**255 - 19
RUN = bytes(range(32))

BASE = (9).to_bytes(32, "little")
SCALAR = bytes(range(100, 132))
ONCE = bytes.fromhex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079")  # RFC 7748, 5.2


def is_square(value: int) -> bool:
    return pow(value, (P - 1) // 2, P) == 1


def right_side(u: int) -> int:
    return (u**3 + 486662 * u**2 + u) % P


def plain_hash(run: bytes, element: bytes) -> bytes:
    """The same hash, from its description."""
    for counter in range(200):
        text = b"dprelease/intersection/point/v1" + run + element + counter.to_bytes(4, "big")
        u = int.from_bytes(hashlib.sha256(text).digest(), "little") % 2**255
        if u < P and is_square(right_side(u)):
            return u.to_bytes(32, "little")
    raise AssertionError


def test_multiplication_is_x25519() -> None:
    assert curve.multiplied(BASE, BASE) == ONCE


@pytest.mark.parametrize(
    ("element", "point"),
    [
        (bytes(32), "30e947fd0dc71de996dd9bbd40f1682e2cf3622b36febd85e5e393ddb3f9ee20"),
        (
            bytes(range(32, 64)),
            "b18f063181c682a5cb9a76d5feebc3eab983a33383c214f60a51cafac5635424",
        ),  # at the third attempt
        (bytes([255] * 32), "35c73b9e67eaf5c9d601b48b81d01363fc818c2303e767cea2329bd03a44500e"),
    ],
)
def test_the_hash_has_known_answers(element: bytes, point: str) -> None:
    assert curve.hash_to_curve(RUN, element).hex() == point


def test_the_hash_is_the_first_candidate_on_the_curve() -> None:
    elements = [token_bytes(32) for _ in range(40)]
    points = [curve.hash_to_curve(RUN, each) for each in elements]
    assert points == [plain_hash(RUN, each) for each in elements]
    assert curve.hash_to_curve(bytes(32), elements[0]) != points[0]


def test_one_more_scalar_exchanges_the_blinding_for_the_secret() -> None:
    """For every pair of scalars, without drawing again."""
    for _ in range(30):
        secret, blinding, element = token_bytes(32), token_bytes(32), token_bytes(32)
        last = curve.quotient(secret, blinding)
        assert curve.scalar_of(last) == int.from_bytes(last, "little")  # clamped already
        blinded = curve.blinded(element, RUN, blinding)
        point = curve.hash_to_curve(RUN, element)
        assert curve.multiplied(blinded, last) == curve.multiplied(point, secret)
        other = token_bytes(32)
        there = curve.multiplied(blinded, other)
        evaluation = hashlib.sha512(
            b"dprelease/intersection/evaluation/v1" + RUN + curve.multiplied(curve.multiplied(point, secret), other)
        )
        assert curve.evaluated(there, RUN, last) == evaluation.digest()


def test_functions_of_many_are_those_of_each() -> None:
    elements = [token_bytes(32) for _ in range(3)]
    points = curve.blinded(b"".join(elements), RUN, SCALAR)
    assert points == b"".join(curve.blinded(each, RUN, SCALAR) for each in elements)
    each = [points[32 * place : 32 * place + 32] for place in range(3)]
    assert curve.multiplied(points, SCALAR) == b"".join(curve.multiplied(point, SCALAR) for point in each)


def twist() -> int:
    return next(u for u in range(2, 100) if not is_square(right_side(u)))


@pytest.mark.parametrize(
    "u",
    [
        twist(),  # of the twist, which multiplication would keep: one bit of an element
        0,
        1,  # of order 4
        325606250916557431795983626356110631294008115727848805560023387167927233504,  # of order 8
        9 + 2**255,  # the same point, written in another way
        P + 9,
        2**256 - 1,
    ],
)
def test_what_is_no_point_of_the_curve_is_refused(u: int) -> None:
    for function in (lambda data: curve.multiplied(data, SCALAR), lambda data: curve.evaluated(data, RUN, SCALAR)):
        with pytest.raises(IntegrityError, match="point"):
            function(BASE + u.to_bytes(32, "little"))

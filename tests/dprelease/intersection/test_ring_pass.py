"""What each hop sees of others' elements, and the refusal of whatever a hop or a relay alters."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import combinations
from unittest.mock import patch

import pytest

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.intersection import curve
from dprelease.intersection.session import AlignmentExchange
from dprelease.mpc.messages import MessageHeader
from tests.dprelease.intersection.conftest import SETS
from tests.dprelease.intersection.driver import RUN, Driver, element, side_of
from tests.hostile.faults import Fault, Kind, each

TWO = {"a": [1, 2, 3], "b": [3, 1]}


def seen_by(driver: Driver, party: str) -> dict[str, list[bytes]]:
    """Origin to the points that a party receives, opened with its session key."""
    found: dict[str, list[bytes]] = {}
    for origin in driver.ring.parties:
        points = b"".join(side_of(driver, party)._received(origin, lambda chunk: chunk))
        found[origin] = [points[start : start + 32] for start in range(0, len(points), 32)]
    return found


def test_no_hop_sees_what_the_secrets_make_of_anybodys_element(finished: Driver) -> None:
    """Nor what any of the secrets make of it, nor its hash: for all patients of all hospitals."""
    scalars = [side_of(finished, party).secret("scalar") for party in SETS]
    known: set[bytes] = set()
    for name in {patient for names in SETS.values() for patient in names}:
        for count in range(len(scalars) + 1):
            for some in combinations(scalars, count):
                point = curve.hash_to_curve(bytes.fromhex(RUN), element(name))
                for scalar in some:
                    point = curve.multiplied(point, scalar)
                known.add(point)
    everything: list[bytes] = []
    for party in SETS:
        seen = seen_by(finished, party)
        assert {origin: len(points) for origin, points in seen.items()} == {each: len(SETS[each]) for each in SETS}
        everything += [point for points in seen.values() for point in points]
    assert not known & set(everything)
    assert len(set(everything)) == len(everything)  # and no point is there twice, at any hop


def test_everybody_gets_the_same_evaluations_of_the_same_patients(finished: Driver) -> None:
    by_party = {}
    for party, names in SETS.items():
        order = side_of(finished, party).order(finished.elements[party])
        evaluations = side_of(finished, party).evaluations()
        by_party[party] = {names[place]: bytes(row) for place, row in zip(order, evaluations, strict=True)}
    for name in (1, 2, 3, 9):
        assert len({found[name] for found in by_party.values() if name in found}) == 1


def points_from(driver: Driver, sender: str, origin: str) -> MessageHeader:
    return next(h for h in driver.listed if (h.kind, h.sender, h.dealer) == ("points", sender, origin))


@contextmanager
def sending(change: Callable[[bytes], bytes]) -> Iterator[None]:
    """A party whose software changes the points that it passes on."""
    original = AlignmentExchange._send_points

    def changed(party: AlignmentExchange, origin: str, points: Iterator[bytes]) -> None:
        original(party, origin, points if origin == party.party else map(change, points))

    with patch.object(AlignmentExchange, "_send_points", changed):
        yield


def twist(points: bytes) -> bytes:
    return (2).to_bytes(32, "little") + points[32:]


def top_bit(points: bytes) -> bytes:
    return points[:31] + bytes([points[31] | 128]) + points[32:]


def zero(points: bytes) -> bytes:
    return bytes(32) + points[32:]


def twice(points: bytes) -> bytes:
    return points[:32] * 2 + points[64:]


def shifted(points: bytes) -> bytes:
    """Beside the first point its sum with (0, 0), of order 2, whose u is the inverse: any clamped scalar makes one of both."""
    return (
        points[:32] + pow(int.from_bytes(points[:32], "little"), -1, 2**255 - 19).to_bytes(32, "little") + points[64:]
    )


def swapped(points: bytes) -> bytes:
    return points[64:] + points[:64]


NAMED = "the run is held, and the hop named; no table leaves"


def passes_on(what: str, change: Callable[[bytes], bytes], stays: str = NAMED) -> Fault:
    said = f"a hospital passes on patients {what}"
    return Fault(said, "hospital", Kind.HELD, IntegrityError, stays, lambda: change)


NO_POINTS = [
    passes_on("as points of the curve's twist", twist),
    passes_on("as points with a bit too many", top_bit),
    passes_on("as zeros", zero),
    passes_on("with one of them twice", twice),
    passes_on("with points that become one when they are multiplied", shifted),
]
SWAPPED = passes_on("in another order", swapped, "the results differ, and nothing is aligned")
FAULTS = [*NO_POINTS, SWAPPED]


@each(NO_POINTS)
def test_a_hop_that_sends_no_points_is_named(fault: Fault) -> None:
    change = fault.act()
    words = "a point twice" if change in (twice, shifted) else "not a point"
    cheat: dict[str, Callable[[], AbstractContextManager[object]]] = {"b": partial(sending, change)}
    driver = Driver(dict(TWO), cheat=cheat)
    with pytest.raises(IntegrityError, match=f"b sent, for patients of a: .*{words}"):
        driver.run()
    assert not any(header.kind in ("table", "key") and header.sender == "a" for header in driver.listed)


def test_a_hop_is_not_blamed_for_points_that_only_its_own_multiplication_makes_one() -> None:
    driver = Driver({"a": [1, 2, 3], "b": [3, 1], "c": [3, 9]}, cheat={"b": partial(sending, shifted)})
    with pytest.raises(IntegrityError, match="b sent, for patients of a: a point twice"):
        driver.run()


@each([SWAPPED])
def test_a_hop_that_swaps_patients_is_found_out_before_anybody_uses_the_result(fault: Fault) -> None:
    cheat: dict[str, Callable[[], AbstractContextManager[object]]] = {"b": partial(sending, fault.act())}
    with pytest.raises(IntegrityError, match="did not find the same common patients"):
        Driver({"a": [1, 2, 3], "b": [1, 7, 8, 9]}, cheat=cheat).run()


def test_bytes_that_the_relay_alters_are_not_blamed_on_their_sender() -> None:
    driver = Driver(dict(TWO))
    for party in "ab":
        driver.look(party)
    header = points_from(driver, "b", "b")
    _, body = driver.listed[header]

    def fetch(wanted: MessageHeader) -> Iterator[bytes]:
        if wanted != header:
            yield from Driver.fetch(driver, wanted)
            return
        yield body[:200] + bytes([body[200] ^ 1]) + body[201:] if len(body) > 200 else body[:-1] + b"!"
        raise IntegrityError("the relay handed out what was not signed")

    driver.fetch = fetch  # type: ignore[method-assign]
    with pytest.raises(IntegrityError, match=r"^the relay handed out what was not signed"):
        driver.look("a")
    assert points_from(driver, "a", "a")


def test_the_order_is_a_secret_permutation_of_just_these_elements(finished: Driver) -> None:
    side = side_of(finished, "a")
    order = side.order(finished.elements["a"])
    assert sorted(order) == [0, 1, 2, 3]
    assert list(order) == list(side_of(finished, "a").order(finished.elements["a"]))
    with pytest.raises(InvalidInput, match="the patients changed"):
        side.order(finished.elements["a"][::-1].copy())

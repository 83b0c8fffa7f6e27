"""Proofs among six hospitals in three groups, ab, cd and ef: one of them deviates in any role, and nothing is published or read.

Hospital c deals for all pairs within ab and between ab and ef, hospital f for those between ab and cd. So a proves to b of its own
group with the help of c, and b proves to c of the next group with the help of f.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from dprelease.arrays import Codes
from dprelease.canonical import sha256
from dprelease.errors import ProofRefused
from dprelease.mpc import exchange, session
from dprelease.mpc.exchange import Exchange
from dprelease.mpc.messages import Message, MessageHeader, sign_message
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.proof.claim import Claim, GridInterval
from dprelease.mpc.proofs import Proofs
from dprelease.mpc.schedule import CorrelatedRandomness, DealtSeeds, Schedule
from dprelease.mpc.session import Products
from tests.dprelease.mpc.test_proofs import STOPS, TOO_LARGE, altered, answers_otherwise, kinds
from tests.dprelease.mpc.test_session import KEYS, Driver
from tests.hostile.faults import Fault, Kind

PARTIES = "abcdef"
CLAIMS = {name: Claim((GridInterval(-1024, 1024),)) for name in PARTIES}
SCHEDULE = Schedule(sha256(b"in groups"), dict.fromkeys(PARTIES, 1), 7, 10, 1, True, FIELD, CLAIMS, groups=3)


@dataclass
class Relay(Driver):
    """Shows some hospitals another message in one place, which its sender signed too.

    Attributes:
        place: kind and sender of the message.
        change: its header's fields and its body there.
        deceived: who sees that one.
    """

    place: tuple[str, str] = ("", "")
    change: Callable[[MessageHeader, bytes], tuple[dict[str, object], bytes]] = lambda header, body: ({}, body)
    deceived: str = ""
    viewer: str = ""
    others: dict[MessageHeader, tuple[Message, bytes]] = field(default_factory=dict)

    def look(self, party: str) -> str | Products:
        self.viewer = party
        return super().look(party)

    def messages(self) -> tuple[Message, ...]:
        listed = super().messages()
        return tuple(map(self._other, listed)) if self.viewer in self.deceived else listed

    def fetch(self, header: MessageHeader) -> Iterator[bytes]:
        others = dict(self.others.values())
        bodies = {message.header: body for message, body in others.items()}
        yield bodies[header] if header in bodies else self.listed[header][1]

    def _other(self, message: Message) -> Message:
        header = message.header
        if (header.kind, header.sender) != self.place:
            return message
        if header not in self.others:
            fields, body = self.change(header, self.listed[header][1])
            self.others[header] = sign_message(KEYS[header.sender], header.model_copy(update=fields)), body
        return self.others[header][0]


def ends(driver: Driver) -> dict[str, str | Products | Exception]:
    """How it ends for each hospital, when none can do more."""
    ended: dict[str, str | Products | Exception] = {}
    sent = -1
    while sent != len(driver.listed):
        sent = len(driver.listed)
        for name in PARTIES:
            if isinstance(ended.get(name, ""), str):
                try:
                    ended[name] = driver.look(name)
                except ProofRefused as error:
                    ended[name] = error
    return ended


def refused(driver: Driver) -> str:
    """The hospitals that refuse, when nobody has products."""
    ended = ends(driver)
    assert not any(isinstance(each, Products) for each in ended.values())
    return "".join(name for name, each in ended.items() if isinstance(each, ProofRefused))


def out_of_bounds(patch: pytest.MonkeyPatch, driver: Driver, liar: str) -> None:
    patch.setattr(exchange, "masked", altered(driver, liar))


def two_faced(liar: str, dealer: str) -> Callable[[Exchange, Codes, CorrelatedRandomness], None]:
    """It masks another cell under one of its dealers."""
    mask = Exchange.mask

    def call(self: Exchange, codes: Codes, dealt: CorrelatedRandomness) -> None:
        other = codes.copy()
        other[3, 0] += TOO_LARGE if (self.party, dealt.dealer) == (liar, dealer) else 0
        mask(self, other, dealt)

    return call


TWO_FACED = Fault(
    "a hospital masks other columns for one hospital than for another",
    "hospital",
    Kind.DECLINED,
    ProofRefused,
    STOPS,
    two_faced,
)
COINS = Fault(
    "a hospital and the relay show two hospitals different coins",
    "hospital",
    Kind.DECLINED,
    ProofRefused,
    "no comparison adds up, and none shows more; nobody makes a block, and after three refused rounds the hospital declines",
    lambda header: {"payload": sha256(b"another coin")},
)
RESULTS = Fault(
    "a hospital and the relay show two hospitals different parts of a comparison",
    "hospital",
    Kind.HARMLESS,
    None,
    "one of them begins the next round, and the other has made its block and makes no second one; nothing is published, and the "
    "charge stands",
    lambda body: bytes(8) + body[8:],
)
FAULTS = [TWO_FACED, COINS, RESULTS]


def shows_two_faces(patch: pytest.MonkeyPatch, driver: Driver, liar: str, dealer: str) -> None:
    patch.setattr(Exchange, "mask", TWO_FACED.act(liar, dealer))


def adds_otherwise(patch: pytest.MonkeyPatch, driver: Driver, liar: str, prover: str) -> None:
    """It says another part of a comparison than it has."""
    part = Proofs._part

    def call(self: Proofs, about: str) -> int:
        return (part(self, about) + ((self._party, about) == (liar, prover))) % FIELD.p

    patch.setattr(Proofs, "_part", call)


def compares_otherwise(patch: pytest.MonkeyPatch, driver: Driver, liar: str, prover: str) -> None:
    """A dealer whose help no proof needs takes the fingerprint of other masks than it dealt."""
    compare = DealtSeeds.compare

    def call(self: DealtSeeds, about: str, same: Any) -> None:
        compare(self, about, same)
        same.value += self is driver.seeds[liar] and about == prover

    patch.setattr(DealtSeeds, "compare", call)


DEVIATES: dict[str, tuple[Callable[..., None], tuple[Any, ...], str]] = {
    "a prover, to a verifier of its group": (out_of_bounds, ("a",), "b"),
    "a prover, to a verifier of the next group": (out_of_bounds, ("b",), "c"),
    "a prover, to receivers of another group than its verifier's": (shows_two_faces, ("a", "f"), PARTIES),
    "a prover, to receivers of its group, which do not verify": (shows_two_faces, ("b", "c"), PARTIES),
    "a dealer, about proofs within a group and to the next": (answers_otherwise, (0,), "ab"),
    "a dealer, in a comparison": (compares_otherwise, ("f", "a"), PARTIES),
    "a receiver, in a comparison": (adds_otherwise, ("d", "a"), PARTIES),
}
"""Who deviates, and who refuses: whoever is proved to, or all where columns are compared."""


def test_the_roles_are_those_of_this_page() -> None:
    roles = {
        prover: {dealer: SCHEDULE.verifiers(prover, dealer) for dealer in SCHEDULE.dealers_of(prover)}
        for prover in "ab"
    }
    assert roles == {"a": {"c": ("b",), "f": ()}, "b": {"c": (), "f": ("c",)}}


@pytest.mark.parametrize("role", DEVIATES)
def test_whoever_deviates_ends_the_session_before_any_product(monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    monkeypatch.setattr(session, "MOST_REFUSED", 1)  # the later rounds are as the first, with everything dealt anew
    deviates, given, refuse = DEVIATES[role]
    driver = Driver(SCHEDULE)
    deviates(monkeypatch, driver, *given)
    assert refused(driver) == refuse


def test_different_coins_for_two_hospitals_add_up_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hospital b tosses two coins about a, and the relay shows the second one to a whole group."""
    monkeypatch.setattr(session, "MOST_REFUSED", 1)
    driver = Relay(SCHEDULE, place=("coin", "b"), change=lambda header, body: (COINS.act(header), body), deceived="cd")
    assert refused(driver) == PARTIES
    assert kinds(driver, 1)["checked"] == len(PARTIES)


def test_different_parts_for_two_hospitals_cost_the_release_and_show_nothing() -> None:
    """What others say of its columns an altered hospital cannot change, so that only its own word has two versions."""

    def change(header: MessageHeader, body: bytes) -> tuple[dict[str, object], bytes]:
        other = RESULTS.act(body)
        return {"sha256": sha256(other)}, other

    driver = Relay(SCHEDULE, place=("checked", "b"), change=change, deceived="d")
    ended = ends(driver)
    assert [name for name in PARTIES if isinstance(ended[name], Products)] == [
        *"bc"
    ]  # those that looked before d refused
    for name in "adef":
        assert "waits for b, c to join the computation, round 2; if one of them has made its block" in str(ended[name])
    assert kinds(driver, 2) == {"hello": 4}  # nothing is masked anew

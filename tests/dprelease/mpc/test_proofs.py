"""Proofs in a session: no products before all hold, and one answer of a dealer, whoever restarts, lies or swaps messages."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from dprelease.arrays import Codes
from dprelease.errors import Conflict, IntegrityError, Irreparable, ProofRefused
from dprelease.mpc import exchange, session
from dprelease.mpc.encryption import commitment
from dprelease.mpc.exchange import masked
from dprelease.mpc.messages import CHALLENGES, Message, MessageHeader, check_message, sign_message
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.proof.claim import Claim, GridInterval, OneHot, RowNorm
from dprelease.mpc.proofs import Proofs
from dprelease.mpc.ring import Words
from dprelease.mpc.round import Round, session_key
from dprelease.mpc.schedule import COORDINATOR, CorrelatedRandomness, DealtSeeds, Pair, Schedule, deal
from dprelease.mpc.session import MOST_REFUSED, Products
from tests.dprelease.intersection.driver import Died, MortalStorage
from tests.dprelease.mpc.test_session import KEYS, NAMES, Driver, schedule_for
from tests.hostile.faults import Fault, Kind
from tests.support.altered import moved

TOO_LARGE = 1 << 30


class Forgetful(Driver):
    """A process that dies has forgotten the seeds that it dealt."""

    def look(self, party: str) -> str | Products:
        try:
            return super().look(party)
        except Died:
            self.seeds[party] = DealtSeeds()
            return "died"


def three(driver: type[Driver] = Driver) -> Driver:
    return driver(schedule_for(2, 1, 3, rotating=True, proofs=True))


def kinds(driver: Driver, number: int) -> Counter[str]:
    return Counter(header.kind for header in driver.listed if header.round == number)


def test_a_session_ends_wherever_a_process_dies() -> None:
    """Each write of one party is the last thing that its process does, one after the other, until there are no more."""
    whole = three(Forgetful)
    whole.storages["b"] = MortalStorage(1 << 20)
    while "b sends transcript" not in whole.told:
        before = deepcopy(whole)  # what comes before it is the subject of test_session
        for name in NAMES:
            whole.look(name)
    for dies_at in count():
        driver = deepcopy(before)
        mortal = driver.storages["b"]
        assert isinstance(mortal, MortalStorage)
        mortal.left = dies_at
        made = driver.run("abc")
        for pair in driver.schedule.pairs:
            left, right = (driver.matrices[name].astype(np.int64) for name in pair.parties)
            total = FIELD.add(made[pair.first].shares[pair], made[pair.second].shares[pair])
            assert (FIELD.signed(total) == left.T @ right).all()
        rounds = max(header.round for header in driver.listed)
        assert rounds <= 2
        for number in range(1, rounds + 1):
            Round.of(
                driver.schedule, number, driver.messages()
            )  # no place has two messages: no second answer, no second challenge
        if mortal.left >= 0:
            break
    assert dies_at > 20


def test_nothing_is_challenged_before_it_is_fixed() -> None:
    driver = three()
    driver.run("abc")
    place = {told: at for at, told in reversed([*enumerate(driver.told)])}
    for receiver in NAMES:
        after = [place[f"{name} sends transcript"] for name in NAMES]
        assert place[f"{receiver} sends challenge-1"] > max(after)
    listed = [*driver.listed]
    by_digest = {header.digest(): listed.index(header) for header in listed}
    for header in listed:
        if header.kind in CHALLENGES[1:]:
            assert by_digest[header.payload] < listed.index(header)
            assert len(driver.listed[header][1]) == (96 if header.kind == "challenge-3" else 32)
    seeds = [driver.listed[header][1][-32:] for header in listed if header.kind in CHALLENGES]
    assert len(set(seeds)) == len(seeds) == 9  # each for itself, none derived from another's
    assert kinds(driver, 1) == {
        "hello": 3, "deal": 6, "columns": 6, "bits": 3, "key": 6, "transcript": 3, "coin": 3, "challenge-1": 3, "matrices": 3,
        "challenge-2": 3, "lines": 3, "challenge-3": 3, "answer": 3, "checked": 3,
    }  # fmt: skip


def altered(driver: Driver, liar: str) -> Callable[[Codes, bytes, Schedule], Iterator[Words]]:
    """Masks as ours does, but one cell of the liar's, the same under each dealer."""

    def call(codes: Codes, mask: bytes, schedule: Schedule) -> Iterator[Words]:
        for chunk in masked(codes, mask, schedule):
            more = np.uint64(TOO_LARGE if codes is driver.matrices[liar] else 0)
            chunk[4:5, 0] = FIELD.add(chunk[4:5, 0], more)
            yield chunk

    return call


STOPS = (
    "nobody has all products, or makes a block; after three refused rounds the hospital declines, and the charge stands"
)
OUT_OF_BOUNDS = Fault(
    "a hospital masks a cell beyond its bounds", "hospital", Kind.DECLINED, ProofRefused, STOPS, altered
)
OTHER_CHALLENGE = Fault(
    "the relay tells a prover another challenge than the dealer",
    "hospital",
    Kind.HARMLESS,
    None,
    "the round is refused; in the next one everything is dealt anew, and the release goes on",
    lambda body: bytes(len(body)),
)
SWAPPED = Fault(
    "a hospital and the relay show another part of a proof once they know its challenge",
    "hospital",
    Kind.HELD,
    Irreparable,
    "the release is held; no second challenge is sent",
    lambda at, shown: at.message(KEYS["a"], "a", shown.kind, shown.receivers, body=(shown.size, "0" * 64)),
)
OTHER_FORM = Fault(
    "a message of a proof has another size, receiver, dealer or payload than the spec calls for",
    "hospital",
    Kind.HELD,
    IntegrityError,
    "the message is not one of the session",
    lambda header, change: header.model_copy(update=CHANGES[change](header)),
)
FAULTS = [OUT_OF_BOUNDS, OTHER_CHALLENGE, SWAPPED, OTHER_FORM]


@pytest.mark.parametrize("rotating", [True, False])
@pytest.mark.parametrize("liar", ["a", "b"])  # first and second in the pair
def test_a_cell_beyond_its_bounds_ends_the_session(monkeypatch: pytest.MonkeyPatch, rotating: bool, liar: str) -> None:
    """The range attack: a cell of 2^30 would show a row of the others in the products. It is refused, and nothing is multiplied."""
    driver = Driver(schedule_for(*((2, 1, 3) if rotating else (2, 1)), rotating=rotating, proofs=True))
    monkeypatch.setattr(exchange, "masked", OUT_OF_BOUNDS.act(driver, liar))
    said: list[str | Products] = []
    with OUT_OF_BOUNDS.refused() as caught:
        said.extend(driver.look(name) for _ in range(60) for name in driver.schedule.parties)
    assert caught.match(f"failed in {MOST_REFUSED} rounds.*Nobody can tell whose.*docs/faults.md")
    assert not any(isinstance(each, Products) for each in said)
    rounds = max(header.round for header in driver.listed)
    assert rounds == MOST_REFUSED
    assert driver.told.count(f"{liar} is charged") == rounds  # the ledger takes it once
    assert driver.storages[driver.schedule.tosser(liar)].read_private(f"share+{liar}") is None  # its verifier


LEVEL, NUMBER = GridInterval(0, 16, 16), GridInterval(-16, 16)
CATEGORY = Claim((LEVEL, LEVEL), (OneHot((0, 1), 16),))
BROKEN = {
    "a category without a level": (CATEGORY, [0, 0], [0, 0]),
    "a category with two": (CATEGORY, [16, 16], [1, 1]),
    "numbers that are too long together": (Claim((NUMBER, NUMBER), (), (RowNorm((0, 1), 300),)), [16, 9], [32, 25, 0]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_rows_that_break_a_claim_as_their_bits_say_end_the_session(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(session, "MOST_REFUSED", 1)
    (claim, row, steps), driver, said = BROKEN[how], three(), list[str | Products]()
    driver.schedule = replace(driver.schedule, claims={**driver.schedule.claims, "a": claim})
    driver.matrices = {name: np.zeros_like(codes) for name, codes in driver.matrices.items()}
    driver.matrices["a"][:] = row
    bits = {"a": claim.packed([np.full(7, each) for each in steps])}
    monkeypatch.setattr(
        driver, "bits", lambda party, of: bits[party] if party in bits else of.bits(driver.matrices[party])
    )
    with pytest.raises(ProofRefused, match="in 1 rounds"):
        said.extend(driver.look(name) for _ in range(20) for name in NAMES)
    assert not any(isinstance(each, Products) for each in said)


@pytest.mark.parametrize("pooling", [1, 2])
def test_one_honest_verifier_of_t_is_enough(monkeypatch: pytest.MonkeyPatch, pooling: int) -> None:
    """A hospital with a cell of 2^30 pools with its first verifier, which accepts all. With t = 2 there is another one."""
    driver = Driver(schedule_for(2, 1, 3, rotating=False, proofs=True, pooling=pooling))
    monkeypatch.setattr(exchange, "masked", altered(driver, "a"))
    share = exchange.Exchange.share

    def lenient(self: exchange.Exchange, pair: Pair, codes: Codes, dealt: CorrelatedRandomness, *checks: Any) -> Words:
        return share(self, pair, codes, dealt, *(() if self.party == "b" else checks))

    monkeypatch.setattr(exchange.Exchange, "share", lenient)
    if pooling == 1:
        assert len(driver.run("abc")) == 3  # two cheat where the session is for one
        return
    monkeypatch.setattr(session, "MOST_REFUSED", 1)
    with pytest.raises(ProofRefused, match="failed in 1 rounds"):
        driver.run("abc")


def test_a_dealer_that_always_holds_nothing_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round masks all columns anew: a coordinator that restarts for ever, or says so, is not waited for."""
    monkeypatch.setattr(session, "MOST_FORGOTTEN", 2)
    driver = Driver(schedule_for(2, 1, rotating=False, proofs=True))

    def gone(asked: Message, body: bytes) -> bytes:
        raise Conflict("the coordinator holds nothing of this session any more")

    driver.request_answer = gone  # type: ignore[method-assign]
    said: list[str | Products] = []
    with pytest.raises(
        ProofRefused, match=r"holds nothing of this session any more, in round 2: .* propose the release anew"
    ):
        said.extend(driver.look(name) for _ in range(20) for name in driver.schedule.parties)
    assert max(header.round for header in driver.listed) == 2
    assert not any(isinstance(each, Products) for each in said)


def deals_otherwise(monkeypatch: pytest.MonkeyPatch, driver: Driver, receiver: str, byte: int) -> None:
    """Hospital c deals something else than it computes, and answers with."""

    def lying(schedule: Schedule, dealer: str, *given: Any) -> dict[str, bytes]:
        made = dict(deal(schedule, dealer, *given))
        return made | ({receiver: moved(made[receiver], byte)} if dealer == "c" else {})

    monkeypatch.setattr(exchange, "deal", lying)


def answers_otherwise(monkeypatch: pytest.MonkeyPatch, driver: Driver, byte: int) -> None:
    answer = driver.seeds["c"].answer
    monkeypatch.setattr(driver.seeds["c"], "answer", lambda *given: moved(answer(*given), byte))


def refuses_falsely(monkeypatch: pytest.MonkeyPatch, driver: Driver) -> None:
    share = exchange.Exchange.share

    def call(self: exchange.Exchange, *given: Any) -> Words:
        if self.party == "b":
            raise ProofRefused("the proof that masked columns lie in their bounds failed")
        return share(self, *given)

    monkeypatch.setattr(exchange.Exchange, "share", call)


DEVIATES: dict[str, Callable[[pytest.MonkeyPatch, Driver], None]] = {
    "deals another mask than it answers about": lambda patch, driver: deals_otherwise(patch, driver, "a", 0),
    "deals other bits than it answers about": lambda patch, driver: deals_otherwise(patch, driver, "a", 32),
    "deals another mask than it compares": lambda patch, driver: deals_otherwise(patch, driver, "b", 0),
    "answers with another element of g": lambda patch, driver: answers_otherwise(patch, driver, 0),
    "answers with another scalar": lambda patch, driver: answers_otherwise(patch, driver, -8),
    "refuses falsely": refuses_falsely,
}


@pytest.mark.parametrize("how", DEVIATES)
def test_a_dealer_or_a_verifier_that_deviates_stops_the_release(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It gains nothing else, and nobody can tell that it was not the prover. One refused round stands for three."""
    driver, said = three(), list[str | Products]()
    monkeypatch.setattr(session, "MOST_REFUSED", 1)
    DEVIATES[how](monkeypatch, driver)
    with pytest.raises(ProofRefused, match=r"in 1 rounds\. Nobody can tell whose"):
        said.extend(driver.look(name) for _ in range(60) for name in NAMES)
    assert not any(isinstance(each, Products) for each in said)


def test_a_wrong_correction_of_a_dealer_spoils_a_number_and_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """All proofs hold: it is about columns. The product is off by what the dealer added, whatever the columns are."""
    driver = three()
    deals_otherwise(monkeypatch, driver, "b", -8)
    made = driver.run("abc")
    for pair in driver.schedule.pairs:
        left, right = (driver.matrices[name].astype(np.int64) for name in pair.parties)
        total = FIELD.add(made[pair.first].shares[pair], made[pair.second].shares[pair])
        off = FIELD.signed(total) - left.T @ right
        assert off.any() == (pair.dealer == "c")
        assert set(off.ravel().tolist()) <= {0, 1, -255}  # a byte of 255 turns over


def test_a_prover_that_hears_another_challenge_is_refused() -> None:
    """The relay, or a receiver, tells the prover something else than the dealer: the answers do not fit, and show nothing."""
    driver = three()
    fetch = driver.fetch

    def lying(header: MessageHeader) -> object:
        body = b"".join(fetch(header))
        yield OTHER_CHALLENGE.act(body) if header.kind == "challenge-1" and header.round == 1 else body

    driver.fetch = lying  # type: ignore[method-assign, assignment]
    driver.run("abc")
    assert max(header.round for header in driver.listed) == 2
    assert kinds(driver, 1)["checked"] == 0


@pytest.mark.parametrize(("kind", "asked"), [("matrices", "challenge-2"), ("lines", "challenge-3")])
def test_a_message_that_was_answered_cannot_be_swapped(kind: str, asked: str) -> None:
    """The relay and a prover together show a receiver one message, hear its challenge, and then show another one."""
    driver = three()
    while not any((each.kind, each.sender) == (asked, "b") for each in driver.listed):
        for name in NAMES:
            driver.look(name)
    shown = next(each for each in driver.listed if (each.kind, each.sender, each.receivers) == (kind, "a", ("b",)))
    state = driver.storages["a"].state()
    assert state is not None
    at = Round.of(driver.schedule, state.round, driver.messages())
    other = SWAPPED.act(at, shown)
    listed = tuple(other if message.header == shown else message for message in driver.messages())
    driver.listed[other.header] = other, driver.listed[shown][1]
    both = driver.session("b")
    with SWAPPED.refused() as caught:
        both.receive(driver.messages())
    assert caught.match("two different messages")
    session = driver.session("b")
    session.receive(listed)
    with SWAPPED.refused() as caught:
        session.advance()
    assert caught.match("another message than the one that we have answered")


@pytest.mark.parametrize("kept", ["shown+a", "dealt+a"])
def test_a_coin_that_was_seen_cannot_be_swapped(kept: str) -> None:
    """Else the relay and a party that tosses two coins read <rho1 - rho2, Q>, exact, from what another party adds to the sum."""
    driver = three()
    while driver.storages["c"].read_private(kept) is None:
        for name in NAMES:
            driver.look(name)
    tossed = next(each for each in driver.listed if (each.kind, each.sender) == ("coin", "b"))
    other = sign_message(KEYS["b"], tossed.model_copy(update={"payload": "5e" * 32}))
    session = driver.session("c")
    session.receive(tuple(other if message.header == tossed else message for message in driver.messages()))
    with pytest.raises(Irreparable, match="b is listed with another coin than the one that we have seen"):
        session.advance()


def test_a_coin_that_was_seen_serves_until_the_end() -> None:
    """A relay that lists it to one party and then no more stops nothing."""

    class Hiding(Driver):
        viewer = ""

        def look(self, party: str) -> str | Products:
            self.viewer = party
            return super().look(party)

        def messages(self) -> tuple[Message, ...]:
            listed, own = super().messages(), self.storages["c"].read_private
            hides = self.viewer == "c" and own("coin+a") is not None and own("coin+b") is not None
            return tuple(
                each for each in listed if not hides or each.header.kind != "coin" or each.header.sender == "c"
            )

    three(Hiding).run("abc")


def test_masks_of_a_comparison_depend_on_the_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a relay that shows two hospitals different coins would read a sum over the columns of a third one."""
    part, seen = Proofs._part, list[Proofs]()

    def noted(proofs: Proofs, prover: str) -> int:
        seen.append(proofs)
        return part(proofs, prover)

    monkeypatch.setattr(Proofs, "_part", noted)
    three().run("abc")
    proofs, prover = seen[0], seen[0]._peers[0]
    tossed = proofs._coins[prover]
    assert tossed is not None
    monkeypatch.setattr(proofs._storage, "read_private", lambda name: None)  # no terms, hence the mask alone
    masks = set()
    for seed in (tossed.seed, bytes(32)):
        other = replace(tossed, seed=seed)
        monkeypatch.setitem(proofs._coins, prover, other)
        masks.add(part(proofs, prover))
    assert len(masks) == 2


def test_keys_and_blinding_are_of_one_dealer_and_one_purpose() -> None:
    """Bits under the key of columns would show the dealer u xor U; chi is fixed by what was signed before any challenge."""
    driver = three()
    driver.run("abc")

    def side(party: str) -> exchange.Exchange:
        opened = driver.session(party)
        opened.receive(driver.messages())
        assert opened._at is not None
        state, at = opened._at
        key, storage, outside = session_key(state), driver.storages[party], opened._outside
        return exchange.Exchange(at, party, KEYS[party], key, storage, outside.fetch, driver.draw, outside)

    made, seen = side("a"), list[bytes]()
    for dealer in "bc":
        key, shown = made.secret("content-key", dealer), made.at.find("columns", "a", dealer=dealer)
        assert shown is not None
        assert shown.payload == commitment(key)
        seen += [key, *(made._derived(purpose, key, "a", dealer) for purpose in ("own-bits", "own-chi"))]
    assert len(set(seen)) == 6
    assert side("b").verifier("a", bytes).chi == seen[-1]  # under the mask that c dealt


def test_a_dealer_answers_once_and_forgets() -> None:
    schedule, seeds = schedule_for(2, 1, rotating=False, proofs=True), DealtSeeds()
    deal(schedule, COORDINATOR, kept=seeds)
    answer = seeds.answer("5e" * 32, "a", "b", bytes(range(96)))
    assert len(answer) == schedule.message_size("answer", "a") - 48
    for prover, receiver in (("a", "b"), ("b", "c")):
        with pytest.raises(Conflict, match="or holds nothing any more"):
            seeds.answer("5e" * 32, prover, receiver, bytes(96))
    seeds.forget()
    with pytest.raises(Conflict):
        seeds.answer("5e" * 32, "b", "a", bytes(96))


CHANGES: dict[str, Callable[[MessageHeader], dict[str, object]]] = {
    "one more row": lambda header: {"size": header.size + 8},
    "another receiver": lambda header: {"receivers": ("b", "c") if header.receivers != ("b", "c") else ("b",)},
    "another dealer": lambda header: {"dealer": "c" if header.dealer != "c" else "b"},
    "a payload more or less": lambda header: {"payload": "" if header.payload else "5e" * 32},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_message_of_another_form_is_not_one_of_the_session(change: str) -> None:
    driver = three()
    driver.run("abc")
    refused = set()
    for header in driver.listed:
        if header.kind in {"bits", "coin", "matrices", "lines", "answer", "checked", *CHALLENGES}:
            other = OTHER_FORM.act(header, change)
            for schedule, changed in ((driver.schedule, other), (schedule_for(2, 1, 3, rotating=True), header)):
                with OTHER_FORM.refused() as caught:
                    check_message(Message(header=changed, signature=""), schedule)
                assert caught.match("the schedule of this release does not have")
            refused.add(header.kind)
    assert len(refused) == 9

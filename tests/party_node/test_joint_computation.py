"""A session from keys to blocks: exact in whatever order hospitals look, and each step only after those it rests on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes

import numpy as np
import pytest

from dprelease.errors import Conflict, DataRefused, IntegrityError, PeerUnavailable
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mpc import ring
from dprelease.mpc.exchange import Exchange
from dprelease.mpc.messages import MOST_ROUNDS
from dprelease.mpc.round import Round, columns_expected
from tests.party_node.joint_post import MemoryRelay
from tests.party_node.joint_world import MADE, JointWorld, joint_spec
from tests.support.joint import entries, exact_gram
from tests.support.noise import RecordingNoise

KINDS: list[dict[str, object]] = [
    {"count": 2},
    {"count": 3},
    {"count": 3, "dealer": "coordinator"},
    {"count": 4, "curious": 2},
    {"count": 5},
]


def world_of(folder: Path, **changed: object) -> JointWorld:
    return JointWorld(folder, joint_spec(**changed))  # type: ignore[arg-type]


def exact(world: JointWorld) -> bool:
    return world.released() == entries(world.spec, exact_gram(world.spec, world.tables))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_in_any_order_the_blocks_add_up_to_the_gram_matrix(
    folder: Path, kind: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        monkeypatch.setattr(ring, "CHUNK_BYTES", (8 * 2 * 6, 1 << 20)[seed])  # a few rows a chunk, or all of them
        world = world_of(folder / str(seed), rows=24 + seed, **kind)
        assert (world.schedule.chunks > 2) == (seed == 0)
        world.run(seed=seed)
        assert exact(world)
        assert len(world.post.given) == len({message.header.place for _, message, _ in world.post.given})


def test_every_hospital_draws_its_noise_once_and_the_sum_is_off_by_it(folder: Path) -> None:
    world = world_of(folder, count=3)
    for site in world.sites.values():
        site.noise = RecordingNoise()
    world.run()
    drawn = np.zeros(layout_of(world.spec).entries, np.int64)
    for site in world.sites.values():
        assert isinstance(site.noise, RecordingNoise)
        (others, diagonal) = site.noise.draws
        drawn[~layout_of(world.spec).diagonal] += others.values[0]
        drawn[layout_of(world.spec).diagonal] += diagonal.values[0]
    assert [a - b for a, b in zip(world.released(), drawn.tolist(), strict=True)] == entries(
        world.spec, exact_gram(world.spec, world.tables)
    )


@pytest.mark.parametrize("kind", KINDS[:3], ids=str)
def test_each_step_comes_after_those_it_rests_on(folder: Path, kind: dict[str, object]) -> None:
    world = world_of(folder, **kind)
    world.run(seed=5)
    first = {what: index for index, what in reversed(list(enumerate(world.events)))}
    last = {what: index for index, what in enumerate(world.events)}
    sent = [what for what in first if what[1].startswith("send ")]
    offered = max(last[name, "send hello"] for name in world.sites)
    assert all(first[name, what] > offered for name, what in sent if what != "send hello")
    for name in world.sites:
        dealers = [dealer for dealer in world.schedule.dealers_of(name) if dealer]
        for dealer in dealers:
            assert first[name, "send columns"] > first[dealer, "send deal"]
        assert first[name, "bounded"] < first[name, "charge"] < first[name, "send columns"]
        assert last[name, "use seeds"] < first[name, "charge"]
        assert world.events.count((name, "charge")) == 1
        others = [other for other in world.sites if other != name]
        assert first[name, "send transcript"] > max(last[other, "send columns"] for other in others)
        assert first[name, "fetch columns"] > max(last[other, "send transcript"] for other in others)


def refused() -> None:
    raise DataRefused("the columns changed after they were approved")


def unreserved() -> None:
    raise Conflict("nothing is reserved for this release")


@pytest.mark.parametrize(("call", "error"), [("bounded", refused), ("charge", unreserved)])
def test_without_rows_or_charge_nothing_is_masked(folder: Path, call: str, error: Callable[[], None]) -> None:
    world = world_of(folder, count=3)
    for _ in range(4):
        for name in ("b", "c"):
            world[name].look()
        computation = world["a"].computation()
        if call == "charge":
            computation.session._outside = replace(computation.session._outside, charge=error)
        else:
            computation._bounded = error  # type: ignore[assignment]
        try:
            said = computation.advance()
            assert str(said).startswith("waits for")
        except (DataRefused, Conflict) as raised:
            stopped = raised
    assert stopped.message
    assert ("a", "charge") not in world.events  # rows that are refused cost nothing
    assert {message.header.kind for name, message, _ in world.post.given if name == "a"} == {"hello", "deal"}
    assert {path.name for path in (world["a"].folder / "joint" / "out").iterdir() if "columns" in path.name} == set()
    assert not any(site.block for site in world.sites.values())
    world.run()
    assert exact(world)


def test_it_says_for_whom_it_waits(folder: Path) -> None:
    world = world_of(folder, count=3)
    assert world["a"].look() == "waits for b, c to join the computation"
    assert world["b"].look() == "waits for c to join the computation"
    assert world["c"].look() == "waits for what b deals"
    assert world["b"].look() == "waits for what a deals"
    assert world["a"].look() == "waits for the masked columns of b, c"
    assert world["b"].look() == "waits for the masked columns of c"
    assert world["c"].look() == "waits for a, b to confirm what it has seen"
    assert world["b"].look() == "waits for a to confirm what it has seen"
    assert world["a"].look() == MADE
    two = world_of(folder / "two", count=2)
    two["a"].look()

    def away(schedule: object, dealer: str, kept: object) -> None:
        raise PeerUnavailable("the deal is being made; ask again")

    deals, two.office.deals = two.office.deals, away
    assert two["b"].look() == "waits for what the coordinator deals"
    two.office.deals = deals
    assert two["b"].look() == "waits for the masked columns of a"


def test_a_relay_that_comes_and_goes_changes_nothing(folder: Path) -> None:
    world = world_of(folder, count=3)
    generator, failed = np.random.default_rng(7), 0
    serves = world.post.serves

    def breaks(party: str, header: object, body: bytes) -> bytes:
        if generator.random() < 0.4:
            raise PeerUnavailable("the stream stood still")
        return serves(party, header, body)  # type: ignore[arg-type]

    world.post.serves = breaks
    for _ in range(200):
        name = str(generator.choice(world.schedule.parties))
        world.post.away = bool(generator.random() < 0.3)
        try:
            world[name].look()
        except PeerUnavailable:
            failed += 1
    assert failed > 20
    assert exact(world)
    assert len({message.header.place for _, message, _ in world.post.given}) == len(world.post.messages)


def test_a_relay_that_forgets_gets_the_same_messages_again(folder: Path) -> None:
    """Also from hospitals whose block is made, as `JointWork.keep_up` puts them back."""
    world = world_of(folder, count=3)
    while world["a"].block is None:
        for name in "bca":
            world[name].look()
    assert (world["b"].block, world["c"].block) == (None, None)
    before = dict(world.post.messages)
    world.post.messages.clear()
    for _ in range(3):
        for name in ("b", "c"):
            try:
                world[name].look()
            except Conflict:
                assert len(world.post.offers(1)) < 3  # the relay has no session before all offers are back
        relay = MemoryRelay(world.post, "a", world["a"].tick, world["a"].alters)
        relay.put(world["a"].session.outgoing(), relay.messages())
    assert world.post.messages == before
    assert exact(world)


def test_a_relay_that_lists_nothing_of_what_it_takes_holds_nobody_up(folder: Path) -> None:
    world = world_of(folder, count=2)
    world.post.lists = lambda party, messages: ()
    with pytest.raises(PeerUnavailable, match="does not list messages that it has just taken"):
        world["a"].look()
    world.post.lists = lambda party, messages: (*messages, *messages)  # nor one that lists everything twice
    world.run()
    assert exact(world)


def test_columns_under_our_own_deal_are_never_opened(folder: Path) -> None:
    """Even if the relay handed them out to their dealer, with a key for it."""
    world = world_of(folder, count=3)
    for name in (*"abc", *"abc"):
        world[name].look()
    site, post = world["c"], world.post
    pair = next(pair for pair in world.schedule.pairs if pair.dealer == "c")
    at = Round.of(world.schedule, 1, post.messages.values())
    outside = site.computation().session._outside
    exchange = Exchange(at, "c", site.member.key, site.session_key, site.session, outside.fetch, token_bytes, outside)
    fetched = len(post.handed)
    for sender in (pair.first, pair.second):
        with pytest.raises(IntegrityError, match=f"{sender} masked its columns with seeds that we dealt"):
            list(exchange._columns(sender, "c"))
    assert len(post.handed) == fetched


@pytest.mark.parametrize("count", [2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_masked_columns_go_to_partners_and_never_to_their_dealer(folder: Path, count: int) -> None:
    world = world_of(folder, count=count, rows=4)
    world.run(order=world.schedule.parties)
    columns = [message.header for _, message, _ in world.post.given if message.header.kind in {"columns", "key"}]
    assert {("columns", header.sender, header.dealer) for header in columns} == columns_expected(world.schedule)
    for header in columns:
        assert header.dealer not in header.receivers
        assert header.sender not in header.receivers
    for party, header, _ in world.post.handed:
        assert party in header.receivers
        assert party != header.dealer


def test_after_too_many_fresh_starts_somebody_must_look(folder: Path) -> None:
    world = world_of(folder, count=2)
    world.post.strict = False
    world["a"].session.begin(MOST_ROUNDS)
    world["a"].look()
    world["a"].lose()
    with pytest.raises(IntegrityError, match="begun 64 times without an end"):
        world["a"].look()

"""The relay: a session's parcels come in, in their rounds, and go to their receivers and to nobody else.

The relay: who may send, list and fetch, and what is no parcel of the release.
"""

from collections.abc import Iterator

import pytest

from dprelease.errors import AccessDenied, Conflict, IntegrityError, InvalidInput, NotFound
from dprelease.mpc.messages import Message
from dprelease.wire.v1 import release_pb2
from learner.hub import mailbox
from learner.hub.mailbox import PAGE_BYTES
from learner.hub.storage import Storage
from tests.learner.parcels import THREE_PARTIES, Hospitals, Office
from tests.learner.world import World, pieces, publish_to
from tests.support.certificates import mint

PARTIES = tuple(THREE_PARTIES)


def test_it_goes_on_where_it_broke_off(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    body = make.body(parcel)

    def broken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(body)[:3]
        raise ConnectionError

    assert office.open(parcel) == 0
    with pytest.raises(ConnectionError):
        office.send(parcel, broken())
    office.restart()
    assert office.open(parcel) == 300
    with pytest.raises(IntegrityError, match="go on from there"):
        office.send(parcel, pieces(body, start=300)[:2])
    assert office.open(parcel) == 500
    with pytest.raises(NotFound, match="complete"):
        office.fetch(parcel, "south")
    assert parcel not in office.listed()
    office.send(parcel, pieces(body, size=70, start=490))
    assert office.fetch(parcel, "south") == body
    assert office.fetch(parcel, "south", 100) == body[100:]
    assert office.fetch(parcel, "south", len(body)) == b""
    with pytest.raises(InvalidInput, match="nothing at"):
        office.fetch(parcel, "south", len(body) + 1)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_break_between_the_last_byte_and_the_answer(office: Office, make: Hospitals, damaged: bool) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    body = make.body(parcel)
    sent = body[:-1] + bytes([body[-1] ^ damaged])

    def broken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(sent)
        raise ConnectionError

    office.open(parcel)
    with pytest.raises(ConnectionError):
        office.send(parcel, broken())
    assert parcel not in office.listed()
    assert office.open(parcel) == (0 if damaged else len(body))
    assert (parcel in office.listed()) is not damaged
    office.bring(parcel)
    assert office.fetch(parcel, "south") == body


def test_a_short_body_comes_with_its_parcel_and_several_are_fetched_at_once(office: Office, make: Hospitals) -> None:
    office.begin()
    parcels = [make.columns("north", "west"), make.key("north", "west", "south")]
    for parcel in parcels:
        caller, body = office.caller(parcel.header.sender), make.body(parcel)
        with pytest.raises(IntegrityError, match="differs from its header"):
            office.relay.open_parcels(caller, [(parcel.to_bytes(), bytes(len(body)))])
        with pytest.raises(IntegrityError, match="the upload ended at byte"):
            office.relay.open_parcels(caller, [(parcel.to_bytes(), body[:-1])])
        assert parcel not in office.listed()
        for _ in range(2):
            assert office.relay.open_parcels(caller, [(parcel.to_bytes(), body)]) == [len(body)]
        assert parcel in office.listed()
    south, release = office.caller("south"), office.sealed.digest
    digests = [parcel.header.digest() for parcel in parcels]
    assert office.relay.short_bodies(south, release, digests) == [make.body(parcel) for parcel in parcels]
    with pytest.raises(AccessDenied):
        office.relay.short_bodies(office.caller("west"), release, digests)
    many = 1 + PAGE_BYTES // len(make.body(parcels[0]))
    with pytest.raises(InvalidInput, match="ask for fewer"):
        office.relay.short_bodies(south, release, digests[:1] * many)


def test_the_same_parcel_again_is_welcome(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    office.bring(parcel)
    again = make.columns("north", "west")
    assert again.header == parcel.header
    assert again.signature != parcel.signature  # a signature is made anew each time; what counts is the header
    assert office.open(again) == parcel.header.size
    assert office.send(again, pieces(make.body(parcel))) == parcel.header.sha256
    assert office.send(again, []) == parcel.header.sha256
    with pytest.raises(IntegrityError):
        office.send(again, pieces(bytes(parcel.header.size)))
    assert office.open(make.offer("north")) == 0
    assert [each.header for each in office.listed()].count(parcel.header) == 1
    assert len(office.listed()) == 4


def test_the_newest_upload_wins(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    body = make.body(parcel)

    def overtaken() -> Iterator[release_pb2.Chunk]:
        yield from pieces(body)[:2]
        office.bring(parcel)
        yield from pieces(body)[2:]

    office.open(parcel)
    with pytest.raises(Conflict, match="newer upload"):
        office.send(parcel, overtaken())
    assert office.fetch(parcel, "south") == body


@pytest.mark.parametrize("when", ["announced", "complete"])
def test_another_parcel_in_the_same_place_is_refused(office: Office, make: Hospitals, when: str) -> None:
    office.begin()
    with pytest.raises(Conflict, match="another hello"):
        office.open(make.offer("north", key="another"))
    parcel = make.columns("north", "west")
    office.open(parcel)
    if when == "complete":
        office.bring(parcel)
    other = make.signed(parcel.header.model_copy(update={"sha256": "0" * 64}))
    with pytest.raises(Conflict, match="another columns"):
        office.open(other)
    office.bring(parcel)
    assert office.fetch(parcel, "south") == make.body(parcel)


def test_parcels_of_no_or_another_session_are_refused(office: Office, make: Hospitals) -> None:
    early = make.transcript("north")
    for party in PARTIES[:2]:
        office.bring(make.offer(party))
    for parcel in (
        early,
        make.columns("north", "west"),
        make.deal("west", "north"),
        make.key("north", "west", "south"),
    ):
        with pytest.raises(Conflict, match="another session"):
            office.open(parcel)
    office.bring(make.offer("west"))
    for stale in (make.transcript("north", session="0" * 64), make.deal("west", "north", session=make.session(2))):
        with pytest.raises(Conflict, match="another session"):
            office.open(stale)
    office.bring(early)


def test_a_hub_that_lost_its_parcels_takes_the_round_that_the_parties_are_in(office: Office, make: Hospitals) -> None:
    office.bring(make.offer("north", 7), make.offer("west", 7))
    with pytest.raises(Conflict, match="nobody has begun round 8 yet"):
        office.open(make.offer("south", 9))


def test_a_round_stays_until_a_later_one_has_an_offer_of_every_party(office: Office, make: Hospitals) -> None:
    first = list(make.everything(1))
    office.bring(*first)
    second = [make.offer(party, 2) for party in PARTIES]
    office.bring(*second[:2])
    assert office.listed() == [*first, *second[:2]]
    columns = next(parcel for parcel in first if parcel.header.kind == "columns")
    assert office.fetch(columns, columns.header.receivers[0]) == make.body(columns)
    north = office.caller("north")
    _, last, mark = office.relay.listed(north, office.sealed.digest, 0)
    assert office.relay.listed(north, office.sealed.digest, last, mark) == ([], last, mark)
    office.bring(second[2])
    assert office.listed() == second
    assert office.files("body") == []
    found, end, later = office.relay.listed(north, office.sealed.digest, last, mark)
    assert (found, end, later != mark) == ([each.to_bytes() for each in second], last + 1, True)
    assert office.relay.listed(north, office.sealed.digest, last) == ([second[2].to_bytes()], end, later)
    with pytest.raises(NotFound):
        office.fetch(columns, columns.header.receivers[0])
    for stale in (columns, first[0], make.transcript("south")):
        with pytest.raises(Conflict, match="round 1 was abandoned"):
            office.open(stale)
    with pytest.raises(Conflict, match="abandoned"):
        office.send(columns, pieces(make.body(columns)))
    rest = [parcel for parcel in make.everything(2) if parcel.header.kind != "hello"]
    office.bring(*rest)
    assert [parcel.header for parcel in office.listed()] == [parcel.header for parcel in (*second, *rest)]


def test_an_upload_whose_round_is_abandoned_ends(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")

    def slow() -> Iterator[release_pb2.Chunk]:
        yield from pieces(make.body(parcel))[:2]
        office.begin(2)
        yield from pieces(make.body(parcel))[2:]

    office.open(parcel)
    with pytest.raises(Conflict, match="abandoned"):
        office.send(parcel, slow())
    assert office.files("part") == []


def test_parcels_that_come_together_are_taken_up_to_the_first_that_is_refused(
    office: Office, make: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.begin()
    hellos, north = office.listed(), office.caller("north")
    parcels = [each for each in make.everything() if each.header.sender == "north" and each.header.kind != "hello"]
    announced = [(each.to_bytes(), make.body(each)) for each in parcels]
    assert parcels[2].header.size
    wrong = parcels[2].to_bytes(), bytes(parcels[2].header.size)
    with pytest.raises(IntegrityError, match="differs from its header"):
        office.relay.open_parcels(north, [*announced[:2], wrong, *announced[3:]])
    assert office.listed() == [*hellos, *parcels[:2]]
    appended: list[int] = []
    append = mailbox.append_durably
    monkeypatch.setattr(mailbox, "append_durably", lambda *what: (appended.append(1), append(*what)))
    for _ in range(2):
        assert office.relay.open_parcels(north, announced) == [each.header.size for each in parcels]
        assert office.listed() == [*hellos, *parcels]
        assert len(appended) == 1  # for all together, once
        office.restart()
    for strange in ([], [announced[0], (make.offer("south").to_bytes(), b"")]):
        with pytest.raises((InvalidInput, AccessDenied)):
            office.relay.open_parcels(north, strange)


@pytest.mark.parametrize("page_bytes", [10, 2000])
def test_a_listing_goes_on_where_the_last_one_ended(
    office: Office, make: Hospitals, monkeypatch: pytest.MonkeyPatch, page_bytes: int
) -> None:
    everything = list(make.everything())
    office.bring(*everything)
    monkeypatch.setattr("learner.hub.mailbox.PAGE_BYTES", page_bytes)
    found, last = list[Message](), 0
    north = office.caller("north")
    while True:
        page, last, _ = office.relay.listed(north, office.sealed.digest, last)
        if not page:
            break
        assert len(page) == 1 or sum(map(len, page)) <= page_bytes
        found += map(Message.from_bytes, page)
    assert found == make.concerning("north", everything)
    assert office.relay.listed(north, office.sealed.digest, last)[:2] == ([], last)
    assert office.relay.listed(north, office.sealed.digest, (1 << 64) - 1)[:2] == ([], (1 << 64) - 1)
    monkeypatch.undo()
    office.begin(2)
    assert [parcel.header.round for parcel in office.listed(after=last)] == [2, 2, 2]
    office.restart()
    assert [parcel.header.round for parcel in office.listed(after=last)] == [2, 2, 2]


def test_a_restart_finds_everything_in_order(office: Office, make: Hospitals) -> None:
    everything = list(make.everything())
    shuffled = [*everything[:3], *reversed(everything[3:])]
    office.bring(*shuffled)
    before = office.listed()
    assert before == shuffled
    office.restart()
    assert office.listed() == before
    for parcel in everything:
        assert office.open(parcel) == parcel.header.size
    with pytest.raises(Conflict):
        office.open(make.offer("north", key="another"))


def test_a_dropped_release_is_forgotten(office: Office, make: Hospitals) -> None:
    office.bring(*make.everything())
    office.storage.drop(office.sealed.digest)
    office.storage.keep_record(office.world.record(office.sealed))
    office.restart()
    assert office.listed() == []
    assert office.files("body") == []


def test_only_the_sender_may_open_and_send(office: Office, make: Hospitals) -> None:
    offer = make.offer("north")
    for member in (office.world.parties["south"], office.world.hub, mint("north", "hub", office.world.root)):
        with pytest.raises(AccessDenied):
            office.open(offer, member)
    with pytest.raises(AccessDenied):
        office.open(offer, mint("north", "party", office.world.root))  # another key of the same name
    office.begin()
    parcel = make.columns("north", "west")
    office.open(parcel)
    with pytest.raises(AccessDenied):
        office.send(parcel, pieces(make.body(parcel)), by="south")
    assert office.open(parcel) == 0


def test_only_joint_moments_have_parcels(storage: Storage, trio: World, make: Hospitals) -> None:
    mixed = trio.sealed()
    office = Office(storage, trio, mixed)
    header = make.offer("north").header.model_copy(update={"task": mixed.digest})
    with pytest.raises(InvalidInput, match="'mixed'"):
        office.open(make.signed(header))
    with pytest.raises(InvalidInput, match="'mixed'"):
        office.relay.listed(office.caller("north"), mixed.digest, 0)


def test_whoever_enters_a_session_is_looked_up(office: Office, make: Hospitals) -> None:
    office.bring(make.offer("north"))
    assert office.looks == 1
    office.begin()
    office.bring(make.columns("north", "west"))
    assert office.looks == 4  # not for every parcel: the hub's own look every few seconds cuts the others off


def test_parcels_that_come_together_are_looked_up_once(office: Office, make: Hospitals) -> None:
    """Else one call of some 200 offers would use up the looks that all parties share, and hold a thread meanwhile."""
    offer = make.offer("north").to_bytes()
    office.relay.open_parcels(office.caller("north"), [(offer, b"")] * 200)
    assert office.looks == 1


def test_a_published_release_takes_and_gives_nothing(office: Office, make: Hospitals) -> None:
    office.begin()
    parcel = make.columns("north", "west")
    office.bring(parcel)
    publish_to(office.storage, office.world, office.sealed)
    for call in (
        lambda: office.open(parcel),
        lambda: office.send(parcel, []),
        lambda: office.listed(),
        lambda: office.fetch(parcel, "south"),
    ):
        with pytest.raises(Conflict, match="published"):
            call()
    assert office.storage.staged() == ()

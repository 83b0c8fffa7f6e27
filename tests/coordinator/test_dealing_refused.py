"""For whom the coordinator does not deal: refused before any work is begun, and nothing is kept."""

from collections.abc import Callable

import pytest

from coordinator.lifecycle import Approved
from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, InvalidInput, NotFound
from dprelease.mpc.messages import Message, sign_message
from dprelease.wire.v1 import coordination_pb2 as pb
from tests.coordinator.office import NOW, RUN_TIME, Office, catalogue
from tests.coordinator.sessions import Desk, Offers, Slow, approved
from tests.coordinator.test_moments_proposals import BMI


def several(offers: Offers, parcels: list[Message]) -> Offers:
    """The same keys under other parcels."""
    return Offers(offers.spec, parcels, offers.keys)


def resigned(offers: Offers, office: Office, places: tuple[int, ...], **changed: object) -> Offers:
    """The same offers, some of them changed and signed again by their parties."""
    parcels = [*offers.parcels]
    for place in places:
        header = parcels[place].header.model_copy(update=changed)
        parcels[place] = sign_message(office.keys[offers.parcels[place].header.sender], header)
    return several(offers, parcels)


def stolen(offers: Offers, office: Office) -> Offers:
    """An hello in the name of south, signed by north."""
    forged = sign_message(office.keys["north"], offers.parcels[1].header)
    return several(offers, [offers.parcels[0], forged])


def unsigned(offers: Offers, office: Office) -> Offers:
    return several(offers, [offers.parcels[0], offers.parcels[1].model_copy(update={"signature": "00"})])


def of_two_releases(offers: Offers, office: Office) -> Offers:
    return resigned(offers, office, (1,), task=approved(office, title="another").digest)


def with_new_keys(offers: Offers, office: Office) -> Offers:
    """Signed with keys that were certified for the same names after the release was approved."""
    office.enrol("north", "south")
    return resigned(offers, office, (0, 1))


Change = Callable[[Offers, Office], Offers]
REFUSED: dict[str, tuple[type[DpReleaseError], Change]] = {
    "no offers": (InvalidInput, lambda offers, office: several(offers, [])),
    "one offer is missing": (InvalidInput, lambda offers, office: several(offers, offers.parcels[:1])),
    "one offer too many": (InvalidInput, lambda offers, office: several(offers, offers.parcels + offers.parcels[:1])),
    "one offer twice": (InvalidInput, lambda offers, office: several(offers, offers.parcels[:1] * 2)),
    "another order": (InvalidInput, lambda offers, office: several(offers, offers.parcels[::-1])),
    "two rounds": (InvalidInput, lambda offers, office: resigned(offers, office, (1,), round=2)),
    "a transcript among them": (
        InvalidInput,
        lambda offers, office: resigned(offers, office, (1,), kind="transcript", session=offers.session),
    ),
    "another release's offer": (IntegrityError, of_two_releases),
    "another's signature": (IntegrityError, stolen),
    "no signature": (IntegrityError, unsigned),
    "keys that did not approve": (IntegrityError, with_new_keys),
    "an offer with a body": (IntegrityError, lambda offers, office: resigned(offers, office, (0,), size=5)),
    "a session key of small order": (
        IntegrityError,
        lambda offers, office: resigned(offers, office, (1,), payload="00" * 32),
    ),
    "an unknown release": (NotFound, lambda offers, office: resigned(offers, office, (0, 1), task="0" * 64)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_offers_that_make_no_session(desk: Desk, offers: Offers, slow: Slow, what: str) -> None:
    error, change = REFUSED[what]
    changed = change(offers, desk.office)
    for party in ("north", "south"):
        with pytest.raises(DpReleaseError) as refused:
            desk.ask(changed, party)
        assert type(refused.value) is error
    assert desk.idle
    assert desk.rows() == []
    slow.go.set()
    if what != "keys that did not approve":
        offers.check_correlations(desk.get(offers))


def test_bytes_that_are_no_offer(desk: Desk, offers: Offers, slow: Slow) -> None:
    good = offers.request().offers
    out_of_range = good[1].replace(b'"round":1,', b'"round":65,')
    assert out_of_range != good[1]
    for data in (b"", b"{}", b"\xff", good[1] + b" ", out_of_range):
        with pytest.raises(InvalidInput):
            desk.send(pb.RequestDealRequest(offers=[good[0], data]), "north")
    assert desk.idle


def test_whose_session_key_cannot_be_used_is_said(desk: Desk, offers: Offers) -> None:
    bad = resigned(offers, desk.office, (1,), payload="00" * 32)
    with pytest.raises(IntegrityError, match="south offered something that is not a session key"):
        desk.ask(bad, "north")


def test_keys_come_from_approvals_that_are_checked_again(desk: Desk, slow: Slow) -> None:
    """An approval that got into the database under another key lends that key no authority."""
    release = desk.office.propose(mechanism="moments")
    spec = release.read_spec()
    desk.office.enrol("south")  # a new key of the same name; the spec names the old one
    with desk.office.store.writing() as tx:
        for party in ("north", "south"):
            signed = desk.office.approval(spec, party).to_bytes()
            tx.releases.advance(release.digest, Approved(party), NOW, signed)
    with pytest.raises(IntegrityError, match="the approval by south was not made with the key that the release names"):
        desk.ask(Offers.of(spec, desk.office.keys), "north")
    assert desk.idle


def test_only_a_party_of_the_release_is_dealt_to(desk: Desk, offers: Offers, slow: Slow) -> None:
    desk.office.enrol("west")
    with pytest.raises(AccessDenied, match="west is not a party of release"):
        desk.ask(offers, "west")
    assert desk.idle


@pytest.mark.parametrize(
    "changed",
    [
        {"mechanism": "mixed"},
        {"mechanism": "rows"},
        {"parties": {"south": "*"}},
        {"parties": {"north": "*", "south": "*", "west": "*"}},
    ],
    ids=["mixed", "rows", "one party", "rotating"],
)
def test_where_the_coordinator_is_no_dealer(desk: Desk, slow: Slow, changed: dict[str, object]) -> None:
    desk.office.enrol("west")
    desk.office.report(catalogue("west", columns=(BMI,)))
    offers = Offers.of(approved(desk.office, **changed).read_spec(), desk.office.keys)
    with pytest.raises(InvalidInput, match=r"it has no session|the coordinator deals nothing for release"):
        desk.ask(offers, "south")
    assert desk.idle


def test_nothing_is_dealt_before_everybody_approved(desk: Desk, slow: Slow) -> None:
    release = desk.office.propose(mechanism="moments")
    spec = release.read_spec()
    offers = Offers.of(spec, desk.office.keys)
    for party in ("north", "south"):
        with pytest.raises(Conflict, match="is PROPOSED: nothing is dealt now"):
            desk.ask(offers, "north")
        with desk.office.store.writing() as tx:
            signed = desk.office.approval(spec, party).to_bytes()
            tx.releases.advance(release.digest, Approved(party), NOW, signed)
    assert desk.idle
    slow.go.set()
    offers.check_correlations(desk.get(offers))


def test_nothing_is_dealt_after_the_deadline_though_the_clockwork_did_not_notice_yet(
    desk: Desk, offers: Offers, slow: Slow
) -> None:
    desk.clock.now = NOW + RUN_TIME
    with pytest.raises(Conflict, match=r"the time of release .* is over"):
        desk.ask(offers, "north")
    assert desk.idle

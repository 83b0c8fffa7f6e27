"""Messages: which ones a release has, that every field is signed, and what a session and a transcript stand for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from dprelease.canonical import sha256
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import BLOCK, SESSION, PrivateKey, key_fingerprint, new_private_key, sign
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc.messages import MOST_ROUNDS, NOTHING, Message, MessageHeader, check_message, sign_message
from dprelease.mpc.round import columns_expected
from dprelease.mpc.schedule import COORDINATOR, SEAL_BYTES, SEED_BYTES
from dprelease.release.spec import ReleaseSpec
from tests.dprelease.mpc.test_schedule import hospitals
from tests.support.specs import build_spec

KEYS: dict[str, PrivateKey] = {name: new_private_key() for name in hospitals(4)}
PUBLIC = {name: key.public_key() for name, key in KEYS.items()}
SESSION_DIGEST, PAYLOAD = "5e" * 32, "57" * 32
BODY = "b0" * 32


def spec_of(count: int, **changed: object) -> ReleaseSpec:
    keys = {name: key_fingerprint(PUBLIC[name]) for name in hospitals(count)}
    return build_spec(hospitals(count), mechanism="moments", keys=keys, **changed)  # type: ignore[arg-type]


ROTATING, DEALT, TWO = spec_of(3), spec_of(4, curious=2), spec_of(2)


def header(spec: ReleaseSpec, kind: str, sender: str, **fields: object) -> MessageHeader:
    usual = {
        "task": spec.digest(),
        "round": 1,
        "session": "" if kind == "hello" else SESSION_DIGEST,
        "kind": kind,
        "sender": sender,
        "payload": "" if kind in ("deal", "key") else PAYLOAD,
    }
    return MessageHeader.model_validate({**usual, **fields})


def honest(spec: ReleaseSpec) -> Iterator[MessageHeader]:
    """Every message of a session, as the schedule has it."""
    schedule = schedule_of(spec)
    for party in schedule.parties:
        yield header(spec, "hello", party)
        yield header(spec, "transcript", party)
        for dealer in schedule.dealers_of(party):
            partners, size = schedule.partners(party, dealer), schedule.columns_size(party)
            yield header(spec, "columns", party, receivers=partners, dealer=dealer, size=size, sha256=BODY)
            for receiver in partners:
                sealed = {"receivers": (receiver,), "dealer": dealer, "size": SEED_BYTES + SEAL_BYTES, "sha256": BODY}
                yield header(spec, "key", party, **sealed)
            if dealer != COORDINATOR:
                size = schedule.deal_size(party, dealer) + SEAL_BYTES
                yield header(spec, "deal", dealer, receivers=(party,), size=size, sha256=BODY)


def signed(one: MessageHeader) -> Message:
    return sign_message(KEYS[one.sender], one)


@pytest.mark.parametrize("spec", [ROTATING, DEALT, TWO], ids=["rotating", "t = 2", "two"])
def test_every_message_of_the_plan_passes(spec: ReleaseSpec) -> None:
    headers = list(honest(spec))
    assert len({one.place for one in headers}) == len(headers)
    for one in headers:
        message = Message.from_bytes(signed(one).to_bytes())
        check_message(message, schedule_of(spec), PUBLIC)
        check_message(message, schedule_of(spec))


def test_the_coordinators_deals_come_another_way() -> None:
    schedule = schedule_of(DEALT)
    assert columns_expected(schedule) == {("columns", party, COORDINATOR) for party in schedule.parties}
    assert not any(one.kind == "deal" for one in honest(DEALT))


CHANGES = {
    "task": "0" * 64,
    "round": 2,
    "session": "1" * 64,
    "kind": "key",
    "sender": "birch",
    "receivers": ("amber", "birch"),
    "dealer": "birch",
    "payload": "2" * 64,
    "size": 1,
    "sha256": "3" * 64,
}


def test_every_field_is_in_the_digest_and_under_the_signature() -> None:
    original = next(one for one in honest(ROTATING) if one.kind == "columns")
    assert CHANGES.keys() | {"format"} == MessageHeader.model_fields.keys()
    changed = [original.model_copy(update={field: value}) for field, value in CHANGES.items()]
    assert len({one.digest() for one in (original, *changed)}) == len(CHANGES) + 1
    message = signed(original)
    for one in changed:
        forged = Message(header=one, signature=message.signature)
        with pytest.raises(IntegrityError):
            check_message(forged, schedule_of(ROTATING), PUBLIC)


@pytest.mark.parametrize("kind", ["hello", "deal", "columns", "key", "transcript"])
def test_a_signature_must_be_the_senders_over_this_header_as_a_session(kind: str) -> None:
    one = next(one for one in honest(ROTATING) if one.kind == kind)
    other = next(name for name in KEYS if name != one.sender)
    good = signed(one)
    for signature in (
        sign(KEYS[other], SESSION, one.to_bytes()),
        sign(KEYS[one.sender], BLOCK, one.to_bytes()),
        sign(KEYS[one.sender], SESSION, one.model_copy(update={"round": 2}).to_bytes()),
        good.signature[:-2],
        "not hexadecimal",
        "",
    ):
        with pytest.raises(IntegrityError, match=f"a {kind} in the name of {one.sender} that its key did not sign"):
            check_message(Message(header=one, signature=signature), schedule_of(ROTATING), PUBLIC)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("hello", {"session": SESSION_DIGEST}),
        ("hello", {"payload": ""}),
        ("hello", {"size": 1}),
        ("hello", {"sha256": BODY}),
        ("hello", {"receivers": ("birch",)}),
        ("hello", {"dealer": "birch"}),
        ("transcript", {"session": ""}),
        ("transcript", {"payload": ""}),
        ("transcript", {"size": 1}),
        ("transcript", {"receivers": ("birch",)}),
        ("transcript", {"dealer": "birch"}),
        ("columns", {"session": ""}),
        ("columns", {"payload": ""}),
        ("columns", {"dealer": ""}),
        ("columns", {"dealer": "amber"}),
        ("columns", {"receivers": ()}),
        ("columns", {"receivers": ("birch", "cedar")}),
        ("columns", {"receivers": ("amber",)}),
        ("key", {"session": ""}),
        ("key", {"payload": PAYLOAD}),
        ("key", {"receivers": ()}),
        ("key", {"receivers": ("amber",)}),
        ("key", {"receivers": ("birch", "cedar")}),
        ("key", {"dealer": ""}),
        ("key", {"size": SEED_BYTES}),
        ("deal", {"session": ""}),
        ("deal", {"payload": PAYLOAD}),
        ("deal", {"dealer": "birch"}),
        ("deal", {"receivers": ()}),
        ("deal", {"receivers": ("amber", "birch")}),
        ("deal", {"size": 1}),
    ],
)
def test_a_message_that_the_plan_does_not_have_is_refused(kind: str, changed: dict[str, object]) -> None:
    one = next(one for one in honest(ROTATING) if one.kind == kind)  # amber's, or from cedar to amber
    with pytest.raises(IntegrityError, match=f"{one.sender} sent a {kind} that the schedule"):
        check_message(signed(one.model_copy(update=changed)), schedule_of(ROTATING), PUBLIC)


def test_sizes_that_are_one_off_are_refused() -> None:
    for one in honest(ROTATING):
        for step in (-1, 1):
            if one.size + step >= 0:
                with pytest.raises(IntegrityError, match="that the schedule of this release does not have"):
                    check_message(signed(one.model_copy(update={"size": one.size + step})), schedule_of(ROTATING))


def test_nobody_deals_to_itself_or_in_the_coordinators_place() -> None:
    schedule = schedule_of(ROTATING)
    size = schedule.deal_size("birch", "cedar") + SEAL_BYTES
    own = header(ROTATING, "deal", "cedar", receivers=("cedar",), size=size, sha256=BODY)
    with pytest.raises(IntegrityError, match="cedar sent a deal that the schedule"):
        check_message(signed(own), schedule_of(ROTATING))
    size = schedule_of(DEALT).deal_size("birch", COORDINATOR) + SEAL_BYTES
    stand_in = header(DEALT, "deal", "amber", receivers=("birch",), size=size, sha256=BODY)
    with pytest.raises(IntegrityError, match="amber sent a deal that the schedule"):
        check_message(signed(stand_in), schedule_of(DEALT))


def test_another_releases_messages_and_strangers_are_refused() -> None:
    hello = header(ROTATING, "hello", "amber")
    with pytest.raises(IntegrityError, match="a message of amber belongs to another release"):
        check_message(signed(hello.model_copy(update={"task": DEALT.digest()})), schedule_of(ROTATING), PUBLIC)
    with pytest.raises(IntegrityError, match="a message of delta belongs to another release"):
        check_message(signed(header(ROTATING, "hello", "delta")), schedule_of(ROTATING), PUBLIC)


@pytest.mark.parametrize(
    "changed",
    [
        {"round": 0},
        {"round": MOST_ROUNDS + 1},
        {"sender": ""},
        {"sender": "../amber"},
        {"kind": "gossip"},
        {"size": -1},
        {"sha256": "short"},
        {"session": "short"},
        {"payload": "Z" * 64},
        {"receivers": ("",)},
        {"dealer": "a b"},
        {"format": 2},
        {"colour": "red"},
    ],
)
def test_a_header_out_of_range_is_no_header(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MessageHeader.model_validate({**header(ROTATING, "hello", "amber").model_dump(), **changed})


def test_a_message_is_read_in_canonical_form_only() -> None:
    data = signed(header(ROTATING, "hello", "amber")).to_bytes()
    for spoiled in (data + b"\n", data.replace(b":1", b": 1", 1), b"{}", b"\xff"):
        with pytest.raises(InvalidInput):
            Message.from_bytes(spoiled)


def test_nothing_has_the_digest_of_nothing() -> None:
    assert sha256(b"") == NOTHING

"""What the coordinator seals opens at its receiver alone; pieces of a body are cut where its chunks end."""

import pytest

from dprelease.errors import IntegrityError
from dprelease.mpc.encryption import Context, new_session_key, public_bytes, regroup, unseal
from dprelease.mpc.exchange import seal_deals
from dprelease.mpc.messages import MessageHeader, session_digest
from dprelease.mpc.schedule import Schedule

SCHEDULE = Schedule("5e" * 32, {"a": 1, "b": 2}, 5, 10, 1, rotating=False)
SESSION_KEYS = {name: new_session_key() for name in "ab"}


def hello(name: str, key: str) -> MessageHeader:
    return MessageHeader(task=SCHEDULE.task, round=1, kind="hello", sender=name, payload=key)


def test_a_deal_opens_at_its_receiver_in_this_session() -> None:
    hellos = [hello(name, public_bytes(key).hex()) for name, key in SESSION_KEYS.items()]
    sealed = seal_deals(SCHEDULE, hellos, {"a": b"for a", "b": b"for b"})
    session = session_digest(hellos)
    for name, key in SESSION_KEYS.items():
        context = Context("deal", SCHEDULE.task, session, "", name, "")
        assert unseal(key, sealed[name], context) == f"for {name}".encode()
        other = "b" if name == "a" else "a"
        with pytest.raises(IntegrityError, match="what the coordinator sent does not open as a deal"):
            unseal(SESSION_KEYS[other], sealed[name], context)


def test_a_session_key_that_is_none_names_its_party() -> None:
    hellos = [hello("a", public_bytes(SESSION_KEYS["a"]).hex()), hello("b", "00" * 32)]
    with pytest.raises(IntegrityError, match="b offered something that is not a session key"):
        seal_deals(SCHEDULE, hellos, {"a": b"", "b": b""})


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
def test_bodies_are_cut_as_they_were_encrypted(piece: int) -> None:
    data = bytes(range(60))
    pieces = (data[start : start + piece] for start in range(0, len(data), piece))
    assert [bytes(each) for each in regroup(pieces, iter((25, 25, 10)))] == [data[:25], data[25:50], data[50:]]
    with pytest.raises(IntegrityError, match="ends before its last chunk"):
        list(regroup(iter((data,)), iter((25, 36))))

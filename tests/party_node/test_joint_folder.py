"""A session on disk: frozen messages count all together or not at all, for the owner's eyes alone, and go when it is over."""

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dprelease.canonical import sha256
from dprelease.errors import PeerUnavailable
from dprelease.files import durable
from dprelease.mpc.messages import NOTHING, Message, MessageHeader, message_name, name_of
from party_node.state import session as folder_module
from party_node.state.session import SHORT_BODY, SessionFolder
from tests.party_node.world import PowerCut


@pytest.fixture
def session(folder: Path) -> SessionFolder:
    return SessionFolder(folder / "state" / "joint" / ("5e" * 32))


def message(kind: str, receiver: str = "", dealer: str = "", body: bytes = b"") -> Message:
    header = {
        "task": "5e" * 32,
        "round": 1,
        "session": "" if kind == "hello" else "77" * 32,
        "kind": kind,
        "sender": "a",
        "receivers": (receiver,) if receiver else (),
        "dealer": dealer,
        "payload": "",
        "size": len(body),
        "sha256": sha256(body) if body else NOTHING,
    }
    return Message(header=MessageHeader.model_validate(header), signature="00")


def freeze(session: SessionFolder, *messages: tuple[Message, bytes]) -> None:
    for each, body in messages:
        if body:
            session.keep_body(name_of(each.header), body)
    session.freeze([each for each, _ in messages])


def test_a_full_disk_is_told_and_the_session_goes_on_once_there_is_room(
    session: SessionFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.begin(1)
    body = bytes(SHORT_BODY + 1)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(durable.os, "fsync", full)
        for write in (
            lambda: session.keep_body("columns+c+", body),
            lambda: session.write_body("columns+c+", [body]),
            lambda: session.write_private("points", [body]),
            lambda: session.keep_dealt("c", body),
            lambda: session.freeze([message("hello")]),
        ):
            with pytest.raises(PeerUnavailable, match="takes no more: No space left"):
                write()
    freeze(session, (message("hello"), b""))
    assert session.messages() == (message("hello"),)


def test_before_the_first_session_there_is_nothing(session: SessionFolder) -> None:
    assert session.state() is None
    assert session.outgoing() == ()
    assert session.dealt("c") is None
    session.erase()


def test_a_round_begins_with_a_key_of_its_own_and_nothing_else(session: SessionFolder, folder: Path) -> None:
    first = session.begin(1)
    freeze(session, (message("deal", "b", body=b"sealed"), b"sealed"))
    session.keep_dealt("c", b"dealt")
    session.keep_dealt("", b"by the coordinator")
    second = session.begin(2)
    assert (first.round, second.round, second.messages) == (1, 2, ())
    assert first.key != second.key
    assert session.outgoing() == ()
    assert (session.dealt("c"), session.dealt("")) == (None, None)
    assert [path.name for path in (folder / "state" / "joint" / ("5e" * 32)).rglob("*")] == ["session.json"]


def test_a_fresh_process_finds_what_was_frozen_in_its_order(session: SessionFolder, folder: Path) -> None:
    state = session.begin(3)
    freeze(session, (message("hello"), b""))
    freeze(session, (message("deal", "b", body=b"x"), b"x"), (message("deal", "c", body=b"yy"), b"yy"))
    session.keep_dealt("c", b"dealt")
    again = SessionFolder(folder / "state" / "joint" / ("5e" * 32))
    found = again.state()
    assert found is not None
    assert (found.round, found.key) == (3, state.key)
    assert [each.message for each in again.outgoing()] == [
        message("hello"),
        message("deal", "b", body=b"x"),
        message("deal", "c", body=b"yy"),
    ]
    assert [each.body for each in again.outgoing()] == [None, b"x", b"yy"]
    assert again.dealt("c") == b"dealt"


def test_a_long_body_has_a_file_and_messages_of_the_version_before_have_one_each(
    session: SessionFolder, folder: Path
) -> None:
    long = bytes(SHORT_BODY + 1)
    session.begin(1)
    freeze(session, (message("deal", "b", body=b"x"), b"x"), (message("deal", "c", body=long), long))
    out = folder / "state" / "joint" / ("5e" * 32) / "out"
    assert sorted(path.name for path in out.iterdir()) == ["deal++b.frozen", "deal++c.body"]
    before = session.outgoing()
    names = [name_of(each.message.header) for each in before]
    (out / "deal++b.frozen").unlink()
    for name, each, body in zip(names, before, (b"x", long), strict=True):
        (out / f"{name}.json").write_bytes(each.message.to_bytes())
        (out / f"{name}.body").write_bytes(body)
    state = session.state()
    assert state is not None
    (out.parent / "session.json").write_bytes(state.model_copy(update={"messages": tuple(names)}).to_bytes())
    again = SessionFolder(out.parent)
    assert again.messages() == tuple(each.message for each in before)
    assert [again.read_body(each.message) for each in before] == [b"x", long]


def test_every_message_has_a_name_of_its_own() -> None:
    messages = [
        message("hello"),
        message("transcript"),
        *(message("deal", receiver, body=b"x") for receiver in "bc"),
        *(message("columns", receiver, dealer, b"x") for receiver, dealer in (("b", "c"), ("c", "b"), ("b", ""))),
        *(
            message("key", receiver, dealer, b"x")
            for receiver, dealer in (("b", "c"), ("c", "b"), ("b", ""), ("c", ""))
        ),
    ]
    assert len({name_of(each.header) for each in messages}) == len(messages)
    assert message_name("columns", "c") == name_of(message("columns", "b", "c", b"x").header)


def test_nobody_else_can_read_a_session(session: SessionFolder, folder: Path) -> None:
    session.begin(1)
    freeze(session, (message("deal", "b", body=b"sealed"), b"sealed"))
    session.keep_dealt("c", b"dealt")
    own = folder / "state" / "joint" / ("5e" * 32)
    assert own.stat().st_mode & 0o777 == 0o700
    files = [path for path in own.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_messages_count_all_together_or_not_at_all(session: SessionFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut at every file that is written: a receiver never gets one half of a deal that is then dealt anew."""
    session.begin(1)
    freeze(session, (message("hello"), b""))
    write, calls = folder_module.write_secret, [0, 0]

    def interrupted(path: Path, pieces: Iterable[bytes]) -> None:
        calls[0] += 1
        if calls[0] == calls[1]:
            raise PowerCut
        write(path, pieces)

    monkeypatch.setattr(folder_module, "write_secret", interrupted)
    both = [(message("deal", receiver, body=b"x"), b"x") for receiver in "bc"]
    for calls[1] in range(1, 3):
        calls[0] = 0
        with pytest.raises(PowerCut):
            freeze(session, *both)
        assert [each.message.header.kind for each in session.outgoing()] == ["hello"]
    calls[:] = [0, 3]
    freeze(session, *both)
    assert calls[0] == 2
    assert [each.message.header.kind for each in session.outgoing()] == ["hello", "deal", "deal"]


def test_an_erasure_that_was_cut_short_is_finished_later(
    session: SessionFolder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.begin(1)
    freeze(session, (message("deal", "b", body=b"sealed"), b"sealed"))

    def half(path: Path) -> None:
        (path / "session.json").unlink()
        raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(durable.shutil, "rmtree", half)
        with pytest.raises(PowerCut):
            session.erase()
    assert session.state() is None  # as one that never began: no message of it counts
    assert session.outgoing() == ()
    for _ in range(2):
        session.erase()
    assert list((folder / "state" / "joint").iterdir()) == []


@pytest.mark.parametrize("call", range(1, 7))
def test_a_round_that_was_cut_short_as_it_began_leaves_the_earlier_one_or_itself(
    session: SessionFolder, folder: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    first = session.begin(1)
    freeze(session, (message("deal", "b", body=b"sealed"), b"sealed"))
    session.keep_dealt("c", b"dealt")
    calls: list[str] = []

    def cutting(name: str, original: Callable[..., None]) -> Callable[..., None]:
        def step(*arguments: object, **named: object) -> None:
            for when in ("before", "after"):
                calls.append(f"{when} {name}")
                if len(calls) == call:
                    raise PowerCut
                if when == "before":
                    original(*arguments, **named)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_secret", cutting("write", folder_module.write_secret))
        patch.setattr(durable.shutil, "rmtree", cutting("remove", durable.shutil.rmtree))
        with pytest.raises(PowerCut):
            session.begin(2)
    state = session.state()
    assert state is not None
    assert state.round == (1 if call <= 3 else 2), calls
    assert (state.key == first.key) == (call <= 3)
    assert len(session.outgoing()) == (1 if call <= 3 else 0)
    assert session.dealt("c") == (b"dealt" if call == 1 else None)  # the new round never finds an old deal
    again = session.begin(3)
    assert (again.round, session.outgoing(), session.dealt("c")) == (3, (), None)
    own = folder / "state" / "joint" / ("5e" * 32)
    assert [path.name for path in own.rglob("*")] == ["session.json"]


def test_a_folder_that_was_made_is_made_durably(session: SessionFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could take back a session whose offer the peers hold."""
    synced: list[str] = []
    sync = folder_module.sync_folder
    monkeypatch.setattr(folder_module, "sync_folder", lambda path: (synced.append(path.name), sync(path)))
    session.begin(1)
    assert synced == ["joint"]

"""`on_review`: somebody is told once that a release waits, with no word about data, and never in anybody's way."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dprelease.errors import InvalidInput
from party_node.outgoing.reviews import Reviews
from party_node.settings import DaemonSettings
from tests.party_node import aligning
from tests.party_node.world import World
from tests.support.web import Handler, Web, serving

SECRET = "/hook/s3cret?token=t0ken"


class Hook(Handler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.web.asked.append((self.path, body))
        if self.web.fault(self) is False:
            self.answer(204)


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Web]:
    with serving(tmp_path, Hook) as web:
        yield web


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="party_node.outgoing.reviews")
    return caplog


def told(world: World, target: object) -> None:
    world.north.edit("poll_seconds", f"on_review = {json.dumps(target)}\npoll_seconds")


def cycles(world: World, times: int = 1) -> None:
    """Rounds of a fresh daemon, and whatever it calls to its end."""
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        for _ in range(times):
            daemon.cycle(coordinator)
    daemon.reviews.wait()


def test_an_address_is_told_once_for_each_release(careful: World, hook: Web, log: pytest.LogCaptureFixture) -> None:
    told(careful, hook.url + SECRET)
    first = careful.propose()
    cycles(careful, 3)
    cycles(careful, 2)  # after a restart
    second = careful.propose(title="more", outputs=9)
    cycles(careful, 2)
    assert [path for path, _ in hook.asked] == [SECRET, SECRET]
    for release, (_, body) in zip((first, second), hook.asked, strict=True):
        short = release[:12]
        assert json.loads(body or "") == {
            "release": short,
            "text": f"release {short} waits for a review: party-node review show {short}",
        }
    assert "s3cret" not in log.text
    assert "t0ken" not in log.text


def test_a_command_gets_the_release_and_the_sentence_and_no_shell(careful: World, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    script = f"import sys, json; open({str(seen)!r}, 'a').write(json.dumps(sys.argv[1:]))"
    told(careful, [sys.executable, "-c", script, "$HOME; exit"])
    release = careful.propose()
    cycles(careful, 2)
    cycles(careful)
    short = release[:12]
    words = f"release {short} waits for a review: party-node review show {short}"
    assert json.loads(seen.read_text()) == ["$HOME; exit", short, words]


def test_policy_tells_nobody(world: World, hook: Web) -> None:
    told(world, hook.url)
    approved = world.propose()
    declined = world.propose(title="without parties", grid_bits=3)
    cycles(world, 2)
    assert world.north.status(approved) == "approved"
    assert world.north.status(declined) == "declined"
    assert hook.asked == []


@pytest.mark.parametrize(
    ("status", "words"), [(500, "it answered with status 500"), (302, "it answered with status 302")]
)
def test_an_address_that_refuses_is_logged(
    careful: World, hook: Web, log: pytest.LogCaptureFixture, status: int, words: str
) -> None:
    hook.fault = lambda handler: handler.answer(status, Location=hook.url)
    told(careful, hook.url)
    release = careful.propose()
    cycles(careful)
    assert f"on_review was not told that release {release[:12]} waits: {words}" in log.text
    assert len(hook.asked) == 1  # no redirect is followed
    assert careful.north.status(release) == "waiting"


def failing(hook: Web, target: str) -> object:
    if target == "silent":
        hook.fault = lambda _: hook.released.wait()
        return hook.url
    if target == "trickling":

        def trickle(handler: Handler) -> None:
            while not hook.released.wait(0.02):
                handler.wfile.write(b"H")

        hook.fault = trickle
        return hook.url
    if target == "away":
        return "http://127.0.0.1:1/"
    return {
        "absent": ["/nowhere/at/all"],
        "failing": [sys.executable, "-c", "raise SystemExit(3)"],
        "endless": [sys.executable, "-c", "import time; time.sleep(600)"],
    }[target]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("silent", "it did not answer within 0.3 s"),
        ("trickling", "it did not answer within 0.3 s"),
        ("away", "no answer (ConnectionRefusedError)"),
        ("absent", "the command cannot be started: No such file or directory"),
        ("failing", "the command ended with code 3"),
        ("endless", "the command did not end within 0.3 s and was stopped"),
    ],
)
def test_what_fails_is_logged_within_its_time(
    careful: World, hook: Web, log: pytest.LogCaptureFixture, target: str, words: str
) -> None:
    limit = 30.0 if target == "failing" else 0.3
    reviews = Reviews(careful.north.hospital_state(), limit)
    found = DaemonSettings.model_validate({"on_review": failing(hook, target)}).on_review
    assert found is not None
    reviews.call("0123456789ab", found)
    reviews.wait()
    assert log.messages == [f"on_review was not told that release 0123456789ab waits: {words}"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "http://chat.clinic.example/hook",
            "daemon.on_review: is an address of http, which only this machine's own may be",
        ),
        ("https://it:secret@chat.clinic.example/", "daemon.on_review: has a user or a password in its address"),
        ("mail it@clinic.example", "daemon.on_review: is a command and its arguments, such as"),
        ("https://", "daemon.on_review: is a command"),
        ("https://x:port/", "daemon.on_review: is a command"),
        ("file:///etc/passwd", "daemon.on_review: is a command"),
        ([], "daemon.on_review: is a command"),
        (["mail", 3], "daemon.on_review: is a command"),
        (5, "daemon.on_review: is a command"),
    ],
)
def test_targets_that_cannot_be(careful: World, target: object, words: str) -> None:
    told(careful, target)
    with pytest.raises(InvalidInput) as caught:
        careful.north.hospital_state()
    assert words in caught.value.message
    assert "secret" not in caught.value.message


def test_an_alignment_run_is_told_of_as_well(careful: World, hook: Web, log: pytest.LogCaptureFixture) -> None:
    told(careful, hook.url + SECRET)
    run = aligning.propose(careful)
    cycles(careful, 2)
    cycles(careful)
    ((_, body),) = hook.asked
    text = f"alignment run {run[:12]} waits for a person: party-node review show {run[:12]}"
    assert json.loads(body or "") == {"release": run[:12], "text": text}
    assert f"on_review was told that alignment run {run[:12]} waits" in log.text

"""The commands, as the office types them."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.clock import utc_now
from coordinator.lifecycle import Approved, PublicationAuthorized, PublicationReported
from dprelease.identity.certificates import certificate_fingerprint, read_identity
from dprelease.identity.invite import Invite
from dprelease.identity.peer_keys import PeerKeys
from dprelease.privacy.calibration import budget
from dprelease.privacy.price import mu2_text
from dprelease.spec_base import Target
from tests.coordinator.office import STUDY, Office
from tests.support.commands import every_command

ALL = every_command(main)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def succeed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def read_json(*arguments: str) -> object:
    return json.loads(succeed(*arguments, "--json"))


def init(home: Path, *more: str) -> Result:
    fixed = ("--consortium", "Trio", "--host", "localhost", "--host", "127.0.0.1", "--epsilon", "3", "--delta", "1e-6")
    return run("init", "--home", str(home), *fixed, "--listen-host", "127.0.0.1", *more)


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return str(path)


def create(study: str, *more: str) -> dict[str, object]:
    described = read_json("release", "create", study, *more)
    assert isinstance(described, dict)
    return described


@pytest.mark.parametrize(
    "path",
    [path for path in ALL if path and path[-1] not in ("init", "align", "release", "party", "hub", "backup")],
    ids=" ".join,
)
def test_without_settings_the_error_says_what_to_do(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CONFIG", "/nowhere/coordinator.toml")
    arguments = {"invite": ["north"], "create": ["x.toml"], "revoke": ["north"], "show": ["abcd"], "watch": ["abcd"]}
    arguments |= {"next": ["abcd"], "cancel": ["abcd", "--reason", "x"], "reissue": ["--into", "next"]}
    arguments |= {"make": ["copy.sqlite"], "recall": ["published"]}
    arguments |= {"keys": ["keys.json"]}
    arguments |= {"start": ["--roster", "cohort", "north", "south"]}
    more = arguments.get(path[-1], [])
    result = run(*path, *more)
    assert result.exit_code == 2
    assert "COORDINATOR_CONFIG" in result.stderr


def test_init_prints_the_fingerprint_and_refuses_to_overwrite(home: Path) -> None:
    again = init(home)
    assert again.exit_code == 2
    assert "left as it is" in again.stderr
    other = init(home.parent / "other")
    assert certificate_fingerprint((home.parent / "other" / "root.pem").read_bytes()) in other.stdout
    assert f"mu^2 = {mu2_text(budget(Target(scope='joint', epsilon=3.0, delta=1e-6)))}, (epsilon" in other.stdout


def test_init_refuses_a_plan_that_cannot_work(tmp_path: Path) -> None:
    result = init(tmp_path / "office", "--port", "70000")
    assert result.exit_code == 2
    assert "port" in result.stderr
    assert not (tmp_path / "office").exists()


def test_invite_prints_one_token(home: Path) -> None:
    token = succeed("invite", "north", "--share", "1/3", "--hours", "2")
    assert re.fullmatch(r"[A-Za-z0-9_-]+\n", token)
    made = Invite.from_token(token)
    assert made.root.encode() == (home / "root.pem").read_bytes()
    answer = read_json("invite", "south", "--cap-epsilon", "1")
    assert isinstance(answer, dict)
    assert Invite.from_token(answer["token"]).party == answer["party"] == "south"
    assert Fraction(answer["cap_mu2"]) < Fraction(made.cap_mu2)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ((), 2, "--share 1/3"),
        (("--share", "a third"), 2, "not a part such as 1/3"),
        (("--share", "1/0"), 2, "not a part such as 1/3"),
        (("--share", "2"), 2, "a share lies above 0"),
        (("--share", "1/3", "--cap-epsilon", "1"), 2, "not both"),
        (("--cap-epsilon", "5"), 15, "would exceed the consortium's budget"),
        (("--share", "1/3", "--hours", "0"), 2, "hours"),
    ],
)
def test_invites_that_cannot_be_made(home: Path, arguments: tuple[str, ...], exit_code: int, message: str) -> None:
    result = run("invite", "north", *arguments)
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_a_release_is_created_listed_and_shown(opened: Office, study: str) -> None:
    made = create(study)
    digest = str(made["digest"])
    assert made["state"] == "PROPOSED"
    assert made["waits_for"] == ["north", "south"]
    assert made["parties"] == {"north": ["age", "sex"], "south": ["glucose"]}
    assert made["joint_epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert str(made["plan"]).startswith(f"k = {made['k']}, rho = {made['rho']} from n = 1,000, p = 5")
    listed = read_json("release", "list")
    assert isinstance(listed, list)
    assert [one["digest"] for one in listed] == [digest]
    shown = read_json("release", "show", digest[:6])
    assert isinstance(shown, dict)
    assert shown["history"][0]["what"] == "proposed"
    assert shown["guarantee"] == made["guarantee"]
    text = succeed("release", "show", digest[:6], "--explain")
    assert "Joint: (epsilon, delta) = (1, 1e-06)" in text
    assert "waits for north, south to decide since" in text
    assert f"{digest[:12]}  PROPOSED  Age and glucose  waits for north, south" in succeed("release", "list", "--open")


def test_the_same_content_again_is_warned_about(opened: Office, study: str) -> None:
    first = create(study)
    again = run("release", "create", study)
    assert again.exit_code == 0
    assert f"warning: {str(first['digest'])[:12]} (PROPOSED) has the same columns" in again.stderr
    assert "pay twice" in again.stderr


def test_a_refused_request_has_its_exit_code_and_leaves_nothing(opened: Office, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(STUDY.replace("1e-6", "0.5"))
    result = run("release", "create", str(path))
    assert result.exit_code == 2
    assert "--allow-large-delta" in result.stderr
    path.write_text("colour = 1\n" + STUDY)
    assert run("release", "create", str(path)).exit_code == 2
    assert run("release", "create", str(tmp_path / "missing.toml")).exit_code == 2
    assert read_json("release", "list") == []
    path.write_text(STUDY.replace("about", "# about"))
    assert "a release needs a licence" in run("release", "create", str(path)).stderr
    path.write_text(STUDY.replace("1e-6", "0.01").replace("epsilon = 1.0", "epsilon = 0.1"))
    create(str(path), "--allow-large-delta")


def test_cancel_tells_the_parties_why_and_is_final(opened: Office, study: str) -> None:
    digest = str(create(study)["digest"])
    cancelled = read_json("release", "cancel", digest[:8], "--reason", "wrong columns")
    assert isinstance(cancelled, dict)
    assert cancelled["state"] == "CANCELLED"
    assert "cancelled: wrong columns" in cancelled["explanation"]
    assert "is CANCELLED" in succeed("release", "cancel", digest[:8], "--reason", "again")
    assert read_json("release", "list", "--open") == []


def test_what_may_be_public_cannot_be_cancelled(opened: Office, study: str) -> None:
    digest = str(create(study)["digest"])
    _approve_all(opened, digest)
    with opened.store.writing() as tx:
        tx.releases.advance(digest, PublicationAuthorized(), utc_now())
    result = run("release", "cancel", digest[:8], "--reason", "too late")
    assert result.exit_code == 15
    assert "can no longer be cancelled" in result.stderr


@pytest.mark.parametrize(("name", "exit_code"), [("abc", 2), ("hello", 2), ("00000000", 14)])
def test_a_release_that_is_not_there(opened: Office, name: str, exit_code: int) -> None:
    for command in ("show", "watch"):
        assert run("release", command, name).exit_code == exit_code


def test_watch_prints_every_change_until_the_release_is_public(opened: Office, study: str) -> None:
    digest = str(create(study)["digest"])
    results: list[Result] = []

    def watch() -> None:
        arguments = [
            "release",
            "watch",
            digest[:8],
            "--until-final",
            "--poll-seconds",
            "0.01",
            "--timeout",
            "60",
            "--json",
        ]
        results.append(CliRunner().invoke(main, arguments))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _approve_all(opened, digest)
    with opened.store.writing() as tx:
        tx.releases.advance(digest, PublicationAuthorized(), utc_now())
        tx.releases.advance(digest, PublicationReported("cd" * 32), utc_now())
    watcher.join(60)
    assert not watcher.is_alive()
    assert results[0].exit_code == 0
    lines = [json.loads(line) for line in results[0].stdout.splitlines()]
    assert lines[-1]["state"] == "PUBLISHED"
    assert lines[-1]["manifest"] == "cd" * 32
    assert all(before != after for before, after in pairwise(lines))


def test_watch_says_so_when_the_time_is_up_or_it_ended_otherwise(opened: Office, study: str) -> None:
    digest = str(create(study)["digest"])
    assert "PROPOSED  waits for north, south" in succeed("release", "watch", digest, "--timeout", "0")
    late = run("release", "watch", digest, "--until-final", "--timeout", "0")
    assert late.exit_code == 15
    assert "is PROPOSED, not published: waits for north, south" in late.stderr
    succeed("release", "cancel", digest, "--reason", "no")
    ended = run("release", "watch", digest, "--until-final")
    assert ended.exit_code == 15
    assert "cancelled: no" in ended.stderr
    assert "CANCELLED" in succeed("release", "watch", digest)


def test_parties_are_listed_with_what_the_office_must_know(opened: Office) -> None:
    succeed("invite", "west", "--share", "1/4")
    found = read_json("party", "list")
    assert isinstance(found, list)
    by_name = {one["party"]: one for one in found}
    assert by_name["north"]["state"] == "enrolled"
    assert by_name["north"]["columns"] == ["age", "sex"]
    assert by_name["north"]["key"] == read_identity(opened.certificates["north"]).fingerprint
    assert by_name["west"]["state"].startswith("invited until ")
    assert Fraction(by_name["west"]["cap"]["mu2"]) == opened.store.consortium.mu2 / 4
    text = succeed("party", "list")
    assert by_name["north"]["key"] in text
    assert "invited until" in text


def test_the_keys_of_all_who_are_enrolled_are_one_file(opened: Office, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    succeed("invite", "west", "--share", "1/4")
    expected = {name: read_identity(opened.certificates[name]).fingerprint for name in ("north", "south")}
    said = succeed("party", "keys", str(path))
    written = PeerKeys.read(path)
    assert (written.consortium, written.keys) == ("Trio", expected)
    assert said == f"wrote the keys of 2 hospitals to {path}\ndigest {written.digest()}\n"
    assert "make it, or name another file" in run("party", "keys", str(tmp_path / "none" / "keys.json")).stderr
    assert not (tmp_path / "none").exists()
    succeed("party", "revoke", "north")
    succeed("party", "keys", str(path))
    assert PeerKeys.read(path).keys == {"south": expected["south"]}
    succeed("party", "revoke", "south")
    assert run("party", "keys", str(path)).exit_code == 2


def test_an_office_without_parties_or_releases_says_so(home: Path) -> None:
    assert "coordinator invite" in succeed("party", "list")
    assert read_json("party", "list") == []
    assert "id  state  title  explanation" in succeed("release", "list")


def test_revoke_names_the_releases_that_end(opened: Office, study: str) -> None:
    digest = str(create(study)["digest"])
    assert digest[:12] in succeed("party", "revoke", "north")
    found = read_json("party", "list")
    assert isinstance(found, list)
    assert found[0]["state"].startswith("revoked at ")
    assert [line["what"] for line in found[0]["history"]] == ["north was revoked"]
    result = run("party", "revoke", "stranger")
    assert result.exit_code == 14
    assert "stranger" in result.stderr


def test_serve_is_ready_and_stops_on_sigterm(home: Path) -> None:
    """As an operating-system process, by `python -m coordinator`; the ports are free ones.

    It is killed and started again in `tests/end_to_end/test_crashes.py`.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "coordinator", "serve"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COORDINATOR_CONFIG": str(home / "coordinator.toml")},
    ) as process:
        assert process.stderr is not None
        ready = next((line for line in process.stderr if "ready" in line), "")
        assert re.search(r"ready: coordination on port [1-9]\d*, enrolment on port [1-9]\d*$", ready.strip())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def _approve_all(office: Office, digest: str) -> None:
    with office.store.writing() as tx:
        for party in ("north", "south"):
            tx.releases.advance(digest, Approved(party), utc_now(), b"signed")

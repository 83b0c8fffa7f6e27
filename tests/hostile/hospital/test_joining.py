"""Invites and coordinators that a hospital must not fall for when it joins, and versions that do not fit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dprelease.errors import IntegrityError, InvalidInput, PeerUnavailable, Unauthenticated, VersionMismatch
from dprelease.identity.invite import Invite
from dprelease.identity.signing import new_private_key
from party_node.cli.main import main
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_untouched, honest_release
from tests.party_node.test_enrolment import PARTY_TOML, Office
from tests.party_node.world import World
from tests.support.certificates import Authority

Act = Callable[[Office, Invite], Invite]


def other(**fields: object) -> Act:
    return lambda office, invite: invite.model_copy(update=fields)


def refuses(office: Office, invite: Invite) -> Invite:
    office.raises = Unauthenticated("used already")
    return invite


def certifies(certificate: Callable[[Office, Any], str]) -> Act:
    def act(office: Office, invite: Invite) -> Invite:
        office.certify = lambda key: certificate(office, key)
        return invite

    return act


def of_another_key(office: Office, _: Any) -> str:
    return office.authority.issue("north", "party", new_private_key().public_key())


def of_another_root(_: Office, key: Any) -> str:
    return _OTHER.issue("north", "party", key)


_OTHER = Authority("trial")

UNENROLLED = "no certificate, no budget; an honest invite still works"
JOINING = [
    Fault(what, "hospital", kind, error, UNENROLLED, act)
    for what, kind, error, act in (
        ("an invite for another party", Kind.LOCAL, InvalidInput, other(party="south")),
        ("an invite that has lapsed by our own clock", Kind.LOCAL, InvalidInput, other(expires="2026-01-01T00:00:00Z")),
        (
            "an invite with another root than the coordinator's",
            Kind.HANDSHAKE,
            PeerUnavailable,
            other(root=_OTHER.root),
        ),
        ("an invite that the coordinator does not know", Kind.LOCAL, Unauthenticated, refuses),
        ("a certificate for another key in answer", Kind.LOCAL, InvalidInput, certifies(of_another_key)),
        ("a certificate of another root in answer", Kind.LOCAL, IntegrityError, certifies(of_another_root)),
        ("garbage for a certificate in answer", Kind.LOCAL, IntegrityError, certifies(lambda *_: "?")),
    )
]


def _enrol(folder: Path, token: str) -> Result:
    (folder / "party.toml").write_text(PARTY_TOML)
    return CliRunner().invoke(main, ["enrol", token, "--config", str(folder / "party.toml")])


@each(JOINING)
def test_a_hospital_joins_only_whom_its_invite_names(
    folder: Path, invite: Invite, office: Office, fault: Fault
) -> None:
    refused = _enrol(folder, fault.act(office, invite).token())
    assert refused.exit_code == fault.exit_code, refused.output
    assert refused.stderr.startswith("error: ")
    assert not (folder / "state" / "identity" / "enrolment.json").exists()
    assert CliRunner().invoke(main, ["ledger", "show", "--config", str(folder / "party.toml")]).exit_code != 0
    office.raises = office.certify = None
    joined = _enrol(folder, invite.token())
    assert joined.exit_code == 0, joined.output


MANGLED = Fault(
    "an invite that was mistyped", "hospital", Kind.LOCAL, InvalidInput, UNENROLLED, lambda token: token[:-9]
)


@each([MANGLED])
def test_a_mistyped_invite_asks_nobody(folder: Path, invite: Invite, office: Office, fault: Fault) -> None:
    assert _enrol(folder, fault.act(invite.token())).exit_code == fault.exit_code
    assert office.asked == []
    assert _enrol(folder, invite.token()).exit_code == 0


def newer(world: World) -> None:
    world.coordinator.raises["ListReleases"] = VersionMismatch("x")


VERSION = Fault(
    "the coordinator speaks another protocol version", "hospital", Kind.HELD, VersionMismatch,
    "nothing happens; the daemon asks again until one of them is upgraded", newer,
)  # fmt: skip


@each([VERSION])
def test_a_coordinator_of_another_version_is_waited_for(world: World, fault: Fault) -> None:
    release = world.propose()
    fault.act(world)
    with fault.refused():
        world.north.cycle()
    check_untouched(world.north, release, [])
    world.coordinator.raises.clear()
    honest_release(world)


FAULTS = [*JOINING, MANGLED, VERSION]

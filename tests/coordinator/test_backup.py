"""Copies of the office's database, and what a restore of an older one costs: recognised, ended, or taken back."""

import logging
import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.authority.founding import write_identity
from coordinator.cli.main import main
from coordinator.lifecycle import Stage
from coordinator.service.enrolment import caps
from coordinator.service.recovery import Restored, left, recall, take_into_use
from coordinator.service.server import Server
from coordinator.store.store import Store
from coordinator.store.upkeep import back_up
from dprelease.canonical import sha256
from dprelease.errors import AccessDenied, Conflict, IntegrityError, InvalidInput, NotFound, Unauthenticated
from dprelease.identity.certificates import signing_request
from dprelease.identity.signing import load_private_key, new_private_key
from dprelease.release.block import BlockHeader
from dprelease.release.charges import SignedStatement
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, assemble, sealed_block, sign_manifest
from dprelease.release.spec import ReleaseSpec
from dprelease.spec_base import instant
from dprelease.version import __version__
from dprelease.wire.transport import Credentials
from dprelease.wire.v1 import coordination_pb2 as pb
from dprelease.wire.v1 import release_pb2
from tests.coordinator.sessions import over_the_wire, world_offers
from tests.coordinator.world import Stub, World, ask, listed, report
from tests.support.noise import SeededNoise
from tests.support.specs import private_blocks

CANCELLED, FAILED, PUBLISHED = (
    release_pb2.ReleaseState.Value(f"RELEASE_STATE_{name}") for name in ("CANCELLED", "FAILED", "PUBLISHED")
)
LATER = timedelta(minutes=1)


def database(world: World) -> Path:
    return Path(world.settings.database.removeprefix("sqlite:///"))


def run(world: World, *arguments: str, stdin: str | None = None) -> Result:
    config = database(world).parent / "coordinator.toml"
    return CliRunner().invoke(main, [*arguments, "--config", str(config)], input=stdin)


def copied(world: World) -> Path:
    """A backup of this moment, of a database in use; what comes after comes later."""
    target = database(world).with_name("copy.sqlite")
    back_up(world.settings.database, target, world.clock())
    world.clock.now += LATER
    return target


def put_back(world: World, copy: Path) -> None:
    """The office's disk is lost; the copy stands where the database stood."""
    world.stop()
    world.opened.close()
    for ending in ("", "-wal", "-shm"):
        database(world).with_name(database(world).name + ending).unlink(missing_ok=True)
    shutil.copy(copy, database(world))
    world.clock.now += LATER


def restore(world: World, copy: Path) -> Restored:
    """Put a copy back as docs/coordinator.md says, and serve again."""
    put_back(world, copy)
    with closing(Store.open(world.settings.database, copy=True)) as store:
        found = take_into_use(store, world.clock())
    world.start()
    return found


def approve(world: World, digest: bytes, *stubs: Stub) -> None:
    for stub, party in zip(stubs, ("north", "south"), strict=False):
        ask(stub.Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))


def remind(world: World, spec: ReleaseSpec, party: str, commitment: str = "ab" * 32) -> None:
    """What a hospital's daemon does with an approval that the office does not show."""
    signed = world.approval(spec, party, commitment).to_bytes()
    ask(world.as_party(party).Approve, pb.ApproveRequest(signed_consent=signed, proposal=spec.to_bytes()))


def charged(world: World, party: str) -> dict[str, bool]:
    """What the office is a witness of: release, and whether it was published."""
    answer = ask(world.as_party(party).ListCharges, pb.ListChargesRequest())
    return {each.release: each.published for each in SignedStatement.from_bytes(answer.charges).statement.charges}


def publish(world: World, spec: ReleaseSpec, folder: Path) -> Path:
    """A release as the hub leaves it in its folder of published ones."""
    blocks = private_blocks(spec, SeededNoise(3))
    entries = [
        BlockEntry(
            sealed=sealed_block(
                world.keys[party], BlockHeader(spec=spec.digest(), party=party, rows=1, columns=1), data
            ),
            certificate=world.certificates[party],
        )
        for party, data in blocks.items()
    ]
    approvals = {party: world.approval(spec, party) for party in blocks}
    hub = (world.hub.certificate or b"").decode()
    data = assemble(spec, entries, approvals, hub, __version__, world.clock()).to_bytes()
    key = database(world).parent / "hub" / "hub.key"
    ReleaseFolder(folder / spec.digest()).write_manifest(data, sign_manifest(load_private_key(key), data))
    return folder / spec.digest()


def state(world: World, digest: bytes) -> Stage:
    with world.store().reading() as tx:
        return tx.releases.get(digest.hex()).record.state


def test_a_copy_is_whole_while_the_office_works_and_a_copied_file_is_not(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()
    plain = database(world).with_name("plain.sqlite")
    shutil.copy(database(world), plain)
    with closing(sqlite3.connect(plain)) as torn, suppress(sqlite3.DatabaseError):
        assert (digest.hex(),) not in torn.execute("SELECT digest FROM agreements").fetchall()
    with closing(Store.open(f"sqlite:///{copied(world)}", copy=True)) as store, store.reading() as tx:
        assert tx.releases.get(digest.hex()).record.state is Stage.PROPOSED
    assert database(world).with_name("copy.sqlite").stat().st_mode & 0o077 == 0


def test_nothing_is_overwritten_and_no_other_database_is_copied(world: World, tmp_path: Path) -> None:
    copy = copied(world)
    with pytest.raises(InvalidInput, match="exists and is left as it is"):
        back_up(world.settings.database, copy, world.clock())
    with pytest.raises(InvalidInput, match="cannot be written"):
        back_up(world.settings.database, tmp_path / "nowhere" / "copy", world.clock())
    with pytest.raises(InvalidInput, match="pg_dump"):
        back_up("postgresql://localhost/none", tmp_path / "copy", world.clock())
    with pytest.raises(InvalidInput, match="there is no consortium"):
        back_up(f"sqlite:///{tmp_path / 'none'}", tmp_path / "copy", world.clock())
    assert [path.name for path in tmp_path.iterdir()] == ["office"]


def test_a_copy_is_not_served_before_somebody_says_what_became_of_it(world: World) -> None:
    put_back(world, copied(world))
    with pytest.raises(InvalidInput, match=r"is a copy of .*coordinator backup restored"):
        Server(world.settings, world.clock)
    assert "coordinator backup restored" in run(world, "release", "list").output
    assert run(world, "backup", "restored", stdin="n\n").exit_code == 1
    said = run(world, "backup", "restored", "--yes")
    assert said.exit_code == 0
    for word in ("coordinator party revoke", "coordinator hub reissue", "coordinator backup recall"):
        assert word in said.output
    world.start()


def test_a_used_invite_opens_no_second_time(world: World) -> None:
    """Without the command it does: whoever finds the token could become the hospital."""
    invite = world.invite("north")
    copy = copied(world)
    world.enrol(invite.secret, signing_request("north", new_private_key()))
    put_back(world, copy)
    assert run(world, "backup", "restored", "--latest").exit_code == 0
    world.start()
    world.enrol(invite.secret, signing_request("north", new_private_key()))
    assert restore(world, copy).invited == ("north",)
    with pytest.raises(Unauthenticated):
        world.enrol(invite.secret, signing_request("north", new_private_key()))


def test_who_joined_since_is_told_apart_from_a_stranger(
    world: World, two: tuple[Stub, Stub], caplog: pytest.LogCaptureFixture
) -> None:
    """Its cap went with it: the office must ask the hospital for it, whose ledger takes no other."""
    caplog.set_level(logging.INFO)
    copy = copied(world)
    east = world.join("east")
    report(east, "east")
    older = world.certificates["south"], world.keys["south"]
    world.join("south")
    restore(world, copy)
    with world.store().reading() as tx:
        assert set(caps(tx, world.clock())) == {"north", "south"}
    for party in ("east", "south"):
        caplog.clear()
        with pytest.raises(AccessDenied):
            listed(world.as_party(party))
        assert f"{party} calls with a certificate of this consortium that is not known here" in caplog.text
        assert "coordinator invite" in caplog.text
    world.certificates["south"], world.keys["south"] = older
    assert listed(world.as_party("south")) == []  # nobody can tell this office that the key was given up


def test_a_hub_that_was_issued_since_is_recognised(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    copy, old = copied(world), world.hub
    folder = database(world).with_name("new-hub")
    with world.store().writing() as tx:
        tx.hub.set(write_identity(folder, world.authority, "hub", ("localhost",), world.clock()))
    restore(world, copy)
    world.hub = Credentials(*((folder / name).read_bytes() for name in ("root.pem", "hub.pem", "hub.key")))
    with pytest.raises(AccessDenied):
        ask(world.as_hub().ListRevoked, pb.ListRevokedRequest())
    assert "this hub's certificate is later" in caplog.text
    assert "coordinator hub reissue" in caplog.text
    world.hub = old
    ask(world.as_hub().ListRevoked, pb.ListRevokedRequest())  # that one was revoked; nobody can tell this office


def test_a_revocation_is_forgotten_and_has_to_be_made_again(world: World, two: tuple[Stub, Stub]) -> None:
    copy = copied(world)
    with closing(Store.open(world.settings.database)) as store:
        store.revoke("north", world.clock())
    restore(world, copy)
    assert listed(world.as_party("north")) == []
    assert ask(world.as_hub().ListRevoked, pb.ListRevokedRequest()).keys == []


@pytest.mark.parametrize("before", ["proposed", "approved", "running"])
def test_what_was_under_way_ends_and_what_may_be_public_waits(
    world: World, two: tuple[Stub, Stub], before: str
) -> None:
    """It may have been cancelled since: a hospital that was away would charge its ledger for nothing."""
    digest = world.propose()
    if before != "proposed":
        approve(world, digest, *two)
    if before == "running":
        ask(world.as_hub().ReportIntake, pb.ReportIntakeRequest(spec_digest=digest, received=["north"]))
    copy = copied(world)
    assert restore(world, copy).ended == (digest.hex(),)
    assert listed(world.as_party("north")) == [(digest, CANCELLED)]
    world.stop()
    world.clock.now += LATER
    world.start()
    assert charged(world, "north") == ({} if before == "proposed" else {digest.hex(): False})


def test_a_release_that_the_hub_may_have_published_waits_for_its_report(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()
    approve(world, digest, *two)
    ask(world.as_hub().AuthorizePublication, pb.AuthorizePublicationRequest(spec_digest=digest))
    assert restore(world, copied(world)).ended == ()
    done = pb.ReportPublicationRequest(spec_digest=digest, manifest_digest=b"m" * 32)
    ask(world.as_hub().ReportPublication, done)
    assert listed(world.as_party("north")) == [(digest, PUBLISHED)]


def test_hospitals_make_the_office_a_witness_again(world: World, two: tuple[Stub, Stub]) -> None:
    """Forgotten, it is held at the hospitals for ever; shown again, it is over everywhere and counts in full."""
    copy = copied(world)
    digest = world.propose()
    approve(world, digest, *two)
    spec = world.spec(digest)
    before = {party: charged(world, party) for party in ("north", "south")}
    with world.store().reading() as tx:
        room = left(tx, "north", "cohort")
    restore(world, copy)
    assert charged(world, "north") == {}
    remind(world, spec, "north")
    assert charged(world, "north") == {}  # nobody could have made a block of what south did not approve
    assert listed(world.as_party("south")) == [(digest, FAILED)]
    for _ in range(2):
        remind(world, spec, "south")
    assert {party: charged(world, party) for party in ("north", "south")} == before
    with world.store().reading() as tx:
        assert left(tx, "north", "cohort") == room
        assert sum("showed its approval" in line.what for line in tx.history.of_agreement(digest.hex())) == 1


def test_approvals_of_a_release_that_ended_in_the_restore_are_kept(world: World, two: tuple[Stub, Stub]) -> None:
    digest = world.propose()
    copy = copied(world)
    approve(world, digest, *two)
    restore(world, copy)
    spec = world.spec(digest)
    for party in ("north", "south"):
        with pytest.raises(Conflict):
            ask(world.as_party(party).Approve, pb.ApproveRequest(signed_consent=world.signed(digest, party)))
        world.clock.now -= LATER  # it was signed before the restore
        remind(world, spec, party)
        world.clock.now += LATER
    assert state(world, digest) is Stage.CANCELLED
    assert charged(world, "south") == {digest.hex(): False}


def test_an_office_that_was_not_restored_takes_no_release_from_a_hospital(
    world: World, two: tuple[Stub, Stub], caplog: pytest.LogCaptureFixture
) -> None:
    spec = world.spec(world.propose())
    invented = spec.model_copy(update={"title": "never proposed"})
    caplog.set_level("INFO")
    for _ in range(2):
        with pytest.raises(NotFound):
            remind(world, invented, "north")
    assert caplog.text.count("coordinator backup restored") == 1  # however often it is shown
    restore(world, copied(world))
    old = invented.model_copy(update={"created": instant(world.clock() - timedelta(days=2))})
    with pytest.raises(NotFound):
        remind(world, old, "north")
    with pytest.raises(IntegrityError):
        remind(world, invented.model_copy(update={"consortium": "Another"}), "north")


def test_a_hospital_speaks_for_no_other_and_for_nobody_who_is_not_enrolled(
    world: World, two: tuple[Stub, Stub]
) -> None:
    copy = copied(world)
    report(world.join("east"), "east")
    spec = world.spec(world.propose(parties={"north": ["sex"], "east": "*"}))
    restore(world, copy)
    signed = world.approval(spec, "east").to_bytes()
    with pytest.raises(AccessDenied):
        ask(world.as_party("north").Approve, pb.ApproveRequest(signed_consent=signed, proposal=spec.to_bytes()))
    with pytest.raises(Conflict):
        remind(world, spec, "north")  # east has to enrol first
    assert listed(world.as_party("north")) == []


def test_published_releases_are_taken_back_from_their_manifests(
    world: World, two: tuple[Stub, Stub], tmp_path: Path
) -> None:
    first = world.propose()
    copy = copied(world)
    approve(world, first, *two)
    second = world.propose(parties={"north": ["age"], "south": ["glucose"]})
    approve(world, second, *two)
    published = tmp_path / "published"
    folders = [publish(world, world.spec(digest), published) for digest in (first, second)]
    restore(world, copy)
    assert state(world, first) is Stage.CANCELLED
    done = run(world, "backup", "recall", str(published))
    assert done.output.count("taken back as published") == 2
    assert listed(world.as_party("north")) == [(first, PUBLISHED), (second, PUBLISHED)]
    assert charged(world, "south") == {first.hex(): True, second.hex(): True}
    manifest = bytes.fromhex(sha256((folders[1] / "manifest.json").read_bytes()))
    report_again = pb.ReportPublicationRequest(spec_digest=second, manifest_digest=manifest)
    ask(world.as_hub().ReportPublication, report_again)  # the hub that was stuck with it goes on
    assert run(world, "backup", "recall", str(published)).output == ""


def test_of_manifests_only_those_that_verify_count(world: World, two: tuple[Stub, Stub], tmp_path: Path) -> None:
    copy = copied(world)
    published = tmp_path / "published"
    forged = publish(world, world.spec(world.propose()), published)
    (forged / "manifest.json").write_bytes((forged / "manifest.json").read_bytes().replace(b"glucose", b"glucosf"))
    report(world.join("east"), "east")
    strange = publish(world, world.spec(world.propose(parties={"east": "*"})), published)
    (published / "index.json").write_text("{}")
    restore(world, copy)
    with closing(Store.open(world.settings.database)) as store:
        found = dict(recall(store, world.root.decode(), published, world.clock()))
    assert found.keys() == {forged.name, strange.name}
    assert "not taken back" in found[forged.name]
    assert "east must enrol again first" in found[strange.name]
    assert listed(world.as_party("north")) == []
    assert run(world, "backup", "recall", str(tmp_path / "nowhere")).exit_code == 2


def test_of_two_manifests_the_one_that_is_known_counts(world: World, two: tuple[Stub, Stub], tmp_path: Path) -> None:
    digest = world.propose()
    approve(world, digest, *two)
    publish(world, world.spec(digest), tmp_path / "published")
    ask(world.as_hub().AuthorizePublication, pb.AuthorizePublicationRequest(spec_digest=digest))
    ask(world.as_hub().ReportPublication, pb.ReportPublicationRequest(spec_digest=digest, manifest_digest=b"m" * 32))
    with closing(Store.open(world.settings.database)) as store:
        ((_, words),) = recall(store, world.root.decode(), tmp_path / "published", world.clock())
    assert "published under another manifest" in words


def test_no_session_is_dealt_twice(world: World, two: tuple[Stub, Stub]) -> None:
    """An older copy has forgotten the deal, and would make another for the very session of the first."""
    stubs = {"north": two[0], "south": two[1]}
    offers = world_offers(world, stubs)
    copy = copied(world)
    before = over_the_wire(stubs, offers)
    put_back(world, copy)
    assert run(world, "backup", "restored", "--latest").exit_code == 0
    world.start()
    again = over_the_wire({party: world.as_party(party) for party in stubs}, offers)
    assert again != before
    restore(world, copy)
    with pytest.raises(Conflict):
        ask(world.as_party("north").RequestDeal, offers.request())

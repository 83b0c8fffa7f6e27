"""A hub that publishes what was not sealed, and a coordinator that tells the hub what was not approved."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner, Result

from dprelease.canonical import sha256
from dprelease.errors import DpReleaseError, IntegrityError, PeerUnavailable, SpecRefused
from dprelease.mechanisms.noisy_rows.terms import NoisyRowsTerms
from dprelease.release.approval import approve
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec
from dprelease.wire.v1 import release_pb2
from learner.cli.main import main
from tests.hostile.faults import Fault, Kind, each
from tests.learner.tampering import BLOCKS, FILES, MANIFEST
from tests.learner.test_hub import Party, Start
from tests.learner.world import CONSORTIUM, FakeCoordinator, Sealed, World, stored
from tests.support.certificates import mint
from tests.support.specs import with_terms

NOT_KEPT = "nothing is kept or fitted; what the hub serves honestly is fetched"

FALSE = [
    Fault(f"the hub serves {kind}: {what}", "learner", Kind.LOCAL, IntegrityError, NOT_KEPT, act)
    for kind, tampers in (("a manifest", MANIFEST), ("a block", {**BLOCKS, **FILES}))
    for what, act in tampers.items()
    if what != "missing block"  # that is a hub that breaks, not one that lies
]


def _learner(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--home", str(home), *arguments])


def _trust(home: Path, root: Path, port: int) -> None:
    added = _learner(home, "trust", "add", CONSORTIUM, "--root", str(root), "--hub", f"localhost:{port}", "--yes")
    assert added.exit_code == 0, added.output


@each(FALSE)
def test_what_does_not_verify_is_not_kept(
    start_hub: Start, world: World, sealed: Sealed, tmp_path: Path, fault: Fault
) -> None:
    published = stored(tmp_path / "storage", world, sealed)
    hub = start_hub()
    home = tmp_path / "home"
    _trust(home, world.root_path, hub.public_port)
    assert _learner(home, "list").exit_code == 0  # the hub knows the release before it is changed
    honest = tmp_path / "honest"
    shutil.copytree(published.path, honest)
    fault.act(ReleaseFolder(published.path), world)
    fetched = _learner(home, "fetch", sealed.digest)
    assert fetched.exit_code == fault.exit_code, fetched.output
    assert fetched.stderr.splitlines()[-1].startswith("error: ")
    assert not (home / "releases").exists() or not list((home / "releases").iterdir())
    assert _learner(home, "fit", sealed.digest, "--target", "glucose").exit_code != 0
    shutil.rmtree(published.path)
    shutil.copytree(honest, published.path)
    again = _learner(home, "fetch", sealed.digest)
    assert again.exit_code == 0, again.output


def _strange_hub(start_hub: Start, world: World, tmp_path: Path) -> tuple[Path, int]:
    root = tmp_path / "other.pem"
    root.write_text(mint(CONSORTIUM, None).certificate)
    return root, start_hub().public_port


STRANGE = Fault(
    "the hub is of another root than the pinned one", "learner", Kind.HANDSHAKE, PeerUnavailable, NOT_KEPT, _strange_hub
)


@each([STRANGE])
def test_a_hub_of_another_root_is_not_listened_to(
    start_hub: Start, world: World, sealed: Sealed, tmp_path: Path, fault: Fault
) -> None:
    root, port = fault.act(start_hub, world, tmp_path)
    _trust(tmp_path / "home", root, port)
    fetched = _learner(tmp_path / "home", "fetch", sealed.digest)
    assert fetched.exit_code == fault.exit_code
    assert "not from the expected consortium" in fetched.stderr
    _trust(tmp_path / "another home", world.root_path, port)
    assert _learner(tmp_path / "another home", "list").exit_code == 0


Lie = Callable[[release_pb2.AgreementRecord, World], None]


def no_approval(record: release_pb2.AgreementRecord, world: World) -> None:
    del record.consents[:]


def one_approval(record: release_pb2.AgreementRecord, world: World) -> None:
    del record.consents[1:]


def garbage(record: release_pb2.AgreementRecord, world: World) -> None:
    record.consents[0] = b"\xff"


def forged(record: release_pb2.AgreementRecord, world: World) -> None:
    other, spec = mint("south", "party", world.root), world.sealed().spec
    record.consents[1] = approve(
        spec, "south", sha256(b"x"), other.key, other.certificate, datetime.now(UTC)
    ).to_bytes()


def another_spec(record: release_pb2.AgreementRecord, world: World) -> None:
    other = world.sealed("another")
    record.proposal = other.spec.to_bytes()
    record.consents[:] = [signed.to_bytes() for signed in other.approvals]


TOLD: list[tuple[str, type[DpReleaseError], Lie]] = [
    ("a release that nobody approved", IntegrityError, no_approval),
    ("a release that one party approved", IntegrityError, one_approval),
    ("an approval that cannot be read", IntegrityError, garbage),
    ("an approval by a key that it certified itself", IntegrityError, forged),
    ("another release than was asked for", IntegrityError, another_spec),
]
LIES = [
    Fault(
        f"the coordinator tells the hub {what}",
        "hub",
        Kind.ANSWERED,
        error,
        "no block is taken, nothing published",
        act,
    )
    for what, error, act in TOLD
]


def test_the_hub_believes_only_what_every_party_signed(
    north: Party, world: World, sealed: Sealed, coordinator: FakeCoordinator, check: Callable[[], None]
) -> None:
    for fault in LIES:
        fault.act(coordinator.records[sealed.digest], world)
        with fault.refused() as caught:
            north.open()
        fault.check_answer(caught)
        coordinator.offer(sealed)
    check()


def approved_by_all(world: World, honest: Sealed, spec: ReleaseSpec) -> Sealed:
    return replace(honest, spec=spec, approvals=tuple(world.approval(name, spec) for name in honest.blocks))


def too_little_noise(world: World) -> Sealed:
    """A spec that every party approved, although its noise does not reach its target."""
    honest = world.sealed()
    assert isinstance(honest.spec.terms, NoisyRowsTerms)
    north, south = honest.spec.terms.noise
    noise = (north.model_copy(update={"scale": north.scale / 2}), south)
    return approved_by_all(world, honest, with_terms(honest.spec, noise=noise))


def another_consortium(world: World) -> Sealed:
    honest = world.sealed()
    return approved_by_all(world, honest, honest.spec.model_copy(update={"consortium": "another"}))


APPROVED = [
    Fault(f"the coordinator tells the hub a release {what}, approved by all", "hub", Kind.ANSWERED, error,
        "no block is taken, nothing published", act)
    for what, error, act in (
        ("with too little noise", SpecRefused, too_little_noise),
        ("of another consortium", IntegrityError, another_consortium),
    )
]  # fmt: skip


@each(APPROVED)
def test_the_hub_checks_what_every_party_signed(
    north: Party, world: World, coordinator: FakeCoordinator, check: Callable[[], None], fault: Fault
) -> None:
    lie = fault.act(world)
    coordinator.offer(lie)
    with fault.refused() as caught:
        north.open(world.seal("north", lie.spec, lie.blocks["north"]).to_bytes())
    fault.check_answer(caught)
    check()


FAULTS = [*FALSE, STRANGE, *LIES, *APPROVED]

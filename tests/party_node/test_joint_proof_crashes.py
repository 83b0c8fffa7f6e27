"""Power cuts, restored disks and altered software while hospitals prove their bounds: one release, and no second answer.

Steps are counted as in `test_joint_crashes`. A process that ends has forgotten the seeds that it dealt, so a cut while it deals
for others begins the next round, with everything dealt anew.
"""

import base64
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import IntegrityError, ProofRefused
from dprelease.mpc.messages import CHALLENGES, MessageHeader
from dprelease.mpc.schedule import DealtSeeds, Schedule
from dprelease.mpc.session import MOST_REFUSED
from tests.party_node.joint_world import JointWorld, joint_spec
from tests.party_node.test_joint_attacks import read_by_altered_software
from tests.party_node.test_joint_crashes import cut, distinct, exact, steps_on_disk
from tests.support.specs import with_terms


def start(folder: Path, count: int, **changed: Any) -> JointWorld:
    return JointWorld(folder, with_terms(joint_spec(count, rows=4, **changed), range_proofs=True))


def given(world: JointWorld) -> list[MessageHeader]:
    """Every message that was ever sent, also again."""
    return [message.header for _, message, _ in world.post.given]


def said_once(world: JointWorld) -> bool:
    """Whether no place ever had two messages: no second challenge, answer or transcript in any session."""
    return len(set(given(world))) == len({header.place for header in given(world)})


@pytest.mark.parametrize(
    ("count", "name", "order"), [(2, "a", "ab"), pytest.param(3, "c", "cab", marks=pytest.mark.slow)]
)
def test_a_cut_at_any_step_of_proofs_ends_in_one_release(folder: Path, count: int, name: str, order: str) -> None:
    clean = start(folder / "clean", count)
    with steps_on_disk(clean):
        clean.run(order=order)
    assert exact(clean)
    steps = clean[name].steps
    asked = {f"send {kind}" for kind in CHALLENGES} | {"send matrices", "send lines", "send checked"}
    assert asked | ({"request"} if count == 2 else {"send answer"}) <= set(steps)
    begins = steps.index("mask")  # what comes before is as without proofs
    again = 0
    for step in distinct([re.sub(r"\+.*\.", ".", what) for what in steps]):
        if step <= begins:
            continue
        world = start(folder / str(step), count)
        cut(world, name, order, step)
        world.run(order=order)
        assert exact(world), steps[step - 1]
        assert said_once(world), steps[step - 1]
        rounds = {site.state.round for site in world.sites.values()}
        assert len(rounds) == 1
        assert rounds <= ({1} if count == 2 else {1, 2}), steps[step - 1]
        assert all(site.state.refused == 0 for site in world.sites.values())
        again += rounds == {2}
    assert (again > 5) == (count == 3)  # two hospitals lose nothing: the coordinator holds the seeds


def on_disk(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()


def written(folder: Path, secret: bytes) -> bool:
    """Whether a secret is in some file, as bytes, hexadecimal or base64."""
    forms = (secret, secret.hex().encode(), base64.b64encode(secret)[:40], base64.urlsafe_b64encode(secret)[:40])
    return any(form in data for data in on_disk(folder) for form in forms)


def test_what_was_dealt_is_on_no_disk_and_all_else_goes_with_the_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dealt: list[bytes] = []
    keep = DealtSeeds.keep

    def noted(
        self: DealtSeeds, schedule: Schedule, dealer: str, masks: Mapping[str, bytes], proofs: Mapping[str, bytes]
    ) -> None:
        dealt.extend(filter(None, [*masks.values(), *proofs.values()]))
        keep(self, schedule, dealer, masks, proofs)

    monkeypatch.setattr(DealtSeeds, "keep", noted)
    world = start(folder, 3)
    while not all(site.block for site in world.sites.values()):
        for site in world.sites.values():
            site.look()
            assert not any(written(folder, seed) for seed in dealt)
    assert len(set(dealt)) == 9  # three dealers mask two hospitals each, and help with one proof
    challenges = {body[-32:] for header, body in bodies(world) if header.kind in CHALLENGES}
    assert len(challenges) == 9
    for site in world.sites.values():
        assert written(site.folder, bytes.fromhex(site.state.key))
        own = {path.name for path in (site.folder / "joint" / "own").iterdir()}
        assert {f"share+{peer}" for peer in world.sites if peer != site.name} <= own
        shares = [site.session.read_private(name) for name in own]
        site.session.erase()
        kept = [*challenges, *filter(None, shares), *(body for _, body in bodies(world) if len(body) > 32)]
        assert not any(written(site.folder, secret) for secret in kept)


def bodies(world: JointWorld) -> list[tuple[MessageHeader, bytes]]:
    return [(message.header, body) for _, message, body in world.post.given]


def test_no_older_disk_says_anything_else_than_it_said(folder: Path) -> None:
    """The disk of a hospital as it was after each look, with its process gone, once all others are done."""
    world = start(folder / "world", 3)
    site, backups = world["c"], list[Path]()
    while site.block is None:
        for name in "abc":
            world[name].look()
        backups.append(folder / f"backup {len(backups)}")
        shutil.copytree(site.folder, backups[-1])
    world.run(order="abc")
    said, refused = set(given(world)), set[str]()
    for backup in backups:
        site.block = None
        site.seeds.forget()
        shutil.rmtree(site.folder)
        shutil.copytree(backup, site.folder)
        last = site.session.messages()[-1].header.kind
        if last == "checked":  # it knows all that it has said
            site.look()
        else:
            with pytest.raises(IntegrityError, match="our state is older than what we have sent"):
                site.look()
            refused.add(last)
            assert site.block is None
        assert set(given(world)) == said
    assert {"deal", *CHALLENGES} <= refused


def test_a_cell_beyond_its_bounds_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack of `test_joint_attacks` that reads a row of every peer where nothing is proved."""
    monkeypatch.setattr("tests.party_node.test_joint_attacks.ROW", 2)
    world = start(folder, 3)
    with pytest.raises(ProofRefused, match=f"in {MOST_REFUSED} rounds"):
        read_by_altered_software(world, "b", 1 << 40, monkeypatch)
    assert not any(site.block for site in world.sites.values())
    assert not any(header.kind == "checked" and header.sender == "c" for header in given(world))
    assert world["c"].session.read_private("share+b") is None
    assert said_once(world)

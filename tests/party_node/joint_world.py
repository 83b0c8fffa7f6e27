"""Several hospitals that compute joint moments in one process, each with its own folder, keys and computation.

A test may make one of them hostile, end its process at any step, or take its disk away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.arrays import PieceMap, one_by_one
from dprelease.canonical import sha256
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import Column
from dprelease.errors import Conflict, IntegrityError
from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mpc import encryption
from dprelease.mpc.encryption import Context
from dprelease.mpc.messages import Message, MessageHeader, sign_message
from dprelease.mpc.modulus import MODULI
from dprelease.mpc.schedule import CorrelatedRandomness, DealtSeeds, read_randomness
from dprelease.mpc.session import Products
from dprelease.mpc.storage import SessionState
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.block import Block
from dprelease.release.spec import ReleaseSpec
from party_node.computation.rounds import NOTHING, RoundsBefore
from party_node.computation.sessions import Computation, Remembered
from party_node.state.session import SessionFolder, UsedSeeds
from tests.party_node.joint_post import Alters, MemoryRelay, Office, Post
from tests.party_node.world import PowerCut
from tests.support.certificates import Member
from tests.support.noise import ZeroNoise
from tests.support.rounds import after, first_blocks, in_published_ranges, ranges_first
from tests.support.specs import Consortium, build_spec, categorical, new_consortium, numeric, random_rows
from tests.support.specs import sign_approval as approve

NAMES = ("a", "b", "c", "d", "e")
COLUMNS: dict[str, tuple[Column, ...]] = {
    "a": (numeric("a0"), numeric("a1")),
    "b": (categorical("b0", "yes"), numeric("b1")),
    "c": (categorical("c0", "one", "two"),),
    "d": (numeric("d0"),),
    "e": (numeric("e0"), categorical("e1", "yes")),
}
MADE = "made"
"""What `Site.look` says of a hospital whose block is there."""


@lru_cache
def consortium(count: int) -> Consortium:
    """Keys take long to make; one consortium for each number of hospitals."""
    return new_consortium(*NAMES[:count])


def joint_spec(
    count: int, rows: int = 24, grid_bits: int = 16, *, two_rounds: bool = False, **changed: Any
) -> ReleaseSpec:
    """A release of the first hospitals, over their real keys; of two rounds it has ranges in the first."""
    columns = {name: COLUMNS[name] for name in NAMES[:count]}
    keys = consortium(count).keys
    spec = build_spec(columns, mechanism="moments", rows=rows, grid_bits=grid_bits, keys=keys, **changed)
    return ranges_first(spec, range_proofs=False) if two_rounds else spec  # `test_joint_proof_crashes` has proofs


@dataclass
class Site:
    """A hospital.

    Attributes:
        name: of the party.
        world: where it is.
        table: its rows.
        folder: its disk.
        noise: its source.
        block: its block, once made; there is never another.
        alters: what a hostile hospital sends instead of a message of its own.
        fault: end the process before this step, counted from 1; 0 for never.
        steps: what was done, in order, since the count began.
        seeds: those that it dealt, in the memory of its process; each look forgets everything else.
        engine: makes its products.
    """

    name: str
    world: JointWorld
    table: BoundedRows
    folder: Path
    noise: NoiseSource = field(default_factory=ZeroNoise)
    block: Block | None = None
    alters: Alters = lambda message, body: (message, body)
    fault: int = 0
    steps: list[str] = field(default_factory=list)
    seeds: DealtSeeds = field(default_factory=DealtSeeds)
    engine: PieceMap = one_by_one

    @property
    def member(self) -> Member:
        return self.world.consortium.parties[self.name]

    @property
    def session(self) -> SessionFolder:
        return SessionFolder(self.folder / "joint")

    @property
    def state(self) -> SessionState:
        found = self.session.state()
        assert found is not None
        return found

    @property
    def session_key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(self.state.key))

    def tick(self, what: str) -> None:
        """Something is about to be done."""
        self.steps.append(what)
        self.world.events.append((self.name, what))
        if len(self.steps) == self.fault:
            self.seeds.forget()
            raise PowerCut

    def computation(self) -> Computation:
        """As a fresh process would make it."""
        world = self.world
        made = Computation(
            world.spec,
            self.name,
            self.member.key,
            world.approvals,
            self.session,
            Seeds(self),
            MemoryRelay(world.post, self.name, self.tick, self.alters),  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self._bounded,
            lambda: self.tick("charge"),
            world.before,
            Remembered(seeds=self.seeds),
            self.engine,
        )
        # Hostile software does not mind that what it sent is not what is on its disk.
        altered, session = world.post.altered, made.session
        unknown = session._unknown
        others = {other for digest, other in altered.items() if other != digest}
        session._unknown = lambda messages: [  # type: ignore[method-assign]
            header for header in unknown(messages) if header.digest() not in others
        ]
        return made

    def request_deal(self, offers: list[bytes]) -> bytes:
        self.tick("request")
        return self.world.office.request(self.name, offers)

    def request_answer(self, asked: Message, body: bytes, size: int) -> bytes:
        self.tick("request")
        answer = self.world.office.answer(asked, body)
        assert len(answer) == size
        return answer

    def _bounded(self) -> BoundedRows:
        self.tick("bounded")
        return self.table

    def look(self) -> str:
        """Go as far as it goes: for whom it waits, or `MADE`."""
        if self.block is None:
            self.world.current = self
            done = self.computation().advance()
            if isinstance(done, str):
                return done
            self.finish(done)
        return MADE

    def finish(self, done: Products) -> None:
        spec, earlier = self.world.spec, self.world.before.earlier
        (self.block,) = privatize(self._bounded(), spec, self.name, self.noise, done, earlier, run=self.engine)

    def lose(self) -> None:
        """The session's folder is gone; the list of used seeds is not."""
        self.session.erase()

    def dealt(self) -> dict[str, CorrelatedRandomness]:
        """Dealer to what was dealt to us, from our disk, opened here with the session key that is on it too."""
        found = {}
        for dealer in self.world.schedule.dealers_of(self.name):
            sealed = self.session.dealt(dealer)
            assert sealed is not None
            session = self.world.post.session(self.state.round)
            assert session is not None
            context = Context("deal", self.world.spec.digest(), session, dealer, self.name, "")
            found[dealer] = read_randomness(
                encryption.unseal(self.session_key, sealed, context), self.world.schedule, self.name, dealer
            )
        return found

    def offer(self, number: int) -> None:
        """Put an offer with another key there, as hostile software may at any time."""
        key = encryption.public_bytes(encryption.new_session_key()).hex()
        made = self.world.post.find("hello", self.name).header.model_copy(update={"round": number, "payload": key})
        self.world.post.take(self.name, sign_message(self.member.key, made), b"")

    def hostile(self, change: Callable[[MessageHeader, bytes], tuple[dict[str, Any], bytes] | None]) -> None:
        """Send changed messages, signed with our own key: fields of the header that differ, and the body."""

        def alters(message: Message, body: bytes) -> tuple[Message, bytes]:
            changed = change(message.header, body)
            if changed is None:
                return message, body
            fields, other = changed
            same = {"size": len(other), "sha256": hashlib.sha256(other).hexdigest()} if other else {}
            header = MessageHeader.model_validate({**dict(message.header), **same, **fields})
            return sign_message(self.member.key, header), other

        self.alters = alters


class Seeds(UsedSeeds):
    """A party's list of used seeds, with a step before each use."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.folder / "seeds.sqlite")
        self._site = site

    def use(self, digests: Iterable[str], session: str, dealer: str) -> None:
        self._site.tick("use seeds")
        super().use(digests, session, dealer)


class JointWorld:
    """A release that everybody approved; of two rounds the first is over.

    Args:
        folder: an empty one.
        spec: from `joint_spec`.

    Attributes:
        before: the first of two rounds.
        known: the spec, in the ranges that it published.
    """

    def __init__(self, folder: Path, spec: ReleaseSpec) -> None:
        self.spec, self.schedule = spec, schedule_of(spec)
        self.consortium = consortium(len(spec.parties))
        self.approvals = tuple(approve(self.consortium.parties[name], spec) for name in self.schedule.parties)
        self.post, self.office = Post(self.schedule), Office(self.schedule)
        self.events: list[tuple[str, str]] = []
        self.current: Site | None = None
        self.sites = {
            name: Site(name, self, random_rows(spec, name, place), folder / name)
            for place, name in enumerate(self.schedule.parties)
        }
        for site in self.sites.values():
            site.folder.mkdir(parents=True)
        self.before, self.known = NOTHING, spec
        if len(spec.rounds()) > 1:
            first = first_blocks(spec, self.tables, ZeroNoise())
            digests = tuple(sha256(block.to_bytes()) for own in first.values() for block in own)
            self.before, self.known = RoundsBefore(after(spec, first), digests), in_published_ranges(spec, first)

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def run(self, order: Iterable[str] | None = None, seed: int = 0) -> None:
        """Look at one hospital after the other until all blocks are made.

        Args:
            order: names, in turn again and again; at random unless given.
            seed: of the random order.
        """
        generator = np.random.default_rng(seed)
        turn = list(order or self.schedule.parties)
        for _ in range(40):
            for name in turn if order else generator.choice(turn, len(turn)):  # some twice, some not at all
                self[str(name)].look()
            if all(site.block for site in self.sites.values()):
                return
        raise AssertionError({name: "" if site.block else site.look() for name, site in self.sites.items()})

    def looks(self, times: int = 4, names: str | None = None) -> dict[str, str]:
        """Several rounds of looks, at some hospitals or all; what each said last, or why it stopped."""
        said = {}
        for _ in range(times):
            for name in names or self.sites:
                try:
                    said[name] = self[name].look()
                except (IntegrityError, Conflict) as error:
                    said[name] = error.message
        return said

    def released(self) -> list[int]:
        """What the hub would publish."""
        moments, spec = self.spec.terms, self.spec
        assert moments is not None
        most = limits(layout_of(spec), spec.rows, spec.grid_bits, moments.scales, len(self.sites))
        blocks = [site.block for site in self.sites.values() if site.block is not None]
        return [int(value) for value in add_up([block.values for block in blocks], most, MODULI[spec.terms.modulo])]

    @property
    def tables(self) -> dict[str, BoundedRows]:
        return {name: site.table for name, site in self.sites.items()}

    def variables(self, name: str) -> np.ndarray[Any, np.dtype[np.int32]]:
        """(n, d) Q of a hospital."""
        return code(self[name].table.codes, self[name].table.columns)

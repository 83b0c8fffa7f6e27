"""A release simulated on made-up rows: every step between an accepted spec and a fit, by the code that a real one runs.

    made-up rows -> bounded rows -> noise (and, for joint moments, the whole session) -> sealed, signed blocks
      -> signed manifest -> files -> verified from the files as any learner does -> reloaded

Keys, certificates and noise come from the caller; nothing here talks to anybody. Everything made says FAKE wherever it says
anything (`dprelease.release.fake`), and chains to a root that nobody has pinned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from dprelease.agreement import check_all
from dprelease.data.bounding import BoundedRows
from dprelease.files.durable import write_durably
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.in_memory import multiply
from dprelease.mpc.schedule import SEAL_BYTES, SEED_BYTES, Schedule
from dprelease.privacy.noise import NoiseSource
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.approval import approve, commit, new_salt
from dprelease.release.block import Block, block_keys, block_size, values_of
from dprelease.release.fake import fake_rows
from dprelease.release.folder import ReleaseFolder
from dprelease.release.manifest import BlockEntry, assemble, sealed_block, sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.version import __version__


@dataclass(frozen=True, repr=False)
class SimulatedSigner:
    """A throw-away key and its certificate, PEM."""

    key: PrivateKey
    certificate: str


@dataclass(frozen=True)
class Signers:
    """A throw-away consortium.

    Attributes:
        root: its root certificate, PEM.
        hub: whoever signs the manifest.
        parties: party of the made-up spec to whoever signs for it.
    """

    root: str
    hub: SimulatedSigner
    parties: Mapping[str, SimulatedSigner]


@dataclass
class Stopwatch:
    """How long steps take.

    Attributes:
        seconds: step to seconds, in the order in which they were begun.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step; one that is done in several parts adds up."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Simulated:
    """Results of a simulation.

    Attributes:
        spec: the made-up one.
        rows: party to its made-up rows, as they were before any noise.
        folder: the release as files.
        release: read back from the files, verified.
    """

    spec: ReleaseSpec
    rows: Mapping[str, BoundedRows]
    folder: ReleaseFolder
    release: Release


def simulate(
    spec: ReleaseSpec,
    outcome: str,
    signers: Signers,
    noise: NoiseSource,
    folder: ReleaseFolder,
    now: datetime,
    watch: Stopwatch,
) -> Simulated:
    """Go the whole way with made-up rows.

    Args:
        spec: from `fake.fake_spec`.
        outcome: name of the column that depends on the others.
        signers: whose keys the spec names.
        noise: secret noise.
        folder: where the release is written.
        now: the present.
        watch: told about every step.

    Raises:
        SpecRefused, InvalidInput: the spec does not work out.
        IntegrityError: what was written does not verify; that would be an error of this software.
    """
    with watch.step("check the spec"):
        check_spec(spec)
    with watch.step("make up rows"):
        rows = fake_rows(spec, outcome)
    commitments = {party: commit(new_salt(), table.digest()) for party, table in rows.items()}
    with watch.step("sign and check approvals"):
        approvals = {
            party: approve(spec, party, commitments[party], signer.key, signer.certificate, now)
            for party, signer in signers.parties.items()
        }
        check_all(approvals.values(), spec, signers.root, {part.party: part.key for part in spec.parties})
    blocks, known = _blocks(spec, rows, signers, commitments, noise, watch)
    with watch.step("seal, sign and write blocks"):
        entries = [_sealed(each, signers.parties[party], folder) for party, made in blocks.items() for each in made]
    with watch.step("assemble and sign the manifest"):
        data = assemble(spec, entries, approvals, signers.hub.certificate, __version__, now).to_bytes()
        folder.write_manifest(data, sign_manifest(signers.hub.key, data))
    with watch.step("read back and verify"):
        release = folder.verify(signers.root, known)
    return Simulated(spec, rows, folder, release)


def _blocks(
    spec: ReleaseSpec,
    rows: Mapping[str, BoundedRows],
    signers: Signers,
    commitments: Mapping[str, str],
    noise: NoiseSource,
    watch: Stopwatch,
) -> tuple[dict[str, tuple[Block, ...]], EarlierRounds]:
    """The blocks of all rounds, and what those before the last gave."""
    mechanism, earlier = mechanism_of(spec), FIRST_ROUND
    blocks: dict[str, tuple[Block, ...]] = dict.fromkeys(rows, ())
    for sequences in spec.rounds():
        earlier, products, step = mechanism.earlier(spec, values_of(blocks)), {}, "query and draw noise"
        if spec.joint and sequences == spec.rounds()[-1]:
            matrices = {party: mechanism.matrix(table, spec, earlier) for party, table in rows.items()}
            identities = {party: signer.key for party, signer in signers.parties.items()}
            products = multiply(spec.schedule(), matrices, identities, commitments, watch.step)
            step = "draw noise"
        with watch.step(step):
            for party, table in rows.items():
                blocks[party] += privatize(table, spec, party, noise, products.get(party), earlier)
    return blocks, earlier


def _sealed(block: Block, signer: SimulatedSigner, folder: ReleaseFolder) -> BlockEntry:
    data, header = block.to_bytes(), block.header
    sealed = sealed_block(signer.key, header, data)
    write_durably(folder.block(header.party, header.sequence), data)
    return BlockEntry(sealed=sealed, certificate=signer.certificate)


@dataclass(frozen=True)
class Traffic:
    """Bytes that a party sends, from the spec alone; small signed messages not counted.

    Attributes:
        block: its sealed blocks, to the hub and from there to every learner.
        columns: its masked columns, to the relay and from there to each of its partners; 0 without joint moments.
        dealt: what is dealt to it and what it deals, keys included.
    """

    block: int
    columns: int = 0
    dealt: int = 0


def traffic(spec: ReleaseSpec) -> dict[str, Traffic]:
    """Bytes that would travel, by party."""
    sizes = {part.party: 0 for part in spec.parties}
    for _, party, sequence in block_keys(spec):
        sizes[party] += block_size(spec, party, sequence)
    if not spec.joint:
        return {name: Traffic(size) for name, size in sizes.items()}
    schedule = spec.schedule()
    return {name: Traffic(size, _columns(schedule, name), _dealt(schedule, name)) for name, size in sizes.items()}


def _columns(schedule: Schedule, party: str) -> int:
    return schedule.columns_size(party) * len(schedule.dealers_of(party))


def _dealt(schedule: Schedule, party: str) -> int:
    received = [(party, dealer) for dealer in schedule.dealers_of(party)]
    sent = [(receiver, party) for receiver in schedule.receivers(party)]
    keys = sum(len(schedule.partners(party, dealer)) for dealer in schedule.dealers_of(party)) * (
        SEED_BYTES + SEAL_BYTES
    )
    return keys + sum(schedule.deal_size(receiver, dealer) + SEAL_BYTES for receiver, dealer in (*received, *sent))

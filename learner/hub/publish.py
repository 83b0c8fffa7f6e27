"""From a complete set of blocks to a release that everybody can read.

Order: assemble and sign, verify what stands on disk as any stranger would, ask the coordinator, make it visible in one
rename, tell the coordinator. Every step may be repeated; a restart goes on at the first one that is not done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dprelease.canonical import sha256
from dprelease.errors import Conflict, DpReleaseError, InternalError, NotFound, PeerUnavailable
from dprelease.identity.signing import PrivateKey
from dprelease.mechanisms.base import FIRST_ROUND, EarlierRounds
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.block import block_keys, read_block
from dprelease.release.manifest import assemble, sign_manifest
from dprelease.release.spec import BlockKey
from dprelease.version import __version__
from dprelease.wire.news import Listening, wait_for_news
from dprelease.wire.retry import Backoff
from learner.hub.approved import ApprovedRelease
from learner.hub.coordination import PEER, Coordination
from learner.hub.pages import mend, write_beside, write_list
from learner.hub.storage import Storage


@dataclass(frozen=True)
class Signer:
    """Who signs manifests.

    Attributes:
        key: the hub's private key.
        certificate: its certificate, PEM.
        root_pem: the consortium root that a learner will verify against.
    """

    key: PrivateKey
    certificate: str
    root_pem: str


def received(storage: Storage, record: ApprovedRelease) -> tuple[str, ...]:
    """Parties all of whose blocks are here and verified, in the spec's order."""
    missing = {key.party for key in block_keys(record.spec) if not storage.is_complete(key)}
    return tuple(party for party in record.parties if party not in missing)


def read_ahead(storage: Storage, digest: str) -> EarlierRounds | None:
    """Values of the earlier rounds of a release, once all their blocks are here: hospitals compute the last one meanwhile.

    Raises:
        IntegrityError: an honest hospital builds nothing on these blocks.
    """
    record = storage.record(digest)
    if record is None:
        return None
    spec = record.spec
    earlier = range(spec.rounds()[-1].start)
    keys = {part.party: [BlockKey(digest, part.party, at) for at in earlier] for part in spec.parties}
    if not earlier or not all(storage.is_complete(key) for own in keys.values() for key in own):
        return None
    files = storage.release(digest)
    values = {
        party: tuple(
            read_block(files.block(party, key.sequence).read_bytes(), spec, party, key.sequence).values for key in own
        )
        for party, own in keys.items()
    }
    return mechanism_of(spec).earlier(spec, values)


def prepare(
    storage: Storage, record: ApprovedRelease, signer: Signer, now: datetime, known: EarlierRounds = FIRST_ROUND
) -> None:
    """Write the signed manifest of a complete set beside its blocks, verify the whole, and write pages. Nothing is visible yet.

    Raises:
        Conflict: a block is missing.
        IntegrityError: the release would not verify, e.g. because a certificate has expired; it is never published so.
    """
    digest = record.spec.digest()
    entries = {key: storage.entry(key) for key in block_keys(record.spec)}
    blocks = [entry for key, entry in entries.items() if entry and storage.is_complete(key)]
    if len(blocks) < len(entries):
        raise Conflict(f"release {digest[:12]} is not complete")
    approvals = {signed.approval.party: signed for signed in record.approvals}
    data = assemble(record.spec, blocks, approvals, signer.certificate, __version__, now).to_bytes()
    folder = storage.release(digest)
    folder.write_manifest(data, sign_manifest(signer.key, data))
    write_beside(folder, folder.verify(signer.root_pem, known))


def advance(
    storage: Storage,
    coordination: Coordination,
    signer: Signer,
    digest: str,
    now: datetime,
    known: EarlierRounds = FIRST_ROUND,
) -> bool:
    """Take a staged release as far as it goes; of an alignment run, remove what is here once it is over.

    Values of its earlier rounds may be known (`read_ahead`).

    Returns:
        Tells whether it is finished with: published and reported, or over without a publication.

    Raises:
        PeerUnavailable: the coordinator is away; try again.
        Conflict, IntegrityError, ...: the release cannot be published as it stands, e.g. a party was revoked, or there is
            another signed manifest of it somewhere.
    """
    if storage.run(digest) is not None:
        over = coordination.run_has_ended(digest)
        if over:
            storage.drop(digest)
        return over
    if storage.published(digest) is None:
        record = storage.record(digest)
        if _has_ended(coordination, digest, record):
            storage.drop(digest)
            return True
        if record is None:
            return False
        here = received(storage, record)
        if here:
            coordination.report_intake(digest, here)
        if here != record.parties:
            return False
        if coordination.was_published(digest):
            raise Conflict(
                f"release {digest[:12]} was published and is gone from published/, so this storage is older; stop, put its folder "
                "back there from a mirror, a backup or a learner's copy, and start again"
            )
        prepare(storage, record, signer, now, known)
        _refuse_revoked(record, coordination.revoked())
        coordination.authorize(digest)
    storage.reveal(digest)  # again after a crash or on a full disk: it may be visible and not listed
    write_list(storage)
    data, _ = storage.release(digest).signed_manifest()
    coordination.report_publication(digest, sha256(data))
    storage.drop(digest)
    return True


def _has_ended(coordination: Coordination, digest: str, record: ApprovedRelease | None) -> bool:
    """Tells whether what is staged is over; without a record it may be a run whose own is being written, or is gone."""
    try:
        return coordination.has_ended(digest)
    except NotFound:
        if record is not None:
            raise
        return coordination.run_has_ended(digest)


def _refuse_revoked(record: ApprovedRelease, revoked: frozenset[str]) -> None:
    named = [part.party for part in record.spec.parties if part.key in revoked]
    if named:
        raise Conflict(f"the key of {', '.join(named)} was revoked; nothing of this release is published")


log = logging.getLogger(__name__)


class Worker(threading.Thread):
    """A thread that works until it is stopped."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()
        self._wake = threading.Event()

    def stop(self) -> None:
        """End after what is just being done."""
        self._stopping.set()
        self._wake.set()


class Upkeep(Worker):
    """A thread that does a few things again and again; trouble with one never keeps another from being done."""

    def __init__(self, duties: Sequence[Callable[[], object]], seconds: float) -> None:
        super().__init__("upkeep")
        self._duties = duties
        self._seconds = seconds
        self._told: dict[int, DpReleaseError] = {}

    def round(self) -> None:
        """Do everything once. Trouble is told when it begins, changes or ends, not every few seconds."""
        for number, duty in enumerate(self._duties):
            try:
                duty()
            except DpReleaseError as error:
                if number not in self._told or _trouble(self._told[number]) != _trouble(error):
                    log.warning("%s", error.message)
                    self._told[number] = error
            except Exception:
                log.exception("a duty failed in an unforeseen way")
            else:
                if number in self._told:
                    log.info("in order again: %s", self._told.pop(number).message)

    def run(self) -> None:
        """Do everything again and again."""
        while not self._stopping.is_set():
            self.round()
            self._wake.wait(self._seconds)


def _trouble(error: DpReleaseError) -> tuple[type[DpReleaseError], str]:
    """Words for what is wrong; for a peer that is away the same, however its connection breaks meanwhile."""
    peer = error.peer if isinstance(error, PeerUnavailable) else ""
    return type(error), peer or error.message


class Publisher(Worker):
    """Publishes what is complete and reports what was published."""

    def __init__(
        self,
        storage: Storage,
        coordination: Coordination,
        signer: Callable[[], Signer],
        now: Callable[[], datetime],
        sweep_seconds: float,
        backoff: Backoff,
    ) -> None:
        super().__init__("publisher")
        self._storage = storage
        self._coordination = coordination
        self._signer = signer
        self._now = now
        self._sweep_seconds = sweep_seconds
        self._backoff = backoff
        self._ahead: dict[str, EarlierRounds] = {}
        self._news = Listening(lambda: coordination.stub, self.wake)

    def nudge(self, digest: str) -> None:
        """A block has become complete: look now."""
        log.info("release %s has another complete block", digest[:12])
        self.wake()

    def wake(self) -> None:
        """Something changed: look now."""
        self._wake.set()

    def round(self) -> bool:
        """Advance every staged release and alignment run; one that cannot go on never holds up another.

        Returns:
            Tells whether everybody who had to be asked was there.
        """
        try:
            reached, staged = True, self._storage.staged()
        except OSError as error:  # a network file system may be away for a moment
            log.warning("the storage cannot be read now: %s", error.strerror)
            return False
        self._ahead = {digest: known for digest, known in self._ahead.items() if digest in staged}
        for digest in staged:
            if self._stopping.is_set():
                break
            what = f"{'release' if self._storage.run(digest) is None else 'alignment run'} {digest[:12]}"
            try:
                known = self._ahead.get(digest, FIRST_ROUND)
                if advance(self._storage, self._coordination, self._signer(), digest, self._now(), known):
                    over = "published" if self._storage.published(digest) else "over, and not published"
                    log.info("%s is %s", what, over if what.startswith("release") else "over")
                elif digest not in self._ahead and (earlier := read_ahead(self._storage, digest)):
                    self._ahead[digest] = earlier
            except (PeerUnavailable, InternalError) as error:
                away = isinstance(error, PeerUnavailable) and error.peer == PEER  # of which `Upkeep` warns
                log.log(logging.INFO if away else logging.WARNING, "%s waits: %s", what, error.message)
                reached = False
            except DpReleaseError as error:
                log.error("%s cannot go on: %s: %s", what, type(error).__name__, error.message)
            except Exception:
                log.exception("%s failed in an unforeseen way", what)
        return reached

    def run(self) -> None:
        """Publish what is complete, whenever something changed or it is time to look again."""
        waits = self._backoff.waits()
        mend(self._storage, self._signer().root_pem)
        while True:
            self._wake.clear()
            if self._stopping.is_set():
                self._news.close()
                return
            if self.round():
                waits, seconds = self._backoff.waits(), self._sweep_seconds
            else:
                seconds = next(waits)
            wait_for_news(self._wake, seconds, [self._news])

"""A store-and-forward relay for sessions between hospitals: it holds sealed parcels and can open none.

It keeps order so that an honest session is not disturbed: one parcel in each place of its plan, of the size that the spec, or
the task of an alignment run, gives, signed by its sender's key, and of the session that the parties are in. Hospitals check all
of it again and believe none of it from here. Masked columns go to the partners that the plan names and to nobody else; it
never names their dealer.

Source: docs/protocol.md; calls in docs/format.md 15.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from pathlib import Path

from dprelease.errors import AccessDenied, Conflict, DpReleaseError, IntegrityError, InvalidInput, NotFound, OutOfTurn
from dprelease.identity.certificates import Identity
from dprelease.mpc.messages import Message, MessageHeader, session_digest
from learner.hub.approved import AcceptedRun, ApprovedRelease, Plan
from learner.hub.mailbox import PAGE_BYTES, ParcelStore, Place, StoredMessage
from learner.hub.storage import Storage
from learner.hub.uploads import Sink, Upload


class Relay:
    """The hub's post office.

    Args:
        storage: the hub's files.
        find_record: digest, and who names it, to checked record, of a release or an alignment run; asks the coordinator when the
            storage has none.
        look: asks whose key was revoked, and refuses the caller if it is one; done once in each call that enters a session.
        tell: given the names of the parties that a parcel has become complete for.
        report: given an alignment run and parties of it that have sent all that is theirs to send.
    """

    def __init__(
        self,
        storage: Storage,
        find_record: Callable[[str, str], ApprovedRelease | AcceptedRun],
        look: Callable[[Identity], object],
        tell: Callable[..., object] = lambda *names: None,
        report: Callable[[str, tuple[str]], object] = lambda run, parties: None,
    ) -> None:
        self._storage = storage
        self._find_record = find_record
        self._look = look
        self._tell = tell
        self._report = report
        self._stores: dict[str, ParcelStore] = {}
        self._stores_lock = threading.Lock()

    def open_parcels(self, caller: Identity, announced: Sequence[tuple[bytes, bytes]]) -> list[int]:
        """Take note of parcels of one release; one without a body is complete at once, and so is one that brings it.

        The first one that is refused ends it, and all before it are taken.

        Args:
            caller: their sender.
            announced: canonical bytes of each signed header, and all of its body where it is short; else it is uploaded.

        Returns:
            Bytes held already of each: where the upload goes on; the size when the parcel is complete.

        Raises:
            InvalidInput: not a parcel, or of several releases, or the release is not computed together.
            AccessDenied: the caller is not the sender, or is not named with the caller's key; or that was revoked.
            IntegrityError: the plan has no such parcel, or its sender did not sign it; or the body is another, and is given up.
            Conflict: another parcel is in its place, its round or session is not the present one, or all is over.
            NotFound, PeerUnavailable, TooManyRequests: the release or run is not known, or there is no room.
        """
        parcels = [Message.from_bytes(data) for data, _ in announced]
        for parcel in parcels:
            if parcel.header.sender != caller.name:
                raise AccessDenied(f"{caller.name} may not send a parcel of {parcel.header.sender}")
        tasks = {parcel.header.task for parcel in parcels}
        if len(tasks) != 1:
            raise InvalidInput("parcels that come together are of one release")
        (task,) = tasks
        plan = self._plan_for(caller, task)
        store, found, new = self._store(task, plan), list[StoredMessage](), list[StoredMessage]()
        signed, fresh = list[Message](), dict[Place, StoredMessage]()
        refused: DpReleaseError | None = None
        if any(parcel.header.kind == "hello" for parcel in parcels):
            self._look(caller)
        try:
            for parcel in parcels:
                plan.check(parcel, {caller.name: caller.key})
                signed.append(parcel)
        except DpReleaseError as error:
            refused = error
        with store.lock:
            try:
                for parcel in signed:
                    found.append(self._noted(plan, store, parcel, fresh))
            except DpReleaseError as error:
                refused = error
            store.keep(fresh.values())
        # A result is the last message of a party: once it is listed, the party says that it is done. It is told before that.
        if any(kept.header.kind == "result" and not store.is_complete(kept) for kept in found):
            self._report(task, (caller.name,))
        with ExitStack() as turns:
            for kept in sorted({kept.digest: kept for kept in found}.values(), key=attrgetter("digest")):
                turns.enter_context(kept.turn.lock)
            try:
                new.extend(kept for kept, (_, body) in zip(found, announced, strict=False) if _fills(store, kept, body))
            except DpReleaseError as error:
                refused = error
            with store.lock:
                store.list_all(new)
                if any(not kept.header.size for kept in new):
                    store.drop_before(_newest_session(plan, store))
        for kept in new:
            self._told(plan, store, kept.header)
        if refused is not None:
            raise refused
        return [store.held(kept) if kept.header.size else 0 for kept in found]

    def _noted(
        self, plan: Plan, store: ParcelStore, parcel: Message, fresh: dict[Place, StoredMessage]
    ) -> StoredMessage:
        header = parcel.header
        kept = store.at(header.place) or fresh.get(header.place)
        if kept is None:
            _check_time(header, plan, store)
            if header.kind == "hello":
                self._storage.reserve(header.task, header.sender, plan.most_bytes(header.sender))
            kept = fresh[header.place] = StoredMessage(parcel)
        elif kept.header != header:
            raise Conflict(f"{header.sender} has sent another {header.kind} in round {header.round} before")
        return kept

    def begin(self, caller: Identity, release: str, parcel: str) -> Upload:
        """An upload of the body of the caller's parcel, from any offset up to which it is held, to its end.

        Its `finish` gives the SHA-256 of the complete, verified, durable body.

        Raises:
            AccessDenied: another party announced this parcel.
            Conflict: nobody did, its round was abandoned; from the upload: a newer one of it has taken over.
            IntegrityError: from the upload: a chunk or the whole is wrong; a damaged whole is given up.
            PeerUnavailable: from the upload: the disk does not take the bytes.
        """
        plan = self._plan_for(caller, release)
        store = self._store(release, plan)
        kept = store.named(parcel)
        if kept is None:
            raise OutOfTurn("open the parcel before sending it; if it was open, its round was abandoned")
        if kept.header.sender != caller.name:
            raise AccessDenied(f"{caller.name} may not send a parcel of {kept.header.sender}")

        def finish(sha256: str | None) -> str:
            store.finish(kept, sha256)
            self._told(plan, store, kept.header)
            return kept.header.sha256

        return kept.turn.begin(Sink(kept.header.size, partial(store.held, kept), partial(store.put, kept), finish))

    def listed(self, caller: Identity, release: str, after: int, mark: bytes = b"") -> tuple[list[bytes], int, bytes]:
        """Signed headers of complete parcels, in the order in which they became complete, as many as fit an answer.

        Args:
            caller: who calls; a party sees the headers that concern it.
            release: digest of the spec or task.
            after: the number at which an earlier answer ended; 0 for the beginning.
            mark: of that answer; if it is given and the list has another one by now, all begins again.

        Returns:
            The headers' canonical bytes, the number at which this answer ends, and the mark of the list.

        Raises:
            AccessDenied, Conflict, NotFound, PeerUnavailable: as for `open_parcels`.
        """
        plan = self._plan_for(caller, release)
        store = self._store(release, plan)
        present = store.mark  # before the list: a round that is abandoned in between is noticed next time
        found, last = store.listed(after if mark in (b"", present) else 0, partial(plan.concerns, caller.name))
        return found, last, present

    def body(self, caller: Identity, release: str, parcel: str, offset: int) -> Path:
        """The file of a body, once it is sure that it is complete, is for the caller and reaches to the offset.

        Raises:
            NotFound: no such complete parcel.
            AccessDenied: it is not for the caller.
            InvalidInput: the offset lies past the end.
        """
        store = self._store(release, self._plan_for(caller, release))
        kept = store.named(parcel)
        if kept is None:
            raise NotFound("no such parcel")
        header = kept.header
        if caller.name not in header.receivers:
            raise AccessDenied(f"a {header.kind} of {header.sender} is not for {caller.name}")
        if not store.is_complete(kept):
            raise NotFound("no such parcel is complete")
        if offset > header.size:
            raise InvalidInput(f"the parcel has {header.size} bytes; there is nothing at {offset}")
        return store.body(kept)

    def short_bodies(self, caller: Identity, release: str, parcels: Iterable[str]) -> list[bytes]:
        """Whole bodies that fit one answer together.

        Raises:
            InvalidInput: they do not.
            NotFound, AccessDenied: as for `body`.
        """
        found, room = list[bytes](), PAGE_BYTES
        for parcel in parcels:
            path = self.body(caller, release, parcel, 0)
            room -= path.stat().st_size
            if room < 0:
                raise InvalidInput(
                    f"an answer has {PAGE_BYTES} bytes of bodies at most; ask for fewer, or for one as a stream"
                )
            found.append(path.read_bytes())
        return found

    def _told(self, plan: Plan, store: ParcelStore, header: MessageHeader) -> None:
        self._tell(*plan.awaiting(header, partial(store.arrived, header.round)))

    def _plan_for(self, caller: Identity, release: str) -> Plan:
        if caller.role != "party":
            raise AccessDenied(f"{caller.name} is a {caller.role}; parcels are for parties")
        if self._storage.published(release) is not None:
            raise OutOfTurn(f"release {release[:12]} is published; its session is over")
        plan = self._find_record(release, caller.name).plan
        if plan.keys.get(caller.name) != caller.fingerprint:
            raise AccessDenied(f"{plan.what} does not name {caller.name} with the key that calls")
        return plan

    def _store(self, release: str, plan: Plan) -> ParcelStore:
        with self._stores_lock:
            if release not in self._stores:
                staged = set(self._storage.staged())
                self._stores = {each: store for each, store in self._stores.items() if each in staged}
                store = ParcelStore(self._storage.parcels(release))
                store.drop_before(_newest_session(plan, store))
                self._stores[release] = store
            return self._stores[release]


def _fills(store: ParcelStore, kept: StoredMessage, body: bytes) -> bool:
    """Tells whether all of a parcel is here and checked now, and yet to be listed."""
    if not kept.header.size:
        return True
    store.check_room(kept)
    if store.is_complete(kept):
        return False
    if body:
        store.put(kept, 0, body)
    elif store.held(kept) < kept.header.size:
        return False
    try:
        store.check(kept)
    except IntegrityError:
        if body:
            raise
        return False  # an upload broke between its last byte and our answer, and what is here is damaged
    return True


def _newest_session(plan: Plan, store: ParcelStore) -> int:
    """The highest round of which every party's offer is here; 0 when there is none."""
    return max((number for number, offers in store.offers().items() if len(offers) == len(plan.keys)), default=0)


def _check_time(header: MessageHeader, plan: Plan, store: ParcelStore) -> None:
    offers = store.offers()
    newest = _newest_session(plan, store)
    if header.round < newest:
        raise OutOfTurn(f"round {header.round} was abandoned; the parties are in round {newest}")
    # Without any offer this may be a hub that lost its parcels: the parties put back what they have, in their round.
    if offers and header.round > max(offers) + 1:
        raise OutOfTurn(f"nobody has begun round {header.round - 1} yet")
    if header.kind != "hello":
        here = offers.get(header.round, {})
        if len(here) < len(plan.keys) or header.session != session_digest(here[name] for name in plan.keys):
            raise Conflict(f"a {header.kind} of {header.sender} belongs to another session than round {header.round}")

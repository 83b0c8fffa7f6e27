"""Intake of sealed blocks: who may send, what is accepted, what happens to bytes on their way to a complete block.

The same bytes are welcome as often as they come; other bytes for the same release, party and sequence number never. Nothing
becomes a block before its size, digest, signature and shape are those that the spec and the party's key vouch for.
"""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from dprelease.errors import AccessDenied, Conflict, IntegrityError, InvalidInput, NotFound
from dprelease.identity.certificates import Identity
from dprelease.release.block import SealedBlock, view_block
from dprelease.release.manifest import BlockEntry
from dprelease.release.spec import BlockKey, ReleaseSpec
from dprelease.release.verification import check_entry
from dprelease.spec_base import instant
from learner.hub.approved import ApprovedRelease
from learner.hub.storage import Storage
from learner.hub.uploads import Sink, Turn, Upload


class Intake:
    """The hub's door for parties.

    Args:
        storage: where blocks go.
        find_record: digest, and who names it, to checked record; asks the coordinator when the storage has none.
        root_pem: the consortium root.
        completed: called with the release's digest whenever a block has become complete.
        now: the time, at which a party's certificate must be valid.
        tell: given the names of the parties that wait for a block of a round before the last, when it has become complete.
    """

    def __init__(
        self,
        storage: Storage,
        find_record: Callable[[str, str], ApprovedRelease],
        root_pem: str,
        completed: Callable[[str], None],
        now: Callable[[], datetime],
        tell: Callable[..., object] = lambda *names: None,
    ) -> None:
        self._storage = storage
        self._find_record = find_record
        self._root_pem = root_pem
        self._completed = completed
        self._now = now
        self._tell = tell
        self._turns: defaultdict[BlockKey, Turn] = defaultdict(Turn)
        self._turns_lock = threading.Lock()

    def open_block(self, caller: Identity, certificate: str, data: bytes) -> int:
        """Take note of a sealed block.

        Returns:
            Bytes held already: where the upload goes on.

        Raises:
            InvalidInput: not a sealed block.
            AccessDenied: the caller is not the party, or the spec does not name it with the caller's key.
            IntegrityError: the signature, size or certificate is not what the spec calls for.
            Conflict: the party has sealed other bytes for this block before.
            NotFound, PeerUnavailable: the release is not known, or the coordinator is away.
        """
        sealed = SealedBlock.from_bytes(data)
        key = sealed.key
        spec = self._spec_for(caller, sealed.party, sealed.spec)
        entry = BlockEntry(sealed=sealed, certificate=certificate)
        check_entry(entry, spec, self._root_pem, instant(self._now()))
        with self._turn(key).lock:
            held = self._storage.entry(key)
            if held is not None and held.sealed.sha256 != sealed.sha256:
                raise Conflict(f"{sealed.party} has sealed other bytes for release {sealed.spec[:12]} before")
            if held is not None and self._storage.held(key) == sealed.size:
                self._settle(spec, sealed)
            # A renewed certificate replaces the old one, because it is judged again at the time of publication.
            if held != entry and self._storage.published(sealed.spec) is None:
                self._storage.keep_entry(entry)
            return self._storage.held(key)

    def begin(self, caller: Identity, digest: str, sequence: int = 0) -> Upload:
        """An upload of one of the caller's blocks, from any offset up to which it is held, to its end.

        Its `finish` gives the SHA-256 of the complete, verified, durable block.

        Raises:
            Conflict: the block was not announced; from the upload: a newer upload of it has taken over.
            IntegrityError: from the upload: a chunk, the whole, or the block's shape is wrong; a damaged whole is given up.
            PeerUnavailable: from the upload: the disk does not take the bytes.
        """
        key, storage = BlockKey(digest, caller.name, sequence), self._storage
        spec = self._spec_for(caller, key.party, digest)
        entry = storage.entry(key)
        if entry is None:
            raise Conflict("open the block before sending it")
        finish = partial(self._finish, spec, entry.sealed)
        return self._turn(key).begin(
            Sink(entry.sealed.size, partial(storage.held, key), partial(storage.put, key), finish)
        )

    def earlier_blocks(self, caller: Identity, digest: str) -> tuple[SealedBlock, ...]:
        """Sealed blocks of every complete round before the last: round after round, party after party, by sequence number.

        Args:
            caller: who calls; any party of the release sees them all, and nobody else any before the publication.
            digest: of the release.

        Raises:
            AccessDenied: the caller is no party of the release.
            NotFound, PeerUnavailable, Conflict: the release is not known, the coordinator is away, or it is over.
        """
        spec = self._spec_for(caller, caller.name, digest)
        found: list[SealedBlock] = []
        for sequences in spec.rounds()[:-1]:
            keys = [BlockKey(digest, part.party, at) for part in spec.parties for at in sequences]
            entries = [self._storage.entry(key) for key in keys if self._storage.is_complete(key)]
            if len(entries) < len(keys):
                break
            found += [entry.sealed for entry in entries if entry is not None]
        return tuple(found)

    def announced(self, caller: Identity, digest: str) -> tuple[SealedBlock, ...]:
        """The caller's own blocks of a release, of any round, of which this hub was told, by sequence number; whole or not.

        Raises:
            AccessDenied, NotFound, PeerUnavailable, Conflict: as `earlier_blocks`.
        """
        spec = self._spec_for(caller, caller.name, digest)
        keys = (BlockKey(digest, caller.name, at) for sequences in spec.rounds() for at in sequences)
        return tuple(entry.sealed for key in keys if (entry := self._storage.entry(key)) is not None)

    def earlier_block(self, caller: Identity, key: BlockKey, offset: int) -> Path:
        """The file of one of these blocks, once it is sure that it reaches to the offset.

        Raises:
            NotFound: it is none of a complete round before the last.
            InvalidInput: the offset lies past the end.
            AccessDenied, PeerUnavailable, Conflict: as `earlier_blocks`.
        """
        sealed = next((each for each in self.earlier_blocks(caller, key.release) if each.key == key), None)
        if sealed is None:
            raise NotFound("no such block of a complete earlier round")
        if offset > sealed.size:
            raise InvalidInput(f"the block has {sealed.size} bytes; there is nothing at {offset}")
        return self._storage.release(key.release).block(key.party, key.sequence)

    def _settle(self, spec: ReleaseSpec, sealed: SealedBlock) -> None:
        # The last upload broke between its last byte and our answer: all bytes are here, perhaps not yet verified.
        if not self._storage.is_complete(sealed.key):
            with suppress(IntegrityError):  # damaged bytes are gone by now, and are asked for again
                self._finish(spec, sealed, None)

    def _finish(self, spec: ReleaseSpec, sealed: SealedBlock, sha256: str | None) -> str:
        """Verify a block all bytes of which came; the publisher looks, and parties that wait for its round."""
        storage, key = self._storage, sealed.key
        if not storage.is_complete(key):
            data = storage.part(key)
            if len(data) < sealed.size:
                raise IntegrityError(f"the upload ended at byte {len(data)} of {sealed.size}; go on from there")
            if (sha256 or hashlib.sha256(data).hexdigest()) != sealed.sha256:
                storage.discard_part(key)
                raise IntegrityError(f"{key.words} differs from the digest it was sealed under")
            try:
                view_block(data, spec, key.party, key.sequence)
            except IntegrityError:
                storage.forget(key)
                raise
            storage.complete(key)
            self._completed(sealed.spec)
            if sealed.sequence not in spec.rounds()[-1]:
                self._tell(*(part.party for part in spec.parties))
        return sealed.sha256

    def _spec_for(self, caller: Identity, party: str, digest: str) -> ReleaseSpec:
        if caller.role != "party" or caller.name != party:
            raise AccessDenied(f"{caller.name} has no block of {party}")
        published = self._storage.published(digest)
        spec = published.manifest().spec if published else self._find_record(digest, party).spec
        part = spec.party(party)
        if part is None or part.key != caller.fingerprint:
            raise AccessDenied(f"release {digest[:12]} does not name {party} with the key that calls")
        return spec

    def _turn(self, key: BlockKey) -> Turn:
        with self._turns_lock:
            return self._turns[key]

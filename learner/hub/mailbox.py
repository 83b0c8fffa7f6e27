"""The parcels of one release on the hub's disk, and what they are: headers, bodies, and the order in which they came.

    staging/DIGEST/parcels/order                digests of the headers of complete parcels, line by line; grows only
    staging/DIGEST/parcels/ROUND/HEADER.parcel  signed headers that came together, line by line; this one is the first
    staging/DIGEST/parcels/ROUND/HEADER.part    its body so far
    staging/DIGEST/parcels/ROUND/HEADER.body    its body, verified

Headers are held in memory too, because every party asks for them at each step; bodies never are.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dprelease.errors import IntegrityError, OutOfTurn, PeerUnavailable
from dprelease.files.durable import append_durably, sync_folder, write_durably
from dprelease.mpc.messages import Message, MessageHeader
from learner.hub.uploads import Turn, held_at, on_disk, put_at

PAGE_BYTES = 2 << 20
"""Most bytes of headers in one answer; well under gRPC's default message limit of 4 MiB."""

MOST_HEADER_BYTES = Message.most_bytes or 0
"""Most bytes of one: a page that has more room than that is the last."""

DIGEST_LETTERS = 64

Place = tuple[int, str, str, str, str]
"""As `MessageHeader.place`."""

_GONE = ".gone-"  # no party has a name that starts so, hence no file of its either


@dataclass(frozen=True)
class StoredMessage:
    """A parcel that was announced."""

    parcel: Message
    turn: Turn = field(default_factory=Turn, compare=False)

    @property
    def header(self) -> MessageHeader:
        """What it is."""
        return self.parcel.header

    @cached_property
    def digest(self) -> str:
        """Digest of the header, its name here."""
        return self.header.digest()

    @cached_property
    def data(self) -> bytes:
        """Canonical bytes of the signed header."""
        return self.parcel.to_bytes()


class ParcelStore:
    """The parcels of one release.

    Raises:
        PeerUnavailable: the folder cannot be read.

    Attributes:
        lock: held by whoever needs what is here to stay as it is.
        mark: names the list of what is here: another one whenever the list may lack what it had.
    """

    def __init__(self, folder: Path) -> None:
        self.lock = threading.RLock()
        self.mark = secrets.token_bytes(8)
        self._folder = folder
        self._by_digest: dict[str, StoredMessage] = {}
        self._rounds = set[int]()
        self._by_place: dict[Place, StoredMessage] = {}
        with on_disk():
            for leftover in folder.glob(f"{_GONE}*"):
                shutil.rmtree(leftover)
            for path in folder.glob("*/*.parcel"):
                for line in path.read_bytes().splitlines():
                    self._note(StoredMessage(Message.from_bytes(line)))
            order = self._order_path
            text = order.read_text() if order.exists() else ""
            self._order = text.split()
            if self._order and len(self._order[-1]) < DIGEST_LETTERS:  # a power cut left a part of the last line
                self._order.pop()
                text = ""
            if self._order and not text.endswith("\n"):
                write_durably(order, _lines(self._order))
        self._complete = set[str]()
        self._arrived: Counter[tuple[int, str, str]] = Counter()
        self._offers: dict[int, dict[str, MessageHeader]] = {}
        for digest in self._order:
            self._count(digest)

    def at(self, place: Place) -> StoredMessage | None:
        """The parcel in a place."""
        return self._by_place.get(place)

    def named(self, digest: str) -> StoredMessage | None:
        """The parcel whose header has this digest."""
        return self._by_digest.get(digest)

    def keep(self, checked: Collection[StoredMessage]) -> None:
        """Keep headers that were checked, those of a round together: the disk is waited for once. Their places must be free.

        Raises:
            PeerUnavailable: the disk does not take them.
        """
        with self.lock, on_disk():
            for number in {kept.header.round for kept in checked}:
                together = [kept for kept in checked if kept.header.round == number]
                write_durably(self._path(together[0], "parcel"), b"\n".join(kept.data for kept in together))
                for kept in together:
                    self._note(kept)

    def check_room(self, kept: StoredMessage) -> None:
        """Refuse a body that the disk has no room for.

        Raises:
            PeerUnavailable: it has none.
        """
        with on_disk():
            if kept.header.size - self.held(kept) > shutil.disk_usage(self._folder).free:
                raise PeerUnavailable("the disk has no room for another parcel")

    def held(self, kept: StoredMessage) -> int:
        """How many bytes of the body are here."""
        return held_at(self.body(kept), self._path(kept, "part"))

    def is_complete(self, kept: StoredMessage) -> bool:
        """Tells whether the parcel is here, verified and listed."""
        return kept.digest in self._complete

    def put(self, kept: StoredMessage, offset: int, data: bytes) -> None:
        """Write bytes at an offset up to which the body is held; bytes beyond it are given up.

        Raises:
            OutOfTurn: the parcel's round is gone.
            IntegrityError: the body is complete and has other bytes there.
            PeerUnavailable: the disk does not take them.
        """
        with on_disk():
            self._check_here(kept)
            put_at(self.body(kept), self._path(kept, "part"), offset, data)

    def finish(self, kept: StoredMessage, sha256: str | None = None) -> None:
        """Verify the body, make it durable and list the parcel. Nothing is done twice; raises as `check` and `list_all`."""
        self.check(kept, sha256)
        self.list_all([kept])

    def check(self, kept: StoredMessage, sha256: str | None = None) -> None:
        """Verify the body, and make its bytes durable.

        Raises:
            OutOfTurn: the parcel's round is gone.
            IntegrityError: bytes are missing, or differ from the header's digest; then they are given up.
            PeerUnavailable: the disk does not take it.
        """
        header, part, body = kept.header, self._path(kept, "part"), self.body(kept)
        with on_disk():
            self._check_here(kept)
            if header.size and not body.exists():
                held = self.held(kept)
                if held < header.size:
                    raise IntegrityError(f"the upload ended at byte {held} of {header.size}; go on from there")
                with part.open("r+b") as file:
                    found = sha256 or hashlib.file_digest(file, "sha256").hexdigest()
                    os.fsync(file.fileno())  # here and not with the renaming, which keeps all others waiting
                if found != header.sha256:
                    part.unlink()
                    raise IntegrityError(f"the body of a {header.kind} of {header.sender} differs from its header")

    def list_all(self, checked: Sequence[StoredMessage]) -> None:
        """List parcels whose bodies were checked, all together: the disk is waited for once.

        Raises:
            OutOfTurn: the round of one is gone; none is listed.
            PeerUnavailable: the disk does not take it.
        """
        with on_disk(), self.lock:
            for kept in checked:
                self._check_here(kept)
            bodies = [(self._path(kept, "part"), self.body(kept)) for kept in checked if kept.header.size]
            for part, body in bodies:
                if not body.exists():
                    part.rename(body)
            for folder in {body.parent for _, body in bodies}:
                sync_folder(folder)
            new = [digest for digest in dict.fromkeys(kept.digest for kept in checked) if digest not in self._complete]
            if new:
                append_durably(self._order_path, (DIGEST_LETTERS + 1) * len(self._order), _lines(new))
                self._order += new
                for digest in new:
                    self._count(digest)

    def body(self, kept: StoredMessage) -> Path:
        """The file of a complete body."""
        return self._path(kept, "body")

    def arrived(self, round_: int, kind: str, receiver: str = "") -> int:
        """How many parcels of a kind are complete in a round, in all or for a receiver."""
        return self._arrived[round_, kind, receiver]

    def listed(
        self, after: int, wanted: Callable[[MessageHeader], bool] = lambda header: True
    ) -> tuple[list[bytes], int]:
        """Signed headers of complete parcels in the order in which they became complete, as many as fit an answer.

        Args:
            after: the number at which an earlier answer ended; 0 for the beginning.
            wanted: tells of which parcels; of all if it is not given.

        Returns:
            The headers' canonical bytes, and the number at which this answer ends.
        """
        with self.lock:
            found: list[bytes] = []
            room, last = PAGE_BYTES, after
            for number, digest in enumerate(self._order[after:], after + 1):
                kept = self._by_digest.get(digest)
                if kept is not None and wanted(kept.header):
                    room -= len(kept.data)
                    if room < 0 and found:
                        break
                    found.append(kept.data)
                last = number
            return found, last

    def offers(self) -> Mapping[int, Mapping[str, MessageHeader]]:
        """Round to party to its offer, for all rounds that are here."""
        with self.lock:
            return {number: dict(offers) for number, offers in self._offers.items()}

    def drop_before(self, round_: int) -> None:
        """Delete all earlier rounds, headers and bodies."""
        with self.lock, on_disk():
            if all(number >= round_ for number in self._rounds):
                return
            self.mark = secrets.token_bytes(8)
            old = [kept for kept in self._by_digest.values() if kept.header.round < round_]
            for kept in old:
                del self._by_digest[kept.digest], self._by_place[kept.header.place]
            for number in {kept.header.round for kept in old}:
                # Renamed first, so that an upload that goes on meanwhile cannot write into a folder that is being deleted.
                gone = self._folder / f"{_GONE}{number}"
                (self._folder / str(number)).rename(gone)
                shutil.rmtree(gone)
                self._rounds.discard(number)
                self._offers.pop(number, None)

    def _note(self, kept: StoredMessage) -> None:
        self._by_digest[kept.digest] = kept
        self._by_place[kept.header.place] = kept
        self._rounds.add(kept.header.round)

    def _count(self, digest: str) -> None:
        self._complete.add(digest)
        if digest in self._by_digest:
            header = self._by_digest[digest].header
            for receiver in {"", *header.receivers}:
                self._arrived[header.round, header.kind, receiver] += 1
            if header.kind == "hello":
                self._offers.setdefault(header.round, {})[header.sender] = header

    def _check_here(self, kept: StoredMessage) -> None:
        if self._by_digest.get(kept.digest) is not kept:
            raise OutOfTurn(f"round {kept.header.round} was abandoned for a later one")

    @property
    def _order_path(self) -> Path:
        return self._folder / "order"

    def _path(self, kept: StoredMessage, ending: str) -> Path:
        return self._folder / str(kept.header.round) / f"{kept.digest}.{ending}"


def _lines(digests: Iterable[str]) -> bytes:
    return "".join(f"{digest}\n" for digest in digests).encode()

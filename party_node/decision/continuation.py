"""Streams at a hospital: which checkpoints a proposal adds to, and what its block is made of beside its new rows.

A checkpoint that continues a stream that was approved here costs nothing more, and was approved with the first one. Nothing that
the coordinator says of a stream is trusted: what a checkpoint adds to is looked up in our own journal and ledger.

Source: docs/protocol.md, "Streams".
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.data.bounding import BoundedRows
from dprelease.errors import SpecRefused
from dprelease.mechanisms.base import NO_STREAM_STATE, StreamState
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.session import Products
from dprelease.release.block import read_block
from dprelease.release.spec import ReleaseSpec
from party_node.state.journal import Journal, Record, Status
from party_node.state.ledger import Ledger
from party_node.state.streams import CheckpointRows, Streams, over
from party_node.state.vault import Vault

_CHARGED = frozenset({"charge", "send"})


class Continuations:
    """Streams of one party."""

    def __init__(self, roster: str, journal: Journal, ledger: Ledger, vault: Vault, folder: Streams) -> None:
        self._roster, self._journal, self._ledger, self._vault = roster, journal, ledger, vault
        self.folder = folder

    def earlier(self, spec: ReleaseSpec) -> dict[int, Record]:
        """Number to record of the earlier checkpoints that a proposal adds to; none of a first one and outside streams.

        Raises:
            SpecRefused: it is a checkpoint that may not be made here.
            IntegrityError: what is kept of an earlier one is gone, or older than the ledger.
        """
        place = spec.place
        if place.batch is None:
            return {}
        made, stages = self._ledger.made(self._roster), self._ledger.stages(self._roster)
        records, stream = self._sealed(), place.stream
        latest = max(_numbered(stream, records), default=0)
        if latest >= place.number and spec.digest() not in records:
            raise SpecRefused(
                f"checkpoint {latest} of this stream was sealed here: none up to it is made, or made again"
            )
        chain = {}
        previous = digest = place.previous
        while digest is not None:
            record = records.get(digest)
            if record is None or stages.get(digest) not in _CHARGED:
                raise SpecRefused(f"it adds to checkpoint {digest[:12]}, of which no block was sealed and charged here")
            before = record.spec.place
            chain[before.number], digest = record, before.previous
        if previous is None:
            return {}
        self._check_closed(stream)
        spec.terms.check_follows(spec, records[previous].spec)
        if sorted(chain) != list(place.past) or chain[min(chain)].digest != stream:
            raise SpecRefused("it names other earlier checkpoints than those that it was built on here")
        if records[stream].status is Status.DECLINED:
            raise SpecRefused(f"stream {stream[:12]} was ended here")
        noted = self._ledger.kept(self._roster)
        for at, record in chain.items():
            self.folder.check(stream, at, noted.get(record.digest, ""))
        self._vault.check(previous, made.get(previous, ()))
        return chain

    def _sealed(self) -> dict[str, Record]:
        """Release to record of all checkpoints of which a block was or may have been sealed here, published or not."""
        made, stages = self._ledger.made(self._roster), self._ledger.stages(self._roster)
        return {
            record.digest: record
            for record in self._journal.taken(stages)
            if record.spec.place.batch is not None
            and (record.digest in made or stages.get(record.digest) == "close" or self._vault.holds(record.digest))
        }

    def _check_closed(self, stream: str) -> None:
        """Refuse to go on where a release was closed that the journal has forgotten: it may have been our checkpoint.

        Raises:
            SpecRefused: one was; which.
        """
        entries = self._ledger.entries(self._roster)
        began = next((each.number for each in entries if each.release == stream), 0)
        closed = [each.release for each in entries if each.kind == "close" and each.number > began]
        unknown = [release for release in closed if self._journal.get(release) is None]
        if unknown:
            raise SpecRefused(
                f"release {unknown[0][:12]} was closed when the books disagreed, and may have been a checkpoint of this "
                "stream: no stream that began before goes on; propose a new one"
            )

    def at(self, spec: ReleaseSpec) -> CheckpointRows | None:
        """The part of the table that a checkpoint reads; None outside streams.

        Raises:
            SpecRefused, IntegrityError: as `earlier`.
        """
        stream, number = spec.place.stream, spec.place.batch
        if number is None:
            return None
        self.earlier(spec)
        # Also those that failed: their patients are in rows that have left.
        sealed = sorted(_numbered(stream, self._sealed()).items())
        released = tuple((each, record.codes or "") for each, record in sealed if each < number)
        return CheckpointRows(number=number, released=released)

    def keep(self, record: Record, party: str, rows: BoundedRows, products: Products | None) -> StreamState:
        """State for a checkpoint's block beside its new rows, whose increment is on disk first; nothing outside streams.

        Args:
            record: of a release that everybody has approved, and of which no block is sealed.
            party: our name.
            rows: our new rows.
            products: what a session left; None without one.

        Raises:
            SpecRefused: another checkpoint was sealed since it was approved, or see `earlier`; it can never be made.
            IntegrityError: as `earlier`, or our block of the checkpoint before is gone.
        """
        spec = record.spec
        stream, number = spec.place.stream, spec.place.batch
        if number is None:
            return NO_STREAM_STATE
        chain, noted = self.earlier(spec), self._ledger.kept(self._roster)
        increments = {at: self.folder.read(stream, at, noted[each.digest]) for at, each in chain.items()}
        increments[number] = mechanism_of(spec).exact(rows, spec, party, products)
        self.folder.keep(stream, number, record.digest, increments[number])
        if not chain:
            return StreamState(increments)
        before = chain[max(chain)]
        data = self._vault.path(before.digest).read_bytes()
        return StreamState(increments, read_block(data, before.spec, party).values)

    def noted(self, spec: ReleaseSpec) -> str:
        """SHA-256 of what is kept of a checkpoint for later ones, for the ledger; empty outside streams."""
        return self.folder.digest(spec.place.stream, spec.place.number)

    def end(self, record: Record, reason: str) -> None:
        """Keep nothing more of a stream, and approve none of its checkpoints.

        Raises:
            Conflict: its first checkpoint is under way.
        """
        self._journal.move(
            record.spec.place.stream, {Status.ENDED}, Status.DECLINED, f"the stream was ended here: {reason}"
        )
        self.sweep()

    def sweep(self) -> None:
        """Erase what is kept of streams that have no more checkpoints, or ended before any block."""
        kept = self.folder.kept()
        if kept:
            stages = self._ledger.stages(self._roster)
            records = self._journal.taken({*stages, *kept})
            given_up = {each.digest for each in records if each.status is Status.ENDED} - {
                release for release, stage in stages.items() if stage != "refund"
            }
            for stream in (over(records, stages) | given_up).intersection(kept):
                self.folder.erase(stream)


def _numbered(stream: str, records: Mapping[str, Record]) -> dict[int, Record]:
    """Number to record of those of one stream."""
    places = [(each.spec.place, each) for each in records.values()]
    return {place.number: each for place, each in places if place.stream == stream}

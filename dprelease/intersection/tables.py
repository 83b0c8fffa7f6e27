"""Tables of shares of zero: ours, masked and encrypted under a key that is held back, and what all of them open to.

Source: docs/protocol.md, "Aligning".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

from dprelease.errors import IntegrityError, Irreparable
from dprelease.intersection import curve
from dprelease.intersection.exchange import AlignmentExchange, chunks, counts
from dprelease.intersection.key_value_store import Bytes, decode, encode, labels_of, rows_of
from dprelease.intersection.ring import CHUNK_WORDS, POINT_BYTES
from dprelease.intersection.zero_sharing import LABEL_BYTES, shares
from dprelease.mpc import encryption
from dprelease.mpc.encryption import ColumnCipher
from dprelease.mpc.messages import message_name
from dprelease.mpc.ring import SecretStream, Words
from dprelease.mpc.schedule import TAG_BYTES, WORD_BYTES
from dprelease.mpc.storage import write_hashed


class Tables(AlignmentExchange):
    """Tables of one session at one party, whose elements have been around."""

    def send_table(self) -> None:
        """Encode our shares of zero under our elements, mask the table, encrypt it, and freeze it; its key stays here."""
        key = self.secret("content-key")
        cipher = ColumnCipher(key, self.at.context("table", self.party))
        words = chunks(self.masked_table().astype("<u8", copy=False), CHUNK_WORDS)
        body = write_hashed(self.storage, message_name("table"), cipher.encrypted(words))
        others, commitment = self.ring.others(self.party), encryption.commitment(key)
        self.storage.freeze([self.at.message(self.identity, self.party, "table", others, "", commitment, body)])

    def send_keys(self) -> None:
        """Seal the key of our table to everybody, and freeze all of them together. From here on this is the last round."""
        messages = []
        for other in self.ring.others(self.party):
            context = self.at.context("table-key", self.party, other)
            body = encryption.seal(self.at.session_key(other), self.secret("content-key"), context, self.draw)
            self.storage.keep_body(message_name("key", "", other), body)
            said = len(body), hashlib.sha256(body).hexdigest()
            messages.append(self.at.message(self.identity, self.party, "key", (other,), "", "", said))
        self.storage.freeze(messages)

    def open_tables(self, elements: Bytes) -> str:
        """Add all tables up, look our elements up, and keep which of them everybody has, with the secret of the run.

        Args:
            elements: (n, 32), as they were sent.

        Returns:
            Keyed digest of the common elements, the same at all parties and uniform to everybody else.

        Raises:
            IntegrityError: a table or its key is not what its sender signed.
        """
        table, keys = self.masked_table(), {self.party: self.secret("content-key")}
        for other in self.ring.others(self.party):
            keys[other] = self._opened_key(other)
            start = 0
            for chunk in self._opened_table(other, keys[other]):
                table[start : start + len(chunk)] ^= chunk
                start += len(chunk)
        evaluations = self.evaluations()
        common = np.flatnonzero(decode(table, rows_of(evaluations, self.ring.segment)) == 0)
        del table
        positions = self.order(elements)[common]
        opened = bytes.fromhex(self.at.session) + b"".join(keys[party] for party in self.ring.parties)
        told = hashlib.sha256(b"dprelease/intersection/result/v1" + opened)
        labels, pairs = labels_of(evaluations), np.empty((len(common), POINT_BYTES + LABEL_BYTES), np.uint8)
        for start in range(0, len(pairs), CHUNK_WORDS):
            some = slice(start, start + CHUNK_WORDS)
            pairs[some, :POINT_BYTES], pairs[some, POINT_BYTES:] = elements[positions[some]], labels[common[some]]
        pairs.view(f"S{pairs.shape[1]}").sort(axis=0)  # as bytes
        told.update(pairs.data)
        self.storage.write_private("secret", [hashlib.sha256(b"dprelease/intersection/secret/v1" + opened).digest()])
        self.storage.write_private("common", [np.sort(positions).astype("<u8").tobytes()])
        return told.hexdigest()

    def masked_table(self) -> Words:
        """Our shares of zero under our elements, and the keystreams that we share with the others on top; made once."""
        kept = self.storage.read_private("table")
        if kept is not None:
            return np.frombuffer(kept, "<u8").astype(np.uint64)
        ring, evaluations = self.ring, self.evaluations()
        values = shares(self._shared("zero-share"), labels_of(evaluations))
        filler = SecretStream(self.secret("filler")).read_words(0, ring.cells, 1)[:, 0]
        table = encode(rows_of(evaluations, ring.segment), values, filler)
        for stream in map(SecretStream, self._shared("table-mask")):
            for start in range(0, ring.cells, CHUNK_WORDS):
                chunk = table[start : start + CHUNK_WORDS]
                chunk ^= stream.read_words(start, len(chunk), 1)[:, 0]
        self.storage.write_private("table", [table.astype("<u8", copy=False).data.cast("B")])
        return table

    def evaluations(self) -> Bytes:
        """(n, 64) what the parties' secrets together made of our elements, in their secret order."""
        kept = self.storage.read_private("evaluations")
        assert kept is not None  # noqa: S101 - no table before them
        return np.frombuffer(kept, np.uint8).reshape(-1, curve.EVALUATION_BYTES)

    def _shared(self, purpose: str) -> Iterable[bytes]:
        return self.at.shared_seeds(self.party, self.session_key, purpose).values()

    def _opened_key(self, sender: str) -> bytes:
        table, wrapped = self.at.find("table", sender, self.party), self.at.find("key", sender, self.party)
        if table is None or wrapped is None:
            raise IntegrityError(f"the table of {sender} or its key is gone from the relay")
        context = self.at.context("table-key", sender, self.party)
        key = encryption.unseal(self.session_key, b"".join(self.fetch(wrapped)), context)
        if encryption.commitment(key) != table.payload:
            raise Irreparable(f"{sender} sent another key for its table than it signed", signer=sender)
        return key

    def _opened_table(self, sender: str, key: bytes) -> Iterator[Words]:
        header = self.at.find("table", sender, self.party)
        assert header is not None  # noqa: S101 - its key was checked against it
        cipher = ColumnCipher(key, self.at.context("table", sender))
        sizes = (WORD_BYTES * count + TAG_BYTES for count in counts(self.ring.cells, CHUNK_WORDS))
        for chunk in cipher.opened(self.fetch(header), sizes):
            yield np.frombuffer(chunk, "<u8").astype(np.uint64, copy=False)

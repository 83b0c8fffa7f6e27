"""A whole joint computation in one process: every message of the protocol is made, sealed, signed, opened and checked.

For dry runs. Between processes it is each party's own session that goes these steps, one look at a time, with its state on
disk (`party_node.joint`); here nothing is kept and nothing can be resumed.

Source: joint_moments.md "Protocol", steps 2 to 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dprelease.block import Block
from dprelease.bounding import BoundedRows, Codes
from dprelease.canonical import sha256
from dprelease.moments import envelope
from dprelease.moments.dealing import Dealt, deal, read_deal
from dprelease.moments.envelope import ColumnCipher
from dprelease.moments.layout import code
from dprelease.moments.parcels import Kind, Parcel, ParcelHeader, check_parcel, sign_parcel
from dprelease.moments.plan import COORDINATOR, Pair, Plan
from dprelease.moments.products import half, masked
from dprelease.moments.ring import Words
from dprelease.moments.session import Round
from dprelease.noise import NoiseSource
from dprelease.privatization import privatize_moments
from dprelease.signing import PrivateKey
from dprelease.spec import ReleaseSpec

Step = Callable[[str], AbstractContextManager[None]]
"""Called with the name of a step; the step is done within it."""


def compute(
    spec: ReleaseSpec,
    tables: Mapping[str, BoundedRows],
    identities: Mapping[str, PrivateKey],
    commitments: Mapping[str, str],
    noise: NoiseSource,
    step: Step,
) -> dict[str, Block]:
    """Every party's block.

    Args:
        spec: of mechanism ``moments``, that `accounting.check_spec` accepted.
        tables: party to its rows.
        identities: party to the key that signs for it; the spec names these keys.
        commitments: party to what its approval says about its rows.
        noise: secret noise.
        step: told about every step.

    Raises:
        DataRefused: the rows are not those the spec describes.
    """
    session = _Session(Plan(spec), tables, identities)
    with step("exchange session keys"):
        session.offer()
    with step("deal randomness"):
        session.deal()
    with step("mask and encrypt columns"):
        session.mask()
    with step("confirm what was seen"):
        session.confirm([commitments[party] for party in session.plan.parties])
    with step("multiply masked columns"):
        halves = {party: session.multiply(party) for party in session.plan.parties}
    with step("draw noise"):
        return {
            party: privatize_moments(table, spec, party, halves[party], session.shared(party), noise)
            for party, table in tables.items()
        }


@dataclass
class _Session:
    plan: Plan
    tables: Mapping[str, BoundedRows]
    identities: Mapping[str, PrivateKey]
    keys: dict[str, X25519PrivateKey] = field(default_factory=dict)
    parcels: list[Parcel] = field(default_factory=list)
    dealt: dict[tuple[str, str], Dealt] = field(default_factory=dict)
    columns: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    wrapped: dict[tuple[str, str, str], bytes] = field(default_factory=dict)

    @cached_property
    def _at(self) -> Round:
        """The session, once every party has made its offer."""
        return self._seen()

    def _seen(self) -> Round:
        return Round.of(self.plan, 1, self.parcels)

    def _put(self, kind: Kind, sender: str, body: bytes = b"", session: str = "", **fields: object) -> None:
        """Sign a parcel and check it as every receiver does."""
        header = ParcelHeader.model_validate(
            {"spec": self.plan.release, "round": 1, "session": session, "kind": kind, "sender": sender}
            | {"size": len(body), "sha256": sha256(body)}
            | fields
        )
        parcel = sign_parcel(self.identities[sender], header)
        check_parcel(parcel, self.plan, {name: key.public_key() for name, key in self.identities.items()})
        self.parcels.append(parcel)

    def offer(self) -> None:
        for party in self.plan.parties:
            self.keys[party] = envelope.new_session_key()
            self._put("offer", party, statement=envelope.public_bytes(self.keys[party]).hex())

    def deal(self) -> None:
        at = self._at
        for dealer in dict.fromkeys(pair.dealer for pair in self.plan.pairs):
            for receiver, message in deal(self.plan, dealer).items():
                context = at.context("deal", dealer, receiver)
                sealed = envelope.seal(at.session_key(receiver), message, context)
                if dealer != COORDINATOR:  # which answers whoever asks, without a parcel
                    self._put("deal", dealer, sealed, at.session, receivers=(receiver,))
                opened = envelope.unseal(self.keys[receiver], sealed, context)
                self.dealt[receiver, dealer] = read_deal(opened, self.plan, receiver, dealer)

    def mask(self) -> None:
        at = self._at
        for (party, dealer), dealt in self.dealt.items():
            key = envelope.new_content_key()
            cipher = ColumnCipher(key, at.context("columns", party, "", dealer))
            self.columns[party, dealer] = chunks = [
                cipher.encrypt(number, chunk.astype("<u8", copy=False).tobytes())
                for number, chunk in enumerate(masked(self._variables[party], dealt.mask, self.plan))
            ]
            receivers = self.plan.partners(party, dealer)
            statement = envelope.commitment(key)
            self._put(
                "columns", party, b"".join(chunks), at.session, receivers=receivers, topic=dealer, statement=statement
            )
            for receiver in receivers:
                context = at.context("key", party, receiver, dealer)
                sealed = self.wrapped[party, receiver, dealer] = envelope.seal(at.session_key(receiver), key, context)
                self._put("key", party, sealed, at.session, receivers=(receiver,), topic=dealer)

    def confirm(self, commitments: list[str]) -> None:
        at = self._seen()
        transcript = at.transcript(commitments)
        for party in self.plan.parties if self.plan.pairs else ():
            self._put("transcript", party, session=at.session, statement=transcript)
        self._seen().check_transcripts(transcript)

    def multiply(self, party: str) -> dict[Pair, Words]:
        halves = {}
        for pair in self.plan.pairs:
            if pair.has(party):
                peer = self._opened(pair.other(party), party, pair.dealer)
                own = self.dealt[party, pair.dealer]
                halves[pair] = half(pair, party, self._variables[party], own, peer, self.plan)
        return halves

    def shared(self, party: str) -> Mapping[str, bytes]:
        """The seed that the party shares with each peer, by which the masks of blocks cancel."""
        return self._at.shared_seeds(party, self.keys[party])

    def _opened(self, sender: str, receiver: str, dealer: str) -> Iterator[Words]:
        context = self._at.context("key", sender, receiver, dealer)
        key = envelope.unseal(self.keys[receiver], self.wrapped[sender, receiver, dealer], context)
        cipher = ColumnCipher(key, self._at.context("columns", sender, "", dealer))
        for number, chunk in enumerate(self.columns[sender, dealer]):
            plain = np.frombuffer(cipher.decrypt(number, chunk), "<u8")
            yield plain.reshape(-1, self.plan.widths[sender])

    @cached_property
    def _variables(self) -> dict[str, Codes]:
        return {party: code(table.codes, table.columns) for party, table in self.tables.items()}

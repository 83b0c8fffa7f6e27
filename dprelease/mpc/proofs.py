"""The proofs of a session: every party shows t others, with their dealer's help, that its masked columns fulfil its claim.

    verifier -> prover  challenge-1    after everybody has signed what was shown
    prover -> verifier  matrices
    verifier -> prover  challenge-2    after these are frozen in it
    prover -> verifier  lines
    verifier -> dealer  challenge-3    all three, after these are frozen in it
    dealer -> verifier  answer         once, ever
    everybody           checked        all proofs towards the sender hold, and what it adds to the comparison of columns

One of t verifiers is honest if at most t parties are not, the prover among them. All other receivers rely on it: they get the same
bytes, or parties deal for one another, and a prover shows its columns under several masks. Then each party tosses a coin for the
one before it once transcripts are there, and `proof.same` compares the columns. The first coin that is seen is kept.

A party is all three at once. Its next step follows from its frozen messages and those that are listed, so that a restart goes on
where it stood: a challenge is frozen, with the digest of what it answers, before it is sent, and whatever else is listed in
that place from then on is refused. Answers of a prover follow from its seeds and the challenge. A dealer answers from memory
alone; one that has lost it begins the next round, and so does a receiver for whom a proof fails, with everything dealt anew.

Source: docs/range_proofs.md 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from dprelease.errors import Irreparable, PeerUnavailable, ProofRefused
from dprelease.mpc.encryption import Draw
from dprelease.mpc.exchange import Exchange
from dprelease.mpc.messages import CHALLENGES, Kind, Message, MessageHeader
from dprelease.mpc.modulus import Field
from dprelease.mpc.proof.parts import RangeVerifier
from dprelease.mpc.proof.same import Coin, Fingerprint
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import COORDINATOR, SEED_BYTES, WORD_BYTES, CorrelatedRandomness, DealtSeeds, Pair

Waits: TypeAlias = str | None
"""None if a step was done, else for whom we wait, in words; empty when all is done."""

_ANSWERS: tuple[Kind, ...] = ("matrices", "lines")


class Proofs:
    """Our part of all proofs of one session, once every transcript is there.

    Raises:
        Irreparable: a coin is listed in place of the one that we have seen.
    """

    def __init__(
        self,
        exchange: Exchange,
        transcript: str,
        dealt: Mapping[str, CorrelatedRandomness],
        seeds: DealtSeeds,
        masks: Mapping[str, bytes],
    ) -> None:
        self._exchange, self._transcript, self._dealt, self._seeds = exchange, transcript, dealt, seeds
        self._masks = masks
        self._at, self._party, self._storage = exchange.at, exchange.party, exchange.storage
        self._frozen = {message.header.place: message for message in self._storage.messages()}
        self._peers = self._others(self._party)
        self._sized = bool(self._at.schedule.checked_size)
        self._coins = {prover: self._coin(prover) for prover in self._peers if self._sized}

    def advance(self) -> Waits:
        """Do all that can be done now, as dealer, prover, verifier and receiver.

        Raises:
            ProofRefused: a proof towards us fails.
            Irreparable: a message is listed in place of the one that we have answered.
            Conflict: the dealer holds our seeds no more: the next round is due.
            PeerUnavailable: a body cannot be fetched now; try again.
        """
        schedule, party = self._at.schedule, self._party
        waits = [self._toss(), *(self._answer(*proof) for proof in schedule.proofs(party))]
        waits += [self._compare(prover) for prover in schedule.compared(party)]
        for dealer in schedule.dealers_of(party):
            waits += [self._prove(verifier) for verifier in schedule.verifiers(party, dealer)]
        waits += [self._receive(prover) for prover in self._peers]
        if None in waits:
            return None
        return ", ".join(dict.fromkeys(each for each in waits if each)) or self._confirm()

    def share(self, pair: Pair) -> Words:
        """Our share of a pair's product, whose columns were checked when it was taken."""
        widths = self._at.schedule.widths
        kept = self._storage.read_private(f"share+{pair.other(self._party)}")
        assert kept is not None  # noqa: S101 - `advance` said that all is done
        return np.frombuffer(kept, "<u8").astype(np.uint64).reshape(widths[pair.first], widths[pair.second])

    def _toss(self) -> Waits:
        """A coin about the party before us, which has shown all by now."""
        if not self._sized or self._mine("coin", ""):
            return ""
        self._storage.freeze([self._exchange.clear("coin", self._exchange.draw(SEED_BYTES).hex())])
        return None

    def _answer(self, prover: str, verifier: str) -> Waits:
        """As a dealer."""
        if self._mine("answer", verifier, prover):
            return ""
        asked, coin = self._at.find("challenge-3", verifier, self._party, prover), self._coins.get(prover)
        if asked is None:
            return f"{verifier} to check {prover}"
        if coin is None:
            return f"a coin about {prover}"
        same = Fingerprint(coin)
        answer = self._seeds.answer(self._at.session, prover, verifier, self._exchange.fetched(asked), same)
        self._keep(f"dealt+{prover}", same.value)
        self._storage.freeze([self._exchange.sealed("answer", verifier, prover, answer)])
        return None

    def _compare(self, prover: str) -> Waits:
        """As a dealer whose help no proof of a prover needs."""
        if self._storage.read_private(f"dealt+{prover}") is not None:
            return ""
        coin = self._coins[prover]
        if coin is None:
            return f"a coin about {prover}"
        same = Fingerprint(coin)
        self._seeds.compare(prover, same)
        self._keep(f"dealt+{prover}", same.value)
        return None

    def _prove(self, receiver: str) -> Waits:
        """As a prover."""
        asked: list[MessageHeader] = []
        for asks, kind in zip(CHALLENGES, _ANSWERS, strict=False):
            found = self._at.find(asks, receiver, self._party)
            if found is None:
                return f"{receiver} to challenge us"
            asked.append(found)
            if not self._mine(kind, receiver):
                challenges = map(self._exchange.fetched, asked)
                dealt = self._dealt[self._at.schedule.dealer_of(self._party, receiver)]
                prover = self._exchange.prover(receiver, self._exchange.outside.matrix(), dealt)
                made = prover.first(*challenges) if kind == "matrices" else prover.second(*challenges)
                self._storage.freeze([self._exchange.sealed(kind, receiver, "", made)])
                return None
        return ""

    def _receive(self, prover: str) -> Waits:
        """As a receiver, who multiplies, and checks the proof in the same sweep if it is a verifier."""
        if self._storage.read_private(f"share+{prover}") is not None:
            return ""
        schedule, exchange = self._at.schedule, self._exchange
        pair, proof = schedule.pair_of(prover, self._party), None
        assert pair is not None  # noqa: S101 - of two parties
        if self._party in schedule.verifiers(prover, pair.dealer):
            heard = self._verify(prover, pair.dealer)
            if heard is None or isinstance(heard, str):
                return heard
            proof = heard
        coin, first = self._coins.get(prover), schedule.partners(prover, pair.dealer)[0] == self._party
        if coin is None and self._sized:
            return f"a coin about {prover}"
        same = Fingerprint(coin) if first and coin is not None else None
        share = exchange.share(pair, exchange.outside.matrix(), self._dealt[pair.dealer], proof, same)
        if same is not None:
            self._keep(f"shown+{prover}", same.value)
        self._storage.write_private(f"share+{prover}", [share.astype("<u8").tobytes()])
        return None

    def _verify(self, prover: str, dealer: str) -> tuple[RangeVerifier, bytes] | Waits:
        """As a verifier: it with all that it needs but columns and bits, and the dealer's answer."""
        exchange = self._exchange
        verifier, answered = exchange.verifier(prover, self._drawn(0, prover)), self._transcript
        for place, kind in enumerate(_ANSWERS):
            if not self._asked(place, prover, verifier, answered):
                return None
            answer = self._at.find(kind, prover, self._party)
            if answer is None:
                return f"{prover} to prove its bounds"
            answered = answer.digest()
            verifier = verifier.take(exchange.opened(answer), self._drawn(place + 1, prover))
        if not self._asked(len(_ANSWERS), prover, verifier, answered):
            return None
        said = self._said(dealer, prover)
        return f"{dealer or 'the coordinator'} to help check {prover}" if said is None else (verifier, said)

    def _challenge(self, place: int, prover: str) -> Message | None:
        """Our challenge that is frozen, of the three to a prover; the last goes to the dealer."""
        last = place == len(_ANSWERS)
        to, about = (self._at.schedule.dealer_of(prover, self._party), prover) if last else (prover, "")
        return self._mine(CHALLENGES[place], to, about)

    def _drawn(self, place: int, prover: str) -> Draw:
        """Draws a challenge: afresh, or the one that is frozen, whose body has it last."""
        frozen = self._challenge(place, prover)
        if frozen is None:
            return self._exchange.draw
        body = self._storage.read_body(frozen)
        return lambda size: body[-size:]

    def _asked(self, place: int, prover: str, verifier: RangeVerifier, answered: str) -> bool:
        """Tells whether the verifier's challenge of this place was frozen before, in answer to a digest; it is now.

        Raises:
            Irreparable: it answered something else.
        """
        frozen = self._challenge(place, prover)
        if frozen is None:
            last, seeds = place == len(_ANSWERS), verifier.challenges
            to, about = (verifier.plan.context.dealer, prover) if last else (prover, "")
            receivers, body = (to,) if to else (), b"".join(seeds if last else seeds[-1:])
            self._storage.freeze([self._exchange.clear(CHALLENGES[place], answered, receivers, about, body)])
            return False
        if frozen.header.payload != answered:
            raise Irreparable(f"{prover} is listed with another message than the one that we have answered")
        return True

    def _said(self, dealer: str, prover: str) -> bytes | None:
        """The dealer's answer to our third challenge; None before it is there."""
        if dealer != COORDINATOR:
            answer = self._at.find("answer", dealer, self._party, prover)
            return None if answer is None else self._exchange.opened(answer)
        asked = self._challenge(len(_ANSWERS), prover)
        assert asked is not None  # noqa: S101 - it is frozen
        try:
            sealed = self._exchange.outside.request_answer(asked, self._storage.read_body(asked))
        except PeerUnavailable:
            return None
        return self._exchange.unsealed("answer", dealer, prover, sealed)

    def _mine(self, kind: Kind, receiver: str, about: str = "") -> Message | None:
        return self._frozen.get((self._at.number, kind, self._party, about, receiver))

    # The comparison of what each prover showed.

    def _confirm(self) -> Waits:
        """All proofs towards us hold: say so; once all parties do, compare.

        Raises:
            ProofRefused: a prover showed different columns under different masks.
        """
        to = self._peers if self._sized else ()
        mine = self._mine("checked", ",".join(to))
        if mine is None:
            parts = b"".join(self._part(prover).to_bytes(WORD_BYTES, "little") for prover in to)
            self._storage.freeze([self._exchange.clear("checked", self._transcript, to, data=parts)])
            return None
        if missing := self._at.missing("checked"):
            return f"{', '.join(missing)} to check the others"
        if self._sized and any(self._sums(mine)):
            raise ProofRefused("a hospital showed different columns to different hospitals")
        return ""

    def _sums(self, mine: Message) -> list[int]:
        """For each party the sum of what the others say about its columns: 0 if all were shown the same."""
        field, sums = self._field, dict.fromkeys(self._at.schedule.parties, 0)
        for header in filter(None, (self._at.find("checked", party) for party in sums)):
            ours = header.sender == self._party
            body = self._storage.read_body(mine) if ours else self._exchange.fetched(header)
            (parts,) = field.decode(body, ((len(self._peers),),), "a comparison of columns")
            for prover, part in zip(self._others(header.sender), parts.tolist(), strict=True):
                sums[prover] = (sums[prover] + part) % field.p
        return list(sums.values())

    def _part(self, prover: str) -> int:
        """Our terms of a prover's sum, under masks that cancel in it."""
        schedule, coin, total = self._at.schedule, self._coins[prover], 0
        assert coin is not None  # noqa: S101 - every check waited for it
        weights = coin.weights(schedule.dealers_of(prover))
        for kept, dealer, sign in (("shown", schedule.dealer_of(prover, self._party), 1), ("dealt", self._party, -1)):
            value = self._storage.read_private(f"{kept}+{prover}")
            if value is not None:
                total += sign * weights[dealer] * int.from_bytes(value, "little")
        # Two who were shown different coins have masks that do not cancel: their sum would show more than whether it is 0.
        context = self._at.context(f"same, masks {coin.seed.hex()}", prover)
        for peer in self._peers:
            if peer != prover:
                mask = int(self._field.uniform(self._masks[peer], context)(0, 1)[0])
                total += mask if schedule.parties.index(self._party) < schedule.parties.index(peer) else -mask
        return total % self._field.p

    def _coin(self, prover: str) -> Coin | None:
        """The coin about a prover's columns, the first that we have seen; None before it is tossed.

        Raises:
            Irreparable: another one is listed. Terms under two coins would add up to a sum of the prover's cells.
        """
        schedule, name = self._at.schedule, f"coin+{prover}"
        tossed, seen = self._at.find("coin", schedule.tosser(prover)), self._storage.read_private(name)
        if tossed is not None:
            seed = bytes.fromhex(tossed.payload)
            if seen is None:
                self._storage.write_private(name, [seed])
            elif bytes(seen) != seed:
                raise Irreparable(f"{tossed.sender} is listed with another coin than the one that we have seen")
            seen = seed
        return None if seen is None else schedule.coin(prover, bytes(seen), self._at.session)

    def _keep(self, name: str, value: int) -> None:
        self._storage.write_private(name, [value.to_bytes(WORD_BYTES, "little")])

    def _others(self, party: str) -> tuple[str, ...]:
        return tuple(name for name in self._at.schedule.parties if name != party)

    @property
    def _field(self) -> Field:
        modulus = self._at.schedule.modulus
        assert isinstance(modulus, Field)  # noqa: S101 - a schedule with claims has one
        return modulus

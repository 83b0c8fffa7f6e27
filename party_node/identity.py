"""Our identity: keys made on site, the certificate from enrolment, the alignment key, and the peers we pinned."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from dprelease.canonical import Rational, Value, check_name, readable
from dprelease.data.columns import Name
from dprelease.errors import Conflict, InvalidInput, NotFound, Unauthenticated
from dprelease.files.durable import write_secret
from dprelease.identity.certificates import check_certificate, check_renewed, read_identity, signing_request
from dprelease.identity.invite import Invite
from dprelease.identity.peer_keys import PeerKeys
from dprelease.identity.signing import (
    PrivateKey,
    key_fingerprint,
    load_private_key,
    new_private_key,
    private_key_pem,
    write_private,
)
from dprelease.one_line import listed
from dprelease.release.charges import Charge, SignedStatement, check_statement
from dprelease.spec_base import moment
from dprelease.wire.transport import Credentials
from party_node.source.alignment import KEY_BYTES, new_key


def key_check(key: bytes) -> str:
    """Eight digits by which two hospitals see that they hold the same alignment key."""
    return hashlib.sha256(b"alignment-key-check" + key).hexdigest()[:8]


def alignment_key_text(key: bytes) -> str:
    """An alignment key for people to hand over: base32 in groups of four, three check bytes at the end."""
    text = base64.b32encode(key + hashlib.sha256(b"alignment-key" + key).digest()[:3]).decode().rstrip("=")
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def alignment_key_from_text(text: str) -> bytes:
    """Read `alignment_key_text`.

    Raises:
        InvalidInput: the text is not a key, or was mistyped.
    """
    letters = "".join(text.split()).replace("-", "").upper()
    try:
        data = base64.b32decode(letters + "=" * (-len(letters) % 8))
    except ValueError as error:
        raise InvalidInput("this is not an alignment key; copy it whole") from error
    key, check = data[:KEY_BYTES], data[KEY_BYTES:]
    if len(data) != KEY_BYTES + 3 or check != hashlib.sha256(b"alignment-key" + key).digest()[:3]:
        raise InvalidInput("this alignment key was mistyped or is not whole; its check characters do not fit")
    return key


_PINS = TypeAdapter(dict[str, str])


class Enrolment(Value):
    """Papers that enrolment gave us.

    Attributes:
        party: our name.
        consortium: the consortium's name.
        coordinator: host:port.
        hub: host:port of the hub's listener for parties.
        certificate: ours, PEM.
        root: the consortium's, PEM.
        cap_mu2: our cap on mu^2 for every roster.
        delta: of the consortium's joint guarantee; 0 where the office did not tell it.
    """

    party: Name
    consortium: Name
    coordinator: str
    hub: str
    certificate: str
    root: str
    cap_mu2: Rational
    delta: Annotated[float, Field(ge=0, lt=1, exclude_if=lambda delta: delta == 0)] = 0.0


class KeyFolder:
    """Keys and pins in the party's state folder."""

    def __init__(self, state: Path) -> None:
        self._key = state / "identity" / "key.pem"
        self._enrolment = state / "identity" / "enrolment.json"
        self._alignment = state / "identity" / "alignment.key"
        self._peers = state / "identity" / "peers.json"
        self._charges = state / "identity" / "charges.json"

    def key(self) -> PrivateKey:
        """Our private key for TLS and signing; made on first use, never sent anywhere."""
        if not self._key.exists():
            write_private(self._key, private_key_pem(new_private_key()))
        return load_private_key(self._key)

    def fingerprint(self) -> str:
        """Our public key's fingerprint, for the other hospitals to pin."""
        return key_fingerprint(self.key().public_key())

    def enrolment(self) -> Enrolment:
        """Papers that enrolment gave us.

        Raises:
            NotFound: not enrolled yet.
        """
        if not self._enrolment.exists():
            raise NotFound(
                "this party is not enrolled; ask the consortium's office for an invite: party-node enrol TOKEN"
            )
        return Enrolment.from_bytes(self._enrolment.read_bytes())

    def credentials(self) -> Credentials:
        """For mutual TLS, as ourselves.

        Raises:
            NotFound: not enrolled yet.
            Unauthenticated: the certificate has expired, or is over another key; nobody would talk to us.
        """
        enrolment = self.enrolment()
        shown, key = read_identity(enrolment.certificate), self.key()
        if shown.fingerprint != key_fingerprint(key.public_key()):
            raise Unauthenticated(
                f"our certificate is over another key than {self._key}; put that key back, or ask the consortium's office for a "
                "new invite: party-node enrol TOKEN"
            )
        if (ends := shown.expires) < datetime.now(UTC):
            raise Unauthenticated(
                f"our certificate expired at {ends:%Y-%m-%d %H:%M} UTC; if this machine's clock is right, ask the "
                "consortium's office for a new invite: party-node enrol TOKEN"
            )
        return Credentials(enrolment.root.encode(), enrolment.certificate.encode(), private_key_pem(key))

    def check_invite(self, invite: Invite, name: str) -> None:
        """Refuse an invite that would not make us a member.

        Raises:
            InvalidInput: the invite is for another party, or has lapsed.
            Conflict: it names another cap than the one fixed before.
        """
        if invite.party != name:
            raise InvalidInput(f"the invite is for {invite.party}, but party.toml says name = {name!r}")
        if moment(invite.expires) <= datetime.now(UTC):
            raise InvalidInput("this invite has lapsed; ask the consortium's office for a new one")
        if self._enrolment.exists() and Fraction(self.enrolment().cap_mu2) != Fraction(invite.cap_mu2):
            raise Conflict("the invite names another cap than the one fixed when this party enrolled")

    def keep_enrolment(self, enrolment: Enrolment, charges: SignedStatement) -> None:
        """Keep what the office granted, once it is ours.

        Raises:
            IntegrityError: the consortium's root did not sign it.
            InvalidInput: the certificate is for somebody else.
        """
        root, name = enrolment.root, enrolment.party
        granted = check_certificate(enrolment.certificate, root, datetime.now(UTC), "party")
        if granted.name != name or granted.fingerprint != self.fingerprint():
            raise InvalidInput("the coordinator answered with a certificate for somebody else")
        check_statement(charges, root, enrolment.consortium, name)
        write_secret(self._enrolment, [enrolment.to_bytes()])
        write_secret(self._charges, [charges.to_bytes()])

    def charges(self) -> tuple[Charge, ...]:
        """Charges to us that the office had seen when it last told us; nothing if it never did."""
        if not self._charges.exists():
            return ()
        return SignedStatement.from_bytes(self._charges.read_bytes()).statement.charges

    def keep_charges(self, signed: SignedStatement) -> None:
        """Keep a later statement of the office.

        Raises:
            IntegrityError: the consortium's root did not sign it for us.
        """
        enrolment = self.enrolment()
        check_statement(signed, enrolment.root, enrolment.consortium, enrolment.party)
        write_secret(self._charges, [signed.to_bytes()])

    def signing_request(self) -> bytes:
        """A request for a later certificate over the key that we have, PEM."""
        return signing_request(self.enrolment().party, self.key())

    def keep_certificate(self, certificate: str) -> datetime:
        """Use a renewed certificate from the next dial on.

        Returns:
            When it ends.

        Raises:
            IntegrityError: it is not the consortium's, not ours, or ends no later than the one we have.
        """
        held = self.enrolment()
        granted = check_renewed(certificate, held.certificate, held.root, datetime.now(UTC))
        write_secret(self._enrolment, [held.model_copy(update={"certificate": certificate}).to_bytes()])
        return granted.expires

    def alignment_key(self) -> bytes:
        """The key that the hospitals share.

        Raises:
            NotFound: there is none yet.
            InvalidInput: it is not whole.
        """
        if not self._alignment.exists():
            raise NotFound(
                "there is no alignment key: one hospital runs `party-node alignment-key new`, the others "
                "`party-node alignment-key import`"
            )
        key = self._alignment.read_bytes()
        if len(key) != KEY_BYTES:
            raise InvalidInput(
                f"{self._alignment} is cut short; move it away, then: party-node alignment-key import KEY"
            )
        return key

    def own_secret(self) -> bytes:
        """32 bytes that nobody else can know, the same as long as our private key is."""
        return hmac.digest(private_key_pem(self.key()), b"dprelease/own-secret/v1", hashlib.sha256)

    def new_alignment_key(self) -> bytes:
        """Make the key at the first hospital.

        Raises:
            InvalidInput: there is one already.
        """
        key = new_key()
        write_private(self._alignment, key)
        return key

    def import_alignment_key(self, text: str) -> bytes:
        """Take over the key that another hospital made.

        Raises:
            InvalidInput: the text is not a key, or was mistyped, or there is a key already.
        """
        key = alignment_key_from_text(text)
        write_private(self._alignment, key)
        return key

    def pins(self) -> dict[str, str]:
        """Party to key fingerprint, as compared between people.

        Raises:
            InvalidInput: the file is damaged.
        """
        if not self._peers.exists():
            return {}
        with readable(str(self._peers)):
            return _PINS.validate_json(self._peers.read_bytes())

    def pin(self, party: str, fingerprint: str) -> None:
        """Pin a peer's key.

        Raises:
            InvalidInput: the name cannot be one, or the fingerprint is not 64 hexadecimal digits.
            Conflict: as `pin_all`.
        """
        check_name(party, "a hospital")
        self.pin_all({party: read_digits(fingerprint, "a key fingerprint")})

    def pin_all(self, keys: Mapping[str, str]) -> None:
        """Pin the keys of several peers, party to fingerprint, all of them or none.

        Raises:
            Conflict: another key is pinned for one of them, or one of these for another; forget that one first.
        """
        pins = self.pins()
        names = {digits: party for party, digits in pins.items()}
        for party, digits in keys.items():
            if names.setdefault(digits, party) != party:
                raise Conflict(f"this key of {party} is the key of {names[digits]}; check the name and the key")
        other = [party for party, digits in keys.items() if pins.get(party, digits) != digits]
        if other:
            forget = f"party-node peers forget {other[0]}"
            raise Conflict(f"another key is pinned for {listed(other)}; if it really changed: {forget}")
        write_secret(self._peers, [json.dumps({**pins, **keys}, sort_keys=True).encode()])

    def others(self, told: PeerKeys) -> dict[str, str]:
        """The keys of the other hospitals in a file that has ours as it is.

        Raises:
            NotFound: not enrolled yet.
            Conflict: it is of another consortium, or has another key for us, or none.
        """
        own = self.enrolment()
        if told.consortium != own.consortium:
            raise Conflict(f"these are keys of consortium {told.consortium}; this hospital is in {own.consortium}")
        if told.keys.get(own.party) != self.fingerprint():
            has = f"another key for {own.party} than" if own.party in told.keys else f"no key for {own.party}, and not"
            raise Conflict(
                f"the file has {has} the one here: nobody may pin it; tell the other hospitals and the office"
            )
        return {party: digits for party, digits in told.keys.items() if party != own.party}

    def forget(self, party: str) -> None:
        """Remove a pin.

        Raises:
            NotFound: the party is not pinned.
        """
        pins = self.pins()
        if pins.pop(party, None) is None:
            raise NotFound(f"no key is pinned for {party}")
        write_secret(self._peers, [json.dumps(pins, sort_keys=True).encode()])


def read_digits(text: str, what: str) -> str:
    """64 hexadecimal digits, as people write them; raises `InvalidInput` if these are others."""
    digits = "".join(text.split()).replace(":", "").lower()
    if len(digits) != 64 or any(digit not in "0123456789abcdef" for digit in digits):
        raise InvalidInput(f"{what} is 64 hexadecimal digits, as `party-node` prints them")
    return digits

"""An invite: the one token by which a hospital joins. Short-lived, single use, and it carries the consortium's root."""

from __future__ import annotations

import base64
from fractions import Fraction
from typing import Literal

from pydantic import field_validator

from dprelease.canonical import Rational, Value
from dprelease.data.columns import Name
from dprelease.errors import InvalidInput
from dprelease.spec_base import Instant


class Invite(Value):
    """Token that the office hands to one hospital, out of band.

    Attributes:
        consortium: its name.
        party: the name that the hospital's certificate will carry.
        address: host:port of the enrolment listener.
        root: the consortium's root certificate, PEM; the enrolment call trusts this and nothing else.
        secret: proves the invite; the coordinator keeps only its hash.
        cap_mu2: the party's cap on mu^2 for every roster; all parties' caps sum to at most the consortium's.
        expires: when it lapses.
    """

    format: Literal[1] = 1
    consortium: Name
    party: Name
    address: str
    root: str
    secret: str
    cap_mu2: Rational
    expires: Instant

    @field_validator("cap_mu2")
    @classmethod
    def _cap_is_positive(cls, cap: str) -> str:
        if Fraction(cap) <= 0:
            raise ValueError("a party's cap must be positive")
        return cap

    def token(self) -> str:
        """The invite as one word."""
        return base64.urlsafe_b64encode(self.to_bytes()).decode().rstrip("=")

    @classmethod
    def from_token(cls, token: str) -> Invite:
        """Read a token.

        Raises:
            InvalidInput: it is not one, e.g. because part of it was lost in copying.
        """
        text = "".join(token.split())
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError as error:
            raise InvalidInput("this is not an invite token; copy it whole") from error
        try:
            return cls.from_bytes(data)
        except InvalidInput as error:
            raise InvalidInput(
                f"this is not an invite token, or not all of it; copy it whole ({error.message})"
            ) from error

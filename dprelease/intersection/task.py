"""The task of an alignment run: who takes part, with how many patients, for which roster. Its digest is the run.

Source: docs/protocol.md, "Aligning"; fields in docs/format.md 2.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from dprelease.canonical import Digest, Instant, Name, Value

FEWEST_PARTIES = 2
MOST_PARTIES = 10
MOST_PATIENTS = 1 << 27
"""Most patients of one party: a run holds some 80 bytes of memory for each, 10 GiB in all; docs/party.md says so."""


class Member(Value):
    """One party of a run.

    Attributes:
        party: name in its certificate.
        key: SHA-256 of its public key, as pinned by the other parties.
        patients: how many patients it announces; it brings just as many.
    """

    party: Name
    key: Digest
    patients: Annotated[int, Field(ge=1, le=MOST_PATIENTS)]


class Task(Value):
    """Task that every party accepts before anything of a run leaves.

    Attributes:
        consortium: whose hospitals they are.
        roster: the roster that the run makes a version of.
        members: parties, in the order in which elements go round.
        identifiers: canonical text of the normal form of identifiers, the same at all parties; empty where none is declared.
        nonce: 32 random bytes, hexadecimal: no two runs are one.
        created: when it was proposed.
        expires: when it is given up.
    """

    noun: ClassVar[str] = "alignment run"

    format: Literal[1] = 1
    consortium: Name
    roster: Name
    members: Annotated[tuple[Member, ...], Field(min_length=FEWEST_PARTIES, max_length=MOST_PARTIES)]
    identifiers: Annotated[str, Field(max_length=4096)] = ""
    nonce: Digest
    created: Instant
    expires: Instant

    @model_validator(mode="after")
    def _members_are_distinct(self) -> Task:
        for what in ("party", "key"):
            if len({getattr(member, what) for member in self.members}) < len(self.members):
                raise ValueError(f"two members of a run have one {what}")
        if self.expires <= self.created:
            raise ValueError("a run expires after it was created")
        return self

    @property
    def party_keys(self) -> dict[str, str]:
        """Party to the fingerprint of its key, in order."""
        return {member.party: member.key for member in self.members}

    def member(self, party: str) -> Member | None:
        """A party's part; None for a stranger."""
        return next((member for member in self.members if member.party == party), None)

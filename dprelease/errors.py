"""Every error this system raises on purpose.

::

    DpReleaseError
    ├── InvalidInput        a file, option or value a person wrote cannot be used
    ├── DataRefused         the hospital's own table cannot be used (rich, never leaves the hospital)
    ├── SpecRefused         a proposal does not survive the party's own recomputation
    ├── PolicyRefused       the proposal is sound, but outside the hospital's policy
    ├── BudgetExceeded      the ledger has no room for the charge
    ├── NotFound            no such release, party or file
    ├── Conflict            the request does not fit the present state
    │   └── OutOfTurn       yet, or any more, as happens where everybody is honest
    ├── AccessDenied        the peer is known and may not do this
    ├── Unauthenticated     the peer's certificate or invite is not valid
    ├── VersionMismatch     the two sides speak different protocol versions
    ├── IntegrityError      bytes disagree with their digest, signature, shape or spec
    │   ├── Irreparable     and always will: a session cannot go on after what was signed in it
    │   └── ProofRefused    a proof about masked columns does not hold; nobody can tell whose fault it is
    ├── PeerUnavailable     the other side cannot be reached; trying again is right
    │   └── TooManyRequests it can, but we ask for too much; trying again later is right
    └── InternalError       anything unforeseen on the other side

A message may be rich: it is shown on the machine where it was raised. A boundary lets through the constant sentence that
`dprelease.wire.boundary` keeps for the class. An error about a party's own table, the proposal, its policy or its budget is
raised at that party only: a peer's word on it arrives as `Conflict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from traceback import extract_tb


class DpReleaseError(Exception):
    """Root of the tree. `message` says what is wrong and how to mend it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidInput(DpReleaseError):
    """A file, option or value that a person wrote cannot be used.

    Attributes:
        what: the file or the option, or the whole message where nothing more is told apart.
        each: what is wrong with it, a sentence for each mistake; empty where nothing is told apart.
    """

    def __init__(self, what: str, each: Sequence[str] = ()) -> None:
        super().__init__(f"{what}: {'; '.join(each)}" if each else what)
        self.what = what
        self.each = tuple(each)


class DataRefused(DpReleaseError):
    """The hospital's own table cannot be used."""


class SpecRefused(DpReleaseError):
    """A proposal does not survive the party's own recomputation."""


class PolicyRefused(DpReleaseError):
    """The proposal is sound but outside the hospital's policy."""


class BudgetExceeded(DpReleaseError):
    """The ledger has no room for the charge.

    Attributes:
        needed: mu^2 asked for.
        remaining: mu^2 left under the cap.
    """

    def __init__(self, message: str, *, needed: float = 0.0, remaining: float = 0.0) -> None:
        super().__init__(message)
        self.needed = needed
        self.remaining = remaining


class NotFound(DpReleaseError):
    """No such release, party or file."""


class Conflict(DpReleaseError):
    """The request does not fit the present state."""


class OutOfTurn(Conflict):
    """A request comes too early or too late, in the protocol's normal course; across a boundary it is a `Conflict`."""


class AccessDenied(DpReleaseError):
    """The peer is known and may not do this."""


class Unauthenticated(DpReleaseError):
    """The peer's certificate or invite is not valid."""


class VersionMismatch(DpReleaseError):
    """The two sides speak different protocol versions."""


class IntegrityError(DpReleaseError):
    """Bytes disagree with their digest, signature, shape or spec."""


class Irreparable(IntegrityError):
    """A session cannot go on after what was signed in it; trying again changes nothing.

    Attributes:
        signer: who signed what no honest party would; empty where that cannot be told.
    """

    def __init__(self, message: str, *, signer: str = "") -> None:
        super().__init__(message)
        self.signer = signer


class ProofRefused(IntegrityError):
    """A proof about masked columns fails. Its prover, its dealer or its receiver is at fault, and nobody can tell which."""


class PeerUnavailable(DpReleaseError):
    """The other side cannot be reached now.

    Attributes:
        peer: who is away or cannot serve, as messages call it; empty where the trouble is no peer's.
    """

    def __init__(self, message: str, *, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer


class TooManyRequests(PeerUnavailable):
    """The peer asks for more than its share; the same request is welcome later."""


class InternalError(DpReleaseError):
    """Something unforeseen happened on the other side."""


@contextmanager
def refused_as(error: Callable[[str], DpReleaseError], words: str = "") -> Iterator[None]:
    """Turn `InvalidInput`, about something that no person here wrote, into another error, behind some words."""
    try:
        yield
    except InvalidInput as found:
        raise error(f"{words}: {found.message}" if words else found.message) from found


def unforeseen(error: Exception) -> str:
    """Class and place of an error that nobody raised on purpose: its words may quote a cell or an identifier, these do not."""
    return f"unforeseen {type(error).__name__} in {extract_tb(error.__traceback__)[-1].name}"

"""What a fault is, in a test and in the table of docs/faults.md."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from dprelease.errors import Conflict, DpReleaseError
from dprelease.wire.boundary import LOCAL, VERSION, VERSION_KEY, row_for

VERSIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "missing": (),
    "older": ((VERSION_KEY, "0"),),
    "newer": ((VERSION_KEY, "99"),),
    "doubled": (*VERSION, *VERSION),
    "no number": ((VERSION_KEY, "one"),),
}
"""What a caller may say of its protocol version instead of the one that both speak."""


class Kind(StrEnum):
    """Who learns of a fault, and what."""

    ANSWERED = "answered"  # the caller gets a status and its constant sentence
    HANDSHAKE = "handshake"  # TLS ends before any message; the caller finds the other side unavailable
    DECLINED = "declined"  # the hospital declines, with the constant sentence as its reason
    HELD = "held"  # the release is held at the hospital; nobody else is told
    LOCAL = "local"  # a command ends with the exit code; nothing is sent
    HARMLESS = "harmless"  # there is nothing to tell


@dataclass(frozen=True)
class Fault:
    """One way to misbehave, and what comes of it.

    Attributes:
        what: the fault, in words.
        attacked: hospital, coordinator, hub or learner.
        kind: who learns of it.
        error: its class; None where no error is called for.
        unchanged: what stays as it was, or comes right by itself.
        act: does it; what it takes is up to the test.
        words: what crosses the boundary, where gRPC answers before we do.
    """

    what: str
    attacked: str
    kind: Kind
    error: type[DpReleaseError] | None
    unchanged: str
    act: Callable[..., Any]
    words: str = ""

    @property
    def sentence(self) -> str:
        """What the other side is told, word for word."""
        return row_for(self.raised()).sentence

    @property
    def exit_code(self) -> int:
        """Of the command that ends with this error."""
        return row_for(self.raised()).exit_code

    def raised(self) -> DpReleaseError:
        assert self.error is not None
        return self.error("")

    @property
    def told(self) -> str:
        """What crosses the boundary, for the table."""
        if self.words:
            return self.words
        if self.kind is Kind.ANSWERED:
            return f"{row_for(self.raised()).code.name}: {self.sentence}"
        if self.kind is Kind.HANDSHAKE:
            return "the TLS handshake fails"
        return f"a decline: {self.sentence}" if self.kind is Kind.DECLINED else "nothing"

    def refused(self) -> AbstractContextManager[pytest.ExceptionInfo[DpReleaseError]]:
        """Expect this error, as it arrives, and no other class."""
        return pytest.raises(self._arriving)

    @property
    def _arriving(self) -> type[DpReleaseError]:
        assert self.error is not None
        return Conflict if self.kind is Kind.ANSWERED and self.error in LOCAL else self.error

    def check_answer(self, caught: pytest.ExceptionInfo[DpReleaseError]) -> None:
        """The caller was told the table's sentence and nothing else."""
        assert caught.type is self._arriving
        if self.kind is Kind.ANSWERED and not self.words:
            assert caught.value.message.endswith(f": {self.sentence}")


def each(faults: Iterable[Fault]) -> pytest.MarkDecorator:
    """A test for every fault."""
    listed = list(faults)
    return pytest.mark.parametrize("fault", listed, ids=[fault.what for fault in listed])

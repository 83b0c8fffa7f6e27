"""Turns of a session with other hospitals: list what is there, send what may be sent, do the next step, until one waits."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dprelease.errors import PeerUnavailable
from dprelease.mpc.messages import Message
from party_node.outgoing.relay import Relay
from party_node.state.session import SessionFolder

Result = TypeVar("Result", covariant=True)


class Resumable(Protocol[Result]):
    """A session whose memory is its storage."""

    def receive(self, listed: tuple[Message, ...], /) -> tuple[Message, ...]:
        """Check all messages that are listed; ours that may be sent now."""

    def advance(self) -> str | Result | None:
        """Do a step: None; or say for whom we wait; or give the result."""


def take_turns(session: Resumable[Result], folder: SessionFolder, relay: Relay) -> str | Result:
    """Go as far as it goes.

    Args:
        session: kept in the folder.
        folder: has the bodies of its messages.
        relay: to the other hospitals.

    Returns:
        For whom we wait, in words; or the session's result.

    Raises:
        IntegrityError: a peer sent something that does not belong to this session; it is named.
        PeerUnavailable: the relay is away, or forgets what it takes; try again.
    """
    put = False
    while True:
        messages = relay.messages()
        ready = session.receive(messages)
        outgoing = [each for each in folder.outgoing() if each.message in ready]
        before, put = put, relay.put(outgoing, messages)
        if before and put:
            raise PeerUnavailable("the hub's relay does not list messages that it has just taken; try again")
        if not put:
            done = session.advance()
            if done is not None:
                return done

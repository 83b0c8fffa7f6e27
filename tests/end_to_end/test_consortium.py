"""What every end-to-end test stands on: ports that nobody else takes, and roles that are ready when they say so."""

import errno
import socket
import sys

import pytest

from demo.consortium import CommandFailed, Consortium

pytestmark = pytest.mark.end_to_end


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a held port be shared")
def test_nobody_else_takes_a_port(consortium: Consortium) -> None:
    for port in consortium.ports.values():
        with socket.socket() as other, pytest.raises(OSError, match="in use") as refusal:
            other.bind(("127.0.0.1", port))
        assert refusal.value.errno == errno.EADDRINUSE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a held port be shared")
def test_a_role_that_cannot_listen_is_not_taken_for_ready(consortium: Consortium) -> None:
    """Its log says "Address already in use" before it ends."""
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", consortium.ports["hub"]))
        thief.listen()
        with pytest.raises(CommandFailed, match="cannot listen"):
            consortium.found(epsilon=1.0, delta=1e-5)

"""Workers are reached over TLS, or on this machine."""

import pytest

from dprelease.wire.clusters import check_cluster


@pytest.mark.parametrize("address", ["tls://scheduler:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786"])
def test_tls_and_this_machine_are_taken(address: str) -> None:
    assert check_cluster(address) == address


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("tcp://10.0.0.5:8786", "over TLS alone"),
        ("tcp://127.0.0.1.example.org:8786", "over TLS alone"),
        ("scheduler:8786", "address is that of the scheduler"),
        ("tls://", "address is that of the scheduler"),
        ("ucx://127.0.0.1:8786", "address is that of the scheduler"),
    ],
)
def test_others_are_refused(address: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_cluster(address)

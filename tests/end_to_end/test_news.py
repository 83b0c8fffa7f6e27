"""Hospitals that look once an hour by themselves: every release is published at once all the same, for they are told."""

from dataclasses import replace

import pytest

from demo.consortium import Consortium
from tests.end_to_end.hospitals import final_state, found, propose
from tests.end_to_end.test_moments import hospitals

pytestmark = pytest.mark.end_to_end


def test_releases_do_not_wait_for_looks(consortium: Consortium) -> None:
    parties = [replace(each, poll_seconds=3600.0) for each in hospitals(3)]
    found(consortium, parties)
    moments = propose(consortium, parties, mechanism="moments", collusion_threshold=2)  # the office deals
    assert final_state(consortium, moments) == "PUBLISHED"
    for role in ("coordinator", "hub"):  # everybody waits at both when they die
        consortium.kill(role)
        consortium.restart(role)
    assert final_state(consortium, propose(consortium, parties, k=21)) == "PUBLISHED"

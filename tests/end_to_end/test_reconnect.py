"""The daemon comes back by itself: from silence, from cut connections, from servers that were away."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from audit import audit
from demo.consortium import HOST, Consortium, wait_for
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose
from tests.support.forked import ForkedConsortium
from tests.support.proxy import Proxy

pytestmark = pytest.mark.end_to_end

ROWS = 300
NUMBERS = count(1)
"""Of each release in turn, for columns of its own: one of the same content as an earlier one would wait for a person."""
QUICK_CALLS = ("-m", "tests.support.faulty", "set@dprelease.wire.boundary:CALL_SECONDS=2", "--")


def _hospitals() -> list[Hospital]:
    random = np.random.default_rng(6)
    return [
        Hospital(
            name,
            {f"{column}_{place}": numeric(0, 10) for place in range(4)},
            {f"{column}_{place}": [*map(float, random.uniform(0, 10, ROWS))] for place in range(4)},
        )
        for name, column in (("clinic", "dose"), ("ward", "pain"))
    ]


def _propose(consortium: Consortium, title: str, **request: object) -> str:
    hospitals = _hospitals()
    return propose(consortium, hospitals, other_columns(hospitals, next(NUMBERS)), title=title, **request)


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with ForkedConsortium(tmp_path_factory.mktemp("reconnect") / "consortium") as started:
        found(started, _hospitals(), epsilon=500.0)
        yield started
        assert audit(started.folder) == []


@pytest.fixture
def proxies(consortium: Consortium) -> Iterator[dict[str, Proxy]]:
    """The clinic reaches coordinator and hub through proxies, and notices silence within a second or two."""
    home = consortium.hospital("clinic")
    enrolment = home / "state" / "identity" / "enrolment.json"
    settings = home / "party.toml"
    before = enrolment.read_bytes(), settings.read_text()
    with Proxy(consortium.ports["coordinator"]) as coordinator, Proxy(consortium.ports["hub"]) as hub:
        consortium.halt("clinic")
        addresses = {"coordinator": f"{HOST}:{coordinator.port}", "hub": f"{HOST}:{hub.port}"}
        rewritten = {**json.loads(enrolment.read_bytes()), **addresses}
        enrolment.write_text(json.dumps(rewritten, sort_keys=True, separators=(",", ":")))
        settings.write_text(before[1].replace("[daemon]\n", "[daemon]\nstall_seconds = 1.0\n"))
        consortium.restart("clinic", launcher=QUICK_CALLS)
        yield {"coordinator": coordinator, "hub": hub}
        consortium.halt("clinic")
        enrolment.write_bytes(before[0])
        settings.write_text(before[1])
        consortium.restart("clinic")


def _logged(consortium: Consortium, name: str, words: str, since: int) -> None:
    log = consortium.log(name)
    wait_for(lambda: words in log.read_bytes()[since:].decode(), 60, f"{name} to log {words!r}; see {log}")


def _size(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.parametrize("whom", ["coordinator", pytest.param("hub", marks=pytest.mark.slow)])
def test_half_open_connections_are_noticed_and_left(
    consortium: Consortium, proxies: dict[str, Proxy], whom: str
) -> None:
    since = _size(consortium.log("clinic"))
    proxies[whom].silence()
    release = _propose(consortium, title=f"silence towards the {whom}")
    assert proxies[whom].silenced.wait(60), "the clinic never spoke into the silence"
    _logged(consortium, "clinic", "next attempt" if whom == "coordinator" else "waits", since)
    proxies[whom].heal()
    assert final_state(consortium, release) == "PUBLISHED"


@pytest.mark.parametrize("whom", [pytest.param("coordinator", marks=pytest.mark.slow), "hub"])
def test_cut_connections_are_made_again(consortium: Consortium, proxies: dict[str, Proxy], whom: str) -> None:
    release = _propose(consortium, title=f"cut from the {whom}")
    proxies[whom].cut()
    assert final_state(consortium, release) == "PUBLISHED"


def test_both_servers_may_be_away_for_any_time(consortium: Consortium) -> None:
    consortium.kill("hub")
    release = _propose(consortium, title="the servers are away")
    since = _size(consortium.log("clinic"))
    consortium.kill("coordinator")
    _logged(consortium, "clinic", "next attempt", since)
    consortium.restart("coordinator")
    consortium.restart("hub")
    assert final_state(consortium, release) == "PUBLISHED"


def test_one_stuck_release_never_blocks_another(consortium: Consortium) -> None:
    ward = consortium.hospital("ward")
    settings = ward / "party.toml"
    before = settings.read_text()
    consortium.halt("ward")
    settings.write_text(
        before.replace("[policy.auto_approve]", "[policy.auto_approve]\nmax_epsilon = 5.0\nmax_delta = 1e-3")
    )
    consortium.restart("ward")
    stuck = _propose(consortium, title="waits for a person at the ward", epsilon=10.0)
    free = _propose(consortium, title="needs nobody", epsilon=4.0)
    assert final_state(consortium, free) == "PUBLISHED"
    shown = json.loads(consortium.run("coordinator", "release", "show", stuck, "--json", home=consortium.office))
    assert shown["state"] == "PROPOSED"
    assert shown["waits_for"] == ["ward"]
    consortium.run("coordinator", "release", "cancel", stuck, "--reason", "enough", home=consortium.office)
    consortium.halt("ward")
    settings.write_text(before)
    consortium.restart("ward")

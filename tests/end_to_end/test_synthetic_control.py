"""Two hospitals with different donors, each with a release of its own against one public target, each role its own process."""

import json

import numpy as np
import pytest

from demo.consortium import Consortium
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, trust

pytestmark = pytest.mark.end_to_end

DONORS, TIMES = 60, 6
SERIES = [30.0, 32.0, 34.0, 36.0, 20.0, 20.0]
POLICY = '[policy.auto_approve]\nmechanisms = ["synthetic-control"]\n'


def hospital(name: str, seed: int) -> Hospital:
    random = np.random.default_rng(seed)
    values = 30 + 2 * np.arange(TIMES) + random.normal(0, 3, (DONORS, 1)) + random.normal(0, 1, (DONORS, TIMES))
    names = [f"y{time}" for time in range(TIMES)]
    cells = {each: [*map(float, values[:, at])] for at, each in enumerate(names)}
    return Hospital(name, {each: numeric(0, 50) for each in names}, cells, policy=POLICY)


def test_releases_of_two_hospitals_are_combined_and_nothing_else_is_charged(consortium: Consortium) -> None:
    parties = [hospital("clinic", 1), hospital("ward", 2)]
    found(consortium, parties)
    request = {"mechanism": "synthetic-control", "series": SERIES, "intervention": "y4", "epsilon": 20.0}
    releases = [propose(consortium, [each], **request) for each in parties]
    assert [final_state(consortium, each) for each in releases] == ["PUBLISHED"] * 2
    for release in releases:
        panel = published(consortium, release).panel()
        assert panel.donors.shape == (DONORS, 2)
        assert panel.target.tolist() == SERIES
    for each, release in zip(parties, releases, strict=True):
        home = consortium.hospital(each.name)
        shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
        assert {line["release"] for line in shown["entries"] if line["kind"] == "charge"} == {release}

    _, home = trust(consortium)
    for release in releases:
        consortium.run("learner", *home, "fetch", release[:10])
    names = [release[:10] for release in releases]
    data = json.loads(consortium.run("learner", *home, "counterfactual", *names, "--json"))
    assert data["donors"] == [DONORS, DONORS]
    assert len(data["path"]) == 2

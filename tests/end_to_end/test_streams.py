"""Streams with every role its own process: checkpoint after checkpoint, from hospitals' growing files to a stranger's fits."""

import json
from fractions import Fraction

import numpy as np
import pytest

from demo.consortium import CommandFailed, Consortium, wait_for
from dprelease.release.accounting import guarantee
from tests.end_to_end.growing import MONTH, grow, hospitals, propose_next, whole_gram
from tests.end_to_end.hospitals import final_state, found, propose, published, trust

pytestmark = pytest.mark.end_to_end

SILENT = ("-m", "tests.support.faulty", "silence@dprelease.privacy.noise:SecureNoise.discrete_gaussian", "--")
"""A node that draws no noise, so that what is released is exact."""


def entries(consortium: Consortium, party: str) -> list[dict[str, str]]:
    home = consortium.hospital(party)
    shown = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))
    return [*shown["entries"]]


def test_three_hospitals_publish_two_checkpoints_of_moments(consortium: Consortium) -> None:
    parties = hospitals(3)
    found(consortium, parties)
    for party in parties:
        consortium.halt(party.name)
        consortium.restart(party.name, launcher=SILENT)
    releases = [propose(consortium, parties, mechanism="stream", of="moments", checkpoints=2)]
    learner, home = trust(consortium)
    for months in (1, 2):
        if months > 1:
            late = parties[months - 1]
            grow(consortium, [party for party in parties if party is not late], months)
            with pytest.raises(CommandFailed, match=f"batch {months} is not there yet at {late.name}"):
                propose_next(consortium, releases[0])
            consortium.halt(late.name)
            consortium.restart(late.name, launcher=SILENT)
            grow(consortium, [late], months)
            releases.append(propose_next(consortium, releases[0]))
        release = releases[-1]
        assert final_state(consortium, release) == "PUBLISHED"
        opened = published(consortium, release)
        moments = opened.moments()
        assert moments.rows == MONTH * months
        np.testing.assert_allclose(moments.gram, whole_gram(opened.spec, parties, [*range(1, months + 1)]), atol=1e-6)
        consortium.run("learner", *home, "fetch", release[:10])
        verified = " ".join(consortium.run("learner", *home, "verify", release[:10]).split())
        assert f"checkpoint {months} of" in verified
        assert "Checked by range proofs" in verified  # each checkpoint has a session with proofs of its own
        report = learner / f"{months}.json"
        consortium.run("learner", *home, "fit", release[:10], "--target", "lab_b", "--output", str(report))
        assert json.loads(report.read_text())["targets"] == ["lab_b"]
    followed = consortium.run(
        "learner", *home, "follow", releases[0][:10], "--target", "lab_b", "--method", "ols", "--once", "--json"
    )
    assert [json.loads(line)["patients"] for line in followed.splitlines()] == [MONTH, 2 * MONTH]
    given = guarantee(published(consortium, releases[0]).spec)
    spent = json.loads(consortium.run("learner", *home, "spending", "--json"))
    assert [Fraction(roster["spent_mu2"]) for roster in spent["rosters"]] == [given.joint_mu2]
    for party in parties:
        lines = [[line for line in entries(consortium, party.name) if line["release"] == each] for each in releases]
        assert [[line["kind"] for line in each] for each in lines] == [["reserve", "charge", "send", "made"]] * 2
        charged = [max(Fraction(line["mu2"]) for line in each) for each in lines]
        assert charged == [given.party(party.name).mu2, 0]
        kept = consortium.hospital(party.name) / "state" / "streams"
        wait_for(lambda kept=kept: not any(kept.glob("*")), 30, "what was kept of the stream to be erased")  # type: ignore[misc]


def test_one_hospital_alone_publishes_mixed_blocks(consortium: Consortium) -> None:
    parties = hospitals(1)
    found(consortium, parties)
    release = propose(consortium, parties, mechanism="stream", of="mixed", checkpoints=2, k=20, epsilon=20.0)
    assert final_state(consortium, release) == "PUBLISHED"
    grow(consortium, parties, 2)
    later = propose_next(consortium, release)
    assert final_state(consortium, later) == "PUBLISHED"
    views = [published(consortium, each).scaled() for each in (release, later)]
    assert [view.rows for view in views] == [MONTH, 2 * MONTH]
    blocks = [published(consortium, each).blocks["clinic"][0].values for each in (release, later)]
    assert np.array_equal(blocks[0], blocks[1][: len(blocks[0])])
    _, home = trust(consortium)
    consortium.run("learner", *home, "fetch", later[:10])
    assert "checkpoint 2 of 2" in consortium.run("learner", *home, "verify", later[:10])


def test_a_checkpoint_that_failed_is_left_out_and_a_changed_row_is_declined(consortium: Consortium) -> None:
    parties = hospitals(2)
    found(consortium, parties)
    first = propose(consortium, parties, mechanism="stream", of="moments", checkpoints=3, epsilon=20.0)
    assert final_state(consortium, first) == "PUBLISHED"
    grow(consortium, parties, 2)
    consortium.halt("hub")
    second = propose_next(consortium, first)
    wait_for(lambda: _state(consortium, second) == "APPROVED", 60, "all hospitals to approve")
    consortium.run("coordinator", "release", "cancel", second, "--reason", "no hub", home=consortium.office)
    consortium.restart("hub")
    grow(consortium, parties, 3)

    table = consortium.hospital("clinic") / "table.csv"
    kept = table.read_text()
    old = next(line for line in kept.splitlines() if line.split(",")[1] == "1")
    table.write_text(kept.replace(old, ",".join([*old.split(",")[:-1], "0.5"])))
    assert final_state(consortium, propose_next(consortium, first)) == "REJECTED"
    assert b"rows of batch 1 changed, were removed or added" in consortium.log("clinic").read_bytes()
    table.write_text(kept)
    third = propose_next(consortium, first)
    assert final_state(consortium, third) == "PUBLISHED"
    assert published(consortium, third).moments().rows == 2 * MONTH
    for party in parties:
        charged = [line for line in entries(consortium, party.name) if line["kind"] == "charge" and line["mu2"] != "0"]
        assert [line["release"] for line in charged] == [first]


def _state(consortium: Consortium, release: str) -> str:
    shown = json.loads(consortium.run("coordinator", "release", "show", release, "--json", home=consortium.office))
    return str(shown["state"])

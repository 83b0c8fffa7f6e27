"""The office's disk is lost and a backup put back, older than two releases: hospitals, hub and office come to one account again."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demo.consortium import Consortium, wait_for
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, other_columns, propose

pytestmark = pytest.mark.end_to_end

ROWS = 200


def office(consortium: Consortium, *arguments: str) -> str:
    return consortium.run("coordinator", *arguments, home=consortium.office)


def releases(consortium: Consortium) -> dict[str, dict[str, Any]]:
    return {each["digest"]: each for each in json.loads(office(consortium, "release", "list", "--json"))}


def last_entry(consortium: Consortium, hospital: Hospital, release: str) -> str:
    """What a ledger said last of a release."""
    home = consortium.hospital(hospital.name)
    entries = json.loads(consortium.run("party-node", "ledger", "show", "--json", home=home))["entries"]
    return str([each["kind"] for each in entries if each["release"] == release][-1])


def put_back(consortium: Consortium, copy: Path) -> None:
    consortium.kill("coordinator")
    for ending in ("", "-wal", "-shm"):
        (consortium.office / f"coordinator.sqlite{ending}").unlink(missing_ok=True)
    shutil.copy(copy, consortium.office / "coordinator.sqlite")
    office(consortium, "backup", "restored", "--yes")
    consortium.restart("coordinator")


def test_an_office_that_forgot_two_releases(consortium: Consortium) -> None:
    random = np.random.default_rng(8)
    hospitals = [
        Hospital(
            name,
            {f"{column}_{place}": numeric(0, 10) for place in range(2)},
            {f"{column}_{place}": [*map(float, random.uniform(0, 10, ROWS))] for place in range(2)},
            poll_seconds=0.1,
        )
        for name, column in (("clinic", "dose"), ("ward", "pain"))
    ]
    found(consortium, hospitals)
    copy = consortium.office / "copy.sqlite"
    office(consortium, "backup", "make", str(copy))

    public = propose(consortium, hospitals, other_columns(hospitals, 1), title="public by then")
    assert final_state(consortium, public) == "PUBLISHED"
    consortium.halt("hub")
    stuck = propose(consortium, hospitals, other_columns(hospitals, 2), title="approved by then")
    wait_for(lambda: releases(consortium)[stuck]["state"] == "APPROVED", 60, "both to approve")

    put_back(consortium, copy)
    wait_for(
        lambda: [len(each["approved"]) for each in releases(consortium).values()] == [2, 2], 60, "both to remind it"
    )
    assert {digest: each["state"] for digest, each in releases(consortium).items()} == {
        public: "FAILED",
        stuck: "FAILED",
    }
    consortium.restart("hub")
    office(consortium, "backup", "recall", str(consortium.hub / "storage" / "published"))
    assert {digest: each["state"] for digest, each in releases(consortium).items()} == {
        public: "PUBLISHED",
        stuck: "FAILED",
    }
    wait_for(
        lambda: {last_entry(consortium, each, stuck) for each in hospitals} == {"refund"}, 60, "both to be refunded"
    )
    assert {last_entry(consortium, each, public) for each in hospitals} == {"send"}
    last = propose(consortium, hospitals, other_columns(hospitals, 3), title="work goes on")
    assert final_state(consortium, last) == "PUBLISHED"

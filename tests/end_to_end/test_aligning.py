"""Three hospitals that share 80 per cent of their patients, each role its own process: aligned, then a release."""

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from audit import audit
from demo.consortium import CommandFailed, Consortium, wait_for
from party_node.source.alignment import align, as_names, pseudonym
from tests.end_to_end.hospitals import IDENTIFIER_MARK, Hospital, final_state, found, numeric, propose, published

pytestmark = pytest.mark.end_to_end

ROWS, SHARED = 120, 96
NAMES = ("clinic", "ward", "lab")
FAULT = "kill-before@party_node.outgoing.relay:RelayCalls.send#4"
"""In the middle of the points that go round."""


@dataclass(frozen=True)
class Overlapping(Hospital):
    """A hospital that has a fifth of its patients alone."""

    def write(self, folder: Path, seed: int) -> None:
        super().write(folder, seed)

        def renumbered(found: re.Match[str]) -> str:
            number = int(found[1])
            return f"{IDENTIFIER_MARK}{number if number < SHARED else number + 1000 * (seed + 1):06d}"

        table = folder / "table.csv"
        table.write_text(re.sub(rf"{IDENTIFIER_MARK}(\d+)", renumbered, table.read_text()))
        settings = folder / "party.toml"
        settings.write_text(settings.read_text().replace("same_patients = true\n", ""))


def hospitals() -> list[Hospital]:
    random = np.random.default_rng(8)
    return [
        Overlapping(name, {f"{name}_a": numeric(-1, 1)}, {f"{name}_a": [*map(float, random.uniform(-1, 1, ROWS))]})
        for name in NAMES
    ]


def at_office(consortium: Consortium, *arguments: str) -> str:
    return consortium.run("coordinator", *arguments, home=consortium.office)


def opened(consortium: Consortium, told: str) -> int:
    """How many sets of the clinic's patients a hospital, which holds everybody's key, recognises in what office and hub kept."""
    key = (consortium.hospital("lab") / "state" / "identity" / "alignment.key").read_bytes()
    files = (path for folder in (consortium.office, consortium.hub) for path in folder.rglob("*") if path.is_file())
    kept = b"".join(path.read_bytes() for path in files)
    assert told.encode() in kept
    table = (consortium.hospital("clinic") / "table.csv").read_text().splitlines()[1:]
    own = sorted(line.split(",")[0].strip('"') for line in table)
    both, alone = own[:SHARED], own[SHARED:]
    guesses = [own, both, *([*both, each] for each in alone)]
    assert len(guesses) == 2 + ROWS - SHARED
    digests = (
        align(key, np.sort(as_names([pseudonym(key, each) for each in guess])), "cohort").digest for guess in guesses
    )
    return sum(digest.encode() in kept for digest in digests)


def runs(consortium: Consortium, name: str) -> dict[str, dict[str, object]]:
    listed = consortium.run("party-node", "review", "list", "--json", home=consortium.hospital(name))
    return {line["run"]: line for line in json.loads(listed) if "run" in line}


def test_hospitals_that_share_most_patients_release_what_is_about_all_of_them(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    with pytest.raises(CommandFailed, match=r"clinic, ward, lab never aligned.*coordinator align start"):
        propose(consortium, parties, mechanism="mixed")
    run = json.loads(at_office(consortium, "align", "start", "--roster", "cohort", *NAMES, "--json"))["digest"]
    wait_for(lambda: all(run in runs(consortium, name) for name in NAMES), 60, "every hospital to see the run")
    consortium.halt("ward")
    consortium.restart("ward", launcher=("-m", "tests.support.faulty", FAULT, "--"))
    consortium.run_at_hospitals(NAMES, "review", "approve", run[:12], "--yes")
    assert consortium.died("ward") == -signal.SIGKILL
    consortium.restart("ward")

    def done() -> bool:
        return str(json.loads(at_office(consortium, "release", "show", run, "--json"))["state"]) == "DONE"

    def reported() -> bool:
        return [each["rows"] for each in json.loads(at_office(consortium, "party", "list", "--json"))] == [SHARED] * 3

    wait_for(done, 60, "the run to be done")
    wait_for(reported, 60, "every hospital to report its common patients")
    for name in NAMES:
        line = runs(consortium, name)[run]
        assert (line["status"], line["version"], line["common_patients_seen_here_only"]) == ("in force", 1, SHARED)
    release = propose(consortium, parties, mechanism="mixed")
    assert final_state(consortium, release) == "PUBLISHED"
    spec = published(consortium, release).spec
    assert (spec.rows, spec.aligned) == (SHARED, run)
    assert opened(consortium, spec.alignment) == 0
    assert "is held" not in "".join(consortium.log(name).read_text() for name in NAMES)

    def swept() -> bool:
        return not (consortium.hub / "storage" / "staging" / run).exists()

    wait_for(swept, 60, "the hub to remove the parcels")
    rosters = [consortium.hospital(name) / "state" / "rosters" / run for name in NAMES]
    assert audit(consortium.folder) == []
    leak = consortium.hub / "leak"
    leak.write_bytes(b"x" + rosters[0].read_bytes()[32:64])
    assert [violation.what for violation in audit(consortium.folder)] == ["holds a pseudonym of a patient"]
    leak.unlink()
    rosters[1].write_bytes(rosters[1].read_bytes()[32:])
    said = [violation.what for violation in audit(consortium.folder)]
    assert said == [f"alignment run {run[:12]}: hospitals have different patients in force"]
    rosters[1].write_bytes(rosters[0].read_bytes())

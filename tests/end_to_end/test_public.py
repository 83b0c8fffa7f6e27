"""Public columns with every role its own process: the owner's act, releases beside it, and what is refused because of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest

from coordinator.settings import CoordinatorSettings
from coordinator.store.store import Store
from demo.consortium import CommandFailed, Consortium, wait_for
from dprelease.files.settings import read_settings
from dprelease.release.release import Release
from party_node.state.entries import Entry
from party_node.state.ledger import Ledger
from tests.end_to_end.hospitals import Hospital, final_state, found, numeric, propose, published, scaled_gram, trust

pytestmark = pytest.mark.end_to_end

ROWS = 300


def hospitals() -> list[Hospital]:
    """A clinic with a column that it will declare public, and a ward; both have policies for it."""
    random = np.random.default_rng(13)
    age = random.uniform(20, 90, ROWS)
    dose = random.uniform(0, 10, ROWS)
    pressure = 90 + 0.5 * age + 2 * dose + random.normal(0, 5, ROWS)
    return [
        Hospital(
            "clinic",
            {"age": numeric(18, 100), "smoker": 'kind = "categorical"\nlevels = ["yes"]'},
            {"age": [*map(float, age)], "smoker": ["yes" if each else "no" for each in random.random(ROWS) < 0.3]},
            policy='[policy.auto_approve]\nmechanisms = ["moments", "mixed"]\nguarantees = ["DP", "label-DP"]\n',
        ),
        Hospital(
            "ward",
            {"dose": numeric(0, 10), "pressure": numeric(60, 200)},
            {"dose": [*map(float, dose)], "pressure": [*map(float, pressure)]},
            policy='[policy.auto_approve]\nmechanisms = ["moments", "mixed"]\nguarantees = ["DP", "label-DP", "mixed"]\n',
        ),
    ]


def clinic(consortium: Consortium, *arguments: str) -> str:
    return consortium.run("party-node", *arguments, home=consortium.hospital("clinic"))


def account(consortium: Consortium, name: str) -> list[Entry]:
    """What a hospital's ledger says of releases."""
    entries = Ledger(consortium.hospital(name) / "state" / "ledger.sqlite").entries()
    return [entry for entry in entries if entry.release]


@contextmanager
def office(consortium: Consortium) -> Iterator[Store]:
    store = Store.open(read_settings(consortium.office / "coordinator.toml", CoordinatorSettings).database)
    yield store
    store.close()


def knows_of(consortium: Consortium, *public: str) -> bool:
    """Whether the office knows which of the clinic's columns are public."""
    with office(consortium) as store, store.reading() as tx:
        return [column.name for column in tx.members.catalogues()["clinic"].columns if column.public] == list(public)


def approved_by_a_person_at_the_clinic(consortium: Consortium, release: str) -> None:
    """Its policy does not name this kind of guarantee."""
    log = consortium.log("clinic")
    wait_for(lambda: f"{release[:12]} waits for a person".encode() in log.read_bytes(), 60, "the clinic to see it")
    card = json.loads(clinic(consortium, "review", "show", release[:8], "--json"))
    assert card["public_columns"] == ["age"]
    assert any("guarantee of mixed is not among those allowed" in each for each in card["needs_a_person_because"])
    clinic(consortium, "review", "approve", release[:8], "--yes")


def exactly_public(release: Release, parties: list[Hospital]) -> bool:
    """Whether the learner has the clinic's ages as they are: in another order, on the grid."""
    public = release.public()
    assert public.names == ("age",)
    truth = (np.sort(np.array(parties[0].cells["age"], float)) - 59) / 41
    return bool(np.abs(np.sort(public.values[:, 0]) - truth).max() <= 2.0**-release.spec.grid_bits)


def refused_before_any_charge(consortium: Consortium, parties: list[Hospital]) -> None:
    """An office that lies about what the clinic declared, either way."""
    before = account(consortium, "clinic")
    for public, request in (
        ((), {"mechanism": "mixed"}),
        (("age", "smoker"), {"mechanism": "moments", "public_side": "features"}),
    ):
        with office(consortium) as store, store.writing() as tx:
            honest = tx.members.catalogues()["clinic"]
            columns = tuple(each.model_copy(update={"public": each.name in public}) for each in honest.columns)
            tx.members.report_catalogue(honest.model_copy(update={"columns": columns}), datetime.now(UTC))
        assert final_state(consortium, propose(consortium, parties, **request)) == "REJECTED"
    assert account(consortium, "clinic") == before


def test_releases_beside_a_public_column(consortium: Consortium) -> None:
    parties = hospitals()
    found(consortium, parties)
    clinic(consortium, "public", "declare", "age", "--irrevocable")
    wait_for(lambda: knows_of(consortium, "age"), 60, "the clinic to report its public column")
    with pytest.raises(CommandFailed, match="age: these are public"):
        propose(consortium, parties, mechanism="mixed")

    release = propose(consortium, parties, mechanism="mixed", public_side="mixed")
    approved_by_a_person_at_the_clinic(consortium, release)
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert exactly_public(opened, parties)
    assert (opened.scaled().noise_sd == 0).tolist() == [True, False, False, False, False]

    release = propose(consortium, parties, mechanism="moments", public_side="features")
    assert final_state(consortium, release) == "PUBLISHED"
    opened = published(consortium, release)
    assert exactly_public(opened, parties)
    moments, truth = opened.moments(), scaled_gram(opened.spec, parties)
    assert not moments.noise_sd[:2, :2].any()
    np.testing.assert_allclose(moments.gram[:2, :2], truth[:2, :2], rtol=1e-12)
    assert (moments.noise_sd[:2, 2:] > 0).all()

    folder, home = trust(consortium)
    assert "label-DP" in consortium.run("learner", *home, "fetch", release[:10])
    report = folder / "fit.json"
    fit = ("fit", release[:10], "--target", "pressure", "--features", "age", "--output", str(report))
    assert "label-DP" in consortium.run("learner", *home, *fit)
    assert {row["target"] for row in json.loads(report.read_text())["predictor"]} == {"pressure"}
    for name in ("clinic", "ward"):
        rows, moments = ["reserve", "made", "charge", "send"], ["reserve", "charge", "send", "made"]
        assert [entry.kind for entry in account(consortium, name)] == rows + moments
        assert all(Fraction(entry.mu2) > 0 for entry in account(consortium, name) if entry.kind != "made")
    refused_before_any_charge(consortium, parties)

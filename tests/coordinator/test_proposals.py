"""From request to spec: what comes out, and every reason for refusing."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from coordinator.lifecycle import Cancelled
from coordinator.proposals.proposals import CheckedProposal, Request, create, make_proposal
from coordinator.service import enrolment
from coordinator.store.agreements import Agreement
from coordinator.store.members import Invitation
from dprelease.canonical import sha256
from dprelease.errors import InvalidInput
from dprelease.files.settings import read_settings
from dprelease.mechanisms.noisy_rows.calibration import plan_mixing
from dprelease.mechanisms.noisy_rows.terms import MixedTerms
from dprelease.privacy.price import epsilon_at, epsilon_text
from dprelease.release.accounting import check_spec
from dprelease.spec_base import instant
from tests.coordinator.office import (
    ALIGNMENT,
    COLUMNS,
    GLUCOSE,
    NOW,
    REQUEST,
    RUN_TIME,
    Office,
    catalogue,
    grow,
    request,
)


def propose(office: Office, *, allow_large_delta: bool = False, **changed: Any) -> CheckedProposal:
    with office.store.reading() as tx:
        return make_proposal(request(**changed), "Trio", tx.members, NOW, allow_large_delta=allow_large_delta)


def mixed(made: CheckedProposal) -> MixedTerms:
    assert isinstance(made.spec.terms, MixedTerms)
    return made.spec.terms


def test_a_spec_is_what_the_catalogues_and_the_request_say(office: Office) -> None:
    made = propose(office)
    spec = made.spec
    assert (spec.title, spec.consortium, spec.roster) == ("Age and glucose", "Trio", "cohort")
    assert (spec.rows, spec.rows_per_subject, spec.alignment, spec.grid_bits) == (1000, 1, ALIGNMENT, 16)
    assert spec.columns_by_party == COLUMNS
    with office.store.reading() as tx:
        for part in spec.parties:
            known = tx.members.find(part.party)
            assert known is not None
            assert part.key == known.fingerprint
    assert (spec.created, spec.expires) == (instant(NOW), instant(NOW + timedelta(hours=72)))
    assert made.guarantee == check_spec(spec)
    assert made.guarantee.joint_epsilon == pytest.approx(1.0, rel=1e-6)
    assert made.guarantee.joint_epsilon <= 1.0


def test_the_seed_is_drawn_afresh_and_from_the_source_that_is_handed_in(office: Office) -> None:
    first, second = mixed(propose(office)), mixed(propose(office))
    assert first.mixing.seed != second.mixing.seed
    with office.store.reading() as tx:
        fixed = make_proposal(request(), "Trio", tx.members, NOW, draw=lambda size: b"\x07" * size)
    assert mixed(fixed).mixing.seed == "07" * 32


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_weights_of_a_request_are_in_the_spec_and_its_noise_follows(office: Office, mechanism: str) -> None:
    made = propose(office, mechanism=mechanism, weights={"glucose": 3, "age": 1})
    spec = made.spec
    assert {part.party: part.weights for part in spec.parties} == {"north": (), "south": (3,)}
    assert made.guarantee == check_spec(spec)
    assert made.guarantee.joint_epsilon == pytest.approx(1.0, rel=1e-6)
    # Shares of a joint target go with weighted sensitivities: 4 + 2 of the north's, 9 * 4 of the south's.
    assert float(made.guarantee.party("south").mu2 / made.guarantee.joint_mu2) == pytest.approx(36 / 42, rel=1e-4)
    if mechanism == "mixed":
        assert made.explanation == plan_mixing(1000, COLUMNS, spec.target, weights={"glucose": 3}).explain()


def test_rows_per_subject_multiplies_mu(office: Office) -> None:
    single = propose(office, k=10, rho="1/10")
    office.report(catalogue("north", rows_per_subject=3), catalogue("south", rows_per_subject=3))
    triple = propose(office, k=10, rho="1/10")
    assert triple.spec.rows_per_subject == 3
    ratio = mixed(triple).noise_of("north").scale / mixed(single).noise_of("north").scale
    assert ratio == pytest.approx(3.0, rel=1e-6)


def test_a_per_party_target_bounds_each_block(office: Office) -> None:
    made = propose(office, scope="per-party", epsilon=0.5)
    assert [part.epsilon for part in made.guarantee.parties] == pytest.approx([0.5, 0.5], rel=1e-6)
    assert made.guarantee.joint_epsilon > 0.6


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parties": {"east": "*"}}, "no party called 'east' takes part; enrolled: north, south"),
        ({"parties": {"north": ["age", "weight"]}}, "north does not offer weight; it offers age, sex"),
        ({"parties": {"north": ["age", "age"]}}, "list each column once"),
        ({"parties": {"north": ["age", "*"]}}, "list each column once"),
        ({"parties": {"north": []}}, "list each column once"),
        ({"parties": {}}, "parties"),
        ({"title": ""}, "title"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": -1.0}, "epsilon must be positive"),
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": 0.001}, "not below 1/n = 0.001"),
        ({"k": 0}, "k must lie between 1 and n = 1,000, not 0"),
        ({"k": 1001}, "k must lie between 1 and n = 1,000, not 1001"),
        ({"rho": 1.0}, "rho must lie at or above 0 and below 1"),
        ({"rho": "-1/10"}, "rho must lie at or above 0 and below 1"),
        ({"rho": "a tenth"}, "is not a number"),
        ({"rho": "1/0"}, "is not a number"),
        ({"weights": {"weight": 2}}, "no such column to weigh: weight; there are age, sex, glucose"),
        ({"weights": {"age": 0}}, "weights.age"),
        ({"weights": {"age": 17}}, "weights.age"),
        ({"weights": {"age": 1.5}}, "weights.age"),
        ({"mechanism": "magic"}, "mechanism"),
        ({"scope": "everywhere"}, "scope"),
        ({"grid_bits": 40}, "grid_bits"),
        ({"expires_hours": 0}, "expires_hours"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(office: Office, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        propose(office, **changed)
    assert message in refused.value.message


def test_delta_of_a_stream_is_below_one_over_all_patients_for_whom_there_is_room(office: Office) -> None:
    grow(office, 1)
    asked: dict[str, Any] = {"mechanism": "stream", "of": "moments", "checkpoints": 3, "grid_bits": 14, "delta": 1e-4}
    with pytest.raises(InvalidInput, match=r"not below 1/n = 0\.0001"):
        propose(office, **asked, most_rows=10000)
    propose(office, **asked, most_rows=9999)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"roster": "another"}, "the parties' rosters differ: north cohort, south another"),
        ({"rows": 999}, "the parties' numbers of rows differ: north 1000, south 999"),
        (
            {"identifiers": '{"case":"upper"}'},
            'the parties bring identifiers to different normal forms: north: as they stand | south: {"case":"upper"}; let all '
            "of them declare the same [source.identifiers] in party.toml",
        ),
        ({"rows_per_subject": 2}, "the parties' rows_per_subject differ: north 1, south 2"),
        ({"comparable": False}, "south never aligned, and nobody can tell whether all have the same patients"),
        ({"alignment": sha256(b"another order")}, "not the same patients in the same order: north | south"),
        ({"alignment": sha256(b"another key")}, "compare the key check that party-node check prints"),
    ],
)
def test_parties_that_disagree_are_named(office: Office, changed: dict[str, Any], message: str) -> None:
    office.report(catalogue("south", **changed))
    with pytest.raises(InvalidInput) as refused:
        propose(office)
    assert message in refused.value.message
    assert sha256(b"another order") not in refused.value.message
    propose(office, parties={"south": "*"}, k=5)  # alone it has nobody to agree with


def test_the_odd_one_out_is_set_apart(office: Office) -> None:
    office.enrol("west")
    office.report(catalogue("south", alignment=sha256(b"x")), catalogue("west", columns=(GLUCOSE,)))
    with pytest.raises(InvalidInput, match=r"north, west \| south"):
        propose(office, parties={"north": "*", "south": "*", "west": "*"})


def test_two_parties_cannot_release_one_name(office: Office) -> None:
    office.report(catalogue("south", columns=(*COLUMNS["north"], GLUCOSE)))
    with pytest.raises(InvalidInput, match="both north and south would release 'age'"):
        propose(office, parties={"north": "*", "south": "*"})
    propose(office, parties={"north": "*", "south": ["glucose"]})


def test_who_cannot_take_part_is_named_with_the_reason(office: Office) -> None:
    with office.store.writing() as tx:
        tx.members.invite(Invitation("east", Fraction(1, 100), NOW + timedelta(hours=1)), "secret", NOW)
    with pytest.raises(InvalidInput, match="east was invited but has not enrolled yet"):
        propose(office, parties={"north": "*", "east": "*"})
    office.enrol("west")
    with pytest.raises(InvalidInput, match="no catalogue yet from west"):
        propose(office, parties={"north": "*", "west": "*"})
    office.enrol("south", now=NOW - timedelta(days=91))
    with pytest.raises(InvalidInput, match="the certificate of south expired at"):
        propose(office)
    office.store.revoke("north", NOW)
    with pytest.raises(InvalidInput, match="north was revoked"):
        propose(office)


def test_a_share_above_a_whole_cap_is_refused_before_anybody_is_asked(office: Office) -> None:
    with pytest.raises(InvalidInput, match=r"exceeds the whole cap \(north: "):
        propose(office, epsilon=2.9)
    with office.store.reading() as tx:
        assert sum(enrolment.caps(tx, NOW).values()) == office.store.consortium.mu2 * Fraction(2, 3)
        assert tx.releases.all() == ()


def test_a_declared_budget_holds_what_releases_of_the_patients_take_together(office: Office) -> None:
    about = REQUEST["about"]
    assert isinstance(about, dict)

    def create_within(budget: float, **changed: object) -> Agreement:
        asked = request(about={**about, "budget": budget}, **changed)
        return create(office.store, asked, RUN_TIME, NOW).release

    with pytest.raises(InvalidInput, match=r"this one alone takes 0\.7\d+ at delta = 1e-06; declare"):
        create_within(0.6, scope="per-party", epsilon=0.5)  # of each hospital
    first = create_within(1.0)
    mu2 = 2 * check_spec(first.read_spec()).joint_mu2
    both, printed = epsilon_at(mu2, 1e-6), epsilon_text(mu2, 1e-6)
    told = rf"epsilon = 1.4 is for all releases of roster cohort, and this one alone takes 1, and with 1 open .* {printed} at"
    with pytest.raises(InvalidInput, match=told):
        create_within(1.4)
    other = create_within(both + 1e-6)
    with office.store.writing() as tx:
        for release in (first, other):
            tx.releases.advance(release.digest, Cancelled("no"), NOW)
    create_within(1.0)  # what was cancelled takes nothing


def test_a_later_catalogue_leaves_a_proposed_spec_alone(office: Office) -> None:
    release = office.propose()
    office.report(catalogue("north", rows=5, columns=(GLUCOSE,)))
    assert office.release(release.digest) == release


def test_a_request_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'title = "Study"\nepsilon = 1\ndelta = 1e-6\nrho = 0.1\n[parties]\nsouth = "*"\nnorth = ["sex", "age"]\n'
    )
    read = read_settings(path, Request)
    assert list(read.parties.items()) == [("south", "*"), ("north", ("sex", "age"))]
    assert (read.mechanism, read.scope, read.grid_bits, read.expires_hours, read.options.k) == (
        "mixed",
        "joint",
        16,
        72.0,
        None,
    )
    path.write_text('title = "Study"\nepsilon = 1\n')
    with pytest.raises(InvalidInput, match=r"parties.*delta|delta.*parties"):
        read_settings(path, Request)

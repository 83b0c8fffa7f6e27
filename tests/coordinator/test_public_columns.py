"""Proposals with public columns: what they are has to be said, the label follows, and what it costs."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator.cli.main import main
from coordinator.clock import utc_now
from coordinator.proposals.proposals import CheckedProposal, make_proposal
from dprelease.errors import InvalidInput
from dprelease.mechanisms.noisy_rows.terms import NoisyRowsTerms
from dprelease.release.accounting import check_spec
from tests.coordinator.office import AGE, GLUCOSE, NOW, SEX, Office, catalogue, request
from tests.support.specs import ABOUT

OPEN_AGE = AGE.model_copy(update={"public": True})
OPEN_GLUCOSE = GLUCOSE.model_copy(update={"public": True})
BY_SIDE = {"features": "label-DP", "outcomes": "feature-DP", "mixed": "mixed"}


@pytest.fixture
def public(office: Office) -> Office:
    """Age is public at the north, and the south's only column."""
    office.report(catalogue("north", columns=(OPEN_AGE, SEX)), catalogue("south", columns=(OPEN_GLUCOSE,)))
    return office


def propose(office: Office, **changed: Any) -> CheckedProposal:
    with office.store.reading() as tx:
        return make_proposal(request(**changed), "Trio", tx.members, NOW)


def scale(made: CheckedProposal, party: str) -> float:
    assert isinstance(made.spec.terms, NoisyRowsTerms)
    return made.spec.terms.noise_of(party).scale


@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
@pytest.mark.parametrize("side", BY_SIDE)
def test_what_the_public_columns_are_names_the_guarantee(public: Office, side: str, mechanism: str) -> None:
    made = propose(public, public_side=side, mechanism=mechanism)
    assert made.spec.guarantee == BY_SIDE[side]
    assert [column.name for column in made.spec.public] == ["age", "glucose"]
    assert made.guarantee == check_spec(made.spec)
    assert made.guarantee.joint_epsilon == pytest.approx(1.0, rel=1e-6)
    assert made.guarantee.party("south").mu2 == 0
    assert made.guarantee.party("north").mu2 == made.guarantee.joint_mu2


@pytest.mark.parametrize("scope", ["joint", "per-party"])
def test_public_columns_leave_the_whole_target_to_the_others(public: Office, scope: str) -> None:
    shown = propose(public, public_side="mixed", scope=scope, k=20, rho="1/10")
    assert scale(shown, "south") == 0
    public.report(catalogue("north"), catalogue("south"))
    sex_alone = propose(public, parties={"north": ["sex"]}, scope=scope, k=20, rho="1/10")
    assert scale(shown, "north") == scale(sex_alone, "north")


def test_a_column_that_is_public_is_not_proposed_as_private(public: Office) -> None:
    assert propose(public, parties={"north": ["sex"]}).spec.guarantee == "DP"
    with pytest.raises(InvalidInput, match="age: these are public; say what they are: --public-side"):
        propose(public, parties={"north": "*"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parties": {"north": ["sex"]}, "public_side": "mixed"}, "none of these columns is public"),
        ({"mechanism": "rows", "public_side": "features"}, "age, glucose: public columns would link every noisy row"),
        ({"parties": {"north": ["age"], "south": "*"}, "public_side": "features"}, "nothing to protect"),
        ({"parties": {"south": "*"}, "public_side": "features", "mechanism": "moments"}, "nothing to protect"),
        ({"public_side": "both"}, "public_side"),
    ],
)
def test_what_cannot_be_proposed(public: Office, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        propose(public, **changed)


@pytest.fixture
def study(opened: Office, tmp_path: Path) -> str:
    opened.report(catalogue("north", columns=(OPEN_AGE, SEX)), now=utc_now())
    path = tmp_path / "study.toml"
    path.write_text(f'title = "t"\n{ABOUT}\nepsilon = 1.0\ndelta = 1e-6\n[parties]\nnorth = "*"\nsouth = "*"\n')
    return str(path)


def test_the_command_asks_for_the_side_and_says_what_is_not_protected(study: str) -> None:
    refused = CliRunner().invoke(main, ["release", "create", study])
    assert refused.exit_code != 0
    assert "age: these are public" in refused.output
    text = CliRunner().invoke(main, ["release", "create", study, "--public-side", "features", "--explain"]).output
    assert "This is label-DP: the public columns are features and not protected, the private ones are." in text
    assert "published exactly, patient by patient, and are outside the guarantee: age." in text
    assert "columns sex, glucose." in text


def test_a_dry_run_goes_the_whole_way_with_public_columns(study: str) -> None:
    result = CliRunner().invoke(
        main, ["release", "create", study, "--public-side", "features", "--dry-run", "--rows", "300"]
    )
    assert result.exit_code == 0, result.output
    assert "label-DP" in result.output

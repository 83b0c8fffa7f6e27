"""`coordinator plan`, from a request and the catalogues."""

import json
import math
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator.cli.main import main
from coordinator.cli.plan import IN_RANGES
from dprelease.data.columns import CategoricalColumn, Column
from dprelease.data.exits import Exits
from dprelease.mechanisms.noisy_rows.terms import MixedTerms
from dprelease.planning.tables import EVENTS, log_hazard_ratio_sd
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from tests.coordinator.office import AGE, STUDY, Office, catalogue, grow
from tests.support.plans import way

ONE = ("--signal", "0.3")
"""For what a plan says whatever is guessed."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def office(opened: Office) -> Office:
    return opened


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        ("mixed", ""),
        ("rows", ""),
        ("moments", ""),
        ("moments", 'outcomes = ["sex"]\n'),
        ("mixed", "weights = { glucose = 2 }\n"),
        ("rows", "weights = { glucose = 2 }\n"),
    ],
)
def test_the_price_is_what_the_release_will_charge(office: Office, study: Path, mechanism: str, more: str) -> None:
    study.write_text(f'mechanism = "{mechanism}"\n{more}{STUDY}')
    planned = json.loads(run("plan", str(study), *ONE, "--json").stdout)
    made = run("release", "create", str(study), "--json")
    assert made.exit_code == 0, made.output
    proposed = json.loads(made.stdout)
    assert (", weights glucose = 2" in proposed["shape"]) == ("weights" in more)
    with office.store.reading() as tx:
        spec: ReleaseSpec = tx.releases.get(proposed["digest"]).read_spec()
    charged = {name: Fraction(text) for name, text in way(planned, mechanism)["charged_mu2"].items()}
    assert charged == {part.party: part.mu2 for part in guarantee(spec).parties}
    assert planned["rows"] == spec.rows
    assert planned["weights"] == spec.weights == ({"glucose": 2} if "weights" in more else {})
    if isinstance(spec.terms, MixedTerms):
        assert way(planned, "mixed")["terms"]["k"] == spec.terms.mixing.outputs


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('ranges = "EMPTY"', "holds no release"),
        ('ranges = "first"\noutcome_weight = { sex = 1.7 }', "outcome_weight: sex is not a private number"),
        ("curious = 2", "curious: it is called collusion_threshold now"),
        ("collusion_threshold = 2", "collusion_threshold must lie between 1 and 1 with 2 parties, not 2"),
        ('dealer = "rotating"', "a rotating dealer needs three parties or more"),
    ],
)
def test_what_a_proposal_refuses_of_ranges_and_dealers_a_plan_refuses_in_the_same_words(
    office: Office, study: Path, tmp_path: Path, keys: str, message: str
) -> None:
    study.write_text('mechanism = "moments"\n' + keys.replace("EMPTY", str(tmp_path)) + STUDY)
    planned, proposed = run("plan", str(study)), run("release", "create", str(study))
    assert message in planned.stderr
    assert (planned.exit_code, planned.stderr) == (proposed.exit_code, proposed.stderr)


def test_a_plan_of_tables_says_what_each_column_costs_and_what_noise_hides(office: Office, study: Path) -> None:
    """Delta is 1 and 1 for each column, so without one of five it is 5 instead of 6; the event makes hazard ratios exact."""
    exits = Exits((1.0, 2.0, 5.0)).levels
    own: dict[str, tuple[Column, ...]] = {
        "north": (
            CategoricalColumn(
                name="exit", levels=exits, exhaustive=True, fill=exits[-1], derivation="exit by t and died at 1, 2, 5"
            ),
            CategoricalColumn(name="event", levels=("yes",), derivation='died = "1"'),
            AGE,
        ),
        "south": (
            CategoricalColumn(name="treated", levels=("yes",)),
            CategoricalColumn(name="stage", levels=("I", "II")),
        ),
    }
    with office.store.writing() as tx:
        for party, columns in own.items():
            tx.members.report_catalogue(catalogue(party, columns=columns), datetime.now(UTC))
    ask = 'mechanism = "moments"\nranges = "none"\n' + STUDY.replace('["glucose"]', '"*"')
    study.write_text(ask)
    planned = json.loads(run("plan", str(study), *ONE, "--json").stdout)
    columns = {each["column"]: each for each in planned["columns"]}
    assert [each["kind"] for each in columns.values()] == ["category", "binary", "number", "binary", "category"]
    assert [each["raises"] for each in columns.values()] == pytest.approx([1 / 5] * 5, rel=1e-3)
    cells = {each["cell"]: each["noise_sd"] for each in planned["cells"]}
    noise = way(planned, "moments")["noise_sd"] * 1000
    assert cells == pytest.approx(
        {
            "level of a category": noise,
            "value of a binary": noise / 2,
            "category by category": noise,
            "category by binary": noise * math.sqrt(1 / 2),
            "binary by binary": noise * math.sqrt(3) / 4,
        }
    )
    assert planned["cells"][0]["hidden"] == pytest.approx(2 * noise / 1000)
    shown = " ".join(run("plan", str(study), *ONE).stdout.split())
    assert f"There are {1000 / noise:.3g} patients for each patient of noise" in shown
    assert "lost 13% to 52% of how far their AUC is from 1/2" in shown
    ratios = planned["hazard ratio by exit"]
    expected = [log_hazard_ratio_sd((1.0, 2.0, 5.0), share, 1000, noise, event=True) for share in EVENTS]
    assert [each["sd"] for each in ratios] == pytest.approx(expected)
    study.write_text(ask.replace('north = "*"', 'north = ["exit"]'))
    assert "Declare the event of exit as a binary beside it" in run("plan", str(study), *ONE).stdout
    for outcomes, event in (('["exit", "event"]', False), ('["exit"]', True)):
        study.write_text(f"outcomes = {outcomes}\n{ask}")
        made = run("plan", str(study), "--target", "exit", "--json")
        assert made.exit_code == 0, made.output
        apart = json.loads(made.stdout)
        noise = apart["cells"][0]["noise_sd"]
        expected = [log_hazard_ratio_sd((1.0, 2.0, 5.0), share, 1000, noise, event=event) for share in EVENTS]
        assert [each["sd"] for each in apart["hazard ratio by exit"]] == pytest.approx(expected)
    study.write_text(ask.replace('"none"', '"first"'))
    in_ranges = json.loads(run("plan", str(study), *ONE, "--json").stdout)
    assert not {"cells", "columns", "hazard ratio by exit"} & in_ranges.keys()
    assert IN_RANGES in in_ranges["notes"]
    assert IN_RANGES not in planned["notes"]


def test_what_the_request_says_is_taken(office: Office, study: Path) -> None:
    study.write_text(STUDY.replace("1e-6", '1e-6\nk = 50\nrho = "1/7"'))
    planned = json.loads(run("plan", str(study), *ONE, "--json").stdout)
    assert way(planned, "mixed")["terms"] == {"k": 50, "rho": "1/7"}
    study.write_text(STUDY.replace("1e-6", '1e-6\nscope = "per-party"'))
    assert json.loads(run("plan", str(study), *ONE, "--json").stdout)["target"]["scope"] == "per-party"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a REQUEST; `learner plan` takes the numbers of a release as options"),
        (("STUDY", "--target", "weight"), "no such column: weight"),
        (("STUDY", "--features", "weight"), "no such column: weight"),
        (("missing.toml",), "cannot read missing.toml"),
    ],
)
def test_plans_that_make_no_sense(office: Office, study: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("plan", *(str(study) if argument == "STUDY" else argument for argument in arguments))
    assert result.exit_code == 2, result.output
    assert message in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('north = "*"', 'east = "*"', "east"),
        ("glucose", "weight", "does not offer weight"),
        ("epsilon = 1.0", "epsilon = -1.0", "epsilon must be positive"),
    ],
)
def test_requests_that_make_no_sense(office: Office, study: Path, old: str, new: str, message: str) -> None:
    study.write_text(STUDY.replace(old, new))
    result = run("plan", str(study))
    assert result.exit_code == 2
    assert message in result.stderr


def test_outcomes_are_no_features_of_the_plan(office: Office, study: Path) -> None:
    study.write_text('mechanism = "moments"\noutcomes = ["age"]\n' + STUDY)
    planned = json.loads(run("plan", str(study), *ONE, "--json").stdout)
    assert (planned["outcome"], planned["features"], planned["outcomes_only"]) == ("age", ["sex", "glucose"], ["age"])
    assert "in moments 1 column for outcomes only" in run("plan", str(study)).stdout
    refused = run("plan", str(study), "--target", "glucose", "--features", "age")
    assert "age cannot be a feature: the release names it as an outcome" in refused.output
    study.write_text('outcomes = ["age"]\n' + STUDY)
    assert "outcomes belongs to mechanism 'moments'; mechanism 'mixed' has none" in run("plan", str(study)).output


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_stream_is_planned_beside_releases_that_stand_alone(office: Office, study: Path, of: str) -> None:
    """At the price of one release of its kind, and with more noise."""
    grow(office, 1)
    study.write_text(f'mechanism = "stream"\nof = "{of}"\ncheckpoints = 12\n' + STUDY)
    planned = json.loads(run("plan", str(study), "--json").stdout)
    released = {each["mechanism"]: each for each in planned["releases"]}
    assert {"mixed", "rows", "moments", "stream"} <= released.keys()
    priced = [
        {party: float(Fraction(mu2)) for party, mu2 in released[name]["charged_mu2"].items()} for name in (of, "stream")
    ]
    assert priced[1] == pytest.approx(priced[0], rel=1e-9)
    r2 = {each["mechanism"]: each["expected_r2"] for each in planned["forecasts"]}
    assert r2["stream"] <= r2[of]
    shown = " ".join(run("plan", str(study)).stdout.split())
    assert "stream" in shown
    made = run("release", "create", str(study), "--json")
    assert made.exit_code == 0, made.output
    with office.store.reading() as tx:
        spec: ReleaseSpec = tx.releases.get(json.loads(made.stdout)["digest"]).read_spec()
    charged = {name: float(Fraction(text)) for name, text in released["stream"]["charged_mu2"].items()}
    assert charged == pytest.approx({part.party: float(part.mu2) for part in guarantee(spec).parties}, rel=1e-9)
    cells = {each["cell"]: each["noise_sd"] for each in planned.get("cells", ())}
    assert bool(cells) == (of == "moments")
    if cells:
        level = cells["level of a category"]
        assert level == pytest.approx(released["stream"]["noise_sd"] * spec.rows)
        assert (
            f"stream: the number of patients of a level is published with a standard deviation of about {level:.2g}"
            in shown
        )


@pytest.mark.parametrize("of", ["mixed", "moments"])
def test_a_stream_s_first_checkpoint_has_a_dry_run(office: Office, study: Path, of: str) -> None:
    grow(office, 1)
    study.write_text(f'mechanism = "stream"\nof = "{of}"\ncheckpoints = 3\n' + STUDY)
    done = run("release", "create", str(study), "--dry-run")
    assert done.exit_code == 0, done.output
    assert "checkpoint 1 of 3" in done.stdout

"""What the hospital sees: the numbers of the guarantee, and foreign words as plain words."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.about import About
from dprelease.data.columns import Column
from dprelease.document.text import text
from dprelease.errors import InvalidInput
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import epsilon_figure, how_many
from dprelease.release.accounting import guarantee
from dprelease.release.spec import ReleaseSpec
from party_node.cli.review import MORE, _published, card
from party_node.state.journal import Record, Status
from tests.party_node.known import KEYS, KNOWN
from tests.party_node.world import CAP, ROWS, World
from tests.support.specs import TWO_PARTIES, build_spec, numeric

HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]Age[/red] [/nothing] :smile: \u202eesrever"


def test_the_card_says_what_would_be_published_and_what_it_costs(careful: World) -> None:
    spec = careful.spec()
    release = careful.coordinator.propose(spec)
    careful.north.cycle()
    shown = json.loads(careful.north.run("review", "show", release, "--json").stdout)
    given = guarantee(spec)
    assert shown["would_publish"] == (
        f"8 noisy random mixtures of all {ROWS} patients and one row of column sums, 3 columns"
    )
    assert shown["own_columns"] == [
        "age: 0 to 120 years; a missing cell is read as 60",
        "sex: one of female, male or other; a missing cell is read as other",
    ]
    assert shown["hospitals"] == {"north": ["age", "sex=female", "sex=male", "sex=other"], "south": ["glucose"]}
    assert shown["this_release"] == {"epsilon": given.joint_epsilon, "delta": spec.target.delta}
    assert shown["own_epsilon"] == given.party("north").epsilon
    assert shown["epsilon_of_others_against_us"] == given.against({"north"})
    cost = given.party("north").mu2
    assert shown["costs"]["mu2"] == shown["taken_from_your_budget"]["mu2"] == shown["spent_after"]["mu2"] == str(cost)
    assert (shown["spent_before"]["mu2"], shown["left_after_it"]["mu2"]) == ("0", str(CAP - cost))
    assert shown["spent_after"]["epsilon"] == pytest.approx(given.party("north").epsilon)
    assert shown["guarantee"] == list(given.words())
    assert (shown["to_do_here_first"], shown["status"], shown["decide_before"]) == ([], "waiting", spec.expires)


def test_the_card_says_whose_noise_is_smaller(careful: World) -> None:
    for weights in ({}, {"glucose": 2, "age": 3}):
        spec = build_spec(keys=KEYS, weights=weights)
        record = Record(spec.digest(), spec, Status.WAITING, "", spec.created, spec.created, None, None, None)
        shown = card(KNOWN.assess(spec), record).to_json()
        assert shown["weighted_columns"] == [
            f"{name}: noise {weights[name]} times smaller, at the cost of the other columns"
            for name in ("age", "glucose")
            if name in weights
        ]


def test_the_card_says_what_the_release_says_of_itself(careful: World) -> None:
    told = {"description": "A cohort", "licence": "CC0-1.0", "creators": [{"name": "A test"}]}
    meant = {"columns": {"age": {"label": "Age at entry"}}, "budget": 30.0}
    declared = "epsilon = 30 for all releases of the same patients, as the consortium declares"
    more = {"about_columns": ["age: Age at entry"], "about_budget": declared}
    for said, wanted in (({}, {}), (meant, more)):
        spec = build_spec(keys=KEYS, about=About.model_validate({**told, **said}))
        record = Record(spec.digest(), spec, Status.WAITING, "", spec.created, spec.created, None, None, None)
        shown = card(KNOWN.assess(spec), record).to_json()
        about = {name: value for name, value in shown.items() if name.startswith("about_")}
        least = {"about_description": "A cohort", "about_licence": "CC0-1.0", "about_creators": "A test"}
        assert about == {**least, **wanted}


def test_a_card_counts_its_own_cost_once(careful: World) -> None:
    release = careful.coordinator.propose(careful.spec())
    careful.north.cycle()
    before = json.loads(careful.north.run("review", "show", release, "--json").stdout)
    careful.north.run("review", "approve", release, "--yes")
    careful.north.cycle()
    hospital_state = careful.north.hospital_state()
    assert hospital_state.ledger.stage(hospital_state.settings.roster, release) == "reserve"
    after = json.loads(careful.north.run("review", "show", release, "--json").stdout)
    for amount in ("cap", "spent_before", "spent_after", "left_after_it"):
        assert after[amount] == before[amount]


def published(spec: ReleaseSpec) -> str:
    return _published(spec, mechanism_of(spec).statements(spec))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": "rows"}, "40 noisy rows of 3 columns, one for each patient, in keyed order"),
        (
            {"rows": 60, "outputs": 3, "mixing": "buckets"},
            "3 noisy sums with random signs, of at least 20 patients each and one row of column sums, 3 columns",
        ),
        (
            {"rows": 300, "outputs": 3, "mixing": "buckets", "rows_per_subject": 4},
            "3 noisy sums with random signs, of at least 25 patients each and one row of column sums, 3 columns",
        ),
        ({"anchor_weight": "0"}, "8 noisy random mixtures of all 40 patients, 3 columns"),
    ],
)
def test_every_kind_of_release_is_told_in_its_own_words(changes: dict[str, str], words: str) -> None:
    assert published(build_spec(**changes)) == words  # type: ignore[arg-type]


OPEN: dict[str, tuple[Column, ...]] = {
    "north": (numeric("age", public=True), numeric("bmi", public=True)),
    "south": (numeric("glucose"),),
}
MASKED = "computed by 2 hospitals on masked columns; no product of two outcomes, no"


@pytest.mark.parametrize(
    ("parties", "outcomes", "words"),
    [
        (
            TWO_PARTIES,
            ("glucose",),
            "14 noisy sums over all 40 patients: means and products of 2 features, means and squares of 1 outcomes and "
            f"their products with the 2 features, {MASKED} row of anybody's",
        ),
        (
            TWO_PARTIES,
            ("sex",),
            "14 noisy sums over all 40 patients: means and products of 2 features, means of 1 outcomes and their products "
            f"with the 2 features, {MASKED} row of anybody's",
        ),
        (
            OPEN,
            ("glucose",),
            "4 noisy sums over all 40 patients: means and squares of 1 outcomes and their products with the 2 features, "
            f"{MASKED} private row of anybody's; and, exactly, all 40 rows of 2 public columns",
        ),
    ],
)
def test_a_release_with_outcomes_is_told_by_its_parts(
    parties: dict[str, tuple[Column, ...]], outcomes: tuple[str, ...], words: str
) -> None:
    label = "label-DP" if parties is OPEN else None
    assert published(build_spec(parties, mechanism="moments", outcomes=outcomes, guarantee=label)) == words


def test_the_card_names_the_outcomes_and_the_noise_of_every_part() -> None:
    for outcomes in ((), ("glucose",)):
        spec = build_spec(mechanism="moments", keys=KEYS, outcomes=outcomes)
        record = Record(spec.digest(), spec, Status.WAITING, "", spec.created, spec.created, None, None, None)
        shown = card(KNOWN.assess(spec), record).to_json()
        assert shown["outcome_columns"] == list(outcomes)
        moments = spec.terms
        assert moments is not None
        sex = float(f"{moments.scale * 2**0.5 / 4**10:.2g}")
        level = f"the number of patients of a level is published with a standard deviation of about {sex:g}"
        if not outcomes:
            assert shown["details"] == [level]
            continue
        assert moments.association is not None
        scales = (moments.scale, moments.association.scale, moments.association.square_scale)
        sds = [f"noise sd {scale * 2**0.5 / 4**10:.4g} patients" for scale in scales]
        assert shown["details"] == [
            f"products of two features: {sds[0]}",
            f"products of a feature and an outcome: {sds[1]}",
            f"squares of outcomes: {sds[2]}",
            f"split of mu^2: q = {float(Fraction(moments.association.split)):.3g}",
            level,
        ]


def test_the_printed_card_has_one_epsilon_one_price_and_what_is_left() -> None:
    spec = build_spec(mechanism="moments", keys=KEYS)
    record = Record(spec.digest(), spec, Status.WAITING, "", spec.created, spec.created, None, None, None)
    found = KNOWN.assess(spec)
    asking = replace(found, blockers=(), repeats=(), review_reasons=("it asks for trust",))
    said = text(card(asking, record))
    assert [label in said for label in ("pays again", "to do here first", "needs a person because")] == [
        False,
        False,
        True,
    ]
    assert len(re.findall("epsilon", said)) == 3
    for what in ("this release", "taken from your budget", "left after it"):
        assert len(re.findall(rf"^{what} +epsilon", said, re.MULTILINE)) == 1
    assert said.endswith(MORE)
    whole = text(card(replace(found, blockers=("pin",), repeats=("you would",)), record), explain=True)
    assert all(f"\n{row}" in whole for row in ("pays again", "to do here first", "own epsilon", "Guarantee", "Trust"))


def printed(world: World, release: str) -> list[str]:
    commands = [
        ("review", "list"),
        ("review", "show", release),
        ("review", "approve", release, "--yes"),
        ("ledger", "show"),
    ]
    shown = []
    for command in commands:
        result = world.north.run(*command)
        assert result.exit_code == 0, result.output
        shown.append(result.stdout)
        world.north.cycle()
    return shown


def test_a_hostile_title_is_printed_and_nothing_else(careful: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    release = careful.propose(HOSTILE)
    careful.north.cycle()
    for output in printed(careful, release):
        assert "\x1b" not in output
        assert "\x07" not in output
        assert "\u202e" not in output
        assert r"\x1b[2J\x1b]0;owned\x07[red]Age[/red] [/nothing] :smile: \u202eesrever" in output


def test_a_hostile_explanation_is_printed_and_logged_as_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    release = world.propose()
    world.north.cycle()
    world.coordinator.move(release, "CANCELLED", "gone\n2026-01-01 INFO all is well \x1b[2J")
    world.north.cycle()
    assert world.north.record(release).note == "cancelled: gone\\n2026-01-01 INFO all is well \\x1b[2J"
    assert all("\n" not in record.getMessage() and "\x1b" not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("delta", ["0", "1", "-1", "nan"])
def test_epsilon_needs_a_delta_between_nought_and_one(world: World, delta: str) -> None:
    result = world.north.run("ledger", "show", "--delta", delta)
    assert (result.exit_code, result.stderr[:6]) == (2, "error:")
    with pytest.raises(InvalidInput):
        world.north.hospital_state().ledger.balance("cohort").epsilon(float(delta))


def test_the_ledger_for_people_shows_entries_and_balance(world: World) -> None:
    spec = world.spec()
    release = world.coordinator.propose(spec)
    world.north.cycle()
    shown = " ".join(world.north.run("ledger", "show", "--delta", "1e-5").stdout.split())
    assert release[:12] in shown
    assert "age and glucose" in shown
    assert f"epsilon = {epsilon_figure(guarantee(spec).party('north').epsilon)} at delta = 1e-05" in shown
    balance = world.north.hospital_state().ledger.balance("cohort")
    more = how_many(balance.remaining, guarantee(spec).party("north").mu2)
    assert f"The rest is enough for {more} more like release {release[:12]}, the latest" in shown


def test_peers_and_checks_for_people(world: World) -> None:
    assert world.north.run("peers", "list").stdout == f"south {world.members['south'].fingerprint}\n"
    shown = world.north.run("check", "--offline").stdout
    assert shown.count("ok      ") == 11
    assert "PROBLEM" not in shown

"""Public columns at the hospital: the owner's act, for good, and every release judged by it before anything is charged.

The owner's acts against declarations that changed, identifiers, power cuts, and releases that are under way.

What public columns of ours make of a proposal, and what their owner is told of them.
"""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.data.bounding import BoundedRows, bound
from dprelease.data.columns import Column
from dprelease.errors import DataRefused, InvalidInput, SpecRefused
from dprelease.release.block import read_block
from dprelease.release.spec import ReleaseSpec
from party_node.cli.public import public
from party_node.settings import Policy, PolicyLimits
from party_node.source.public_columns import public_norm2
from tests.party_node.conftest import MakeWorld
from tests.party_node.joint_release import approved, deliver, joint_spec, kinds, released_exactly
from tests.party_node.known import KEYS, KNOWN, SPEC, Known
from tests.party_node.world import WITHIN_LIMITS, Hospital, World
from tests.support.specs import TWO_PARTIES, build_spec, numeric, with_terms

WITH_PUBLIC = WITHIN_LIMITS + 'guarantees = ["DP", "feature-DP"]\n'
LEDGER = "state/ledger.sqlite"


@pytest.fixture
def open_world(make_world: MakeWorld) -> World:
    """Hospitals whose policy names feature-DP, and the south's only column is public."""
    world = make_world(WITH_PUBLIC)
    declare(world.south, "glucose")
    return world


def declare(hospital: Hospital, *names: str) -> None:
    result = hospital.run("public", "declare", *names, "--irrevocable")
    assert result.exit_code == 0, result.output


def weigh(hospital: Hospital) -> None:
    """One more column in the source."""
    header, *lines = hospital.source.read_text().splitlines()
    hospital.source.write_text("\n".join([f"{header},weight", *(f"{line},70" for line in lines)]) + "\n")


def acts(hospital: Hospital) -> list[str]:
    return [
        json.loads(entry.detail)["title"]
        for entry in hospital.hospital_state().ledger.entries()
        if entry.kind == "public"
    ]


# The act.


def test_the_owner_types_the_name_after_reading_what_it_means(world: World) -> None:
    result = world.north.run("public", "declare", "age", stdin="age\n")
    assert result.exit_code == 0
    for words in (
        "cannot be taken back",
        "which noisy row goes with which values",
        "Under another roster's name the same patients' column counts as private again",
        "outside the guarantee",
        "inferred from it",
        "age: 0 to 120 years",
        "age is public",
    ):
        assert words in result.output
    assert acts(world.north) == ["column age is public"]
    assert world.north.hospital_state().ledger.verify()
    assert [column.public for column in world.north.hospital_state().columns()] == [True, False]


@pytest.mark.parametrize("typed", ["yes\n", "Age\n", "\n\nag\n", ""])
def test_anything_else_declares_nothing(world: World, typed: str) -> None:
    assert world.north.run("public", "declare", "age", stdin=typed).exit_code != 0
    assert acts(world.north) == []


def test_one_wrong_name_among_several_declares_nothing(world: World) -> None:
    assert world.north.run("public", "declare", "age", "sex", stdin="age\nno\n").exit_code != 0
    result = world.north.run("public", "declare", "age", "weight", "--irrevocable")
    assert "no column weight is declared in party.toml" in result.output
    assert acts(world.north) == []


def test_declaring_again_changes_nothing_and_what_is_public_is_listed(world: World) -> None:
    assert world.north.run("public", "list").output == "no column is public\n"
    declare(world.north, "age")
    assert "age was public already" in world.north.run("public", "declare", "age", "--irrevocable").output
    assert acts(world.north) == ["column age is public"]
    (line,) = json.loads(world.north.run("public", "list", "--json").stdout)
    assert (line["column"], line["source"], line["superseded"]) == ("age", "age", False)
    assert "PUBLIC" in world.north.run("public", "list").output
    assert "column age is public" in world.north.run("ledger", "show").output
    assert world.north.hospital_state().ledger.balance("cohort").held == 0


def test_the_act_cannot_be_taken_back(world: World) -> None:
    declare(world.north, "age")
    with closing(sqlite3.connect(world.north.folder / LEDGER)) as db:
        for change in ("UPDATE entries SET kind = 'open'", "DELETE FROM entries WHERE kind = 'public'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                db.execute(change)
    assert public.commands.keys() == {"declare", "list", "norm"}


def test_party_toml_alone_makes_nothing_public(world: World) -> None:
    world.north.edit("^upper = 120", "upper = 120\npublic = true")
    result = world.north.run("check", "--offline")
    assert "party-node public declare age" in result.output


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^upper = 120", "upper = 130"), (r"^\[columns.age\]", '[columns.age]\nfrom = "weight"')],
    ids=["bounds", "source"],
)
def test_an_act_covers_the_declaration_that_the_owner_saw(world: World, pattern: str, text: str) -> None:
    weigh(world.north)
    declare(world.north, "age")
    world.north.edit(pattern, text)
    checked = world.north.run("check", "--offline", "--json")
    assert "party-node public declare age" in checked.stdout
    declare(world.north, "age")
    assert acts(world.north) == ["column age is public"] * 2
    assert [column.public for column in world.north.hospital_state().columns()] == [True, False]


def test_a_public_column_is_not_private_under_another_name(world: World) -> None:
    declare(world.north, "age")
    world.north.edit(
        r"^\[columns.sex\]", '[columns.years]\nkind = "numeric"\nlower = 0\nupper = 99\nfrom = "age"\n[columns.sex]'
    )
    assert (
        "years reads age, which is public under another name" in world.north.run("check", "--offline", "--json").stdout
    )
    declare(world.north, "years")
    assert [column.public for column in world.north.hospital_state().columns()] == [True, True, False]


def test_a_column_of_the_source_stays_public_whatever_name_it_had(world: World) -> None:
    weigh(world.north)
    declare(world.north, "age")
    world.north.edit(r"^\[columns.age\]", '[columns.age]\nfrom = "weight"')
    declare(world.north, "age")
    world.north.edit(r"^\[columns.sex\]", '[columns.sex]\nfrom = "age"')
    assert "sex reads age, which is public under another name" in world.north.run("check", "--offline", "--json").stdout


# Decisions.


def public_age(label: str = "feature-DP", mechanism: str = "mixed") -> ReleaseSpec:
    north = tuple(column.model_copy(update={"public": column.name == "age"}) for column in TWO_PARTIES["north"])
    spec = build_spec({**TWO_PARTIES, "north": north}, keys=KEYS, guarantee=label, mechanism=mechanism)
    return with_terms(spec, range_proofs=True) if mechanism == "moments" else spec


def knowing(spec: ReleaseSpec, policy: Policy) -> Known:
    columns: tuple[Column, ...] = spec.parties[0].columns
    return replace(KNOWN, own=KNOWN.own.model_copy(update={"columns": columns}), policy=policy)


def test_a_column_that_was_never_declared_public_is_not_published() -> None:
    with pytest.raises(SpecRefused, match="age was never declared public here"):
        KNOWN.assess(public_age())


def test_a_public_column_is_not_released_as_private() -> None:
    known = knowing(public_age(), KNOWN.policy)
    with pytest.raises(SpecRefused, match="claims a privacy that it does not have"):
        known.assess(SPEC)


@pytest.mark.parametrize("mechanism", ["mixed", "moments"])
@pytest.mark.parametrize("label", ["feature-DP", "label-DP", "mixed"])
def test_a_policy_approves_public_columns_only_by_name(label: str, mechanism: str) -> None:
    spec = public_age(label, mechanism)
    mechanisms = ("mixed", "moments")
    person = knowing(spec, Policy(auto_approve=PolicyLimits(mechanisms=mechanisms))).assess(spec)
    assert any(f"name {label} in auto_approve's guarantees" in reason for reason in person.review_reasons)
    named = PolicyLimits(guarantees=("DP", label), mechanisms=mechanisms)  # type: ignore[arg-type]
    assert knowing(spec, Policy(auto_approve=named)).assess(spec).automatic
    other = PolicyLimits(guarantees=("DP",), mechanisms=mechanisms)
    assert not knowing(spec, Policy(auto_approve=other)).assess(spec).automatic


def test_another_hospitals_public_columns_need_a_person_too() -> None:
    spec = build_spec({**TWO_PARTIES, "south": (numeric("glucose", public=True),)}, keys=KEYS)
    assert not KNOWN.assess(spec).automatic


# The daemon.


def test_the_coordinator_hears_of_a_column_that_became_public(world: World) -> None:
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        for _ in range(2):
            daemon.cycle(coordinator)
        assert len(world.coordinator.heard("ReportCatalogue")) == 1
        declare(world.north, "age")
        for _ in range(2):
            daemon.cycle(coordinator)
    first, second = world.coordinator.heard("ReportCatalogue")
    assert b'"public":true' not in first
    assert b'"public":true' in second


def test_a_release_with_public_columns_goes_the_whole_way(open_world: World) -> None:
    spec = open_world.spec()
    release = open_world.coordinator.propose(spec)
    for _ in range(2):
        for hospital in (open_world.north, open_world.south):
            hospital.cycle()
    north, south = open_world.north, open_world.south
    assert south.status(release) == "delivered"
    assert south.ledger_kinds(release) == ["reserve", "charge", "send"]
    assert south.hospital_state().ledger.balance("cohort").charged == 0
    assert south.noise.draws == []
    assert north.hospital_state().ledger.balance("cohort").charged > 0
    block = read_block(open_world.block(release, "south"), spec, "south")
    assert block.values.shape == (9, 0)
    assert np.array_equal(block.public, south.hospital_state().table(spec).bounded.codes)


def test_joint_moments_with_public_columns_go_the_whole_way(open_world: World) -> None:
    spec = joint_spec(open_world)
    release = open_world.coordinator.propose(spec)
    deliver(open_world)
    assert open_world.south.status(release) == open_world.north.status(release) == "delivered"
    assert released_exactly(open_world, release)
    assert open_world.south.hospital_state().ledger.balance("cohort").charged == 0
    block = read_block(open_world.block(release, "south"), spec, "south")
    assert np.array_equal(block.public, open_world.south.hospital_state().table(spec).bounded.codes)
    assert open_world.north.hospital_state().ledger.balance("cohort").charged == Fraction(
        open_world.north.hospital_state().assess(spec).guarantee.joint_mu2
    )


def test_the_review_card_says_what_is_public(open_world: World) -> None:
    release = open_world.propose()
    open_world.north.cycle()
    shown = json.loads(open_world.north.run("review", "show", release, "--json").stdout)
    assert shown["public_columns"] == ["glucose"]
    assert shown["would_publish"].endswith("2 columns; and, exactly, all 40 rows of 1 public column")
    assert any("This is feature-DP" in sentence for sentence in shown["guarantee"])


@pytest.mark.parametrize("joint", [False, True], ids=["mixed", "moments"])
def test_what_does_not_fit_the_owners_act_is_declined_and_costs_nothing(make_world: MakeWorld, joint: bool) -> None:
    world = make_world(WITH_PUBLIC)
    honest = joint_spec(world) if joint else world.spec()
    declare(world.north, "age")
    north, south = honest.parties
    everything = tuple(column.model_copy(update={"public": True}) for column in north.columns)
    changes = {"guarantee": "feature-DP", "parties": (north.model_copy(update={"columns": everything}), south)}
    undeclared = honest.model_copy(update=changes)
    for number, spec in enumerate((honest, undeclared)):
        release = world.coordinator.propose(spec.model_copy(update={"title": f"title {number}"}))
        world.north.cycle(2)
        assert world.north.status(release) == "declined"
        assert world.north.ledger_kinds(release) == []
        assert world.coordinator.heard("Approve") == []
    assert world.north.noise.draws == []


def test_a_column_that_becomes_public_after_the_approval_ends_the_release(world: World) -> None:
    release = world.approved()
    declare(world.north, "sex")
    world.north.cycle()
    assert world.north.status(release) == "declined"
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert world.north.noise.draws == []


CHANGES = {
    "bounds": ("age", r"^upper = 120", "upper = 130"),
    "levels": ("sex", r'^levels = \["female", "male"\]', 'levels = ["male", "female"]'),
}


@pytest.fixture
def open_north(make_world: MakeWorld) -> World:
    """Hospitals whose policy names feature-DP, and the north's columns are public."""
    world = make_world(WITH_PUBLIC)
    declare(world.north, "age", "sex")
    return world


def redeclare(hospital: Hospital, change: str) -> str:
    """Change a declaration and declare it public anew; which column it was."""
    column, pattern, text = CHANGES[change]
    hospital.edit(pattern, text)
    declare(hospital, column)
    return column


@pytest.mark.parametrize("change", CHANGES)
def test_a_stale_declaration_is_not_published(open_north: World, change: str) -> None:
    """A release over bounds or levels that another act has superseded."""
    stale = open_north.spec()
    assert open_north.north.hospital_state().table(stale).bounded.digest()
    column = redeclare(open_north.north, change)
    hospital_state = open_north.north.hospital_state()  # the catalogue on its disk is of before
    with pytest.raises(SpecRefused, match=f"{column} was never declared public here"):
        hospital_state.assess(stale)
    with pytest.raises(DataRefused, match=f"{column} was not declared public as the release says"):
        hospital_state.table(stale)


def test_a_stale_declaration_that_was_approved_is_withdrawn_before_any_charge(open_north: World) -> None:
    release = open_north.propose()
    open_north.north.cycle()
    open_north.south_approves(release)
    assert open_north.north.status(release) == "approved"
    redeclare(open_north.north, "bounds")
    open_north.north.cycle()
    assert open_north.north.status(release) == "declined"
    assert open_north.north.ledger_kinds(release) == ["reserve", "refund"]


def test_a_column_that_becomes_public_between_two_looks_ends_a_joint_release(world: World) -> None:
    """Approved rows are on disk from then on; what became public is seen all the same, before the charge."""
    release = approved(world)
    daemon = world.north.daemon()
    with world.north.dialled() as coordinator:
        daemon.cycle(coordinator)
        assert kinds(world, release) == ["hello"]
        declare(world.north, "sex")
        for _ in range(4):
            world.south.cycle()
            daemon.cycle(coordinator)
    assert world.north.status(release) == "declined"
    assert world.north.ledger_kinds(release) == ["reserve", "refund"]
    assert kinds(world, release) == ["hello"]
    assert world.north.noise.draws == []


def test_several_columns_are_declared_at_once_or_not_at_all(world: World) -> None:
    with closing(sqlite3.connect(world.north.folder / LEDGER)) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON entries WHEN NEW.detail LIKE '%column sex%' "
            "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        db.commit()
    assert world.north.run("public", "declare", "age", "sex", "--irrevocable").exit_code != 0
    assert acts(world.north) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\[columns.age\]", '[columns.age]\nfrom = "patient"'),
        (r'^subject = "patient"', 'subject = "patient"\nrecord = "age"'),
    ],
    ids=["subject", "record"],
)
def test_an_identifier_cannot_be_public(world: World, pattern: str, text: str) -> None:
    world.north.edit(pattern, text)
    result = world.north.run("public", "declare", "age", "--irrevocable")
    assert result.exit_code != 0
    assert "identifies patients or their rows; it cannot be public" in result.output
    assert acts(world.north) == []


def test_every_act_is_listed_and_superseded_ones_are_marked(open_north: World) -> None:
    redeclare(open_north.north, "bounds")
    lines = json.loads(open_north.north.run("public", "list", "--json").stdout)
    assert [(line["column"], line["superseded"]) for line in lines] == [("age", True), ("sex", False), ("age", False)]
    text = open_north.north.run("public", "list").output.splitlines()
    assert [("superseded" in line, "0 to 120" in line, "0 to 130" in line) for line in text] == [
        (True, True, False),
        (False, False, False),
        (False, False, True),
    ]


N = 60
BITS = 10


def test_it_is_declined_before_anything_is_reserved(make_world: MakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(WITHIN_LIMITS + 'guarantees = ["DP", "label-DP"]\n')
    declare(world.north, "age", "sex")
    for hospital in (world.north, world.south):
        hospital.cycle()
    spec = joint_spec(world, "north", "south", outcomes=("glucose",), guarantee="label-DP")
    release = world.coordinator.propose(spec)
    world.north.cycle(2)
    assert world.north.status(release) == "declined"
    assert world.north.ledger_kinds(release) == []
    assert "follow from the others and the constant: sex=other" in caplog.text  # nobody's sex is another
    assert "sex" not in world.north.record(release).note


def test_the_norm_is_of_public_columns_and_a_little_more_than_it_is() -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(-512, 512, (2, N)) / 1024
    columns = numeric("a", public=True), numeric("b", public=True), numeric("y")
    raw = {"a": a, "b": b, "y": random.uniform(-1, 1, N)}
    bounded, longest = BoundedRows(bound(raw, columns, BITS), columns, BITS), float((a**2 + b**2).max())
    assert longest < public_norm2(bounded, ("a", "b")) < longest + 0.01
    assert public_norm2(bounded, ("a",)) < public_norm2(bounded, ("a", "b"))
    with pytest.raises(InvalidInput, match="y is not public here"):
        public_norm2(bounded, ("a", "y"))


def test_the_owner_is_told_its_norm(make_world: MakeWorld) -> None:
    world = make_world(WITHIN_LIMITS)
    declare(world.north, "age")
    told = json.loads(world.north.run("public", "norm", "age", "--json").stdout)
    assert 0 < told["outcome_norm2"] <= told["bounds_allow"] == 1
    assert f"outcome_norm2 = {told['outcome_norm2']}" in world.north.run("public", "norm", "age").output
    assert "sex is not public here" in world.north.run("public", "norm", "sex").output

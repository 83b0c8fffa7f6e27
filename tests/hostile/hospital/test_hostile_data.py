"""Broken tables: the other side hears one constant sentence, or exactly what it hears of a sound table."""

import logging
import re
from collections.abc import Callable

import pytest

from dprelease.errors import DataRefused, InvalidInput
from dprelease.wire.v1 import coordination_pb2
from tests.hostile.faults import Fault, Kind, each
from tests.hostile.hospital.honest import check_delivered, check_untouched, honest_release
from tests.party_node.world import Hospital, World

Change = Callable[[Hospital], None]


def cell(column: int, text: str) -> Change:
    """One cell of one row is something else."""

    def change(north: Hospital) -> None:
        lines = north.source.read_text().splitlines()
        cells = lines[7].split(",")
        cells[column] = text
        lines[7] = ",".join(cells)
        north.source.write_text("\n".join(lines) + "\n")

    return change


def text(change: Callable[[list[str]], list[str]]) -> Change:
    """The lines of the file are others."""

    def act(north: Hospital) -> None:
        north.source.write_text("\n".join(change(north.source.read_text().splitlines())) + "\n")

    return act


def not_utf8(north: Hospital) -> None:
    north.source.write_bytes(north.source.read_bytes() + b"subject-0099,\xff,female\n")


AGE, SEX = 1, 2
FILLED = {
    "a cell is not a number (NaN)": (cell(AGE, "NaN"), "1 missing"),
    "a cell is infinite": (cell(AGE, "inf"), "1 unreadable"),
    "a number beyond all floats": (cell(AGE, "1e999"), "1 unreadable"),
    "a text where a number belongs": (cell(AGE, "forty-one"), "1 unreadable"),
    "an empty cell": (cell(AGE, ""), "1 missing"),
    "a number beyond the bounds": (cell(AGE, "-5"), "1 outside"),
    "an unknown level": (cell(SEX, "unheard of"), "1 outside"),
}
REFUSED = {
    "an empty file": text(lambda lines: []),
    "a file with a header alone": text(lambda lines: lines[:1]),
    "a doubled identifier": text(lambda lines: [*lines, lines[1]]),
    "a row without identifier": text(lambda lines: [*lines, ",50,female"]),
    "a missing column": text(lambda lines: [line.rsplit(",", 1)[0] for line in lines]),
    "a doubled column": text(lambda lines: [f"{line},{line.split(',')[1]}" for line in lines]),
    "a row with a cell too many": text(lambda lines: [*lines[:-1], f"{lines[-1]},extra"]),
    "an open quotation mark": text(lambda lines: [*lines[:-1], lines[-1].replace(",", ',"', 1)]),
    "bytes that are no UTF-8": not_utf8,
    "no file at all": lambda north: north.source.unlink(),
}


def no_longer_declared(north: Hospital) -> None:
    north.edit(r"^\[columns\.age\]$", "[columns.age_in_years]\nfrom = 'age'")


CHANGED = {
    "a cell that changed after approval": cell(AGE, "99.5"),
    "a patient who left after approval": text(lambda lines: lines[:-1]),
    "a patient who was exchanged after approval": text(
        lambda lines: [line.replace("subject-0003", "subject-9999") for line in lines]
    ),
    "a column that is no longer declared": no_longer_declared,
}
NOTICED = [*list(CHANGED.values())[1:], not_utf8, REFUSED["no file at all"]]
"""What changes a table also before it is signed; another cell alone is no change yet."""

LOST = "no noise, the budget comes back; once the table is mended releases go on"
FILL = [
    Fault(
        f"the table: {what}",
        "hospital",
        Kind.HARMLESS,
        None,
        "filled or clipped; counted by `party-node check` alone",
        act,
    )
    for what, (act, _) in FILLED.items()
]
BROKEN = [
    Fault(f"the table: {what}", "hospital", Kind.DECLINED, DataRefused, LOST, act)
    for what, act in (REFUSED | CHANGED).items()
]


def test_a_table_that_broke_after_approval_is_told_in_one_sentence(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for fault in BROKEN:
        check_told(world, fault)
    assert "subject-" not in caplog.text
    honest_release(world)


def check_told(world: World, fault: Fault) -> None:
    """One release that ends because of it, before the table is mended."""
    north, whole, declared = world.north, world.north.source.read_bytes(), world.north.config.read_bytes()
    release = world.propose(fault.what)
    north.cycle()
    world.south_approves(release)
    before = len(world.coordinator.received)
    fault.act(north)
    north.hospital_state().frozen(release).erase()  # or nothing would be read any more
    north.cycle(2)
    expected = coordination_pb2.DeclineRequest(
        digest=bytes.fromhex(release), reason="The party cannot take part."
    ).SerializeToString()
    changed = [(method, data) for method, data in world.coordinator.received[before:] if method != "ListReleases"]
    assert [data for method, data in changed if method == "Decline"] == [expected]
    # A table that reads, but holds other patients, is reported with its public facts; nothing else is said.
    assert {method for method, _ in changed} <= {"Decline", "ReportCatalogue"}
    assert fault.sentence == "The party cannot take part."
    check_untouched(north, release, ["reserve", "refund"])
    assert (north.status(release), world.coordinator.state(release)) == ("declined", "FAILED")
    if fault.what.removeprefix("the table: ") in REFUSED:
        assert changed == [("Decline", expected)]
        assert north.run("check", "--offline").exit_code == fault.exit_code
    north.source.write_bytes(whole)
    north.config.write_bytes(declared)
    north.cycle()  # reports the table that it has again


@pytest.mark.parametrize("change", NOTICED)
def test_a_table_that_broke_before_it_was_signed_is_not_approved(careful: World, change: Change) -> None:
    release, north = careful.propose(), careful.north
    north.cycle()
    north.hospital_state().accept(north.record(release))
    change(north)
    north.cycle()
    assert careful.coordinator.heard("Approve") == []
    assert north.ledger_kinds(release) == []
    assert north.status(release) == "declined"
    (told,) = careful.coordinator.heard("Decline")
    assert coordination_pb2.DeclineRequest.FromString(told).reason == "The party cannot take part."


def heard(world: World) -> list[tuple[str, bytes]]:
    """What crosses to the coordinator on the way to a decision, the release's own identity aside."""
    release = world.propose()
    world.north.cycle(2)
    approvals = [data for method, data in world.coordinator.received if method == "Approve"]
    assert len(approvals) == 1
    named = bytes.fromhex(release)
    others = [(method, data.replace(named, b"")) for method, data in world.coordinator.received if method != "Approve"]
    world.south_approves(release)
    world.north.cycle()
    check_delivered(world, release)
    return others


def test_an_unreadable_cell_shows_on_the_local_screen_alone(
    make_world: Callable[[str], World], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sound = heard(world)

    for fault in FILL:
        other = make_world("[policy.auto_approve]\n")
        fault.act(other.north)
        assert heard(other) == sound
        words = FILLED[fault.what.removeprefix("the table: ")][1]
        checked = other.north.run("check", "--offline")
        assert checked.exit_code == 0
        assert words in checked.output
        assert not re.search(r"\d (missing|unreadable|outside)", caplog.text)
        assert other.coordinator.heard("Decline") == []
        honest_release(other)


ORDER = Fault(
    "the table: rows in another order", "hospital", Kind.HARMLESS, None, "the same release: the order is keyed",
    text(lambda lines: [lines[0], *sorted(lines[1:])]),
)  # fmt: skip


@each([ORDER])
def test_rows_may_come_in_any_order(world: World, fault: Fault) -> None:
    release, north = world.approved(), world.north
    before = north.source.read_text()
    fault.act(north)
    assert north.source.read_text() != before
    north.cycle()
    check_delivered(world, release)


def edited(before: str, after: str) -> Change:
    return lambda north: north.edit(before, after)


BOUNDS = [
    Fault(
        f"party.toml: {what}",
        "hospital",
        Kind.LOCAL,
        InvalidInput,
        "nothing starts; a mended file goes on",
        edited(before, after),
    )
    for what, before, after in (
        ("bounds the wrong way round", "^lower = 0$", "lower = 121"),
        ("a bound that is not finite", "^lower = 0$", "lower = -inf"),
        ("a bound that is not a number", "^lower = 0$", "lower = nan"),
        ("a level twice", '"male"', '"female"'),
    )
]


@each(BOUNDS)
def test_declarations_that_cannot_be_are_refused_at_the_start(world: World, fault: Fault) -> None:
    north = world.north
    sound = north.config.read_text()
    fault.act(north)
    with fault.refused():
        north.hospital_state()
    for command in (("check", "--offline"), ("run",), ("review", "list")):
        ended = north.run(*command)
        assert ended.exit_code == fault.exit_code
        assert ended.stderr.startswith("error: ")
    assert world.coordinator.received == []
    north.config.write_text(sound)
    honest_release(world)


FAULTS = [*BROKEN, *FILL, ORDER, *BOUNDS]

"""What leaves of a table is opened by no hospital that holds the alignment key: every byte that office and hub hear."""

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
import pytest

from dprelease.catalogue import FEWEST_COMPARED
from party_node.source.alignment import ShownDigests, align, as_names, pseudonym
from tests.party_node.aligning import accepted, common, go, overlap
from tests.party_node.streams import MONTH, lines_of
from tests.party_node.world import ALIGNMENT_KEY, ROWS, Hospital, World, rows_of

CANDIDATES = [f"{kind}-{number:04}" for number in range(ROWS + 1) for kind in ("subject", "other")]
"""A list of people, among whom all patients are."""


def heard(world: World) -> bytes:
    """Everything that office and hub were told, over real TLS: catalogues, approvals, runs, parcels and blocks."""
    said = [data for _, data in world.coordinator.received]
    said += [request.SerializeToString() for _, _, request in world.alignments.heard]
    said += [data for post in world.relay.posts.values() for data in post.record()]
    said += [sealed.to_bytes() for sealed in world.hub.sealed]
    return b"\n".join(said)


def digest_of(patients: Iterable[str]) -> str:
    """The digest under the alignment key that all hospitals hold."""
    return align(
        ALIGNMENT_KEY, np.sort(as_names([pseudonym(ALIGNMENT_KEY, name) for name in patients])), "cohort"
    ).digest


def opened(said: bytes, known: Iterable[str] = (), unknown: int = 1) -> Iterator[tuple[str, ...]]:
    """Everybody whom a hospital finds that holds the key and knows all other patients."""
    known = [*known]
    for found in combinations([name for name in CANDIDATES if name not in known], unknown):
        if (known or found) and digest_of([*known, *found]).encode() in said:
            yield found


def patients_of(hospital: Hospital) -> list[str]:
    return [line.partition(",")[0] for line in hospital.source.read_text().splitlines()[1:]]


def undeclared(world: World) -> World:
    """The hospitals as they are before anybody says anything of their patients."""
    for hospital in (world.north, world.south):
        hospital.edit("^same_patients = true\n", "")
    return world


def write(hospital: Hospital, lines: Iterable[str]) -> None:
    """Let the table be so, and the office hear of it."""
    hospital.source.write_text("\n".join(lines) + "\n")
    hospital.cycle()


@pytest.mark.parametrize("declared", [False, True])
def test_a_new_registry_is_not_opened_patient_by_patient(world: World, declared: bool) -> None:
    if not declared:
        undeclared(world)
    header, *lines = rows_of("north")
    for rows in (1, 2, 3):
        write(world.north, [header, *lines[:rows]])
        assert world.north.hospital_state().catalogue().rows == rows
    for known in range(3):
        assert [*opened(heard(world), patients_of(world.north)[:known])] == []


def test_only_the_owners_word_lets_anybody_compare_whole_tables(world: World) -> None:
    write(undeclared(world).north, rows_of("north"))
    assert [*opened(heard(world), patients_of(world.north)[:-1])] == []
    assert not world.north.hospital_state().catalogue().comparable
    for hospital in (world.north, world.south):
        hospital.edit('^roster = "cohort"', 'roster = "cohort"\nsame_patients = true')
        hospital.cycle()
    told = world.north.hospital_state().catalogue()
    assert told.comparable
    assert told.alignment == world.south.hospital_state().catalogue().alignment == digest_of(patients_of(world.north))
    assert [*opened(heard(world), patients_of(world.north)[:-1])] == [(patients_of(world.north)[-1],)]


def test_a_batch_that_fills_is_not_opened_row_by_row(world: World) -> None:
    """Not even where the owner says that all hospitals have these patients: the others may have them a day later."""
    world.north.edit('subject = "patient"', 'subject = "patient"\nbatch = "month"')
    header, *lines = lines_of(world.north, 2)
    first = [line for line in lines if line.endswith(",1")]
    second = [line for line in lines if line.endswith(",2")]
    for new in range(1, len(second) + 1):
        write(world.north, [header, *first, *second[:new]])
        assert [batch.number for batch in world.north.hospital_state().catalogue().batches] == [1]
    before, ones = patients_of(world.north)[:MONTH], patients_of(world.north)[MONTH:]
    said = heard(world)
    for new in range(len(ones)):
        assert digest_of(ones[: new + 1]).encode() not in said
        assert digest_of([*before, *ones[: new + 1]]).encode() not in said
    write(world.north, [header, *first, *second, f"other-0001,{second[0].split(',', 1)[1].rpartition(',')[0]},3"])
    assert [batch.number for batch in world.north.hospital_state().catalogue().batches] == [1, 2]
    assert digest_of(ones).encode() in heard(world)
    assert digest_of(["other-0001"]).encode() not in heard(world)


def test_a_run_tells_nobody_whom_one_hospital_alone_has(world: World) -> None:
    """The south has all patients of the north but one, and knows it from the sizes."""
    undeclared(world)
    alone = patients_of(world.north)[-1]
    lines = rows_of("south")
    write(world.south, [line for line in lines if not line.startswith(f"{alone},")])
    run = accepted(world)
    go(world, run)
    for hospital in (world.north, world.south):
        hospital.cycle()
    told = [hospital.hospital_state().catalogue() for hospital in (world.north, world.south)]
    assert [(each.rows, each.comparable, each.aligned) for each in told] == [(ROWS - 1, True, run)] * 2
    assert told[0].alignment == told[1].alignment
    both, said = patients_of(world.south), heard(world)
    assert told[0].alignment.encode() in said
    assert [*opened(said, both)] == []
    assert [*opened(said, both, 0)] == []
    assert [*opened(said, both[:-1])] == []


def test_the_secret_of_a_run_is_its_hospitals_alone(world: World) -> None:
    runs = []
    for _ in range(2):
        runs.append(accepted(overlap(world)) if not runs else accepted(world))
        go(world, runs[-1])
    kept = [
        [hospital.hospital_state().journal.find(run).secret for hospital in (world.north, world.south)] for run in runs
    ]
    assert [north == south for north, south in kept] == [True, True]
    assert kept[0][0] != kept[1][0]
    said = heard(world)
    for north, _ in kept:
        assert north is not None
        assert len(north) == 32
        assert north not in said
        assert north.hex().encode() not in said
    assert world.north.hospital_state().journal.roster(runs[0]) == common()


def test_digests_under_other_secrets_are_never_equal() -> None:
    random = np.random.default_rng(3)
    digest = digest_of(["a"])
    shown = set()
    for _ in range(20):
        own, run = random.bytes(32), random.bytes(32)
        shown |= {ShownDigests(own).shown(digest, 40), ShownDigests(own, run).shown(digest, 40)}
        few = ShownDigests(own, declared=True).shown(digest, FEWEST_COMPARED - 1)
        filling = ShownDigests(own, declared=True).shown(digest, FEWEST_COMPARED, complete=False)
        assert few == filling == ShownDigests(own).shown(digest, 40)
        assert ShownDigests(own, declared=True).shown(digest, FEWEST_COMPARED) == digest
        assert ShownDigests(own, run, declared=True).shown(digest, 40) == ShownDigests(bytes(32), run).shown(digest, 1)
    assert len(shown) == 40


def test_patients_are_counted_and_not_their_rows() -> None:
    several = ShownDigests(bytes(32), declared=True, rows_per_subject=5)
    assert not several.is_enough(5 * FEWEST_COMPARED - 1)
    assert several.is_enough(5 * FEWEST_COMPARED)

"""One party's state machine: common patients, whoever drives it, in whatever order, and however often it dies."""

from dataclasses import replace

import pytest

from dprelease.errors import IntegrityError, InvalidInput
from dprelease.intersection.session import Common
from dprelease.mpc.messages import MessageHeader, sign_message
from tests.dprelease.intersection.driver import KEYS, Died, Driver, MortalStorage, array, element

THREE = {"a": [1, 2, 3, 4, 9], "b": [9, 2, 3, 5], "c": [6, 3, 1, 9]}
TWO = {"a": [1, 2, 3], "b": [3, 1]}


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_everybody_learns_its_own_common_patients(order: str) -> None:
    driver = Driver(dict(THREE))
    assert driver.run(order) == {name: {3, 9} for name in "abc"}
    sent = [line for line in driver.told if "sends" in line]
    assert len(sent) == len(set(driver.listed)) == 3 * (1 + 3 + 1 + 1 + 2 + 1)


def test_each_step_comes_after_those_it_rests_on() -> None:
    driver = Driver(dict(THREE))
    driver.run()
    told = driver.told
    for name in THREE:
        first_points = told.index(f"{name} sends points")
        assert told.index(f"{name} begins") < first_points
        assert all(told.index(f"{other} sends hello") < first_points for other in THREE)
        # No table can be opened before everybody has said that it saw the same points and tables.
        assert all(told.index(f"{other} sends transcript") < told.index(f"{name} sends key") for other in THREE)
        assert all(told.index(f"{other} sends key") < told.index(f"{name} sends result") for other in THREE)


def test_it_says_for_whom_it_waits() -> None:
    driver = Driver(dict(THREE))
    assert driver.look("a") == "waits for b, c to join the run"
    driver.look("b")
    assert driver.look("c") == "waits for a, b to pass the patients on"
    assert [driver.look(party) for party in "abcabcabc"] == [
        "waits for b to pass the patients on",
        "waits for c to pass the patients on",
        "waits for a to pass the patients on",
        "waits for the table of b",
        "waits for a, c to confirm what it has seen",
        "waits for a to confirm what it has seen",
        "waits for b, c to open its table",
        "waits for c to open its table",
        "waits for a, b to find the common patients",
    ]


def test_a_party_that_dies_after_any_write_goes_on_and_never_sends_anything_else_in_its_place() -> None:
    for write in range(40):
        driver = Driver(dict(TWO), {"a": MortalStorage(write)})
        assert driver.run() == {"a": {1, 3}, "b": {1, 3}}
        places = [header.place for header in driver.listed]
        assert len(places) == len(set(places))
        assert {header.round for header in driver.listed} == {1}
        if "a dies" not in driver.told:
            assert write > 12
            return
    raise AssertionError("it dies without end")


def test_a_relay_that_loses_everything_is_given_the_same_bytes_again() -> None:
    driver = Driver(dict(TWO))
    for party in "ababa":
        driver.look(party)
    lost, driver.listed = dict(driver.listed), {}
    assert driver.run() == {"a": {1, 3}, "b": {1, 3}}
    assert all(driver.listed[header] == lost[header] for header in lost)


def test_who_lost_its_state_before_tables_are_opened_begins_a_round_that_others_join() -> None:
    driver = Driver(dict(TWO))
    while "a sends table" not in driver.told:
        driver.look("b")
        driver.look("a")
    assert "b sends key" not in driver.told
    driver.storages["a"] = MortalStorage()
    assert driver.run() == {"a": {1, 3}, "b": {1, 3}}
    assert {header.round for header in driver.listed if header.kind == "result"} == {2}
    tables = [body for header, (_, body) in driver.listed.items() if header.kind == "table"]
    assert len(set(tables)) == len(tables) >= 3


def test_nobody_begins_anew_once_a_table_can_be_opened() -> None:
    """Else a hospital could test other patients against the same announced size."""
    driver = Driver(dict(TWO))
    while not {"a sends key", "b sends key"} <= set(driver.told):
        driver.look("b")
        driver.look("a")
    with pytest.raises(IntegrityError, match="our state is older than what we have sent"):
        Driver(dict(TWO), listed=driver.listed).look("a")
    header = MessageHeader(task=driver.ring.task, round=2, kind="hello", sender="a", payload="09" + "00" * 31)
    driver.listed[header] = sign_message(KEYS["a"], header), b""
    with pytest.raises(IntegrityError, match="only be resumed"):
        driver.look("b")


@pytest.mark.parametrize(
    ("patients", "words"),
    [([1, 2, 3, 4], "announced 3 patients, and there are 4"), ([1, 2, 2], "two patients have one identifier")],
)
def test_elements_that_are_not_those_announced_are_refused_before_anything_leaves(
    patients: list[int], words: str
) -> None:
    driver = Driver(dict(TWO))
    driver.elements["a"] = array(map(element, patients))
    driver.look("a")
    driver.look("b")
    with pytest.raises(InvalidInput, match=words):
        driver.look("a")
    assert "a sends points" not in driver.told


def test_elements_that_change_during_a_run_end_it() -> None:
    driver = Driver(dict(TWO))
    for party in "abab":
        driver.look(party)
    driver.elements["a"] = array(map(element, [1, 2, 77]))
    with pytest.raises(InvalidInput, match="the patients changed after this run began"):
        driver.run()


def test_one_more_guess_than_announced_is_refused_by_everybody() -> None:
    driver = Driver(dict(TWO))
    driver.look("a")
    driver.look("b")
    cheat = Driver({"a": [1, 2, 3, "guessed"], "b": TWO["b"]}, dict(driver.storages), listed=driver.listed)
    cheat.ring = replace(driver.ring, sizes={"a": 4, "b": 2})
    cheat.look("a")
    with pytest.raises(IntegrityError, match="a sent a points that this alignment run does not have"):
        driver.look("b")


def test_what_a_hospital_invents_within_its_size_it_learns_of_and_of_nothing_more() -> None:
    """The bound that the guarantees state: guessed identifiers are tested, each in the place of an announced patient."""
    driver = Driver({"a": [1, "guess 1", "guess 2"], "b": ["guess 2", 1, 7], "c": [1, "guess 2", "guess 1", 8]})
    assert driver.run()["a"] == {1, "guess 2"}


def test_results_that_differ_align_nothing() -> None:
    driver = Driver(dict(TWO))
    while not any(header.kind == "result" for header in driver.listed):
        for party in "ab":
            driver.look(party)
    first = next(header for header in driver.listed if header.kind == "result")
    other = "b" if first.sender == "a" else "a"
    for header in [each for each in driver.listed if each.kind == "result"]:
        del driver.listed[header]
    forged = first.model_copy(update={"sender": other, "payload": "00" * 32})
    driver.listed[forged] = sign_message(KEYS[other], forged), b""
    with pytest.raises(IntegrityError, match="did not find the same common patients"):
        driver.look(first.sender)


def test_a_finished_run_needs_nobody_any_more() -> None:
    driver = Driver(dict(TWO))
    driver.run()
    results = {header: entry for header, entry in driver.listed.items() if header.kind in ("hello", "result")}
    driver.listed = results
    said = driver.session("a")
    said.receive(driver.messages())
    assert isinstance(said.advance(), Common)


def test_the_driver_kills() -> None:
    with pytest.raises(Died):
        MortalStorage(0).keep_body("x", b"")

"""Dealt randomness serves once: what was noted is refused for good, in whatever session and by whomever it is dealt again."""

from pathlib import Path

import pytest

from dprelease.errors import IntegrityError
from party_node.state.session import UsedSeeds

ONE, TWO, THREE = ("11" * 32, "22" * 32, "33" * 32)
FIRST, SECOND = ("aa" * 32, "bb" * 32)


@pytest.fixture
def seeds(folder: Path) -> UsedSeeds:
    return UsedSeeds(folder / "state" / "seeds.sqlite")


def test_noting_the_same_deal_again_changes_nothing(seeds: UsedSeeds, folder: Path) -> None:
    seeds.use([ONE, TWO], FIRST, "c")
    seeds.use([TWO, ONE], FIRST, "c")
    UsedSeeds(folder / "state" / "seeds.sqlite").use([ONE, TWO], FIRST, "c")  # a fresh process


@pytest.mark.parametrize(
    ("session", "dealer", "who"), [(SECOND, "c", "c"), (FIRST, "b", "b"), (SECOND, "", "the coordinator")]
)
def test_a_seed_that_served_elsewhere_is_refused(seeds: UsedSeeds, session: str, dealer: str, who: str) -> None:
    seeds.use([ONE], FIRST, "c")
    with pytest.raises(IntegrityError, match=f"^{who} dealt a seed that was used before; nothing is masked with it"):
        seeds.use([ONE], session, dealer)


def test_it_is_remembered_by_a_fresh_process(seeds: UsedSeeds, folder: Path) -> None:
    seeds.use([ONE], FIRST, "c")
    with pytest.raises(IntegrityError, match="used before"):
        UsedSeeds(folder / "state" / "seeds.sqlite").use([ONE], SECOND, "c")


def test_a_refused_deal_leaves_nothing_noted(seeds: UsedSeeds) -> None:
    seeds.use([ONE], FIRST, "c")
    with pytest.raises(IntegrityError):
        seeds.use([TWO, ONE], SECOND, "c")
    seeds.use([TWO], SECOND, "b")  # not taken by the deal that was refused


def test_one_seed_twice_in_a_deal_is_refused(seeds: UsedSeeds) -> None:
    with pytest.raises(IntegrityError, match="c dealt one seed twice"):
        seeds.use([ONE, TWO, ONE], FIRST, "c")
    seeds.use([ONE], SECOND, "c")


@pytest.mark.parametrize("again", [[THREE], [ONE], [ONE, TWO, THREE]])
def test_a_second_deal_in_one_session_is_refused(seeds: UsedSeeds, again: list[str]) -> None:
    seeds.use([ONE, TWO], FIRST, "c")
    with pytest.raises(IntegrityError, match="c dealt twice in one session"):
        seeds.use(again, FIRST, "c")
    seeds.use([THREE], SECOND, "c")


def test_every_dealer_deals_once_in_a_session(seeds: UsedSeeds) -> None:
    seeds.use([ONE], FIRST, "b")
    seeds.use([TWO], FIRST, "c")
    seeds.use([THREE], SECOND, "b")

"""Who deals for whom, who sends what to whom, and how many bytes it takes."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mechanisms.moments.terms import joint_moments
from dprelease.mechanisms.registry import mechanism_of
from dprelease.mpc.schedule import COORDINATOR, Schedule, groups_of
from tests.support.specs import build_spec, categorical, numeric

NAMES = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove")


def hospitals(count: int) -> dict[str, tuple[Column, ...]]:
    """Hospitals with one number, two numbers, three numbers, ..."""
    return {
        name: tuple(numeric(f"{name}{place}") for place in range(width))
        for width, name in enumerate(NAMES[:count], start=1)
    }


def schedule_for(count: int, rows: int = 40, **changed: object) -> Schedule:
    return schedule_of(build_spec(hospitals(count), mechanism="moments", rows=rows, **changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("dealer", ["coordinator", None])
def test_every_pair_is_dealt_for_once_in_the_specs_order(count: int, dealer: str | None) -> None:
    schedule = schedule_for(count, dealer=dealer if count > 1 else None)
    assert [(pair.first, pair.second) for pair in schedule.pairs] == list(combinations(NAMES[:count], 2))
    dealers = {pair.dealer for pair in schedule.pairs}
    assert sorted(pair.first + pair.second for dealer in dealers for pair in schedule.dealt_by(dealer)) == sorted(
        pair.first + pair.second for pair in schedule.pairs
    )


@pytest.mark.parametrize("count", range(3, 8))
def test_a_rotating_dealer_is_the_next_hospital_that_is_not_in_the_pair(count: int) -> None:
    schedule = schedule_for(count)
    ring = NAMES[:count] * 2
    for pair in schedule.pairs:
        assert not pair.has(pair.dealer)
        after = ring[ring.index(pair.second) + 1 :]
        assert pair.dealer == next(name for name in after if name != pair.first)


def in_groups(count: int, groups: int) -> Schedule:
    return Schedule("5e" * 32, {f"h{place:03}": 1 for place in range(count)}, 9, 12, 1, rotating=True, groups=groups)


@pytest.mark.parametrize("count", [13, 24, 50, 100])
def test_an_outsider_deals_for_all_pairs_of_two_groups(count: int) -> None:
    groups = groups_of(count)
    schedule = in_groups(count, groups)
    assert [pair.parties for pair in schedule.pairs] == list(combinations(schedule.parties, 2))
    group = {name: place * groups // count for place, name in enumerate(schedule.parties)}
    between: dict[frozenset[int], set[str]] = {}
    for pair in schedule.pairs:
        two = frozenset(group[name] for name in pair.parties)
        between.setdefault(two, set()).add(pair.dealer)
        assert group[pair.dealer] not in two
    assert all(len(dealers) == 1 for dealers in between.values())
    # So columns are masked, and dealt for, sqrt(m) times a party and not m/2 times, and nobody deals for much more than m pairs.
    assert sum(len(schedule.dealers_of(name)) for name in schedule.parties) <= count * groups
    assert max(Counter(pair.dealer for pair in schedule.pairs).values()) <= 2 * count


def test_groups_of_one_are_none_and_few_hospitals_have_none() -> None:
    assert in_groups(9, 9).pairs == in_groups(9, 0).pairs
    assert (groups_of(12), groups_of(13), groups_of(100)) == (0, 3, 10)


@pytest.mark.parametrize(("groups", "rotating"), [(2, True), (7, True), (-1, True), (3, False)])
def test_groups_that_cannot_deal_are_refused(groups: int, rotating: bool) -> None:
    with pytest.raises(InvalidInput, match="three groups or more"):
        replace(in_groups(6, 3), groups=groups, rotating=rotating)
    columns = hospitals(6)
    spec = build_spec(columns, mechanism="moments", dealer=None if rotating else "coordinator")
    terms = joint_moments(spec).model_copy(update={"groups": groups})
    with pytest.raises(ValueError, match="three groups or more"):
        terms.check(columns)


@pytest.mark.parametrize(("count", "curious"), [(2, 1), (3, 2), (4, 3), (5, 2)])
def test_the_coordinator_deals_for_all_pairs_where_hospitals_cannot(count: int, curious: int) -> None:
    schedule = schedule_for(count, curious=curious)
    assert {pair.dealer for pair in schedule.pairs} == {COORDINATOR}
    assert all(schedule.dealers_of(party) == (COORDINATOR,) for party in schedule.parties)


@pytest.mark.parametrize("count", range(2, 8))
@pytest.mark.parametrize("dealer", ["coordinator", None])
def test_masked_columns_go_to_the_partners_and_never_to_their_dealer(count: int, dealer: str | None) -> None:
    schedule = schedule_for(count, dealer=dealer)
    for party in schedule.parties:
        reached: list[str] = []
        for one in schedule.dealers_of(party):
            partners = schedule.partners(party, one)
            assert one not in partners
            assert party not in (one, *partners)
            assert list(partners) == sorted(partners, key=schedule.parties.index)
            reached += partners
        assert sorted(reached) == sorted(set(schedule.parties) - {party})
        assert schedule.partners(party, party) == ()


def test_a_party_alone_needs_nobody() -> None:
    schedule = schedule_for(1)
    assert schedule.pairs == schedule.dealers_of("amber") == schedule.dealt_by(COORDINATOR) == ()


def test_widths_count_variables_not_declared_or_released_columns() -> None:
    parties: dict[str, tuple[Column, ...]] = {
        "amber": (numeric("age"), categorical("smoker", "yes")),
        "birch": (categorical("sex", "female", "male"),),
    }
    schedule = schedule_of(build_spec(parties, mechanism="moments"))
    assert schedule.widths == {"amber": 2, "birch": 3}


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("rows", [1, 2, 26214, 26215, 1_000_001])
def test_chunks_are_even_cover_all_rows_and_take_a_mebibyte(count: int, rows: int) -> None:
    schedule = schedule_for(count, rows=rows)
    widest = max(schedule.widths.values())
    assert schedule.chunk_rows % 2 == 0
    assert (1 << 20) - 16 * widest < 8 * widest * schedule.chunk_rows <= 1 << 20
    assert (schedule.chunks - 1) * schedule.chunk_rows < rows <= schedule.chunks * schedule.chunk_rows
    for party, width in schedule.widths.items():
        assert schedule.columns_size(party) == 8 * rows * width + 16 * schedule.chunks


def test_a_chunk_has_two_rows_at_least() -> None:
    schedule = replace(schedule_for(2), widths={"amber": 70_000, "birch": 1}, rows=5)
    assert (schedule.chunk_rows, schedule.chunks) == (2, 3)


@pytest.mark.parametrize("mechanism", ["mixed", "rows"])
def test_other_mechanisms_have_no_schedule(mechanism: str) -> None:
    spec = build_spec(mechanism=mechanism)
    assert mechanism_of(spec).schedule(spec) is None
    with pytest.raises(InvalidInput, match=f"a release of mechanism '{mechanism}' has no moments"):
        schedule_of(spec)


@pytest.mark.parametrize(("names", "threshold"), [("ab", 1), ("abc", 2)])
def test_parties_that_may_pool_do_not_deal_for_one_another(names: str, threshold: int) -> None:
    with pytest.raises(InvalidInput, match="only if there are three and none of them pools"):
        Schedule("00" * 32, dict.fromkeys(names, 1), 10, 16, threshold, rotating=True)


def test_a_masked_column_travels_once_for_each_peer_and_no_more() -> None:
    """n = 1e6, 101 columns, three hospitals: 1.62 GB, 80 times below one fresh masked vector for each pair of columns.

    A published run with a trusted initialiser that masks anew for every product sent 129 GB for the same matrix.
    """
    held = {"amber": 34, "birch": 34, "cedar": 33}
    columns = {name: tuple(numeric(f"{name}{place}") for place in range(width)) for name, width in held.items()}
    schedule = schedule_of(build_spec(columns, mechanism="moments", rows=1_000_000, grid_bits=16))
    copies = [(party, dealer) for party in schedule.parties for dealer in schedule.dealers_of(party)]
    sent = sum(schedule.columns_size(party) for party, _ in copies)
    dealt = sum(schedule.deal_size(party, dealer) for party, dealer in copies)
    needed = 8 * 1_000_000 * 101 * 2
    assert needed <= sent + dealt < 1.0001 * needed
    assert 129e9 / (sent + dealt) > 79

"""CorrelatedRandomness randomness: exact correlations, seeds that nobody else gets, and deals that do not parse."""

from itertools import chain

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.errors import IntegrityError
from dprelease.mpc import ring
from dprelease.mpc.modulus import FIELD, P
from dprelease.mpc.schedule import COORDINATOR, CorrelatedRandomness, Schedule, deal, read_randomness, seed_digest
from tests.dprelease.mpc.test_schedule import schedule_for

Words = npt.NDArray[np.uint64]


def keystream(seed: bytes, rows: int, width: int) -> Words:
    """AES-256-CTR of the seed from counter 0, in one piece, 61 bits of each word."""
    stream = Cipher(algorithms.AES256(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * rows * width))
    return np.frombuffer(stream, "<u8").astype(np.uint64).reshape(rows, width) & np.uint64(P)


def dealt_by(schedule: Schedule, dealer: str) -> dict[str, CorrelatedRandomness]:
    return {name: read_randomness(data, schedule, name, dealer) for name, data in deal(schedule, dealer).items()}


def check_correlations(schedule: Schedule, dealer: str, dealt: dict[str, CorrelatedRandomness]) -> None:
    """C - PRG(r) at one and PRG(r) at the other sum to A_j^T A_k, mod p, in Python's integers."""
    masks = {name: keystream(one.mask, schedule.rows, schedule.widths[name]) for name, one in dealt.items()}
    for pair in schedule.dealt_by(dealer):
        sums = dealt[pair.first].shares[pair] + dealt[pair.second].shares[pair]
        left, right = (masks[name].astype(object) for name in (pair.first, pair.second))
        assert (sums.astype(object) % P == left.T @ right % P).all()


@pytest.mark.parametrize("count", range(2, 6))
@pytest.mark.parametrize("dealer", ["coordinator", None])
@pytest.mark.parametrize(("rows", "chunk"), [(1, 1 << 20), (37, 1 << 20), (37, 200), (40, 80)])
def test_the_correlations_are_exact_whatever_the_chunks(
    count: int, dealer: str | None, rows: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "CHUNK_BYTES", chunk)
    schedule = schedule_for(count, rows=rows, dealer=dealer)
    assert (schedule.chunks > 1) == (chunk < 1 << 20)
    for one in {pair.dealer for pair in schedule.pairs}:
        check_correlations(schedule, one, dealt_by(schedule, one))


@pytest.mark.parametrize("dealer", ["coordinator", None])
def test_everybody_in_a_dealers_pairs_gets_one_deal_of_the_planned_size(dealer: str | None) -> None:
    schedule = schedule_for(4, dealer=dealer)
    for one in {pair.dealer for pair in schedule.pairs}:
        dealt = deal(schedule, one)
        assert one not in dealt
        assert set(dealt) == set(chain.from_iterable((pair.first, pair.second) for pair in schedule.dealt_by(one)))
        assert {name: len(data) for name, data in dealt.items()} == {
            name: schedule.deal_size(name, one) for name in dealt
        }


def test_whoever_deals_for_no_pair_deals_nothing() -> None:
    assert deal(schedule_for(3, dealer="coordinator"), "amber") == {}
    assert deal(schedule_for(3), COORDINATOR) == {}


def test_every_deal_draws_anew_and_uses_a_seed_for_one_thing() -> None:
    schedule = schedule_for(4, dealer="coordinator")
    digests = [digest for _ in range(2) for one in dealt_by(schedule, COORDINATOR).values() for digest in one.digests]
    # a mask each, and a seed r for each of six pairs
    assert len(digests) == len(set(digests)) == 2 * (4 + 6)


def test_nobody_gets_anothers_seeds() -> None:
    schedule = schedule_for(4, dealer="coordinator")
    messages = deal(schedule, COORDINATOR)
    for name, data in messages.items():
        firsts = sum(pair.first == name for pair in schedule.pairs)
        words = 0
        for pair in schedule.pairs:
            if name == pair.second:
                words += schedule.widths[pair.first] * schedule.widths[pair.second]
        assert len(data) == 32 * (1 + firsts) + 8 * words
        for other, theirs in messages.items():
            if other != name:
                assert theirs[:32] not in data


def test_a_correction_is_not_the_product_itself() -> None:
    schedule = schedule_for(2)
    dealt = dealt_by(schedule, COORDINATOR)
    (pair,) = schedule.pairs
    masks = [keystream(dealt[name].mask, schedule.rows, schedule.widths[name]) for name in (pair.first, pair.second)]
    assert np.all(dealt[pair.second].shares[pair] != FIELD.product(*masks))
    first, second = dealt_by(schedule, COORDINATOR)["birch"], dealt_by(schedule, COORDINATOR)["birch"]
    assert np.all(first.shares[pair] != second.shares[pair])


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: b""])
def test_a_deal_of_another_length_is_refused(change: object) -> None:
    schedule = schedule_for(3)
    data = deal(schedule, "cedar")["birch"]
    assert callable(change)
    with pytest.raises(IntegrityError, match="cedar dealt something of another shape"):
        read_randomness(change(data), schedule, "birch", "cedar")


def test_a_deal_for_somebody_else_is_refused_where_its_shape_tells() -> None:
    schedule = schedule_for(3, dealer="coordinator")
    messages = deal(schedule, COORDINATOR)
    with pytest.raises(IntegrityError, match="the coordinator dealt something of another shape"):
        read_randomness(messages["amber"], schedule, "cedar", COORDINATOR)


def test_seeds_are_recognised_by_digests_that_do_not_give_them_away() -> None:
    schedule = schedule_for(3, dealer="coordinator")
    messages = deal(schedule, COORDINATOR)
    amber = read_randomness(messages["amber"], schedule, "amber", COORDINATOR)
    seeds = [messages["amber"][start : start + 32] for start in (0, 32, 64)]
    assert amber.digests == tuple(map(seed_digest, seeds))
    assert amber.mask == seeds[0]
    assert all(seed.hex() not in "".join(amber.digests) for seed in seeds)
    assert "mask" not in repr(amber)
    assert repr(amber.mask) not in repr(amber)

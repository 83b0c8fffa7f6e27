"""Products of a session on a cluster: the words that this process makes, also where a worker is killed, and secrets that stay."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dprelease.arrays import Codes, PieceMap
from dprelease.errors import IntegrityError, PeerUnavailable
from dprelease.mechanisms.moments.privatize import OwnMoments
from dprelease.mpc.encryption import private_bytes
from dprelease.mpc.exchange import masked, share
from dprelease.mpc.modulus import FIELD, RING, Modulus
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import CorrelatedRandomness, Schedule
from party_node.cluster.engine import Cluster
from party_node.computation.sessions import WORTH_SENDING, JointWork
from party_node.settings import ClusterSettings
from tests.party_node.joint_world import JointWorld, joint_spec
from tests.support.clusters import kill_one, two_workers
from tests.support.joint import entries, exact_gram
from tests.support.specs import build_spec, numeric, with_terms

ROWS, BITS = 3000, 10
FIRST, SECOND = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_workers(tmp_path_factory.mktemp("cluster")) as (address, files):
        made = Cluster(ClusterSettings(address=address, connect_seconds=100, **files))
        yield made
        made.close()


def codes(width: int) -> Codes:
    return np.random.default_rng(width).integers(-1 << BITS, (1 << BITS) + 1, (ROWS, width)).astype(np.int32)


def chunked(words: Words, before: Callable[[int], None] = lambda _: None) -> Iterator[Words]:
    for start in range(0, ROWS, 10):
        before(start)
        yield words[start : start + 10]


def shared(party: str, pad: Words, partner: Iterable[Words], schedule: Schedule, *run: PieceMap) -> Words:
    """The share of one of two parties, `a` with three columns and `b` with four."""
    (pair,) = schedule.pairs
    return share(
        pair,
        party,
        codes(schedule.widths[party]),
        CorrelatedRandomness("", FIRST, b"", {pair: pad}, ()),
        partner,
        schedule,
        *run,
    )


@pytest.mark.parametrize("modulus", [RING, FIELD], ids=["ring", "field"])
def test_shares_are_the_same_words(cluster: Cluster, modulus: Modulus) -> None:
    schedule = Schedule("5e" * 32, {"a": 3, "b": 4}, ROWS, BITS, 0, False, modulus)
    shown = [np.vstack(list(masked(codes(width), SECOND, schedule))) for width in (4, 3)]
    pads = [modulus.read(seed, 0, 3, 4) for seed in (FIRST, SECOND)]
    local, found = (
        (
            shared("a", pads[0], chunked(shown[0]), schedule, *run),
            shared("b", pads[1], chunked(shown[1]), schedule, *run),
        )
        for run in ((), (cluster.map,))
    )
    assert np.array_equal(found, local)


def test_own_products_are_the_same_words(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.arrays.PIECE_BYTES", 1 << 12)
    schedule, outcome = Schedule("5e" * 32, {"a": 4}, ROWS, BITS, 0, False), np.array([False, True, False, False])
    local, found = (OwnMoments.of(codes(4), outcome, schedule, None, *run) for run in ((), (cluster.map,)))
    for name in ("sums", "across", "squares"):
        assert np.array_equal(getattr(found, name), getattr(local, name))


@pytest.mark.parametrize("proofs", [False, True], ids=["", "range proofs"])
def test_a_session_gives_the_exact_matrix(cluster: Cluster, folder: Path, *, proofs: bool) -> None:
    world = JointWorld(folder, with_terms(joint_spec(3, rows=40), range_proofs=proofs))
    for site in world.sites.values():
        site.engine = cluster.map
    world.run()
    assert world.released() == entries(world.spec, exact_gram(world.spec, world.tables))


def test_a_cluster_that_is_away_leaves_a_session_where_it_stood(folder: Path) -> None:
    world = JointWorld(folder, with_terms(joint_spec(3, rows=40), range_proofs=True))
    site = world["b"]
    away = Cluster(ClusterSettings(address="tcp://127.0.0.1:1", connect_seconds=0.1))
    local, site.engine = site.engine, away.map
    for _ in range(9):
        world.looks(1, "ac")  # type: ignore[arg-type]
        try:
            site.look()
        except PeerUnavailable as error:
            told = error.message
    assert "the cluster at tcp://127.0.0.1:1 does not serve" in told
    assert site.block is None
    site.engine = local
    world.run()
    assert world.released() == entries(world.spec, exact_gram(world.spec, world.tables))


def test_columns_of_another_length_are_refused_there_too(cluster: Cluster) -> None:
    schedule = Schedule("5e" * 32, {"a": 3, "b": 4}, ROWS, BITS, 0, False)
    with pytest.raises(IntegrityError, match="10 rows where the release has 3000"):
        shared("a", np.zeros((3, 4), np.uint64), [np.zeros((10, 4), np.uint64)], schedule, cluster.map)


def test_workers_get_one_kind_of_secret_of_a_session(folder: Path) -> None:
    """The seed of our own mask where a pair needs it; no key, no pad and no seed of anybody else."""
    world = JointWorld(folder, with_terms(joint_spec(3, rows=40), range_proofs=True))
    sent: list[bytes] = []

    def seen(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        assert "mask" not in repr(function)
        for item in items:
            sent.append(pickle.dumps((function, item)))
            yield function(item)

    for site in world.sites.values():
        site.engine = seen if site.name == "b" else site.engine
    world.run()
    us, everything = world["b"], b"".join(sent)
    dealt = us.dealt()
    masks = {each.mask for each in dealt.values()}
    needed = {dealt[pair.dealer].mask for pair in world.schedule.pairs if pair.first == "b"}
    assert {mask for mask in masks if mask in everything} == needed != masks
    pads = [share.tobytes() for each in dealt.values() for share in each.shares.values()]
    others = [each.mask for name in "ac" for each in world[name].dealt().values()]
    kept = [private_bytes(us.session_key), *(each.proof for each in dealt.values()), *pads, *others]
    assert len(pads) == 2
    assert [secret for secret in kept if secret and secret in everything] == []


@pytest.mark.parametrize(("columns", "goes"), [(WORTH_SENDING - 1, False), (WORTH_SENDING, True)])
def test_few_columns_are_multiplied_here(columns: int, *, goes: bool) -> None:
    own = tuple(numeric(f"x{place}") for place in range(columns))
    spec = build_spec({"a": own, "b": (numeric("y"),)}, mechanism="moments", rows=30)
    settings = SimpleNamespace(name="a", engine="dask", cluster=ClusterSettings(address="tcp://127.0.0.1:1"))
    work = JointWork.__new__(JointWork)
    work._hospital = SimpleNamespace(settings=settings)  # type: ignore[assignment]
    with work._engine(spec) as run:
        found: PieceMap = run
    assert isinstance(getattr(found, "__self__", None), Cluster) is goes


def test_a_share_is_the_same_where_a_worker_is_killed(cluster: Cluster) -> None:
    schedule = Schedule("5e" * 32, {"a": 3, "b": 4}, ROWS, BITS, 0, False, FIELD)
    shown, pad = np.vstack(list(masked(codes(4), SECOND, schedule))), FIELD.read(FIRST, 0, 3, 4)
    killed: list[int] = []

    def dies(start: int) -> None:
        if start == ROWS // 2:
            killed.append(kill_one(cluster._client))

    local = shared("a", pad, chunked(shown), schedule)
    assert np.array_equal(shared("a", pad, chunked(shown, dies), schedule, cluster.map), local)
    assert len(killed) == 1

"""Two attacks in numbers: the retry attack, which one block for each release prevents, and the range attack, which nothing
prevents and which is therefore printed wherever a release is reviewed or published.

Source: docs/protocol.md, "One block, ever"; docs/guarantees.md 13, "Not covered: the range attack".
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dprelease.arrays import Codes, PieceMap
from dprelease.data.bounding import BoundedRows
from dprelease.errors import IntegrityError, InvalidInput
from dprelease.identity.signing import new_private_key
from dprelease.mechanisms.moments.released import add_up, limits
from dprelease.mechanisms.moments.terms import layout_of
from dprelease.mechanisms.moments.words import RANGE_ATTACK
from dprelease.mpc import exchange as exchange_module
from dprelease.mpc.exchange import masked, share
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.ring import Words
from dprelease.mpc.schedule import CorrelatedRandomness, Pair, Schedule
from dprelease.release.accounting import trust
from dprelease.release.block import Block
from party_node.state.vault import Vault
from tests.party_node.joint_world import JointWorld, joint_spec
from tests.support.joint import compute, summed
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec, numeric, random_rows

ROW = 17
PAIR = {"a": (numeric("a0"), numeric("a1"), numeric("a2")), "b": (numeric("b0"),)}


def retried(change: int) -> tuple[list[Block], BoundedRows]:
    """Both hospitals' blocks over noise and masks that are the same every time; b's cell in one row differs."""
    spec = build_spec(PAIR, mechanism="moments", rows=30)
    tables = {name: random_rows(spec, name, place) for place, name in enumerate("ab")}
    codes = tables["b"].codes.copy()
    codes[ROW, 0] = 5 + change
    tables["b"] = BoundedRows(codes, tables["b"].columns, spec.grid_bits)
    noise = {"a": SeededNoise(1), "b": SeededNoise(2)}
    blocks = compute(spec, tables, noise, {frozenset("ab"): bytes(32)}).blocks
    return [blocks["a"], blocks["b"]], tables["a"]


def test_a_second_block_over_the_same_noise_would_show_a_row_exactly() -> None:
    """Fresh shares, frozen noise, and one grid step in one cell of a peer: the difference of two outputs is the row."""
    (before, own), (after, _) = retried(0), retried(1)
    spec = build_spec(PAIR, mechanism="moments", rows=30)
    layout = layout_of(spec)
    difference = [
        second - first
        for first, second in zip(
            *(summed(spec, [block.values.reshape(-1) for block in each]).tolist() for each in (before, after)),
            strict=True,
        )
    ]
    places = list(zip(layout.rows.tolist(), layout.cols.tolist(), strict=True))
    assert [difference[places.index((column, 4))] for column in (1, 2, 3)] == own.codes[ROW].tolist()


def test_a_vault_holds_one_block_of_a_release_for_good(folder: Path) -> None:
    """The second output cannot come about: what is sealed is the first block, and the same bytes again."""
    (before, _), (after, _) = retried(0), retried(1)
    vault, key = Vault(folder / "sealed"), new_private_key()
    sealed = vault.seal((before[0],), key)
    assert vault.seal((after[0],), key) == Vault(folder / "sealed").seal((after[0],), key) == sealed
    assert vault.path(sealed[0].spec).read_bytes() == before[0].to_bytes()
    # A peer's second block does not go with it: the fresh shares of the second session do not cancel.
    spec, honest = build_spec(PAIR, mechanism="moments", rows=30), [block.values for block in before]
    assert spec.terms is not None
    most = limits(layout_of(spec), 30, spec.grid_bits, spec.terms.scales, 2)
    add_up(honest, most, FIELD)
    with pytest.raises(IntegrityError, match="do not add up to moments"):
        add_up([honest[0], after[1].values], most, FIELD)


def read_by_altered_software(world: JointWorld, name: str, amplitude: int, patch: pytest.MonkeyPatch) -> None:
    """Run a session in which a hospital's last column is `amplitude` in one row and nothing elsewhere.

    Its software masks and multiplies that; all else of the session, at every hospital, is the code as it is.
    """

    def fed(codes: np.ndarray) -> Words:  # type: ignore[type-arg]
        column = FIELD.elements(codes).copy()
        column[:, -1] = 0
        column[ROW, -1] = amplitude
        return column

    def hostile() -> bool:
        return world.current is not None and world.current.name == name

    def masking(codes: np.ndarray, mask: bytes, schedule: Schedule) -> Iterator[Words]:  # type: ignore[type-arg]
        if not hostile():
            yield from masked(codes, mask, schedule)
            return
        column = fed(codes)
        for start in range(0, len(column), schedule.chunk_rows):
            chunk = column[start : start + schedule.chunk_rows]
            yield FIELD.add(chunk, FIELD.read(mask, start, *chunk.shape))

    def half(
        pair: Pair,
        party: str,
        codes: Codes,
        dealt: CorrelatedRandomness,
        partner: Iterable[Words],
        schedule: Schedule,
        run: PieceMap,
    ) -> Words:
        if not hostile() or party == pair.first:
            return share(pair, party, codes, dealt, partner, schedule, run)
        return FIELD.add(dealt.shares[pair], FIELD.product(np.vstack(list(partner)), fed(codes)))

    patch.setattr(exchange_module, "masked", masking)
    patch.setattr(exchange_module, "share", half)
    world.run(order=world.schedule.parties)


def test_a_column_beyond_its_bounds_reads_a_row_of_every_peer_undetected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shown and not prevented: masked columns are uniform, so that nobody can see what is under the mask."""
    world = JointWorld(folder, joint_spec(3, grid_bits=10))
    for place, site in enumerate(world.sites.values()):
        site.noise = SeededNoise(place)
    read_by_altered_software(world, "b", 1 << 40, monkeypatch)
    # Nobody noticed: every hospital made its block in the first round, after transcripts that agree.
    assert {message.header.round for message in world.post.messages.values()} == {1}
    said = {message.header.payload for message in world.post.messages.values() if message.header.kind == "transcript"}
    assert len(said) == 1
    layout = layout_of(world.spec)
    blocks = [site.block.values.reshape(-1) for site in world.sites.values() if site.block is not None]
    values = summed(world.spec, blocks).tolist()
    found = dict(zip(zip(layout.rows.tolist(), layout.cols.tolist(), strict=True), values, strict=True))
    own = 4  # variables: a0 a1 | b0=yes b1 | c0=one c0=two c0=other
    read = {name: [] for name in "ac"}  # type: dict[str, list[int]]
    for variable, name in ((1, "a"), (2, "a"), (5, "c"), (6, "c"), (7, "c")):
        read[name].append(round(found[min(variable, own), max(variable, own)] / (1 << 40)))
    for name in "ac":
        assert read[name] == world.variables(name)[ROW].tolist()
    with pytest.raises(IntegrityError, match="do not add up to moments"):
        world.released()  # the hub would not publish this one; whoever has the blocks has read the row all the same


def test_an_amplitude_that_the_hub_publishes_reads_a_row_to_a_fraction_of_its_range(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n 2^b in one row is as large as an honest column's sum may be: no check of magnitudes can tell them apart."""
    rows = 20_000
    world = JointWorld(folder, joint_spec(2, rows=rows, grid_bits=10))
    for place, site in enumerate(world.sites.values()):
        site.noise = SeededNoise(place)
    read_by_altered_software(world, "b", rows << 10, monkeypatch)
    values, layout = world.released(), layout_of(world.spec)
    found = dict(zip(zip(layout.rows.tolist(), layout.cols.tolist(), strict=True), values, strict=True))
    half_range = 1 << 10
    for variable, cell in enumerate(world.variables("a")[ROW].tolist(), 1):
        assert abs(found[variable, 4] / (rows << 10) - cell) < 0.02 * half_range


def test_honest_software_refuses_columns_beyond_their_bounds(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(2))
    codes = world["b"].table.codes.copy()
    codes[ROW, -1] = (1 << world.spec.grid_bits) + 1
    with pytest.raises(InvalidInput, match="beyond the grid"):
        BoundedRows(codes, world["b"].table.columns, world.spec.grid_bits)


def test_the_range_attack_is_told_wherever_hospitals_compute_together() -> None:
    assert RANGE_ATTACK not in trust(build_spec())
    assert RANGE_ATTACK not in trust(build_spec({"a": PAIR["a"]}, mechanism="moments"))
    for spec in (joint_spec(2), joint_spec(3), joint_spec(3, dealer="coordinator"), joint_spec(4, curious=2)):
        assert RANGE_ATTACK in trust(spec)

"""What the relay and a dealer ever hold of a session: never a cell, an unmasked column, or a masked one in the clear.

Columns are looked for in every form in which they exist at a hospital, at every offset of every recorded byte string; a
control shows that they would be found.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.mechanisms.moments.entries import code
from dprelease.mechanisms.moments.privatize import schedule_of
from dprelease.mpc import encryption
from dprelease.mpc import exchange as exchange_module
from dprelease.mpc.encryption import Context
from dprelease.mpc.messages import MessageHeader
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.round import columns_expected
from dprelease.mpc.schedule import deal
from tests.party_node.joint_world import JointWorld, joint_spec
from tests.support.specs import random_raw, random_rows

Windows = npt.NDArray[np.uint64]
BINS = 256


def windows(strings: Iterable[bytes]) -> Windows:
    """Every eight bytes in a row of every string."""
    found = [np.zeros(0, np.uint64)]
    for data in strings:
        for start in range(8):
            if count := max(0, (len(data) - start) // 8):
                found.append(np.frombuffer(data, "<u8", count, start).astype(np.uint64))
    return np.unique(np.concatenate(found))


def words(data: bytes) -> Windows:
    """A secret's bytes, eight by eight, in either order of bytes."""
    little = np.frombuffer(data, "<u8", len(data) // 8)
    both = np.concatenate([little, little.byteswap()]).astype(np.uint64)
    return both[both != 0]  # eight zero bytes tell nothing


def forms(world: JointWorld, name: str) -> dict[str, Windows]:
    """A hospital's columns in every form: raw cells, codes, variables, masked."""
    part = world.spec.party(name)
    assert part is not None
    place = list(world.sites).index(name)
    raw = random_raw(part.columns, world.spec.rows, np.random.default_rng(place))
    cells = [np.asarray(column, np.float64) for column in raw.values() if isinstance(column, np.ndarray)]
    codes, variables = world[name].table.codes, world.variables(name)
    found = {f"raw {number}": words(column.astype("<f8").tobytes()) for number, column in enumerate(cells)}
    for what, table in (("codes", codes), ("variables", variables)):
        for order in ("C", "F"):
            found[f"{what} as 64 bits, {order}"] = words(table.astype("<i8").tobytes(order))  # type: ignore[arg-type]
            found[f"{what} as 32 bits, {order}"] = words(table.astype("<i4").tobytes(order))  # type: ignore[arg-type]
            found[f"{what} as floats, {order}"] = words(table.astype("<f8").tobytes(order))  # type: ignore[arg-type]
            scaled = table / (1 << world.spec.grid_bits)
            found[f"{what} as scaled floats, {order}"] = words(scaled.astype("<f8").tobytes(order))  # type: ignore[arg-type]
    found["variables as elements"] = words(FIELD.elements(variables).tobytes())
    for dealer, dealt in world[name].dealt().items():
        mask = FIELD.read(dealt.mask, 0, *variables.shape)
        found[f"mask by {dealer}"] = words(mask.astype("<u8").tobytes())
        found[f"masked under {dealer}"] = words(FIELD.add(mask, FIELD.elements(variables)).tobytes())
        found[f"seed by {dealer}"] = words(dealt.mask)
        for seed in dealt.shares.values():
            found[f"pad by {dealer} {len(found)}"] = words(seed.astype("<u8").tobytes())
    found["session key"] = words(bytes.fromhex(world[name].state.key))
    for header, key in content_keys(world):
        if header.sender == name:
            found[f"content key under {header.dealer} for {header.receivers[0]}"] = words(key)
    return found


def content_keys(world: JointWorld) -> Iterator[tuple[MessageHeader, bytes]]:
    """Every content key of the session, as its receiver unseals it."""
    for _, message, body in world.post.given:
        header = message.header
        if header.kind == "key":
            (receiver,) = header.receivers
            context = Context("key", header.task, header.session, header.sender, receiver, header.dealer)
            yield header, encryption.unseal(world[receiver].session_key, body, context)


def leaks(strings: Iterable[bytes], secrets: Mapping[str, Windows]) -> list[str]:
    there = windows(strings)
    return [name for name, secret in secrets.items() if np.isin(secret, there).any()]


@pytest.fixture(params=[(2, None), (3, None), (3, "coordinator"), (4, None)], ids=str)
def world(request: pytest.FixtureRequest, folder: Path) -> JointWorld:
    count, dealer = request.param
    made = JointWorld(folder, joint_spec(count, rows=24, dealer=dealer))
    made.run(order=made.schedule.parties)
    return made


def test_nothing_of_a_column_is_in_the_record(world: JointWorld) -> None:
    record = [*world.post.record(), *world.office.received]
    assert sum(map(len, record)) > 5000
    for name in world.sites:
        secrets = forms(world, name)
        assert len(secrets) > 15
        assert leaks(record, secrets) == []


def test_it_would_be_found_if_it_were(world: JointWorld) -> None:
    """One word of any form among the recorded bytes, at any offset."""
    secrets = forms(world, "b")
    words_ = {name: secret[len(secret) // 4].astype("<u8").tobytes() for name, secret in secrets.items()}
    hidden = [b"x" * (place % 8) + word + b"." for place, word in enumerate(words_.values())]
    assert leaks([*world.post.record(), *hidden], secrets) == list(secrets)


def test_nothing_that_stays_at_a_hospital_is_in_its_neighbours_folder(world: JointWorld) -> None:
    for name in world.sites:
        others = [site for site in world.sites.values() if site.name != name]
        files = [path.read_bytes() for site in others for path in (site.folder / "joint").rglob("*") if path.is_file()]
        assert leaks(files, forms(world, name)) == []


def test_every_file_of_columns_has_a_key_of_its_own(world: JointWorld) -> None:
    keys = {("columns", header.sender, header.dealer): key for header, key in content_keys(world)}
    assert set(keys) == columns_expected(world.schedule)
    assert len(set(keys.values())) == len(keys)


def test_a_dealer_holds_no_columns_under_its_mask(world: JointWorld) -> None:
    """Not even sealed: neither they nor their keys list it as a receiver, and none was handed to it."""
    given = [message.header for _, message, _ in world.post.given if message.header.kind in {"columns", "key"}]
    assert given
    for dealer in {pair.dealer for pair in world.schedule.pairs}:
        assert [header for header in given if header.dealer == dealer and dealer in header.receivers] == []
        handed = [header for party, header, _ in world.post.handed if party == dealer]
        assert [header.kind for header in handed if header.dealer == dealer and header.kind != "deal"] == []
    if world.schedule.pairs[0].dealer == "":
        assert all(b'"kind":"hello"' in data for data in world.office.received)


def test_a_dealers_own_disk_never_held_the_seeds_that_it_dealt(folder: Path) -> None:
    world = JointWorld(folder, joint_spec(3))
    world.run(order=world.schedule.parties)
    for name in world.sites:
        for dealer, dealt in world[name].dealt().items():
            files = [path.read_bytes() for path in world[dealer].folder.rglob("*") if path.is_file()]
            assert leaks(files, {"seed": words(dealt.mask)}) == []


def whole_bytes(elements: Windows) -> bytes:
    """The lower 7 bytes of each; the highest has five bits."""
    return np.ascontiguousarray(elements).view(np.uint8).reshape(-1, 8)[:, :7].tobytes()


def spread(data: bytes) -> float:
    """Chi-square of the bytes against all being equally frequent, in standard deviations above its mean."""
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=BINS)
    expected = len(data) / BINS
    return float(((counts - expected) ** 2 / expected).sum() - (BINS - 1)) / float(np.sqrt(2 * (BINS - 1)))


def opened_by_peers(world: JointWorld, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Windows]:
    """(receiver, sender) to the words that the receiver decrypted, while the session runs."""
    seen: dict[tuple[str, str], list[Windows]] = {}
    original = exchange_module.Exchange._columns

    def columns(self: Any, sender: str, dealer: str) -> Any:
        for chunk in original(self, sender, dealer):
            seen.setdefault((self.party, sender), []).append(chunk.copy())
            yield chunk

    with monkeypatch.context() as patch:
        patch.setattr(exchange_module.Exchange, "_columns", columns)
        world.run(order=world.schedule.parties)
    return {pair: np.vstack(chunks) for pair, chunks in seen.items()}


def test_what_peers_decrypt_is_uniform(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unseeded: 12 standard deviations of a chi-square with 255 degrees of freedom are never seen."""
    world = JointWorld(folder, joint_spec(3, rows=600))
    seen = opened_by_peers(world, monkeypatch)
    assert set(seen) == {(one, other) for one in "abc" for other in "abc" if one != other}
    for (_, sender), opened in seen.items():
        plain = world.variables(sender).astype(np.int64)
        assert spread(plain.tobytes()) > 100
        assert spread(whole_bytes(opened)) < 12
        assert spread(whole_bytes(FIELD.subtract(opened[:, 1:], opened[:, :-1]))) < 12  # no two columns share a mask
        assert not np.isin(FIELD.elements(plain), opened).any()


def test_two_tables_under_one_seed_differ_by_their_difference_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pad is a function of the seed and not of the data, so that whoever lacks the seed learns nothing of either."""
    drawn: dict[str, Any] = {dealer: deal(schedule_of(joint_spec(3)), dealer) for dealer in "abc"}
    monkeypatch.setattr(exchange_module, "deal", lambda schedule, dealer, *more: drawn[dealer])
    opened, tables = [], []
    for seed in (1, 2):
        world = JointWorld(folder / str(seed), joint_spec(3))
        world["a"].table = random_rows(world.spec, "a", seed)
        opened.append(opened_by_peers(world, monkeypatch))
        tables.append(FIELD.elements(code(world["a"].table.codes, world["a"].table.columns)))
    for receiver in "bc":
        difference = FIELD.subtract(opened[1][receiver, "a"], opened[0][receiver, "a"])
        assert (difference == FIELD.subtract(tables[1], tables[0])).all()
        assert (opened[1]["a", receiver] == opened[0]["a", receiver]).all()

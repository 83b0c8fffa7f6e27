"""Streams at the office: the first checkpoint from a request, later ones from the last that was published."""

from __future__ import annotations

import json
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from coordinator.authority.authority import Authority
from coordinator.cli.main import main
from coordinator.lifecycle import Approved, Cancelled, PublicationAuthorized, PublicationReported
from coordinator.proposals.proposals import propose_next
from coordinator.service.witness import left, statement
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.errors import Conflict, InvalidInput, NotFound
from dprelease.release.accounting import guarantee
from tests.coordinator.office import BATCH as ROWS
from tests.coordinator.office import NOW, RUN_TIME, STUDY, Office, batches, catalogue, grow

STREAM: dict[str, Any] = {"mechanism": "stream", "of": "moments", "checkpoints": 3, "grid_bits": 14}


@pytest.fixture
def office(office: Office) -> Office:
    grow(office, 1)
    return office


def end(office: Office, release: Agreement, *, published: bool = True, approved: bool = True) -> None:
    """Let a release go its way."""
    with office.store.writing() as tx:
        for party in release.record.parties if approved else ():
            signed = office.approval(release.read_spec(), party).to_bytes()
            tx.releases.advance(release.digest, Approved(party), NOW, signed)
        events = (
            (PublicationAuthorized(), PublicationReported("ab" * 32))
            if published
            else (Cancelled("a hospital is away"),)
        )
        for event in events:
            tx.releases.advance(release.digest, event, NOW)


def following(office: Office, release: Agreement, seconds: int = 1, **how: Any) -> Agreement:
    now = NOW + timedelta(seconds=seconds)
    return propose_next(office.store, release.digest[:8], RUN_TIME, now, **how)[0]


def test_a_request_is_of_the_first_batch_whatever_else_is_in_the_tables(office: Office) -> None:
    spec = office.propose(**STREAM).read_spec()
    assert (spec.rows, spec.alignment) == (ROWS, batches(1)[0].alignment)


def test_the_next_checkpoint_is_the_stream_with_the_next_batch(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    second = following(office, first)
    old, new = first.read_spec(), second.read_spec()
    terms: Any = new.terms
    assert (new.rows, new.alignment) == (ROWS, batches(2)[0].alignment)
    assert (terms.first, terms.previous, terms.past) == (first.digest, first.digest, (1,))
    assert (
        new.model_copy(update={key: getattr(old, key) for key in ("alignment", "terms", "created", "expires")}) == old
    )
    assert second.record.joint == first.record.joint
    end(office, second)
    grow(office, 1, 2, 3)
    terms = following(office, first, 2).read_spec().terms
    assert (terms.first, terms.previous, terms.past) == (first.digest, second.digest, (1, 2))


def test_a_stream_counts_once(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    end(office, following(office, first))
    price = guarantee(first.read_spec())
    with office.store.reading() as tx:
        found = statement(office.store, tx, Authority.found("Trio", NOW), "north", NOW).statement.charges
        member = tx.members.find("north")
        assert member is not None
        assert left(tx, "north", "cohort") == member.cap_mu2 - price.party("north").mu2
    assert [Fraction(each.mu2) for each in found] == [price.party("north").mu2, 0]
    assert [Fraction(each.exposure) for each in found] == [price.party("north").exposure, 0]


def test_a_checkpoint_may_be_proposed_again_in_the_same_second(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    digests = set()
    for _ in range(3):
        again = following(office, first)
        digests.add(again.digest)
        end(office, again, published=False, approved=False)
    assert len(digests) == 3


@pytest.mark.parametrize("approved", [True, False])
def test_a_checkpoint_that_failed_is_spent_once_all_had_approved_it(office: Office, approved: bool) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2, 3)
    end(office, following(office, first), published=False, approved=approved)
    terms: Any = following(office, first, 2).read_spec().terms
    assert (terms.checkpoint, terms.previous) == (3 if approved else 2, first.digest)


def test_a_batch_may_be_left_out_for_good(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 3)
    with pytest.raises(InvalidInput, match=r"batch 2 is not there yet at north, south \(north has 2, the last is 3; "):
        following(office, first)
    third = following(office, first, number=3)
    end(office, third)
    grow(office, 1, 2, 3)
    for number in (2, 3):
        with pytest.raises(
            InvalidInput, match=rf"checkpoint {number} was published or approved by all before.*next is 4"
        ):
            following(office, first, number=number)
    for there in ((1, 2, 3), (1, 2, 3, 4)):
        grow(office, *there)
        with pytest.raises(InvalidInput, match="the stream has 3 checkpoints, so there is no checkpoint 4"):
            following(office, first)


def test_what_cannot_be_proposed_is_refused_in_one_sentence(office: Office) -> None:
    office.report(catalogue("north"), catalogue("south"))
    with pytest.raises(
        InvalidInput, match=r"batch 1 is not there yet at north, south \(north has none: its party.toml"
    ):
        office.propose(**STREAM)
    alone = office.propose()
    grow(office, 1)
    with pytest.raises(InvalidInput, match="is no checkpoint of a stream; it stands alone"):
        following(office, alone)
    with pytest.raises(NotFound):
        propose_next(office.store, "0000", RUN_TIME, NOW)
    first = office.propose(**STREAM)
    with pytest.raises(
        Conflict, match=rf"checkpoint 1 of 'Age and glucose' is open, {first.digest[:12]}: waits for north"
    ):
        following(office, first)
    end(office, first, published=False)
    with pytest.raises(Conflict, match="has no published checkpoint to go on from; propose a new one"):
        following(office, first)


def test_parties_that_do_not_have_the_same_batch_are_named(office: Office) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2, parties=("north",))
    with pytest.raises(InvalidInput, match=r"batch 2 is not there yet at south \(south has 1, the last is 1\)"):
        following(office, first)
    grow(office, 1, 2, parties=("south",), who=b"others")
    with pytest.raises(InvalidInput, match=r"not the same patients in the same order: north \| south"):
        following(office, first)
    grow(office, 1, 2, parties=("south",), rows=ROWS - 1)
    with pytest.raises(InvalidInput, match="numbers of rows differ: north 400, south 399"):
        following(office, first)


def test_a_stream_ends_with_a_partys_key(office: Office, store: Store) -> None:
    first = office.propose(**STREAM)
    end(office, first)
    grow(office, 1, 2)
    with store.writing() as tx:
        tx.members.revoke("south", NOW)
    with pytest.raises(InvalidInput, match="south was revoked"):
        following(office, first)
    office.enrol("south")
    with pytest.raises(InvalidInput, match="south has another key than when the stream began"):
        following(office, first)


def test_more_patients_than_there_is_room_for(office: Office) -> None:
    first = office.propose(**STREAM, most_rows=ROWS + 1)
    end(office, first)
    grow(office, 1, 2)
    with pytest.raises(InvalidInput, match="room for 401 patients, and with 400 new ones there would be 800"):
        following(office, first)


def test_the_commands(opened: Office, tmp_path: Path) -> None:
    grow(opened, 1)
    request = tmp_path / "stream.toml"
    keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in STREAM.items())
    request.write_text(f"{keys}\n{STUDY}")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["release", *arguments])
        assert result.exit_code == 0, result.output
        assert "pay twice" not in result.output
        return result.stdout

    made = json.loads(run("create", str(request), "--json"))
    digest = made["digest"]
    most = 2 * 3 * ROWS
    assert made["plan"].startswith(f"One release of all {most} patients that the stream has room for: p = ")
    assert f"of n = {most}" in made["plan"]
    assert f" As a stream of up to 3 checkpoints, the first of {ROWS} patients, noise is " in made["plan"]
    assert f"n = {ROWS} at this checkpoint, mechanism stream" in run("show", digest)
    end(opened, opened.release(digest))
    grow(opened, 1, 2)
    made = json.loads(run("next", digest[:8], "--json"))
    assert (made["stream"], made["checkpoint"], made["rows"]) == (digest, 2, ROWS)
    assert {Fraction(mu2) for mu2 in made["charged_mu2"].values()} == {0}
    assert f"Age and glucose (checkpoint 2 of stream {digest[:12]})\nstate        PROPOSED" in run(
        "show", made["digest"]
    )
    assert f"(checkpoint 1 of stream {digest[:12]})" in run("list")
    refused = CliRunner().invoke(main, ["release", "next", digest[:8]])
    assert refused.exit_code == 15
    assert "checkpoint 2 of 'Age and glucose' is open" in refused.output

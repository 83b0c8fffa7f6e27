"""What no stream is, and what is no checkpoint of one: each refused in a sentence, by whoever meets it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dprelease.errors import InvalidInput, SpecRefused
from dprelease.mechanisms.base import StreamState
from dprelease.mechanisms.registry import mechanism_of, read_options
from dprelease.privatization import privatize
from dprelease.release.accounting import check_spec
from dprelease.release.spec import ReleaseSpec
from tests.support.noise import RecordingNoise
from tests.support.specs import build_spec, numeric, random_rows, with_terms
from tests.support.streams import Hospitals, first_spec, following

COLUMNS = {"north": (numeric("age"), numeric("dose")), "south": (numeric("glucose"),)}
BASE = build_spec(COLUMNS, rows=30)
SHOWN = {"north": (numeric("age"), numeric("dose", public=True)), "south": (numeric("glucose"),)}


def first(**options: Any) -> ReleaseSpec:
    return first_spec(BASE, **{"of": "mixed", "checkpoints": 3, **options})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"of": "mixed", "checkpoints": 0}, "has 1 to 4096 checkpoints, not 0"),
        ({"of": "mixed", "checkpoints": 4097}, "has 1 to 4096 checkpoints, not 4097"),
        ({"of": "rows", "checkpoints": 2}, "a stream is of mixed or moments, not of 'rows'"),
        ({"checkpoints": 2}, "of: is missing"),
        ({"of": "mixed", "checkpoints": 2, "collusion_threshold": 1}, "a stream of 'mixed' has no collusion_threshold"),
        ({"of": "moments", "checkpoints": 2, "k": 1}, "a stream of 'moments' has no k"),
        (
            {"of": "mixed", "checkpoints": 2, "factor": "weighted"},
            "do not say how many checkpoints they have; leave out either",
        ),
        ({"of": "mixed", "factor": "tree", "most_rows": 9}, "say it, or leave out factor"),
        ({"of": "mixed"}, "how many patients it has at most"),
        ({"of": "mixed", "checkpoints": 2, "k": "many"}, "k: "),
        ({"of": "mixed", "checkpoints": 2, "mixing": "buckets"}, "a stream has no buckets"),
    ],
)
def test_a_request_that_is_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:
        read_options("stream", options)
    assert words in str(error.value)


def test_a_request_that_asks_for_what_streams_have_not() -> None:
    with pytest.raises(InvalidInput, match="leave out dose"):
        first_spec(build_spec(SHOWN, rows=30, guarantee="mixed"), of="mixed", checkpoints=2)
    with pytest.raises(InvalidInput, match="leave out outcomes"):
        first(of="moments", outcomes=["age"])
    with pytest.raises(InvalidInput, match="room for 20 patients, and the first checkpoint has 30"):
        first(most_rows=20)
    with pytest.raises(ValueError, match="no first round of ranges; name the folder"):
        first(of="moments", ranges="first")


def test_a_checkpoint_that_cannot_be() -> None:
    spec = first(most_rows=100)
    for number, rows, words in (
        (1, 5, "checkpoint 1 cannot follow checkpoint 1"),
        (0, 5, "checkpoint 0 cannot follow"),
        (4, 5, "the stream has 3 checkpoints, so there is no checkpoint 4; propose a new stream"),
        (2, 71, "room for 100 patients, and with 71 new ones there would be 101"),
    ):
        with pytest.raises(InvalidInput, match=words):
            spec.terms.following(spec, number, rows)
    assert spec.terms.following(spec, 3, 70).used == (1, 3)


def test_a_stream_mixes_with_signs_however_large_it_is() -> None:
    spec = first(k=1000, most_rows=10**7, mixing="bernoulli")
    assert first(k=1000, most_rows=10**7) == spec
    mixing = spec.terms.of.mixing.model_copy(update={"kind": "buckets"})
    false = with_terms(spec, of=spec.terms.of.model_copy(update={"mixing": mixing}))
    with pytest.raises(SpecRefused, match="a stream has no buckets"):
        check_spec(false)


LIES = {
    "another predecessor": ({"previous": "ab" * 32}, "does not name the checkpoint before it"),
    "another stream": ({"first": "ab" * 32}, "another stream's first"),
    "another history": ({"history": [{"checkpoint": 1, "rows": 29}]}, "has another history"),
    "more room": ({"most_rows": 10**6}, "changes what the stream's first one fixed: most_rows"),
    "more checkpoints": ({"checkpoints": 9}, "fixed: checkpoints"),
    "another factor": ({"factor": "tree"}, "fixed: factor"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_checkpoint_that_does_not_follow(name: str) -> None:
    lie, words = LIES[name]
    spec = first()
    data = following(spec, 20).model_dump(mode="json")
    false = ReleaseSpec.model_validate_json(json.dumps(data | {"terms": data["terms"] | lie}))
    with pytest.raises(SpecRefused, match=words):
        false.terms.check_follows(false, spec)


@pytest.mark.parametrize("field", ["title", "target", "grid_bits", "rows_per_subject", "roster"])
def test_everything_else_stays(field: str) -> None:
    spec, other = first(), build_spec(COLUMNS, epsilon=2.0, grid_bits=12, rows_per_subject=2, title="other")
    later = following(spec, 20)
    value = "another" if field == "roster" else getattr(other, field)
    with pytest.raises(SpecRefused, match=f"fixed: {field}"):
        later.terms.check_follows(later.model_copy(update={field: value}), spec)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"previous": None}, "numbered? 1; every later one names the first|number 1; every later one"),
        ({"history": []}, "number 1; every later one"),
        ({"checkpoint": 1}, "number 1; every later one"),
        ({"checkpoint": 4}, "the stream has 3 checkpoints, and this would be number 4"),
        ({"history": [{"checkpoint": 2, "rows": 30}]}, "numbered upwards from 1"),
        ({"history": [{"checkpoint": 1, "rows": 3000}]}, "room for 180 patients, and with these there would be 3020"),
        ({"checkpoints": None}, "'weighted' is for streams that do not say"),
        ({"of": {"mechanism": "rows"}}, "a stream is of mixed or moments"),
    ],
)
def test_terms_that_are_none(lie: dict[str, Any], words: str) -> None:
    data = following(first(), 20).model_dump(mode="json")
    with pytest.raises(ValueError, match=words):
        ReleaseSpec.model_validate_json(json.dumps(data | {"terms": data["terms"] | lie}))


def test_integers_that_could_leave_their_range_count_the_weights_and_all_patients() -> None:
    fine = build_spec(COLUMNS, rows=30, grid_bits=16)
    check_spec(first_spec(fine, of="mixed", checkpoints=3, most_rows=1 << 24))
    with pytest.raises(SpecRefused, match=r"2\^53; lower grid_bits"):
        check_spec(first_spec(fine, of="mixed", checkpoints=3, most_rows=1 << 25))
    check_spec(first_spec(fine, of="mixed", checkpoints=3, most_rows=1 << 35, factor="tree"))
    most = first_spec(fine, of="moments", checkpoints=3, most_rows=1 << 15)
    check_spec(most)
    with pytest.raises(SpecRefused, match=r"2\^60 and wrap; lower grid_bits"):
        check_spec(with_terms(most, most_rows=1 << 16))


def test_nothing_is_drawn_where_what_was_kept_does_not_fit() -> None:
    hospitals = Hospitals(first())
    hospitals.publish(RecordingNoise())
    spec = following(hospitals.spec, 20)
    rows, own = random_rows(spec, "north"), hospitals.increments["north"]
    kept = StreamState(own, hospitals.blocks["north"].values)
    for wrong, words in (
        (replace(kept, increments={}), "nothing is kept of checkpoint 1"),
        (replace(kept, increments={1: own[1][:, :1]}), "another shape"),
        (replace(kept, sent=None), "not the one that was kept"),
        (replace(kept, sent=kept.sent[:-1]), "not the one that was kept"),  # type: ignore[index]
    ):
        noise = RecordingNoise()
        with pytest.raises(InvalidInput, match=words):
            privatize(rows, spec, "north", noise, kept=wrong)
        assert noise.draws == []


def test_later_checkpoints_cost_nothing_and_say_what_the_stream_reveals() -> None:
    spec = first()
    later = following(spec, 20)
    once, again = check_spec(spec), check_spec(later)
    assert all(part.mu2 for part in once.parties)
    assert not any(part.mu2 for part in again.parties)
    assert again.joint_epsilon == once.joint_epsilon
    assert [part.exposure for part in again.parties] == [part.exposure for part in once.parties]
    assert again.against({"north"}) == once.against({"north"}) > 0
    assert "nothing private" not in " ".join(again.words())
    words = mechanism_of(later).statements(later)
    assert "nothing is charged" in " ".join(words.details)
    assert words.would_publish.startswith("checkpoint 2 of 3 of a stream, 20 new patients: ")
    assert "up to 50 patients" in words.would_publish or "all 50 patients" in words.would_publish

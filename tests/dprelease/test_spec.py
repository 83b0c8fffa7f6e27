"""The release spec: what it refuses, what it derives, and its identity."""

import pytest
from pydantic import TypeAdapter, ValidationError

from dprelease.canonical import Value
from dprelease.errors import InvalidInput
from dprelease.release.spec import ReleaseSpec, Sequence
from dprelease.spec_base import PartyColumns, Target
from tests.support.specs import TWO_PARTIES, build_spec, categorical, numeric

SPEC = build_spec()


def changed(**changes: object) -> ReleaseSpec:
    return ReleaseSpec.model_validate({**dict(SPEC), **changes})


def termed(spec: ReleaseSpec = SPEC, **changes: object) -> dict[str, object]:
    """The fields of a spec with other values of its mechanism's own."""
    return {"terms": {**spec.terms.model_dump(mode="json"), **changes}}


def plain(value: Value) -> object:
    return value.model_dump(mode="json")


NOISE = [plain(noise) for noise in SPEC.terms.noise]


def test_weights_are_left_out_of_canonical_bytes_where_all_are_1() -> None:
    assert b"weights" not in SPEC.to_bytes()
    assert build_spec(weights={"age": 1}).to_bytes() == SPEC.to_bytes()
    weighed = build_spec(weights={"sex": 2})
    assert b'"weights":[1,2]' in weighed.to_bytes()
    assert ReleaseSpec.from_bytes(weighed.to_bytes()) == weighed
    assert (weighed.weights, SPEC.weights) == ({"sex": 2}, {})
    with pytest.raises(InvalidInput, match="one weight for each column, or none"):
        ReleaseSpec.from_bytes(weighed.to_bytes().replace(b'"weights":[1,2]', b'"weights":[1,1]'))
    with pytest.raises(InvalidInput, match=r"parties\.0\.weights does not belong there"):
        ReleaseSpec.from_bytes(weighed.to_bytes().replace(b'"weights":[1,2]', b'"weights":[]'))


@pytest.mark.parametrize("weights", [(1,), (2, 1, 1), (1, 1), (0, 2), (17, 1), (2.0, 1), (True, 2)])
def test_weights_that_fit_no_columns_are_refused(weights: tuple[object, ...]) -> None:
    data = SPEC.parties[0].model_dump() | {"columns": SPEC.parties[0].columns, "weights": weights}
    with pytest.raises(ValidationError, match="weight"):
        PartyColumns.model_validate(data)


def test_public_columns_and_joint_moments_have_no_weights() -> None:
    seen = {"north": (numeric("age", public=True), numeric("bmi")), "south": (numeric("glucose"),)}
    assert build_spec(seen, weights={"bmi": 2}).weights == {"bmi": 2}
    with pytest.raises(ValidationError, match="a public column gets no noise"):
        build_spec(seen, weights={"age": 2})
    with pytest.raises(ValidationError, match="'moments' has no weights"):
        build_spec(mechanism="moments", weights={"age": 2})


def test_a_bucket_has_twenty_patients_however_many_rows_each_has() -> None:
    build_spec(rows=300, outputs=3, mixing="buckets", rows_per_subject=5)
    with pytest.raises(ValidationError, match="fewer than 20 patients in a bucket"):
        build_spec(rows=299, outputs=3, mixing="buckets", rows_per_subject=5)


@pytest.mark.parametrize("subject_rows", [1, 2, 5])
def test_sensitivity_counts_weights_squared(subject_rows: int) -> None:
    spec = build_spec(rows_per_subject=subject_rows, grid_bits=10, weights={"age": 3, "glucose": 2})
    assert spec.terms.squared_sensitivity(spec, "north") == (9 * 4 + 2) * subject_rows**2 * 1024**2
    assert spec.terms.squared_sensitivity(spec, "south") == 4 * 4 * subject_rows**2 * 1024**2


@pytest.mark.parametrize("subject_rows", [1, 2, 5])
def test_sensitivity_is_recomputed_from_declared_bounds(subject_rows: int) -> None:
    spec = build_spec(rows_per_subject=subject_rows, grid_bits=10)
    assert spec.terms.squared_sensitivity(spec, "north") == (4 + 2) * subject_rows**2 * 1024**2
    assert spec.terms.squared_sensitivity(spec, "south") == 4 * subject_rows**2 * 1024**2
    apart = build_spec(rows_per_subject=subject_rows, grid_bits=10, mechanism="rows")
    assert apart.terms.squared_sensitivity(apart, "north") == (4 + 2) * subject_rows * 1024**2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (termed(mixing=None, anchor_weight="0"), "mixing: Input should be a valid dictionary"),
        (termed(mechanism="rows"), "mixing: Extra inputs are not permitted"),
        (termed(anchor_weight="1"), "anchor_weight must lie"),
        (termed(anchor_weight="-1/10"), "anchor_weight must lie"),
        (termed(anchor_weight="0"), "anchor scale is given exactly"),
        (termed(noise=termed(build_spec(anchor_weight="0"))["terms"]["noise"]), "anchor scale is given exactly"),
        (termed(noise=NOISE[:1]), "same parties"),
        (termed(noise=NOISE[::-1]), "same parties"),
        ({"parties": SPEC.parties[::-1]}, "same parties"),
        ({"parties": SPEC.parties[:1] * 2, **termed(noise=NOISE[:1] * 2)}, "must be distinct"),
        ({"parties": (), **termed(noise=[])}, "parties"),
        (termed(mixing={"outputs": 41, "seed": "0" * 64}), "more mixing rows than patients"),
        ({"rows": 7}, "more mixing rows than patients"),
        (termed(mixing={"kind": "buckets", "outputs": 3, "seed": "0" * 64}), "fewer than 20 patients in a bucket"),
        (termed(mixing={"kind": "sparse", "outputs": 3, "seed": "0" * 64}), "'bernoulli' or 'buckets'"),
        ({"rows": 0}, "rows"),
        ({"rows_per_subject": 0}, "rows_per_subject"),
        ({"grid_bits": 0}, "grid_bits"),
        ({"grid_bits": 25}, "grid_bits"),
        ({"title": ""}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"neighbours": "add-remove"}, "neighbours"),
        (termed(mechanism="moments"), "mixing: Extra inputs are not permitted"),
        (termed(mechanism="sums"), "terms name a mechanism: one of mixed, rows, ranges, synthetic-control, moments"),
        ({"format": 2}, "format"),
        ({"alignment": "ab"}, "alignment"),
        ({"alignment": "A" * 64}, "alignment"),
        ({"created": "2026-03-01 12:00:00"}, "created"),
        ({"created": "2026-03-01T12:00:00+00:00"}, "created"),
        ({"expires": "2026-03-01T12:00:00.5Z"}, "expires"),
        ({"expires": "2026-13-45T99:99:99Z"}, "expires"),
        ({"created": "٢026-03-01T12:00:00Z"}, "created"),
        ({"comment": "hello"}, "comment"),
    ],
)
def test_specs_without_sense_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        changed(**changes)


def test_rows_have_no_anchor() -> None:
    with pytest.raises(ValidationError, match="be 0 but for mechanism 'mixed'"):
        build_spec(mechanism="rows", anchor_weight="1/10")


JOINT = build_spec(mechanism="moments")
THREE = build_spec({**TWO_PARTIES, "west": (categorical("smoker", "yes"),)}, mechanism="moments")
ALONE = build_spec({"a": (numeric("x"),)}, mechanism="moments")


def _joint(spec: ReleaseSpec = JOINT, **changes: object) -> dict[str, object]:
    return {**dict(spec), **termed(spec, **changes)}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({**dict(JOINT), "terms": None}, "terms name a mechanism"),
        ({**dict(JOINT), "terms": {"mechanism": "moments"}}, "curious: Field required"),
        (_joint(SPEC, curious=1), "curious: Extra inputs are not permitted"),
        (_joint(build_spec(mechanism="rows"), mu2="1/100"), "mu2: Extra inputs are not permitted"),
        (_joint(mixing=plain(SPEC.terms.mixing)), "mixing: Extra inputs are not permitted"),
        (_joint(anchor_weight="1/10"), "anchor_weight: Extra inputs are not permitted"),
        (_joint(noise=NOISE), "noise: Extra inputs are not permitted"),
        (_joint(noise=[]), "noise: Extra inputs are not permitted"),
        ({**dict(JOINT), "target": Target(scope="per-party", epsilon=1.0, delta=1e-5)}, "scope 'joint'"),
        (_joint(curious=0), "curious must lie between 1 and 1"),
        (_joint(curious=2), "curious must lie between 1 and 1"),
        (_joint(dealer="none"), "needs three parties"),
        (_joint(dealer="rotating"), "needs three parties"),
        (_joint(THREE, curious=0), "curious must lie between 1 and 2"),
        (_joint(THREE, curious=3), "curious must lie between 1 and 2"),
        (_joint(THREE, curious=2), "needs three parties and curious = 1"),
        (_joint(THREE, dealer="none"), "needs three parties"),
        (_joint(ALONE, curious=1), "one party alone"),
        (_joint(ALONE, dealer="coordinator"), "one party alone"),
    ],
)
def test_moments_without_sense_are_refused(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        ReleaseSpec.model_validate(fields)


@pytest.mark.parametrize(
    "change",
    [
        {"curious": -1},
        {"curious": True},
        {"dealer": "hub"},
        {"mu2": "0.1"},
        {"scale": 0.0},
        {"scale": float("inf")},
        {"diagonal_scale": -1.0},
    ],
)
def test_parameters_of_moments_without_sense_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ReleaseSpec.model_validate(_joint(**change))


def test_two_parties_may_not_share_a_key() -> None:
    parts = tuple(part.model_copy(update={"key": "0" * 64}) for part in SPEC.parties)
    with pytest.raises(ValidationError, match="must be distinct"):
        changed(parties=parts)


@pytest.mark.parametrize("columns", [(numeric("age"),), (categorical("sex", "female"),), (numeric("sex"),)])
def test_two_parties_may_not_use_the_same_name(columns: tuple[object, ...]) -> None:
    with pytest.raises(ValidationError, match="must be distinct across parties"):
        build_spec({**TWO_PARTIES, "west": columns})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "other",
    [
        {"title": "another"},
        {"rows": 41},
        {"outputs": 9},
        {"epsilon": 1.1},
        {"delta": 1e-6},
        {"scope": "per-party"},
        {"grid_bits": 11},
        {"rows_per_subject": 2},
        {"seed": bytes(32)},
        {"anchor_weight": "1/5"},
        {"mechanism": "rows"},
        {"mechanism": "moments"},
        {"keys": {"north": "1" * 64, "south": "2" * 64}},
        {"parties": dict(reversed(list(TWO_PARTIES.items())))},
    ],
)
def test_any_difference_is_another_release(other: dict[str, object]) -> None:
    assert build_spec(**other).digest() != SPEC.digest()  # type: ignore[arg-type]


def test_the_digest_is_kept_out_of_bytes_and_equality_and_copies_have_their_own() -> None:
    asked, fresh = build_spec(), build_spec()
    digest = asked.digest()
    assert (asked.digest(), asked.to_bytes(), asked) == (digest, fresh.to_bytes(), fresh)
    other = asked.model_copy(update={"title": "another"})
    assert other.digest() == build_spec(title="another").digest() != digest
    assert ReleaseSpec.from_bytes(asked.to_bytes()).digest() == asked.model_copy().digest() == digest


def test_bytes_of_another_thing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not a valid ReleaseSpec"):
        ReleaseSpec.from_bytes(SPEC.target.to_bytes())


@pytest.mark.parametrize("number", [-1, 1 << 32, "0", 1.5])
def test_no_other_number_is_a_sequence_number(number: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Sequence).validate_python(number, strict=True)

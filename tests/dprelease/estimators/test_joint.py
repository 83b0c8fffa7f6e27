"""The joint distribution of all columns: known tables come back, noise is averaged out, and what cannot be fitted is refused."""

import numpy as np
import pytest
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from benchmarks.common.moment_releases import both_rounds, bounded
from dprelease.data.bounding import BoundedRows
from dprelease.data.columns import CategoricalColumn, Column, NumericColumn, OrderedColumn
from dprelease.errors import InvalidInput
from dprelease.estimators.joint.coding import REACH, Attribute, Entries
from dprelease.estimators.joint.derived import possible_rows, ties
from dprelease.estimators.joint.fit import fit_joint, joint_of, refits
from dprelease.estimators.joint.model import Joint
from dprelease.mechanisms.moments.entries import Layout
from dprelease.mechanisms.moments.released import NoisyMoments
from dprelease.privacy.public_stream import PublicNormals
from tests.dprelease.analyses.releases import category, released
from tests.dprelease.estimators.moments import MIXED, mixed_rows, noisy_moments
from tests.dprelease.estimators.outcome_only import outcome_only_of, sides
from tests.dprelease.estimators.public import declared, moments_of, table
from tests.support.noise import ZeroNoise
from tests.support.rounds import made_alone, ranges_first
from tests.support.specs import build_spec, categorical, numeric
from tests.support.streams import Hospitals, first_spec

SEED = bytes(32)
SIZES = (2, 3, 4, 5, 3, 2)


def closed(name: str, levels: int, *, public: bool = False) -> CategoricalColumn:
    """A category of so many values."""
    names = tuple(f"{name}{number}" for number in range(levels))
    return CategoricalColumn(name=name, levels=names, exhaustive=True, fill=names[0], public=public)


COLUMNS: tuple[Column, ...] = tuple(closed(name, levels) for name, levels in zip("abcdef", SIZES, strict=True))


def patients(rows: int, *, independent: bool = False, seed: int = 5) -> np.ndarray:
    """(n, 6) values of columns that share a hidden group, or not."""
    generator = np.random.default_rng(seed)
    group = generator.integers(0, 3, rows)
    shares = [generator.dirichlet(np.full(size, 0.7), 3) for size in SIZES]
    found = [
        (generator.uniform(size=rows)[:, None] > np.cumsum(own, axis=1)[group][:, :-1]).sum(axis=1) for own in shares
    ]
    return np.column_stack([generator.permutation(each) if independent else each for each in found])


def coded(values: np.ndarray) -> np.ndarray:
    parts = [
        1.0 - 2.0 * own[:, None] if size == 2 else np.eye(size)[own] for own, size in zip(values.T, SIZES, strict=True)
    ]
    return np.hstack(parts)


def view(values: np.ndarray, sd: float, seed: int | None = 0) -> NoisyMoments:
    """Moments with noise of ``sd`` patients on every entry."""
    generator = None if seed is None else np.random.default_rng(seed)
    return noisy_moments(COLUMNS, coded(values), sd / len(values), generator)


def counts(values: np.ndarray, first: int, second: int) -> np.ndarray:
    cells = np.zeros((SIZES[first], SIZES[second]))
    np.add.at(cells, (values[:, first], values[:, second]), 1)
    return cells


def pairs() -> list[tuple[int, int]]:
    return [(first, second) for first in range(6) for second in range(first)]


def off(joint: Joint, values: np.ndarray) -> float:
    """Root mean square of what cells of two columns are off by, in patients."""
    cells = [len(values) * joint.table("abcdef"[i] + "abcdef"[j]) - counts(values, i, j) for i, j in pairs()]
    return float(np.sqrt(np.mean(np.concatenate([each.ravel() for each in cells]) ** 2)))


def test_exact_moments_give_back_all_tables_of_two_columns() -> None:
    values = patients(6000)
    assert off(fit_joint(view(values, 0.01, None), "intervals", SEED), values) < 3


def test_a_fit_is_nearer_to_the_truth_than_what_was_released() -> None:
    """A cell of two categories has noise of sd s; a fit for rows about halves it, though all columns hang together."""
    values = patients(6000)
    joint = fit_joint(view(values, 60), "rows", SEED)
    assert off(joint, values) < 31
    assert 0.4 < joint.residuals().chi2 < 1.1


def test_released_tables_and_their_noise_are_those_of_their_entries() -> None:
    values = patients(3000)
    exact = fit_joint(view(values, 40, None), "rows", SEED, components=2).entries
    away = []
    for seed in range(200):
        entries = Entries.of(view(values, 40, seed))
        for i, j in ((0, 5), (0, 2), (2, 3)):
            cells, noise = entries.released_table(i, j)
            away.append(float((((cells - counts(values, i, j)) / noise) ** 2).mean()))
    assert exact.released_table(0, 5)[0] == pytest.approx(counts(values, 0, 5))
    assert np.mean(away) == pytest.approx(1, abs=0.15)
    assert Entries.of(view(values, 0.0, None)).typical == 1
    assert exact.released_table(2, 3)[1] == pytest.approx(np.full((4, 5), 40.0))


def test_the_same_release_gives_the_same_rows_on_any_number_of_threads() -> None:
    moments = view(patients(3000), 40)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            joint = fit_joint(moments, "rows", SEED)
        found.append(joint.draw(500, PublicNormals(SEED)))
    assert (found[0] == found[1]).all()
    assert (fit_joint(moments, "rows", b"\1" * 32).shares != joint.shares).any()


def test_drawn_rows_have_the_shares_of_the_model() -> None:
    joint = fit_joint(view(patients(3000), 40), "rows", SEED)
    rows, n = joint.draw(20_000, PublicNormals(SEED)), 20_000
    expected = joint.table("bcd")
    cells = np.zeros(expected.shape)
    np.add.at(cells, tuple(rows[:, 1:4].T), 1)
    assert (np.abs(cells - n * expected) < 5 * np.sqrt(n * expected) + 5).all()
    assert expected.sum() == pytest.approx(1)


def combine(estimate: np.ndarray, error: float, refitted: list[np.ndarray]) -> np.ndarray:
    """The standard error that `refits` derives."""
    away = np.asarray(refitted) - estimate
    return np.sqrt(error**2 + (1 + 1 / len(away)) * (away**2).mean(axis=0))


def test_refits_say_how_far_noise_moves_a_quantity() -> None:
    """Over all cells of two columns, errors are about what the formula says, and never far more."""
    values = patients(4000)
    joint = fit_joint(view(values, 50), "intervals", SEED)
    again = refits(joint, 5, b"\2" * 32)
    assert (again[0].shares != again[1].shares).any()
    scores = []
    for i, j in pairs():
        names = ["abcdef"[i], "abcdef"[j]]
        away = joint.table(names) - counts(values, i, j) / 4000
        scores.append((away / combine(joint.table(names), 1e-4, [each.table(names) for each in again])).ravel())
    assert 0.1 < np.mean(np.square(np.concatenate(scores))) < 2


def test_a_level_that_nobody_has_gets_hardly_any_rows() -> None:
    values = patients(5000)
    values[values[:, 3] == 4, 3] = 0
    joint = fit_joint(view(values, 50), "rows", SEED)
    assert joint.table("d")[4] * 5000 < 2 * 50
    values[:, 0] = 0
    assert fit_joint(view(values, 50), "rows", SEED).table("a")[1] * 5000 < 2 * 50


def test_two_values_that_nobody_has_together_get_hardly_any_rows() -> None:
    values = patients(20_000)
    values[(values[:, 0] == 1) & (values[:, 3] == 0), 3] = 1
    shares = fit_joint(view(values, 50), "rows", SEED).table("ad")
    assert min(shares[1, 1], shares[0, 0]) * len(values) > 1000
    assert shares[1, 0] * len(values) < 2 * 50


def test_numbers_are_values_about_their_mean_and_scores_their_levels() -> None:
    rows = mixed_rows(4000)
    moments = noisy_moments(MIXED, rows, 0.002, np.random.default_rng(0))
    joint = fit_joint(moments, "rows", SEED)
    wide = joint.attribute("wide")
    mean = joint.table(["wide"]) @ np.array([float(each) for each in wide.values])
    lower, upper = wide.column.ends
    assert wide.scored
    assert 2 * (mean - wide.column.midpoint) / (upper - lower) == pytest.approx(rows[:, 0].mean(), abs=0.03)
    stage = OrderedColumn(name="stage", levels=("I", "II", "III"), fill="I")
    cells = np.array(["I", "II", "III"])[np.random.default_rng(1).integers(0, 3, 2000)]
    release = released((stage, category("sex", "f", "m")), {"stage": cells, "sex": np.full(2000, "f")}, 0.001, 2)
    found = joint_of(release, "rows")
    assert found.attribute("stage").values == ("I", "II", "III")
    assert np.isfinite(found.table(["stage", "sex"])).all()
    only = fit_joint(moments_of(table(3, 1), declared(0, 4), 0.002), "rows", SEED)
    assert np.isfinite(only.residuals().chi2)


def test_a_fit_starts_at_what_columns_show_by_themselves() -> None:
    """Shares of levels, and the density of a normal law within three deviations of a mean and within bounds."""
    rows = mixed_rows(4000)
    _, tight, smoker, ward, outcome = Entries.of(noisy_moments(MIXED, rows, 1e-6)).attributes
    assert smoker.start == pytest.approx([(rows[:, 2] == sign).mean() for sign in (1, -1)], abs=1e-3)
    assert ward.start == pytest.approx(rows[:, 3:7].mean(axis=0), abs=1e-3)
    assert tight.codes[0, [0, -1]] == pytest.approx([-1, rows[:, 1].mean() + REACH * rows[:, 1].std()], abs=1e-3)
    density = norm.pdf(outcome.codes[0], rows[:, 7].mean(), rows[:, 7].std())
    assert outcome.start == pytest.approx(density / density.sum(), abs=1e-3)


def test_numbers_in_ranges_are_read_in_their_units() -> None:
    """Bounds nobody knew: a first round publishes ranges, rows are clipped to them, and values come out as people know them."""
    generator, n = np.random.default_rng(0), 20_000
    age = generator.normal(50, 10, n)
    smoker = np.where(generator.uniform(size=n) < 1 / (1 + np.exp(-(age - 50) / 10)), "yes", "no")
    unbounded = NumericColumn.model_validate({"name": "age", "bounds": "unknown"})
    parties: dict[str, tuple[Column, ...]] = {"north": (unbounded,), "south": (category("smoker", "yes"),)}
    held = bounded({"age": age, "smoker": smoker.tolist()}, parties)
    moments, _ = both_rounds(held, 0.5, generator)
    joint = fit_joint(moments, "rows", SEED)
    cells = joint.table(["age", "smoker"])
    years = np.array([float(each) for each in joint.attribute("age").values])
    assert years @ cells.sum(axis=1) == pytest.approx(50, abs=0.5)
    assert years @ cells[:, 0] / cells[:, 0].sum() == pytest.approx(age[smoker == "yes"].mean(), abs=1)


def test_numbers_in_ranges_have_no_value_that_clipped_rows_cannot_have() -> None:
    """A waiting time lies at its lower bound, so that three deviations below its mean are beyond."""
    waits = np.minimum(np.random.default_rng(0).exponential(0.3, 2000) - 1, 1)
    columns = (numeric("waits"), categorical("smoker", "yes"))
    cells = np.column_stack([waits, np.tile([1, 0, 0, 1], 1000).reshape(-1, 2)])
    codes = np.rint(cells * 2.0**16).astype(np.int32)
    spec = ranges_first(build_spec({"clinic": columns}, mechanism="moments", grid_bits=16, rows=2000, epsilon=20.0))
    release = made_alone(spec, BoundedRows(codes, columns, 16), ZeroNoise())
    joint, (reach,) = joint_of(release, "rows"), release.reaches
    values = [float(each) for each in joint.attribute("waits").values]
    assert values[0] == reach.lower == -1
    assert values[-1] <= reach.upper + 1e-6
    assert values @ joint.table(["waits"]) == pytest.approx(waits.mean(), abs=0.02)


def test_products_that_are_not_released_stay_the_models() -> None:
    columns, outcomes = sides(2, 2)
    rows = np.clip(np.random.default_rng(3).normal(0, 0.3, (20_000, 4)), -1, 1)
    joint = fit_joint(outcome_only_of(rows, columns, outcomes, np.random.default_rng(4)), "rows", SEED)
    assert np.isinf(joint.entries.noise[3, 4])
    assert joint.entries.share == pytest.approx(10 / 12)
    assert np.isfinite(joint.table(["y0", "y1"])).all()


def test_a_checkpoint_of_a_stream_is_read_as_a_release() -> None:
    spec = build_spec({"north": COLUMNS[:3], "south": COLUMNS[3:]}, rows=900)
    release = Hospitals(first_spec(spec, of="moments", checkpoints=2)).publish(ZeroNoise())
    joint = joint_of(release, "rows")
    assert joint.patients == release.patients
    assert np.isfinite(joint.shares).all()


def test_what_no_table_can_be_told_from_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="noise hides every table"):
        fit_joint(view(patients(1), 30), "rows", SEED)
    wide = tuple(closed(name, 600) for name in ("x", "y"))
    layout = Layout(wide)
    size = len(layout.variables) + 1
    moments = NoisyMoments(layout, np.zeros((size, size)), np.ones((size, size)), 10_000)
    with pytest.raises(InvalidInput, match="up to 1000 values of all columns together, not 1200"):
        fit_joint(moments, "rows", SEED)
    joint = fit_joint(view(patients(3000), 30), "rows", SEED, components=1)
    assert joint.table("ab") == pytest.approx(np.outer(joint.table("a"), joint.table("b")))
    for names, words in (("aa", "each once"), ("", "at least one"), ("az", "not a column of this release: z")):
        with pytest.raises(InvalidInput, match=words):
            joint.table(names)
    monkeypatch.setattr("dprelease.estimators.joint.model.MOST_CELLS", 6)
    assert joint.table("ab").size == 6
    with pytest.raises(InvalidInput, match="2 x 4 cells is too large"):
        joint.table("ac")
    single = fit_joint(noisy_moments(COLUMNS[:1], coded(patients(900))[:, :1], 0.01), "rows", SEED)
    assert single.table("a").sum() == pytest.approx(1)


def test_rows_that_declarations_make_impossible_are_known() -> None:
    exits = CategoricalColumn(
        name="exit",
        levels=("event 0 to 1", "event 1 to 2", "left 0 to 1", "left 1 to 2", "followed to 2", "missing"),
        exhaustive=True,
        fill="missing",
        derivation="exit by followup and died at 1, 2",
    )
    columns = (
        exits,
        CategoricalColumn(name="event", levels=("yes",), derivation='died = "1"'),
        CategoricalColumn(name="stage", levels=("I", "II"), fill="II"),
        CategoricalColumn(name="late", levels=("yes",), derivation='stage = "II"'),
        CategoricalColumn(name="early", levels=("yes",), derivation='stage = "I"'),
        CategoricalColumn(name="cause", levels=("cancer", "heart"), derivation=""),
        CategoricalColumn(
            name="ended",
            levels=("cancer 0 to 1", "heart 0 to 1", "left 0 to 1", "followed to 1", "missing"),
            exhaustive=True,
            fill="missing",
            derivation='exit by followup and cause = "cancer" or "heart" at 1',
        ),
        CategoricalColumn(
            name="of_age",
            levels=("< 40", ">= 40", "missing"),
            exhaustive=True,
            fill="missing",
            derivation="age cut at 40",
        ),
        CategoricalColumn(name="no_age", levels=("yes",), derivation="age is missing"),
    )
    attributes = [
        Attribute(each, each.values, np.ones(len(each.values)), np.eye(len(each.values)), ()) for each in columns
    ]
    found = {
        (columns[tie.first].name, columns[tie.second].name): {
            (columns[tie.first].values[i], columns[tie.second].values[j]) for i, j in np.argwhere(~tie.possible)
        }
        for tie in ties(attributes)
    }
    assert found["exit", "event"] == {
        ("event 0 to 1", "other"),
        ("event 1 to 2", "other"),
        ("left 0 to 1", "yes"),
        ("left 1 to 2", "yes"),
    }
    # A missing stage is read as II, and what is derived from it as no.
    assert found["late", "stage"] == {("yes", "I"), ("yes", "other")}
    assert found["early", "stage"] == {("yes", "II"), ("yes", "other"), ("other", "I")}
    assert found["early", "late"] == {("yes", "yes")}
    assert ("cancer 0 to 1", "heart") in found["ended", "cause"]
    assert ("left 0 to 1", "cancer") in found["ended", "cause"]
    assert ("left 0 to 1", "other") not in found["ended", "cause"]
    assert ("followed to 1", "heart") not in found["ended", "cause"]
    assert found["no_age", "of_age"] == {("yes", "< 40"), ("yes", ">= 40"), ("other", "missing")}
    assert set(found) == {
        ("exit", "event"),
        ("late", "stage"),
        ("early", "stage"),
        ("early", "late"),
        ("ended", "cause"),
        ("no_age", "of_age"),
    }
    rows = np.array([[0, 0, 1, 0, 1, 2, 3, 0, 1], [0, 1, 1, 0, 1, 2, 3, 0, 1]])
    assert possible_rows(ties(attributes), rows).tolist() == [True, False]

"""The log-linear law: released pairs back, logistic coefficients that are maximum likelihood's, and errors that hold."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit
from scipy.stats import norm

from dprelease.analyses import Analysis, logistic
from dprelease.analyses.estimates import Estimates
from dprelease.data.columns import Column
from dprelease.errors import InvalidInput
from dprelease.estimators import log_linear
from dprelease.estimators.log_linear import MOST, THREE, LogLinear
from tests.dprelease.analyses.releases import category, number, released
from tests.dprelease.analyses.survey import anes
from tests.support.specs import categorical

LEVELS = ("a", "b", "c", "d")
COLUMNS: tuple[Column, ...] = (
    category("ill", "yes"),
    category("one", "yes"),
    categorical("two", *LEVELS[:3], exhaustive=True, fill="a"),
    categorical("rare", *LEVELS, exhaustive=True, fill="a"),
)
TRUE = {"one=yes": 0.8, "two=b": -0.5, "two=c": 0.7, "rare=b": 0.4, "rare=c": -1.0, "rare=d": 0.5}


def patients(n: int, seed: int, strength: float = 1.0) -> dict[str, np.ndarray]:
    """Features that depend on each other by pairs, one level of 2 %, and an outcome by `TRUE`."""
    random = np.random.default_rng(seed)
    one = random.random(n) < 0.3
    two = np.where(random.random(n) < 0.2 + 0.4 * one, 2, random.integers(2, size=n))
    rare = random.choice(4, p=(0.5, 0.3, 0.18, 0.02), size=n)
    score = -0.7 + strength * (0.8 * one + np.array([0, -0.5, 0.7])[two] + np.array([0, 0.4, -1.0, 0.5])[rare])
    return {
        "ill": np.where(random.random(n) < expit(score), "yes", "no"),
        "one": np.where(one, "yes", "no"),
        "two": np.array(LEVELS)[two],
        "rare": np.array(LEVELS)[rare],
    }


def test_two_features_without_noise_are_maximum_likelihood() -> None:
    table, release = anes()
    x = np.column_stack([table["party"] == "middle", table["party"] == "right", table["young"] == "yes"]).astype(float)
    known = sm.Logit((table["vote"] == "dole").to_numpy(float), sm.add_constant(x)).fit(disp=0)
    found = logistic(release, "vote=dole", ["party", "young=yes"]).tables["coefficients"]
    assert found.names == ("party=middle", "party=right", "young=yes")
    np.testing.assert_allclose(found.estimate, known.params[1:], atol=0.02)
    np.testing.assert_allclose(found.standard_error, known.bse[1:], rtol=0.02)


def test_intervals_hold_under_noise_and_where_there_is_nothing() -> None:
    """30 releases each of 5,000 patients with noise of 40; 180 coefficients share noise within a release, so 10 % of slack."""
    for strength in (1.0, 0.0):
        held = []
        for seed in range(30):
            release = released(COLUMNS, patients(5_000, seed, strength), 0.008, seed)
            found = logistic(release, "ill=yes", ["one=yes", "two", "rare"]).tables["coefficients"]
            lower, upper = found.interval()
            true = np.array([strength * TRUE[name] for name in found.names])
            # The first level stays the reference, so names are those of the truth but for levels that noise hides.
            held.append((lower <= true) & (true <= upper))
        assert 0.85 <= np.concatenate(held).mean() <= 0.995


def test_what_it_cannot_model_is_said() -> None:
    wide = tuple(category(f"c{place}", *map(str, range(30))) for place in range(4))
    table = {column.name: np.full(50, "1") for column in wide}
    with pytest.raises(InvalidInput, match=f"more than {MOST:,}; name fewer columns"):
        LogLinear.of(released(wide, table).moments(), wide)
    age = number("age", [20.0, 50.0])
    release = released((category("ill", "yes"), age), {"ill": ["yes", "no"], "age": [20.0, 50.0]})
    with pytest.raises(InvalidInput, match="declare bands of it"):
        logistic(release, "ill", ["age"], by="model")


def test_features_that_follow_from_one_another_are_refused() -> None:
    table = patients(5_000, 3)
    columns = (*COLUMNS, category("again", "yes"))
    table["again"] = np.where(np.arange(5_000) % 50 == 0, "no", table["one"])
    with pytest.raises(InvalidInput, match=r"variance inflation of one \(\d+\.\d\), again"):
        logistic(released(columns, table), "ill", ["one", "again"])


def test_collinearity_in_one_direction_of_many_levels_is_refused() -> None:
    """One level of eight is nearly another column: the root of the generalised inflation for one degree of freedom is 1.6."""
    random, names = np.random.default_rng(4), tuple("abcdefgh")
    eight = random.choice(names, 8_000)
    again = np.where((eight == "h") ^ (random.random(8_000) < 0.005), "yes", "no")
    ill = np.where(random.random(8_000) < 0.3, "yes", "no")
    columns = (
        category("ill", "yes"),
        categorical("eight", *names, exhaustive=True, fill="a"),
        category("again", "yes"),
    )
    release = released(columns, {"ill": ill, "eight": eight, "again": again})
    with pytest.raises(InvalidInput, match=r"variance inflation of eight \(19\.9\), again \(19\.9\)"):
        logistic(release, "ill", ["eight", "again=yes"])


@pytest.mark.parametrize(("name", "least"), [("STEPS", 3), ("HALVINGS", 0)])
def test_a_law_that_does_not_settle_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, least: int) -> None:
    monkeypatch.setattr(log_linear, name, least)
    with pytest.raises(InvalidInput, match="does not settle; name fewer columns"):
        LogLinear.of(released(COLUMNS, patients(5_000, 1)).moments(), COLUMNS)


def test_the_root_is_that_of_the_quasi_score() -> None:
    """n C V^-1 (t - n mu) = D lambda under noise; without noise it is the score of the exponential family, t - n mu = D lambda."""
    for sd in (0.0, 0.008):
        moments = released(COLUMNS, patients(5_000, 2), sd, 7).moments()
        law = LogLinear.of(moments, COLUMNS)
        features = law.coding[:, law.entries[:, 0]] * law.coding[:, law.entries[:, 1]]
        mean = law.shares @ features
        slope = moments.rows * (features.T @ (law.shares[:, None] * features) - np.outer(mean, mean))
        names = [each.name for each in moments.layout.variables]
        places = [0, *(names.index(name) + 1 for name in ("ill=yes", "one=yes", "two=a", "two=b", "two=c"))]
        places += [names.index(f"rare={level}") + 1 for level in LEVELS]
        row, column = np.array(places)[law.entries].T
        values, noise = moments.gram[row, column], moments.noise_sd[row, column]
        spread = slope + np.diag(np.maximum(noise**2, (1e-6 * moments.rows) ** 2))
        prior = np.diag(np.where((law.entries == 0).any(axis=1), 3.0, 2.0) ** 2.0)
        # Places 3 to 5 are levels of `two`, and 6 to 9 those of `rare`.
        along = (
            np.r_[0, 0, 0, -1, 0, 1, [0.0] * 4][law.entries[:, 0]]
            * np.r_[[0.0] * 6, -1, -1 / 3, 1 / 3, 1][law.entries[:, 1]]
        )
        prior += 64.0 * np.outer(along, along)
        np.testing.assert_allclose(np.linalg.inv(law.prior), prior, atol=1e-6)
        score = slope @ np.linalg.solve(spread, values - moments.rows * mean) - np.linalg.solve(prior, law.root)
        assert score @ law.covariance @ score < log_linear.ENOUGH * len(score)


def test_levels_that_are_alike_share_most_of_a_lambda() -> None:
    law = LogLinear.of(released(COLUMNS, patients(500, 2)).moments(), (COLUMNS[2], COLUMNS[0]), alike=[(0, 1)])
    at = [law.entries.tolist().index([level, 4]) for level in (1, 2, 3)]
    spread = np.linalg.inv(law.prior)[np.ix_(at, at)]
    np.testing.assert_allclose(spread, [[4.25, 4, 0], [4, 4.25, 0], [0, 0, 4]], atol=1e-9)


def test_the_prior_leaves_bands_that_go_together_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of 40 patients is declared and none is drawn, so what slopes lose to those of exact pairs is the pull of the prior."""
    random = np.random.default_rng(5)
    numbers = random.multivariate_normal([0, 0], [[1, 0.975], [0.975, 1]], 20_000)
    one, other = (np.searchsorted([-0.7, 0, 0.7], each) for each in numbers.T)
    score = np.array([-0.8, -0.5, -0.1, 0.4])[one] - np.array([0, 0.2, 0.5, 0.6])[other]
    columns = (
        category("ill", "yes"),
        categorical("one", *LEVELS, exhaustive=True, fill="a"),
        categorical("other", *LEVELS, exhaustive=True, fill="a"),
    )
    ill = np.where(random.random(20_000) < expit(score), "yes", "no")
    table = {"ill": ill, "one": np.array(LEVELS)[one], "other": np.array(LEVELS)[other]}

    def slopes(sd: float) -> np.ndarray:
        return logistic(released(columns, table, sd), "ill=yes", ["one", "other"]).tables["coefficients"].estimate

    exact = slopes(0.0)
    kept = slopes(0.002) @ exact / (exact @ exact)
    monkeypatch.setattr(log_linear, "ALONG", 0.0)
    without = slopes(0.002) @ exact / (exact @ exact)
    assert without < 0.88 < 0.93 < kept < 1.05


def test_a_reference_that_nobody_has_and_a_rare_named_level_are_refused_by_name() -> None:
    columns = (category("ill", "yes"), category("stage", "I", "II"))
    table = {
        "ill": np.array(["yes", "no"] * 2_500),
        "stage": np.where(np.arange(5_000) % 3 == 0, "I", "II"),  # nobody has another one
    }
    table["stage"][:4] = "I"
    release = released(columns, table, 0.008, 2)
    with pytest.raises(
        InvalidInput, match="patients of stage without stage=I, stage=II from none, and these are the reference"
    ):
        logistic(release, "ill", ["stage=I", "stage=II"])
    with pytest.raises(InvalidInput, match="does not tell the patients of stage=other from none; leave it out"):
        logistic(release, "ill", ["stage=other"])
    assert logistic(release, "ill", ["stage=I"]).tables["coefficients"].names == ("stage=I",)


def stages(of_two: int, draw: int | None = None) -> Analysis:
    """Noise of 25 patients beside so many of 150 with the outcome, of whom all others are in a stage of their own."""
    columns = (category("ill", "yes"), category("stage", "I", "II"))
    stage = np.repeat(["I", "other", "II"], [3_000, 1_850, 150])
    ill = np.where((np.arange(5_000) % 2 == 0) & (stage != "II"), "yes", "no")
    ill[-of_two:] = "yes"
    return logistic(released(columns, {"ill": ill, "stage": stage}, 0.005, draw), "ill", ["stage"])


@pytest.mark.parametrize(("of_two", "ends"), [(10, (True, False)), (75, (False, False)), (140, (False, True))])
def test_what_noise_may_have_hidden_bounds_nothing(of_two: int, ends: tuple[bool, bool]) -> None:
    """No lower end where nobody of a level may have the outcome, none above where all may; printed, drawn and as data alike."""
    found = stages(of_two)
    both = found.tables["coefficients"]["stage=II"], found.tables["odds ratios"]["stage=II"]
    (lower, upper), (least, most) = (np.ravel(one.interval()) for one in both)
    assert (np.isinf(lower), np.isinf(upper), least == 0, np.isinf(most)) == (*ends, *ends)
    assert np.isfinite(found.tables["coefficients"]["stage=other"].interval()).all()
    assert any("whether a count behind stage=II is 0" in told for told in found.caveats) == any(ends)
    row = next(
        each
        for each in found.document().to_json()["tables"]
        if each["table"] == "coefficients" and each["name"] == "stage=II"
    )
    assert (row["value"]["lower"] is None, row["value"]["upper"] is None) == ends
    assert (both[0].p_value[0] < 0.05) == (lower > 0 or upper < 0)


def test_intervals_of_few_with_the_outcome_hold() -> None:
    """10 of 150: of 80 lower ends 2 miss on average, and more than 7 in .1 % of cases; those of a normal logarithm miss 10."""
    true, found = np.log(10 / 140), [stages(10, draw).tables["coefficients"]["stage=II"] for draw in range(80)]
    lower, upper = np.transpose([np.ravel(one.interval()) for one in found])
    assert ((lower > true) | (upper < true)).sum() <= 7


def test_a_count_that_noise_may_hide_has_a_normal_law_and_its_logarithm_has_none() -> None:
    """Beside other errors, and of P values: those of the level at which an interval ends at no effect."""
    z, r, s = norm.isf(0.025), 0.4, 0.5
    hidden = np.zeros((2, 1, 2))
    hidden[0, 0] = r
    one = Estimates(
        ("alone", "beside"), np.full((1, 2), 0.3), np.array([[r, s]]), link="log", tested=True, counts=hidden
    )
    (low, beside), upper = one.interval()
    assert low == pytest.approx(np.exp(0.3) * (1 - z * r))
    assert np.log(beside) == pytest.approx(0.3 - np.hypot(np.log(1 - z * r), z * np.sqrt(s**2 - r**2)))
    np.testing.assert_allclose(upper, np.exp(0.3 + z * np.array([r, s])))
    for place, name in enumerate(one.names):
        (end,), _ = one[name].interval(1 - one.p_value[place])
        assert end == pytest.approx(1)
    assert one.interval(0.99)[0][0] == 0
    assert one.p_value[0] == pytest.approx(2 * norm.sf((1 - np.exp(-0.3)) / r))


def test_a_law_on_another_one_has_its_threes_and_the_released_pairs() -> None:
    """From a law with three columns that go together pairs alone do not come to it, and on it they do; `moved` is a derivative."""
    table, random = patients(20_000, 4), np.random.default_rng(4)
    law = LogLinear.of(released(COLUMNS, table, 0.002, 4).moments(), COLUMNS)
    three = law.has("ill=yes") * law.has("one=yes") * law.has("two=c")
    on = law.on(three)
    ratio = np.log(on.shares) - np.log(law.shares)
    # Eight combinations, with signs, of what pairs do not hold.
    signs = [
        (-1) ** (ill + one + two)
        * law.has(f"ill={('yes', 'other')[ill]}")
        * law.has(f"one={('yes', 'other')[one]}")
        * law.has(f"two={'ca'[two]}")
        * law.has("rare=a")
        for ill in (0, 1)
        for one in (0, 1)
        for two in (0, 1)
    ]
    assert sum(ratio @ each for each in signs) == pytest.approx(1.0, abs=1e-6)
    ends = law.coding.T @ ((on.shares - law.shares)[:, None] * law.coding)
    assert np.abs(ends).max() < 0.002
    direction = random.normal(size=(len(three), 2))
    step = 1e-3
    for place in (0, 1):
        ahead, behind = (law.on(sign * step * direction[:, place]).shares for sign in (1, -1))
        np.testing.assert_allclose(law.moved(direction)[:, place], (ahead - behind) / (2 * step), atol=2e-4)


def test_the_allowance_is_what_log_odds_of_three_columns_move(monkeypatch: pytest.MonkeyPatch) -> None:
    law = LogLinear.of(released(COLUMNS, patients(5_000, 2)).moments(), COLUMNS[:3])
    three = law.has("ill=yes") * law.has("one=yes") * law.has("two=c")
    whole = law.spread(three[:, None])[0]
    monkeypatch.setattr(log_linear, "THREE", 0.0)
    moves = three @ law.moved(np.eye(len(three)))
    assert whole - law.spread(three[:, None])[0] == pytest.approx(THREE**2 * moves @ moves, rel=0.01)


def test_where_nothing_is_a_functional_scatters_by_less_than_the_prior_leaves_open() -> None:
    """Its variance over releases is that of first derivatives with respect to what is released, under noise and sampling."""
    null = LogLinear.of(released(COLUMNS, patients(400, 2), 0.3, 2).moments(), COLUMNS)
    features = null.coding[:, null.entries[:, 0]] * null.coding[:, null.entries[:, 1]]
    null = replace(null, values=null.patients * features.mean(axis=0)).on(null.base)
    assert null.root == pytest.approx(0, abs=1e-3)
    both, slopes = null.has("ill=yes") * null.has("two=c"), []
    for step in np.eye(len(null.values)):
        ahead, behind = (replace(null, values=null.values + sign * step).on(null.base).shares for sign in (1, -1))
        slopes.append((ahead - behind) @ both / 2)
    observed = null.patients * np.cov(features.T, bias=True) + np.diag(null.scale)
    scatter, whole = (float(null.spread(both[:, None], pulled=pulled)[0][0, 0]) for pulled in (False, True))
    assert scatter == pytest.approx(slopes @ observed @ np.array(slopes), rel=1e-3)
    assert scatter < 0.95 * whole

"""What noise hides is in words on a page, null with its reason in a card, and marked in a description."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dprelease.description.columns import Description, describe
from dprelease.document.text import text
from dprelease.release.folder import ReleaseFolder
from dprelease.report import page
from dprelease.report.content import Report
from dprelease.report.model_card import model_card
from learner.client.library import Opened
from tests.learner.pages import FEATURES, TARGETS, hostile, parsed, report
from tests.learner.world import World, verified


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def made(release: Opened) -> Report:
    """A report with numbers that can be told."""
    made = report(release, TARGETS, FEATURES)
    quality, whole = made.fit.quality, made.fit.quality.constant_mse
    quality = replace(quality, gain=0.3 * whole, gain_se=0.1 * whole, mse=0.7 * whole, mse_se=0.1 * whole)
    return replace(made, fit=replace(made.fit, quality=quality))


def impossible(made: Report) -> Report:
    """The same report, as noise might have made its numbers."""
    several = np.ones_like(made.fit.quality.mse)
    quality = replace(made.fit.quality, mse=-0.782218 * several, constant_mse=-33.5637 * several)
    quality = replace(quality, gain=1.172 * several, optimism=0 * several)
    fit = replace(made.fit, quality=quality, constant_noise_sd=10 * (made.fit.upper - made.fit.lower))
    deviation = 0.0384417 * np.ones_like(made.described.deviation)
    described = replace(made.described, deviation=deviation, deviation_noise_sd=0.021 * np.ones_like(deviation))
    return replace(made, fit=fit, described=described)


def test_a_page_says_in_words_what_cannot_be_told(made: Report) -> None:
    before, after = (page(each) for each in (made, impossible(made)))
    parsed(after)
    for number in ("-0.78", "\N{MINUS SIGN}0.78", "33.56", "1.172", "0.0384"):
        assert number not in after
    assert before.count(">cannot be told</td>") == before.count(">hidden</td>") == 0
    assert after.count(">cannot be told</td>") == 4 * len(TARGETS)
    assert after.count(">hidden</td>") == len(made.described.names)
    assert "cannot be told: noise sd" in after


def test_a_better_model_with_a_hidden_share_says_both(made: Report) -> None:
    report = impossible(made)
    quality = replace(report.fit.quality, gain_se=np.full_like(report.fit.quality.gain, 0.1))
    found = replace(report, fit=replace(report.fit, quality=quality)).finding(0)
    assert (
        "is better than a constant that noise hides as well; how much of the variance it explains cannot be told"
        in found
    )
    assert "%" not in found


def test_a_card_has_the_reasons_beside_the_numbers(made: Report) -> None:
    before, after = (json.loads(json.dumps(model_card(each)))["fit"] for each in (made, impossible(made)))
    assert list(before) == list(after)
    assert before["unresolved"] == [{}] * len(TARGETS)
    for hidden in after["unresolved"]:
        assert set(hidden) == {"explained", "mse", "constant_mse", "constant"}
        assert all(reason.startswith("cannot be told") for reason in hidden.values())
    assert after["quality"]["gain"] == [1.172] * len(TARGETS)


def described(made: Report, **changes: np.ndarray) -> Description:
    return replace(made.described, **changes)  # type: ignore[arg-type]


def test_a_description_marks_means_and_spreads_that_noise_hides(made: Report) -> None:
    plain = made.described
    assert set(plain.hidden) == {()}
    assert "hidden" not in text(plain.document())
    wide = plain.mean_noise_sd.copy()
    wide[0] = 1e6
    narrow, flat = plain.deviation_noise_sd.copy(), plain.deviation.copy()
    narrow[1], flat[1] = 0.021, 0.0384417
    found = replace(plain, mean_noise_sd=wide, deviation=flat, deviation_noise_sd=narrow)
    assert found.hidden[:2] == (("mean",), ("standard_deviation",))
    columns = found.document().to_json()["columns"][:2]
    assert [column["hidden"] for column in columns] == [["mean"], ["standard_deviation"]]
    shown = text(found.document())
    assert f"{plain.mean[0]:.4g}" not in shown
    assert shown.count("hidden") == 3


def test_rows_have_no_spread_to_hide(
    world: World, folder: ReleaseFolder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = describe(verified(folder, world, tmp_path_factory.mktemp("home")).release)
    assert not {"standard_deviation"} & {name for names in found.hidden for name in names}

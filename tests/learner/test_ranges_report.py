"""What reports and cards of joint moments say of the ranges that a first round published, and that others say nothing."""

from dataclasses import replace
from xml.etree.ElementTree import Element

import pytest

from dprelease.document.cells import Estimate
from dprelease.mechanisms.ranges.released import SHARES, Summary
from dprelease.report import page
from dprelease.report.content import Report
from dprelease.report.model_card import model_card
from learner.client.library import Opened
from tests.learner.pages import LEVELS, hostile, parsed, report
from tests.learner.test_ranges import COLUMNS
from tests.learner.test_report import TAGS, part, shown, words
from tests.support.noise import SeededNoise
from tests.support.rounds import made_alone, ranges_first
from tests.support.specs import build_spec, random_rows


@pytest.fixture(scope="module")
def one_round(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return hostile(tmp_path_factory.mktemp("one_round"))


@pytest.fixture(scope="module")
def two_rounds(one_round: Opened) -> Opened:
    columns = {"north": (*COLUMNS["north"], *COLUMNS["south"])}
    spec = ranges_first(build_spec(columns, mechanism="moments", grid_bits=16, rows=2000))
    alone = made_alone(spec, random_rows(spec, "north"), SeededNoise(4))
    return replace(one_round, release=replace(alone, verified=one_round.release.verified))


@pytest.fixture(scope="module")
def made(two_rounds: Opened) -> Report:
    return report(two_rounds, ["glucose"], ["age"], "ols")


@pytest.fixture(scope="module")
def tree(made: Report) -> Element:
    return parsed(page(made))


@pytest.fixture(scope="module")
def glucose(two_rounds: Opened) -> Summary:
    assert two_rounds.release.first_ranges is not None
    return two_rounds.release.first_ranges.of("glucose")


def test_a_report_draws_the_distributions_of_the_first_round(tree: Element, glucose: Summary) -> None:
    drawn = part(tree, "ranges")
    pictures = [words(next(plot.iter("title"))) for plot in drawn.iter("svg")]
    assert pictures == ["Distribution of age", "Distribution of glucose"]
    shares, found = shown(drawn, "Distribution of glucose, errors in brackets").values(), glucose.distribution
    assert [share for share, _ in shares] == [
        Estimate(share, sd).text for share, sd in zip(found.noisy.tolist(), found.noise_sd.tolist(), strict=True)
    ]


def test_a_report_has_means_spreads_and_quantiles_before_clipping(tree: Element, glucose: Summary) -> None:
    drawn = part(tree, "ranges")
    cells = shown(drawn, "Means, standard deviations and quantiles, errors in brackets")["glucose"]
    told = [(glucose.mean, glucose.mean_error), (glucose.deviation, glucose.deviation_error)]
    assert cells[:2] == [Estimate(*each).text for each in told]
    middle = glucose.quantile_words.index("")
    assert Estimate(glucose.quantiles[middle], glucose.quantile_errors[middle]).text in cells
    assert "rows before clipping" in words(drawn)
    assert "those of rows as clipped" in words(part(tree, "columns"))


def test_the_section_is_linked_and_strangers_names_are_text_in_it(tree: Element) -> None:
    assert {node.tag for node in tree.iter()} <= TAGS
    ids = [node.get("id") for node in tree.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    links = [node.get("href", "#")[1:] for node in tree.iter("a")]
    assert "ranges" in links
    assert set(links) <= set(ids)


def test_of_columns_that_are_not_fitted_there_is_nothing(two_rounds: Opened, glucose: Summary) -> None:
    made = report(two_rounds, ["glucose"], [f"stage={LEVELS[1]}"], "ols")
    assert len(list(part(parsed(page(made)), "ranges").iter("svg"))) == 1
    (told,) = model_card(made)["ranges"]
    assert told["name"] == "glucose"
    assert [told[f"{share:.0%}"]["standard_error"] for share in SHARES] == glucose.quantile_errors.tolist()


def test_without_a_first_round_there_is_no_such_section(one_round: Opened) -> None:
    made = report(one_round, ["glucose"], ["age"], "ols")
    tree = parsed(page(made))
    assert "ranges" not in [node.get("id") for node in tree.iter("section")]
    assert "ranges" not in [node.get("href", "#")[1:] for node in tree.iter("a")]
    assert "rows as clipped" not in words(part(tree, "columns"))
    assert model_card(made)["ranges"] == []

"""Derived columns in party.toml: what follows from a formula and its sources, and every mistake named by column and key."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.data.columns import CategoricalColumn, Column, NumericColumn
from dprelease.data.exits import Exits, read_exit
from dprelease.errors import InvalidInput
from party_node.declarations.formulas import Product, Square
from party_node.declarations.source_columns import DateColumn
from party_node.settings import PartySettings
from tests.party_node.tables import settings
from tests.support.specs import numeric

SOURCES: dict[str, dict[str, Any]] = {
    "age": {"kind": "numeric", "lower": 18, "upper": 100, "fill": 50},
    "z": {"kind": "numeric", "lower": -3, "upper": 2},
    "smoker": {"kind": "categorical", "levels": ["yes"], "fill": "yes"},
    "stage": {"kind": "categorical", "levels": ["I", "II"], "fill": "II"},
    "came": {"kind": "date"},
    "left": {"kind": "date"},
    "dx": {"kind": "code"},
}


def declared(derived: object, **more: object) -> NumericColumn | CategoricalColumn:
    """The derived column ``x`` beside the sources."""
    found = settings(Path("rows.csv"), SOURCES | {"x": {"derived": derived, **more}}).declarations()[-1]
    assert found.name == "x"
    return found


@pytest.mark.parametrize(
    ("derived", "text", "lower", "upper", "fill"),
    [
        ({"log": "age"}, "log(age)", math.log(18), math.log(100), math.log(50)),
        ({"log": "age", "plus": -17.5}, "log(age - 17.5)", math.log(0.5), math.log(82.5), math.log(32.5)),
        ({"log": "z", "plus": 4}, "log(z + 4)", 0.0, math.log(6), math.log(3.5)),
        ({"square": "age"}, "age^2", 324.0, 10000.0, 2500.0),
        ({"square": "z"}, "z^2", 0.0, 9.0, 0.25),
        ({"square": "age", "plus": -59}, "(age - 59)^2", 0.0, 1681.0, 81.0),
        ({"square": "age", "plus": 0.5}, "(age + 0.5)^2", 342.25, 10100.25, 2550.25),
        ({"product": ["age", "z"]}, "age * z", -300.0, 200.0, -25.0),
        ({"product": ["smoker", "z"]}, "smoker * z", -3.0, 2.0, -0.5),
        ({"product": ["age", "smoker"]}, "age * smoker", 0.0, 100.0, 50.0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bounds_and_fill_follow_from_the_sources(
    derived: object, text: str, lower: float, upper: float, fill: float
) -> None:
    found = declared(derived)
    assert isinstance(found, NumericColumn)
    assert found.derivation == text
    assert (found.lower, found.upper, found.fill) == pytest.approx((lower, upper, fill), rel=1e-15)
    assert declared(derived, kind="numeric") == found


def test_what_is_declared_is_narrower_or_named() -> None:
    found = declared({"square": "age"}, upper=6400, fill=400, unit="years^2")
    assert found == NumericColumn(name="x", lower=324.0, upper=6400.0, fill=400.0, unit="years^2", derivation="age^2")
    assert declared({"square": "age"}, upper=1000).fill == 1000
    stay = declared({"days": ["came", "left"]}, lower=0, upper=90)
    assert stay == NumericColumn(name="x", lower=0.0, upper=90.0, fill=45.0, derivation="days from came to left")
    assert declared({"log": "z", "plus": 2}, lower=-4).fill == pytest.approx(math.log(1.5))
    assert declared({"log": "z"}, lower=-4, upper=0.5).fill == -1.75  # the source's fill has no logarithm


def test_dates_and_sources_are_kept_to_oneself() -> None:
    columns = SOURCES | {"age": SOURCES["age"] | {"source_only": True}, "x": {"derived": {"square": "age"}}}
    found = settings(Path("rows.csv"), columns)
    assert [column.name for column in found.declarations()] == ["z", "smoker", "stage", "x"]
    assert found.declared["x"].source_names == ("age",)
    assert found.declared["came"].column == DateColumn(kind="date", name="came", format="%Y-%m-%d")
    with pytest.raises(ValueError, match="at least one column that may be released"):
        settings(Path("rows.csv"), {"came": SOURCES["came"]})


def test_one_derived_number_is_the_source_of_others() -> None:
    """Their formula names it, as the catalogue does. A change of its own formula is a change of what is derived from it."""
    older = {"derived": {"indicator": "years", "from": 65}, "fill": "yes"}  # before its source in the file

    def found(born: str) -> PartySettings:
        years = {"derived": {"age": ["came", born]}, "lower": 18, "upper": 100}
        bands = {"derived": {"bands": "years", "at": [40, 60]}, "fill": "< 40"}
        gone = {"derived": {"missing": "years"}}
        return settings(Path("rows.csv"), SOURCES | {"older": older, "years": years, "bands": bands, "gone": gone})

    now, then = found("2011-01-01"), found("2012-01-01")
    assert {column.name: column.derivation for column in now.declarations() if column.derivation} == {
        "older": "65 <= years",
        "years": "whole years from came to 2011-01-01",
        "bands": "years cut at 40, 60",
        "gone": "years is missing",
    }
    for name in ("older", "bands", "gone"):
        assert now.declared[name].source_names == ("came",)
        assert now.declared[name].origin != then.declared[name].origin
    for second in ({"log": "older"}, {"product": ["older", "z"]}, {"bands": "square", "at": [900]}):
        columns = {"years": {"derived": {"square": "age"}}, "square": {"derived": {"square": "years"}}, "older": older}
        with pytest.raises(ValueError, match=r"column x: derived: (older|square) is derived itself"):
            settings(Path("rows.csv"), SOURCES | columns | {"x": {"derived": second}})
    with pytest.raises(ValueError, match="lower: none follows") as caught:
        settings(Path("rows.csv"), SOURCES | {"older": older, "years": {"derived": {"age": ["came", "left"]}}})
    assert "older" not in str(caught.value)  # one mistake is told once


@pytest.mark.parametrize(
    ("derived", "words"),
    [
        ("age^2", "derived: name one of log, square, indicator, product, days"),
        ({}, "derived: name one of"),
        ({"log": "age", "square": "age"}, "derived: name one of"),
        ({"log": "age", "minus": 1}, "derived: minus: there is no such key"),
        ({"log": "age", "plus": "1"}, "derived: plus: must be a number"),
        ({"log": "age", "plus": math.inf}, "derived: plus: must be a finite number"),
        ({"log": "age", "plus": -100}, "derived: plus: age is at most 100, so there is never a logarithm"),
        ({"log": "weight"}, r"derived: weight is not declared; add \[columns.weight\], with source_only = true"),
        ({"log": "x"}, "derived: x is derived itself; name a column that is read, or a number derived from such"),
        ({"log": "stage"}, "derived: log: stage is no number"),
        ({"log": "z"}, r"column x: lower: none follows for log\(z\); declare it"),
        ({"square": "smoker"}, "derived: square: smoker is no number"),
        ({"product": ["age"]}, "derived: product"),
        ({"product": ["age", "age"]}, "derived: product: names age twice"),
        ({"product": ["age", "stage"]}, "derived: product: stage is neither a number nor a category of two values"),
        ({"product": ["age", "came"]}, "derived: product: came is neither"),
        ({"days": ["came", "age"]}, 'derived: days: age is no date; a column of dates is declared with kind = "date"'),
        ({"days": ["came", "came"]}, "derived: days: names came twice"),
        ({"days": ["came", "left"]}, "column x: lower: none follows for days from came to left; declare it"),
        ({"indicator": "stage"}, "derived: indicator: takes either level, or from, to, or both"),
        ({"indicator": "age", "from": 65}, "column x: fill: say what a missing age counts as, 'yes' or 'other'"),
        ({"indicator": "age", "codes": ["E10"]}, "derived: codes: age has no codes"),
        ({"indicator": "dx"}, "derived: codes: dx is of codes; name some"),
        ({"indicator": "dx", "codes": ["E-1"]}, "derived: codes entry 1: 'E-1' is no code"),
        ({"square": "dx"}, "derived: square: dx is no number"),
        ({"days": ["dx", "came"]}, "derived: days: dx is no date"),
        ({"category": "stage", "prefix": 1, "levels": ["I"]}, "derived: category: stage is no column of codes"),
        ({"category": "dx"}, "derived: category: takes either prefix and levels, or map"),
        ({"category": "dx", "prefix": 3}, "derived: levels: name the first characters that are levels"),
        ({"category": "dx", "prefix": 3, "levels": ["E1"]}, "derived: levels: 'E1' has 2 characters, and prefix is 3"),
        ({"category": "dx", "prefix": 3, "levels": ["E11", "e1.1"]}, "derived: levels: E11 is there twice"),
        ({"category": "dx", "map": "none.csv"}, "derived: map: cannot read none.csv: No such file"),
        ({"indicator": "age", "level": "yes", "from": 20}, "derived: indicator: takes either level"),
        ({"indicator": "stage", "level": "III"}, "derived: level: stage has no level 'III', only I, II"),
        ({"indicator": "age", "level": "65"}, "derived: level: age is no category; of a number say from or to"),
        ({"indicator": "stage", "from": 1}, "derived: indicator: stage is no number"),
        ({"indicator": "age", "from": 18}, "derived: from: 18 is not within the bounds of age, 18 to 100"),
        ({"indicator": "age", "to": 100.5}, "derived: to: 100.5 is not within"),
        ({"indicator": "age", "from": 70, "to": 70}, "derived: from: 70 is not less than to, 70"),
        ({"bands": "age", "at": [40, 40]}, "derived: at: 40 comes after 40; cuts rise"),
        ({"bands": "age", "at": []}, "derived: at: "),
        ({"bands": "age", "at": [18]}, "derived: at: 18 is not within the bounds of age, 18 to 100"),
        ({"bands": "stage", "at": [1]}, "derived: bands: stage is no number"),
        ({"bands": "age", "at": [40]}, "column x: fill: name the level that a missing cell has, one of < 40, >= 40"),
        ({"exit": ["age", "smoker"], "at": [0, 20]}, "derived: at: 0 is not above 0"),
        ({"exit": ["age", "smoker"], "at": [101]}, "derived: at: 101 is above the upper bound of age, 100"),
        ({"exit": ["z", "smoker"], "at": [1]}, "derived: exit: z has the lower bound -3, and no time is negative"),
        ({"exit": ["age", "stage"], "at": [20]}, "derived: events: name those of I, II that are events"),
        ({"exit": ["age", "z"], "at": [20]}, "derived: exit: z is no category"),
        ({"exit": ["age", "stage"], "at": [20], "events": ["III"]}, "derived: events: stage has no level 'III'"),
        ({"exit": ["came", "left", "smoker"], "at": [1]}, 'derived: unit: say "days" or "years"'),
        ({"exit": ["age", "z", "smoker"], "at": [1]}, "derived: exit: age is no date"),
        ({"exit": ["age", "smoker"], "at": [20], "unit": "days"}, "derived: unit: the cuts are in the unit of age"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_formula_that_cannot_be(derived: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        declared(derived)
    assert "column x: " in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"lower": 323.9}, r"lower: age\^2 is never below 324.0, which follows from its sources' bounds"),
        ({"upper": 10000.5}, r"upper: age\^2 is never above 10000.0"),
        ({"upper": 300}, r"lower \(324.0\) must be less than upper \(300.0\)"),
        ({"fill": 5}, "fill .* must lie within the bounds"),
        ({"kind": "categorical"}, r"kind: age\^2 is numeric; leave kind out"),
        ({"from": "AGE"}, "from: a derived column is neither read"),
        ({"source_only": True}, "source_only: a derived column is neither"),
        ({"derivation": "age^2"}, "derivation: follows from derived"),
        ({"public": True}, "party-node public declare x"),
        ({"mostly_replaced": 1}, "mostly_replaced is true or false"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_keys_that_do_not_go_with_it(more: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        declared({"square": "age"}, **more)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"format": "%d.%m.%Y "}, "format: .*blanks at its ends"),
        ({"format": "%d.%m"}, r"format: .*one year \(%Y\), one month"),
        ({"format": "%d.%b.%Y"}, "format: .*'%b' is none of"),
        ({"format": "%Y-%m-%d%"}, "format: .*'%' is none of"),
        ({"format": "%Y-%m-%d %d"}, "format: .*one day"),
        ({"lower": 0}, "lower: there is no such key"),
        ({"source_only": 1}, "source_only is true or false"),
    ],
)
def test_dates_that_cannot_be(keys: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        settings(Path("rows.csv"), SOURCES | {"came": {"kind": "date", **keys}})
    assert "column came: " in str(caught.value)


def test_an_indicator_has_one_level() -> None:
    with pytest.raises(ValueError, match="column x: levels: an indicator has one level"):
        declared({"indicator": "age", "from": 65}, levels=["old", "very old"], fill="other")


def test_levels_follow_from_cuts() -> None:
    """And `read_exit` reads them back, whatever the causes are called."""
    bands = declared({"bands": "age", "at": [40, 50.5], "missing": True})
    assert bands == CategoricalColumn(
        name="x",
        levels=("< 40", "40 to 50.5", ">= 50.5", "missing"),
        exhaustive=True,
        fill="missing",
        derivation="age cut at 40, 50.5",
    )
    assert declared({"bands": "age", "at": [40]}, fill=">= 40").binary
    with pytest.raises(ValueError, match="column x: levels: follows from age cut at 40; leave it out"):
        declared({"bands": "age", "at": [40]}, fill=">= 40", levels=["a", "b"])
    one = declared({"exit": ["age", "smoker"], "at": [0.5, 20]}, fill="followed to 20")
    assert one.values == ("event 0 to 0.5", "event 0.5 to 20", "left 0 to 0.5", "left 0.5 to 20", "followed to 20")
    assert read_exit(one.values) == Exits((0.5, 20.0))
    causes = {"exit": ["came", "left", "stage"], "events": ["II", "I"], "unit": "years", "at": [1], "missing": True}
    several = declared(causes)
    assert several.derivation == 'exit by years from came to left and stage = "II" or "I" at 1'
    assert several.values == ("II 0 to 1", "I 0 to 1", "left 0 to 1", "followed to 1", "missing")
    assert read_exit(several.values) == Exits((1.0,), ("II", "I"), missing=True)
    for levels in (
        bands.values,
        (),
        ("left 0 to 1", "followed to 1"),
        several.values[:-2],
        one.values[::-1],
        ("a", "b"),
    ):
        with pytest.raises(InvalidInput, match="not the levels of a column of exits"):
            read_exit(levels)


def test_a_category_of_codes(tmp_path: Path) -> None:
    """Its derivation has the digest of the map, so that a map cannot change silently; its path stands beside party.toml."""
    start = declared({"category": "dx", "prefix": 3, "levels": ["E10", "i21"]}, unit="ICD-10")
    assert (start.values, start.derivation) == (("E10", "i21", "other"), "first 3 of dx")
    some = declared({"indicator": "dx", "codes": ["E10", "E11.9"]})
    assert (some.released, some.derivation) == (("x=yes", "x=other"), 'dx starts with "E10" or "E11.9"')
    (tmp_path / "icd.csv").write_text("code,level\nE1,diabetes\nE10,type 1\nI21,infarct\nI22,infarct\n")

    def mapped() -> Column:
        columns = SOURCES | {"x": {"derived": {"category": "dx", "map": "icd.csv"}, "fill": "infarct"}}
        keys = settings(Path("rows.csv"), SOURCES).model_dump(exclude_unset=True) | {"columns": columns}
        return PartySettings.model_validate(keys, context={"base": tmp_path}).declarations()[-1]

    before = mapped()
    assert (before.vocabulary, before.fill_text) == (("diabetes", "type 1", "infarct"), "infarct")
    lines = [["E1", "diabetes"], ["E10", "type 1"], ["I21", "infarct"], ["I22", "infarct"]]
    digest = hashlib.sha256(json.dumps(lines, separators=(",", ":")).encode()).hexdigest()
    assert before.derivation == f"dx by map {digest}"
    (tmp_path / "icd.csv").write_text("code,level\nE1,diabetes\nE10,type 1\nI21,infarct\nI23,infarct\n")
    assert before.derivation != mapped().derivation
    for text, words in (
        ("E1,a\n", "the first line of"),
        ("code,level\n", "has 1 to"),
        ("code,level\nE1\n", "line 2 of"),
    ):
        (tmp_path / "icd.csv").write_text(text)
        with pytest.raises(ValueError, match=f"column x: derived: map: .*{words}"):
            mapped()


ENDS = st.floats(-1e6, 1e6).map(lambda end: round(end, 3))


@given(ends=st.lists(ENDS, min_size=4, max_size=4), plus=ENDS, places=st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_no_value_within_the_sources_bounds_lies_beyond_what_follows(
    ends: list[float], plus: float, places: list[float]
) -> None:
    pairs = [(min(pair), max(pair) + 1) for pair in (ends[:2], ends[2:])]
    sources = [numeric(name, *pair) for name, pair in zip("ab", pairs, strict=True)]
    cells = [
        np.clip(np.array([s.lower + at * (s.upper - s.lower)]), s.lower, s.upper)
        for s, at in zip(sources, places, strict=True)
    ]
    for formula in (Square(square="a", plus=plus), Product(product=("a", "b"))):
        lower, upper = formula.bounds(sources)
        (value,) = formula.values(*cells[: len(formula.sources)])
        assert lower <= value <= upper

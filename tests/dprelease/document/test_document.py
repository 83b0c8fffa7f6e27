"""Documents: one value for an estimate, one table, and what text, JSON and HTML make of them."""

import json
import math
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from dprelease.document.cells import Estimate, Said, figure, plain, told
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.document.html import Commands, Figure, Folded, Section, environment
from dprelease.document.text import MOST_NOTES, aligned, text

HOSTILE = "a\n\x1b[31m<b>&\u202e|"
SLOPE = Estimate(1.23456, 0.0345, 1.1669, math.inf, unit="mg per year", ratio=35.8, p_value=0.0)


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (1.23456, 0.0345, "1.235"),
        (1.23456, 0.99, "1.23"),
        (1.23456, 1.0, "1.2"),
        (12345.6, 321.0, "12350"),
        (2.07, 1_100_000.0, "2.1"),
        (0.31, 20.0, "0.31"),
        (12.3, 20.0, "12"),
        (-0.0001, 0.2, "0.00"),
        (1.23456e-9, 3.4e-11, "1.235e-09"),
        (0.0, 3.4e-11, "0"),
        (1234567.0, math.nan, "1.23457e+06"),
        (1.5, 0.0, "1.5"),
        (-0.0, 0.0, "0"),
        (math.nan, 1.0, "-"),
    ],
)
def test_digits_follow_the_error(value: float, error: float, shown: str) -> None:
    assert figure(value, error) == shown


@given(st.floats(-1e9, 1e9), st.floats(1e-12, 1e9))
def test_what_is_printed_is_within_a_tenth_of_the_error(value: float, error: float) -> None:
    assert abs(float(figure(value, error)) - value) <= max(0.1 * error, 1e-9 * abs(value))


def test_an_estimate_has_one_shape_as_data_and_parts_as_text() -> None:
    assert json.loads(json.dumps(plain(SLOPE))) == {
        "estimate": 1.23456,
        "standard_error": 0.0345,
        "lower": 1.1669,
        "upper": None,
        "level": 0.95,
        "unit": "mg per year",
        "ratio": 35.8,
        "p_value": 0.0,
        "said": "",
    }
    parts = ("estimate", "standard_error", "ratio", "p_value", "lower", "upper", "unit")
    assert [SLOPE.part(each) for each in parts] == ["1.235", "0.035", "35.80", "<0.001", "1.167", "none", "mg per year"]
    assert SLOPE.text == "1.235 (0.035)"
    assert Estimate(math.nan, said="hidden").text == "hidden"
    assert Estimate(12.0, 0.5, said="at most").text == "at most 12.00 (0.50)"
    assert Estimate(math.nan).text == Estimate(math.nan).part("p_value") == "-"
    assert Estimate(-0.1, 0.1, ratio=-0.0).part("ratio") == "0.00"


def test_cells_are_told_on_one_line_and_plain_as_data() -> None:
    assert told(HOSTILE) == "a\\n\\x1b[31m<b>&\\u202e|"
    assert [told(each) for each in (True, 61481, 0.123456, math.inf, None)] == ["yes", "61,481", "0.1235", "-", "-"]
    assert told(Said(Fraction(1, 3), "a third")) == "a third"
    assert plain({"a": (Said(Fraction(1, 3), "a third"), math.nan, [SLOPE])}) == {"a": ["1/3", None, [SLOPE.to_json()]]}


def document(rows: int = 2) -> Document:
    first = Table.of(
        "coefficients",
        ("feature", Heading("coefficient", parts=("estimate", "standard_error", "upper", "unit"), ratio="t")),
        [(f"{HOSTILE} {row}", SLOPE) for row in range(rows)],
        title="Coefficients",
        below=("Errors hold noise.",),
    )
    more = Table.of("predictor", ("feature", Heading("weight", unit="mg", digits=2)), [("age", 1.25)], detail=True)
    promise = Promise("In one line.", ("In full.",), ("The hospitals.",))
    notes = tuple(f"Note {place} of {HOSTILE}." for place in range(MOST_NOTES + 2))
    return Document("A fit", {"release": "abc", "hospitals": ("a", "b")}, (first, more), notes, promise, {"raw": 1})


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_text_for_a_terminal_fits_its_width(width: int) -> None:
    lines = text(document(), width, explain=True).splitlines()
    assert max(map(len, lines)) <= max(width, 38)  # the widest single number beside the first column
    assert sum("1.235" in line for line in lines) == 2


def test_a_wide_table_comes_in_parts_with_the_first_column() -> None:
    wide = Table.of("wide", ("name", *(f"column {place}" for place in range(20))), [("x", *map(float, range(20)))])
    lines = text(Document("", tables=(wide,)), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("x ") for line in lines) > 1
    assert sum(line.count("column") for line in lines) == 20


def test_wide_letters_take_two_places() -> None:
    assert aligned([("\u6f22", "1"), ("ab", "2")]) == ["\u6f22  1", "ab  2"]
    assert aligned([("a", "1"), ("b", "22")], (False, True)) == ["a   1", "b  22"]


def test_a_page_is_xml_that_strangers_cannot_change() -> None:
    table = document().tables[0]
    parts = (HOSTILE, (HOSTILE,), table, Folded(HOSTILE, table), Commands((HOSTILE,)), Section(HOSTILE, (HOSTILE,)))
    sections = [Section(HOSTILE, (*parts, Figure(Markup("<i/>"), HOSTILE)), "name")]
    page = environment("dprelease.document").get_template("page.html")
    shown = page.render(title=HOSTILE, sections=sections)
    tree = ElementTree.fromstring(shown.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314 - we wrote it
    assert not tree.findall(".//b")
    assert [each.text for each in tree.findall(".//section/div/table/thead/tr/th")] == [
        "feature",
        "estimate",
        "std err",
        "0.975]",
        "unit",
    ]
    assert [each.get("class") for each in tree.findall(".//tbody/tr")[0]] == ["text", *["number"] * 3, "text"]
    assert all(each.isprintable() for each in "".join(tree.itertext()).replace("\n", ""))


def test_heads_are_folded_before_a_table_comes_in_parts() -> None:
    heads = ("mechanism", Heading("error", "relative coefficient error"), Heading("rows", "patients needed"))
    table = Table.of("plan", heads, [("moments", 0.05, 1200), ("mixed", 0.98, 390_000)])
    lines = text(Document("", tables=(table,)), 36).splitlines()
    assert max(map(len, lines)) <= 36
    assert " ".join(" ".join(lines[1:4]).split()) == "mechanism relative patients coefficient needed error"
    assert len(lines) == 8

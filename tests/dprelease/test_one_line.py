"""Foreign text: visible, on one line, of bounded length."""

import re
import sys

import pytest

from dprelease.one_line import LONGEST_QUOTE, no_formula, one_line, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Age and glucose, 2026", "Age and glucose, 2026"),
        ("Größe, 年齢\u3000\u00a0x", "Größe, 年齢  x"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x1b[2J\x1b[31mred", r"\x1b[2J\x1b[31mred"),
        ("\x07\x08\x00\x7f\x9b\x85", r"\x07\x08\x00\x7f\x9b\x85"),
        ("left\u202eright\u2066x\u2028y\u2029z", r"left\u202eright\u2066x\u2028y\u2029z"),
        ("\ud800\U000e0001", r"\ud800\U000e0001"),
        (r"C:\new", r"C:\new"),
    ],
)
def test_what_cannot_be_printed_is_spelled_out(text: str, shown: str) -> None:
    assert one_line(text) == quoted(text) == shown
    assert one_line(shown) == shown


def test_no_character_whatever_makes_a_second_line_or_reaches_a_terminal() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = one_line(everything)
    assert shown.isprintable()
    assert len(f"x{shown}x".splitlines()) == 1


@pytest.mark.parametrize("length", [201, 202, 5_000, 10**6])
def test_long_text_keeps_both_its_ends_and_says_how_long_it_was(length: int) -> None:
    shown = quoted("a" + "x" * (length - 2) + "z")
    assert len(shown) == LONGEST_QUOTE
    assert (shown[0], shown[-1]) == ("a", "z")
    assert f" [... {length:,} characters ...] " in shown


def test_what_grows_by_spelling_out_is_cut_too() -> None:
    assert len(quoted("\u2028" * 100)) == LONGEST_QUOTE
    assert quoted("x" * 200) == "x" * 200
    assert one_line("abcdefgh", 0) == " [... 8 characters ...] "


def test_no_spreadsheet_takes_a_text_for_a_formula_and_the_text_comes_back() -> None:
    formulas = ("=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "=1", "=1\n", "-1\n", "\uff1d1+1", "--1", "-x", '"=1')
    kept = (
        "-",
        "+",
        "-0.5",
        "+3",
        "-1e-05",
        "-1 to 0",
        "-3.5 to -1",
        "< 1",
        "a=b",
        "\N{MINUS SIGN}1",
        "'",
        "'a",
        "a;-1",
        "",
    )
    within = {
        "a;=1": "a;'=1",
        'a;"=1': "a;'\"=1",
        "=1;b\t+1+1": "'=1;b\t'+1+1",
        "-1;-1 to 0;@x": "-1;-1 to 0;'@x",
        "a\n-x": "a\n'-x",
    }
    for text in (*formulas, *kept, *within, *("'" * count + each for each in formulas for count in (1, 2))):
        written = no_formula(text)
        assert written == within.get(text, written)
        assert written.startswith("'") == (text.startswith("'") or text in (*formulas, "=1;b\t+1+1"))
        assert (re.sub(r"(\A|(?<=[;\t\r\n]))'(?=['\"]*[=+@\uff1d\uff0b\uff20\uff0d-])", "", written)) == text
    assert [no_formula(text) for text in kept] == [*kept]

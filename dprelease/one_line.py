"""Text that somebody else wrote, made safe to print, to log and to quote: one line, nothing that a terminal obeys, not endless."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST_QUOTE = 200
"""Characters that an error quotes of what a caller wrote."""

_NUMBER = r"\d[\d.]*(e[+-]\d+)?"
_SIGNS = r"[=@\uff1d\uff0b\uff20\uff0d"
_FORMULA = re.compile(
    rf"""(?:\A|(?<=[;\t\r\n]))(?=['"]+{_SIGNS}+-]|{_SIGNS}].|[+-](?!{_NUMBER}( to -?{_NUMBER})?(?:\Z|[;\t])).)""",
    re.DOTALL,
)

NAMED = 10
"""Names that one sentence lists."""


def one_line(text: str, longest: int | None = None) -> str:
    r"""Text in which everything that cannot be printed is spelled out, as in ``\n``, ``\x1b`` or ``\u202e``.

    That leaves no line feed of any alphabet, no terminal escape and no change of the writing's direction. Done twice, it
    changes nothing more.

    Args:
        text: anything.
        longest: characters to keep, half from either end, with a note of how many there were; all unless given.
    """
    if longest is None:
        return text if text.isprintable() else "".join(map(_visible, text))
    # Both ends are cut first: spelling out megabytes of a stranger's text would cost more than it had cost to send.
    whole = one_line(text[:longest] + text[longest:][-longest:])
    if len(text) <= longest and len(whole) <= longest:
        return whole
    note = f" [... {len(text):,} characters ...] "
    kept = max(longest - len(note), 0)
    return whole[: kept - kept // 2] + note + whole[len(whole) - kept // 2 :]


def no_formula(text: str) -> str:
    """Text with an apostrophe wherever a spreadsheet would take it for a formula; numbers and bands stay as they are.

    Some split a file of commas at semicolons, tabs and line ends, so what follows these begins a cell, too. An apostrophe also
    stands before apostrophes and quotes in front of a sign, so one less where ``'['"]*[=+@-]`` begins a cell gives the text back.

    Source: OWASP, CSV injection.
    """
    return _FORMULA.sub("'", text)


def quoted(text: str) -> str:
    """A caller's words within an error's message."""
    return one_line(text, LONGEST_QUOTE)


def _visible(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if unicodedata.category(letter) == "Zs" else letter.encode("unicode_escape").decode()


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that asks for the known name most like another, whatever the case; empty where none is like it."""
    alike = {each.strip().casefold(): each for each in known}
    near = get_close_matches(name.strip().casefold(), alike, 1)
    return f"; did you mean {alike[near[0]]!r}?" if near else ""


def counted(number: int, thing: str) -> str:
    """A number of things, in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

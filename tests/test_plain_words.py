"""Pages are in plain words: 19 words a sentence on average, 36 at 95 %, and no sentence with a clause before its subject."""

from pathlib import Path

import pytest

from tests.measures.sentences import LONGEST, PAGES, long, mean, openings
from tests.test_architecture import ROOT

MEAN = 19
WRITTEN = (*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_page_is_in_plain_words(page: Path) -> None:
    assert openings((page,)) == []
    assert mean((page,)) <= MEAN
    assert long((page,)) <= LONGEST


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("What noise hides is not known.", True),
        ("* **Rows.** Of these none is published.", True),
        ("What does it cost?", False),
        ("These rows are not published.", False),
    ],
)
def test_a_clause_before_its_subject_is_seen(text: str, bad: bool, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(text)
    assert bool(openings((page,))) is bad

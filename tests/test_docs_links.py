"""Hyperlinks and citations: every relative link, heading, page, section and path that text here names exists here."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
WRITTEN = (
    "audit",
    "benchmarks",
    "coordinator",
    "demo",
    "deploy",
    "docs",
    "dprelease",
    "learner",
    "party_node",
    "protos",
    "tests",
)
TEXT = {".py", ".pyi", ".md", ".toml", ".proto", ".sh", ".service", ".css", ".yaml", ""}

TWO_LINES = """see docs/protocol.md, "One
# block, ever"; docs/format.md 15."""

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_PAGE = re.compile(r"[\w./-]+\.md\b")
_CITED = re.compile(r"docs/(\w+)\.md((?:,? (?:and )?(?:\d+|\"[^\"]+\"))*)")
_SECTION = re.compile(r"(\d+)|\"([^\"]+)\"")
_PATH = re.compile(rf"`((?:{'|'.join(WRITTEN)})/[\w./-]+\.(?:py|md|toml|json|png))`")


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name after #, by the rule of the usual renderers."""
    found: list[str] = []
    for heading in _HEADING.findall(prose(page)):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        same = found.count(slug)
        found.append(f"{slug}-{same}" if same else slug)
    return frozenset(found)


def sources() -> Iterator[Path]:
    """All text files written by hand."""
    yield from (
        path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in TEXT and path.name[0] != "."
    )
    for folder in WRITTEN:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts:
                yield path


def exists(name: str, beside: Path) -> bool:
    return any((folder / name).is_file() for folder in (ROOT, ROOT / "docs", beside.parent))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_and_their_anchors_exist(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_in_pages_exist(page: Path) -> None:
    assert [path for path in _PATH.findall(page.read_text()) if not (ROOT / path).exists()] == []


def test_no_text_names_a_page_that_does_not_ship() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in _PAGE.findall(path.read_text())
        if not exists(name, path)
    ]
    assert missing == []


def named(text: str) -> Iterator[tuple[str, str]]:
    """(page, section) for each section that citations in a text name, by its number or in quotes."""
    for page, sections in _CITED.findall(re.sub(r"\s+(?:# )?", " ", text)):
        yield from ((page, number or name) for number, name in _SECTION.findall(sections))


def test_sections_that_are_cited_exist() -> None:
    """`docs/guarantees.md 3` and `docs/methods.md, "k and rho"`: a heading, or a paragraph's bold or slanted first words."""
    missing = []
    for path in sources():
        for page, section in named(path.read_text()):
            text = prose(ROOT / "docs" / f"{page}.md")
            headings = _HEADING.findall(text)
            known = any(heading == section or heading.startswith(f"{section}. ") for heading in headings)
            if not known and f"*{section}" not in text:
                missing.append(f"{path.relative_to(ROOT)}: docs/{page}.md {section}")
    assert missing == []


def test_what_counts_as_a_citation() -> None:
    assert list(named('docs/guarantees.md 11, 12, 16 and "Where the papers differ".')) == [
        ("guarantees", "11"),
        ("guarantees", "12"),
        ("guarantees", "16"),
        ("guarantees", "Where the papers differ"),
    ]
    assert list(named(TWO_LINES)) == [("protocol", "One block, ever"), ("format", "15")]
    assert list(named("docs/protocol.md, steps 2 to 6; in docs/methods.md.")) == []

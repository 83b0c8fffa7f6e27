"""What `make docs` builds on: every page of docs/ is in its contents, and every name of the Python reference is there."""

import importlib
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_the_contents_have_every_page_once() -> None:
    sections = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [
        page
        for section in sections
        for found in section.values()
        for page in ([found] if isinstance(found, str) else found)
    ]
    assert sorted(pages) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_names_of_the_python_reference_exist() -> None:
    names = re.findall(r"^::: ([\w.]+)\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert len(names) > 3
    assert [f"{home}.{name}" for home, name in names if not hasattr(importlib.import_module(home), name)] == []

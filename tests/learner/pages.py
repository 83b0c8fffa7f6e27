"""Pages to look into, and a release whose title, units and levels are what an attacker would write into one, or a shell."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

from dprelease.estimators import fit
from dprelease.report.content import FitReport, reported
from learner.client.library import Opened
from tests.learner.moments import opened
from tests.learner.world import World
from tests.support.specs import categorical, numeric

TITLE = "</style></title><script>alert('title')</script> & \x1b[31mred\N{RIGHT-TO-LEFT OVERRIDE}"
UNIT = "<img src=x onerror=alert(1)>"
LEVELS = ("<script>alert(1)</script>", "a\"b' & c,d", "$(touch /nowhere); `x` \\", "]]>&lt;-->")
TARGETS = ("glucose", "arm=<b>")
FEATURES = ("age", f"stage={LEVELS[1]}", f"stage={LEVELS[2]}")


def hostile(folder: Path) -> Opened:
    """Published and verified. Age and glucose go together in it."""
    columns = {
        "north": (numeric("age", 0.0, 120.0, unit=UNIT), categorical("stage", *LEVELS)),
        "south": (numeric("glucose", 2.0, 30.0, unit="//evil.example/x"), categorical("arm", "<b>", "c")),
    }
    return opened(World(folder, columns), folder, title=TITLE)


def parsed(markup: str) -> Element:
    """The root of a page or of a part of one; raises if it is not well-formed."""
    return fromstring(markup.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314 - our own output


def report(found: Opened, targets: Sequence[str], features: Sequence[str] = (), *how: Any) -> FitReport:
    """Content of a report on a fit; further arguments are those of `fit`, from the method on."""
    release = found.release
    made = reported(release, [fit(release, targets or release.spec.outcomes, features or None, *how)])
    assert isinstance(made, FitReport)
    return made

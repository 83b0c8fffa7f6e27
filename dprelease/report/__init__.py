"""Pages and model cards, as `learner report` and `card` write them, and `release.report` and `card` in Python.

To import this loads jinja2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from dprelease.description.counterfactual import DescribedCounterfactual
from dprelease.description.described import Unfitted
from dprelease.description.ranges import DescribedRanges
from dprelease.report.analysis_page import analyses_page
from dprelease.report.content import FitReport, Report, reported
from dprelease.report.fit_page import fit_page
from dprelease.report.model_card import model_card
from dprelease.report.read_pages import counterfactual_page, ranges_page

__all__ = ["card", "page", "reported"]

_PAGES: Mapping[type, Callable[[Any], str]] = MappingProxyType(
    {
        FitReport: fit_page,
        Report: analyses_page,
        DescribedRanges: ranges_page,
        DescribedCounterfactual: counterfactual_page,
    }
)


def page(made: Report | Unfitted) -> str:
    """The page, both HTML and well-formed XML; text in it may come from strangers. Raises as `dprelease.report.page.write`."""
    return _PAGES[type(made)](made)


def card(made: Report | Unfitted) -> dict[str, Any]:
    """The model card, or what `learner describe --json` prints of a release that nothing is fitted on."""
    return model_card(made) if isinstance(made, Report) else made.document().to_json()

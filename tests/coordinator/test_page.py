"""The requests that the office's page shows first are requests, and their options those of their mechanisms."""

import re
from pathlib import Path

from coordinator.proposals.proposals import Request
from dprelease.files.settings import read_settings

PAGE = (Path(__file__).parents[2] / "docs" / "coordinator.md").read_text(encoding="utf-8")


def test_the_first_requests_are_moments_in_ranges_and_mixed_rows(tmp_path: Path) -> None:
    (section,) = re.findall(r"^## A release\n(.*?)^## ", PAGE, re.M | re.S)
    path, found = tmp_path / "request.toml", []
    for text in re.findall(r"^```toml\n(.*?)^```$", section, re.M | re.S):
        # Keys that stand there to be chosen are keys as well.
        for shown in (text, re.sub(r"^# (?=\w+ = )", "", text, flags=re.M)):
            path.write_text(shown, encoding="utf-8")
            found.append(read_settings(path, Request))
    moments, chosen, mixed, _ = found
    assert (moments.mechanism, moments.options.ranges) == ("moments", "first")
    assert chosen.options.outcome_weight == {"systolic": 1.7}
    assert mixed.mechanism == "mixed"
    assert moments.parties == mixed.parties

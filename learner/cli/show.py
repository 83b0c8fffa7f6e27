"""What a learner sees: tables and sentences on the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dprelease.mechanisms.ranges.released import HIDDEN, SHARES, Summary, boxes
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import one_line
from dprelease.privacy.price import epsilon_text, mu2_text
from dprelease.release.release import Floats, Release
from dprelease.release.trust import trust
from dprelease.release.verification import checks
from learner.client.library import Opened
from learner.client.pinned_roots import Trusted
from learner.client.spending import Account
from learner.listing import Listed

if TYPE_CHECKING:  # estimators load slowly, and most commands print none of these
    from dprelease.analyses import Analysis
    from dprelease.estimators import FitResult
    from learner.client.describe import Description
    from learner.client.describe_counterfactual import DescribedCounterfactual
    from learner.client.describe_ranges import DescribedRanges

SHOWN_DIGITS = 16
"""Hexadecimal digits of a digest in tables: an ID that every command takes."""

MOST_CORRELATED = 10
"""Columns whose correlations fit on a terminal."""


def plain(text: str) -> str:
    """Text from elsewhere, with nothing in it that a terminal or rich would obey."""
    return escape(one_line(text))


def trusted(consortia: Iterable[Trusted]) -> None:
    """Trusted consortia."""
    shown = Table("consortium", "hub", "mirrors", "root SHA-256")
    for each in consortia:
        mirrors = "\n".join(plain(url) for url in each.mirrors)
        shown.add_row(plain(each.name), plain(each.hub or "none"), mirrors or "none", each.fingerprint)
    _print(shown)


def listed(lines: Iterable[Listed]) -> None:
    """A hub's list; checkpoints of a stream stand together, where its newest one stands."""
    together: dict[str, list[Listed]] = {}
    for line in lines:
        together.setdefault(line.checkpoint.stream if line.checkpoint else line.digest, []).append(line)
    streams = any(group[0].checkpoint for group in together.values())
    shown = Table("ID", "title", *(["checkpoint"] if streams else []), "published", "patients", "columns", "MiB")
    for line in chain.from_iterable(together.values()):
        shown.add_row(
            line.digest[:SHOWN_DIGITS],
            plain(line.title),
            *([str(line.checkpoint or "")] if streams else []),
            plain(line.published),
            str(line.rows),
            str(line.columns),
            f"{line.size / 2**20:.1f}",
        )
    _print(shown)


def spent(account: Account, delta: float) -> None:
    """A roster's releases by date, and what they spent."""
    heads = ("published", "ID", "title", "mechanism", "mu^2", "epsilon", "spent so far: mu^2", "epsilon")
    shown = Table(*heads, title=f"roster {plain(account.roster)}, epsilon at delta = {delta:g}", title_justify="left")
    for each in account.releases:
        spec = each.manifest.spec
        shown.add_row(
            each.manifest.published,
            spec.digest()[:SHOWN_DIGITS],
            plain(spec.title),
            spec.mechanism,
            mu2_text(each.mu2),
            epsilon_text(each.mu2, delta),
            mu2_text(each.total),
            epsilon_text(each.total, delta),
        )
    _print(shown)


def verified(opened: Opened) -> None:
    """What was checked, what is guaranteed, and who is trusted for what."""
    spec = opened.release.spec
    _say(f"[bold]{plain(spec.title)}[/bold]")
    _say(f"release {spec.digest()} of consortium {plain(spec.consortium)}, published {opened.manifest.published}")
    _say(f"{spec.patients} {spec.counted}, {mechanism_of(spec).words(spec).content}")
    _say(f"\n[bold]Checked[/bold] against the pinned root {opened.consortium.fingerprint}")
    for check in checks(spec):
        _say(f"  [green]ok[/green] {check}")
    guarantee(opened.release)


def guarantee(release: Release) -> None:
    """The guarantee in words, and who has to be trusted for it."""
    for title, sentences in (("Guarantee", release.guarantee), ("Trust", trust(release.spec))):
        _say(f"\n[bold]{title}[/bold]")
        for sentence in sentences:
            _say(f"  {plain(sentence)}")


def described(found: Description) -> None:
    """Columns one by one and in pairs, guarantee, trust."""
    moments = found.correlation is not None
    heads = ("column", "mean", "noise sd", *(("standard deviation", "noise sd") if moments else ()), "unit")
    shown = Table(*heads, title=f"{found.release.patients} {found.release.spec.counted}", title_justify="left")
    for place, name in enumerate(found.names):
        hidden = found.hidden[place]
        cells = [_unless_hidden("mean" in hidden, found.mean[place]), f"{found.mean_noise_sd[place]:.2g}"]
        if moments:
            spread = _unless_hidden("standard_deviation" in hidden, found.deviation[place])
            cells += [spread, _or_dash(found.deviation_noise_sd[place])]
        shown.add_row(plain(name), *cells, plain(found.unit(name) or "1"))
    _print(shown)
    for name, derivation in found.derivations.items():
        _say(f"{plain(name)} is derived: {plain(derivation)}")
    for sentence in found.rows:
        _say(sentence)
    if any(found.hidden):
        _say("hidden: noise covers the whole range of a mean, or a spread cannot be told from none")
    if found.correlation is None or found.correlation_noise_sd is None:
        _say("standard deviations and correlations need a release of joint moments (mechanism moments)")
    elif len(found.correlated) > MOST_CORRELATED:
        _say(
            f"correlations of {len(found.correlated)} columns: choose up to {MOST_CORRELATED} with --columns, or --json"
        )
    elif found.correlated:
        _correlations(found.correlated, found.correlation, found.correlation_noise_sd)
    if found.correlation is not None and len(found.correlated) < len(found.names):
        _say("outcomes of this release have no correlations: fit them on the features")
    if found.ranges:
        _ranges(found.ranges, "from the first round, about rows before clipping")
    guarantee(found.release)


def ranges(found: DescribedRanges) -> None:
    """Mean, standard deviation and quantiles of columns, guarantee, trust."""
    _ranges(found.columns, f"{found.release.spec.rows} {found.release.spec.counted}")
    guarantee(found.release)


def _ranges(columns: tuple[Summary, ...], title: str) -> None:
    heads = ("column", "mean", "standard deviation", *(f"{share:.0%}" for share in SHARES), "unit")
    shown = Table(*heads, title=title, title_justify="left")
    for each in columns:
        quantiles = zip(each.quantiles, each.quantile_errors, each.quantile_words, strict=True)
        told = [(each.mean, each.mean_error, ""), (each.deviation, each.deviation_error, ""), *quantiles]
        cells = [
            words if words == HIDDEN else f"{words} {value:.4g} ({error:.2g})".lstrip() for value, error, words in told
        ]
        shown.add_row(plain(each.column.name), *cells, plain(each.column.unit or "1"))
    _print(shown)
    for sentence in boxes(columns):
        _say(plain(sentence))
    if any(chain.from_iterable(each.quantile_words for each in columns)):
        _say(
            "at most, at least: values beyond the bounds, or the box, count in the outermost cell, where the quantile may be; "
            "hidden: in either"
        )
    _say(
        "in brackets: standard deviation of what privacy noise leaves open; for quantiles, with the width of a counted cell"
    )
    _say(
        "of a column with long tails the standard deviation comes out too small: sums count its ends as less than they are"
    )


def counterfactual(found: DescribedCounterfactual) -> None:
    """Path, effect and interval at each time, placebos, guarantee, trust."""
    share, placebo = f"{found.level:.0%}", found.found.placebo
    title = f"{sum(found.found.donors)} donors, unit {plain(found.unit or '1')}"
    shown = Table(
        "time", "target", "counterfactual", "error", "effect", f"{share} from", "to", title=title, title_justify="left"
    )
    for name, *numbers in found.lines:
        shown.add_row(plain(name), *(f"{number:.4g}" for number in numbers))
    _print(shown)
    mean, error = found.found.mean_effect
    _say(f"mean effect {mean:.4g} (error {error:.2g})")
    _say(
        f"placebo: p = {placebo.p_value:.3f}; root mean square gap of the target {placebo.gap:.3g} half-widths of the bounds, "
        f"of a donor {placebo.donors_gap:.3g}"
    )
    for note in found.notes:
        _say(note)
    for release in found.releases:
        guarantee(release)


def _correlations(names: tuple[str, ...], values: Floats, noise_sd: Floats) -> None:
    numbers = [str(place) for place in range(1, len(names))]
    shown = Table("", "correlation with", *numbers, title="noise sd in brackets", title_justify="left")
    for row, name in enumerate(names):
        cells = [f"{values[row, column]:.2f} ({_or_dash(noise_sd[row, column])})" for column in range(row)]
        shown.add_row(str(row + 1), plain(name), *cells)
    _print(shown)


def _unless_hidden(hidden: bool, number: float) -> str:
    return "hidden" if hidden else f"{number:.6g}"


def _or_dash(number: float) -> str:
    return f"{number:.2g}" if math.isfinite(number) else "-"


def fitted(result: FitResult | Analysis) -> None:
    """A fit or an analysis as its `summary` words it; a table that is wider than the terminal is not torn apart."""
    for line in result.summary().splitlines():
        _say(plain(line))


def _say(sentence: str) -> None:
    _console().print(sentence, soft_wrap=True, highlight=False)


def _print(shown: Table) -> None:
    for column in shown.columns:
        column.overflow = "fold"
    _console().print(shown)


def _console() -> Console:
    # Made anew, because standard output may have been redirected since; a file or pipe gets whole lines.
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)

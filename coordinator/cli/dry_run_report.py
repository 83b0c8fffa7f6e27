"""What a dry run found, for people and as JSON. FAKE comes first."""

from __future__ import annotations

from typing import Any

import click

from coordinator.cli.options import print_table
from coordinator.dry_run.dry_run import DryRun
from coordinator.dry_run.simulate import traffic
from coordinator.dry_run.trial_fit import Trial
from dprelease.mechanisms.registry import mechanism_of
from dprelease.privacy.price import price_text
from dprelease.release.fake import FAKE, NOTE
from dprelease.release.trust import trust


def print_report(found: DryRun) -> None:
    """The report as text."""
    spec = found.proposal.spec
    click.echo(f"{FAKE}: a dry run of {spec.title!r}. Nothing was proposed, charged, stored or sent.")
    click.echo(NOTE)
    click.echo(_shape(found))
    if found.proposal.explanation:
        click.echo(f"plan: {found.proposal.explanation}")
    click.echo()
    _print_parties(found)
    click.echo()
    for sentence in (*found.proposal.guarantee.words(), *trust(spec)):
        click.echo(sentence)
    click.echo()
    print_table((f"{FAKE} STEP", "SECONDS"), [(name, f"{each:.3f}") for name, each in found.seconds.items()])
    click.echo("verified: as `learner verify` does, from the files that were written")
    for line in _fit_lines(found):
        click.echo(line)
    if found.kept is not None:
        folder, home = found.kept.folder, found.kept.folder / "learner"
        click.echo(f"\nkept: {folder}. Open it as a learner, who keeps what belongs to it apart with --home:")
        consortium = found.rehearsed.spec.consortium
        click.echo(
            f"  learner --home {home} trust add {consortium} --root {found.kept.root} --hub localhost:1 "
            f"--fingerprint {found.kept.fingerprint}"
        )
        click.echo(f"  learner --home {home} verify {folder}")
        use = f"describe {folder}" if found.trial is None else f"fit {folder} --target {found.outcome}"
        click.echo(f"  learner --home {home} {use}")


def report_json(found: DryRun) -> dict[str, Any]:
    """The report as plain data; every mu^2 is an exact rational, ``"p/q"``."""
    spec, given = found.proposal.spec, found.proposal.guarantee
    return {
        "fake": True,
        "note": NOTE,
        "title": spec.title,
        "rows": spec.rows,
        "fake_rows": found.rehearsed.spec.rows,
        "mechanism": spec.mechanism,
        "plan": found.proposal.explanation or None,
        "similar": None if found.similar is None else found.similar.digest,
        "charged_mu2": {part.party: str(part.mu2) for part in given.parties},
        "epsilon": {part.party: part.epsilon for part in given.parties},
        "delta": given.delta,
        "joint_epsilon": given.joint_epsilon,
        "bytes": {party: vars(each) for party, each in traffic(spec).items()},
        "seconds": found.seconds,
        "guarantee": list(given.words()),
        "trust": list(trust(spec)),
        "verified": True,
        "fit": None if found.trial is None else _fit_json(found.trial),
        "kept": None if found.kept is None else {name: str(value) for name, value in vars(found.kept).items()},
    }


def _shape(found: DryRun) -> str:
    spec, rows = found.proposal.spec, found.rehearsed.spec.rows
    shape = f"n = {spec.rows}, mechanism {spec.mechanism}"
    own = mechanism_of(spec).words(spec).shape
    shape += f", {own}" if own else ""
    if rows < spec.rows:
        shape += (
            f"\n{FAKE} rows: {rows} instead of n = {spec.rows} (--rows). Seconds and the fit are of those; bytes, prices and "
            "guarantee are of the whole release."
        )
    return shape


def _print_parties(found: DryRun) -> None:
    spec, given = found.proposal.spec, found.proposal.guarantee
    schedule = mechanism_of(spec).schedule(spec)
    moments = schedule is not None and bool(schedule.pairs)
    header = ("HOSPITAL", "COLUMNS", "BLOCK", *(("MASKED COLUMNS", "DEALT") if moments else ()), "IS CHARGED")
    lines = []
    for part in spec.parties:
        sizes = traffic(spec)[part.party]
        more = (_bytes(sizes.columns), _bytes(sizes.dealt)) if moments else ()
        price = price_text(given.party(part.party).mu2, given.delta)
        lines.append((part.party, str(len(part.released)), _bytes(sizes.block), *more, price))
    print_table(header, lines)


def _bytes(size: int) -> str:
    return f"{size:,} bytes"


def _fit_lines(found: DryRun) -> list[str]:
    if found.trial is None:
        return [f"no fit: {found.no_trial}"]
    one, expected = found.trial, found.trial.expected
    target, features = one.result.targets[0], len(one.result.features)
    return [
        f"{FAKE} fit of {target} on {features} features by {one.result.method} ({one.result.algorithm}), R^2 on the made-up rows: "
        f"{_r2(one.r2)}; "
        f"the planner expects {_r2(expected.r2)}; least squares on the rows themselves {_r2(one.signal)}; "
        f"the released mean {_r2(one.constant_r2)}, expected {_r2(expected.constant_r2)}.",
        "Made-up rows spread evenly over their ranges; those of patients hardly do: see `coordinator plan --spread`.",
    ]


def _r2(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # never -0.000


def _fit_json(found: Trial) -> dict[str, Any]:
    return {
        "target": found.result.targets[0],
        "features": list(found.result.features),
        "method": found.result.method,
        "algorithm": found.result.algorithm,
        "r2": found.r2,
        "constant_r2": found.constant_r2,
        "least_squares_r2": found.signal,
        "expected_r2": found.expected.r2,
        "expected_constant_r2": found.expected.constant_r2,
    }

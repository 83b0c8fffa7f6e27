"""Findings of a dry run, for people and as JSON. FAKE comes first."""

from __future__ import annotations

from typing import Any

from coordinator.dry_run.dry_run import DryRun, Trial
from coordinator.dry_run.simulate import traffic
from dprelease.document.cells import Said, price
from dprelease.document.document import Document, Heading, Promise, Table
from dprelease.mechanisms.registry import mechanism_of
from dprelease.release.accounting import trust
from dprelease.release.fake import FAKE, NOTE


def report(found: DryRun) -> Document:
    """The report; every number of it is of made-up rows but bytes, prices and the guarantee, which are the release's own."""
    spec, given = found.proposal.spec, found.proposal.guarantee
    return Document(
        f"{FAKE}: a dry run of {spec.title!r}. Nothing was proposed, charged, stored or sent.",
        {"note": NOTE, "shape": _shape(found), "plan": found.proposal.explanation or None},
        (_parties(found), _steps(found)),
        tuple(_fit_lines(found)),
        Promise("The release would have this guarantee and ask for this trust:", given.words(), trust(spec)),
        {
            "fake": True,
            "request_title": spec.title,
            "rows": spec.rows,
            "fake_rows": found.simulated.spec.rows,
            "mechanism": spec.mechanism,
            "similar": None if found.similar is None else found.similar.digest,
            "delta": given.delta,
            "joint_epsilon": given.joint_epsilon,
            "verified": True,
            "fit": None if found.trial is None else _fit_json(found.trial),
            "kept": None if found.kept is None else {name: str(value) for name, value in vars(found.kept).items()},
        },
    )


def opened_with(found: DryRun) -> list[str]:
    """Commands that open what was kept, for a shell: they are whole lines."""
    if found.kept is None:
        return []
    folder, home = found.kept.folder, found.kept.folder / "learner"
    learner, consortium = f"learner --home {home}", found.simulated.spec.consortium
    use = f"describe {folder}" if found.trial is None else f"fit {folder} --target {found.outcome}"
    return [
        f"\nkept: {folder}. Open it as a learner, who keeps what belongs to it apart with --home:",
        f"  {learner} trust add {consortium} --root {found.kept.root} --hub localhost:1 "
        f"--fingerprint {found.kept.fingerprint}",
        f"  {learner} verify {folder}",
        f"  {learner} {use}",
    ]


def _shape(found: DryRun) -> tuple[str, ...]:
    spec, rows = found.proposal.spec, found.simulated.spec.rows
    own = mechanism_of(spec).statements(spec).shape
    shape = f"n = {spec.rows:,}, mechanism {spec.mechanism}" + (f", {own}" if own else "")
    if rows == spec.rows:
        return (shape,)
    fewer = f"{FAKE} rows: {rows:,} instead of n = {spec.rows:,} (--rows). Seconds and the fit are of those."
    return (shape, fewer, "Bytes, prices and guarantee are of the whole release.")


def _parties(found: DryRun) -> Table:
    spec, given = found.proposal.spec, found.proposal.guarantee
    sizes = traffic(spec)
    moments = any(size.columns for size in sizes.values())
    headings = (
        Heading("party", "hospital"),
        "columns",
        Heading("block", unit="bytes"),
        Heading("masked_columns", unit="bytes", detail=not moments),
        Heading("dealt", unit="bytes", detail=not moments),
        Heading("charged", "is charged"),
    )
    rows = []
    for part in spec.parties:
        size = sizes[part.party]
        charged = price(given.party(part.party).mu2, given.delta)
        rows.append((part.party, len(part.columns), size.block, size.columns, size.dealt, charged))
    return Table.of("parties", headings, rows)


def _steps(found: DryRun) -> Table:
    seconds = [(name, Said(each, f"{each:.3f}")) for name, each in found.seconds.items()]
    verified = "verified: as `learner verify` does, from the files that were written"
    return Table.of("steps", (Heading("step", f"{FAKE} step"), "seconds"), seconds, below=(verified,))


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

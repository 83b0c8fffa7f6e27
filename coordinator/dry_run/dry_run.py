"""`coordinator release create --dry-run`: the whole way of a release on made-up rows.

The request goes through the same checks and becomes the same spec as in earnest. From there on everything is made up and
says FAKE: rows, keys, root, certificates, consortium, files. The store is only read, and nobody is called.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from coordinator.authority.authority import Authority
from coordinator.dry_run.simulate import Signers, Simulated, SimulatedSigner, Stopwatch, simulate
from coordinator.proposals.proposals import CheckedProposal, Request, make_proposal
from coordinator.proposals.published import EarlierReleases, similar_to
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.arrays import Floats
from dprelease.data.columns import unbounded
from dprelease.data.decades import decade_values
from dprelease.errors import InvalidInput
from dprelease.estimators import FitResult, fit
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import certificate_fingerprint
from dprelease.identity.signing import key_fingerprint, new_private_key
from dprelease.mechanisms.assumptions import PlannedFit
from dprelease.mechanisms.expected_error import Forecast
from dprelease.mechanisms.registry import mechanism_of
from dprelease.one_line import listed
from dprelease.privacy.noise import SecureNoise
from dprelease.release.fake import FAKE, fake_spec, marked
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec

_LEAST_SIGNAL = 1e-6


@dataclass(frozen=True)
class Trial:
    """One fit of one draw of noise.

    Attributes:
        result: the fit, by the default method.
        signal: R^2 of least squares on the made-up rows themselves.
        r2: share of the outcome's variance that the fit explains on the made-up rows.
        constant_r2: the same of the released mean.
        expected: what the planner says of such a fit, told the signal.
    """

    result: FitResult
    signal: float
    r2: float
    constant_r2: float
    expected: Forecast


def trial(simulated: Simulated, outcome: str) -> Trial:
    """Fit the outcome on every other column.

    Args:
        simulated: a simulation.
        outcome: name of a declared column; of a category, its first level is fitted.

    Raises:
        InvalidInput: there is no other column, too little was released to fit on, or the made-up outcome does not vary.
    """
    spec, release = simulated.spec, simulated.release
    column = next(column for column in spec.columns if column.name == outcome)
    result = fit(release, [column.released[0]])
    values = _values(simulated)
    y, x = values[result.targets[0]], np.column_stack([values[name] for name in result.features])
    if not np.ptp(y):
        raise InvalidInput(f"{outcome} is the same in all {len(y)} made-up rows, so there is nothing to explain")
    signal = explained(y, _least_squares(x, y))
    return Trial(
        result=result,
        signal=signal,
        r2=explained(y, result.predict(x)[:, 0]),
        constant_r2=explained(y, np.full(len(y), result.constant[0])),
        expected=mechanism_of(spec).forecast(spec, _planned(spec, outcome), min(max(signal, _LEAST_SIGNAL), 1.0)),
    )


def explained(y: Floats, predicted: Floats) -> float:
    """Share of the variance of y, (n,), that a prediction explains; below 0 it is worse than the mean."""
    return float(1 - np.mean((y - predicted) ** 2) / np.var(y))


def _values(simulated: Simulated) -> dict[str, Floats]:
    """Released name to (n,) made-up values, original units."""
    spec = simulated.spec
    midpoint, half_width = simulated.release.original_units()
    codes = np.hstack([simulated.rows[part.party].codes for part in spec.parties])
    values = midpoint + half_width * codes * 2.0**-spec.grid_bits
    for column in unbounded(spec.columns):
        place = spec.released.index(column.name)
        values[:, place] = decade_values(codes[:, place], spec.grid_bits)
    return dict(zip(spec.released, values.T, strict=True))


def _least_squares(x: Floats, y: Floats) -> Floats:
    centred = (x - x.mean(axis=0)) / np.ptp(x, axis=0).clip(min=np.finfo(float).tiny)
    slopes = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
    fitted: Floats = y.mean() + centred @ slopes
    return fitted


def _planned(spec: ReleaseSpec, outcome: str) -> PlannedFit:
    features = tuple(column.name for column in spec.columns if column.name not in {outcome, *spec.outcomes})
    return PlannedFit(spec.columns, outcome, features)


MOST_ROWS = 100_000
"""Made-up patients, unless the command asks for more."""

ROOT = f"{FAKE}-root.pem"

_DAYS = 1


@dataclass(frozen=True)
class SavedRelease:
    """A made-up release that was kept.

    Attributes:
        folder: where; its name says FAKE.
        root: throw-away root certificate beside it.
        fingerprint: of the root, SHA-256.
    """

    folder: Path
    root: Path
    fingerprint: str


@dataclass(frozen=True)
class DryRun:
    """Findings of a dry run.

    Attributes:
        proposal: what would be proposed.
        similar: an open or published release of the same content, which the parties would pay for again.
        simulated: the made-up release.
        outcome: name of the column that was fitted on the others.
        trial: that fit; None where there is nothing to fit.
        no_trial: why there is none; empty where there is one.
        seconds: step to seconds.
        kept: where the made-up release stands; None unless it was to be kept.
    """

    proposal: CheckedProposal
    similar: Agreement | None
    simulated: Simulated
    outcome: str
    trial: Trial | None
    no_trial: str
    seconds: dict[str, float]
    kept: SavedRelease | None


def dry_run(
    store: Store,
    request: Request,
    now: datetime,
    *,
    allow_large_delta: bool = False,
    outcome: str | None = None,
    rows: int | None = None,
    keep: Path | None = None,
    root: Path | None = None,
    published: Path | None = None,
) -> DryRun:
    """Go the whole way on made-up rows.

    Args:
        store: the consortium's; only read.
        request: what is asked for.
        now: the present.
        allow_large_delta: see `proposals.make_proposal`.
        outcome: name of the column to fit on the others; the last one, of those named as outcomes if any are, unless given.
        rows: most patients to make up; `MOST_ROWS`, or k if that is more, unless given.
        keep: folder in which to keep the made-up release.
        root: see `EarlierReleases`.
        published: see `EarlierReleases`.

    Raises:
        InvalidInput, SpecRefused: as in earnest; or no such outcome, or too few rows.
    """
    watch = Stopwatch()
    with watch.step("check the request, make the spec"), store.reading() as tx:
        name, members = store.consortium.name, tx.members
        earlier = EarlierReleases(tx.releases.all(), published, root)
        proposal = make_proposal(request, name, members, now, allow_large_delta=allow_large_delta, earlier=earlier)
        similar = similar_to(proposal.spec, earlier.known)
    names = [column.name for column in proposal.spec.columns]
    target = (proposal.spec.outcomes or names)[-1] if outcome is None else outcome
    if target not in names:
        raise InvalidInput(f"no such column: {target}; there are {listed(names)}")
    with watch.step("make throw-away keys"):
        spec, signers = _made_up(proposal.spec, _rows(proposal.spec, rows), now)
    with _folder(keep, spec) as path:
        simulated = simulate(spec, target, signers, SecureNoise(), ReleaseFolder(path), now, watch)
        kept = None
        if keep is not None:
            write_durably(path / ROOT, signers.root.encode())
            kept = SavedRelease(path, path / ROOT, certificate_fingerprint(signers.root))
    fitted, none = None, "there is one column only" if len(names) == 1 else ""
    if not none:
        # What a learner could not fit is worth knowing, but no reason to withhold price, guarantee and the rest.
        try:
            with watch.step("fit"):
                fitted = trial(simulated, target)
        except InvalidInput as error:
            none = error.message
    return DryRun(proposal, similar, simulated, target, fitted, none, watch.seconds, kept)


def _rows(spec: ReleaseSpec, most: int | None) -> int:
    least = spec.terms.least_rows(spec)
    if most is not None and most < least:
        raise InvalidInput(f"--rows must be at least {least}: this release mixes no fewer patients")
    return min(spec.rows, max(MOST_ROWS, least) if most is None else most)


def _made_up(real: ReleaseSpec, rows: int, now: datetime) -> tuple[ReleaseSpec, Signers]:
    authority = Authority.found(marked(real.consortium), now)
    keys = {marked(part.party): new_private_key() for part in real.parties}
    spec = fake_spec(real, {name: key_fingerprint(key.public_key()) for name, key in keys.items()}, rows)
    parties = {
        name: SimulatedSigner(key, authority.issue(name, "party", key.public_key(), now, _DAYS).decode())
        for name, key in keys.items()
    }
    key = new_private_key()
    hub = SimulatedSigner(key, authority.issue(marked("hub"), "hub", key.public_key(), now, _DAYS).decode())
    return spec, Signers(authority.root_pem.decode(), hub, parties)


@contextmanager
def _folder(keep: Path | None, spec: ReleaseSpec) -> Iterator[Path]:
    """A folder for the made-up release: one that stays, or one that is removed at the end."""
    name = f"{FAKE}-{spec.digest()[:12]}"
    if keep is not None:
        yield keep / name
    else:
        with tempfile.TemporaryDirectory(prefix=f"{FAKE}-") as scratch:
            yield Path(scratch) / name

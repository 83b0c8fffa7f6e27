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

from coordinator.authority.authority import Authority
from coordinator.dry_run.simulate import Signers, Simulated, SimulatedSigner, Stopwatch, simulate
from coordinator.dry_run.trial_fit import Trial, trial
from coordinator.proposals.proposals import CheckedProposal, Request, make_proposal
from coordinator.proposals.published import EarlierReleases, similar_to
from coordinator.store.agreements import Agreement
from coordinator.store.store import Store
from dprelease.errors import InvalidInput
from dprelease.files.durable import write_durably
from dprelease.identity.certificates import certificate_fingerprint
from dprelease.identity.signing import key_fingerprint, new_private_key
from dprelease.one_line import listed
from dprelease.privacy.noise import SecureNoise
from dprelease.release.fake import FAKE, fake_spec, marked
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec

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
    outputs = spec.terms.least_rows(spec.rows)
    if most is not None and most < outputs:
        raise InvalidInput(f"--rows must be at least k = {outputs}: a mixture has no more rows than there are patients")
    return min(spec.rows, max(MOST_ROWS, outputs) if most is None else most)


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

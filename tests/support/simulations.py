"""a throw-away consortium for simulations, and simulations of small specs."""

from pathlib import Path

from coordinator.dry_run.simulate import Signers, Simulated, SimulatedSigner, Stopwatch, simulate
from dprelease.privacy.noise import NoiseSource
from dprelease.release.fake import fake_spec, marked
from dprelease.release.folder import ReleaseFolder
from dprelease.release.spec import ReleaseSpec
from tests.support.certificates import NOW, Member
from tests.support.specs import new_consortium


def _signer(member: Member) -> SimulatedSigner:
    return SimulatedSigner(member.key, member.certificate)


def made_up(spec: ReleaseSpec, rows: int | None = None) -> tuple[ReleaseSpec, Signers]:
    consortium = new_consortium(*(marked(part.party) for part in spec.parties))
    signers = Signers(
        consortium.root.certificate,
        _signer(consortium.hub),
        {name: _signer(member) for name, member in consortium.parties.items()},
    )
    return fake_spec(spec, consortium.keys, spec.rows if rows is None else rows), signers


def simulated(
    spec: ReleaseSpec, outcome: str, folder: Path, noise: NoiseSource, watch: Stopwatch | None = None
) -> Simulated:
    fake, signers = made_up(spec)
    return simulate(fake, outcome, signers, noise, ReleaseFolder(folder), NOW, watch or Stopwatch())

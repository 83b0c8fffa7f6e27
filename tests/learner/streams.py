"""Streams of joint moments of three hospitals that a hub publishes, checkpoint by checkpoint."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from dprelease.privacy.noise import NoiseSource
from dprelease.release.folder import ReleaseFolder
from dprelease.release.release import Release
from learner.hub.storage import Storage
from tests.learner.world import Sealed, World, publish_to
from tests.support.noise import SeededNoise
from tests.support.specs import build_spec
from tests.support.streams import Hospitals, first_spec, following

ROWS = (400, 250, 310)
"""New patients of each checkpoint."""

CHECKPOINTS = 4
"""T: one more than are published."""


class PublishedStream:
    """A stream whose checkpoints are published one after the other.

    Args:
        world: the consortium.
        storage: the hub's.
        noise: of the hospitals.
        q: most rows of one patient.
        options: of the request.
    """

    def __init__(
        self, world: World, noise: NoiseSource | None = None, rows: int = ROWS[0], q: int = 1, **options: Any
    ) -> None:
        keys = {name: member.fingerprint for name, member in world.parties.items()}
        base = build_spec(world.columns, keys=keys, rows=rows, rows_per_subject=q, title="a stream of patients")
        request = {"of": "moments", "checkpoints": CHECKPOINTS, **options}
        self.world, self.noise = world, noise or SeededNoise(7)
        self.hospitals = Hospitals(first_spec(base, **request))
        self.releases: list[Release] = []
        self._begun = datetime.now(UTC) - timedelta(hours=1)

    def publish(
        self, storage: Storage, rows: int | None = None, change: Callable[[Release], Release] = lambda release: release
    ) -> ReleaseFolder:
        """The next checkpoint, with what a hospital changes in its blocks; published a minute after the one before."""
        if self.releases:
            self.hospitals.spec = following(self.hospitals.spec, rows or ROWS[len(self.releases)])
        release = change(self.hospitals.publish(self.noise))
        self.releases.append(release)
        return publish_to(
            storage, self.world, self.sealed(release), self._begun + timedelta(minutes=len(self.releases))
        )

    def sealed(self, release: Release) -> Sealed:
        """A checkpoint under every hospital's signature."""
        spec, blocks = release.spec, {party: only.to_bytes() for party, (only,) in release.blocks.items()}
        return Sealed(
            spec,
            blocks,
            {name: self.world.seal(name, spec, block) for name, block in blocks.items()},
            tuple(self.world.approval(name, spec) for name in blocks),
        )

"""An honest release and the means to depart from it, for the tests of verification.

A departure makes something that a learner might be handed; it is registered with the sentence that refuses it.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dprelease.canonical import canonical_bytes
from dprelease.identity.signing import PrivateKey
from dprelease.release.manifest import sign_manifest
from dprelease.release.release import Release
from dprelease.release.spec import ReleaseSpec
from dprelease.release.verification import verify_release
from tests.support.noise import SeededNoise
from tests.support.specs import TWO_PARTIES, Published, build_spec, new_consortium, publish

TRIAL = new_consortium(*TWO_PARTIES)
NORTH, SOUTH = TRIAL.parties["north"], TRIAL.parties["south"]
SPEC = build_spec(keys=TRIAL.keys)
HONEST = publish(TRIAL, SPEC, SeededNoise(1))

Departure = Callable[[], Published]


class Departures(dict[str, tuple[Departure, str]]):
    """Departures by name, each with a part of the sentence that refuses it."""

    def because(self, sentence: str) -> Callable[[Departure], Departure]:
        def register(departure: Departure) -> Departure:
            self[departure.__name__] = (departure, sentence)
            return departure

        return register


def verified(published: Published) -> Release:
    return verify_release(
        published.manifest, published.signature, lambda block: published.blocks[block.party], published.root
    )


def by_hub(change: Callable[[dict[str, Any]], object], key: PrivateKey = TRIAL.hub.key) -> Published:
    """The manifest changed as plain data and properly signed again: what a dishonest hub can do."""
    data = json.loads(HONEST.manifest)
    change(data)
    manifest = canonical_bytes(data)
    return replace(HONEST, manifest=manifest, signature=sign_manifest(key, manifest))


def by_everybody(spec: ReleaseSpec) -> Published:
    """A spec that does not hold what it says, approved, sealed and signed by all: only its numbers give it away."""
    return publish(TRIAL, spec, SeededNoise(3))


def with_blocks(**blocks: bytes) -> Published:
    """Other bytes for some of the blocks, under the honest manifest."""
    return replace(HONEST, blocks={**HONEST.blocks, **blocks})

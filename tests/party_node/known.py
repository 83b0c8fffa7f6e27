"""What one hospital knows by itself when a proposal comes in, as plain values."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dprelease.catalogue import Catalogue
from dprelease.release.spec import ReleaseSpec
from party_node.decision.decision import Assessment, assess
from party_node.settings import Policy, PolicyLimits
from party_node.state.entries import Balance
from tests.support.certificates import NOW
from tests.support.specs import TWO_PARTIES, build_spec

KEYS = {"north": "aa" * 32, "south": "bb" * 32}


@dataclass(frozen=True)
class Known:
    """What the north knows by itself."""

    own: Catalogue
    fingerprint: str = KEYS["north"]
    pins: dict[str, str] = field(default_factory=lambda: {"south": KEYS["south"]})
    consortium: str = "trial"
    policy: Policy = Policy(auto_approve=PolicyLimits())  # noqa: RUF009 - settings are frozen
    balance: Balance = Balance(Fraction(10), Fraction(0), Fraction(0), Fraction(0))  # noqa: RUF009 - a balance is frozen

    def assess(self, spec: ReleaseSpec, now: Any = NOW) -> Assessment:
        known = (self.own, self.fingerprint, self.pins, self.consortium, self.policy, self.balance)
        return assess(spec, *known, now)


SPEC = build_spec(keys=KEYS)
KNOWN = Known(
    Catalogue(
        party="north",
        roster=SPEC.roster,
        rows=SPEC.rows,
        rows_per_subject=SPEC.rows_per_subject,
        alignment=SPEC.alignment,
        columns=TWO_PARTIES["north"],
    )
)

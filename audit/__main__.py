"""`python -m audit FOLDER`, or `make check-invariants FOLDER=...`: exit code 1 if anything does not agree."""

from __future__ import annotations

import sys
from pathlib import Path

from audit.invariants import audit
from audit.states import hospitals, office, published


def main(folder: Path) -> int:
    """Print what was looked at and every violation; the exit code."""
    parties, releases, known = hospitals(folder), published(folder), office(folder)
    print(f"{len(parties)} ledgers, {len(releases)} published copies, {len(known)} releases at the office")
    violations = audit(folder)
    for violation in violations:
        print(f"VIOLATION {violation.where}: {violation.what}")
    print("every invariant holds" if not violations else f"{len(violations)} violations")
    return 1 if violations or not parties else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m audit FOLDER")
    sys.exit(main(Path(sys.argv[1]).resolve()))

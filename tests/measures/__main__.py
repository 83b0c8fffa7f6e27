"""Prints every measure beside what it is to reach, and the places that are counted with `--places`."""

from __future__ import annotations

import sys

from tests.measures.table import COUNTS, reached, value


def main() -> None:
    """Print the table."""
    lines = reached()
    print(f"{'measure':52}{'today':>9}{'reach':>9}  holds")
    for name, count in COUNTS.items():
        found, reach = count(), lines[name].reach
        held = "yes" if value(found) <= reach else "no"
        print(f"{name:52}{round(value(found), 1):9,}{reach:9,}  {held}")
        if "--places" in sys.argv and not isinstance(found, int | float):
            print(*(f"    {place}" for place in found), sep="\n")


if __name__ == "__main__":
    main()

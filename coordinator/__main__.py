"""`python -m coordinator`."""

from coordinator.cli import main

main(prog_name="coordinator")

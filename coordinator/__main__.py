"""`python -m coordinator`."""

from coordinator.cli.main import main

main(prog_name="coordinator")

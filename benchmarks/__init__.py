"""Measurements against the figures that we mean to reach: `python -m benchmarks.NAME [--quick] [--json FILE]`.

Each prints and writes a list of {"figure", "value", "reach", "sense", "holds"}. Full runs are committed under results/, with
the machine they ran on; a figure that falls short is reported as such.
"""

from dprelease.threads import start_with_one

start_with_one()  # as every command does; a benchmark that imports numpy first would measure other threads than users have

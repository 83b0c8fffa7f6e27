"""Measurements against the figures that we mean to reach: `python -m benchmarks.NAME [--quick] [--json FILE]`.

Each prints and writes a list of {"figure", "value", "reach", "sense", "holds"}. Full runs are committed under results/, with
the machine they ran on; a figure that falls short is reported as such.
"""

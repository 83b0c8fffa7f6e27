"""Synthetic control: ridge weights of donors for a public target series, and the donors afterwards, both with noise."""

"""The states of releases and alignment runs."""

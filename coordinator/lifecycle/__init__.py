"""The states of a release."""

"""A release as evidence of the second moments of its rows."""

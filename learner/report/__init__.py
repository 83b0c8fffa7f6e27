"""A page about a fit."""

"""Commands of a hospital."""

"""Fits on noisy moments."""

"""Fits without declared bounds, beside two published methods that need none."""

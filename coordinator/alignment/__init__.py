"""Alignment runs at the office: hospitals agree on the patients that all of them have."""

"""Alignment runs at a hospital: consent, the session with the other hospitals, and the patients that it leaves."""

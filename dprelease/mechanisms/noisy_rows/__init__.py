"""Noisy rows: random mixtures of all patients' rows (``mixed``), or one noisy row for each patient (``rows``)."""

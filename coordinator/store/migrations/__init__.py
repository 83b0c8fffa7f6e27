"""Revisions of the database's layout, one file each in `versions`; `coordinator.store.migration` runs them."""

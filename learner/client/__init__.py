"""Pinned roots, downloads, the local store, spending."""

"""The layout that was called schema 3 before there were revisions; databases of it are the oldest that there are."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: a database has this layout, or it is made with the latest one."""

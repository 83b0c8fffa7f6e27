"""Alignment runs: their tasks, where they stand, and the signed consent of each hospital."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the two tables."""
    op.create_table(
        "alignments",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("task", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("since", sa.String(20), nullable=False),
        sa.Column("deadline", sa.String(20)),
        sa.Column("run_seconds", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "alignment_parties",
        sa.Column("run", sa.String(64), sa.ForeignKey("alignments.run"), primary_key=True),
        sa.Column("party", sa.String(64), sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("acceptance", sa.LargeBinary),
        sa.Column("accepted", sa.String(20)),
        sa.Column("declined", sa.String(20)),
        sa.Column("finished", sa.String(20)),
    )

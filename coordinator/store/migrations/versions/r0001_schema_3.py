"""The layout that was called schema 3 before there were revisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NAME, DIGEST, MOMENT = sa.String(64), sa.String(64), sa.String(20)


def upgrade() -> None:
    """Create its tables."""
    op.create_table(
        "meta",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "invites",
        sa.Column("secret_hash", DIGEST, primary_key=True),
        sa.Column("party", NAME, nullable=False),
        sa.Column("cap_mu2", sa.Text, nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.Column("used", MOMENT),
    )
    op.create_table(
        "parties",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("certificate", sa.Text, nullable=False),
        sa.Column("fingerprint", DIGEST, nullable=False, unique=True),
        sa.Column("serial", sa.String(64), nullable=False),
        sa.Column("cap_mu2", sa.Text, nullable=False),
        sa.Column("enrolled", MOMENT, nullable=False),
        sa.Column("revoked", MOMENT),
        sa.Column("last_seen", MOMENT),
    )
    op.create_table(
        "revocations",
        sa.Column("fingerprint", DIGEST, primary_key=True),
        sa.Column("party", NAME, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
    )
    op.create_table(
        "catalogues",
        sa.Column("party", NAME, sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("catalogue", sa.LargeBinary, nullable=False),
        sa.Column("reported", MOMENT, nullable=False),
    )
    op.create_table(
        "releases",
        sa.Column("digest", DIGEST, primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("joint", sa.Boolean, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("deadline", MOMENT),
        sa.Column("run_seconds", sa.Integer, nullable=False),
        sa.Column("publishing", MOMENT),
        sa.Column("manifest", DIGEST),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "participants",
        sa.Column("release", DIGEST, sa.ForeignKey("releases.digest"), primary_key=True),
        sa.Column("party", NAME, sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("approval", sa.LargeBinary),
        sa.Column("approved", MOMENT),
        sa.Column("declined", MOMENT),
        sa.Column("received", MOMENT),
    )
    op.create_table(
        "deals",
        sa.Column("session", DIGEST, primary_key=True),
        sa.Column("party", NAME, sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("release", DIGEST, sa.ForeignKey("releases.digest"), nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("release", "round", "party"),
    )
    op.create_table(
        "history",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("release", DIGEST, index=True),
        sa.Column("party", NAME),
        sa.Column("what", sa.Text, nullable=False),
    )

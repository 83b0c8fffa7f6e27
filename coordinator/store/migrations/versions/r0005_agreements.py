"""Releases and alignment runs in one table, and the consents of their parties in another.

A run that the hub had asked for counts as carried for all its hospitals, as before.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Fill the two tables from the four before; what was dealt refers to the new ones."""
    op.create_table(
        "agreements",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("joint", sa.Boolean, nullable=False),
        sa.Column("proposal", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("since", sa.String(20), nullable=False),
        sa.Column("deadline", sa.String(20)),
        sa.Column("run_seconds", sa.Integer, nullable=False),
        sa.Column("publishing", sa.String(20)),
        sa.Column("manifest", sa.String(64)),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "consents",
        sa.Column("agreement", sa.String(64), sa.ForeignKey("agreements.digest"), primary_key=True),
        sa.Column("party", sa.String(64), sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("consent", sa.LargeBinary),
        sa.Column("approved", sa.String(20)),
        sa.Column("declined", sa.String(20)),
        sa.Column("received", sa.String(20)),
        sa.Column("finished", sa.String(20)),
    )
    op.execute(
        "INSERT INTO agreements (digest, kind, title, joint, proposal, created, state, since, deadline, run_seconds, reason, "
        "publishing, manifest) SELECT digest, 'release', title, joint, spec, created, state, since, deadline, run_seconds, reason, "
        "publishing, manifest FROM releases"
    )
    op.execute(
        "INSERT INTO agreements (digest, kind, title, joint, proposal, created, state, since, deadline, run_seconds, reason) "
        "SELECT run, 'alignment run', '', false, task, created, state, since, deadline, run_seconds, reason FROM alignments"
    )
    op.execute("UPDATE agreements SET state = 'REJECTED' WHERE state = 'DECLINED'")
    agreements = sa.table("agreements", sa.column("digest"), sa.column("title"))
    for run, task in op.get_bind().execute(sa.text("SELECT run, task FROM alignments")).all():
        titled = agreements.update().where(agreements.c.digest == run)
        op.execute(titled.values(title=json.loads(bytes(task))["roster"]))
    op.execute(
        "INSERT INTO consents (agreement, party, position, consent, approved, declined, received) "
        "SELECT release, party, position, approval, approved, declined, received FROM participants"
    )
    op.execute(
        "INSERT INTO consents (agreement, party, position, consent, approved, declined, received, finished) "
        "SELECT run, party, position, acceptance, accepted, declined, carried, finished "
        "FROM alignment_parties JOIN alignments USING (run)"
    )
    op.execute("CREATE TABLE dealt AS SELECT * FROM deals")
    op.drop_table("deals")
    op.create_table(
        "deals",
        sa.Column("session", sa.String(64), primary_key=True),
        sa.Column("party", sa.String(64), sa.ForeignKey("parties.name"), primary_key=True),
        sa.Column("release", sa.String(64), sa.ForeignKey("agreements.digest"), nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("release", "round", "party"),
    )
    op.execute(
        "INSERT INTO deals (session, party, release, round, sealed) SELECT session, party, release, round, sealed FROM dealt"
    )
    for name in ("dealt", "alignment_parties", "alignments", "participants", "releases"):
        op.drop_table(name)

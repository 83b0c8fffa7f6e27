"""Since when the hub carries the messages of an alignment run; of one that is under way it is noted when the hub asks next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column."""
    with op.batch_alter_table("alignments") as alignments:
        alignments.add_column(sa.Column("carried", sa.String(20)))

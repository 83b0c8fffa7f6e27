"""Which protocol each hospital's node spoke last; the layout's version is alembic's table alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column, and take away the mark by which older software would know this layout as its own."""
    with op.batch_alter_table("parties") as parties:
        parties.add_column(sa.Column("protocol", sa.Integer))
    op.execute("DELETE FROM meta WHERE key = 'schema'")

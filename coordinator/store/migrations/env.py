"""Script that alembic runs: the revisions, inside the transaction that `coordinator.store.upkeep` opened.

These files are alembic's to load, so that the folder is no package. A layout goes forward only: who must go back restores the copy.
"""

from __future__ import annotations

from alembic import context

from coordinator.store.tables import layout

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=layout,  # what the last revision must lead to
    transactional_ddl=True,  # SQLite's too; alembic assumes a driver that commits by itself
)
with context.begin_transaction():
    context.run_migrations()

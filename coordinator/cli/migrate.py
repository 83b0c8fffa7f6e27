"""`coordinator migrate`: the database after an update of the software."""

from __future__ import annotations

from pathlib import Path

import click
from sqlalchemy import make_url

from coordinator.cli.options import with_settings
from coordinator.clock import utc_now
from coordinator.settings import SQLITE, CoordinatorSettings
from coordinator.store.copies import back_up
from coordinator.store.migration import migrate as to_latest
from coordinator.store.migration import pending
from coordinator.store.tables import REVISION


@click.command()
@click.option("--yes", is_flag=True, help="There is a copy of the PostgreSQL database: do not ask.")
@with_settings
def migrate(settings: CoordinatorSettings, yes: bool) -> None:
    """Bring the database to the layout that this version of the software wants, once; stop the server first.

    A copy of an SQLite database is made beside it before. Make one of PostgreSQL yourself, with pg_dump.

    \b
    Example:
      coordinator migrate --config office/coordinator.toml
    """
    found = pending(settings.database)
    if found is None:
        click.echo(f"the database has layout {REVISION} already; nothing is done")
        return
    if settings.database.startswith(SQLITE):
        path = Path(make_url(settings.database).database or "")
        copy = path.with_name(f"{path.stem}-layout-{found}-{utc_now():%Y%m%dT%H%M%SZ}{path.suffix}")
        back_up(settings.database, copy, utc_now())
        click.echo(f"{copy} is a copy of the database as it was; to go back: docs/coordinator.md, Upgrading")
    elif not yes:
        click.confirm("Is there a copy of this database (pg_dump) to go back to?", abort=True)
    to_latest(settings.database)
    click.echo(f"the database went from layout {found} to {REVISION}; next: coordinator serve")

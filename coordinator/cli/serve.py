"""`coordinator serve`, `migrate` and `backup`: the daemon, and the upkeep of its database."""

from __future__ import annotations

import logging
from pathlib import Path

import click
from sqlalchemy import make_url

from coordinator.cli.options import opened, with_settings
from coordinator.clock import utc_now
from coordinator.service.recovery import recall, take_into_use
from coordinator.service.server import Server
from coordinator.settings import SQLITE, CoordinatorSettings
from coordinator.store.tables import REVISION
from coordinator.store.upkeep import back_up, pending
from coordinator.store.upkeep import migrate as to_latest
from dprelease.cli.console import StopSignal, log_json_option, log_to_stderr
from dprelease.errors import InvalidInput
from dprelease.files.durable import can
from dprelease.spec_base import instant
from dprelease.threads import share_arena

log = logging.getLogger(__name__)


@click.command()
@click.option("--reflection/--no-reflection", default=None, help="Offer gRPC reflection; else as in the settings.")
@click.option("--verbose", is_flag=True, help="Log more.")
@log_json_option
@with_settings
def serve(settings: CoordinatorSettings, reflection: bool | None, verbose: bool, log_json: bool) -> None:
    """Serve parties and the hub until SIGTERM or Ctrl-C. May be killed and started again at any time.

    \b
    Example:
      coordinator serve --config office/coordinator.toml
    """
    log_to_stderr(verbose=verbose, as_json=log_json)
    stop = StopSignal()
    if reflection is not None:
        settings = settings.model_copy(update={"reflection": reflection})
    share_arena()  # else each worker keeps what it has freed: some 30 MiB after long messages
    server = Server(settings)
    log.info("ready: coordination on port %d, enrolment on port %d", server.port, server.enrolment_port)
    stop.wait()
    log.info("stopping")
    server.stop()
    log.info("stopped")


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


WHAT_NOW = """nobody can tell it these things again. Look for them yourself:
  - parties or a hub that were revoked since: coordinator party revoke, coordinator hub revoke
  - parties or a hub that joined or got a new key since: coordinator invite (ask the party for its cap), coordinator hub reissue
  - releases that were published since: coordinator backup recall FOLDER"""


@click.group()
def backup() -> None:
    """Copy the database, and what to do after a restore.

    \b
    Example:
      coordinator backup make /backup/coordinator-2026-03-01.sqlite
    """


@backup.command()
@click.argument("target", type=click.Path(path_type=Path))
@with_settings
def make(settings: CoordinatorSettings, target: Path) -> None:
    """Copy the SQLite database into the new file TARGET; the server may run meanwhile.

    \b
    Example:
      coordinator backup make /backup/coordinator-2026-03-01.sqlite
    """
    back_up(settings.database, target, utc_now())
    click.echo(f"{target} is a copy; keep it with root.key, coordinator.key and coordinator.toml")


@backup.command()
@click.option("--latest", is_flag=True, help="Nothing happened since the copy was made: end nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def restored(settings: CoordinatorSettings, latest: bool, yes: bool) -> None:
    """Take a restored database into use, before the server starts: open invites and releases under way end.

    \b
    Example:
      coordinator backup restored
    """
    with opened(settings, copy=True) as store:
        if latest:
            with store.writing() as tx:
                tx.copies.clear()
            click.echo("the database is in use again, as it was")
            return
        with store.reading() as tx:
            going = len([release for release in tx.releases.open() if release.record.publishing is None])
            invites = len(tx.members.invitations(utc_now()))
        if not yes:
            click.confirm(f"End {going} releases under way and {invites} open invites?", abort=True)
        found = take_into_use(store, utc_now())
    for digest in found.ended:
        click.echo(f"release {digest[:12]} is over: it may have ended, or gone on, since the copy was made")
    for name in found.invited:
        click.echo(f"the invite of {name} is void")
    click.echo(f"this database knows nothing of what happened after {instant(found.since)}")
    click.echo(WHAT_NOW)


@backup.command("recall")
@click.argument("published", type=click.Path(path_type=Path))
@with_settings
def recall_published(settings: CoordinatorSettings, published: Path) -> None:
    """Take back what was published from signed manifests in the folder PUBLISHED: a copy of the hub's, or a mirror's.

    \b
    Example:
      coordinator backup recall hub/storage/published
    """
    with can("read", settings.root):
        root = settings.root.read_text(encoding="ascii")
    if not published.is_dir():
        raise InvalidInput(f"{published} is no folder; copy storage/published from the hub or a mirror")
    with opened(settings) as store:
        for name, words in recall(store, root, published, utc_now()):
            click.echo(f"release {name[:12]}: {words}")

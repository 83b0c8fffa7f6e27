"""`learner deposit`: a release as files that a repository for research data takes."""

from __future__ import annotations

from pathlib import Path

import click

from dprelease.cli.printing import json_option
from dprelease.document.document import Document, Table
from dprelease.files.extras import require
from learner.cli.releases import from_option, print_about
from learner.client.library import open_release

NOTES = (
    "Nothing was sent. Upload every file, and take the fields of the form from metadata.json.",
    "A reader unpacks the archive and runs learner verify on its folder. Compare the root with what the consortium says elsewhere.",
)


@click.command("deposit")
@click.argument("release", metavar="ID|DIR")
@click.argument("folder", type=click.Path(path_type=Path))
@from_option
@json_option
@click.pass_obj
def deposit_release(home: Path, release: str, folder: Path, name: str | None, as_json: bool) -> None:
    """Write a release as files for a repository such as Zenodo, after verifying it.

    The new FOLDER has the signed release as one archive, its tables, README and descriptions, the consortium's root,
    metadata.json (the body of a draft in InvenioRDM, the software of Zenodo) and SHA256SUMS. Nothing is sent.

    \b
    Example:
      learner deposit 3f9a12c4 deposit/
    """
    require("jinja2", "learner")
    from dprelease.publication.deposit import write_deposit  # it loads jinja2

    opened = open_release(home, release, name)
    written = write_deposit(opened.folder, opened.release, opened.consortium.root, folder)
    sizes = [(each, (folder / each).stat().st_size, digest) for each, digest in written.items()]
    facts = {"release": opened.release.digest, "folder": str(folder)}
    files = Table.of("files", ("name", "bytes", "sha256"), sizes)
    print_about([opened], Document(opened.release.spec.title, facts, (files,), NOTES), as_json=as_json)

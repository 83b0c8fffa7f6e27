"""A throw-away PostgreSQL server of the machine's own binaries, reached through a socket in a folder of its own.

The server refuses to run as root: where tests do, it runs as the user that Debian's packages made for it.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest

USER, PASSWORD = "postgres", "not a secret"
_SETTINGS = ("listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB")


@dataclass(frozen=True)
class Cluster:
    """A running server.

    Attributes:
        socket: folder of its socket.
        binaries: folder of its programs.
    """

    socket: Path
    binaries: Path
    _made: Iterator[int] = field(default_factory=count, repr=False)

    def database(self) -> str:
        name = f"test_{next(self._made)}"
        where = ("-h", str(self.socket), "-U", USER)
        subprocess.run([self.binaries / "createdb", *where, name], env={"PGPASSWORD": PASSWORD}, check=True)
        return self.url(name)

    def url(self, name: str, user: str = f"{USER}:{quote(PASSWORD)}") -> str:
        return f"postgresql://{user}@/{name}?host={quote(str(self.socket), safe='')}"

    def source(self, url: str) -> dict[str, str]:
        """A database's URL and password as party.toml has them."""
        kept = self.socket / "kept"
        kept.write_text(PASSWORD)
        kept.chmod(0o600)
        return {"url": url.replace(f":{quote(PASSWORD)}@", "@"), "password_file": str(kept)}


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A new server for as long as the context lasts; skips the test where there are no programs, or nobody to run them as."""
    debian = map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))
    found = shutil.which("initdb", path=os.pathsep.join([os.environ.get("PATH", ""), *debian]))
    if found is None:
        pytest.skip("PostgreSQL's programs are not here (initdb, pg_ctl): apt-get install postgresql")
    binaries = Path(found).resolve().parent
    with TemporaryDirectory(
        prefix="pg", ignore_cleanup_errors=True
    ) as name:  # short: a socket's path has 107 bytes at most
        folder = Path(name)
        owner = _owner(folder)

        def run(program: str, *arguments: str) -> None:
            subprocess.run([binaries / program, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, **owner)

        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        data = str(folder / "data")
        run("initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile=password", "-E", "UTF8", "--no-sync")
        options = " ".join(f"-c {setting}" for setting in _SETTINGS)
        run("pg_ctl", "start", "-w", "-D", data, "-l", "server.log", "-o", f"{options} -k {folder}")
        # What ends the server waits for the end of a pipe: that comes also where tests are killed.
        stop = f"cat; {binaries / 'pg_ctl'} stop -w -D {data} -m immediate; rm -rf {folder}"
        with subprocess.Popen(["sh", "-c", stop], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **owner):
            yield Cluster(folder, binaries)


def _owner(folder: Path) -> dict[str, str | int | list[int]]:
    """Whom to run the server as, to whom the folder is given."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("tests run as root, as which PostgreSQL does not, and there is no user postgres to run it as")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

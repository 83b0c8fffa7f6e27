"""The web server of deploy/nginx.conf: pages over HTTPS, and a mirror that `dprelease.load` reads."""

import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError

import pytest

import dprelease
from demo.consortium import hold_ports, wait_for
from dprelease.identity.signing import private_key_pem
from learner.hub.pages import write_list
from learner.hub.storage import Storage
from tests.learner.world import World, publish_to
from tests.support.certificates import Authority

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CONF = Path(__file__).parents[2] / "deploy" / "nginx.conf"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")


@pytest.fixture
def url(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where nginx serves a hub's storage by our file, with another port, folder and certificate."""
    with closing(Storage(tmp_path / "hub", 1 << 30)) as storage:
        published = publish_to(storage, world, world.sealed("Served", mechanism="moments", rows=400)).path
        write_list(storage)
    (published / ".half").write_text("written")
    member = (authority := Authority()).member("web", None)
    (tmp_path / "root.pem").write_text(authority.root)
    (tmp_path / "web.pem").write_text(member.certificate)
    (tmp_path / "web.key").write_bytes(private_key_pem(member.key))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.pem"))
    ports, held = hold_ports(("web",))
    server = CONF.read_text()
    for old, new in (
        ("listen 443", f"listen 127.0.0.1:{ports['web']}"),
        ("/srv/trial", published.parent),
        ("/etc/ssl/certs/trial.pem", tmp_path / "web.pem"),
        ("/etc/ssl/private/trial.key", tmp_path / "web.key"),
    ):
        assert old in server
        server = server.replace(old, str(new))
    folders = " ".join(f"{name}_temp_path {tmp_path};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; master_process off; error_log stderr; pid {tmp_path}/nginx.pid;\n"
        f"events {{}}\nhttp {{ access_log off; {folders} types {{ text/html html; }}\n{server}}}\n"
    )
    with subprocess.Popen([str(NGINX), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]) as running:
        wait_for(lambda: (tmp_path / "nginx.pid").exists() or running.poll() is not None, 30, "nginx")
        for each in held:
            each.close()
        yield f"https://localhost:{ports['web']}/{published.name}"
        running.terminate()


def test_pages_and_releases_come_over_https(url: str, world: World, tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(tmp_path / "root.pem"))
    for at in (url, url.rpartition("/")[0]):
        with urllib.request.urlopen(f"{at}/", context=trusting) as page:  # noqa: S310 - https
            assert page.headers["Content-Type"] == "text/html"
            assert page.headers["Content-Security-Policy"].startswith("default-src 'none';")
            assert b"Served" in page.read()
    with pytest.raises(HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/.half", context=trusting)  # noqa: S310 - https
    (tmp_path / "consortium.pem").write_text(world.root.certificate)
    assert "400 patients" in repr(dprelease.load(url, root=tmp_path / "consortium.pem", home=tmp_path / "home"))

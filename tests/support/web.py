"""Real web servers on loopback that serve a folder: Python's own, which knows no ranges, one that does, and faulty ones."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Web:
    """A web server that runs.

    Attributes:
        url: where.
        asked: path and Range header of every request.
        fault: if set, answers a request in the handler's stead, unless it returns False.
        released: lets go of everything that stands still, at the end of the test.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str | None]] = []
        self.fault: Callable[[Handler], object] = lambda handler: False
        self.released = threading.Event()

    def ranges(self, of: str) -> list[str | None]:
        """What was asked of paths that end so."""
        return [wanted for path, wanted in self.asked if path.endswith(of)]


class Handler(SimpleHTTPRequestHandler):
    """Python's own web server: whole files, with status 200."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, web: Web, **named: Any) -> None:
        self.web = web
        super().__init__(*arguments, **named)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.web.asked.append((self.path, self.headers["Range"]))
        if self.web.fault(self) is False:
            self.serve()

    def serve(self) -> None:
        super().do_GET()

    @property
    def content(self) -> bytes:
        return Path(self.translate_path(self.path)).read_bytes()

    def answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        """Any answer at all; a length of its own where it is to lie, below 0 for none."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is None or length >= 0:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None:
            self.close_connection = True


class RangeHandler(Handler):
    """The part of a file that is asked for, with status 206."""

    def serve(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if wanted is None:
            super().serve()
            return
        content, start = self.content, int(wanted[1])
        if start >= len(content):
            self.answer(416, Content_Range=f"bytes */{len(content)}")
        else:
            where = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start:], Content_Range=where)


@contextmanager
def serving(folder: Path, handler: type[Handler] = RangeHandler) -> Iterator[Web]:
    """A server of a folder, until the end of the block."""
    web = Web()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, web=web, directory=str(folder)))
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients hang up on faulty answers
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.released.set()
        server.shutdown()
        server.server_close()
        thread.join()

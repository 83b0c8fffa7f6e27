"""A listener that renews its certificate whenever a line comes in: `python -m tests.hostile.servers.bare FOLDER`.

The folder has root.pem and two servers, 0 and 1, each as certificate and key; it begins with 0.
"""

import sys
from itertools import cycle
from pathlib import Path

from dprelease.wire.listener import listen
from dprelease.wire.transport import Credentials


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    root = (folder / "root.pem").read_bytes()
    pairs = [Credentials(root, (folder / f"{n}.pem").read_bytes(), (folder / f"{n}.key").read_bytes()) for n in (0, 1)]
    listener = listen("127.0.0.1:0", pairs[0], [], mutual=False)
    _say(str(listener.port))
    for credentials, _ in zip(cycle((pairs[1], pairs[0])), sys.stdin, strict=False):
        listener.present(credentials)
        _say("presented")
    listener.stop(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

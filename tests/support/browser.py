"""Headless Chromium: pages opened in frames of several widths, and what a script measures in each of them.

A window of Chromium has a least width, and a frame has none: media queries in it see the width of the frame.
"""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WANTED = "Chromium is not here: apt-get install chromium"
WIDTHS = (360, 800, 1600)
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_MEASURED = re.compile(r'<html[^>]* data-measured="([^"]*)"')


@dataclass(frozen=True)
class Opened:
    """What Chromium made of a page: its elements as text, and what its console said."""

    elements: str
    console: tuple[str, ...]


def chromium(page: Path, *, dark: bool = False) -> Opened:
    """Open a file and wait for its scripts, in a profile of its own beside it."""
    scheme = 0 if dark else 1
    words = (
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    )
    words += (
        "--no-first-run",
        f"--user-data-dir={page.parent / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}",
    )
    words += (
        "--enable-logging=stderr",
        "--window-size=1600,1200",
        "--virtual-time-budget=60000",
        "--dump-dom",
        page.as_uri(),
    )
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=240)
    return Opened(done.stdout, tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line))


def measured(
    folder: Path, pages: Mapping[str, str], script: str, *, dark: bool = False, sources: Sequence[Path] = ()
) -> dict:
    """What a script finds in copies of pages without their policy, by the page's name and its width.

    Args:
        folder: empty, for the copies.
        pages: name to HTML.
        script: body of an asynchronous function without arguments, run in each frame, that returns what JSON has.
        dark: whether the reader prefers dark pages.
        sources: scripts that run before it.
    """
    loaded = "".join(f'<script src="{path.as_uri()}"></script>' for path in sources)
    run = f"<script>window.found = (async () => {{ {script} }})();</script>"
    frames = []
    for name, text in pages.items():
        copy, count = _POLICY.subn("", text)
        assert count == 1, f"{name} has no policy"
        copy = html.escape(copy.replace("</body>", f"{loaded}{run}</body>"))
        for width in WIDTHS:
            frames.append(
                f'<iframe name="{name} {width}" style="width:{width}px;height:900px" srcdoc="{copy}"></iframe>'
            )
    gather = """addEventListener("load", async () => {
      const found = {};
      for (const frame of document.querySelectorAll("iframe")) found[frame.name] = await frame.contentWindow.found;
      document.documentElement.dataset.measured = JSON.stringify(found);
    });"""
    page = folder / "frames.html"
    page.write_text(f"<!DOCTYPE html><html><body>{''.join(frames)}<script>{gather}</script></body></html>")
    opened = chromium(page, dark=dark)
    found = _MEASURED.search(opened.elements)
    assert found is not None, f"no script has ended: {opened.console}"
    return json.loads(html.unescape(found[1]))

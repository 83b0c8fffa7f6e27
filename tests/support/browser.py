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
from tempfile import TemporaryDirectory

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WANTED = "Chromium is not here: apt-get install chromium"
WIDTHS = (360, 800, 1600)
LAYOUT = Path(__file__).with_name("layout.js")
"""A script whose `layout()` tells what keeps somebody from reading a page."""
_GAP = 20
_SHEET = f"margin:0;display:flex;align-items:start;gap:{_GAP}px;background:#888"
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_MEASURED = re.compile(r'<html[^>]* data-measured="([^"]*)"')


@dataclass(frozen=True)
class Opened:
    """What Chromium made of a page: its elements as text, and what its console said."""

    elements: str
    console: tuple[str, ...]


def chromium(page: Path, *, dark: bool = False, picture: tuple[Path, int, int] | None = None) -> Opened:
    """Open a file and wait for its scripts, in a profile of its own beside it.

    Args:
        page: the file.
        dark: whether the reader prefers dark pages.
        picture: file to write a screenshot to, its width and its height.
    """
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
    to, width, height = picture or (None, 1600, 1200)
    words += (
        "--enable-logging=stderr",
        f"--window-size={width},{height}",
        "--virtual-time-budget=60000",
        f"--screenshot={to}" if to else "--dump-dom",
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
        copy = copy.replace("</body>", f"{loaded}{run}</body>")
        frames += [_frame(f"{name} {width}", copy, width, 900) for width in WIDTHS]
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


def pictured(folder: Path, name: str, text: str, heights: Sequence[int], *, dark: bool = False) -> Path:
    """A screenshot of a whole page at all widths, beside one another.

    Args:
        folder: for the screenshot.
        name: of the page.
        text: its HTML.
        heights: of the page at each of `WIDTHS`.
        dark: whether the reader prefers dark pages.
    """
    with TemporaryDirectory() as place:
        page, to = Path(place) / "frames.html", folder / f"{name} {'dark' if dark else 'light'}.png"
        frames = [_frame(name, text, *size) for size in zip(WIDTHS, heights, strict=True)]
        page.write_text(f'<!DOCTYPE html><html><body style="{_SHEET}">{"".join(frames)}</body></html>')
        chromium(page, dark=dark, picture=(to, sum(WIDTHS) + (len(WIDTHS) - 1) * _GAP, max(heights)))
    return to


def _frame(name: str, text: str, width: int, height: int) -> str:
    style = f"width:{width}px;height:{height}px;border:0;flex:none"
    return f'<iframe name="{html.escape(name)}" style="{style}" srcdoc="{html.escape(text)}"></iframe>'
